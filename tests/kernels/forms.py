"""Kernels for the many forms that a launch may have."""

from typing import Any, NamedTuple

import triton
import triton.language as tl


@triton.constexpr_function
def twice(n):
    return 2 * n


@triton.jit
def scaled(x_ptr, y_ptr, n, scale=3.0, HALF: tl.constexpr = 16, exact: tl.constexpr = None):
    offsets = tl.arange(0, twice(HALF))
    factor = scale if exact is None else exact
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, offsets < n) * factor, offsets < n)


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, offsets < n), offsets < n)


@triton.jit
def copy_strided(x_ptr, y_ptr, x_stride, y_stride, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets * y_stride, tl.load(x_ptr + offsets * x_stride))


class Job(NamedTuple):
    source: Any
    target: Any
    n: Any


@triton.jit
def of_tuple(job, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x_ptr, y_ptr, n = job
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, offsets < n), offsets < n)


@triton.jit
def of_named_tuple(job, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < job.n
    tl.store(job.target + offsets, tl.load(job.source + offsets, mask), mask)


@triton.jit
def relu(x):
    return tl.maximum(x, 0)


@triton.jit
def activated(x_ptr, y_ptr, bias_ptr, n, BLOCK: tl.constexpr, FUNCTION: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, offsets < n)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + offsets, offsets < n)
    tl.store(y_ptr + offsets, FUNCTION(x), offsets < n)


@triton.jit
def shaped(x_ptr, y_ptr, shape: tl.constexpr):
    offsets = tl.arange(0, shape[0])
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets) * shape[1])
