"""Saved files of every kind, damaged at random, loaded and looked at.

`python -m tests.support.fuzzed_files --count 5000 --seed 7` prints what went wrong; the tests run
some hundred of the same. A file either opens and can be looked at, or is refused: anything but a
KernelLabError is a finding, and so is what takes too long.
"""

import argparse
import contextlib
import gzip
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import kernellab
from kernellab.compiler.compilations import Compilation
from kernellab.errors import ArchiveError, ArgumentError, KernelLabError, LayoutError, ProfileError
from kernellab.tuning.files import Store, outcome_to_json
from kernellab.tuning.records import Outcome, Timing
from kernellab.workshop.course import (
    MARKER,
    PROGRESS_FILE,
    cell,
    cells_of,
    exercises,
    notebook_text,
)
from kernellab.workshop.exercise import EXERCISES
from tests.corpus.loader import compile_entry, entry
from tests.support.damages import (
    bytes_damaged,
    gzip_damaged,
    json_damaged,
    table_damaged,
    text_damaged,
    zip_damaged,
)
from tests.support.made_profiles import made_profile
from tests.support.source_files import ROOT
from tests.support.trace_events import Events

DATA = ROOT / "benchmarks/data"
SWEEPS = ROOT / "notebooks/recorded"
REPORT = ROOT / "tests/viz/two_blocks.klgraph"

SECONDS, MEGABYTES = 2, 500
"""What a file may take, on a machine that does nothing else."""


@dataclass(frozen=True)
class Kind:
    name: str
    content: Callable[[], bytes]
    damaged: Callable[[bytes, random.Random], bytes]
    look: Callable[[Any], object]
    load: Callable[[Path], Any] = kernellab.load
    refused: type[KernelLabError] = ArchiveError


def _each(*looks: Callable[[], Any]) -> None:
    """Look in every way; what is documented may be raised by each."""
    for look in looks:
        try:
            look()
        except KernelLabError as error:
            str(error)


def _view(record: Any) -> None:
    view = record.show() if hasattr(record, "show") else record.explore()
    view._repr_mimebundle_()
    str(view)


def shown(record: Any, folder: Path) -> tuple[list[str], list[str]]:
    """What a terminal shows of a record, and the HTML of its card, its still and its page."""
    texts, pages = [str(record), repr(record)], []
    if hasattr(record, "_repr_mimebundle_"):
        card = record._repr_mimebundle_()
        texts.append(card["text/plain"])
        pages.append(card["text/html"])
    look: Any = getattr(record, "show", None) or getattr(record, "explore", str)
    with contextlib.suppress(KernelLabError):
        view = look()
        texts.append(str(view))
        if hasattr(view, "to_html"):
            pages += [view.still_html(), view.to_html(folder / "page.html").read_text()]
    return texts, pages


def look_at_compilation(found: Any) -> None:
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
    repr(found)
    _each(lambda: _view(found), lambda: found.table.to_csv(), lambda: found.table.to_string())
    if not isinstance(found, kernellab.Tuning) and not found:
        return
    one = found if isinstance(found, kernellab.Tuning) else found[0]
    _each(lambda: repr(one), lambda: one.table.to_string(), lambda: str(one.best), lambda: one.ties)


def look_at_machine_code(found: Any) -> None:
    _each(
        lambda: found.resources,
        lambda: found.instructions,
        lambda: found.source_map.lines("sass", "source", 20),
    )


def look_at_profile(found: Any) -> None:
    _each(lambda: str(found), found.table, lambda: json.dumps(found.to_dict()))


def look_at_whole_profile(found: Any) -> None:
    """Tables, trees, lines, the timeline, the card, a difference, of whatever record it is."""
    if not isinstance(found, kernellab.Profile):
        return
    _each(
        lambda: str(found),
        found._repr_mimebundle_,
        found.table,
        lambda: found.table("util"),
        lambda: (found.tree(), found.tree(threshold=1, depth=2)),
        lambda: found.lines.to_string(),
        lambda: repr(found.timeline().records),
        lambda: str(found - found),
        lambda: json.dumps(found.to_dict()),
        lambda: [(repr(one), one.compilation) for one in found.kernels],
    )


def look_at_report(found: Any) -> None:
    """The card, every level, tables and kernels; nothing of it is executed."""
    repr(found)
    _each(
        lambda: str(found),
        found._repr_mimebundle_,
        lambda: [one.table() for one in (found.breaks, found.guards, found.bytecode)],
        lambda: [repr(kernel) for kernel in found.kernels],
        lambda: _view(found),
    )
    for graph in found.graphs:
        _each(
            lambda graph=graph: [level.counts() for level in (graph.fx, graph.aten)],  # type: ignore[misc]
            lambda graph=graph: graph.aten.diff(graph.post_grad),  # type: ignore[misc]
            lambda graph=graph: [one.diff() for one in graph.passes],  # type: ignore[misc]
            lambda graph=graph: [graph.positions(kernel) for kernel in graph.kernels],  # type: ignore[misc]
            lambda graph=graph: (graph.fusions, graph.launches, graph.loop_ir),  # type: ignore[misc]
        )


@cache
def _record() -> Compilation:
    return compile_entry(entry("vector_add"), "sm_90", record="passes")


def _saved_record() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return Path(_record().save(Path(folder) / "file")).read_bytes()


def _trace(largest: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        events = Events(Path(folder), largest)
        events.run(turns=2)
        return events.trace().save(Path(folder) / "trace").read_bytes()


def _profile(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return made_profile().save(Path(folder) / name).read_bytes()


_METADATA = {
    "target": {"backend": "cuda", "arch": 90, "warp_size": 32}, "num_warps": 4, "num_ctas": 1,
    "num_stages": 3, "shared": 1024, "tmem_size": 0, "triton_version": "3.6.0",
    "cluster_dims": [1, 1, 1], "hash": "5af3",
}  # fmt: skip


def _cache_metadata() -> bytes:
    return json.dumps({**_METADATA, "name": _record().kernel}).encode()


def load_cache_folder(metadata: Path) -> Any:
    """The metadata's folder, with the stages beside it."""
    for stage in _record().stages.values():
        if stage.name in ("ttir", "ttgir", "ptx", "cubin", "llir"):
            metadata.with_suffix(f".{stage.name}").write_bytes(_stage(stage.name))
    return kernellab.load(metadata.rename(metadata.with_suffix(".json")))


def _stage(name: str) -> bytes:
    content = _record().stages[name].content
    return content if isinstance(content, bytes) else content.encode()


def load_cubin(cubin: Path) -> Any:
    """A folder of Triton's cache with this cubin."""
    cubin.with_suffix(".json").write_bytes(_cache_metadata())
    cubin.rename(cubin.with_suffix(".cubin"))
    return kernellab.load(cubin.parent)


def stages_damaged(content: bytes, chance: random.Random) -> bytes:
    """The text of a stage of a saved compilation."""
    data = json.loads(gzip.decompress(content))
    stage = chance.choice([one["text"] for one in data["stages"] if "text" in one])
    text = text_damaged(data["texts"][stage].encode(), chance)
    data["texts"][stage] = text.decode("utf-8", "replace")
    return gzip.compress(json.dumps(data).encode(), 1)


_ENCODING = (
    b"#ttg.slice<{dim = 1, parent = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16],"
    b" warpsPerCTA = [4, 1], order = [1, 0]}>}>"
)


def load_layout(file: Path) -> Any:
    return kernellab.Layout.parse(file.read_bytes().decode("utf-8", "replace"), (64,), "sm_90")


def _notebook() -> bytes:
    cells = [cell("markdown", "# Answers"), cell("code", "import triton"),
             cell("code", "%%tileexercise softmax\n@triton.jit\ndef softmax(x): pass")]  # fmt: skip
    return notebook_text(cells).encode()


def load_notebook(file: Path) -> Any:
    return list(cells_of(file.rename(file.with_suffix(".ipynb"))))


def load_outcome(file: Path) -> Any:
    with patch.dict(os.environ, {"KERNELLAB_CACHE_DIR": str(file.parent / "cache")}):
        store = Store(["a sweep"])
        store.put(["a config"], Outcome())
        (kept,) = (file.parent / "cache").rglob("*.json")
        kept.write_bytes(file.read_bytes())
        return store.get(["a config"])


def _outcome() -> bytes:
    timing = Timing(1.2, 1.1, 1.3, 1.0, 12, "events")
    return json.dumps(outcome_to_json(Outcome(checked="the reference", timing=timing))).encode()


def outcome_damaged(content: bytes, chance: random.Random) -> bytes:
    """The outcome, mostly with the right digest."""
    damaged = json_damaged(content, chance)
    try:
        outcome = json.loads(damaged)
    except (ValueError, RecursionError):
        return damaged
    digest = hashlib.sha256(json.dumps(outcome, sort_keys=True).encode()).hexdigest()
    return json.dumps({"digest": digest, "outcome": outcome}).encode()


def load_progress(file: Path) -> Any:
    (file.parent / MARKER).touch()
    file.rename(file.parent / PROGRESS_FILE)
    with contextlib.chdir(file.parent):
        return exercises()


def _progress() -> bytes:
    return json.dumps({one.name: ["compiles", 3] for one in EXERCISES}).encode()


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
        Kind("compilation", _saved_record, gzip_damaged, look_at_compilation),
        Kind("stages of a compilation", _saved_record, stages_damaged, look_at_compilation),
        Kind("cubin", lambda: _stage("cubin"), bytes_damaged, look_at_machine_code, load_cubin),
        Kind("trace", lambda: _trace(1 << 16), zip_damaged, look_at_trace),
        Kind("trace of summaries", lambda: _trace(16), zip_damaged, look_at_trace),
        Kind("sweep", (SWEEPS / "tuning_h200_vector_add.json").read_bytes, json_damaged,
             look_at_sweeps),
        Kind("sweeps", (SWEEPS / "tuning_h200_vector_add_sizes.json").read_bytes, json_damaged,
             look_at_sweeps),
        Kind("outcome of a config", _outcome, outcome_damaged, str, load_outcome),
        Kind("cache", _cache_metadata, json_damaged, look_at_compilation, load_cache_folder),
        Kind("dump", _dump, text_damaged, look_at_compilation),
        Kind("report", REPORT.read_bytes, gzip_damaged, look_at_report),
        Kind(
            "profile", (DATA / "profile_h200_matmul.csv").read_bytes, table_damaged,
            look_at_profile, kernellab.read_ncu, ProfileError,
        ),
        Kind("whole profile", lambda: _profile("p"), gzip_damaged, look_at_whole_profile),
        Kind("hatchet", lambda: _profile("p.hatchet"), json_damaged, look_at_whole_profile),
        Kind(
            "Chrome's trace", lambda: _profile("p.trace.json"), json_damaged, look_at_whole_profile
        ),
        Kind("layout", lambda: _ENCODING, text_damaged, str, load_layout, LayoutError),
        Kind("notebook", _notebook, json_damaged, str, load_notebook, ArgumentError),
        Kind("progress", _progress, json_damaged, str, load_progress),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    kind: str
    seed: str
    what: str
    """ "ZeroDivisionError: ...", "12 s"."""
    trace: str


_LONGEST_MESSAGE = 5000


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
    signal.setitimer(signal.ITIMER_REAL, seconds * 60)
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


def warm_up(kind: Kind, folder: Path) -> bytes:
    """Open and look at the good file, which imports what that needs; returns its content."""
    content = kind.content()
    folder.mkdir(exist_ok=True)
    (folder / "good").write_bytes(content)
    kind.look(kind.load(folder / "good"))
    return content


def findings(
    name: str, seeds: Iterator[str], folder: Path, seconds: float = SECONDS
) -> Iterator[Finding]:
    kind = KINDS[name]
    content = warm_up(kind, folder)
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
