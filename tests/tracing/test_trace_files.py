"""Traces on disk: what is read back is what was saved, and a bad file is a clear error."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.errors import ArchiveError, NotRecorded, SourcePosition
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import TracedFault
from kernellab.tracing.values import TilePointer
from tests.support.messages import Raised
from tests.support.trace_events import Events


def same(first: Trace, second: Trace) -> None:
    """Both traces give the same answers."""
    assert first.facts == second.facts
    assert first.sources == second.sources
    assert first.fault == second.fault
    assert [repr(step) for step in first] == [repr(step) for step in second]
    for ours, theirs in zip(first, second, strict=True):
        assert (ours.position, ours.calls, ours.turns) == (
            theirs.position,
            theirs.calls,
            theirs.turns,
        )
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
def test_any_variables_survive(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]
) -> None:
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


def test_the_fault_survives(events: Events, tmp_path: Path, messages: SnapshotAssertion) -> None:
    fault = TracedFault("OutOfBounds", "load out of <bounds>", SourcePosition("k.py", 3, 7), 4)
    loaded = kernellab.load(events.trace(fault).save(tmp_path / "trace"))
    assert loaded.fault == fault
    assert repr(loaded) == messages


def test_an_empty_trace_survives(tmp_path: Path, messages: SnapshotAssertion) -> None:
    loaded = kernellab.load(Events(tmp_path).trace().save(tmp_path / "trace"))
    assert (len(loaded), list(loaded.names())) == (0, [])
    assert loaded.find(lambda v: v.acc) is None
    assert loaded.show().text() == messages


# Bad files


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
def test_a_file_that_is_cut_off(
    events: Events, tmp_path: Path, kept: float, raised: Raised
) -> None:
    path = events.trace().save(tmp_path / "trace")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    raised(ArchiveError, kernellab.load, path)


def test_a_file_with_a_wrong_byte(events: Events, tmp_path: Path, raised: Raised) -> None:
    path = events.trace().save(tmp_path / "trace")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)
    raised(ArchiveError, kernellab.load, path)


def rewritten(path: Path, **changes: object) -> Path:
    """The file with other entries in its document."""
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("trace.json")) | changes
        values = archive.read("values")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.json", json.dumps(document))
        archive.writestr("values", values)
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
    events: Events, tmp_path: Path, entry: str, value: object, place: str, raised: Raised
) -> None:
    path = rewritten(events.trace().save(tmp_path / "trace"), **{entry: value})
    refused = raised(ArchiveError, kernellab.load, path)
    assert place in str(refused)


def test_other_zip_files_and_no_file(tmp_path: Path, raised: Raised) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "x")
    raised(ArchiveError, kernellab.load, tmp_path / "other.zip")
    raised(ArchiveError, kernellab.load, tmp_path / "none")


def test_a_folder_that_is_not_there(events: Events, tmp_path: Path, raised: Raised) -> None:
    raised(ArchiveError, events.trace().save, tmp_path / "nowhere" / "trace")
