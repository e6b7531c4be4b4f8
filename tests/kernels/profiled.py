"""Kernels whose work is counted by hand."""

from typing import Any

import triton
import triton.language as tl


def described(grid: Any, metadata: Any, args: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": f"named_<num_warps:{metadata.num_warps}>",
        "flops32": args["n"],
        "bytes": 8 * args["n"],
    }


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr):
    """c = a @ b: a program for each B columns; a is (B, K), b (K, any), both fp16."""
    columns = tl.program_id(0) * B + tl.arange(0, B)
    rows, inner = tl.arange(0, B), tl.arange(0, B)
    N = tl.num_programs(0) * B
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc)  # the product
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@triton.jit(launch_metadata=described)
def named(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


@triton.jit
def leaves(x_ptr):
    tl.store(x_ptr + 1000 + tl.arange(0, 16), 1.0)
