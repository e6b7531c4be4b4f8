"""Kernels that are slow, or not, by what they compute, or by what they hold."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def iterate(x, out, TURNS, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    """A logistic map, many times, in a type."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at).to(TYPE)
    for _ in range(TURNS):
        value = value * value * 0.5 + 0.25
    tl.store(out + at, value.to(tl.float32))


@triton.jit
def distances(x, out, COLUMNS, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    """The length of each row, added up in a type."""
    total = tl.zeros((BLOCK,), TYPE)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(x + tl.program_id(0) * COLUMNS + first + tl.arange(0, BLOCK)).to(TYPE)
        total += tl.sqrt(value * value + 1.0) / (1.0 + value * value)
    tl.store(out + tl.program_id(0), tl.sum(total).to(tl.float32))


@triton.jit
def hash_by_remainder(x, out, TURNS, MODULUS, BLOCK: tl.constexpr):
    """A hash by remainders of a number that is not known."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for turn in range(TURNS):
        value = (value * 31 + turn) % MODULUS
    tl.store(out + at, value)


@triton.jit
def hash_by_mask(x, out, TURNS, MODULUS: tl.constexpr, BLOCK: tl.constexpr):
    """The same, where that is a power of two."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for turn in range(TURNS):
        value = (value * 31 + turn) & (MODULUS - 1)
    tl.store(out + at, value)


@triton.jit
def relax_by_division(x, divisor, out, TURNS, BLOCK: tl.constexpr):
    """Steps that each divide by the same number."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    by = tl.load(divisor + at)
    for _ in range(TURNS):
        value = (value + 1.0) / by
    tl.store(out + at, value)


@triton.jit
def relax_by_product(x, divisor, out, TURNS, BLOCK: tl.constexpr):
    """The same, by its reciprocal."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    by = 1.0 / tl.load(divisor + at)
    for _ in range(TURNS):
        value = (value + 1.0) * by
    tl.store(out + at, value)


@triton.jit
def walk(x, out, TURNS, LIMIT, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    """Steps up, and back beyond a limit, in integers of a type."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at).to(TYPE)
    for _ in range(TURNS):
        value = tl.where(value > LIMIT, value - LIMIT, value * 3 + 7)
    tl.store(out + at, value.to(tl.int32))


@triton.jit
def normalize_again(x, out, TURNS, BLOCK: tl.constexpr):
    """Steps that each divide a row by its own size."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(TURNS):
        value = value * 1.25 + 0.125
        value = value * tl.rsqrt(tl.sum(value * value) / BLOCK)
    tl.store(out + at, value)


@triton.jit
def peaks_each_time(x, out, TURNS, BLOCK: tl.constexpr):
    """The largest of a tile, again and again."""
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    best = 0.0
    for turn in range(TURNS):
        best += tl.max(value * (turn + 1))
    tl.store(out + tl.program_id(0), best)


@triton.jit
def peaks_by_scaling(x, out, TURNS, BLOCK: tl.constexpr):
    """The same: the largest is found once."""
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    most = tl.max(value)
    best = 0.0
    for turn in range(TURNS):
        best += most * (turn + 1)
    tl.store(out + tl.program_id(0), best)


@triton.jit
def window_sums(x, out, n, TURNS, BLOCK: tl.constexpr):
    """Weighted sums of a window of a long row, held whole."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(x + at)
    second = tl.load(x + n + at)
    third = first
    for _ in range(TURNS):
        third = third * 0.5 + first * second
        first = first * 0.25 + second
        second = second * 0.75 + third * 0.125
    tl.store(out + at, first + second + third)


@triton.jit
def busy(x, out, TURNS, BLOCK: tl.constexpr):
    """Arithmetic that fills a multiprocessor."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(TURNS):
        value = value * 0.999 + 0.001
        value = value * value * 0.5 + 0.1
    tl.store(out + at, value)


# Functions that take many instructions


@triton.jit
def cubes_by_pow(x, out, TURNS, BLOCK: tl.constexpr):
    """A polynomial whose power is a call of pow."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(TURNS):
        value = 0.5 * libdevice.pow(value, 3.0) + 0.1
    tl.store(out + at, value)


@triton.jit
def cubes_by_products(x, out, TURNS, BLOCK: tl.constexpr):
    """The same by products."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(TURNS):
        value = 0.5 * (value * value * value) + 0.1
    tl.store(out + at, value)


@triton.jit
def roots_by_pow(x, out, TURNS, BLOCK: tl.constexpr):
    """A sum of reciprocals of roots, each by a call of pow."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for turn in range(TURNS):
        value = value + libdevice.pow(value * value + turn, -0.5)
    tl.store(out + at, value)


@triton.jit
def roots_by_rsqrt(x, out, TURNS, BLOCK: tl.constexpr):
    """The same by the function that the hardware has."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for turn in range(TURNS):
        value = value + tl.rsqrt(value * value + turn)
    tl.store(out + at, value)
