"""Conversions between layouts: what is said of them against the machine code, and against layouts worked out by hand."""

import re
from collections.abc import Mapping
from typing import Any

import numpy
import pytest
import triton
import triton.language as tl
from triton.experimental.gluon import language as gl

from kernellab.compiler.analyses.conversions import elements_moved
from kernellab.compiler.analyses.records import Conversion
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.modules import lines_of_operations
from kernellab.compiler.passes import lowered_text
from kernellab.interpreter.ptx_threads import Threads, functions
from kernellab.records.layouts import Layout
from kernellab.viz.layouts import conversions_card, layouts_card, tile_card
from tests.corpus.entries import OLDEST
from tests.kernels.relayout import change_layout
from tests.support.compiled import compiled, of_corpus, source_line
from tests.support.versions import COMBINES_WARPS_BY_REDUX, REDUCES_IN_ONE_ROUND

LANES = 32


def count(opcodes: Mapping[str, int], *beginnings: str) -> int:
    return sum(number for opcode, number in opcodes.items() if opcode.startswith(beginnings))


def shuffles(one: Conversion) -> int:
    return count(one.in_finished_code, "SHFL")


def through_shared(one: Conversion) -> tuple[int, int]:
    """Instructions that write shared memory, and that read it."""
    return count(one.in_finished_code, "STS"), count(one.in_finished_code, "LDS")


def assert_done_as_said(one: Conversion) -> None:
    """The machine code has the instructions that the means promise, and none of the others."""
    written, read = through_shared(one)
    assert shuffles(one) == 0 or one.means == "warp shuffles" or "reduce" in one.operation or "scan" in one.operation  # fmt: skip
    if one.means == "warp shuffles":
        assert shuffles(one) > 0
    if one.means == "shared memory" and one.operation == "ttg.convert_layout":
        assert written > 0
        assert read > 0
        assert count(one.in_finished_code, "BAR") > 0
    if one.means != "shared memory":
        assert (written, read) == (0, 0)
        assert one.scratch_bytes == 0


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("matmul", "sm_80"), ("matmul", "sm_90"), ("matmul_small", "sm_75"),
        ("attention_forward", "sm_80"), ("attention_forward", "sm_90"),
        ("attention_backward", "sm_90"), ("layer_norm_backward", "sm_80"), ("sort", "sm_90"),
        ("cumsum", "sm_90"), ("linear_recurrence", "sm_80"), ("histogram", "sm_90"),
        ("softmax", "sm_90"), ("gluon_transpose", "sm_80"),
    ],
)  # fmt: skip
def test_the_machine_code_does_what_is_said(name, target) -> None:
    found = of_corpus(name, target).conversions()
    assert len(found) > 0
    for one in found:
        assert_done_as_said(one)


def blocked(size: list[int], threads: list[int], warps: list[int], order: list[int]) -> gl.BlockedLayout:  # fmt: skip
    return gl.BlockedLayout(size, threads, warps, order)


def held(layout: gl.BlockedLayout) -> set[tuple[int, int, int, int]]:
    """(warp, lane, row, column) of a 32x32 tile, from what a blocked layout means; the first dimension of the order is fastest."""
    found = set()
    for row in range(32):
        for column in range(32):
            index = (row, column)
            lane = warp = 0
            for dim in reversed(layout.order):
                box = index[dim] // layout.size_per_thread[dim]
                lane = lane * layout.threads_per_warp[dim] + box % layout.threads_per_warp[dim]
                box //= layout.threads_per_warp[dim]
                warp = warp * layout.warps_per_cta[dim] + box % layout.warps_per_cta[dim]
            found.add((warp, lane, *index))
    return found


def laid_out(layout: gl.BlockedLayout) -> Any:
    return Layout.blocked(
        shape=(32, 32),
        size_per_thread=layout.size_per_thread,
        threads_per_warp=layout.threads_per_warp,
        warps_per_cta=layout.warps_per_cta,
        order=layout.order,
    )


ROWS = blocked([1, 4], [4, 8], [4, 1], [1, 0])
BOXES = blocked([2, 2], [8, 4], [2, 2], [1, 0])
PAIRS = blocked([2, 4], [4, 8], [4, 1], [1, 0])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("before", "after", "means"),
    [
        (ROWS, blocked([4, 1], [8, 4], [1, 4], [0, 1]), "shared memory"),
        (ROWS, blocked([1, 1], [1, 32], [4, 1], [1, 0]), "shared memory"),
        (ROWS, blocked([1, 2], [4, 8], [4, 1], [1, 0]), "warp shuffles"),
        (PAIRS, blocked([2, 4], [4, 8], [4, 1], [0, 1]), "warp shuffles"),
        (BOXES, blocked([2, 2], [8, 4], [2, 2], [0, 1]), "shared memory"),
        (BOXES, ROWS, "shared memory"),
    ],
)
def test_bytes_and_means_by_hand(before, after, means) -> None:
    one = conversion(before, after)
    come = held(after) - held(before)
    owner = {index: holder for *holder, row, column in held(before) for index in [(row, column)]}
    other_warp = any(owner[row, column][0] != warp for warp, _, row, column in come)
    assert one.means == means == ("shared memory" if other_warp else "warp shuffles")
    assert elements_moved(laid_out(before), laid_out(after)) == len(come)
    assert one.shared_bytes == (4 * 32 * 32 if other_warp else 0)
    assert one.shuffled_bytes == shuffles(one) * 4 * 4 * LANES
    assert_done_as_said(one)
    assert one.means != "warp shuffles" or one.shuffled_bytes >= 4 * len(come)
    stay = held(after) & held(before)
    assert one.kept_bytes == (0 if other_warp else 4 * len(stay))
    assert ("stay in their threads" in str(one)) == (not other_warp and bool(stay))


@pytest.mark.slow
def test_registers_in_another_order_and_none() -> None:
    """Each thread keeps its 2x4 box; the basis vectors of its three register bits change places."""
    lanes, warps = [[0, 4], [0, 8], [0, 16], [2, 0], [4, 0]], [[8, 0], [16, 0]]

    def linear(registers: list[list[int]]) -> gl.DistributedLinearLayout:
        return gl.DistributedLinearLayout(registers, lanes, warps, [], [32, 32])

    turned = conversion(PAIRS, linear([[1, 0], [0, 1], [0, 2]]))
    assert (turned.means, turned.shared_bytes, turned.shuffled_bytes) == ("registers", 0, 0)
    assert turned.kept_bytes == 4 * 32 * 32
    assert_done_as_said(turned)
    same = conversion(PAIRS, linear([[0, 1], [0, 2], [1, 0]]))
    assert (same.means, same.shared_bytes, same.shuffled_bytes) == ("no-op", 0, 0)
    assert_done_as_said(same)


def conversion(before: object, after: object) -> Conversion:
    """The one `ttg.convert_layout` of a kernel that loads in one layout and stores in the other."""
    compilation = compiled(
        change_layout, "*fp32:16", "*fp32:16", BEFORE=before, AFTER=after, num_warps=4
    )
    # A conversion that does nothing goes before the TTGIR stage ends.
    snapshots = ["ttgir", *(run.label for run in compilation.passes if run.stage != "llir")]
    for snapshot in snapshots:
        for one in compilation.conversions(snapshot):
            if one.operation == "ttg.convert_layout":
                return one
    raise AssertionError("no conversion")


def test_the_conversion_of_a_matmul(messages) -> None:
    compilation = of_corpus("matmul", "sm_90")
    (one,) = compilation.conversions()
    assert "tl.store" in source_line(one.position)
    assert [neighbor.operation for neighbor in one.forced_by] == ["ttng.warp_group_dot"]
    assert "tl.dot" in source_line(one.forced_by[0].position)
    assert [neighbor.operation for neighbor in one.wanted_by] == ["tt.store"]
    assert "nvidia_mma" in one.source
    assert "blocked" in one.destination
    assert not one.in_loop
    (scratch,) = [
        b for b in compilation.shared_memory().buffers if b.operation == "ttg.convert_layout"
    ]
    assert one.scratch_bytes == scratch.size_bytes
    assert "warp_group_dot" in str(one)
    assert str(one) == messages


@pytest.mark.slow
def test_operands_are_loaded_in_the_loop() -> None:
    found = of_corpus("matmul", "sm_80").conversions()
    operands = [one for one in found if one.operation == "ttg.local_load" and one.in_loop]
    assert {one.name for one in operands} == {"a", "b"}
    # Triton 3.9 loads them piece by piece.
    assert sum(one.shared_bytes for one in operands) == 2 * 128 * 64 * 2
    for one in operands:
        assert one.means == "shared memory"
        assert [neighbor.operation for neighbor in one.wanted_by] == ["tt.dot"]
        assert count(one.in_finished_code, "LDSM") > 0


def stored_bytes(compilation: Compilation, one: Conversion) -> tuple[int, int]:
    """Bytes that an operation's PTX stores in shared memory: by instruction, and different ones."""
    lines = lines_of_operations(compilation.stages["ttgir"].text)[one.operation]
    before = [other for other in compilation.conversions() if other.operation == one.operation]
    text = lowered_text(compilation.stages["ttgir"].text, compilation.target)
    (function,) = functions(text.ptx)
    line = lines[before.index(one)]
    stores = {
        place: statement.text
        for place, statement in enumerate(function.statements)
        if statement.line == line and " st.shared" in f" {statement.text}".replace("\t", " ")
    }
    each, together = 0, set[int]()
    for access in Threads(function, function.threads).accesses(stores):
        found = re.search(r"(?:\.v(\d))?\.[bfus](\d+)", stores[access.place])
        assert found is not None
        assert access.address is not None
        on = numpy.ones(access.threads, bool) if access.on is None else access.on
        size = int(found[1] or 1) * int(found[2]) // 8
        stored = {int(first) + byte for first in access.address[on] for byte in range(size)}
        each += len(stored)
        together |= stored
    return each, len(together)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "operation"),
    [
        ("matmul", "sm_80", "ttg.convert_layout"),
        ("attention_forward", "sm_80", "ttg.convert_layout"),  # through half as much space, twice
        ("attention_forward", "sm_80", "ttg.local_alloc"),
        ("layer_norm_backward", "sm_80", "ttg.convert_layout"),
        ("softmax", "sm_90", "tt.reduce"),
        ("linear_recurrence", "sm_80", "tt.scan"),
    ],
)
def test_bytes_through_shared_memory_are_those_that_the_code_stores(
    name, target, operation
) -> None:
    compilation = of_corpus(name, target)
    looked_at = [
        one
        for one in compilation.conversions()
        if one.operation == operation and one.means == "shared memory" and not one.in_loop
    ]
    assert looked_at
    for one in looked_at:
        each, together = stored_bytes(compilation, one)
        assert one.shared_bytes == (together if operation in ("tt.reduce", "tt.scan") else each)
        assert f"{one.shared_bytes:,} bytes through shared memory" in str(one)


@triton.jit
def running_sum(x, out, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.cumsum(tl.load(x + offsets), 0, reverse=REVERSE))


@triton.jit
def largest_of_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out + rows, tl.max(tile, 1))


@pytest.mark.slow
def test_a_scan_says_what_goes_through_shared_memory_and_what_by_shuffles() -> None:
    """Four warps leave a number each in shared memory; 5 shuffles of 128 threads move 4 bytes."""
    compilation = compiled(running_sum, "*fp32:16", "*fp32:16", BLOCK=128, REVERSE=False)
    scan = compilation.conversions()[0]
    assert compilation.resources.shared_bytes == 16
    assert (shuffles(scan), through_shared(scan)) == (5, (1, 1))
    assert "tt.scan: 16 bytes through shared memory, 2,560 by warp shuffles; from" in str(scan)
    assert scan.cost() in conversions_card(compilation.conversions()).text()
    (early,) = (
        one for one in compilation.conversions("ttgir.coalesce") if one.operation == "tt.scan"
    )
    assert early.cost() == "16 bytes through shared memory, an estimated 2,560 by warp shuffles"
    assert compilation.conversions()[:1] == (scan,)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("kernel", "types", "constants"),
    [
        (running_sum, ("*fp32:16", "*fp32:16"), {"BLOCK": 128, "REVERSE": False}),
        (running_sum, ("*fp32:16", "*fp32:16"), {"BLOCK": 4096, "REVERSE": False}),
        (running_sum, ("*fp64:16", "*fp64:16"), {"BLOCK": 512, "REVERSE": False}),
        (running_sum, ("*fp32:16", "*fp32:16"), {"BLOCK": 1024, "REVERSE": True}),
        (largest_of_rows, ("*fp32:16", "*fp32:16"), {"ROWS": 16, "COLUMNS": 64}),
        (largest_of_rows, ("*fp16:16", "*fp16:16"), {"ROWS": 128, "COLUMNS": 128}),
        (largest_of_rows, ("*fp32:16", "*fp32:16"), {"ROWS": 4, "COLUMNS": 512}),
    ],
)
def test_what_shuffles_hand_on_is_estimated_well(kernel, types, constants) -> None:
    """The estimate without machine code is what its shuffles hand on: 4 bytes of each thread."""
    compilation = compiled(kernel, *types, **constants)
    (one,) = (one for one in compilation.conversions() if one.operation in ("tt.reduce", "tt.scan"))
    passes = [run.label for run in compilation.passes if run.stage == "ttgir"]
    (estimated,) = (
        early
        for early in compilation.conversions(passes[-1])
        if early.operation in ("tt.reduce", "tt.scan")
    )
    assert one.shuffles_counted
    assert one.shuffled_bytes == shuffles(one) * 4 * LANES * 4
    assert not estimated.shuffles_counted
    if one.means == "warp shuffles" or one.operation == "tt.scan" or not REDUCES_IN_ONE_ROUND:
        assert estimated.shuffled_bytes == one.shuffled_bytes


@pytest.mark.slow
def test_a_reduction_of_whole_warps_by_one_instruction() -> None:
    """REDUX hands on 4 bytes of each thread; the warps' results go on by shuffles, or by REDUX."""
    one = compiled(largest_of_rows, "*i32:16", "*i32:16", ROWS=1, COLUMNS=128).conversions()[0]
    combining = count(one.in_finished_code, "REDUX")
    assert combining == (2 if COMBINES_WARPS_BY_REDUX else 1)
    assert one.shuffled_bytes == (combining + shuffles(one)) * 4 * LANES * 4
    assert "by warp shuffles and reductions" in str(one) or REDUCES_IN_ONE_ROUND


@pytest.mark.slow
def test_reductions_in_loops_hand_on_what_is_said() -> None:
    compilation = of_corpus("attention_forward", "sm_80")
    reductions = [one for one in compilation.conversions() if one.operation == "tt.reduce"]
    assert len(reductions) == 4
    for one in reductions:
        assert one.means == "warp shuffles"
        assert one.in_loop
        assert one.shuffles_counted
        assert one.shuffled_bytes == shuffles(one) * 4 * LANES * compilation.options["num_warps"]
    largest = reductions[0]
    assert "tt.dot" in [neighbor.operation for neighbor in largest.forced_by]


def test_after_a_pass_there_is_no_machine_code() -> None:
    compilation = of_corpus("matmul", "sm_80")
    early = compilation.conversions("ttgir.accelerate_matmul")
    assert "ttg.convert_layout" in {one.operation for one in early}
    assert not any(one.in_finished_code for one in early)


@pytest.mark.slow
def test_amd() -> None:
    found = of_corpus("attention_forward", "gfx942").conversions()
    assert {one.means for one in found} >= {"shared memory", "warp shuffles"}
    loads = [one for one in found if one.operation == "ttg.local_load"]
    assert all(count(one.in_finished_code, "ds_read") for one in loads)


def test_table_and_cards() -> None:
    compilation = of_corpus("matmul", "sm_80")
    found = compilation.conversions()
    table = found.table()
    assert list(table["operation"]) == [one.operation for one in found]
    assert str(found).splitlines() == [str(one) for one in found]
    card = conversions_card(found)
    assert "shared memory" in card.text()
    assert "32,768 bytes through shared memory" in card.html()
    layouts = compilation.layouts()
    assert "accumulator" in layouts_card(layouts).text()
    tile = next(tile for tile in layouts["accumulator"] if "nvidia_mma" in tile.encoding)
    assert "T0:0" in tile_card(tile).text()
    assert "Nvidia mma layout of 128x128" in tile_card(tile).html()
    buffer = next(tile for tile in layouts["a"] if "shared" in tile.encoding)
    words = tile_card(buffer).text()
    assert OLDEST or "Offset in elements" in words
