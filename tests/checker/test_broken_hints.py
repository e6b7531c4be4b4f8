"""Hints beside what they mean, spelled out in plain Python; and their positions in the source."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker.detectors import hints as broken_hints
from kernellab.interpreter.affine import AffineTile
from tests.checker.corpus.broken_hints import assumed, row_start

INT32 = numpy.dtype(numpy.int32)


def promise(divisibility: int, contiguity: int, constancy: int) -> Any:
    numbers = {
        "multiple_of": (divisibility,),
        "max_contiguous": (contiguity,),
        "max_constancy": (constancy,),
    }
    return SimpleNamespace(numbers=numbers)


def is_broken(values: list[int], divisibility: int, contiguity: int, constancy: int) -> bool:
    """The definitions of docs/checking.md, lane by lane."""
    for lane, value in enumerate(values):
        begins = lane == 0 or values[lane - 1] + 1 != value
        if contiguity > 1:
            begins = lane % contiguity == 0
            if not begins and value != values[lane - 1] + 1:
                return True
        if constancy > 1 and lane % constancy and value != values[lane - 1]:
            return True
        if begins and value % divisibility:
            return True
    return False


HINTS = [(1, 4, 1), (1, 1, 4), (8, 1, 1), (4, 4, 1), (4, 1, 2)]


@pytest.mark.parametrize("hints", HINTS)
def test_a_tile_breaks_a_promise_as_its_definition_says(hints) -> None:
    chance = numpy.random.default_rng(1)
    verdicts = set()
    for _ in range(200):
        starts = numpy.repeat(4 * chance.integers(0, 4, 2), 4)
        steps = numpy.tile(numpy.arange(4) * chance.integers(0, 2), 2)
        values = (starts + steps + (chance.random(8) < 0.03)).tolist()
        found = broken_hints._broken(numpy.array([values]), numpy.array([values]), promise(*hints))
        assert bool(found) == is_broken(values, *hints), values
        verdicts.add(bool(found))
    assert verdicts == {True, False}, "the values try only one side"


@pytest.mark.parametrize("hints", HINTS)
def test_strides_alone_never_excuse_a_broken_promise(hints) -> None:
    excused = 0
    for base, stride in itertools.product(range(0, 24, 2), range(-1, 9)):
        tile = AffineTile(base, (stride,), (8,), INT32)
        if broken_hints._keeps(tile, promise(*hints), (8,)):
            excused += 1
            assert not is_broken(tile.elements().tolist(), *hints), tile
    assert excused, "the quick way is never taken"


def test_the_finding_has_values_and_programs(messages) -> None:
    (finding,) = kernellab.check(row_start, (4,), torch.zeros(100), torch.zeros(32), 20, BLOCK=8)
    assert finding.message == messages
    assert finding.programs == ((1, 0, 0), (2, 0, 0), (3, 0, 0))


def test_an_assumption_is_told_with_what_it_was_made_of() -> None:
    (finding,) = kernellab.check(assumed, (1,), torch.zeros(20), torch.zeros(20), 20, BLOCK=32)
    assert finding.values == {"n": 20}


@triton.jit
def helper_start(pid, stride):
    place = pid * stride
    lanes = tl.arange(0, 8)
    return tl.multiple_of(place, 16) + lanes


@triton.jit
def through_a_helper(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + pid * BLOCK + lanes, tl.load(x_ptr + helper_start(pid, stride)))


def test_a_hint_in_a_helper_is_told_where_it_is_given() -> None:
    (finding,) = kernellab.check(
        through_a_helper, (2,), torch.zeros(64), torch.zeros(16), 20, BLOCK=8
    )
    assert finding.position is not None
    assert "tl.multiple_of(place, 16)" in finding.position.excerpt()
    assert "helper_start(pid, stride)" in finding.calls[0].excerpt()


@triton.jit
def wraps(x_ptr, out_ptr, n, DIVISOR: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.max_contiguous(tl.multiple_of(lanes % n, BLOCK), BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + rows // DIVISOR), mask=lanes < n)


@pytest.mark.parametrize(
    ("dtype", "n", "divisor", "is_broken"),
    [
        (torch.float32, 100, 1, False), (torch.float32, 98, 1, True), (torch.float16, 100, 1, True),
        (torch.float16, 104, 1, False), (torch.int8, 104, 1, True), (torch.int8, 112, 1, False),
        (torch.float32, 100, 4, True),
    ],
)  # fmt: skip
def test_wrapped_indices_count_for_vectors(dtype, n, divisor, is_broken) -> None:
    """A vector of 16 bytes is as wide as the compiler makes an access."""
    x, out = torch.zeros(n, dtype=dtype), torch.zeros(n, dtype=dtype)
    found = kernellab.check(wraps, (4,), x, out, n, DIVISOR=divisor, BLOCK=32)
    assert set(found.kinds) == ({"broken-hint"} if is_broken else set())


@triton.jit
def row_sums(x_ptr, out_ptr, m, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wrapped = tl.max_contiguous(tl.multiple_of(rows % m, BLOCK), BLOCK)
    x = tl.load(x_ptr + wrapped[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out_ptr + rows, tl.sum(x, 1), mask=rows < m)


@pytest.mark.parametrize("columns", [32, 1])
def test_a_false_hint_is_a_note_where_no_size_makes_it_matter(columns) -> None:
    """The rows of a wide table are apart in memory; those of one column follow each other."""
    x, out = torch.ones(97, columns), torch.zeros(97)
    found = kernellab.check(row_sums, (4,), x, out, 97, BLOCK=32, COLUMNS=columns)
    assert set(found.kinds) == ({"broken-hint"} if columns == 1 else set())
    assert any("the same" in note for note in found.notes) == (columns == 32)


@triton.jit
def dropout(x_ptr, z_ptr, seed, BY_PROGRAM: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    places = tl.program_id(0) * BLOCK + lanes
    keep = tl.rand(seed, places if BY_PROGRAM else lanes) > 0.5
    tl.store(z_ptr + places, tl.where(keep, tl.load(x_ptr + places), 0.0))


@pytest.mark.parametrize(("by_program", "programs"), [(False, 4), (False, 1), (True, 4)])
def test_random_numbers_that_all_programs_share_are_noted(by_program: bool, programs: int) -> None:
    x = torch.rand(16 * programs)
    keywords = {"BY_PROGRAM": by_program, "BLOCK": 16}
    found = kernellab.check(dropout, (programs,), x, torch.empty_like(x), 7, **keywords)
    assert not found
    line = dropout.starting_line_number + 4
    assert any(f"line {line} " in note for note in found.notes) == (not by_program and programs > 1)
