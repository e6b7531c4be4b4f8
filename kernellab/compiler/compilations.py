"""What Triton's compiler made, as a `Compilation`:
its stages, and how each question about it is answered.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab import triton_api
from kernellab.compiler.machine_code import resources
from kernellab.compiler.machine_code.decoding import decode, spill_sites
from kernellab.compiler.machine_code.launch_limits import check_launchable
from kernellab.compiler.machine_code.occupancy import occupancy_of
from kernellab.compiler.machine_code.sass import disassemble
from kernellab.compiler.source_map import read_source_map
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import CompileError, SourcePosition
from kernellab.records import (
    Compilation,
    PassRun,
    Resources,
    Specialization,
    Stage,
    Stages,
    Target,
)
from kernellab.triton_api import IrText

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from kernellab.records import Analyst


STAGE_LANGUAGES = {
    "ttir": "mlir",
    "glir": "mlir",
    "ttgir": "mlir",
    "llir": "llvm",
    "ptx": "ptx",
    "cubin": "elf",
    "amdgcn": "amdgcn",
    "hsaco": "elf",
}


def compilation_of(
    kernel: Any,
    call: BoundCall,
    target: Target,
    compiled: triton_api.CompiledKernel,
    passes: tuple[PassRun, ...],
) -> Compilation:
    """The record of a kernel that was compiled.

    Raises:
        CompileError: no launch could ever start it.
    """
    check_launchable(kernel, compiled, target, passes)
    stages = _stages("".join(kernel.raw_src), compiled)
    return Compilation(
        kernel=kernel.__name__,
        target=target,
        specialization=call.specialization,
        options={name: compiled.metadata[name] for name in triton_api.option_names(target)},
        stages=stages,
        read_resources=resource_reader(compiled, target),
        passes=passes,
        open_module=_open_module,
        make_analyst=functools.partial(_make_analyst, kernel, call, target, compiled.assembler_log),
        write_record=_write_record,
        read_source_map=functools.partial(
            read_source_map, stages, triton_api.definition_of(kernel), target, compiled.metadata
        ),
        read_source_now=functools.partial(triton_api.source_now, kernel),
        read_instructions=decode,
        read_spill_sites=spill_sites,
        read_occupancy=occupancy_of,
    )


def compilation_of_text(
    given: IrText,
    target: Target,
    compiled: triton_api.CompiledKernel,
    passes: tuple[PassRun, ...],
) -> Compilation:
    """The record of an IR text that was compiled on: no kernel of Python is behind it."""
    compiled = replace(compiled, stages={given.language: given.text, **compiled.stages})
    stages = _stages("", compiled)
    return Compilation(
        kernel=str(compiled.metadata.get("name", given.file)),
        target=target,
        specialization=Specialization({}, {}, {}),
        options={name: compiled.metadata[name] for name in triton_api.option_names(target)},
        stages=stages,
        read_resources=resource_reader(compiled, target),
        passes=passes,
        open_module=_open_module,
        write_record=_write_record,
        read_source_map=functools.partial(
            read_source_map, stages, SourcePosition(given.file, 1), target, compiled.metadata
        ),
        read_instructions=decode,
        read_spill_sites=spill_sites,
        read_occupancy=occupancy_of,
    )


def _open_module(compilation: Compilation, name: str) -> ModuleOp:
    # xDSL takes a while to import, and most compilations need none of it.
    from kernellab.compiler.modules import open_module

    return open_module(compilation, name)


def _write_record(compilation: Compilation, path: str | os.PathLike[str]) -> os.PathLike[str]:
    from kernellab.compiler.files.archive import save

    return save(compilation, path)


def _make_analyst(
    kernel: Any, call: BoundCall, target: Target, assembler_log: str | None
) -> Analyst:
    from kernellab.compiler.analyses.analyst import CompilerAnalyst
    from kernellab.triton_api.analyses import diagnose

    return CompilerAnalyst(
        functools.partial(diagnose, kernel, call.specialization, target, call.options),
        assembler_log=assembler_log,
    )


def _stages(source: str, compiled: triton_api.CompiledKernel) -> Stages:
    """The kernel's source where there is one, the compiler's stages, and SASS after a cubin."""
    stages: dict[str, Stage | Callable[[], Stage]] = {}
    if source:
        stages["source"] = Stage("source", "python", source)
    for name, content in compiled.stages.items():
        stages[name] = Stage(name, _language_of(name, content), content)
    cubin = compiled.stages.get("cubin")
    if isinstance(cubin, bytes):
        stages["sass"] = functools.partial(_sass_stage, cubin)
    return Stages(stages)


def _language_of(stage: str, content: str | bytes) -> str:
    if stage == "llir" and isinstance(content, str) and re.match(r"(?:#|module\b)", content):
        return "mlir"  # Stopped before LLVM: this is MLIR's LLVM dialect.
    return STAGE_LANGUAGES.get(stage, "text")


def _sass_stage(cubin: bytes) -> Stage:
    return Stage("sass", "sass", disassemble(cubin))


def resource_reader(compiled: triton_api.CompiledKernel, target: Target) -> Callable[[], Resources]:
    """Reads the resources of what Triton compiled: from the cubin, or from AMD's assembly."""
    if not {"cubin", "amdgcn"} & set(compiled.stages):
        return _no_resources
    shared = int(compiled.metadata["shared"])
    cubin = compiled.stages.get("cubin")
    if isinstance(cubin, bytes):
        columns = int(compiled.metadata.get("tmem_size") or 0)
        return functools.partial(
            resources.read_nvidia,
            cubin,
            str(compiled.metadata["name"]),
            shared,
            columns,
            functools.partial(_assembler_log, compiled, target),
        )
    return functools.partial(resources.read_amd, str(compiled.stages["amdgcn"]), shared)


def _assembler_log(compiled: triton_api.CompiledKernel, target: Target) -> str | None:
    """What `ptxas -v` said of a kernel; it is asked where nobody listened,
    and None where it has nothing to read, or refuses it.
    """
    ptx = compiled.stages.get("ptx")
    if compiled.assembler_log is not None or not isinstance(ptx, str):
        return compiled.assembler_log
    from kernellab.triton_api import analyses

    try:
        return analyses.assembler_log(ptx, target, compiled.metadata)
    except analyses.PTXASError:
        return None


def _no_resources() -> Resources:
    raise CompileError(
        "the compilation was stopped before there was machine code to read resources from"
    )
