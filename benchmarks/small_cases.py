"""Small kernels, each about one kind of operation: what an interpreter and a GPU are compared on.

Inputs are made from integers of a seeded bit generator, so that they are the same on every machine.
"Any bits" are floats of every exponent, infinities, NaNs and subnormal numbers among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
import triton.language as tl

from benchmarks import small_kernels as kernels

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class SmallCase:
    """One row of the comparison.

    Attributes:
        name: what it is about.
        kernel: the kernel.
        tensors: makes its tensors, by parameter name, in the order of the parameters; the
            same ones each time.
        outputs: the names of those that it writes.
        constants: its constexprs.
        grid: how many programs run.
        ulp: how far outputs may be from an H200's, in units of their last place; 0 is bit by bit,
            but for the bits of a NaN.
        scale: what those units are of: "value" is each output's own, "largest" that of the largest
            output, for sums whose order is the hardware's.
    """

    name: str
    kernel: Any
    tensors: Callable[[], Tensors]
    outputs: tuple[str, ...] = ("out",)
    constants: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = (1,)
    ulp: int = 0
    scale: str = "value"


# --------------------------------------------------------------------------------------------------
# Inputs
# --------------------------------------------------------------------------------------------------

COUNT = 2048


def any_bits(dtype: torch.dtype, seed: int, *shape: int) -> torch.Tensor:
    """Every bit pattern is as likely as any other."""
    shape = shape or (COUNT,)
    count = int(numpy.prod(shape))
    raw = numpy.random.Generator(numpy.random.PCG64(seed)).bytes(count * dtype.itemsize)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)


def moderate(dtype: torch.dtype, seed: int, *shape: int) -> torch.Tensor:
    """Floats between -4 and 4, all of them exact in 8 bits of fraction."""
    small = any_bits(torch.int16, seed, *shape)
    return (small.remainder(1024).float() / 128 - 4).to(dtype)


def normal(drawn: torch.Tensor) -> torch.Tensor:
    """The numbers, and 1.5 for each that is subnormal:
    some approximate instructions take those for zero.
    """
    return torch.where((drawn != 0) & (drawn.abs() < torch.finfo(drawn.dtype).tiny), 1.5, drawn)


def positive(dtype: torch.dtype, seed: int, *shape: int) -> torch.Tensor:
    """Positive, normal, finite floats of every exponent."""
    drawn = any_bits(torch.float32, seed, *shape).abs()
    return torch.where(drawn.isfinite() & (drawn > 1.2e-38), drawn, 1.5).to(dtype)


def integers(dtype: torch.dtype, seed: int, low: int, high: int, *shape: int) -> torch.Tensor:
    """Integers from `low` up to and without `high`."""
    drawn = any_bits(torch.int64, seed, *shape)
    return (drawn.remainder(high - low) + low).to(dtype)


def blank(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """An output, zero so far."""
    return torch.zeros(shape or (COUNT,), dtype=dtype)


# --------------------------------------------------------------------------------------------------
# One function, element by element
# --------------------------------------------------------------------------------------------------


def one(name: str, function: Any, x: Callable[[], torch.Tensor], ulp: int = 0) -> SmallCase:
    """`function` of one input, in the input's dtype."""

    def tensors() -> Tensors:
        given = x()
        return {"x": given, "out": blank(given.dtype, len(given))}

    return SmallCase(
        name, kernels.apply_one, tensors, constants={"N": COUNT, "FUNCTION": function}, ulp=ulp
    )


def two(
    name: str,
    function: Any,
    x: Callable[[], torch.Tensor],
    y: Callable[[], torch.Tensor],
    out: torch.dtype | None = None,
    ulp: int = 0,
) -> SmallCase:
    """`function` of two inputs; the output has the first one's dtype unless
    `out` says otherwise.
    """

    def tensors() -> Tensors:
        first = x()
        return {"x": first, "y": y(), "out": blank(out or first.dtype)}

    return SmallCase(
        name, kernels.apply_two, tensors, constants={"N": COUNT, "FUNCTION": function}, ulp=ulp
    )


def cast(source: torch.dtype, to: torch.dtype, count: int = COUNT) -> SmallCase:
    """A conversion of any bits."""
    names = [str(dtype).removeprefix("torch.") for dtype in (source, to)]
    return SmallCase(
        f"{names[0]} to {names[1]}",
        kernels.convert,
        lambda: {"x": any_bits(source, 7, count), "out": blank(to, count)},
        constants={"N": count},
    )


def _any(dtype: torch.dtype, seed: int) -> Callable[[], torch.Tensor]:
    return lambda: any_bits(dtype, seed)


FLOATS = [
    two("fp32 add", kernels.plus, _any(torch.float32, 1), _any(torch.float32, 2)),
    two("fp32 multiply", kernels.times, _any(torch.float32, 1), _any(torch.float32, 2)),
    two("fp32 div_rn", tl.div_rn, _any(torch.float32, 1), _any(torch.float32, 2)),
    one("fp32 sqrt_rn", tl.sqrt_rn, _any(torch.float32, 3)),
    two("fp64 add", kernels.plus, _any(torch.float64, 1), _any(torch.float64, 2)),
    two("fp64 multiply", kernels.times, _any(torch.float64, 1), _any(torch.float64, 2)),
    two("fp64 divide", kernels.over, _any(torch.float64, 1), _any(torch.float64, 2)),
    two("fp16 add", kernels.plus, _any(torch.float16, 1), _any(torch.float16, 2)),
    two("fp16 multiply", kernels.times, _any(torch.float16, 1), _any(torch.float16, 2)),
    two("bf16 add", kernels.plus, _any(torch.bfloat16, 1), _any(torch.bfloat16, 2)),
    two("bf16 multiply", kernels.times, _any(torch.bfloat16, 1), _any(torch.bfloat16, 2)),
    two("fp32 maximum", kernels.larger, _any(torch.float32, 1), _any(torch.float32, 2)),
    two(
        "fp32 minimum, NaN kept",
        kernels.smaller_or_nan,
        _any(torch.float32, 1),
        _any(torch.float32, 2),
    ),
    two(
        "fp32 compare",
        kernels.compared,
        _any(torch.float32, 1),
        _any(torch.float32, 2),
        torch.int32,
    ),
    one(
        "fp32 floor and ceil", kernels.rounded_both_ways, lambda: normal(any_bits(torch.float32, 3))
    ),
    one("fp32 abs", tl.abs, _any(torch.float32, 3)),
    SmallCase(
        "fp32 fma",
        kernels.apply_three,
        lambda: {
            "x": any_bits(torch.float32, 1),
            "y": any_bits(torch.float32, 2),
            "z": any_bits(torch.float32, 3),
            "out": blank(torch.float32),
        },
        constants={"N": COUNT, "FUNCTION": tl.fma},
    ),
]

APPROXIMATE = [
    one("fp32 exp", tl.exp, lambda: moderate(torch.float32, 4) * 16, ulp=64),
    one("fp32 exp2", tl.exp2, lambda: moderate(torch.float32, 4) * 16, ulp=2),
    one("fp32 log", tl.log, lambda: positive(torch.float32, 5), ulp=2),
    one("fp32 log2", tl.log2, lambda: positive(torch.float32, 5), ulp=2),
    one("fp32 sin", tl.sin, lambda: moderate(torch.float32, 4), ulp=2),
    one("fp32 cos", tl.cos, lambda: moderate(torch.float32, 4), ulp=2),
    one("fp32 erf", tl.erf, lambda: moderate(torch.float32, 4), ulp=2),
    one("fp32 sqrt", tl.sqrt, lambda: positive(torch.float32, 5), ulp=1),
    one("fp32 rsqrt", tl.rsqrt, lambda: positive(torch.float32, 5), ulp=2),
    two(
        "fp32 divide",
        kernels.over,
        lambda: moderate(torch.float32, 4),
        lambda: moderate(torch.float32, 6) + 9,
        ulp=2,
    ),
]

CASTS = [
    cast(torch.float32, torch.float16),
    cast(torch.float32, torch.bfloat16),
    cast(torch.float32, torch.float8_e4m3fn),
    cast(torch.float32, torch.float8_e5m2),
    cast(torch.float16, torch.float8_e4m3fn),
    cast(torch.bfloat16, torch.float8_e5m2),
    cast(torch.float8_e4m3fn, torch.float32, 1024),
    cast(torch.float8_e5m2, torch.float16, 1024),
    cast(torch.float64, torch.float32),
    cast(torch.float32, torch.int32),
    cast(torch.float32, torch.uint8),
    cast(torch.int64, torch.float32),
    cast(torch.uint32, torch.float32),
    cast(torch.int32, torch.int8),
]

WHOLE_NUMBERS = [
    two("int32 add", kernels.plus, _any(torch.int32, 1), _any(torch.int32, 2)),
    two("int32 multiply", kernels.times, _any(torch.int32, 1), _any(torch.int32, 2)),
    two("int64 multiply", kernels.times, _any(torch.int64, 1), _any(torch.int64, 2)),
    two("int8 multiply", kernels.times, _any(torch.int8, 1), _any(torch.int8, 2)),
    two(
        "int32 divide",
        kernels.quotient,
        _any(torch.int32, 1),
        lambda: integers(torch.int32, 2, 1, 999),
    ),
    two(
        "int32 remainder",
        kernels.remainder,
        _any(torch.int32, 1),
        lambda: integers(torch.int32, 2, 1, 999),
    ),
    two("int32 divide by zero", kernels.quotient, _any(torch.int32, 1), lambda: blank(torch.int32)),
    two(
        "uint32 divide",
        kernels.quotient,
        _any(torch.uint32, 1),
        lambda: integers(torch.uint32, 2, 1, 999),
    ),
    two(
        "int32 shifts",
        kernels.shifted,
        _any(torch.int32, 1),
        lambda: integers(torch.int32, 2, 0, 32),
    ),
    two("int32 bit by bit", kernels.bits_mixed, _any(torch.int32, 1), _any(torch.int32, 2)),
    two("int32 compare", kernels.compared, _any(torch.int32, 1), _any(torch.int32, 2)),
    two("umulhi", tl.umulhi, _any(torch.uint32, 1), _any(torch.uint32, 2)),
]


# --------------------------------------------------------------------------------------------------
# Tiles
# --------------------------------------------------------------------------------------------------


def tile(
    name: str,
    kernel: Any,
    x: Callable[[], torch.Tensor],
    out: torch.dtype,
    shape: tuple[int, ...] = (32, 128),
    ulp: int = 0,
    scale: str = "value",
) -> SmallCase:
    """A kernel over a tile of 32 rows of 128, and the output that it makes of it."""
    return SmallCase(
        name,
        kernel,
        lambda: {"x": x(), "out": blank(out, *shape)},
        constants={"M": 32, "N": 128},
        ulp=ulp,
        scale=scale,
    )


def dot(name: str, dtype: torch.dtype, out: torch.dtype, precision: str, ulp: int = 0) -> SmallCase:
    """A product of 64x32 and 32x64, which one matrix instruction after the other adds up."""

    def tensors() -> Tensors:
        if dtype == torch.int8:
            x, y = any_bits(dtype, 1, 64, 32), any_bits(dtype, 2, 32, 64)
        else:
            x = (moderate(torch.float32, 1, 64, 32) * 1.001).to(dtype)
            y = (moderate(torch.float32, 2, 32, 64) * 1.001).to(dtype)
        return {"x": x, "y": y, "out": blank(out, 64, 64)}

    return SmallCase(
        name,
        kernels.product,
        tensors,
        constants={"M": 64, "N": 64, "K": 32, "PRECISION": precision},
        ulp=ulp,
        scale="largest",
    )


def _small(dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    return lambda: moderate(dtype, 8, 32, 128)


TILES = [
    SmallCase(
        "fp32 max and its index",
        kernels.row_extremes,
        lambda: {
            "x": moderate(torch.float32, 8, 32, 128),
            "out": blank(torch.float32, 32),
            "at_out": blank(torch.int32, 32),
        },
        outputs=("out", "at_out"),
        constants={"M": 32, "N": 128},
    ),
    tile(
        "int32 sum", kernels.row_sums, lambda: any_bits(torch.int32, 9, 32, 128), torch.int32, (32,)
    ),
    # Multiples of 1/128 add up exactly in any order; thirds do not.
    tile("fp32 sum, exact", kernels.row_sums, _small(torch.float32), torch.float32, (32,)),
    tile(
        "fp32 sum",
        kernels.row_sums,
        lambda: moderate(torch.float32, 8, 32, 128) / 3,
        torch.float32,
        (32,),
        ulp=4,
        scale="largest",
    ),
    tile(
        "fp16 sum",
        kernels.row_sums,
        _small(torch.float16),
        torch.float16,
        (32,),
        ulp=2,
        scale="largest",
    ),
    tile(
        "int32 cumsum", kernels.running_sums, lambda: any_bits(torch.int32, 9, 32, 128), torch.int32
    ),
    tile("fp32 cumsum, exact", kernels.running_sums, _small(torch.float32), torch.float32),
    tile("fp32 sort", kernels.sorted_rows, _small(torch.float32), torch.float32),
    tile("int32 sort", kernels.sorted_rows, lambda: any_bits(torch.int32, 9, 32, 128), torch.int32),
    tile(
        "trans, reshape, split, flip, interleave",
        kernels.reshaped,
        _small(torch.float32),
        torch.float32,
    ),
    SmallCase(
        "histogram",
        kernels.counted,
        lambda: {"x": integers(torch.int32, 3, 0, 64, 1024), "out": blank(torch.int32, 64)},
        constants={"N": 1024, "BINS": 64},
    ),
    SmallCase(
        "gather",
        kernels.gathered,
        lambda: {
            "x": moderate(torch.float32, 8, 32, 128),
            "y": integers(torch.int32, 3, 0, 128, 32, 128),
            "out": blank(torch.float32, 32, 128),
        },
        constants={"M": 32, "N": 128},
    ),
    tile(
        "associative scan of pairs",
        kernels.linear_recurrence,
        _small(torch.float32),
        torch.float32,
        ulp=4,
        scale="largest",
    ),
    dot("fp16 dot", torch.float16, torch.float32, "tf32", ulp=4),
    dot("bf16 dot", torch.bfloat16, torch.float32, "tf32", ulp=2),
    dot("tf32 dot", torch.float32, torch.float32, "tf32", ulp=4),
    # Which way NumPy's BLAS adds is up to the CPU: with AVX-512 as the GPU does, without it not.
    dot("fp32 dot, ieee", torch.float32, torch.float32, "ieee", ulp=4),
    dot("fp8 dot", torch.float8_e4m3fn, torch.float32, "tf32", ulp=1024),
    dot("int8 dot", torch.int8, torch.int32, "tf32"),
]


# --------------------------------------------------------------------------------------------------
# Memory, random numbers, control flow
# --------------------------------------------------------------------------------------------------


REST = [
    SmallCase(
        "philox",
        kernels.random_bits,
        lambda: {"out": blank(torch.int32)},
        constants={"N": COUNT, "SEED": 42},
    ),
    SmallCase(
        "rand",
        kernels.random_uniform,
        lambda: {"out": blank(torch.float32)},
        constants={"N": COUNT, "SEED": 42},
    ),
    SmallCase(
        "randn",
        kernels.random_normal,
        lambda: {"out": blank(torch.float32)},
        constants={"N": COUNT, "SEED": 42},
        ulp=2,
        scale="largest",
    ),
    SmallCase(
        "atomic add and max",
        kernels.atomic_counts,
        lambda: {
            "x": integers(torch.int32, 3, 0, 64),
            "out": blank(torch.int32, 64),
            "total": blank(torch.int32, 1),
            "largest": blank(torch.int32, 1),
        },
        outputs=("out", "total", "largest"),
        constants={"N": 128},
        grid=(COUNT // 128,),
    ),
    SmallCase(
        "a lock",
        kernels.counted_under_a_lock,
        lambda: {"lock": blank(torch.int32, 1), "out": blank(torch.int32, 1)},
        outputs=("lock", "out"),
        grid=(200,),
    ),
    SmallCase(
        "masked load and store",
        kernels.masked,
        lambda: {"x": moderate(torch.float32, 8), "out": blank(torch.float32)},
        constants={"n": 1501, "N": COUNT},
    ),
    SmallCase(
        "a tensor descriptor",
        kernels.described,
        lambda: {"x": moderate(torch.float32, 8, 30, 100), "out": blank(torch.float32, 30, 100)},
        constants={"ROWS": 30, "COLUMNS": 100, "M": 16, "N": 32},
    ),
    SmallCase(
        "a function that is not inlined",
        kernels.calling,
        lambda: {"x": moderate(torch.float32, 8, 64), "out": blank(torch.float32, 64)},
        grid=(64,),
    ),
    one("inline assembly", kernels.funnel_shifted, _any(torch.int32, 1)),
    one("libdevice rint", kernels.nearest_integer, _any(torch.float32, 3)),
    two(
        "libdevice pow",
        kernels.power,
        lambda: positive(torch.float32, 5),
        lambda: moderate(torch.float32, 6) / 8,
        ulp=4,
    ),
    one("libdevice tanh", kernels.hyperbolic_tangent, lambda: moderate(torch.float32, 4), ulp=4),
    one("libdevice cbrt", kernels.cube_root, lambda: moderate(torch.float32, 4), ulp=2),
    SmallCase(
        "block pointer",
        kernels.block_padded,
        lambda: {"x": moderate(torch.float32, 8, 30, 100), "out": blank(torch.float32, 32, 128)},
        constants={"ROWS": 30, "COLUMNS": 100, "M": 32, "N": 128},
    ),
    SmallCase(
        "a while loop",
        kernels.collatz,
        lambda: {"x": integers(torch.int32, 3, 1, 1000, 256), "out": blank(torch.int32, 256)},
        grid=(256,),
    ),
    SmallCase(
        "an early return",
        kernels.left_early,
        lambda: {"x": integers(torch.int32, 3, -500, 500, 256), "out": blank(torch.int32, 256)},
        grid=(256,),
    ),
]

SMALL_CASES: tuple[SmallCase, ...] = (
    *FLOATS,
    *APPROXIMATE,
    *CASTS,
    *WHOLE_NUMBERS,
    *TILES,
    *REST,
)
