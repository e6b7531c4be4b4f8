"""What a tally counts, held against counting every element by itself, in sets."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import numpy
import pytest

from kernellab.compiler.analyses.layouts import NO_ONE, WarpAccess
from kernellab.interpreter.affine import AffineTile, BoxMask
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.observers import ObservedAccess
from kernellab.profiling.accesses.counts import Tally
from kernellab.profiling.accesses.requests import Messages, Runs, SectorSet

SHAPE, PROGRAMS, SIZE = (8, 16), 6, 4
NUMBERS = numpy.arange(128).reshape(8, 16)
INT64 = numpy.dtype(numpy.int64)


def by_lanes(width: int) -> WarpAccess:
    """16 lanes of `width` neighbors; every fourth lane of the last instruction holds nothing."""
    first = numpy.arange(0, 128, width).reshape(-1, 16)
    first[-1, ::4] = NO_ONE
    return WarpAccess(first, width, SIZE, width, 1)


def addresses(chance: numpy.random.Generator) -> Any:
    """Of a tile: a pattern, also backwards, or none: near, few, all over memory, neighbors."""
    base = (1 << 30) + 4 * chance.integers(0, 400, PROGRAMS)
    match int(chance.integers(7)):
        case 0:
            return AffineTile(base, (64, 4), SHAPE, INT64)
        case 1:
            return AffineTile(int(base[0]), (-4, 40), SHAPE, INT64)
        case 2:
            return AffineTile(base, (0, 4), (1, 16), INT64)
        case 3:
            return (1 << 30) + 4 * chance.integers(0, 300, (PROGRAMS, *SHAPE))
        case 4:
            return (1 << 30) + 4 * chance.integers(0, 5, (PROGRAMS, *SHAPE))
        case 5:
            return (1 << 30) + 4 * chance.integers(0, 1 << 26, (PROGRAMS, *SHAPE))
        case _:
            far = (1 << 20) * chance.integers(0, 4, (PROGRAMS, 1, 1))
            return base[:, None, None] + far + 4 * chance.permutation(128).reshape(SHAPE)


def mask(chance: numpy.random.Generator) -> Any:
    """None, a box, one boolean a program, or one an element."""
    match int(chance.integers(4)):
        case 0:
            return None
        case 1:
            return BoxMask({0: (0, 5), 1: (chance.integers(0, 4, PROGRAMS), 14)}, SHAPE)
        case 2:
            return chance.random((PROGRAMS, 1, 1)) < 0.5
        case _:
            return chance.random((PROGRAMS, *SHAPE)) < 0.3


def executions(seed: int) -> Iterator[ObservedAccess]:
    """Several of two batches."""
    chance = numpy.random.default_rng(seed)
    for _ in range(2):
        programs = Programs((PROGRAMS, 1, 1), numpy.arange(PROGRAMS))
        for _ in range(int(chance.integers(1, 5))):
            active = None if chance.random() < 0.5 else chance.random(PROGRAMS) < 0.7
            yield ObservedAccess(
                cast(Any, None), addresses(chance), SHAPE, SIZE, mask(chance), active, programs
            )


def elements(seen: ObservedAccess, program: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Addresses of a program's elements and which are on, flat."""
    found = []
    for value in (seen.addresses, True if seen.mask is None else seen.mask):
        array = numpy.asarray(value)
        one = array[min(program, len(array) - 1)] if array.ndim == 3 else array
        found.append(numpy.broadcast_to(one, SHAPE).reshape(-1))
    return found[0], found[1]


def requests(
    seen: ObservedAccess, program: int, access: WarpAccess | Messages
) -> Iterator[list[int]]:
    """Where the lanes of each instruction begin; of messages, also of those that move nothing."""
    where, on = elements(seen, program)
    lanes = access.first if isinstance(access, WarpAccess) else access
    for row in lanes.tolist():
        asked = [int(where[n]) for n in row if n != NO_ONE and on[n]]
        if asked or not isinstance(access, WarpAccess):
            yield asked


def moved_in_turns(asked: list[int]) -> int:
    """Sectors of the first lanes at their addresses, then of the second, and so on."""
    moved = 0
    while asked:
        turn = set(asked)
        moved += len({address // 32 for address in turn})
        for address in turn:
            asked.remove(address)
    return moved


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("access", "turns"),
    [
        (NUMBERS.reshape(2, 64), False),
        (by_lanes(1), False),
        (by_lanes(4), False),
        (by_lanes(1), True),
    ],
    ids=["engine", "lanes", "vectors", "atomic"],
)
def test_counts_of_every_element(access: WarpAccess | Messages, turns: bool, seed: int) -> None:
    tally, naive = Tally(access, turns), Counter[str]()
    touched: dict[tuple[int, int], set[int]] = {}
    batch: Any = None
    for seen in executions(seed):
        if batch is not seen.programs:
            tally.end_batch()
            batch = seen.programs
        tally.add(seen)
        for program in range(PROGRAMS):
            if seen.active is not None and not seen.active[program]:
                continue
            naive["executions"] += 1
            naive["useful_bytes"] += SIZE * int(elements(seen, program)[1].sum())
            for asked in requests(seen, program, access):
                sectors = {address // 32 for address in asked}
                touched.setdefault((id(batch), program), set()).update(sectors)
                naive["requests"] += 1
                naive["lines"] += len({address // 128 for address in asked})
                moved = moved_in_turns(list(asked)) if turns else len(sectors)
                naive["sectors"] += moved
                naive["repeated_sectors"] += moved - len(sectors)
                width = access.width if isinstance(access, WarpAccess) else 1
                naive["best_sectors"] += min(-(-len(asked) * width * SIZE // 32), moved)
    tally.end_batch()
    assert {**tally.counts, "executions": tally.executions} == {"repeated_sectors": 0, **naive}
    assert tally.touched == sum(map(len, touched.values()))
    assert len(tally.different) == len(set().union(*touched.values()))


def test_many_executions_are_kept_as_one() -> None:
    programs = Programs((2, 1, 1), numpy.arange(2))
    tally = Tally(by_lanes(1))
    for time in range(300):
        base = numpy.array([0, 1 << 20]) + 512 * (time % 100)
        tile = AffineTile(base, (64, 4), SHAPE, INT64)
        tally.add(ObservedAccess(cast(Any, None), tile, SHAPE, SIZE, None, None, programs))
    tally.end_batch()
    assert tally.executions == 600
    assert tally.touched == len(tally.different) == 2 * 100 * 16


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("longest", [2, 50])
@pytest.mark.parametrize("span", [1 << 12, 1 << 18, 1 << 24])
def test_a_set_of_sectors(count: int, longest: int, span: int) -> None:
    chance = numpy.random.default_rng(count + longest + span)
    found = SectorSet()
    expected: set[int] = set()
    for _ in range(2):
        starts = chance.integers(0, span, count)
        runs = Runs(starts, starts + chance.integers(1, longest, count))
        found.add(runs)
        expected.update(*(range(a, b) for a, b in zip(runs.starts.tolist(), runs.stops.tolist())))
        merged = runs.merged()
        assert (merged.starts[1:] > merged.stops[:-1]).all()
        assert set(merged.numbers().tolist()) == set(runs.numbers().tolist())
    assert len(found) == len(expected)
    assert len(SectorSet.union([found, found])) == len(expected)
