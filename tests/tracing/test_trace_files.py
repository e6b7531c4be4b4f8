"""Traces on disk: what is read back is what was saved, and a bad file is a clear error."""

import json
import math
import re
import zipfile
from pathlib import Path

import ml_dtypes
import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import kernellab
from kernellab.errors import ArchiveError, NotRecorded, SourcePosition
from kernellab.tracing import values
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import AffineLanes, TracedArgument, TracedFault
from kernellab.tracing.values import (
    TilePointer,
    decompressed,
    picture_extents,
    summarize,
    thumbnail_of,
)
from kernellab.viz.kit.data import as_json
from kernellab.viz.stepper_data import Cells, runs_of
from kernellab.viz.stepper_steps import _MOST_LANES
from tests.kernels import forms
from tests.support.damages import json_within
from tests.support.made_traces import MadeTrace, access, scattered
from tests.support.python_processes import run_python
from tests.support.trace_events import Events


def same(first: Trace, second: Trace) -> None:
    assert (first.facts, first.sources) == (second.facts, second.sources)
    assert first.fault == second.fault
    assert [repr(step) for step in first] == [repr(step) for step in second]
    for ours, theirs in zip(first, second, strict=True):
        assert ours.position == theirs.position
        assert ours.calls == theirs.calls
        assert ours.turns == theirs.turns
        assert [a.text() for a in ours.accesses] == [a.text() for a in theirs.accesses]
        state, other = first.at(ours), second.at(theirs)
        assert state.summaries == other.summaries
        for name in state:
            numpy.testing.assert_array_equal(state[name], other[name])
            assert type(state[name]) is type(other[name])
    assert not first.diff(second)


def test_a_trace_is_read_back_as_it_was(events: Events, tmp_path: Path) -> None:
    trace = events.trace()
    path = trace.save(tmp_path / "a.trace")
    loaded = kernellab.load(path)
    same(trace, loaded)
    assert loaded.notices == ()
    numpy.testing.assert_array_equal(loaded.memory("z_ptr"), trace.memory("z_ptr"))
    again = loaded.save(tmp_path / "b.trace")
    assert again.read_bytes() == path.read_bytes()


TILES = arrays.arrays(
    st.sampled_from([numpy.float32, numpy.float16, numpy.int64, numpy.uint8, numpy.bool_]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
)
NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
POINTERS = TILES.filter(lambda t: t.dtype == numpy.int64).map(lambda t: TilePointer("x_ptr", t))


@settings(max_examples=20)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), TILES | NUMBERS | POINTERS, max_size=3)))
def test_any_variables_survive(tmp_path_factory, lines) -> None:
    folder = tmp_path_factory.mktemp("traces")
    events = Events(folder)
    events.recorder.turn_of((0, 0, 0))
    events.recorder.enter("total", events.file, 1, {})
    for names in lines:
        events.recorder.line(2)
        events.recorder.bound(names)
    trace = events.trace()
    loaded = kernellab.load(trace.save(folder / "trace"))
    assert len(loaded) == len(lines)
    for number in range(len(lines)):
        ours, theirs = trace.at(number), loaded.at(number)
        assert list(ours) == list(theirs)
        for name in ours:
            mine, other = ours[name], theirs[name]
            if isinstance(mine, TilePointer):
                mine, other = mine.offsets, other.offsets
            numpy.testing.assert_equal(other, mine)
            assert numpy.asarray(mine).dtype == numpy.asarray(other).dtype


def test_summaries_survive_where_values_were_not_kept(tmp_path: Path) -> None:
    events = Events(tmp_path, largest=16)
    events.run()
    trace = events.trace()
    loaded = kernellab.load(trace.save(tmp_path / "trace"))
    assert loaded.at(5).summaries == trace.at(5).summaries
    ours, theirs = trace[5].changed["acc"], loaded[5].changed["acc"]
    numpy.testing.assert_array_equal(ours.thumbnail, theirs.thumbnail)
    with pytest.raises(NotRecorded, match="exact_bytes=32"):
        _ = loaded.at(5).acc


def test_the_fault_survives(events: Events, tmp_path: Path, messages) -> None:
    fault = TracedFault("OutOfBounds", "load out of <bounds>", SourcePosition("k.py", 3, 7), 4)
    loaded = kernellab.load(events.trace(fault).save(tmp_path / "trace"))
    assert loaded.fault == fault
    assert repr(loaded) == messages


def test_an_empty_trace_survives(tmp_path: Path, messages) -> None:
    loaded = kernellab.load(Events(tmp_path).trace().save(tmp_path / "trace"))
    assert (len(loaded), list(loaded.names())) == (0, [])
    assert loaded.find(lambda v: v.acc) is None
    assert loaded.show().text() == messages


def test_a_source_that_has_changed_is_a_notice(events: Events, tmp_path: Path) -> None:
    path = events.trace().save(tmp_path / "trace")
    file = Path(events.file)
    file.write_text(file.read_text().replace("w = v + v", "w = v * 2 "))
    loaded = kernellab.load(path)
    (notice,) = loaded.notices
    assert notice.startswith("'double' in ")
    assert "    w = v + v" in loaded.sources[1].lines
    assert notice in loaded.show().text()
    file.unlink()
    assert kernellab.load(path).notices == ()


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_off(events, tmp_path, kept, raised) -> None:
    path = events.trace().save(tmp_path / "trace")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    raised(ArchiveError, kernellab.load, path)


def test_a_file_with_a_wrong_byte(events: Events, tmp_path: Path, raised) -> None:
    path = events.trace().save(tmp_path / "trace")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)
    raised(ArchiveError, kernellab.load, path)


def rewritten(path: Path, **changes: object) -> Path:
    """The file with other entries in its document."""
    data, pack = json_within(path.read_bytes())
    path.write_bytes(pack(json.dumps(data | changes).encode()))
    return path


@pytest.mark.parametrize(
    ("entry", "value", "place"),
    [
        ("places", [99], "places"), ("steps", [[7, 1, [], {}, [], ""]], "steps[0][0]"),
        ("steps", [[0, 1, [], {"a": 999}, [], ""]], "steps[0][3].a"), ("facts", {}, "facts.kernel"),
        ("values", [{"kind": "tile", "digest": "", "dtype": "float31"}], "values[0]"),
        ("frames", "none", "frames"),
    ],
)  # fmt: skip
def test_a_file_that_is_damaged_names_the_place(
    events: Events, tmp_path: Path, entry: str, value: object, place: str, raised
) -> None:
    path = rewritten(events.trace().save(tmp_path / "trace"), **{entry: value})
    refused = raised(ArchiveError, kernellab.load, path)
    assert place in str(refused)


def test_other_zip_files_and_no_file(tmp_path: Path, raised) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "x")
    raised(ArchiveError, kernellab.load, tmp_path / "other.zip")
    raised(ArchiveError, kernellab.load, tmp_path / "none")


def test_a_folder_that_is_not_there(events: Events, tmp_path: Path, raised) -> None:
    raised(ArchiveError, events.trace().save, tmp_path / "nowhere" / "trace")


# Traces from files may be larger than any kernel leaves them


TILE = [1024, 1024]


@pytest.fixture
def x_and_made() -> MadeTrace:
    made = MadeTrace()
    made.argument("x", numpy.zeros(1 << 21, numpy.float32))
    return made


@pytest.mark.slow
def test_a_view_marks_so_many_lanes_and_says_so(x_and_made, tmp_path, messages) -> None:
    mask = x_and_made.value(numpy.arange(1 << 20) % 3 == 0)
    for _ in range(2000):
        x_and_made.step(access("load", "x", [1], [1 << 20], mask))
    trace = kernellab.load(x_and_made.saved(tmp_path / "trace"))
    view = trace.show()
    assert " ".join(view.data.notes) == messages
    assert view.text() == messages
    marked = [one.accesses[0] for one in view.data.steps]
    assert [one.places is None for one in marked] == [False] * 8 + [True] * 1992
    assert "(349,525 of 1,048,576 tile elements)" in marked[0].words.replace("349,526", "349,525")
    assert marked[9].words == "load of x: 1,048,576 tile elements"
    assert "349,525" in trace[9].accesses[0].text().replace("349,526", "349,525")


def test_regular_accesses_are_all_marked(x_and_made: MadeTrace, tmp_path: Path) -> None:
    for _ in range(60):
        x_and_made.step(access("load", "x", [1024, 1], TILE))
    view = kernellab.load(x_and_made.saved(tmp_path / "trace")).show()
    assert not view.data.notes
    assert all(step.accesses[0].places is not None for step in view.data.steps)


def stores(made: MadeTrace, count: int, tmp_path: Path) -> Trace:
    written = made.value(numpy.ones(1, numpy.float32))
    for _ in range(count):
        made.step(access("store", "x", [1], [1 << 20], None, written))
    trace: Trace = kernellab.load(made.saved(tmp_path / "trace"))
    return trace


@pytest.mark.slow
def test_memory_follows_so_many_writes(x_and_made, tmp_path, messages, raised) -> None:
    trace = stores(x_and_made, 2000, tmp_path)
    assert trace.memory("x", 3).sum() == (1 << 20) + 3
    raised(NotRecorded, trace.memory, "x")
    assert " ".join(trace.show().data.notes) == messages
    assert "0 initially" in trace.show(step=1999).text()


@pytest.mark.slow
def test_scattered_lanes_take_room_and_are_marked_within_it(x_and_made, tmp_path, messages) -> None:
    random = numpy.random.default_rng(0)
    x_and_made.argument("small", numpy.zeros(1 << 18, numpy.float32))
    for _ in range(160):
        places = x_and_made.value(random.permutation(1 << 18)[: 1 << 14].astype(numpy.int32))
        x_and_made.step(scattered("small", places))
    view = kernellab.load(x_and_made.saved(tmp_path / "trace")).show()
    marked = [one.accesses[0].places is not None for one in view.data.steps]
    assert marked == [True] * 128 + [False] * 32
    assert " ".join(view.data.notes) == messages
    runs = sum(one.runs for one in view.data.places)
    assert (1 << 14) * 128 * 0.9 < runs <= _MOST_LANES // 4


@pytest.mark.slow
def test_a_view_of_deep_calls_is_as_large_as_they_are_many(tmp_path: Path) -> None:
    made = MadeTrace()
    made.step()
    for _ in range(20):
        frame = 0
        for line in range(1, 201):
            frame = made.call(frame, line)
    trace = kernellab.load(made.saved(tmp_path / "trace"))
    assert [one.line for one in trace[-1].calls] == list(range(200, 0, -1))
    assert len(as_json(trace.show().data)["frames"]) == 4001
    assert len(json.dumps(as_json(trace.show().data))) < 4001 * 400
    calls = " · ".join(f"called from k.py, line {n}" for n in range(200, 0, -1))
    assert calls in trace.show(step=4000).text()


def test_a_large_tensor_is_unpacked_once_for_a_first_look(
    x_and_made: MadeTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x_and_made.step()
    trace = kernellab.load(x_and_made.saved(tmp_path / "trace"))
    unpacked: list[tuple[int, ...]] = []

    def counting(data: bytes, dtype: str, shape: tuple[int, ...]) -> numpy.ndarray:
        unpacked.append(shape)
        return decompressed(data, dtype, shape)

    monkeypatch.setattr(values, "decompressed", counting)
    assert re.search(r"^ +x +\S+ +0$", trace.show().text(), re.M)
    assert unpacked == [(1 << 21,)]


@pytest.mark.parametrize("strides", [(70, 1), (1, 90), (140, 2), (1, 0), (9000, 1)])
def test_memory_is_what_writes_of_single_lanes_leave(strides, tmp_path) -> None:
    random = numpy.random.default_rng(4)
    made = MadeTrace()
    first = random.random((90, 70), numpy.float32)
    if strides[1] == 0:
        first[:] = first[:, :1]
    made.argument("x", first, strides)
    grid = numpy.indices((90, 70)).reshape(2, -1)
    holds = {tuple(place): first[tuple(place)] for place in grid.T.tolist()}
    for _ in range(3):
        places = random.integers(-50, 7000, 500)
        written = random.random(500, numpy.float32)
        numbers = made.value(places), made.value(written)
        made.step(["store", "x", 4, numbers[0], None, numbers[1]])
        memory = dict(zip(places.tolist(), written.tolist()))
        for place in holds:
            holds[place] = memory.get(int(numpy.dot(place, strides)), holds[place])
    found = kernellab.load(made.saved(tmp_path / "trace")).memory("x")
    assert found.flags.c_contiguous
    assert found.tolist() == numpy.reshape(list(holds.values()), (90, 70)).tolist()


@pytest.mark.slow
def test_many_rows_of_a_step_are_cut(x_and_made: MadeTrace, tmp_path: Path) -> None:
    value = x_and_made.value(numpy.arange(4))
    names = {f"v{number}": value for number in range(5000)}
    x_and_made.step(*(access("load", "x", [1], [2]) for _ in range(5000)), **names)
    text = kernellab.load(x_and_made.saved(tmp_path / "trace")).show().text()
    assert "and 4,800 more" in text
    assert "4,800 further variables" in text


LOOK = """
import resource, sys
import kernellab
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
small, large = sys.argv[1:]
for file in (small, large):
    before = peak()
    found = kernellab.load(file)
    found.show().text(), found.show().to_html(file + ".html")
    found.memory("x").ravel()[-1], repr(found.at(0)), repr(found)
    grew = peak() - before
print(grew)
"""


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_large_tensor_is_looked_at_in_parts(dtype: str, tmp_path: Path) -> None:
    kind = numpy.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    files = []
    for size in (100_000, (240 << 20) // kind.itemsize - 3):
        made = MadeTrace()
        made.argument("x", numpy.zeros(size, numpy.uint8).astype(kind))
        made.step()
        files.append(str(made.saved(tmp_path / f"{size}.trace")))
    ran = run_python(LOOK, *files)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) < 500


@pytest.mark.parametrize("seed", range(40))
def test_runs_of_regular_lanes_are_those_of_each_lane(seed: int) -> None:
    random = numpy.random.default_rng(seed)
    count = int(random.integers(1, 4))
    extents = tuple(random.integers(1, 6, count).tolist())
    strides = tuple(random.choice([-40, -1, 0, 1, 2, 5, 6, 25, 30], count).tolist())
    lanes = AffineLanes(int(random.integers(-10, 50)), strides, extents)
    elements = lanes.indices().reshape(-1)
    runs = lanes.runs()
    if runs is None:
        ordered = sorted(abs(one) for one, extent in zip(strides, extents) if extent > 1 and one)
        assert elements.size > numpy.unique(elements).size or len(ordered) > 1
    else:
        expected, size = runs_of(numpy.sort(elements))
        assert (runs.tolist(), int(runs[:, 1].sum())) == (expected.tolist(), size)


@pytest.mark.parametrize(
    "shape", [(100, 70), (70_001,), pytest.param((300, 9000), marks=pytest.mark.slow), (90_000, 3)]
)
def test_samples_of_runs_lie_in_the_same_cells(shape: tuple[int, ...]) -> None:
    random = numpy.random.default_rng(1)
    cells, size = Cells(shape), math.prod(shape)
    for most in (1, 50, size):
        first = numpy.sort(random.integers(0, size, 5))
        count = numpy.minimum(random.integers(1, most + 1, 5), size - first)
        runs = numpy.stack([first, count], axis=1)
        elements = numpy.concatenate([numpy.arange(a, a + n) for a, n in runs])
        assert cells.of(cells.samples(runs)).tolist() == cells.of(elements).tolist()


@pytest.mark.parametrize("strides", [(70, 1), (1, 90), (140, 2)])
def test_numbers_of_elements_are_those_of_their_coordinates(strides: tuple[int, int]) -> None:
    argument = TracedArgument("x", "float32", (90, 70), strides, 0)
    indices = numpy.random.default_rng(2).integers(-100, 14_000, 3000)
    inside, place = argument.coordinates(indices)
    found, numbers = argument.numbered(indices)
    assert found is not None
    assert found.tolist() == inside.tolist()
    assert numbers.tolist() == (place[0] * 70 + place[1]).tolist()


@pytest.mark.parametrize("shape", [(700_001,), (3, 400_000), (400_000, 3), (1500, 1200)])
def test_parts_of_a_large_array_give_what_the_whole_gives(shape: tuple[int, ...]) -> None:
    random = numpy.random.default_rng(3)
    array = random.random(shape).astype(ml_dtypes.bfloat16)
    array.reshape(-1)[[5, -1]] = numpy.nan, numpy.inf
    whole = array.astype(numpy.float64).reshape(-1)
    summary = summarize(array)
    assert (summary.shape, summary.nans, summary.infinities) == (shape, 1, 1)
    assert (summary.low, summary.high) == (numpy.nanmin(whole), numpy.inf)
    rows, columns = picture_extents(shape, 64)
    padded = numpy.pad(whole, (0, rows * columns - whole.size), mode="edge")
    picture = thumbnail_of(array, 64)
    edges = [numpy.arange(min(one, 64) + 1) * one // min(one, 64) for one in (rows, columns)]
    table = padded.reshape(rows, columns)
    expected = [
        [table[a:b, c:d].mean() for c, d in zip(edges[1], edges[1][1:])]
        for a, b in zip(edges[0], edges[0][1:])
    ]
    numpy.testing.assert_allclose(picture, numpy.array(expected), rtol=1e-6)


@pytest.mark.slow
def test_whatever_a_recorder_keeps_is_loaded(tmp_path: Path) -> None:
    """Memory and variables are kept up to 256 MiB each: a file may have both."""
    x = torch.zeros(1 << 27, dtype=torch.int8)
    trace = kernellab.trace(forms.copy, (1,), x, torch.ones_like(x), 1024, BLOCK=1024)
    again = kernellab.load(trace.save(tmp_path / "large.trace"))
    assert isinstance(again, Trace)
    assert len(again) == len(trace)
