"""A compilation's modules as xDSL objects: what `Compilation.module` gives."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

from xdsl.dialects.builtin import ModuleOp

from kernellab import triton_api
from kernellab.compiler.modules.mlir_queries import Query, query_here
from kernellab.errors import ArgumentError, nearest
from kernellab.ir.syntax import read_module
from kernellab.records import Compilation

_STAGES_OF_MLIR = ("ttir", "ttgir")
_LABELS_SHOWN = 5


def open_module(compilation: Compilation, name: str, query: Query = query_here) -> ModuleOp:
    """The module of a stage ("ttgir"), or after a pass ("ttgir.coalesce", "ttgir.canonicalizer#2"),
    made anew for each call.

    Raises:
        ArgumentError: there is no such stage or pass, or what it made is not a module of MLIR.
        KernelLabError: MLIR cannot read the text.
        WorkerError: MLIR died of the text, in the worker process.
    """
    stages, target = compilation.stages, compilation.target
    texts = {stage: stages[stage].text for stage in _STAGES_OF_MLIR if stage in stages}
    if name in texts:
        return read_module(query(triton_api.generic_form, texts[name], target))
    # Past MLIR a step counts no ops: LLVM IR, PTX and SASS are texts of other languages.
    modules = {run.label: run.text for run in compilation.passes if run.op_counts_after}
    if name in modules:
        return read_module(query(triton_api.generic_form, modules[name].read(), target))
    if name in stages:
        problem = f"The stage {name!r} is not MLIR: there is no module to open."
        advice = ""
    else:
        problem = f"This compilation has no stage and no pass {name!r} that made MLIR."
        advice = nearest(str(name), [*texts, *modules])
    raise ArgumentError(problem, advice=f"{advice} {_what_opens(texts, modules)}".strip())


def _what_opens(stages: Iterable[str], labels: Collection[str]) -> str:
    opens = f"Stages that open: {', '.join(stages)}."
    if not labels:
        return f'{opens} Passes open too, of a compilation with record="passes".'
    some = ", ".join(itertools.islice(labels, _LABELS_SHOWN))
    return f"{opens} Passes open too, by the labels in .passes: {some}, ..."
