"""How many issue slots an operation takes for each element, and what a matrix unit does a cycle.

Round numbers, after the throughput table of NVIDIA's CUDA C++ Programming Guide ("Arithmetic
Instructions") and after the SASS that Triton's operations become: they weigh findings.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from kernellab.compiler.gpus import Gpu
from kernellab.compiler.modules.structure import attribute, kind
from kernellab.ir.types import (
    AmdMfmaEncoding,
    AmdWmmaEncoding,
    NvidiaMmaEncoding,
    bit_width,
    element_type,
)
from kernellab.profiling.diagnosis.makers import maker
from kernellab.profiling.diagnosis.scalars import Scalars
from kernellab.profiling.estimates.counting import multiply_adds

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
DOUBLE_STEPS = {"arith.divf": 10.0, "math.exp": 15.0, "math.log": 15.0, "math.sqrt": 10.0}
"""How many times more steps an operation of fp64 takes than one of fp32."""
LONG_STEPS = {"arith.muli": 4.0, "arith.addi": 2.0, "arith.subi": 2.0, "arith.cmpi": 2.0}
"""Instructions of 64-bit integers."""


def division_weight(op: Operation, scalars: Scalars) -> float:
    """Of a division of integers, by what it divides by."""
    by = scalars.number(op.operands[1])
    made = maker(op.operands[1], "tt.splat", "tt.broadcast")
    constant = made is not None and kind(made) == "arith.constant"
    if constant and by and by & (by - 1) == 0:
        return 1.0
    wide = bit_width(element_type(op.results[0].type)) > 32
    return (3 if wide else 1) * _BY_CONSTANT if constant else _DIVISION[64 if wide else 32]


def weight(op: Operation, scalars: Scalars, gpu: Gpu) -> float:
    """Issue slots for one element."""
    name = kind(op)
    if name in DIVISIONS:
        return division_weight(op, scalars)
    weight_of_name = _WEIGHTS.get(name, 1.0)
    if is_double(op):
        return weight_of_name * double_factor(gpu) * DOUBLE_STEPS.get(name, 1.0)
    element = element_type(op.results[0].type)
    if name in LONG_STEPS and bit_width(element_type(op.operands[0].type)) > 32:
        return LONG_STEPS[name]
    if name in ("arith.extf", "arith.truncf") and bit_width(element) < 16:
        return 2.0
    return weight_of_name


def is_double(op: Operation) -> bool:
    """Whether an operation computes in fp64."""
    types = [value.type for value in (*op.results, *op.operands)]
    return any(str(element_type(type)) == "f64" for type in types)


def double_factor(gpu: Gpu) -> float:
    """How many times longer fp64 takes than fp32."""
    return gpu.fp32 / gpu.double


# Matmuls


def flops(op: Operation) -> float:
    """Return the operations of a matmul, where a multiply-add counts as two."""
    return 2.0 * multiply_adds(op)


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


def matrix_rate(op: Operation, gpu: Gpu) -> float:
    """Operations a cycle and SM of a product's matrix instruction; 0 for one without."""
    used = generation(op)
    if not used:
        return 0.0
    element = element_type(op.operands[0].type)
    if str(element) == "f64":
        return 4.0 * gpu.double
    factor = {8: 2.0, 32: 0.5}.get(bit_width(element), 1.0)
    precision = attribute(op, "inputPrecision")
    if str(element) == "f32" and precision is not None and "1 :" in str(precision):
        factor /= 3  # tf32x3: three products
    return 2.0 * factor * gpu.tensor * (1.0 if used in _NEWEST else gpu.by_warps)
