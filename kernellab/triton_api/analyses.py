"""What Triton's compiler can report about a module besides compiling it: the private names for
analyses.

Its diagnostics (MLIR prints remarks only when an environment variable says so), the barriers
that its membar analysis finds necessary, and the shared memory that one operation takes.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton import knobs
from triton._C import libtriton
from triton.backends.compiler import Language
from triton.compiler.code_generator import CodeGenerator
from triton.language import core as language

from kernellab import triton_api
from kernellab.common.patches import replaced
from kernellab.errors import SourcePosition
from kernellab.records import Specialization, Target
from kernellab.triton_api.pipeline import list_passes, run_up_to_llvm
from kernellab.triton_api.stages import freed_after, front_end_module, stage_functions


@dataclass(frozen=True)
class PythonWarning:
    """A warning that Triton's front end or backend gave through Python's `warnings`."""

    words: str
    category: str
    file: str
    line: int
    read: tuple[SourcePosition, ...] = ()
    """What the front end was reading when it warned:
    the innermost function's place, then its caller's, and so on."""


@dataclass(frozen=True)
class Diagnosis:
    """The compiler's messages about a kernel while it compiles it."""

    printed: str
    """MLIR's remarks, warnings and notes, each with its place."""
    warnings: tuple[PythonWarning, ...]


_DIAGNOSTICS_VARIABLE = "MLIR_ENABLE_DIAGNOSTICS"


def diagnose(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> Diagnosis:
    """Run the front end and every pass of MLIR once more, with MLIR's remarks switched on.

    Nothing is written to Triton's cache, the environment is as before afterwards,
    and nothing is shown.

    Raises:
        CompileError, OptionError: as for `triton_api.compile_kernel`.
    """
    launch_options = triton_api.options_of_launch(kernel, options)
    triton_api.check_options(launch_options, target)
    backend = triton_api.backend_for(target)
    source = triton_api.make_source(kernel, specialization)
    with triton_api.translated_errors(kernel, target) as output, _remarks_printed():
        with _warnings_caught() as caught:
            parsed = backend.parse_options(launch_options)
            with freed_after(front_end_module(source, target, parsed)) as module:
                run_up_to_llvm(backend, parsed, source.language == Language.GLUON, module)
        printed = output.take()
    return Diagnosis(printed, tuple(caught))


@contextmanager
def _warnings_caught() -> Iterator[list[PythonWarning]]:
    """Keep each of Python's warnings, with what the front end reads when it is given."""
    caught: list[PythonWarning] = []

    def keep(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object
    ) -> None:
        read = tuple(_being_read())
        caught.append(PythonWarning(str(message), category.__name__, filename, lineno, read))

    # Triton 3.9 gives some warnings once per process, which was when the kernel was compiled.
    warned_always = getattr(getattr(language, "warn_once", None), "__wrapped__", None)
    with warnings.catch_warnings(), replaced(language, warn_once=warned_always):
        warnings.simplefilter("always")
        warnings.showwarning = keep  # type: ignore[assignment]
        yield caught


def _being_read() -> Iterator[SourcePosition]:
    """Where the front end is in the functions that it reads, the innermost first."""
    frame, last = sys._getframe(1), None
    while frame is not None:
        reader = frame.f_locals.get("self")
        if isinstance(reader, CodeGenerator) and reader is not last:
            last, node = reader, reader.cur_node
            if isinstance(node, ast.expr | ast.stmt):
                line = int(reader.begin_line + node.lineno)
                yield SourcePosition(str(reader.file_name), line, node.col_offset)
        frame = frame.f_back  # type: ignore[assignment]


@contextmanager
def _remarks_printed() -> Iterator[None]:
    """Let MLIR print remarks: it reads the variable at every run of a pass manager."""
    before = os.environ.get(_DIAGNOSTICS_VARIABLE)
    os.environ[_DIAGNOSTICS_VARIABLE] = "warnings,remarks"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DIAGNOSTICS_VARIABLE]
        else:
            os.environ[_DIAGNOSTICS_VARIABLE] = before


def assembler_log(ptx: str, target: Target, options: Mapping[str, Any]) -> str:
    """The output of `ptxas -v` for a PTX text: registers, spills, warnings.
    The backend's own stage runs it.

    Raises:
        PTXASError: ptxas refuses the text.
        MachineError: ptxas is missing, or could not run.
    """
    backend = triton_api.backend_for(target)
    known = triton_api.backend_options(target)
    # Of a warp-specialized kernel num_warps counts all groups, which need not be a power of two;
    # ptxas has no use for it.
    parsed = backend.parse_options(
        {name: options[name] for name in options if name in known and name != "num_warps"}
    )
    with (
        triton_api.translated_machine_errors("ptxas cannot run"),
        knobs.nvidia.scope(),
        io.StringIO() as said,
        contextlib.redirect_stdout(said),
    ):
        knobs.nvidia.dump_ptxas_log = True
        stage_functions(backend, parsed)["cubin"](ptx, {})
        return said.getvalue()


def with_barriers(text: str, target: Target) -> str:
    """A module, in generic form, with the barriers that Triton's membar analysis finds necessary
    in shared memory.

    Args:
        text: a module after shared memory is allocated and before it becomes LLVM's dialect. The
            analysis allocates once more, with Triton's common estimate of scratch space in place of
            the backend's own; compare the barriers' lines with those of the finished code before
            you rely on them.
        target: what it is compiled for.
    """
    with freed_after(triton_api.parse_mlir(text, target)) as module:
        allocation = libtriton.passes.analysis.allocation(module)
        libtriton.passes.analysis.membar(allocation).run()
        return triton_api.generic_text(module)


def allocated_bytes(text: str, target: Target, arguments: tuple[Any, ...]) -> int:
    """The shared memory, in bytes, that a module takes:
    the backend's own allocation pass is run on it.

    Args:
        text: the module.
        target: what it is compiled for.
        arguments: the arguments of the backend's pass, as a recording shows them; () for those of
            another kernel's.
    """
    arguments = arguments or _usual_arguments(target)
    with freed_after(triton_api.parse_mlir(text, target)) as module:
        manager = libtriton.ir.pass_manager(module.context)
        if target.backend == "cuda":
            libtriton.nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, *arguments)
        else:
            libtriton.amd.passes.ttgpuir.add_allocate_shared_memory(manager, *arguments)
        manager.run(module, "allocation")
        return int(module.get_int_attr("ttg.shared") or 0)


def tensor_memory_places(text: str, target: Target) -> tuple[list[tuple[int, int]], int]:
    """Row and column where each buffer of a module in tensor memory begins,
    and the columns that it asks for.

    The backend's own allocation pass is run on the module.
    Columns are rounded up to what a program can ask for, if there are as many.
    """
    with freed_after(triton_api.parse_mlir(text, target)) as module:
        manager = libtriton.ir.pass_manager(module.context)
        libtriton.nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(manager)
        manager.run(module, "allocation")
        printed, size = str(module), module.get_int_attr("ttg.tensor_memory_size")
    columns, rows = (
        [int(offset) for offset in re.findall(rf"tensor_memory_{name}_offset = (\d+)", printed)]
        for name in ("col", "row")
    )
    return list(zip(rows, columns, strict=True)), int(size or 0)


@functools.cache
def _usual_arguments(target: Target) -> tuple[Any, ...]:
    """The arguments of the allocation pass with the backend's usual options, by version."""
    listed = list_passes(target, {})
    return next(call.arguments for call in listed if call.name in _ALLOCATIONS)


_ALLOCATIONS = ("allocate_shared_memory", "allocate_shared_memory_nv")
