"""Marks in kernels, compiled without a GPU; and what a launch would have noted, read and summed."""

import dataclasses
import re
from functools import cache
from typing import Any

import numpy
import pytest
import triton
import triton.language as tl

from benchmarks.kernels import atomic_histogram, attention, cumulative_sum, rms_norm, softmax_rows
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import parse_target
from kernellab.errors import ProfileError, UnsupportedOperation
from kernellab.ir.syntax import read_module
from kernellab.profiling.profiles.line_marks import (
    DETAILS,
    MarkedKernel,
    PlainKernel,
    mark,
    marked_kernel,
    plain_kernel,
    within_occupancy,
)
from kernellab.profiling.profiles.line_profile import Measured, profile_of, read, spans_of
from kernellab.profiling.profiles.records import Perturbation
from kernellab.triton_api.proton import HEADER_WORDS, MAGIC, ReadingMemory


@triton.jit
def product(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for first in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (first + depth)[None, :])
        y = tl.load(b + (first + depth)[:, None] * n + columns[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * n + columns[None, :], acc)


@triton.jit(noinline=True)
def apart(x):
    return x + 1


@triton.jit
def calling(out):
    tl.store(out, apart(tl.program_id(0)))


LOADS, DOT, STORE = (7, 8), 9, 10
"""Lines of `product`, counted from its decorator's."""

CALLS: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "product": (
        product,
        ("*fp16:16", "*fp16:16", "*fp32:16", "i32:16", "i32:16"),
        {"M": 64, "N": 64, "K": 32, "num_warps": 4, "num_stages": 3},
    ),
    "softmax": (
        softmax_rows,
        ("*fp16:16", "*fp16:16", "i32:16", "i32:16"),
        {"ROWS": 4, "BLOCK": 512},
    ),
    "norm": (
        rms_norm,
        ("*fp16:16", "*fp16:16", "*fp16:16", "i32:16", "i32:16", "fp32"),
        {"BLOCK": 1024},
    ),
    "attention": (
        attention,
        ("*fp16:16", "*fp16:16", "*fp16:16", "*fp16:16", "fp32", "i32:16", "i32:16"),
        {"HEAD": 32, "BLOCK_M": 32, "BLOCK_N": 32},
    ),
    "scan": (cumulative_sum, ("*fp32:16", "*fp32:16", "i32:16", "i32:16"), {"BLOCK": 512}),
    "atomics": (atomic_histogram, ("*i32:16", "*i32:16", "i32:16"), {"BLOCK": 512}),
}


@cache
def plain(name: str, target: str = "sm_90") -> PlainKernel:
    kernel, types, constants = CALLS[name]
    where = parse_target(target)
    return plain_kernel(kernel, bind(kernel, types, constants, where), where)


@cache
def marked(name: str, target: str = "sm_90", detail: Any = "lines") -> MarkedKernel:
    return marked_kernel(plain(name, target), detail, 64)


def lines_of(kernel: Any, made: MarkedKernel) -> set[tuple[int, str]]:
    """(line from the kernel's first, operation) of its scopes."""
    first = kernel.starting_line_number
    return {(one.line - first, one.operation) for one in made.module.scopes}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_a_marked_product_compiles_for_each_generation(target: str) -> None:
    made = marked("product", target)
    assert made.compiled.asm["ptx"].count("%clock;") == len(made.module.marks)
    found = lines_of(product, made)
    assert {(LOADS[0], "async copy"), (LOADS[1], "async copy"), (LOADS[0], "wait")} <= found
    assert (DOT, "dot") in found
    assert (STORE, "store") in found
    parts = {one.part for one in made.module.scopes if one.operation == "async copy"}
    assert {"prologue", f"loop of line {product.starting_line_number + 6}"} <= parts
    assert (
        made.resources.shared_bytes == plain("product", target).compilation.resources.shared_bytes
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("softmax", {(8, "load"), (9, "reduction"), (10, "reduction"), (11, "store")}),
        ("norm", {(4, "load"), (5, "reduction"), (6, "load"), (7, "compute"), (7, "store")}),
        ("scan", {(6, "load"), (7, "scan"), (7, "store")}),
        ("atomics", {(5, "load"), (6, "atomic")}),
    ],
)
def test_marks_stand_on_the_lines_of_their_operations(name, operations) -> None:
    made = marked(name)
    assert made.compiled.asm["ptx"].count("%clock;") == len(made.module.marks)
    assert operations <= lines_of(CALLS[name][0], made)


@pytest.mark.parametrize("name", ["softmax", "scan"])
def test_code_that_another_installation_compiled_has_the_same_lines(name: str) -> None:
    """Triton's cache hands it on, with the paths of the other."""
    text, count = re.subn(
        r'"[^"]*/triton/language/', '"/elsewhere/triton/language/', plain(name).generic
    )
    assert count
    theirs = mark(read_module(text), "lines")
    assert [one.line for one in theirs.scopes] == [one.line for one in marked(name).module.scopes]


def test_a_helper_of_the_users_keeps_its_own_lines() -> None:
    scopes = mark(read_module(plain("attention").generic), "lines").scopes
    assert 77 in {one.line for one in scopes}  # the product of queries and keys in `attend`
    assert len({one.part for one in scopes if one.part.startswith("loop")}) == 2


def test_coarser_marks_are_fewer() -> None:
    counts = [len(mark(read_module(plain("attention").generic), one).marks) for one in DETAILS]
    assert (counts, counts[-1]) == (sorted(counts, reverse=True), 2)
    assert len(set(counts)) == len(DETAILS)


def test_all_code_is_in_one_scope_or_another() -> None:
    """Each operation of the program once, so that the scopes add up to all of it."""
    for name in CALLS:
        module = read_module(plain(name).generic)
        made = mark(module, "lines")
        assert None in made.marks
        numbers = [one for one in made.marks if one is not None]
        assert sorted(numbers) == list(range(len(made.scopes)))


def test_who_waits_for_a_load_is_said() -> None:
    (uses,) = [one for one in marked("norm").module.scopes if one.waits_for == (37,)]
    assert uses.line == 38


def test_the_plain_kernel_stays_as_it_is() -> None:
    before = plain("scan").compilation.stages["ptx"].text
    marked("scan")
    where = parse_target("sm_90")
    kernel, types, constants = CALLS["scan"]
    again = plain_kernel(kernel, bind(kernel, types, {**constants, "num_stages": 2}, where), where)
    assert again.compilation.stages["ptx"].text == before
    assert "clock" not in before


def test_registers_are_held_where_fewer_programs_would_fit() -> None:
    made = marked("softmax")
    at_once: Any = made.programs_at_once()
    held = within_occupancy(made)
    kept: Any = held.programs_at_once()
    assert kept[0] == kept[1]
    assert held is made if at_once[0] == at_once[1] else held.resources != made.resources


def test_a_kernel_of_several_functions_is_refused(raised) -> None:
    where = parse_target("sm_90")
    made = plain_kernel(calling, bind(calling, ("*i32:16",), {}, where), where)
    raised(UnsupportedOperation, marked_kernel, made, "lines", 64)


def test_amds_gpus_are_refused(raised) -> None:
    where = parse_target("gfx942")
    kernel, types, constants = CALLS["scan"]
    made = plain_kernel(kernel, bind(kernel, types, constants, where), where)
    raised(UnsupportedOperation, marked_kernel, made, "lines", 64)


def noted(memory: ReadingMemory, warps: list[list[tuple[int, int]]]) -> Any:
    """The words of one program: of each warp, (mark, clock) of its readings."""
    words = numpy.zeros(HEADER_WORDS + memory.warps + memory.bytes // 4, numpy.uint32)
    words[:4] = MAGIC, 7, 3, memory.bytes
    for warp, readings in enumerate(warps):
        words[HEADER_WORDS + warp] = 2 * len(readings)
        start = HEADER_WORDS + memory.warps + warp * 2 * memory.readings
        for number, (mark_number, clock) in enumerate(readings):
            at = start + 2 * (number % memory.readings)
            words[at] = (mark_number // 2) << 23 | (mark_number % 2) << 31
            words[at + 1] = clock % (1 << 32)
    return words


def test_readings_are_read() -> None:
    memory = ReadingMemory(4, 2)
    both = [[(0, 10), (1, 25), (2, 40)], [(0, (1 << 32) - 5), (1, 20)]]
    found = read(numpy.stack([noted(memory, both)]), memory)
    assert (found.programs.tolist(), found.kept.tolist()) == ([7], [[3, 2]])
    spans = spans_of(found, [0, 1, None])
    assert spans.scope.tolist() == [0, 1, 0]
    assert spans.cycles.tolist() == [15, 15, 25]  # the clock goes round once
    assert spans.start.tolist() == [15, 30, 0]


def test_of_too_many_readings_the_newest_are_kept() -> None:
    memory = ReadingMemory(4, 1)
    readings = [(number % 2, 10 * number) for number in range(11)]
    found = read(numpy.stack([noted(memory, [readings])]), memory)
    assert (found.taken.tolist(), found.lost) == ([[11]], 7)
    assert found.clocks[0, 0].tolist() == [70, 80, 90, 100]
    assert spans_of(found, [0, 1]).scope.tolist() == [1, 0, 1]


def test_memory_that_no_program_wrote_is_refused() -> None:
    memory = ReadingMemory(4, 1)
    words = numpy.zeros((1, HEADER_WORDS + 9), numpy.uint32)
    with pytest.raises(ProfileError, match="damaged"):
        read(words, memory)


def test_a_profile_of_readings() -> None:
    """Its lines add up to what the program took; its tree has the parts of a pipelined loop."""
    made = marked("product")
    order = [number for number, scope in enumerate(made.module.marks) if scope is not None]
    by_scope = sorted(order, key=lambda one: made.module.marks[one] or 0)
    last = made.module.marks.index(None)
    readings = [(number, 100 * at) for at, number in enumerate([*by_scope, last])]
    found = read(numpy.stack([noted(made.memory, [readings] * 4)]), made.memory)
    profile: Any = profile_of(Measured(made, (2, 1, 1), found, Perturbation(10.0, 11.0, "counted")))
    lines = profile.lines
    assert {"line", "operation", "cycles", "share", "executions"} <= set(lines.columns)
    assert lines["cycles"].sum() == 4 * 100 * (len(readings) - 1)
    assert lines["share"].sum() == pytest.approx(1)
    assert "async copy, prologue" in set(lines["operation"])
    (kernel,) = profile.root.children
    assert [one.name for one in kernel.children] == [
        "prologue",
        f"loop of line {product.starting_line_number + 6}",
        "epilogue",
    ]
    assert any("1 of 2 programs" in one for one in profile.notes)
    assert not any("warp-specialized" in one for one in profile.notes)
    events = profile.timeline(7).records
    assert (events["duration"] == 100).all()
    assert set(events["warp"]) == {0, 1, 2, 3}
    assert profile.perturbation.ratio == pytest.approx(1.1)


def test_of_a_warp_specialized_kernel_the_default_warps_are_measured() -> None:
    made = marked("scan")
    plain_of = dataclasses.replace(made.plain, generic='"ttg.warp_specialize"()')
    special = dataclasses.replace(made, plain=plain_of)
    order = sorted(range(len(made.module.marks)), key=lambda at: made.module.marks[at] is None)
    found = read(numpy.stack([noted(made.memory, [[(at, at) for at in order]] * 4)]), made.memory)
    profile = profile_of(Measured(special, (1, 1, 1), found, Perturbation(1.0, 1.0, "counted")))
    assert any("its partitions have no marks" in one for one in profile.notes)
