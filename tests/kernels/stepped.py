"""Kernels to step through: helpers, loops of every kind, names of every kind."""

from typing import NamedTuple

import triton
import triton.language as tl

SHIFT = tl.constexpr(3)


@triton.jit
def scaled(a, b, SCALE: tl.constexpr):
    product = a * SCALE
    total = product + b
    return total, product


@triton.jit
def capped(a, limit):
    if limit > 3:
        return a
    raised = a + 1
    return raised * 2


@triton.jit
def places(pointer, offsets):
    moved = pointer + offsets
    return moved  # noqa: RET504 - a name to look at


@triton.jit
def every_name(x_ptr, y_ptr, n, rounds, BLOCK: tl.constexpr):
    """Docstrings are no statements."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(places(x_ptr, offsets), mask=mask, other=0.0)
    alias = x
    acc = tl.zeros((BLOCK,), tl.float32)
    HALF: tl.constexpr = BLOCK // 2
    for i in range(rounds):
        acc += x * i
        if i > 2:
            acc += 1
        else:
            inner = acc * 2
            acc = inner
    total, product = scaled(acc, alias, 2.0)
    s = tl.sum(total, axis=0)
    both = (s, HALF)
    c = capped(s, n)
    j = 0
    while j < 2:
        j += 1
        acc = acc + j
    for t in tl.static_range(2):
        acc += t + SHIFT
    if pid == 5:
        return
    tl.store(y_ptr + offsets, total + product + acc + both[0] + c, mask=mask)


@triton.jit
def scaled_by_both(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    once, _ = scaled(x, x, 2.0)
    twice, _ = scaled(x, x, 3.0)
    tl.store(y_ptr + tl.arange(0, BLOCK), once * twice)


class Pair(NamedTuple):
    left: tl.tensor
    right: tl.tensor


@triton.jit
def fields(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    pair = Pair(x, x + 1)
    tl.store(x_ptr + tl.arange(0, BLOCK), pair.right)


@triton.jit
def loaded(blocks):
    return tl.load(blocks, boundary_check=(0,))


@triton.jit
def by_blocks(x_ptr, y_ptr, n, BLOCK: tl.constexpr, PASSED: tl.constexpr):
    blocks = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(2):
        x = loaded(blocks) if PASSED else tl.load(blocks, boundary_check=(0,))
        total, product = scaled(total, x, 1.0)
        total -= product * 0
        blocks = tl.advance(blocks, (BLOCK,))
    tl.store(y_ptr + tl.arange(0, BLOCK), total)


@triton.jit
def clashing(memory, tiles, _value, n: tl.constexpr):
    numpy = tl.arange(0, n)
    range_ = tl.load(memory + numpy)
    tl.store(tiles + numpy, range_ + _value)


@triton.jit
def squares(out_ptr, n: tl.constexpr):
    lanes = tl.arange(0, n)
    tl.store(out_ptr + lanes, lanes * lanes)


@triton.jit
def unsigned(x_ptr, y_ptr, n: tl.constexpr):
    wide = tl.load(x_ptr + tl.arange(0, n)).to(tl.uint8)
    narrow = wide.to(tl.bfloat16)
    kind: tl.constexpr = tl.bfloat16
    tl.store(y_ptr + tl.arange(0, n), narrow.to(kind).to(tl.float32))


@triton.jit
def take(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@triton.jit
def in_turn(order_ptr, next_ptr, lock, n):
    pid = tl.program_id(0)
    while tl.load(next_ptr, volatile=True) != n - 1 - pid:
        pass
    take(lock)
    count = tl.load(next_ptr)
    tl.store(order_ptr + count, pid)
    tl.store(next_ptr, count + 1)
    tl.atomic_xchg(lock, 0)
