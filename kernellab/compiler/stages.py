"""What Triton's compiler made, as the `Stages` of a compilation: SASS follows a cubin."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from kernellab.compiler.machine_code.sass import disassemble
from kernellab.records import Stage, Stages

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
        stages["sass"] = functools.partial(_sass_stage, cubin)
    return Stages(stages)


def _language_of(stage: str, content: str | bytes) -> str:
    if stage == "llir" and isinstance(content, str) and re.match(r"(?:#|module\b)", content):
        return "mlir"  # Stopped before LLVM: this is MLIR's LLVM dialect.
    return LANGUAGES.get(stage, "text")


def _sass_stage(cubin: bytes) -> Stage:
    return Stage("sass", "sass", disassemble(cubin))
