"""What findings call values, where they stand, and what they advise."""

import sys
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import kernellab
from kernellab.checker.records import Finding
from kernellab.errors import OutOfBounds
from tests.checker.launches import normal, zeros
from tests.support import versions
from tests.support.compiled import source_line
from tests.support.source_lines import marked_line

# fmt: off


@triton.jit
def mean_of_a_loop(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + lanes, mask=start + lanes < n, other=0.0)
        acc += x * x
        total += x
    tl.store(out_ptr + lanes, acc / total)


@triton.jit
def mean_in_its_own_name(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + lanes)
    total = tl.sum(acc)
    acc = acc / total
    tl.store(out_ptr + lanes, acc)


@triton.jit
def mean_of_a_while(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + lanes)
    total = tl.load(x_ptr + lanes)
    count = 0
    while count < n:
        acc += 1
        total *= 2
        count += 1
    ratio = acc / total
    tl.store(out_ptr + lanes, ratio)


@triton.jit
def mean_of_a_branch(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + lanes)
    total = tl.load(x_ptr + BLOCK + lanes)
    if n > 3:
        acc = acc + 1
        total = total * 2
    ratio = acc / total
    tl.store(out_ptr + lanes, ratio)


@triton.jit
def halves(x):
    low = tl.sum(x)
    high = low * 2
    return low, high


@triton.jit
def quotient_of_a_helpers_results(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The helper's own names are none here."""
    acc, total = halves(tl.load(x_ptr + tl.arange(0, BLOCK)))
    ratio = acc / total
    tl.store(out_ptr, ratio)


@triton.jit
def statement_of_several_lines(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.load(x_ptr + lanes)
    acc = ((1.0
            + total)
           / total)
    tl.store(out_ptr + lanes, acc)


@triton.jit
def exponential(x_ptr, out_ptr, WHICH: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = x
    if WHICH == "softmax":
        e = tl.exp(x)
        y = e / tl.sum(e, 0)
    elif WHICH == "logsumexp":
        y = x + tl.log2(tl.sum(tl.exp2(x), 0))
    elif WHICH == "smallest":
        e = tl.exp(x - tl.min(x, 0))
        y = e / tl.sum(e, 0)
    elif WHICH == "loop":
        total = tl.zeros((BLOCK,), tl.float32)
        for _ in range(2):
            total += tl.exp(x)
        y = total / tl.sum(total, 0)
    elif WHICH == "softplus":
        y = tl.log(1 + tl.exp(x))
    elif WHICH == "tanh":
        e = tl.exp(2 * x)
        y = (e - 1) / (e + 1)
    elif WHICH == "plain":
        y = tl.exp2(x)
    elif WHICH == "total":
        y = x + tl.sum(tl.exp(x), 0)
    elif WHICH == "sum of two":
        y = tl.log(tl.exp(x) + tl.exp(-x))
    tl.store(out_ptr + tl.arange(0, BLOCK), y)


@triton.jit
def slot_of_a_key(keys_ptr, out_ptr, n, BLOCK: tl.constexpr):
    key = tl.load(keys_ptr + tl.arange(0, BLOCK))
    slot = key % n
    tl.atomic_add(out_ptr + slot, 1)


@triton.jit
def slot_in_the_pointer(keys_ptr, out_ptr, n, BLOCK: tl.constexpr):
    key = tl.load(keys_ptr + tl.arange(0, BLOCK))
    tl.atomic_add(out_ptr + key % n, 1)


@triton.jit
def neighbor_of_a_slot(keys_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Its % is not negative: what follows is."""
    key = tl.load(keys_ptr + tl.arange(0, BLOCK))
    slot = key * key % n - 3
    tl.atomic_add(out_ptr + slot, 1)


@triton.jit
def slot_of_a_hash(keys_ptr, out_ptr, n, BLOCK: tl.constexpr):
    key = tl.load(keys_ptr + tl.arange(0, BLOCK))
    h = (key * 1103515245 + 12345) % n
    tl.atomic_add(out_ptr + h, 1)


@triton.jit
def slot_of_an_unsigned_hash(keys_ptr, out_ptr, n, BLOCK: tl.constexpr):
    key = tl.load(keys_ptr + tl.arange(0, BLOCK)).to(tl.uint32)
    h = (key * 1103515245 + 12345) % n.to(tl.uint32)
    tl.atomic_add(out_ptr + h, 1)


@triton.jit
def merge_means(mean, count, other, others):
    both = count + others
    step = other - mean
    moved = mean + step * others / both
    return moved, both


@triton.jit
def log_of_sum(a, b):
    return tl.log(tl.exp(a) + tl.exp(b))


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def divide_where_larger(a, b):
    if a > b:
        found = a / (b - b)
    else:
        found = a + b
    return found


@triton.jit
def reciprocal(a):
    return 1.0 / a


@triton.jit
def hides_its_infinity(a, b):
    one = tl.where(a == b, 0.0, 1.0 / (a - b))
    return a + b + 0 * one


@triton.jit
def means_of_rows(x_ptr, counts_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    places = rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    mean, _ = tl.reduce((tl.load(x_ptr + places), tl.load(counts_ptr + places)), 1, merge_means)
    tl.store(out_ptr + rows, mean)


@triton.jit
def element_functions(x_ptr, out_ptr, WHICH: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if WHICH == "scan":
        x = tl.associative_scan(x, 0, log_of_sum)
    elif WHICH == "product":
        x = x + tl.reduce(x, 0, multiply)
    elif WHICH == "branch":
        x = x + tl.reduce(x, 0, divide_where_larger)
    elif WHICH == "map":
        x = tl.map_elementwise(reciprocal, x)
    elif WHICH == "hidden":
        x = x + tl.reduce(x, 0, hides_its_infinity)
    elif WHICH == "sum":
        x = x + tl.sum(x, 0)
    tl.store(out_ptr + lanes, x)


@triton.jit
def sum_that_the_store_rounds(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for _ in range(n):
        total = tl.load(out_ptr + lanes).to(tl.float32)
        total = total + tl.load(x_ptr + lanes)
        tl.store(out_ptr + lanes, total)


@triton.jit
def sum_of_a_loop_without_turns(x_ptr, out_ptr, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    """The compiler unrolls it."""
    lanes = tl.arange(0, BLOCK)
    total = tl.load(out_ptr + lanes)
    for turn in tl.static_range(TURNS):
        total = total + tl.load(x_ptr + turn * BLOCK + lanes)
    tl.store(out_ptr + lanes, total)


@triton.jit
def angle(x_ptr, out_ptr, BLOCK: tl.constexpr):
    cosine = tl.load(x_ptr + tl.arange(0, BLOCK)) * 1.5
    tl.store(out_ptr + tl.arange(0, BLOCK), libdevice.acos(cosine))


@triton.jit
def turned(x_ptr, out_ptr, shift, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    place = (lanes - shift) % BLOCK
    tl.store(out_ptr + lanes, tl.load(x_ptr + place))


@triton.jit
def sums_of_a_list(addresses_ptr, sizes_ptr, out_ptr, BLOCK: tl.constexpr):
    """The last program is out of its tensor in the first turn, those before it in a later one."""
    one = tl.program_id(0)
    part_ptr = tl.load(addresses_ptr + one).to(tl.pointer_type(tl.float32))
    total = 0.0
    for start in range(0, tl.load(sizes_ptr + one), BLOCK):
        total += tl.sum(tl.load(part_ptr + start + tl.arange(0, BLOCK)))
    tl.store(out_ptr + one, total)


@triton.jit
def words_of_bytes(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    words = tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + lanes)
    tl.store(out_ptr + lanes, words)


@triton.jit
def product_by_blocks(a_ptr, out_ptr, M, K, BLOCK: tl.constexpr):
    """The variable of the loop has no name."""
    a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(tl.cdiv(K, BLOCK)):
        acc += tl.load(a, boundary_check=(0,), padding_option="zero")
        a = tl.advance(a, (0, BLOCK))
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.sum(acc, 1))


@triton.jit
def step_that_ends(x_ptr, out_ptr, n):
    step, place = 8, 0
    while place < n:
        step = step // 2
        place += step
    tl.store(out_ptr, place)


@triton.jit
def shifted_bytes(x_ptr, y_ptr, out_ptr, WHICH: tl.constexpr, BLOCK: tl.constexpr):
    x, y = tl.load(x_ptr + tl.arange(0, BLOCK)), tl.load(y_ptr + tl.arange(0, BLOCK))
    if WHICH == "mean":
        found = (x + y) >> 1
    elif WHICH == "generator":
        found = (x * 167 + 13) >> 3
    else:
        found = ((x ^ y) + y) >> 1
    tl.store(out_ptr + tl.arange(0, BLOCK), found)


# fmt: on


def only(kernel: Any, *args: Any, programs: int = 1, **constants: Any) -> Finding:
    (one,) = kernellab.check(kernel, (programs,), *args, **constants)
    return one


@pytest.mark.parametrize(
    "kernel", [mean_of_a_loop, mean_in_its_own_name, mean_of_a_while, mean_of_a_branch]
)
def test_values_that_loops_and_branches_carry_have_their_own_names(kernel) -> None:
    found = only(kernel, zeros(32), zeros(16), 5, BLOCK=16)
    assert found.message.startswith("acc / total = ")
    assert "tl.where(total == 0, 1, total)" in found.advice


def test_a_part_of_an_expression_has_no_name() -> None:
    found = only(statement_of_several_lines, zeros(16), zeros(16), 0, BLOCK=16)
    assert found.message.startswith("1 / total = 1 / 0 ")
    returned = only(quotient_of_a_helpers_results, zeros(16), zeros(1), 0, BLOCK=16)
    assert returned.message.startswith("0 / 0 is NaN")


@pytest.mark.parametrize(
    ("which", "advice", "never"),
    [
        ("softmax", "tl.exp(x - tl.max(x, axis))", "tl.minimum"),
        ("logsumexp", "tl.exp2(x - tl.max(x, axis))", "tl.minimum"),
        ("loop", "tl.exp(x - tl.max(x, axis))", "tl.minimum"),
        ("smallest", "The subtracted value is not the maximum", "tl.minimum"),
        ("softplus", "tl.maximum(x, 0) + tl.log(1 + tl.exp(-tl.abs(x)))", "tl.max("),
        ("tanh", "e = tl.exp(-2 * tl.abs(x))", "tl.max("),
        ("plain", "tl.minimum(x, 127.9)", "tl.max("),
        ("total", "tl.minimum(x, 88.7)", "tl.max("),
        ("sum of two", "m = tl.maximum(a, b)", "tl.max("),
    ],
)
def test_the_largest_is_subtracted_where_that_fixes_it(which, advice, never, messages) -> None:
    x = torch.tensor([0.0, 200.0, 1.0, 2.0])
    found = only(exponential, x, zeros(4), WHICH=which, BLOCK=4)
    assert found.kind == "infinity"
    assert found.advice == messages
    assert never not in found.advice


@pytest.mark.parametrize("kernel", [slot_of_a_key, slot_in_the_pointer])
def test_a_negative_remainder_is_told_as_that(kernel, messages) -> None:
    keys, table = torch.tensor([3, -7, 12, 5], dtype=torch.int32), zeros(10, dtype=torch.int32)
    found = only(kernel, keys, table, 10, BLOCK=4)
    assert (found.kind, found.index) == ("out-of-bounds", (-7,))
    assert found.advice == messages
    assert "mask=" not in found.advice


def test_an_index_that_is_negative_for_another_reason_is_not() -> None:
    keys, table = torch.tensor([3, -7, 1, 5], dtype=torch.int32), zeros(10, dtype=torch.int32)
    found = only(neighbor_of_a_slot, keys, table, 10, BLOCK=4)
    assert found.index == (-2,)
    assert "sign of" not in found.advice


def test_a_hash_that_wraps_is_advised_to_be_unsigned(messages) -> None:
    keys = torch.tensor([3, 7, 1_000_003, 5], dtype=torch.int32)
    found = only(slot_of_a_hash, keys, zeros(10, dtype=torch.int32), 10, BLOCK=4)
    assert found.kind == "index-overflow"
    assert found.advice == messages
    table = zeros(10, dtype=torch.int32)
    assert not kernellab.check(slot_of_an_unsigned_hash, (1,), keys, table, 10, BLOCK=4)


def test_a_combine_function_is_at_fault_on_its_own_line() -> None:
    counts = torch.ones(8, 16)
    counts[5] = 0
    constants = {"ROWS": 4, "COLUMNS": 16}
    found = only(means_of_rows, torch.ones(8, 16), counts, zeros(8), programs=2, **constants)
    assert (found.kind, found.index, found.programs) == ("nan", (5,), ((1, 0, 0),))
    assert source_line(found.position) == "moved = mean + step * others / both"
    assert [source_line(call)[:21] for call in found.calls] == ["mean, _ = tl.reduce(("]
    assert "0 / both = 0 / 0 is NaN" in found.message


@pytest.mark.parametrize(
    ("which", "line"),
    [
        ("scan", "return tl.log(tl.exp(a) + tl.exp(b))"),
        ("product", "return a * b"),
        ("branch", "found = a / (b - b)"),
        ("map", "return 1.0 / a"),
        ("sum", "x = x + tl.sum(x, 0)"),
    ],
)
def test_functions_of_elements_are_at_fault_on_their_own_lines(which, line) -> None:
    x = torch.tensor([3e38, 3e38, 1.0, 1e-39])
    found = only(element_functions, x, zeros(4), WHICH=which, BLOCK=4)
    assert found.kind == "infinity"
    assert source_line(found.position) == line


def test_what_a_combine_function_hides_is_no_fault() -> None:
    x = torch.tensor([1.0, 1.0, 2.0, 2.0])
    assert not kernellab.check(element_functions, (1,), x, zeros(4), WHICH="hidden", BLOCK=4)


def test_a_sum_that_the_store_rounds_is_told_at_the_addition() -> None:
    out = torch.full((4,), 256.0, dtype=torch.bfloat16)
    found = only(sum_that_the_store_rounds, torch.full((4,), 0.5), out, 40, BLOCK=4)
    assert found.kind == "stalled-sum"
    assert source_line(found.position) == "total = total + tl.load(x_ptr + lanes)"
    assert found.message.startswith("total stays at 256 when 0.5 is added")


def test_a_sum_stalls_in_an_unrolled_loop_too() -> None:
    out = torch.full((4,), 256.0, dtype=torch.bfloat16)
    x = torch.ones(24, 4, dtype=torch.bfloat16)
    found = only(sum_of_a_loop_without_turns, x, out, TURNS=24, BLOCK=4)
    assert found.kind == "stalled-sum"
    assert source_line(found.position).startswith("total = total + ")
    assert "out_ptr[0] becomes 256 instead of" in found.message
    zero = torch.zeros(4, dtype=torch.bfloat16)
    assert not kernellab.check(sum_of_a_loop_without_turns, (1,), x, zero, TURNS=24, BLOCK=4)


def test_a_librarys_function_is_called_as_in_the_source() -> None:
    found = only(angle, torch.tensor([0.1, 0.9]), zeros(2), BLOCK=2)
    assert found.message.startswith("libdevice.acos(cosine) = libdevice.acos(1.35) is NaN")
    assert "tl.clamp(cosine, -1.0, 1.0)" in found.advice


def test_a_remainder_of_a_difference_is_told_as_negative() -> None:
    found = only(turned, zeros(16), zeros(16), 5, BLOCK=16)
    assert (found.kind, found.index) == ("out-of-bounds", (-5,))
    assert "Write ((lanes - shift) % 16 + 16) % 16" in found.advice


@pytest.mark.slow
def test_a_finding_names_the_program_that_it_describes_first() -> None:
    parts = [torch.zeros(16), torch.zeros(40), torch.zeros(3)]
    addresses = torch.tensor([one.data_ptr() for one in parts])
    sizes = torch.tensor([16, 40, 3], dtype=torch.int32)
    found = only(sums_of_a_list, addresses, sizes, zeros(3), programs=3, BLOCK=16)
    assert found.programs == ((2, 0, 0), (1, 0, 0))
    assert (found.lane, found.values["start"]) == ((3,), 0)


@pytest.mark.slow
def test_an_argument_that_was_cast_is_named(messages) -> None:
    found = only(words_of_bytes, torch.zeros(40, dtype=torch.int8), zeros(16), BLOCK=16)
    assert found.kind == "out-of-bounds"
    assert "x_ptr" in found.advice
    assert found.advice == messages


@pytest.mark.skipif(not versions.HAS_BLOCK_POINTERS, reason="Triton 3.9 has none")
def test_a_loop_that_a_pass_made_anew_lends_its_variable_no_name() -> None:
    found = only(product_by_blocks, zeros(16, 40), zeros(16), 16, 40, BLOCK=16)
    assert found.kind == "out-of-bounds"
    assert "acc" not in found.values


def test_a_loop_that_never_ends_is_not_said_to_need_more_turns() -> None:
    found = only(step_that_ends, zeros(1), zeros(1, dtype=torch.int32), 20)
    assert found.kind == "endless-loop"
    assert "never ends" in found.message
    assert "most_turns" not in found.advice


def test_a_mean_by_a_shift_may_not_wrap_but_mixed_bits_may(messages) -> None:
    def check(which: str) -> Any:
        x, y = (torch.tensor(one, dtype=torch.uint8) for one in ([200, 3, 4, 5], [100, 1, 2, 3]))
        out = zeros(4, dtype=torch.uint8)
        return kernellab.check(shifted_bytes, (1,), x, y, out, WHICH=which, BLOCK=4)

    (found,) = check("mean")
    assert (found.kind, found.index) == ("integer-overflow", (0,))
    assert found.message == messages
    assert not check("generator")
    assert not check("mixed")


# fmt: off


@triton.jit
def scales_rows(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: scales_rows
    tl.store(out_ptr + row * N + columns, x / tl.max(tl.abs(x)), mask=columns < N)


@triton.jit
def quantizes(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: quantizes
    top = tl.max(tl.abs(x))
    tl.store(out_ptr + row * N + columns, (x * (127.0 / top)).to(tl.int8), mask=columns < N)


@triton.jit
def smallest(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: smallest
    tl.store(out_ptr + row, tl.min(x))


@triton.jit
def softmax(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: softmax
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * N + columns, e / tl.sum(e), mask=columns < N)


@pytest.mark.parametrize(
    ("kernel", "out", "severity", "fix"),
    [
        (scales_rows, zeros(3, 13), "note", "other=0.0"),
        (quantizes, zeros(3, 13, dtype=torch.int8), "note", "other=0.0"),
        (smallest, zeros(3), "warning", 'other=float("inf")'),
        (softmax, zeros(3, 13), "warning", 'other=-float("inf")'),
    ],
)
def test_zeros_that_are_neutral_are_right(kernel, out, severity, fix) -> None:
    x = normal(3, 13).abs() + 0.5
    (one,) = kernellab.check(kernel, (3,), x, out, 13, BLOCK=16)
    assert (one.kind, one.severity, one.verified) == ("missing-other", severity, True)
    assert one.line == marked_line(sys.modules[__name__], f"LOAD: {kernel.__name__}")
    assert fix in one.changes[0].new


@triton.jit
def fills(c_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    tl.store(c_ptr + m * N + n, (m * 100 + n) * 1.0)


@triton.jit
def copies(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=keep)


@triton.jit
def copies_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x)


def test_a_mask_that_is_never_used_is_passed() -> None:
    found = kernellab.check(fills, (2, 2), zeros(33, 40), 33, 40, BM=32, BN=32)
    assert {one.kind for one in found} == {"out-of-bounds", "race"}
    for one in found:
        assert one.verified
        assert "mask=inside" in one.changes[0].new
        assert "atomic" not in one.advice
    found = kernellab.check(copies_unmasked, (2,), normal(20), zeros(20), 20, BLOCK=16)
    (one,) = found.of_kind("out-of-bounds")
    assert one.verified
    assert "mask=keep" in one.changes[0].new


def test_a_mask_that_is_used_elsewhere_is_not_called_unused() -> None:
    (one,) = kernellab.check(copies, (2,), normal(20), zeros(20), 20, BLOCK=16)
    assert one.kind == "out-of-bounds"
    assert "never used" not in one.advice
    assert one.verified


@triton.jit
def differences(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    before = tl.where(i == 0, 0, tl.load(x_ptr + i - 1, i < n))
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) - before, i < n)


@pytest.mark.parametrize("is_view", [False, True])
def test_a_view_and_a_tensor_have_one_fix(is_view) -> None:
    whole = torch.tensor([99, 3, 5, 9], dtype=torch.int32)
    x = whole[1:] if is_view else whole[1:].clone()
    (one,) = kernellab.check(differences, (1,), x, zeros(4, dtype=torch.int32), 3, BLOCK=4)
    assert (one.kind, one.severity) == ("out-of-bounds", "warning" if is_view else "error")
    assert one.verified
    assert "i < n & (i - 1 >= 0)" in one.changes[0].new.replace("(i < n)", "i < n")


@triton.jit
def grows(x_ptr, out_ptr, shift, cap, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    u = x / cap
    d = u - shift
    tl.store(out_ptr + i, cap * tl.exp(d))
    tl.store(out_ptr + BLOCK + i, shift * tl.exp(d))


def test_a_number_that_became_a_tile_has_its_own_name() -> None:
    found = kernellab.check(
        grows, (1,), torch.tensor([100.0, 4400.0]), zeros(4), 0.5, 50.0, BLOCK=2
    )
    assert found.kinds[0] == "infinity"
    assert found[0].message.startswith("cap * ")


@triton.jit
def far(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    start = tl.program_id(0) * stride
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + start + tl.arange(0, BLOCK)))


@triton.jit
def far_block(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    start = tl.program_id(0) * stride
    block = tl.make_block_ptr(x_ptr + start, (BLOCK,), (1,), (0,), (BLOCK,), (0,))
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(block, boundary_check=(0,)))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("kernel", [far, far_block])
def test_a_block_pointer_is_told_no_mask(kernel) -> None:
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernel, (4,), normal(16), zeros(16), 1 << 30, BLOCK=16)
    # Program 1 is beyond the tensor by itself: nothing wraps.
    assert "int32" not in caught.value.advice
    assert ("mask" in caught.value.advice) is (kernel is far)


def test_what_wraps_is_named_in_numbers(messages) -> None:
    @triton.jit
    def twice(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
        start = (tl.program_id(0) + 2) * stride
        tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + start + tl.arange(0, BLOCK)))

    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(twice, (1,), normal(16), zeros(16), 1 << 30, BLOCK=16)
    assert caught.value.advice == messages
