"""Shared memory and its barriers, against plain arrays and a barrier for one program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.errors import UnsupportedOperation
from kernellab.interpreter import tiles
from kernellab.interpreter.memory import shared_memory

PROGRAMS = 3
FLOAT16 = np.dtype(np.float16)


def numbered(*shape: int) -> shared_memory.SharedTile:
    values = np.arange(PROGRAMS * np.prod(shape), dtype=np.float32).reshape(PROGRAMS, *shape)
    return shared_memory.allocate_with(PROGRAMS, shape, values)


def test_memory_that_nobody_wrote_is_nan() -> None:
    tile = shared_memory.allocate(PROGRAMS, (4, 8), FLOAT16)
    assert np.isnan(shared_memory.load(tile)).all()
    assert tile.nbytes == 4 * 8 * 2


def test_a_tile_of_one_program_is_stored_for_all() -> None:
    tile = shared_memory.allocate(PROGRAMS, (2, 2), FLOAT16)
    shared_memory.store(tile, np.array([[1, 2]], np.float16))  # a broadcast that is still lazy
    assert (shared_memory.load(tile) == np.array([[1, 2], [1, 2]])).all()


def test_what_was_loaded_stays_when_memory_changes() -> None:
    tile = numbered(4)
    before = shared_memory.load(tile)
    expected = before.copy()
    shared_memory.store(tile, np.zeros(4, np.float32))
    assert (before == expected).all()


def test_views_see_each_other_s_stores() -> None:
    tile = numbered(2, 4, 6)
    second = shared_memory.index(tile, np.int32(1))
    turned = shared_memory.permute(second, (1, 0))
    corner = shared_memory.subslice(turned, (2, 1), (3, 2))
    shared_memory.store(corner, np.full((3, 2), -1, np.float32))
    whole = shared_memory.load(tile)
    assert (whole[:, 1, 1:3, 2:5] == -1).all()
    assert (whole == -1).sum() == PROGRAMS * 6


def test_each_program_has_its_own_index() -> None:
    tile = numbered(3, 4, 2)
    chosen = np.array([2, 0, 1], np.int32)
    view = shared_memory.permute(shared_memory.index(tile, chosen), (1, 0))
    plain = shared_memory.load(tile)
    assert (shared_memory.load(view) == [plain[p, chosen[p]].T for p in range(PROGRAMS)]).all()
    active = np.array([True, False, True])
    stored = np.arange(8 * PROGRAMS, dtype=np.float32).reshape(PROGRAMS, 2, 4) + 1000
    shared_memory.store(view, stored, active)
    expected = plain.copy()
    expected[0, 2], expected[2, 1] = stored[0].T, stored[2].T
    assert (shared_memory.load(tile) == expected).all()


def test_indices_of_indices() -> None:
    tile = numbered(2, 3, 4)
    outer, inner = np.array([1, 0, 1]), np.array([2, 1, 0])
    view = shared_memory.index(shared_memory.index(tile, outer), inner)
    plain = shared_memory.load(tile)
    expected = [plain[p, outer[p], inner[p]] for p in range(PROGRAMS)]
    assert (shared_memory.load(view) == expected).all()


def test_an_index_outside_names_the_program_that_asks() -> None:
    tile = numbered(2, 4)
    asked = np.array([0, 5, -1], np.int32)
    with pytest.raises(shared_memory.BufferOutsideAllocation) as fault:
        shared_memory.index(tile, asked)
    assert (fault.value.index, fault.value.extent, fault.value.program) == (5, 2, 1)
    shared_memory.index(tile, asked, np.array([True, False, False]))
    with pytest.raises(shared_memory.BufferOutsideAllocation) as fault:
        shared_memory.index(tile, np.int32(2), np.array([False, False, True]))
    assert (fault.value.index, fault.value.program) == (2, 2)


def test_a_view_of_other_elements_and_shape(raised) -> None:
    tile = numbered(4, 4)
    bits = shared_memory.reinterpret(tile, (8, 2), np.dtype(np.int32))
    plain = shared_memory.load(tile)
    assert (shared_memory.load(bits) == plain.view(np.int32).reshape(PROGRAMS, 8, 2)).all()
    first = shared_memory.reinterpret(tile, (4,), np.dtype(np.float32))
    assert (shared_memory.load(first) == plain[:, 0]).all()
    turned = shared_memory.permute(tile, (1, 0))
    raised(UnsupportedOperation, shared_memory.reshape, turned, (16,))


def test_gather_and_scatter_along_an_axis() -> None:
    tile = numbered(4, 3)
    indices = np.array([[3, 0, 1], [2, 2, 0]], np.int32)
    plain = shared_memory.load(tile)
    got = shared_memory.gather(tile, indices, -2, (2, 3))
    assert (got == plain[:, indices, np.arange(3)]).all()
    shared_memory.scatter(tile, np.full((1, 1), 7, np.float32), indices[:1], -2, (1, 3))
    expected = plain.copy()
    expected[:, indices[0], np.arange(3)] = 7
    assert (shared_memory.load(tile) == expected).all()


def test_programs_that_part_keep_their_own_buffer() -> None:
    tile = numbered(3, 4)
    first, last = (shared_memory.index(tile, np.int32(index)) for index in (0, 2))
    active = np.array([True, False, True])
    both = tiles.merge(active, last, first, 1)
    plain = shared_memory.load(tile)
    assert (shared_memory.load(both) == [plain[0, 2], plain[1, 0], plain[2, 2]]).all()
    with pytest.raises(UnsupportedOperation, match="different allocations"):
        tiles.merge(active, first, shared_memory.index(numbered(3, 4), np.int32(0)), 1)


def barrier(count: int) -> shared_memory.SharedTile:
    made = shared_memory.allocate(PROGRAMS, (1,), np.dtype(np.int64))
    shared_memory.initialize(made, count)
    return made


def test_a_phase_completes_with_its_last_arrival() -> None:
    made = barrier(2)
    assert shared_memory.is_under_way(made, 0)
    assert not shared_memory.is_under_way(made, 1)  # the phase before the first
    shared_memory.arrive(made)
    assert shared_memory.is_under_way(made, 0)
    shared_memory.arrive(made)
    assert not shared_memory.is_under_way(made, 0)
    assert shared_memory.is_under_way(made, 1)
    shared_memory.arrive(made, 2)
    assert not shared_memory.is_under_way(made, 1)


def test_a_phase_waits_for_the_bytes_that_were_announced() -> None:
    made = barrier(1)
    shared_memory.expect(made, 4096)
    shared_memory.receive(made, 1024)
    assert shared_memory.is_under_way(made, 0)
    with pytest.raises(shared_memory.PhaseNeverCompletes) as fault:
        shared_memory.wait(made, np.int32(0))
    assert (fault.value.arrivals, fault.value.bytes, fault.value.program) == (0, 3072, 0)
    shared_memory.receive(made, 3072)
    shared_memory.wait(made, np.int32(0))


def test_bytes_may_come_before_they_are_announced() -> None:
    made = barrier(1)
    shared_memory.receive(made, 64)
    assert shared_memory.is_under_way(made, 0)
    shared_memory.expect(made, 64)
    assert not shared_memory.is_under_way(made, 0)


def test_programs_count_for_themselves() -> None:
    made = barrier(1)
    shared_memory.arrive(made, active=np.array([True, False, False]))
    for program, complete in enumerate([True, False, False]):
        alone = np.arange(PROGRAMS) == program
        assert shared_memory.is_under_way(made, 0, alone) != complete
    with pytest.raises(shared_memory.PhaseNeverCompletes) as fault:
        shared_memory.wait(made, 0)
    assert fault.value.program == 1
    shared_memory.wait(made, 0, np.array([True, False, False]))


@pytest.mark.slow
@settings(max_examples=100, derandomize=True)
@given(
    count=st.integers(1, 3),
    events=st.lists(st.tuples(st.sampled_from(["arrive", "expect", "receive"]), st.integers(1, 3))),
)
def test_barriers_against_plain_counters(count, events) -> None:
    """A model with three integers, without arrivals beyond a phase's count, which are forbidden."""
    made = barrier(count)
    phase, lacking, to_come = 0, count, 0
    for kind, number in events:
        if kind == "arrive":
            number = min(number, lacking)
            shared_memory.arrive(made, number)
            lacking -= number
        elif kind == "expect" and lacking:
            shared_memory.expect(made, 16 * number)
            lacking, to_come = lacking - 1, to_come + 16 * number
        elif kind == "receive":
            shared_memory.receive(made, 16 * number)
            to_come -= 16 * number
        if lacking == 0 and to_come == 0:
            phase, lacking = phase ^ 1, count
        assert not shared_memory.is_under_way(made, phase ^ 1)
        assert shared_memory.is_under_way(made, phase)
