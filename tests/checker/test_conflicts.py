"""Which elements programs share, and what orders them, beside plain Python that looks at every lane."""

from collections import defaultdict

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.interpreter.affine import AffineTile, base_of
from kernellab.interpreter.memory.buffers import Box, Buffer
from tests.checker.launches import Pair, all_pairs

PAIRS = all_pairs()

# fmt: off


@triton.jit
def scatters_and_gathers(read_ptr, write_ptr, mask_ptr, x_ptr, N: tl.constexpr):
    """Each program reads some elements of x and writes others."""
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    on = tl.load(mask_ptr + lanes) != 0
    x = tl.load(x_ptr + tl.load(read_ptr + lanes), mask=on, other=0.0)
    tl.store(x_ptr + tl.load(write_ptr + lanes), x, mask=on)


@triton.jit
def strided_tiles(x_ptr, first, row_step, column_step, program_step, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    place = first + tl.program_id(0) * program_step + rows * row_step + columns * column_step
    tl.store(x_ptr + place, tl.program_id(0) + 1.0)


# fmt: on


@pytest.mark.parametrize("seed", range(12))
def test_a_race_is_found_where_two_programs_touch_what_one_writes(seed) -> None:
    chance = numpy.random.default_rng(seed)
    programs, lanes, size = 6, 4, int(chance.choice([24, 120, 600]))
    read, write = (chance.integers(0, size, (programs, lanes)) for _ in range(2))
    on = chance.random((programs, lanes)) < 0.7
    touched: dict[int, set[int]] = defaultdict(set)
    written: dict[int, set[int]] = defaultdict(set)
    for program, lane in zip(*numpy.nonzero(on)):
        touched[int(read[program, lane])].add(int(program))
        touched[int(write[program, lane])].add(int(program))
        written[int(write[program, lane])].add(int(program))
    shared = {one for one, who in touched.items() if len(who) > 1 and written[one]}
    arrays = (torch.from_numpy(one.astype(numpy.int32)) for one in (read, write, on))
    found = kernellab.check(scatters_and_gathers, (programs,), *arrays, torch.ones(size), N=lanes)
    races = found.of_kind("race")
    assert bool(races) == bool(shared)
    for one in races:
        assert one.index is not None
        assert one.index[0] in shared


@pytest.mark.parametrize("seed", range(16))
def test_tiles_that_overlap(seed) -> None:
    chance = numpy.random.default_rng(seed)
    row, column, step = (
        int(chance.choice(steps)) for steps in ([4, 5, 16], [1, 2], [3, 4, 16, 17, 64])
    )
    rows, columns, programs = 4, 4, 5
    elements = [
        [program * step + r * row + c * column for r in range(rows) for c in range(columns)]
        for program in range(programs)
    ]
    sets = [set(one) for one in elements]
    shared = any(sets[a] & sets[b] for a in range(programs) for b in range(a))
    found = kernellab.check(
        strided_tiles, (programs,), torch.zeros(400), 0, row, column, step, ROWS=rows,
        COLUMNS=columns,
    )  # fmt: skip
    assert bool(found.of_kind("race")) == shared, (row, column, step)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_said_to_be_disjoint_is(seed) -> None:
    chance = numpy.random.default_rng(seed)
    strides = tuple(int(s) for s in chance.choice([0, 1, 2, 3, 8, 12], 2))
    extents = tuple(int(e) for e in chance.choice([1, 2, 4], 2))
    strides = tuple(stride * (extent > 1) for stride, extent in zip(strides, extents))
    bases = chance.choice([0, 4, 16, 100], 4).cumsum() if seed % 2 else numpy.arange(4) * 8
    buffer = Buffer("x", torch.zeros(1000), numpy.dtype(numpy.float32))
    offsets = AffineTile(base_of(bases), strides, extents, numpy.dtype(numpy.int64))
    box = Box.of(buffer, offsets, None)
    assert box is not None
    said = box.is_disjoint(box.bases, box.all_lanes)
    elements = numpy.broadcast_to(offsets.elements(), (4, *extents)).ravel().tolist()
    is_so = len(set(elements)) == len(elements)
    assert not said or is_so
    if strides[0] == 0 and seed % 2 == 0 and strides[1] * extents[1] <= 8:
        assert said == is_so, "blocks side by side leave no doubt"


def kinds_of(case: Pair) -> set[str]:
    return {kind for kind, _ in case.faulty.marked()}


@pytest.mark.slow
def test_the_corpus_has_every_detector_several_times() -> None:
    assert len(PAIRS) >= 60
    counts: dict[str, int] = defaultdict(int)
    for case in PAIRS:
        for kind in kinds_of(case):
            counts[kind] += 1
    assert min(counts.values()) >= 3, dict(counts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "settings", [{"stage": "ttgir"}, {"target": "gfx942", "stage": "ttgir"}], ids=str
)
@pytest.mark.parametrize(
    "name", ["load_without_mask", "all_store_to_one_place", "forgets_its_step"]
)
def test_faults_are_found_in_other_stages_and_for_other_targets(name, settings) -> None:
    (case,) = (one for one in PAIRS if one.name == name)
    for launch, expected in ((case.faulty, case.faulty.marked()), (case.clean, set())):
        constants = {**launch.constants, **settings}
        found = kernellab.check(launch.kernel, launch.grid, *launch.arguments(), **constants)
        assert {(one.kind, one.line) for one in found} == expected, str(found)
