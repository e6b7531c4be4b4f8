"""Other people's libraries of Triton kernels, unmodified, inside `kernellab.interpreted()`:
what runs, and what comes out, beside plain torch or what the libraries ship as their references.

    python -m benchmarks.foreign_code

Which libraries, in which versions, and what is known of their samples, is data:
benchmarks/data/foreign_code.toml. They are downloaded from PyPI by pip, as wheels of pure Python
whose hashes are pinned, into a folder of their own outside of the repository; nothing of it is part
of the tests. Every sample runs in a process of its own, with a time limit.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas

from benchmarks.foreign.outcomes import Outcome
from benchmarks.foreign.timing import MOST_PROGRAMS, LaunchTimes, table_of
from benchmarks.harness import ONE_THREAD, ROOT, markdown_table, print_report

DATA = ROOT / "benchmarks/data/foreign_code.toml"


@dataclass(frozen=True)
class Library:
    """One library.

    Attributes:
        module: the module of its samples.
        distribution: its name and version on PyPI.
        requirements: it and what it needs, as lines of a file for pip, with hashes.
        environment: what it wants to be told.
    """

    module: str
    distribution: str
    requirements: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """Why samples are not right.

    Attributes:
        module: of the library.
        samples: a pattern of names, `*` for any text.
        fault: whose it is: "library", "lab", or "none" where a sample cannot be run.
        why: in words.
    """

    module: str
    samples: str
    fault: str
    why: str

    def __post_init__(self) -> None:
        if self.fault not in FAULTS or not self.why.strip():
            raise ValueError(f"{self}: fault is one of {', '.join(FAULTS)}, and why is a reason")


FAULTS = ("lab", "library", "none")


def read_data(path: Path) -> tuple[list[Library], list[Known]]:
    """The libraries of a TOML file, and what is known of their samples."""
    data = tomllib.loads(path.read_text())
    return (
        [Library(**entry) for entry in data["library"]],
        [Known(**entry) for entry in data.get("known", [])],
    )


@dataclass(frozen=True)
class Report:
    """The outcomes of one library's samples, held against what is known."""

    library: Library
    outcomes: Sequence[Outcome]
    explained: Mapping[str, Known]
    """By sample."""

    def whose(self, fault: str) -> list[Outcome]:
        """The samples that are not right by one's fault;
        what nothing explains is taken for the lab's.
        """
        return [
            one for one in self.outcomes if one.verdict != "right" and self._fault(one) == fault
        ]

    def _fault(self, one: Outcome) -> str:
        if one.verdict == "not run":
            return "none"
        return self.explained[one.sample].fault if one.sample in self.explained else "lab"

    def row(self) -> dict[str, object]:
        """Of the table over all libraries."""
        return {
            "library": self.library.distribution,
            "samples": len(self.outcomes),
            "launches": sum(one.launches for one in self.outcomes),
            "right": sum(one.verdict == "right" for one in self.outcomes),
            "the lab's errors": len(self.whose("lab")),
            "the library's": len(self.whose("library")),
            "not run": len(self.whose("none")),
        }


def judge(library: Library, outcomes: Sequence[Outcome], known: Sequence[Known]) -> Report:
    """Find for each sample that is not right what explains it."""
    explained = {
        one.sample: entry
        for one in outcomes
        for entry in known
        if entry.module == library.module and fnmatch.fnmatchcase(one.sample, entry.samples)
    }
    return Report(library, outcomes, explained)


def installed(library: Library, folder: Path) -> Path:
    """The folder that the library and its requirements are installed in; pip does it once.

    Raises:
        SystemExit: pip could not; its last words.
    """
    site = folder / library.distribution
    if (site / "complete").exists():
        return site
    site.mkdir(parents=True, exist_ok=True)
    requirements = site / "requirements.txt"
    requirements.write_text("\n".join(library.requirements) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
         "--only-binary=:all:", "--platform=any", "--target", str(site), "-r", str(requirements)],
        capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{library.distribution} could not be downloaded:\n{done.stderr[-2000:]}")
    (site / "complete").touch()
    return site


def run_samples(
    library: Library,
    site: Path,
    *,
    seconds: float,
    only: str = "",
    checked: bool = False,
    timed: bool = False,
    cache: Path | None = None,
) -> Iterator[Outcome]:
    """Start the process that runs a library's samples, and hear what comes of each.

    Args:
        library: which.
        site: the folder it is installed in; caches go beside it.
        seconds: the time limit of each sample.
        only: samples with this in their names.
        checked: whether launches are checked before they are made.
        timed: whether the first launch of each kernel is compared with Triton's interpreter.
        cache: the folder for generated code; None for one in the library's home folder.

    Raises:
        RuntimeError: the process failed by itself, as where the library cannot be imported.
    """
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.foreign.child", library.module,
               f"--seconds={seconds}", f"-k={only}",
               *(["--check"] if checked else []), *(["--times"] if timed else [])]  # fmt: skip
    path = [str(ROOT), str(site), os.environ.get("PYTHONPATH", "")]
    home = site.with_name(f"{site.name}-home")  # libraries and Triton keep caches there
    home.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        **ONE_THREAD,
        **library.environment,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "HOME": str(home),
        **({} if cache is None else {"KERNELLAB_CACHE_DIR": str(cache)}),
    }
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith(Outcome.MARK):
                    yield Outcome.of_line(line)
            if process.wait():
                errors.seek(0)
                raise RuntimeError(f"{library.distribution}:\n{errors.read()[-3000:]}")
        finally:
            with contextlib.suppress(ProcessLookupError):  # it, and a sample that still runs
                os.killpg(process.pid, signal.SIGKILL)


def print_details(report: Report) -> None:
    """What is not right, by reason, and what checks found."""
    rows: dict[str, list[Outcome]] = {}
    for one in report.outcomes:
        if one.verdict != "right":
            entry = report.explained.get(one.sample)
            rows.setdefault(entry.why if entry else one.why, []).append(one)
    table = [
        {"why": " ".join(why.split())[:300], "samples": len(ones), "the first": ones[0].sample}
        for why, ones in rows.items()
    ]
    if table:
        print(f"#### {report.library.distribution}\n\n{markdown_table(pandas.DataFrame(table))}\n")
    for one in report.outcomes:
        for finding in one.findings:
            print(f"{one.sample}: {finding}\n")


def timed_passes(library: Library, site: Path, *, seconds: float, only: str) -> pandas.DataFrame:
    """Run a library's samples twice with one new cache of generated code, and return the ratios of
    Triton's interpreter's times to ours: without any code on disk, and with all of it.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="kernellab-cache-") as cache:
        for code in ("nothing", "every kernel"):
            times: dict[str, LaunchTimes] = {}
            for one in run_samples(
                library, site, seconds=seconds, only=only, timed=True, cache=Path(cache)
            ):
                for fields in one.times:
                    times.setdefault(fields["kernel"], LaunchTimes(**fields))
            if times:
                name = library.distribution
                rows.append({"library": name, "on disk": code} | table_of([*times.values()]))
    return pandas.DataFrame(rows)


def print_times(libraries: Sequence[Library], arguments: argparse.Namespace) -> None:
    """Print the ratios of first and later launches."""
    into, how = arguments.into.resolve(), {"seconds": arguments.seconds, "only": arguments.k}
    tables = [timed_passes(library, installed(library, into), **how) for library in libraries]
    print_report(
        "First launches of other people's kernels, and Triton's interpreter",
        pandas.concat(tables),
        f"Each kernel's first launch of at most {MOST_PROGRAMS} programs. A ratio is the time of "
        "Triton's interpreter over ours; means are geometric.",
    )


def main() -> None:
    """Print the table; exit with 1 where something is not right that is, or may be, the lab's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    libraries, known = read_data(DATA)
    names = [one.module.rpartition(".")[2] for one in libraries]
    parser.add_argument("--library", choices=names, action="append", help="may be repeated")
    parser.add_argument("-k", default="", metavar="TEXT", help="samples with this in their names")
    parser.add_argument("--check", action="store_true", help="check launches before making them")
    parser.add_argument(
        "--times", action="store_true", help="compare first launches with Triton's interpreter"
    )
    parser.add_argument("--seconds", type=float, default=120, help="the limit of each sample")
    parser.add_argument(
        "--into",
        type=Path,
        default=Path(tempfile.gettempdir()) / "kernellab-foreign-code",
        metavar="DIR",
        help="where libraries are downloaded to",
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="add outcomes there, as JSON")
    arguments = parser.parse_args()
    reports, started = [], time.perf_counter()
    chosen = [pair for pair in zip(names, libraries) if pair[0] in (arguments.library or names)]
    if arguments.times:
        print_times([library for _, library in chosen], arguments)
        return
    for name, library in chosen:
        outcomes = []
        site = installed(library, arguments.into.resolve())
        for one in run_samples(
            library, site, seconds=arguments.seconds, only=arguments.k, checked=arguments.check
        ):
            outcomes.append(one)
            if arguments.results:
                with arguments.results.open("a") as file:
                    file.write(json.dumps({"library": name, **vars(one)}) + "\n")
        reports.append(judge(library, outcomes, known))
    minutes = (time.perf_counter() - started) / 60
    print_report(
        "Other people's code",
        pandas.DataFrame([report.row() for report in reports]),
        f"{minutes:.0f} minutes.",
    )
    for report in reports:
        print_details(report)
    raise SystemExit(1 if any(report.whose("lab") for report in reports) else 0)


if __name__ == "__main__":
    main()
