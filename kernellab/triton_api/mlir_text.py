"""Texts of MLIR: read by MLIR, printed in the form that needs no knowledge of any op."""

from __future__ import annotations

import re
from typing import Any

from triton._C import libtriton

from kernellab.errors import KernelLabError
from kernellab.records import Target
from kernellab.triton_api.diagnostics import captured_output
from kernellab.triton_api.stages import freed_after, read_module
from kernellab.triton_api.targets import backend_for


def parse_mlir(text: str, target: Target) -> Any:
    """The module of MLIR that a text describes, pretty or generic:
    TTIR, TTGIR, or the LLVM dialect, of a target.

    What has no location in the text gets an unknown one. The text must come from the compiler,
    or be read in a process that may abort: MLIR asserts, and some attributes that it never
    prints make it do so.

    Raises:
        KernelLabError: MLIR cannot read the text; the message has MLIR's own words and the line.
    """
    with captured_output() as output:
        try:
            return read_module(text, backend_for(target))
        except RuntimeError as error:
            words = _ERROR_IN_TEXT.sub(r"line \1, column \2: ", output.take()).strip()
            raise KernelLabError(f"MLIR cannot read this text: {words or error}") from error


def generic_form(text: str, target: Target) -> str:
    """A text of MLIR in MLIR's generic form, locations included.

    Raises:
        KernelLabError: as for `parse_mlir`.
    """
    with freed_after(parse_mlir(text, target)) as module:
        generic = generic_text(module)
    # MLIR takes the place in the text that it reads for the origin of what states none.
    return _PLACE_IN_TEXT.sub("loc(unknown)", generic)


_PLACE_IN_TEXT = re.compile(r'loc\("[^"]*/kernellab-[^"/]*/module\.mlir":\d+:\d+\)')
_ERROR_IN_TEXT = re.compile(r'loc\("[^"]*/module\.mlir":(\d+):(\d+)\): error: ')

_UNPRINTABLE = "llvm.data_layout"
"""An attribute whose value MLIR verifies while printing:
an invalid one makes it print the generic form."""


def generic_text(module: Any) -> str:
    """The module in MLIR's generic form, locations included:
    every op quoted, every attribute spelled out.
    """
    builder = libtriton.ir.builder(module.context)
    module.set_attr(_UNPRINTABLE, builder.get_string_attr("generic form, please"))
    text = str(module)
    return re.sub(
        rf' ?{{{re.escape(_UNPRINTABLE)} = "[^"]*"}}|{re.escape(_UNPRINTABLE)} = "[^"]*",? ?',
        "",
        text,
    )
