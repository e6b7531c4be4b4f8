"""Kernels with every kind of parameter, for the tests of binding and specializing."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def annotated(
    x_ptr: "*fp32",  # type: ignore[valid-type]  # noqa: F722
    n: "i64",  # type: ignore[name-defined]  # noqa: F821
    eps: "fp32",  # type: ignore[name-defined]  # noqa: F821
    BLOCK: tl.constexpr = 16,
):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, eps, mask=offsets < n)


@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["x_ptr"])
def unspecialized(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1.0, mask=offsets < n)


@triton.jit
def double(x):
    return x * 2


@triton.jit
def many_kinds(x_ptr, pair, flag, count, scale, maybe, function: tl.constexpr, TYPE: tl.constexpr):
    if flag:
        value = function(tl.load(x_ptr)) * scale
        tl.store(x_ptr, value.to(TYPE))
    if maybe is not None:
        tl.store(pair[0] + count, 1.0)


@triton.jit
def option_name(x_ptr, num_warps: tl.constexpr):
    """A parameter that is called like an option of the backend."""
    tl.store(x_ptr + tl.arange(0, num_warps), 1.0)


@gluon.jit
def option_name_in_layout(x_ptr, num_warps: gl.constexpr):
    """A layout of as many warps as the parameter says, which compiles for as many only."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [num_warps], [0])
    gl.store(x_ptr + gl.arange(0, 32 * num_warps, layout=layout), 1.0)


@triton.jit
def helper_store(base, index, value):
    tl.store(base + index, value)


@triton.jit
def roles(out, source, start, steps, rate, seed, BLOCK: tl.constexpr):
    """`out` is a pointer only inside a helper; `source` only through local names."""
    offsets = start + tl.arange(0, BLOCK)
    cursor = source + offsets
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(steps):
        total += tl.load(cursor) * rate
        cursor += BLOCK
    helper_store(out, offsets, total + tl.rand(seed, offsets))


@triton.jit
def through_descriptor(descriptor, BLOCK: tl.constexpr):
    descriptor.store([0], tl.zeros((BLOCK,), tl.float32))


@triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"])})
@triton.jit
def heuristic(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1.0, mask=offsets < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=8)],
    key=["n"],
)
@triton.jit
def autotuned(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1.0, mask=offsets < n)
