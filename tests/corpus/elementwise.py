"""Kernels that treat every element alone, with helpers, loops and atomics."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y, one block of elements a program."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


@triton.jit
def dropout(x_ptr, out_ptr, n, probability, seed, BLOCK: tl.constexpr):
    """Zero each element with the given probability, from Philox of (seed, index), and scale the rest up."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.rand(seed, offsets) > probability
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - probability), 0.0), mask=inside)


@triton.jit
def sigmoid_of(x):
    """A helper that is inlined."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def swish_of(x, beta):
    """A helper that calls another one."""
    return x * sigmoid_of(beta * x)


@triton.jit
def swish(x_ptr, out_ptr, n, beta, BLOCK: tl.constexpr):
    """x * sigmoid(beta * x), through helpers of helpers."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    tl.store(out_ptr + offsets, swish_of(x, beta), mask=inside)


@triton.jit(noinline=True)
def first_of_row(lengths_ptr, row):
    """Where a row of a ragged matrix begins, in a function of its own: the sum of the lengths before it."""
    first = 0
    for before in range(row):
        first += tl.load(lengths_ptr + before)
    return first


@triton.jit
def ragged_scale(x_ptr, lengths_ptr, out_ptr, factor, BLOCK: tl.constexpr):
    """Scale one row of a ragged matrix; calls a function that stays a call, twice."""
    row = tl.program_id(0)
    first = first_of_row(lengths_ptr, row)
    end = first_of_row(lengths_ptr, row + 1)
    for start in range(first, end, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        inside = offsets < end
        x = tl.load(x_ptr + offsets, mask=inside)
        tl.store(out_ptr + offsets, x * factor, mask=inside)


@triton.jit
def collatz(start_ptr, steps_ptr, n, BLOCK: tl.constexpr):
    """Steps of the Collatz sequence until every element of the block is 1: a while loop."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    value = tl.load(start_ptr + offsets, mask=inside, other=1)
    steps = tl.zeros((BLOCK,), dtype=tl.int32)
    while tl.max(value, axis=0) > 1:
        running = value > 1
        following = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        value = tl.where(running, following, value)
        steps += running.to(tl.int32)
    tl.store(steps_ptr + offsets, steps, mask=inside)


@triton.jit
def atomics(keys_ptr, count_ptr, largest_ptr, first_ptr, mean_ptr, n, BLOCK: tl.constexpr):
    """Every kind of atomic: integer and float sums, a maximum, an exchange, a compare and swap."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    keys = tl.load(keys_ptr + offsets, mask=inside, other=0)
    tl.atomic_add(count_ptr + keys, 1, mask=inside, sem="relaxed")
    tl.atomic_max(largest_ptr, tl.max(keys, axis=0))
    tl.atomic_cas(first_ptr, -1, tl.program_id(0))
    tl.atomic_add(mean_ptr, tl.sum(keys.to(tl.float32), axis=0) / n)
    tl.atomic_xchg(first_ptr + 1, tl.program_id(0))


@triton.jit
def guarded_copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Returns early, asserts, prints, and branches on the program."""
    program = tl.program_id(0)
    if program * BLOCK >= n:
        return
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    tl.device_assert(x == x, "a NaN came in")
    if program == 0:
        tl.device_print("first block", x)
    else:
        x = tl.where(x > 0, x, -x)
    tl.store(out_ptr + offsets, x, mask=inside)
