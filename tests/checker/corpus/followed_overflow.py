"""Indices without a sign, and indices that wrapped before they were sorted, shifted, joined or stored."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


@triton.jit
def bytes_times_three(x_ptr, ids_ptr, out_ptr, BLOCK: tl.constexpr):
    """255 * 3 is 765; its 8 bits are 253: -1 * 3 = -3, with a sign, would fit."""
    lanes = tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + lanes)
    tl.store(out_ptr + lanes, tl.load(x_ptr + ids * 3))  # fault: index-overflow


@triton.jit
def words_times_two(x_ptr, ids_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    place = tl.load(ids_ptr + lanes) * 2  # fault: index-overflow
    tl.store(out_ptr + lanes, tl.load(x_ptr + place.to(tl.int32) % n))


@triton.jit
def one_before_zero(x_ptr, ids_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    before = tl.load(ids_ptr + lanes) - 1  # fault: index-overflow
    tl.store(out_ptr + lanes, tl.load(x_ptr + before))


@triton.jit
def digits(text_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """One comparison of numbers without a sign for two: the others wrap, and are off."""
    lanes = tl.arange(0, BLOCK)
    digit = tl.load(text_ptr + lanes) - 48
    tl.store(out_ptr + lanes, tl.load(x_ptr + digit, mask=digit < 10, other=-1.0))


@triton.jit
def row_of_a_uint32(x_ptr, rows_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    row = tl.load(rows_ptr + lanes) * 65536  # fault: index-overflow
    tl.store(out_ptr + lanes, tl.load(x_ptr + row))


@triton.jit
def congruential(states_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """A generator in uint32 wraps on purpose; what it draws is kept, and compared."""
    lanes = tl.arange(0, BLOCK)
    state = tl.load(states_ptr + lanes)
    for _ in range(3):
        state = state * 1664525 + 1013904223
    tl.store(states_ptr + lanes, state)
    x = tl.load(x_ptr + (state >> 8) % n.to(tl.uint32), mask=state < 3000000000, other=0.0)
    tl.store(out_ptr + lanes, x)


@triton.jit
def mixed_bits(keys_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """int32 is mixed too: of its bits some are the slot."""
    lanes = tl.arange(0, BLOCK)
    h = tl.load(keys_ptr + lanes)
    h = (h ^ (h >> 16)) * 73244475
    h = (h ^ (h >> 16)) * 73244475
    tl.store(keys_ptr + lanes, h)
    tl.store(out_ptr + lanes, tl.load(x_ptr + (tl.load(keys_ptr + lanes) & 63)))


# What happens to an index between the arithmetic and the access


@triton.jit
def moved_on(x_ptr, ids_ptr, out_ptr, stride, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    place = tl.load(ids_ptr + lanes) * stride  # fault: index-overflow
    if HOW == "maximum":
        place = tl.maximum(place, lanes)
    elif HOW == "minimum":
        place = tl.minimum(place, 2000000000)
    elif HOW == "max":
        place = lanes + tl.max(place, axis=0) // 4
    elif HOW == "min":
        place = lanes + tl.min(place, axis=0) // 4
    elif HOW == "argmax":
        place = lanes + tl.argmax(place, axis=0)
    elif HOW == "argmin":
        place = lanes + tl.argmin(place, axis=0)
    elif HOW == "cummax":
        place = tl.associative_scan(place, 0, tl.standard._elementwise_max)
    elif HOW == "sort":
        place = tl.sort(place)
    elif HOW == "descending":
        place = tl.sort(place, descending=True)
    elif HOW == "topk":
        top = tl.topk(place, 4)
        place = tl.join(top, top).reshape(BLOCK)
    elif HOW == "flip":
        place = tl.flip(place, 0)
    elif HOW == "cat":
        place = tl.max(tl.cat(place, lanes, can_reorder=True), axis=0) + lanes
    elif HOW == "abs":
        place = tl.abs(place)
    elif HOW == "shift":
        place = place >> 4
    elif HOW == "split":
        even, odd = tl.split(tl.reshape(place, (BLOCK // 2, 2)))
        place = tl.join(odd, even).reshape(BLOCK)
    elif HOW == "trans":
        place = tl.trans(place.reshape(2, BLOCK // 2)).reshape(BLOCK)
    elif HOW == "gather":
        place = tl.gather(place, (lanes + 1) % BLOCK, axis=0)
    elif HOW == "bitcast":
        place = place.to(tl.uint32, bitcast=True).to(tl.int32, bitcast=True)
    tl.store(out_ptr + lanes, tl.load(x_ptr + tl.abs(place % n)))


@triton.jit
def through_memory(x_ptr, ids_ptr, scratch_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    place = tl.load(ids_ptr + lanes) * stride  # fault: index-overflow
    tl.store(scratch_ptr + lanes, place)
    tl.debug_barrier()
    again = tl.load(scratch_ptr + (lanes + 1) % BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + tl.abs(again % n)))


@triton.jit
def overwritten_memory(x_ptr, ids_ptr, scratch_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    """What is read was written afterwards; the checksum that wraps is no one's index."""
    lanes = tl.arange(0, BLOCK)
    checksum = tl.load(ids_ptr + lanes) * stride
    tl.store(scratch_ptr + lanes, checksum)
    tl.store(scratch_ptr + lanes, lanes * 2)
    tl.store(scratch_ptr + BLOCK + lanes, checksum)
    tl.debug_barrier()
    tl.store(out_ptr + lanes, tl.load(x_ptr + tl.load(scratch_ptr + lanes) % n))


@triton.jit
def sorted_infinities(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Where an infinity began is known behind a sort, a flip and a maximum too."""
    lanes = tl.arange(0, BLOCK)
    y = 1.0 / tl.load(x_ptr + lanes)  # fault: infinity
    tl.store(out_ptr + lanes, tl.flip(tl.sort(y), 0))


HOWS = ("maximum", "minimum", "max", "min", "argmax", "argmin", "cummax", "sort", "descending", "topk", "flip", "cat", "abs", "shift", "split", "trans", "gather", "bitcast")
BILLION = 1_000_000_000


def moved(how: str) -> Pair:
    def launch(stride: int) -> Launch:
        ids = indices(-4, 1, 7, 3, 0, 2, 6, 5)
        return Launch(moved_on, (1,), lambda: (normal(64), ids, zeros(8), stride, 63), {"HOW": how, "BLOCK": 8})

    return Pair(faulty=launch(BILLION), clean=launch(BILLION // 8))


def small(kind: torch.dtype, *values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64).to(kind)


PAIRS = [
    # Up to 85, the product fits; as a signed number it would not from 43 on.
    pair(bytes_times_three, {"load(ids_ptr + lanes": "minimum(tl.load(ids_ptr + lanes), 85"}, (1,), lambda: (normal(1024), small(torch.uint8, 7, 255, 60, 200), zeros(4)), BLOCK=4),
    pair(words_times_two, {"lanes)": "lanes).to(tl.int32)", "place.to(tl.int32)": "place"}, (1,), lambda: (normal(64), small(torch.uint16, 7, 40_000, 60, 65_535), zeros(4), 63), BLOCK=4),
    Pair(
        faulty=Launch(one_before_zero, (1,), lambda: (normal(256), small(torch.uint8, 7, 0, 255, 1), zeros(4)), {"BLOCK": 4}),
        clean=Launch(one_before_zero, (1,), lambda: (normal(256), small(torch.uint8, 7, 128, 255, 1), zeros(4)), {"BLOCK": 4}),
    ),
    Pair(
        faulty=Launch(bytes_times_three, (1,), lambda: (normal(1024), small(torch.uint8, 86, 0, 1, 2), zeros(4)), {"BLOCK": 4}),
        clean=Launch(digits, (1,), lambda: (small(torch.uint8, *b"3 9/a0\xff5"), normal(10), zeros(8)), {"BLOCK": 8}),
    ),
    # Beyond int32, within uint32: all of it multiples of the table's size.
    pair(row_of_a_uint32, {"+ row": "+ row % 65536"}, (1,), lambda: (normal(65536), small(torch.uint32, 0, 65536, 0, 65537), zeros(4)), BLOCK=4),
    Pair(
        faulty=moved("sort").faulty,
        clean=Launch(congruential, (1,), lambda: (small(torch.uint32, 1, 2, 3, 4_000_000_000), normal(50), zeros(4), 50), {"BLOCK": 4}),
    ),
    Pair(
        faulty=moved("flip").faulty,
        clean=Launch(mixed_bits, (1,), lambda: (indices(1, -5, 1_000_000_007, 40_000), normal(64), zeros(4)), {"BLOCK": 4}),
    ),
    *map(moved, HOWS),
    pair(through_memory, overwritten_memory, (1,), lambda: (normal(64), indices(-4, 1, 7, 3), torch.zeros(8, dtype=torch.int32), zeros(4), BILLION, 63), BLOCK=4),
    pair(sorted_infinities, {"y = 1.0 / tl.load(x_ptr + lanes)": "y = 1.0 / (tl.load(x_ptr + lanes) + 1.0)"}, (1,), lambda: (torch.tensor([3.0, 0.0, 2.0, 5.0, 1.0, 4.0, 7.0, 6.0]), zeros(8)), BLOCK=8),
]
