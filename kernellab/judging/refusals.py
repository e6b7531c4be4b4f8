"""What a judged kernel may not contain, whatever it computes."""

from __future__ import annotations

import re
from typing import Any

from kernellab import triton_api
from kernellab.compiler.modules.structure import position_of
from kernellab.errors import Diagnostic
from kernellab.ir import tt
from kernellab.ir.reader import read_module
from kernellab.records import Target


def foreign_code(kernel: Any, target: Target) -> Diagnostic | None:
    """Return a diagnostic if a module of a kernel of `submit` contains inline assembly."""
    for text in triton_api.given_texts(kernel):
        if _INLINE.search(text) is None:
            continue
        operations = read_module(text).walk()
        inline = next(op for op in operations if isinstance(op, tt.ElementwiseInlineAsmOp))
        return Diagnostic(
            "error",
            "inline-assembly",
            f"{kernel.__name__} contains inline assembly, which is not checked for {target}",
            position_of(inline),
            why="Its instructions run on the GPU as they are: no one can say which memory they "
            "access, or that they compute the same elsewhere.",
            advice="Write the expression with functions of triton.language or libdevice.",
        )
    return None


_INLINE = re.compile(r'^\s*(?:%[^=\n]+= )?"tt\.elementwise_inline_asm"\(', re.MULTILINE)
"""The operation in MLIR's generic form; a string of a module has no end of a line in it."""
