"""`kernellab test-on-cpu COMMAND`: a library's own GPU tests, unmodified, without a GPU."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernellab.cli.on_cpu import SETTINGS
from kernellab.common.saved_files import check_place, save_whole
from kernellab.common.system import temporary_folder
from kernellab.common.text import counted, visible
from kernellab.compiler.targets import parse_target
from kernellab.errors import OptionError

_PLUGIN = "-p kernellab.cli.on_cpu"

_MOST_LINES = 20
"""Lines of each list in the report; the file of `--json` has all."""


def run_tests(options: argparse.Namespace) -> int:
    """Run the command with the plugin, then print what ran, what needs a GPU, and the findings.
    The exit status is the command's.

    Raises:
        OptionError: there is no command, it cannot be started, or the target is unknown.
    """
    if not options.words:
        raise OptionError(
            "COMMAND is missing.", advice="Write it last: kernellab test-on-cpu pytest tests."
        )
    if options.report is not None:
        check_place(options.report)
    target = parse_target(options.target).name
    with temporary_folder() as folder:
        events = Path(folder) / "events"
        settings = json.dumps({"target": target, "events": str(events)})
        added = " ".join(filter(None, [os.environ.get("PYTEST_ADDOPTS"), _PLUGIN]))
        environment = {**os.environ, SETTINGS: settings, "PYTEST_ADDOPTS": added}
        status = _run(_with_this_python(options.words), environment)
        lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    happened = [json.loads(line) for line in lines]
    print(report_text(happened, target))
    if options.report is not None:
        save_whole(options.report, json.dumps(happened, indent=1).encode())
    return status


def _with_this_python(words: Sequence[str]) -> list[str]:
    """Have `pytest ...` and `python ...` run by the Python that has KernelLab."""
    first, *rest = words
    if first in ("pytest", "py.test"):
        return [sys.executable, "-m", "pytest", *rest]
    return [sys.executable, *rest] if first in ("python", "python3") else list(words)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    sys.stdout.flush()
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except OSError as error:
        raise OptionError(
            f"{command[0]!r} cannot be started: {error.strerror}.",
            advice="Write a command such as: kernellab test-on-cpu pytest tests.",
        ) from error


def report_text(events: Iterable[Mapping[str, Any]], target: str) -> str:
    """The report of what happened, as text: kernels, outcomes, what needs a GPU, findings."""
    launches: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    needs: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    explained = set()
    failed = set()
    for event in events:
        launches.update(event.get("launches", {}))
        if "outcome" in event:
            outcomes[event["outcome"]] += 1
        if event.get("outcome") == "skipped":
            reasons[event["reason"]] += 1
        if event.get("outcome") == "failed":
            failed.add(event["test"])
        if "error" in event:
            place = f"{event['place']}: " if event["place"] else ""
            (faults if event["is_fault"] else needs)[f"{place}{event['what']}"] += 1
            explained.add(event["test"])
    total = sum(launches.values())
    lines = [
        f"On the CPU, as on {target}: {total:,} launches of {counted(len(launches), 'kernel')}.",
        "Tests: "
        + (", ".join(f"{n} {name}" for name, n in sorted(outcomes.items())) or "none")
        + ".",
    ]
    lines += _listed("Findings", faults)
    lines += _listed("What KernelLab does not run", needs)
    lines += _listed("Skipped by the tests themselves", reasons)
    if others := sorted(failed - explained):
        lines += _listed("Failed for other reasons", Counter(others))
    return "\n".join(lines)


def _listed(title: str, counts: Counter[str]) -> list[str]:
    if not counts:
        return []
    rows = [
        f"  {visible(words)}" + (f" ({number} times)" if number > 1 else "")
        for words, number in counts.most_common(_MOST_LINES)
    ]
    rest = len(counts) - len(rows)
    return ["", f"{title}:", *rows, *([f"  and {rest} more"] if rest else [])]
