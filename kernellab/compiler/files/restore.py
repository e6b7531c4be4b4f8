"""Compilations put together from what was kept: stages, passes, and what was read from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kernellab.compiler.analyses.analyst import CompilerAnalyst
from kernellab.compiler.machine_code.decoding import decode, spill_sites
from kernellab.compiler.machine_code.occupancy import occupancy_of
from kernellab.compiler.modules import ask_worker, open_module
from kernellab.errors import ArgumentError
from kernellab.records import (
    Compilation,
    PassRun,
    Resources,
    SourceMap,
    Specialization,
    Stage,
    Stages,
    Target,
)
from kernellab.records.remarks import Remark


def restore_compilation(
    *,
    kernel: str,
    target: Target,
    specialization: Specialization,
    options: Mapping[str, Any],
    stages: Mapping[str, Stage | Callable[[], Stage]],
    passes: tuple[PassRun, ...],
    read_resources: Callable[[], Resources] | None,
    read_source_map: Callable[[], SourceMap] | None,
    remarks: tuple[Remark, ...] | None,
) -> Compilation:
    """A compilation whose kernel is not at hand:
    what can be found out from its stages and passes is found out as ever.

    None stands for what was not kept: asking for it is an error that says so.
    MLIR reads the texts in the worker process: a file may hold anything.
    """
    has_code = any(name in stages for name in ("sass", "amdgcn"))
    return Compilation(
        kernel=kernel,
        target=target,
        specialization=specialization,
        options=options,
        stages=Stages(stages),
        read_resources=read_resources or partial(_not_kept, kernel),
        passes=passes,
        open_module=partial(open_module, ask=ask_worker),
        make_analyst=lambda: CompilerAnalyst(remarks=remarks, ask=ask_worker),
        write_record=_write,
        read_source_map=read_source_map,
        read_instructions=decode if has_code else None,
        read_spill_sites=spill_sites if has_code else None,
        read_occupancy=occupancy_of,
    )


def _not_kept(kernel: str) -> Resources:
    raise ArgumentError(f"The record of {kernel!r} holds no machine code to read resources from.")


def _write(compilation: Compilation, path: str | os.PathLike[str]) -> os.PathLike[str]:
    from kernellab.compiler.files.archive import save

    return save(compilation, path)
