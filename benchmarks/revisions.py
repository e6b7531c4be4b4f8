"""This checkout beside another revision of itself: `python -m benchmarks.revisions REVISION`.

Is anything slower than it was? Every job runs in two processes that differ in the KernelLab that
they import and in nothing else; they take turns, medians of CPU time are divided, outputs compared.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas

from benchmarks.harness import ONE_THREAD, ROOT, geometric_mean, print_report

JOBS_FILE = Path(__file__).with_name("revision_jobs.py")


class Side:
    """A process that does jobs with the KernelLab of one folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(JOBS_FILE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(folder)},
        )

    def ask(self, job: str) -> tuple[list[float], str]:
        """CPU seconds of each call of one turn, and the output's digest."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(job, self.process.stdin)
        self.process.stdin.flush()
        answer: tuple[list[float], str] = pickle.load(self.process.stdout)
        return answer

    def end(self) -> None:
        """Let the process go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(job: str, ours: Side, theirs: Side, rounds: int) -> dict[str, Any]:
    """One row: both sides in turns, A B A B."""
    samples: tuple[list[float], list[float]] = ([], [])
    digests = set()
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for which in order:
            seconds, digest = (ours, theirs)[which].ask(job)
            samples[which].extend(seconds)
            digests.add(digest)
    now, before = (statistics.median(side) for side in samples)
    return {
        "job": job,
        "before, ms": f"{before * 1e3:.2f}",
        "now, ms": f"{now * 1e3:.2f}",
        "now over before": round(now / before, 3),
        "outputs": "equal" if len(digests) == 1 else "DIFFER",
    }


def main() -> None:
    """Print the table; exit with 1 where outputs differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="a commit, a tag, a branch")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each side")
    parser.add_argument("--only", action="append", help="a beginning of a job's name; repeatable")
    wanted = parser.parse_args()
    listed = subprocess.run(
        [sys.executable, str(JOBS_FILE), "--list"], capture_output=True, text=True, check=True
    )
    jobs = [
        job
        for job in listed.stdout.splitlines()
        if wanted.only is None or any(job.startswith(start) for start in wanted.only)
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "before"
        subprocess.run(
            ["git", "worktree", "add", "--detach", "--quiet", str(folder), wanted.revision],
            cwd=ROOT,
            check=True,
        )
        stack.callback(
            subprocess.run, ["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT
        )
        ours, theirs = Side(ROOT), Side(folder)
        stack.callback(ours.end)
        stack.callback(theirs.end)
        rows = pandas.DataFrame([measure(job, ours, theirs, wanted.rounds) for job in jobs])
    mean = geometric_mean(list(rows["now over before"]))
    print_report(
        f"This checkout beside {wanted.revision}",
        rows,
        f"CPU time, medians, one thread. Geometric mean of the ratios: {mean:.3f}.",
    )
    raise SystemExit(1 if "DIFFER" in set(rows["outputs"]) else 0)


if __name__ == "__main__":
    main()
