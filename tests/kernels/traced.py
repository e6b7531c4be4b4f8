"""Kernels to trace: also plain Python, once `tl` is NumPy."""

import triton
import triton.language as tl


@triton.jit
def smoothed(previous, tile, WEIGHT: tl.constexpr):
    scaled = tile * WEIGHT
    mixed = previous + scaled
    return mixed  # noqa: RET504 - a name to look at


@triton.jit
def accumulate(x_ptr, y_ptr, n, rounds, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(rounds):
        x = tl.load(x_ptr + k * n + offsets, mask=mask, other=0.0)
        if k > 1:
            x = x * 2
        acc = smoothed(acc, x, 3)
    tl.store(y_ptr + offsets, acc, mask=mask)


@triton.jit
def accumulate_otherwise(x_ptr, y_ptr, n, rounds, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(rounds):
        x = tl.load(x_ptr + k * n + offsets, mask=mask, other=0.0)
        if k >= 1:  # wrong from k = 1 on
            x = x * 2
        acc = smoothed(acc, x, 3)
    tl.store(y_ptr + offsets, acc, mask=mask)


@triton.jit
def divided(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)
    ratio = x / y
    result = ratio * 0.0 + ratio
    tl.store(z_ptr + offsets, result, mask=offsets < n)


@triton.jit
def count_programs(total_ptr, seen_ptr):
    before = tl.atomic_add(total_ptr, 1)
    tl.store(seen_ptr + tl.program_id(0), before)


@triton.jit
def beyond(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    doubled = x * 2
    tl.store(y_ptr + offsets, doubled)


@triton.jit
def printing_beyond(x_ptr, BLOCK: tl.constexpr):
    tl.device_print("begins")
    tl.store(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)


@triton.jit
def through_descriptors(source, target, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    tile = source.load([row, 0])
    target.store([row, 0], tile + 1.0)


@triton.jit
def chosen(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    source = tl.where(lanes % 2 == 0, x_ptr + lanes, y_ptr + lanes)
    tl.store(z_ptr + lanes, tl.load(source))


@triton.jit
def nothing(x_ptr):
    pass


@triton.jit
def summed(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    total = tl.sum(x)
    tl.store(out_ptr, total)


@triton.jit
def asserted(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.device_assert(smoothed(x, x, 1) < 14, "too large")


@triton.jit
def talkative(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    doubled = x * 2
    tl.device_print("doubled", doubled)


@triton.jit
def counted(total_ptr):
    tl.atomic_add(total_ptr, 1)


@triton.jit
def named_as_options(target, programs, BLOCK: tl.constexpr):
    keys = tl.arange(0, BLOCK)
    tl.store(programs + keys, tl.load(target + keys))


@triton.jit
def filled(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    for k in range(3):
        offsets = (tl.program_id(0) * 3 + k) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        z = x * 2 + k
        tl.store(z_ptr + offsets, z, mask=offsets < n)


@triton.jit
def walking(x_ptr, z_ptr, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * BLOCK
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(z_ptr + tl.arange(0, BLOCK), x)


@triton.jit
def large_writes(x_ptr, index_ptr, out_ptr, count_ptr, n, SIDE: tl.constexpr):
    rows = tl.arange(0, SIDE)[:, None]
    offsets = rows * SIDE + tl.arange(0, SIDE)[None, :]
    doubled = tl.load(x_ptr + offsets) * 2
    tl.store(out_ptr + offsets, doubled)
    index = tl.load(index_ptr + offsets)
    tl.atomic_add(count_ptr + index, doubled, mask=doubled > 3)
    tl.store(out_ptr + index, doubled + 1, mask=offsets < n)


@triton.jit
def words_alone(x_ptr):
    """What it would do."""


@triton.jit
def dots_alone(x_ptr): ...
