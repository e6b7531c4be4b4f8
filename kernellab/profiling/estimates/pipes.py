"""Which unit of an NVIDIA multiprocessor executes an instruction, and how much of a matmul one
instruction is.

The units and their rates: CUDA C++ Programming Guide, "Arithmetic Instructions", table "Throughput
of Native Arithmetic Instructions"; which opcode goes to which: Nsight Compute's documentation,
"Pipelines".
"""

from __future__ import annotations

import re
from typing import Literal

from kernellab.compiler.machine_code.opcode_classes import category_of

Pipe = Literal["fma", "alu", "special", "double", "shared", "global", "tensor", "other"]
"""Units: "special" is XU (special functions, conversions), "shared" takes what goes to shared
memory or from lane to lane, "global" what goes to global and local memory, "other" what only takes
an issue slot."""

_FMA = (
    "FFMA FMUL FADD FFMA32I FMUL32I FADD32I FFMA2 FADD2 FMUL2 IMAD IMUL HFMA2 HADD2 HMUL2 IDP IDP4A"
)
_ALU = (
    "IADD IADD3 IADD32I LOP LOP3 LOP32I SHF SHL SHR LEA ISCADD PRMT SEL FSEL FMNMX FMNMX3 IMNMX "
    "VIADD VIADDMNMX VIMNMX VIMNMX3 VHMNMX IABS ISETP FSETP HSETP2 FSET HSET2 HMNMX2 PLOP3 PSETP "
    "P2R R2P BMSK SGXT F2FP F2IP I2FP VABSDIFF VABSDIFF4 FCHK FSWZADD MOV"
)
_SPECIAL = "MUFU F2F F2I I2F I2I FRND POPC FLO BREV"
_DOUBLE = "DADD DFMA DMUL DSETP"
_OF: dict[str, Pipe] = {
    **dict.fromkeys(_FMA.split(), "fma"),
    **dict.fromkeys(_ALU.split(), "alu"),
    **dict.fromkeys(_SPECIAL.split(), "special"),
    **dict.fromkeys(_DOUBLE.split(), "double"),
    **dict.fromkeys(("SHFL", "MATCH"), "shared"),
}


def pipe_of(opcode: str) -> Pipe:
    """The unit of an opcode, with or without its modifiers."""
    root = opcode.partition(".")[0]
    if root in _OF:
        return _OF[root]
    category = category_of(root)
    if category == "matrix" and root != "MOVM":
        return "tensor"
    if category.startswith("shared"):
        return "shared"
    if category.startswith(("global", "local")) or root == "LDGSTS":
        return "global"
    return "other"


_SHAPES = {
    "16816": (16, 8, 16),
    "1688": (16, 8, 8),
    "1684": (16, 8, 4),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "884": (8, 8, 4),
}
_GROUP_SHAPE = re.compile(r"\.(\d+)x(\d+)x(\d+)\b")
_BITS = {
    "HMMA": 16, "HGMMA": 16, "IMMA": 8, "IGMMA": 8, "QMMA": 8, "QGMMA": 8, "DMMA": 64,
    "BMMA": 1, "BGMMA": 1, "OMMA": 4,
}  # fmt: skip


class Product:
    """A matrix instruction.

    Attributes:
        macs: multiply-adds of one warp's instruction; a warp group's is four warps' together.
        bits: of an element of its operands; tf32 counts as 32.
        asynchronous: whether a group of four warps starts it, and goes on (wgmma).
    """

    def __init__(self, macs: int, bits: int, asynchronous: bool) -> None:
        self.macs, self.bits, self.asynchronous = macs, bits, asynchronous


def product_of(opcode: str) -> Product | None:
    """What a matrix instruction multiplies; None where its name does not say it."""
    root, *words = opcode.split(".")
    bits = 32 if "TF32" in words else _BITS.get(root, 16)
    if match := _GROUP_SHAPE.search(opcode):
        m, n, k = map(int, match.groups())
        return Product(m * n * k // 4, bits, asynchronous=True)
    for word in words:
        if word in _SHAPES:
            m, n, k = _SHAPES[word]
            return Product(m * n * k, bits, asynchronous=False)
    return None
