"""Files of strangers open and can be looked at, or are refused, in seconds, and run nothing."""

import base64
import dataclasses
import gzip
import itertools
import json
import os
import re
import socket
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest

import kernellab
from kernellab.common.processes import Forked
from kernellab.common.saved_files import json_in
from kernellab.errors import (
    ArchiveError,
    ArgumentError,
    CompileError,
    KernelLabError,
    ProfileError,
    source_lines,
)
from kernellab.judging.records import Verdict
from kernellab.tracing.steps import TracedArgument
from kernellab.workshop.course import cells_of
from tests.corpus.loader import WHOLE
from tests.support import damages, fuzzed_files, hostile_files
from tests.support.damages import unzipped, zipped
from tests.support.source_files import ROOT
from tests.support.trace_events import Events

SWEEPS = ROOT / "notebooks/recorded"


def refusal(path: Any) -> str:
    """Why a file does not open, which takes no time."""
    started = time.process_time()
    with pytest.raises(ArchiveError) as caught:
        kernellab.load(path)
    assert time.process_time() - started < 5
    return str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", list(fuzzed_files.KINDS))
@pytest.mark.parametrize("count", [1, pytest.param(300 if WHOLE else 20, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_can_be_looked_at(kind, count, tmp_path) -> None:
    seeds = (f"test {number}" for number in range(count))
    found = list(fuzzed_files.findings(kind, seeds, tmp_path / "files"))
    assert not found, "\n\n".join(f"{one.seed!r}: {one.what}\n{one.trace}" for one in found)


@pytest.mark.slow
@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", hostile_files.FILES)
def test_hostile_files_take_no_time_and_no_memory(name, tmp_path) -> None:
    file = hostile_files.FILES[name]
    good, content = fuzzed_files.KINDS[file.kind], file.content()
    looks = good.look, lambda found: fuzzed_files.shown(found, tmp_path)
    for number, look in enumerate(looks):
        kind = dataclasses.replace(good, damaged=lambda content, _: content, look=look)
        folder = tmp_path / str(number)
        fuzzed_files.warm_up(kind, folder)
        seconds = fuzzed_files.SECONDS * max(1, len(content) / 1_000_000)
        measured = partial(fuzzed_files.tried, kind, content, "", folder, seconds)
        # The better of two measurements: other processes slow the first one down by a fifth.
        assert Forked(measured).result(300) is None or Forked(measured).result(300) is None


MARK = "\x1b]0;a title\x07\x1b[2J\r\u202e'\"></script><img src=x onerror=alert(1)>"

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

TEXTS = {
    "trace": 2, "cache": 2, "whole profile": 3, "hatchet": 4, "Chrome's trace": 1,
    "compilation": 60, "sweep": 100, "report": 300,
}  # fmt: skip
"""Kind of file -> which of its texts `make test` tries: every so many."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "every"),
    [
        *TEXTS.items(),
        *(
            pytest.param(kind, max(1, every // (30 if WHOLE else 10)), marks=pytest.mark.slow)
            for kind, every in TEXTS.items()
            if every > 1
        ),
    ],
)
def test_no_text_of_a_file_is_obeyed(kind, every, written, tmp_path) -> None:
    good = fuzzed_files.KINDS[kind].content()
    for path, content in damages.with_mark(good, MARK, every):
        try:
            found = fuzzed_files.KINDS[kind].load(written(content))
        except KernelLabError as error:
            said: tuple[list[str], list[str]] = [str(error)], []
        else:
            said = fuzzed_files.shown(found, tmp_path)
        texts, pages = said
        assert not any(map(OBEYED.search, texts)), path
        assert not any("<img src=x" in page for page in pages), path


NO_JSON = {
    "100,000 levels": "[" * 100_000 + "]" * 100_000, "200 levels": "[" * 200 + "]" * 200,
    "5,000 digits": "9" * 5000,
    **{number: number for number in ("1e400", "-1E999", "NaN", "-Infinity")},
}  # fmt: skip

FIELDS = {"compilation": "passes", "sweep": "tunings", "trace": "places"}
"""Kind of file -> a field of its document."""


def good(kind: str) -> bytes:
    return fuzzed_files.KINDS[kind].content()


def changed(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """The file with its JSON changed: `change` edits the data in place."""
    data, pack = damages.json_within(content)
    change(data)
    return pack(json.dumps(data).encode())


@pytest.fixture
def written(tmp_path: Path) -> Callable[[bytes], Path]:
    def written(content: bytes) -> Path:
        (tmp_path / "file").write_bytes(content)
        return tmp_path / "file"

    return written


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("name", NO_JSON)
def test_json_that_python_reads_and_json_has_not(kind, name, written, messages) -> None:
    data, pack = damages.json_within(good(kind))
    text = json.dumps({**data, FIELDS[kind]: "@"}).replace('"@"', NO_JSON[name], 1)
    assert refusal(written(pack(text.encode()))) == messages


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("version", [True, 1.0, "1", None, 2, [1], -1, 10**90])
def test_versions_are_whole_numbers(kind, version, written) -> None:
    file = written(changed(good(kind), lambda data: data.update(version=version)))
    assert f"version {version!r}"[:30] in refusal(file)
    kernellab.load(written(changed(good(kind), lambda data: data.update(version=1))))


def test_a_damaged_cubin_is_told_in_words(written) -> None:
    data, pack = damages.json_within(good("compilation"))
    (stage,) = (one for one in data["stages"] if one["name"] == "cubin")
    cubin = base64.b64decode(stage["base64"])
    names = struct.unpack_from("<H", cubin, 62)[0]
    table = struct.unpack_from("<Q", cubin, 40)[0] + 64 * names
    for damaged in (
        cubin[: len(cubin) // 2],
        cubin[: table + 24] + b"\xff" * 8 + cubin[table + 32 :],
        cubin[: table + 32] + b"\xff" * 7 + b"\0" + cubin[table + 40 :],
        cubin[:60] + b"\xff\xff" + cubin[62:],
    ):
        stage["base64"] = base64.b64encode(damaged).decode()
        found = kernellab.load(written(pack(json.dumps(data).encode())))
        with pytest.raises(CompileError, match="cubin"):
            _ = found.instructions
        repr(found.explore())


@pytest.mark.slow
def test_a_gzip_bomb_is_not_unpacked(tmp_path) -> None:
    packing = zlib.compressobj(9, wbits=31)
    zeros = b" " * (1 << 24)
    content = b"".join(packing.compress(zeros) for _ in range(64)) + packing.flush()
    (tmp_path / "bomb").write_bytes(content)
    assert f"more than {32 * len(content):,}" in refusal(tmp_path / "bomb")  # of a gigabyte


def test_a_gzip_file_of_many_small_values_is_not_unpacked(tmp_path, messages) -> None:
    text = '{"format": [' + "[]," * 4_000_000 + "0]}"
    (tmp_path / "bomb").write_bytes(gzip.compress(text.encode(), 1))
    assert refusal(tmp_path / "bomb") == messages


def test_commas_and_brackets_of_a_text_are_not_values() -> None:
    text = "[{, " * 1_000_000
    assert json_in(json.dumps({"llir": text, "quoted": '"' + text})) == {
        "llir": text,
        "quoted": '"' + text,
    }


def test_gzip_files_in_a_row_are_one(written) -> None:
    text = gzip.decompress(good("compilation"))
    file = written(gzip.compress(text[:999]) + gzip.compress(text[999:]))
    assert kernellab.load(file).kernel == "vector_add"


def with_flags(content: bytes, offset: int, value: int) -> bytes:
    """A zip file with another number in the heads of its entries."""
    data = bytearray(content)
    for head, first in ((b"PK\x03\x04", 4), (b"PK\x01\x02", 6)):
        for found in re.finditer(re.escape(head), content):
            struct.pack_into("<H", data, found.start() + first + offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda good: with_flags(good, 2, 1),
        lambda good: with_flags(good, 4, 93),
        lambda good: with_flags(good, 4, 14),
        lambda good: with_flags(good, 0, 99),
        lambda good: zipped(unzipped(good), zipfile.ZIP_LZMA),
        lambda good: zipped({**unzipped(good), "trace.json": b" " * 10**8}),
        lambda good: zipped({**unzipped(good), "trace.json": b"\xff\xfe"}),
        lambda good: good + b"PK\x05\x06" + b"\xff" * 18,
    ],
)
def test_zip_files_of_other_kinds(damage, written, messages) -> None:
    assert refusal(written(damage(good("trace")))) == messages


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[Callable[[Any], Any]], Path]:
    """A trace with something else in its document."""
    count = itertools.count()

    def write(change: Callable[[Any], Any]) -> Path:
        events = Events(tmp_path)
        events.run()
        file = tmp_path / f"trace{next(count)}"
        file.write_bytes(changed(events.trace().save(tmp_path / "good").read_bytes(), change))
        return file

    return write


def _access(document: Any, kind: str) -> list[Any]:
    return next(a for step in document["steps"] for a in step[4] if a[0] == kind)


def _lanes(extents: list[int]) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        _access(document, "load")[3] = [0, [1] * len(extents), extents]

    return change


HUGE: dict[str, Callable[[Any], Any]] = {
    "shape of a value": lambda d: d["values"][0].update(shape=[10**9, 10**9]),
    "a value of 16 GiB": lambda d: d["values"][0].update(shape=[1 << 32]),
    "a negative shape": lambda d: d["values"][0].update(shape=[-1]),
    "lanes": _lanes([10**6, 10**6]),
    "too many lanes": _lanes([1 << 21]),
    "no lanes of their own": lambda d: _access(d, "store").__setitem__(3, 0),
    "an argument": lambda d: d["arguments"][0].update(shape=[10**9, 10**9], strides=[10**9, 1]),
    "strides of another argument": lambda d: d["arguments"][0].update(strides=[1, 2]),
    "a type of objects": lambda d: d["values"][0].update(dtype="object"),
    "an argument of objects": lambda d: d["arguments"][0].update(dtype="O"),
    "nothing at the beginning": lambda d: d.update(checkpoints=[]),
    "a line": lambda d: d["sources"][0].update(first_line=10**15),
    "lines": lambda d: d["sources"][0].update(lines=[""] * 100_001),
    "a step after the last": lambda d: d.update(checkpoints=[[10**9, {}]]),
    "calls without end": lambda d: d.update(
        frames=[["f", "f", [0, 0, 0], n - 1 if n else None, 1, {}] for n in range(5000)]
    ),
    "a mask that is none": lambda d: _access(d, "store").__setitem__(4, 0),
}


@pytest.mark.parametrize("name", list(HUGE))
def test_sizes_are_those_of_the_bytes_that_are_there(name, damaged) -> None:
    assert "is damaged: " in refusal(damaged(HUGE[name]))


def test_values_must_unpack_to_their_size(damaged, tmp_path, messages) -> None:
    file = damaged(lambda d: None)
    entries = unzipped(file.read_bytes())
    document = json.loads(entries["trace.json"])
    value = next(one for one in document["values"] if "data" in one)
    bomb = zlib.compress(bytes(1 << 26), 9)
    value["data"] = [len(entries["values"]), len(bomb)]
    entries |= {"values": entries["values"] + bomb, "trace.json": json.dumps(document).encode()}
    file.write_bytes(zipped(entries))
    assert refusal(file) == messages


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["fifo", "/dev/zero", "/dev/stdin", "\0", "/", "socket", "huge"])
def test_sources_that_are_no_regular_files_are_not_opened(
    name, damaged, tmp_path, monkeypatch
) -> None:
    file = name if name.startswith("/") or name == "\0" else str(tmp_path / name)
    if name == "fifo":
        os.mkfifo(file)
    if name == "huge":
        with open(file, "wb") as made:
            made.truncate(1 << 33)
    bound = socket.socket(socket.AF_UNIX)
    if name == "socket":
        monkeypatch.chdir(tmp_path)  # its name is shorter so
        bound.bind("socket")
    with bound:
        assert source_lines(file) == []
        loaded = kernellab.load(damaged(lambda d: [one.update(file=file) for one in d["sources"]]))
    assert loaded.notices == ()
    repr(loaded.show())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("given", [True, False, 0, 5, None, b"file", 1.5, [], "a\0b"])
def test_what_is_no_path_is_refused(given) -> None:
    assert "path must " in refusal(given)
    with pytest.raises(ArgumentError, match=r"^path must "):
        kernellab.read_ncu(given)
    with pytest.raises(ArchiveError, match=r"^path must "):
        kernellab.Tuning.load(given)
    os.fstat(0)  # still open


ENTRY_POINTS: dict[str, Callable[[Any], Any]] = {
    "load": kernellab.load, "Tuning.load": kernellab.Tuning.load,
    "Tunings.load": kernellab.Tunings.load, "read_ncu": kernellab.read_ncu,
    "save": lambda path: kernellab.load(SWEEPS / "tuning_h200_vector_add.json").save(path),
}  # fmt: skip


@pytest.mark.parametrize("entry_point", list(ENTRY_POINTS))
@pytest.mark.parametrize(
    "given",
    ["", "a\ud800b", "x" * 300, "a/" * 3000],
    ids=["empty", "half a character", "long name", "long path"],
)
def test_paths_that_no_file_can_have_are_refused(
    entry_point, given, tmp_path, monkeypatch, raised
) -> None:
    monkeypatch.chdir(tmp_path)
    raised(KernelLabError, ENTRY_POINTS[entry_point], given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "\U0001f600 %d#'\"\n", "\udcff", "-o", "~"])
def test_any_name_that_a_file_can_have_is_written_and_read(name, tmp_path) -> None:
    sweep = kernellab.load(SWEEPS / "tuning_h200_vector_add.json")
    sweep.save(tmp_path / name)
    assert repr(kernellab.load(tmp_path / name)) == repr(sweep)
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_may_not_be_looked_into_is_said(tmp_path) -> None:
    (tmp_path / "shut").mkdir(mode=0)
    assert "Permission denied" in refusal(tmp_path / "shut" / "file")


def test_a_zip_file_with_more_in_it_is_read_for_what_it_should_have(tmp_path) -> None:
    outside = {"../../outside": b"x", str(tmp_path / "outside"): b"x", "folder/": b""}
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_bytes(zipped(unzipped(good("trace")) | outside))
    assert len(kernellab.load(file)) > 5
    assert [one.name for one in tmp_path.rglob("*")] == ["folder", "file"]


@pytest.mark.timeout(60)
def test_only_regular_files_are_read(tmp_path, messages, raised) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/zero", "/dev/null"):
        assert refusal(path) == messages
        raised(ProfileError, kernellab.read_ncu, path)
        raised(ArchiveError, kernellab.Tuning.load, path)
    with open(tmp_path / "sparse", "wb") as made:
        made.truncate(1 << 40)
    assert refusal(tmp_path / "sparse") == messages
    assert refusal("/proc/self/pagemap") == messages
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "loop") == messages
    assert refusal(tmp_path) == messages


def test_a_stage_of_a_cache_folder_that_is_no_file(tmp_path, messages) -> None:
    metadata = tmp_path / "vector_add"
    metadata.write_bytes(good("cache"))
    fuzzed_files.load_cache_folder(metadata)
    (tmp_path / "vector_add.ttir").unlink()
    os.mkfifo(tmp_path / "vector_add.ttir")
    assert refusal(tmp_path) == messages


DUMP = "// -----// IR Dump Before Pass (a-pass) ('builtin.module' operation) //----- //\n"


def test_a_dump_of_empty_lines_takes_no_time(tmp_path, messages) -> None:
    (tmp_path / "dump").write_text(DUMP + "\n" * 2_000_000)
    assert refusal(tmp_path / "dump") == messages


@pytest.mark.parametrize("kind", ["compilation", "cache", "dump"])
def test_texts_of_too_many_lines_are_refused(kind, tmp_path, raised) -> None:
    path, lines = tmp_path / "k", "x\n" * 300_001
    if kind == "compilation":
        path.write_bytes(changed(good(kind), lambda data: data.update(texts=["", lines])))
    elif kind == "dump":
        path.write_text(DUMP + lines)
    else:
        path.with_suffix(".json").write_bytes(good(kind))
        path.with_suffix(".ptx").write_text(lines)
        path = path.with_suffix(".json")
    raised(ArchiveError, kernellab.load, path)


def test_counts_of_a_profile_are_counts(tmp_path, raised) -> None:
    text = '"Kernel Name","k"\n"Address","Source","# Samples"\n"10","NOP","1e300"\n'
    (tmp_path / "a.csv").write_text(text)
    raised(ProfileError, kernellab.read_ncu, tmp_path / "a.csv")


def test_names_of_a_launch_and_of_a_submission_are_not_obeyed(tmp_path) -> None:
    head = f'"Kernel Name","k{MARK.partition(chr(34))[0]}"'
    (tmp_path / "a.csv").write_text(f'{head}\n"Address","Source","# Samples"\n"10","NOP","1"\n')
    for said in (kernellab.read_ncu(tmp_path / "a.csv"), Verdict(MARK, "accepted")):
        assert not OBEYED.search(str(said))


def test_a_notebook_has_so_many_cells(tmp_path) -> None:
    answer = {"cell_type": "code", "source": "%%tileexercise softmax\npass"}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [answer] * 20_000}))
    with pytest.raises(ArgumentError, match="cells"):
        next(cells_of(tmp_path / "a.ipynb"))


def test_quartiles_have_the_median_between_them(written, messages) -> None:
    def swap(data: Any) -> None:
        timing = next(one for one in _objects(data) if "median" in one and "upper" in one)
        timing["lower"], timing["upper"] = timing["upper"] + 1, timing["lower"]

    assert refusal(written(changed(good("sweep"), swap))) == messages


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        yield data
    for one in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _objects(one)


def test_a_name_of_the_files_is_shown_in_part(written, messages) -> None:
    more = {"x" * 5000: 1}
    file = written(changed(good("compilation"), lambda data: data["resources"].update(more)))
    said = refusal(file)
    assert said == messages
    assert len(said) < 1000


def test_half_a_character_is_shown_as_unknown(written) -> None:
    file = written(changed(good("compilation"), lambda data: data.update(kernel="a\ud800b")))
    assert kernellab.load(file).kernel == "a\ufffdb"


def test_places_outside_a_tensor_are_not_in_it() -> None:
    inside, _ = TracedArgument("x", "float32", (4,), (-1,), 0).coordinates(numpy.arange(3))
    assert inside.tolist() == [True, False, False]
