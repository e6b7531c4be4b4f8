"""Index arithmetic that leaves int32, though every exact index is inside; and clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


@triton.jit
def ring(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    start = pid * stride  # fault: index-overflow
    x = tl.load(x_ptr + (start + lanes) % n)
    tl.store(out_ptr + pid * BLOCK + lanes, x)


@triton.jit
def chunks(x_ptr, out_ptr, n, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """The last chunk begins at 2**31: its index is negative, and so below n."""
    pid = tl.program_id(0)
    offsets = pid * CHUNK + tl.arange(0, BLOCK)  # fault: index-overflow
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x, mask=inside)


@triton.jit
def walk(x_ptr, out_ptr, step, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    offsets = lanes
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(STEPS):
        total += tl.load(x_ptr + offsets % n)
        offsets += step  # fault: index-overflow
    tl.store(out_ptr + lanes, total)


@triton.jit
def rows_and_columns(x_ptr, out_ptr, row_stride, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, COLUMNS)[None, :]
    index = rows * row_stride + columns  # fault: index-overflow
    x = tl.load(x_ptr + index % n)
    tl.store(out_ptr + rows * COLUMNS + columns, x)


@triton.jit
def rows_of_a_table(table_ptr, ids_ptr, out_ptr, row_bytes, n, BLOCK: tl.constexpr):
    """Ids come from memory; the table is hashed into n slots."""
    lanes = tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + lanes)
    place = ids * row_bytes  # fault: index-overflow
    tl.store(out_ptr + lanes, tl.load(table_ptr + place // 64 % n))


@triton.jit
def shifted(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    start = pid << 30  # fault: index-overflow
    x = tl.load(x_ptr + (start // 1048576 + lanes) % n)
    tl.store(out_ptr + pid * BLOCK + lanes, x)


@triton.jit
def from_the_end(x_ptr, out_ptr, last, back, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    start = last - pid * back  # fault: index-overflow
    x = tl.load(x_ptr + (start + lanes) % n, mask=start > 0, other=0.0)
    tl.store(out_ptr + pid * BLOCK + lanes, x)


@triton.jit
def cut_short(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    """Computed in int64, then cut to int32."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    place = pid.to(tl.int64) * stride
    start = place.to(tl.int32)  # fault: index-overflow
    x = tl.load(x_ptr + (start + lanes) % n)
    tl.store(out_ptr + pid * BLOCK + lanes, x)


@triton.jit
def wrongly_off(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """The index wraps below zero, where the mask is off: elements are left out."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    place = pid * stride  # fault: index-overflow
    x = tl.load(x_ptr + lanes, mask=lanes + place >= 0, other=-1.0)
    tl.store(out_ptr + pid * BLOCK + lanes, x)


@triton.jit
def small_integers(x_ptr, out_ptr, ids_ptr, BLOCK: tl.constexpr):
    """Ids of 8 bits times 4 are computed in 8 bits."""
    lanes = tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + lanes)
    x = tl.load(x_ptr + ids * 4)  # fault: index-overflow
    tl.store(out_ptr + lanes, x)


@triton.jit
def packed_rows(x_ptr, sizes_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Rows lie one after the other; where each begins is the sum of the sizes before."""
    lanes = tl.arange(0, BLOCK)
    sizes = tl.load(sizes_ptr + lanes)
    ends = tl.cumsum(sizes, axis=0)  # fault: index-overflow
    tl.store(out_ptr + lanes, tl.load(x_ptr + (ends - sizes) % n))




@triton.jit
def hashed(keys_ptr, table_ptr, out_ptr, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """Multiplicative hashing wraps on purpose; its upper bits are the slot."""
    lanes = tl.arange(0, BLOCK)
    keys = tl.load(keys_ptr + lanes).to(tl.uint32)
    slot = (keys * 2654435761) >> 24
    tl.store(out_ptr + lanes, tl.load(table_ptr + slot % SLOTS))


@triton.jit
def random_rows(x_ptr, out_ptr, seed, n, BLOCK: tl.constexpr):
    """Philox multiplies and adds without a care for overflow."""
    lanes = tl.arange(0, BLOCK)
    rows = tl.randint(seed, lanes).to(tl.uint32) % n.to(tl.uint32)
    tl.store(out_ptr + lanes, tl.load(x_ptr + rows.to(tl.int32)))


@triton.jit
def masked_off(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    """Programs beyond the last wrap, and access nothing."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    start = pid * stride
    x = tl.load(x_ptr + start + lanes, mask=(pid < n) & (lanes < BLOCK), other=0.0)
    tl.store(out_ptr + pid * BLOCK + lanes, x)


@triton.jit
def there_and_back(x_ptr, out_ptr, far, BLOCK: tl.constexpr):
    """Leaves int32 and comes back: modulo 2**32 the sum is right."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    offsets = lanes + far + pid * BLOCK
    offsets = offsets - far
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


BILLION = 1_000_000_000

PAIRS = [
    pair(ring, {"pid * stride": "pid.to(tl.int64) * stride"}, (4,), lambda: (normal(64), zeros(32), BILLION, 64), BLOCK=8),
    pair(chunks, {"pid = tl.program_id(0)": "pid = tl.program_id(0).to(tl.int64)"}, (2049,), lambda: (normal(64), zeros(64), 64), CHUNK=1 << 20, BLOCK=64),
    pair(walk, {"offsets = lanes": "offsets = lanes.to(tl.int64)"}, (1,), lambda: (normal(64), zeros(8), BILLION, 64), STEPS=4, BLOCK=8),
    pair(rows_and_columns, {"index = rows * row_stride + columns": "index = rows.to(tl.int64) * row_stride + columns"}, (1,), lambda: (normal(64), zeros(16, 8), 200_000_000, 64), ROWS=16, COLUMNS=8),
    pair(rows_of_a_table, {"ids = tl.load(ids_ptr + lanes)": "ids = tl.load(ids_ptr + lanes).to(tl.int64)"}, (1,), lambda: (normal(64), indices(7, 500, 70_000, 3), zeros(4), 40_000, 64), BLOCK=4),
    pair(shifted, {"start = pid << 30": "start = pid.to(tl.int64) << 30"}, (4,), lambda: (normal(64), zeros(32), 64), BLOCK=8),
    pair(from_the_end, {"pid = tl.program_id(0)": "pid = tl.program_id(0).to(tl.int64)"}, (3,), lambda: (normal(64), zeros(32), -BILLION, BILLION, 64), BLOCK=8),
    pair(cut_short, {"place.to(tl.int32)": "place"}, (4,), lambda: (normal(64), zeros(32), BILLION, 64), BLOCK=8),
    pair(wrongly_off, {"place = pid * stride": "place = pid.to(tl.int64) * stride"}, (4,), lambda: (normal(8), zeros(32), BILLION), BLOCK=8),
    pair(small_integers, {"ids = tl.load(ids_ptr + lanes)": "ids = tl.load(ids_ptr + lanes).to(tl.int32)"}, (1,), lambda: (normal(512), zeros(4), torch.tensor([1, 5, 31, 33], dtype=torch.int8)), BLOCK=4),
    pair(packed_rows, {"sizes = tl.load(sizes_ptr + lanes)": "sizes = tl.load(sizes_ptr + lanes).to(tl.int64)"}, (1,), lambda: (normal(63), indices(BILLION, 2, BILLION, BILLION, 5, 6, 7, 8), zeros(8), 63), BLOCK=8),
    Pair(
        faulty=Launch(ring, (4,), lambda: (normal(64), zeros(32), BILLION, 64), {"BLOCK": 8}),
        clean=Launch(hashed, (1,), lambda: (indices(3, 1, 4, 1), normal(256), zeros(4)), {"SLOTS": 256, "BLOCK": 4}),
    ),
    Pair(
        faulty=Launch(shifted, (4,), lambda: (normal(64), zeros(32), 64), {"BLOCK": 8}),
        clean=Launch(random_rows, (1,), lambda: (normal(50), zeros(64), 7, 50), {"BLOCK": 64}),
    ),
    Pair(
        faulty=Launch(rows_and_columns, (1,), lambda: (normal(64), zeros(16, 8), 200_000_000, 64), {"ROWS": 16, "COLUMNS": 8}),
        clean=Launch(masked_off, (4,), lambda: (normal(64), zeros(32), BILLION, 1), {"BLOCK": 8}),
    ),
    Pair(
        faulty=Launch(cut_short, (4,), lambda: (normal(64), zeros(32), BILLION, 64), {"BLOCK": 8}),
        clean=Launch(there_and_back, (2,), lambda: (normal(16), zeros(16), 2**31 - 4), {"BLOCK": 8}),
    ),
]
