"""How many issue slots an operation takes for each element, and what a matrix unit does a cycle.

Round numbers, after the throughput table of NVIDIA's CUDA C++ Programming Guide ("Arithmetic
Instructions") and after the SASS that Triton's operations become: they weigh findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.ir import Operation

from kernellab.compiler.modules.structure import attribute, kind
from kernellab.ir.encodings import AmdMfmaEncoding, AmdWmmaEncoding, NvidiaMmaEncoding
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.profiling.diagnosis.machine import Peaks
from kernellab.profiling.diagnosis.scalars import Scalars
from kernellab.records import Target

SCALAR = 0.25
"""Of a warp's slot, for what is computed once for all its lanes."""
BARRIER = 60
"""Cycles of an exchange through shared memory: writing, waiting for the others, reading."""

_SPECIAL = 4.0
_WEIGHTS: Mapping[str, float] = {
    **dict.fromkeys(
        ("math.exp", "math.exp2", "math.log", "math.log2", "math.rsqrt", "math.sqrt"), _SPECIAL
    ),
    **dict.fromkeys(("math.tanh", "math.erf", "tt.precise_sqrt", "math.log1p"), 16.0),
    **dict.fromkeys(("math.sin", "math.cos"), 40.0),
    "math.powf": 30.0,
    "arith.divf": 8.0,
    "tt.precise_divf": 12.0,
    "arith.remf": 30.0,
    "tt.addptr": 0.5,
}
DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildivsi")
_DIVISION = {32: 14.0, 64: 90.0}
"""Instructions of a division of integers by a number that is not known."""
_BY_CONSTANT = 5.0
"""Of one by a constant: a multiplication by its reciprocal, and a shift."""
_DOUBLE_FACTOR = {"arith.divf": 10.0, "math.exp": 15.0, "math.log": 15.0, "math.sqrt": 10.0}
"""How many times more steps an operation of fp64 takes than one of fp32."""
_LONG = {"arith.muli": 4.0, "arith.addi": 2.0, "arith.subi": 2.0, "arith.cmpi": 2.0}
"""Instructions of 64-bit integers."""


def division_weight(op: Operation, scalars: Scalars) -> float:
    """Of a division of integers, by what it divides by."""
    by = scalars.number(op.operands[1])
    constant = _is_constant(op.operands[1])
    if constant and by and by & (by - 1) == 0:
        return 1.0
    wide = bit_width(element_type(op.results[0].type)) > 32
    return (3 if wide else 1) * _BY_CONSTANT if constant else _DIVISION[64 if wide else 32]


def _is_constant(value: object) -> bool:
    owner = getattr(value, "owner", None)
    while isinstance(owner, Operation) and kind(owner) in ("tt.splat", "tt.broadcast"):
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and kind(owner) == "arith.constant"


def weight(op: Operation, scalars: Scalars, target: Target) -> float:
    """Issue slots for one element."""
    name = kind(op)
    if name in DIVISIONS:
        return division_weight(op, scalars)
    found = _WEIGHTS.get(name, 1.0)
    if is_double(op):
        return found * double_factor(target) * _DOUBLE_FACTOR.get(name, 1.0)
    element = element_type(op.results[0].type)
    if name in _LONG and bit_width(element_type(op.operands[0].type)) > 32:
        return _LONG[name]
    if name in ("arith.extf", "arith.truncf") and bit_width(element) < 16:
        return 2.0
    return found


def is_double(op: Operation) -> bool:
    """Whether an operation computes in fp64."""
    types = [value.type for value in (*op.results, *op.operands)]
    return any(str(element_type(type)) == "f64" for type in types)


def double_steps(op: Operation) -> float:
    """How many times more steps an operation of fp64 has than its own of fp32."""
    return _DOUBLE_FACTOR.get(kind(op), 1.0)


def long_steps(op: Operation) -> float:
    """Instructions of an operation on 64-bit integers."""
    return _LONG.get(kind(op), 1.0)


def double_factor(target: Target) -> float:
    """How many times longer fp64 takes than fp32."""
    data_centre = ("80", "90", "100", "gfx90a", "gfx942", "gfx950")
    return 2.0 if target.arch in data_centre else 64.0


# Matrix products


def flops(op: Operation) -> float:
    """Operations of a matrix product, two for a multiply-add."""
    a, result = shape(op.operands[0].type), op.results[0].type if op.results else None
    sizes = shape(result) if result is not None else ()
    if not sizes:  # the sums lie in tensor memory
        sizes = shape(op.operands[2].type) if len(op.operands) > 2 else ()
    return 2.0 * prod(sizes) * (a[-1] if a else 1)


def generation(op: Operation) -> str:
    """The matrix instruction of a product: "wgmma", "mma", "tcgen05", "mfma", "wmma"; "" for one by
    multiply-adds.
    """
    name = kind(op)
    if name.startswith("ttng.warp_group_dot"):
        return "wgmma"
    if name.startswith("ttng.tc_gen5"):
        return "tcgen05"
    encoding = getattr(op.results[0].type, "encoding", None) if op.results else None
    if isinstance(encoding, NvidiaMmaEncoding):
        return "wgmma" if encoding.version_major == 3 else "mma"
    if isinstance(encoding, AmdMfmaEncoding):
        return "mfma"
    return "wmma" if isinstance(encoding, AmdWmmaEncoding) else ""


_NEWEST = ("wgmma", "tcgen05", "mfma", "wmma")


def matrix_rate(op: Operation, peaks: Peaks) -> float:
    """Operations a cycle and SM of a product's matrix instruction; 0 for one without."""
    used = generation(op)
    if not used:
        return 0.0
    element = element_type(op.operands[0].type)
    if str(element) == "f64":
        return peaks.double * 2
    factor = {8: 2.0, 32: 0.5}.get(bit_width(element), 1.0)
    precision = attribute(op, "inputPrecision")
    if str(element) == "f32" and precision is not None and "1 :" in str(precision):
        factor /= 3  # tf32x3: three products
    return factor * (peaks.matrix if used in _NEWEST else peaks.older_matrix)
