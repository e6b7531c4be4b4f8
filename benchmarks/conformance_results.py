"""What came of a run of Triton's test files: read, compared with the known deviations,
grouped and counted.
"""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas


@dataclass(frozen=True)
class Outcome:
    """One test."""

    test: str
    """pytest's name of it, from the folder of the unit tests:
    "language/test_core.py::test_cat[4]"."""
    outcome: str
    """ "passed", "failed" or "skipped"."""
    reason: str = ""
    """Of a failure the error, of a skipped test what the test file says."""
    seconds: float = 0.0

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


def read_outcomes(path: Path) -> list[Outcome]:
    """The file that the plugin wrote; of a test that is named twice (a setup and a call)
    the last line counts.

    A last line that was cut off by an interruption is left out.
    """
    outcomes: dict[str, Outcome] = {}
    for line in path.read_text().splitlines():
        try:
            one = Outcome(**json.loads(line))
        except json.JSONDecodeError:
            continue
        outcomes[one.test] = one
    return list(outcomes.values())


@dataclass(frozen=True)
class Deviation:
    """Tests that fail for a reason that is known and will stay."""

    modes: tuple[str, ...]
    tests: str
    """A pattern of test names, `*` for any text; brackets stand for themselves."""
    why: str

    def covers(self, test: str, mode: str) -> bool:
        """Whether it speaks of this test in this mode."""
        literal = self.tests.replace("[", "[[]")
        return mode in self.modes and fnmatch.fnmatchcase(test, literal)


def read_deviations(path: Path) -> list[Deviation]:
    """The list in a TOML file: tables `deviation` with `modes`, `tests` and `why`.

    Raises:
        ValueError: an entry without an explanation, or with other keys.
    """
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text()).get("deviation", [])
    deviations = []
    for entry in entries:
        if entry.keys() != {"modes", "tests", "why"} or not str(entry["why"]).strip():
            raise ValueError(f"{path.name}: {entry} needs modes, tests, and the reason as why")
        deviations.append(Deviation(tuple(entry["modes"]), entry["tests"], entry["why"].strip()))
    return deviations


@dataclass(frozen=True)
class Verdict:
    """Outcomes of one mode, held against the known deviations."""

    mode: str
    passed: Sequence[Outcome]
    skipped: Sequence[Outcome]
    deviating: Sequence[Outcome]
    """Failures that a known deviation explains."""
    failed: Sequence[Outcome]
    """Failures that nothing explains."""
    unneeded: Sequence[Deviation]
    """Known deviations of this mode that no test of this run shows."""

    @property
    def share(self) -> float:
        """Passed, of all that were not skipped, from 0 to 1."""
        counted = len(self.passed) + len(self.deviating) + len(self.failed)
        return len(self.passed) / counted if counted else 0.0


def judge(outcomes: Iterable[Outcome], deviations: Iterable[Deviation], mode: str) -> Verdict:
    """Sort the outcomes of a run in `mode`."""
    sorted_: dict[str, list[Outcome]] = {
        name: [] for name in ("passed", "skipped", "known", "failed")
    }
    known = [deviation for deviation in deviations if mode in deviation.modes]
    shown = set()
    for one in outcomes:
        explained = [deviation for deviation in known if deviation.covers(one.test, mode)]
        if one.outcome == "failed" and explained:
            sorted_["known"].append(one)
            shown.update(explained)
        else:
            sorted_[one.outcome].append(one)
    return Verdict(
        mode,
        sorted_["passed"],
        sorted_["skipped"],
        sorted_["known"],
        sorted_["failed"],
        [deviation for deviation in known if deviation not in shown],
    )


def counts_by_file(verdict: Verdict) -> pandas.DataFrame:
    """A row for each test file, and one for all of them."""
    columns = {
        "passed": verdict.passed,
        "known deviations": verdict.deviating,
        "failed": verdict.failed,
        "skipped": verdict.skipped,
    }
    counters = {name: Counter(one.file for one in group) for name, group in columns.items()}
    files = sorted({file for counter in counters.values() for file in counter})
    rows = [{"file": file, **{name: counters[name][file] for name in columns}} for file in files]
    rows.append({"file": "all", **{name: len(group) for name, group in columns.items()}})
    return pandas.DataFrame(rows)


def grouped(outcomes: Iterable[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """The outcomes by what their reasons have in common, the largest group first."""
    groups: dict[str, list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault(gist(one.reason), []).append(one)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def gist(reason: str) -> str:
    """The first line of a reason, without what differs from test to test:
    numbers, and all that is quoted.
    """
    first = reason.strip().partition("\n")[0]
    first = re.sub(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", first)
    return re.sub(r"'[^']*'", "'...'", first)[:200]
