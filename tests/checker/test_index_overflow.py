"""What a finding of index arithmetic says, beside exact integers; and that an access led astray is told once."""

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from tests.checker.corpus.followed_overflow import bytes_times_three
from tests.checker.corpus.index_overflow import chunks, ring
from tests.support import versions


def test_the_message_has_the_numbers() -> None:
    stride = 1_500_000_007
    (finding,) = kernellab.check(ring, (5,), torch.zeros(64), torch.zeros(40), stride, 64, BLOCK=8)
    # The first program whose product leaves int32, and what a 32-bit register then holds: Python's integers say.
    program = next(p for p in range(5) if p * stride >= 2**31)
    exact = program * stride
    wrapped = (exact + 2**31) % 2**32 - 2**31
    assert (
        f"pid * stride = {program} * {stride:,} = {exact:,} does not fit in int32"
        in finding.message
    )
    assert f"wraps to {wrapped:,}" in finding.message
    assert finding.programs == tuple((p, 0, 0) for p in range(program, 5))
    assert "tl.int64" in finding.advice


def test_leaving_the_tensor_is_a_consequence() -> None:
    """Without the check of overflow, chunk 2048 would be reported as out of bounds, twice."""
    found = kernellab.check(
        chunks, (2049,), torch.zeros(64), torch.zeros(64), 64, CHUNK=1 << 20, BLOCK=64
    )
    assert found.kinds == ("index-overflow",)


@triton.jit
def helper_row(row, stride):
    return row * stride


@triton.jit
def through_a_helper(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    start = helper_row(tl.program_id(0), stride)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + lanes, tl.load(x_ptr + (start + lanes) % n))


def test_a_helper_names_the_line_that_calls_it() -> None:
    (finding,) = kernellab.check(
        through_a_helper, (4,), torch.zeros(64), torch.zeros(32), 10**9, 64, BLOCK=8
    )
    assert finding.position is not None
    assert "return row * stride" in finding.position.excerpt()
    assert ["helper_row(" in call.excerpt() for call in finding.calls] == [True]


@triton.jit
def where_programs_part(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    offsets = lanes
    if pid % 2 == 1:
        for _ in range(pid):
            offsets += stride
    x = tl.load(x_ptr + offsets % n)
    tl.store(out_ptr + pid * BLOCK + lanes, x)


def test_only_programs_that_take_the_branch_and_turn_count() -> None:
    (finding,) = kernellab.check(
        where_programs_part, (6,), torch.zeros(64), torch.zeros(48), 10**9, 64, BLOCK=8
    )
    # Programs 1, 3 and 5 add 1, 3 and 5 times 10**9; the second turn still fits.
    assert finding.programs == ((3, 0, 0), (5, 0, 0))
    assert "offsets + stride = 2,000,000,000 + 1,000,000,000" in finding.message


@triton.jit
def two_levels(x_ptr, out_ptr, step, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(3):
        offsets = lanes
        for _ in range(2):
            offsets += step
        total += tl.load(x_ptr + offsets % n)
    tl.store(out_ptr + lanes, total)


def test_an_inner_loop_begins_anew() -> None:
    """Carried over from one inner loop to the next, the distance would find a fault where there is none."""
    fits, leaves = 10**9, 11 * 10**8
    for step, findings in ((fits, 0), (leaves, 1)):
        found = kernellab.check(
            two_levels, (1,), torch.zeros(64), torch.zeros(8), step, 64, BLOCK=8
        )
        assert len(found) == findings, str(found)


@triton.jit
def by_descriptor(x_ptr, out_ptr, rows, far, COLUMNS: tl.constexpr):
    pid = tl.program_id(0)
    table = tl.make_tensor_descriptor(x_ptr, [rows, COLUMNS], [COLUMNS, 1], [1, COLUMNS])
    row = pid * far
    tl.store(out_ptr + pid * COLUMNS + tl.arange(0, COLUMNS), table.load([row % rows, 0]).reshape(COLUMNS))  # fmt: skip


def test_indices_of_descriptors_count_too() -> None:
    x, out = torch.zeros(7, 16), torch.zeros(4, 16)
    assert not kernellab.check(by_descriptor, (3,), x, out, 7, 10**9, COLUMNS=16)
    (finding,) = kernellab.check(by_descriptor, (4,), x, out, 7, 10**9, COLUMNS=16)
    assert "pid * far = 3 * 1,000,000,000 = 3,000,000,000" in finding.message
    assert "the load on line" in finding.message


@triton.jit
def last_row(x_ptr, sizes_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    start = tl.sum(tl.load(sizes_ptr + lanes), axis=0)
    tl.store(out_ptr + lanes, tl.load(x_ptr + (start + lanes) % n))


def test_sums_wrap_too(messages) -> None:
    sizes = torch.tensor([10**9, 5, 10**9, 7], dtype=torch.int32)
    x, out = torch.zeros(63), torch.zeros(4)
    assert not kernellab.check(last_row, (1,), x, sizes, out, 63, BLOCK=4)
    sizes[1] = 10**9
    (finding,) = kernellab.check(last_row, (1,), x, sizes, out, 63, BLOCK=4)
    assert f"{sum(sizes.tolist()):,}" in finding.message
    assert finding.message == messages


@pytest.mark.parametrize(("value", "fits"), [(42, True), (43, True), (85, True), (86, False), (255, False)])  # fmt: skip
def test_a_byte_without_a_sign_holds_255(value, fits, messages) -> None:
    """PyTorch's uint8 says what the product is."""
    ids = torch.tensor([value, 1, 0, 2], dtype=torch.uint8)
    found = kernellab.check(
        bytes_times_three, (1,), torch.zeros(1024), ids, torch.zeros(4), BLOCK=4
    )
    wrapped = int((ids * 3)[0])
    assert fits == (wrapped == 3 * value)
    assert len(found) == (not fits), str(found)
    for one in found:
        assert one.message == messages


@pytest.mark.parametrize(("value", "fits"), [(-42, True), (42, True), (43, False), (-43, False)])
def test_a_byte_with_a_sign_holds_127(value, fits, messages) -> None:
    ids = torch.tensor([value, 1, 0, 2], dtype=torch.int8)
    x = torch.zeros(2048)[1024:]
    found = kernellab.check(bytes_times_three, (1,), x, ids, torch.zeros(4), BLOCK=4)
    overflows = found.of_kind("index-overflow")
    assert len(overflows) == (not fits), str(found)
    for one in overflows:
        assert one.message == messages


@triton.jit
def sorts_its_rows(x_ptr, rows_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    rows = tl.sort(tl.load(rows_ptr + lanes) * stride)
    tl.store(out_ptr + lanes, tl.load(x_ptr + tl.abs(tl.flip(rows, 0)) % n))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "stage",
    [
        "ttir",
        pytest.param(
            "ttgir",
            marks=pytest.mark.skipif(
                versions.COMPUTES_SWAPS_TWICE,
                reason="the two elements of a swap come from two copies of one computation",
            ),
        ),
    ],
)
def test_sorted_and_flipped_indices_are_followed_after_lowering_too(stage, messages) -> None:
    rows = torch.tensor([5, 1, 3, 0, 2, 7, 6, 4], dtype=torch.int32)
    arguments = torch.zeros(64), rows, torch.zeros(8)
    fits, leaves = (2**31 - 1) // 7, 2**31 // 7 + 1
    assert not kernellab.check(sorts_its_rows, (1,), *arguments, fits, 63, BLOCK=8, stage=stage)
    (finding,) = kernellab.check(sorts_its_rows, (1,), *arguments, leaves, 63, BLOCK=8, stage=stage)
    assert f"{7 * leaves:,}" in finding.message
    assert finding.message == messages
    assert (finding.lane, finding.count) == ((5,), 1)


@triton.jit
def hands_on(x_ptr, places_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    """Program 0 stores the places that the others load."""
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(places_ptr + lanes, lanes * stride)
    else:
        places = tl.load(places_ptr + lanes)
        tl.store(out_ptr + lanes, tl.load(x_ptr + tl.abs(places % n)))


def test_an_index_is_followed_through_memory_to_another_program() -> None:
    places = torch.zeros(4, dtype=torch.int32)
    arguments = torch.zeros(64), places, torch.zeros(4)
    fits = kernellab.check(hands_on, (2,), *arguments, 700_000_000, 63, BLOCK=4)
    assert not fits.of_kind("index-overflow")
    found = kernellab.check(hands_on, (2,), *arguments, 1_000_000_000, 63, BLOCK=4)
    (finding,) = found.of_kind("index-overflow")
    assert "stride = 3 * 1,000,000,000 = 3,000,000,000" in finding.message
    assert finding.programs == ((0, 0, 0),)
