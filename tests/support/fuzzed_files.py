"""Saved files of every kind, damaged at random, loaded and looked at.

`python -m tests.support.fuzzed_files --count 5000 --seed 7` prints what went wrong; the tests run
some hundred of the same. A file either opens and can be looked at, or is refused: anything but a
KernelLabError is a finding, and so is what takes too long.
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import json
import random
import re
import resource
import shutil
import signal
import struct
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import kernellab
from kernellab.errors import ArchiveError, KernelLabError, ProfileError
from kernellab.records import Compilation
from tests.corpus.loader import compile_entry, entry
from tests.support.source_files import ROOT
from tests.support.trace_events import Events

DATA = ROOT / "benchmarks/data"

SECONDS, MEGABYTES = 2, 500
"""What a file may take, on a machine that does nothing else."""

NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    10**9,
    10**18,
    10**90,
    1.5,
    -0.0,
    1e300,
    -1e300,
    "",
    "x",
    "é\u2028\0</script>",
    "\ud800",
    "a" * 10_000,
    "/dev/zero",
    [],
    {},
    [[]],
    [10**9, 10**9],
    [-1],
    [0, 10**12],
    {"float": "nan"},
    {"float": "inf"},
    {"tuple": [1, [2]]},
    {"dict": [[1, 2]]},
    {"dict": [[[], 2]]},
    {"shown": 5},
    {"": None},
    "float64",
    "object",
    "O",
    "bfloat16",
    "pointer",
    "constant",
)

LITERALS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1e400",
    "9" * 5000,
    "[" * 5000 + "]" * 5000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    "[" * 70 + "]" * 70,
    "1.0",
    "1E5",
    "-0",
)
"""What stands in a JSON text and is no value of Python's."""


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    name: str
    content: Callable[[], bytes]
    damaged: Callable[[bytes, random.Random], bytes]
    look: Callable[[Any], None]
    load: Callable[[Path], Any] = kernellab.load
    refused: type[KernelLabError] = ArchiveError


# --------------------------------------------------------------------------------------------------
# Damage
# --------------------------------------------------------------------------------------------------


def bytes_damaged(content: bytes, chance: random.Random) -> bytes:
    """A few bytes are others, or missing, or there twice; or the end is."""
    data = bytearray(content)
    match chance.randrange(5):
        case 0:
            return bytes(data[: chance.randrange(len(data))])
        case 1:
            start = chance.randrange(len(data))
            del data[start : start + chance.choice((1, 2, 30, 1000))]
        case 2:
            start = chance.randrange(len(data))
            data[start:start] = data[start : start + chance.choice((1, 8, 1000))]
        case _:
            for _ in range(chance.choice((1, 1, 2, 20))):
                data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def json_damaged(content: bytes, chance: random.Random) -> bytes:
    """Some values of a JSON text are nasty ones, or those of another place, or gone."""
    if chance.random() < 0.1:
        return bytes_damaged(content, chance)
    data = json.loads(content)
    marks = {}
    for number in range(chance.choice((1, 1, 1, 2, 3))):
        where = _a_place(data, chance)
        if where is None:
            return json.dumps(chance.choice(NASTY)).encode()
        holder, key = where
        match chance.randrange(8):
            case 0:
                del holder[key]
            case 1:
                other = _a_place(data, chance)
                if other is not None:
                    holder[key] = json.loads(json.dumps(other[0][other[1]]))
            case 2:
                marks[f'"@mark{number}@"'] = chance.choice(LITERALS)
                holder[key] = f"@mark{number}@"
            case 3 if isinstance(holder[key], list):
                holder[key] = holder[key] * chance.choice((0, 2, 3))
            case 4 if type(holder[key]) is int:
                holder[key] += chance.choice((-1, 1, 2, 1000, 10**6))
            case _:
                holder[key] = deepcopy(chance.choice(NASTY))
    text = json.dumps(data)
    for mark, literal in marks.items():
        text = text.replace(mark, literal)
    return text.encode()


def _a_place(data: Any, chance: random.Random) -> tuple[Any, Any] | None:
    """A container and a key in it, as often high as deep."""
    found = None
    while isinstance(data, dict | list) and data:
        key = chance.choice(list(data)) if isinstance(data, dict) else chance.randrange(len(data))
        found = data, key
        data = data[key]
        if chance.random() < 0.12:
            break
    return found


def text_damaged(content: bytes, chance: random.Random) -> bytes:
    """A line, or a number or word in it, is gone, there twice, or another; or a few bytes are."""
    if chance.random() < 0.3:
        return bytes_damaged(content, chance)
    lines = content.decode().split("\n")
    for _ in range(chance.choice((1, 1, 3))):
        place = chance.randrange(len(lines))
        found = list(re.finditer(r"[\w.]+", lines[place]))
        match chance.randrange(5):
            case 0:
                del lines[place : place + chance.choice((1, 5))]
            case 1:
                lines[place] *= 3
            case 2 if found:
                one = chance.choice(found)
                word = chance.choice(("9" * 30, "-1", "0", "1e400", "x" * 5000, "\0", "é", "nan"))
                lines[place] = lines[place][: one.start()] + word + lines[place][one.end() :]
            case 3:
                lines.insert(place, chance.choice(lines))
            case _:
                lines.insert(place, chance.choice(("\n" * 5000, "{" * 2000, '"', "x" * 200_000)))
    return "\n".join(lines).encode()


def gzip_damaged(content: bytes, chance: random.Random) -> bytes:
    """The JSON within, or the gzip file around it."""
    if chance.random() < 0.2:
        return bytes_damaged(content, chance)
    return gzip.compress(json_damaged(gzip.decompress(content), chance), 1)


def zip_damaged(content: bytes, chance: random.Random) -> bytes:
    """The JSON within, the values, an entry, or the zip file around them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    match chance.randrange(10):
        case 0 | 1:
            return bytes_damaged(content, chance)
        case 2:
            name = chance.choice(list(entries))
            entries[name] = bytes_damaged(entries[name], chance)
        case 3:
            entries["trace.json"], entries["values"] = entries["values"], entries["trace.json"]
        case 4:
            return _with_header(content, chance)
        case _:
            entries["trace.json"] = json_damaged(entries["trace.json"], chance)
    method = chance.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method if chance.random() < 0.3 else zipfile.ZIP_DEFLATED) as a:
        for name, one in entries.items():
            a.writestr(name, one)
    return made.getvalue()


_HEADERS = (b"PK\x01\x02", b"PK\x03\x04")


def _with_header(content: bytes, chance: random.Random) -> bytes:
    """Fields of the zip's own lists are others: version, flags, method, sizes."""
    data = bytearray(content)
    places = [n for n in range(len(data) - 30) if content[n : n + 4] in _HEADERS]
    place = chance.choice(places)
    first = 4 if data[place + 2] == 3 else 6
    offset = place + first + 2 * chance.randrange(3)
    struct.pack_into("<H", data, offset, chance.choice((0, 1, 8, 12, 14, 93, 99, 65535)))
    if chance.random() < 0.3:
        struct.pack_into("<I", data, place + first + 14, chance.choice((0, 1, 2**31, 2**32 - 1)))
    return bytes(data)


# --------------------------------------------------------------------------------------------------
# Looking
# --------------------------------------------------------------------------------------------------


def _each(*looks: Callable[[], Any]) -> None:
    """Look in every way; what is documented may be raised by each."""
    for look in looks:
        try:
            look()
        except KernelLabError as error:
            str(error)


def _view(record: Any) -> None:
    shown = record.explore() if isinstance(record, Compilation) else record.show()
    shown._repr_mimebundle_()
    str(shown)


def look_at_compilation(found: Any) -> None:
    """Everything that needs no compiler."""
    repr(found)
    _each(
        lambda: _view(found),
        lambda: found.resources,
        lambda: [
            found.source_map.lines("source", stage, line)
            for stage in found.source_map.stages
            for line in range(1, 40)
        ],
        lambda: found.source_map.chain("ttgir", 5) if "ttgir" in found.stages else None,
        lambda: found.instructions,
        found.occupancy,
        lambda: [(str(one), one.what) for one in found.remarks],
        lambda: [(one.label, repr(one), one.text.read()) for one in found.passes],
        lambda: [(one.size, one.language) for one in found.stages.values()],
        lambda: kernellab.compare(found, found),
    )


def look_at_trace(found: Any) -> None:
    """Every step and variable, memory, both views."""
    repr(found)
    last = len(found) - 1
    _each(
        lambda: _view(found),
        lambda: found.show(step=last).text(),
        lambda: [repr(one) for one in found],
        lambda: [access.text() for step in found for access in step.accesses],
        lambda: [dict(found.at(step)) for step in range(len(found))],
        lambda: [repr(found.at(step)) for step in range(len(found))],
        lambda: [repr(found.history(name)) for name in found.names()],
        lambda: found.diff(found),
        lambda: found.find(lambda v: False),
    )
    for name in found.arguments:
        _each(
            partial(found.memory, name),
            partial(found.memory, name, last),
            partial(found.final_memory, name),
        )


def look_at_sweeps(found: Any) -> None:
    """Tables, cards, plots' data and the view."""
    repr(found)
    _each(lambda: _view(found), lambda: found.table.to_csv(), lambda: found.table.to_string())
    if not isinstance(found, kernellab.Tuning) and not found:
        return
    one = found if isinstance(found, kernellab.Tuning) else found[0]
    _each(
        lambda: repr(one),
        lambda: one.table.to_string(),
        lambda: str(one.best),
        lambda: one.ties,
        one.with_kernel,
    )


def look_at_profile(found: Any) -> None:
    """The table, the words, the data."""
    _each(lambda: str(found), found.table, lambda: json.dumps(found.to_dict()))


# --------------------------------------------------------------------------------------------------
# Kinds
# --------------------------------------------------------------------------------------------------


@cache
def _record() -> Compilation:
    """With every pass."""
    return compile_entry(entry("vector_add"), "sm_90", record="passes")


def _saved_record() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return Path(_record().save(Path(folder) / "file")).read_bytes()


def _trace(largest: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        events = Events(Path(folder), largest)
        events.run(turns=2)
        return events.trace().save(Path(folder) / "trace").read_bytes()


_METADATA = {
    "target": {"backend": "cuda", "arch": 90, "warp_size": 32},
    "num_warps": 4,
    "num_ctas": 1,
    "num_stages": 3,
    "shared": 1024,
    "tmem_size": 0,
    "triton_version": "3.6.0",
    "cluster_dims": [1, 1, 1],
    "hash": "5af3",
}


def _cache_metadata() -> bytes:
    return json.dumps({**_METADATA, "name": _record().kernel}).encode()


def load_cache_folder(metadata: Path) -> Any:
    """The metadata's folder, with the stages beside it."""
    for stage in _record().stages.values():
        file = metadata.with_suffix(f".{stage.name}")
        if stage.name in ("ttir", "ttgir", "ptx", "cubin", "llir"):
            content = stage.content
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return kernellab.load(metadata.rename(metadata.with_suffix(".json")))


def _dump() -> bytes:
    runs = [one for one in _record().passes if one.op_counts_after]
    names = [one.name for one in runs[1:]] + ["end"]
    parts = [
        f"// -----// IR Dump Before Pass ({name.replace('_', '-')}) "
        f"('builtin.module' operation) //----- //\n{run.text.read()}"
        for run, name in zip(runs, names)
    ]
    return "\n".join(parts).encode()


KINDS: Mapping[str, Kind] = {
    one.name: one
    for one in (
        Kind(
            "compilation",
            _saved_record,
            gzip_damaged,
            look_at_compilation,
        ),
        Kind("trace", lambda: _trace(1 << 16), zip_damaged, look_at_trace),
        Kind("trace of summaries", lambda: _trace(16), zip_damaged, look_at_trace),
        Kind(
            "sweep",
            (DATA / "tuning_h200_vector_add.json").read_bytes,
            json_damaged,
            look_at_sweeps,
        ),
        Kind(
            "sweeps",
            (DATA / "tuning_h200_vector_add_sizes.json").read_bytes,
            json_damaged,
            look_at_sweeps,
        ),
        Kind("cache", _cache_metadata, json_damaged, look_at_compilation, load_cache_folder),
        Kind("dump", _dump, text_damaged, look_at_compilation),
        Kind(
            "profile",
            (DATA / "profile_h200_matmul.csv").read_bytes,
            text_damaged,
            look_at_profile,
            kernellab.read_ncu,
            ProfileError,
        ),
    )
}


# --------------------------------------------------------------------------------------------------
# Runs
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What went wrong with a file."""

    kind: str
    seed: str
    what: str
    """ "ZeroDivisionError: ...", "12 s"."""
    trace: str


_LONGEST_MESSAGE = 3000


class TooLong(BaseException):
    """Somebody would have stopped it by now."""


def _give_up(signal_number: int, frame: FrameType | None) -> None:
    raise TooLong


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tried(kind: Kind, content: bytes, seed: str, folder: Path, seconds: float) -> Finding | None:
    """Damage a file, open it and look at it; what went wrong, or None."""
    home = folder / "home"
    home.mkdir()
    file = home / "file"
    file.write_bytes(kind.damaged(content, random.Random(seed)))
    before, peak = signal.signal(signal.SIGALRM, _give_up), _peak_megabytes()
    started = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, seconds * 10)
    try:
        try:
            found = kind.load(file)
        except kind.refused as error:
            if len(str(error)) > _LONGEST_MESSAGE:
                return Finding(kind.name, seed, "a message of a page", str(error))
        else:
            kind.look(found)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        words = f"{type(error).__name__}: {error!s:.200}"
        return Finding(kind.name, seed, words, traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        shutil.rmtree(home)
    if (took := time.process_time() - started) > seconds:
        return Finding(kind.name, seed, f"{took:.1f} s", "")
    if (grew := _peak_megabytes() - peak) > MEGABYTES:
        return Finding(kind.name, seed, f"{grew:,.0f} MB", "")
    return None


def findings(
    name: str, seeds: Iterator[str], folder: Path, seconds: float = SECONDS
) -> Iterator[Finding]:
    """What goes wrong with damaged files of a kind."""
    kind = KINDS[name]
    content = kind.content()
    folder.mkdir(exist_ok=True)
    (folder / "good").write_bytes(content)
    kind.look(kind.load(folder / "good"))  # imports, and the file itself is sound
    for seed in seeds:
        found = tried(kind, content, seed, folder, seconds)
        if found is not None:
            yield found


def main() -> None:
    """Print what goes wrong with many files of each kind."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--count", type=int, default=1000, help="files of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    options = parser.parse_args()
    total = 0
    for name in options.kind or KINDS:
        seeds = (f"{options.seed} {number}" for number in itertools.count())
        counts: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            for one in findings(name, itertools.islice(seeds, options.count), Path(folder)):
                if not counts[one.what[:60]]:
                    print(f"{name}, seed {one.seed!r}: {one.what}\n{one.trace}", flush=True)
                counts[one.what[:60]] += 1
        total += counts.total()
        print(f"{name}: {counts.total()} findings in {options.count} files", flush=True)
    raise SystemExit(1 if total else 0)


if __name__ == "__main__":
    main()
