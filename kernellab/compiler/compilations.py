"""What Triton's compiler made, as a `Compilation` and its `Stages`: SASS follows a cubin."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kernellab import triton_api
from kernellab.compiler.machine_code.launch_limits import check_launchable
from kernellab.compiler.machine_code.resources import resource_reader
from kernellab.compiler.machine_code.sass import disassemble
from kernellab.compiler.providers import KernelProvider, TextProvider
from kernellab.compiler.source_map import read_source_map
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import SourcePosition
from kernellab.records import Compilation, PassRun, SourceMap, Specialization, Stage, Stages, Target
from kernellab.triton_api import IrText


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
    stages = make_stages(compiled.stages, source="".join(kernel.raw_src))
    return Compilation(
        kernel=kernel.__name__,
        target=target,
        specialization=call.specialization,
        options=_options(compiled, target),
        stages=stages,
        passes=passes,
        functions=triton_api.function_sources(
            kernel, triton_api.functions_within(call.specialization.constants.values())
        ),
        provider=KernelProvider(
            resource_reader(compiled, target),
            _map_reader(stages, triton_api.definition_of(kernel), target, compiled),
            kernel,
            call,
            compiled.assembler_log,
        ),
    )


def compilation_of_text(
    given: IrText,
    target: Target,
    compiled: triton_api.CompiledKernel,
    passes: tuple[PassRun, ...],
) -> Compilation:
    """The record of an IR text that was compiled on: no kernel of Python is behind it."""
    compiled = replace(compiled, stages={given.language: given.text, **compiled.stages})
    stages = make_stages(compiled.stages)
    return Compilation(
        kernel=str(compiled.metadata.get("name", given.file)),
        target=target,
        specialization=Specialization({}, {}, {}),
        options=_options(compiled, target),
        stages=stages,
        passes=passes,
        provider=TextProvider(
            resource_reader(compiled, target),
            _map_reader(stages, SourcePosition(given.file, 1), target, compiled),
        ),
    )


def _options(compiled: triton_api.CompiledKernel, target: Target) -> dict[str, Any]:
    return {name: compiled.metadata[name] for name in triton_api.option_names(target)}


def _map_reader(
    stages: Stages, kernel: SourcePosition, target: Target, compiled: triton_api.CompiledKernel
) -> Callable[[], SourceMap]:
    return partial(read_source_map, stages, kernel, target, compiled.metadata)


LANGUAGES = {
    "ttir": "mlir",
    "glir": "mlir",
    "ttgir": "mlir",
    "llir": "llvm",
    "ptx": "ptx",
    "cubin": "elf",
    "amdgcn": "amdgcn",
    "hsaco": "elf",
}
"""Stage of Triton's -> what it is written in."""


def make_stages(contents: Mapping[str, str | bytes], source: str = "") -> Stages:
    """The stages of one compilation, in order.

    Args:
        contents: Triton's stages, by name.
        source: the kernel's, "" where there is none.
    """
    stages: dict[str, Stage | Callable[[], Stage]] = {}
    if source:
        stages["source"] = Stage("source", "python", source)
    for name, content in contents.items():
        stages[name] = Stage(name, _language_of(name, content), content)
    cubin = contents.get("cubin")
    if isinstance(cubin, bytes):
        stages["sass"] = partial(_sass_stage, cubin)
    return Stages(stages)


def _language_of(stage: str, content: str | bytes) -> str:
    if stage == "llir" and isinstance(content, str) and re.match(r"(?:#|module\b)", content):
        return "mlir"  # Stopped before LLVM: this is MLIR's LLVM dialect.
    return LANGUAGES.get(stage, "text")


def _sass_stage(cubin: bytes) -> Stage:
    return Stage("sass", "sass", disassemble(cubin))
