"""Judge many submissions on a cluster of processes of this machine, and compare some of the
verdicts with those of `kernellab.judge`'s command without a cluster.

python -m benchmarks.judging --count 1000 --workers 8    judges attacks and honest submissions

It prints the processor time of a submission, in all processes together, their memory after each
quarter, and the processes and files that are left. Goal: no submission is lost, the verdicts are
the same bytes, the memory does not grow, and nothing is left but Dask's folder and Python's
resource tracker, which end with the benchmark.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import tempfile
from collections import Counter
from importlib import import_module
from typing import Any

from benchmarks.harness import ROOT
from kernellab.cli.tasks import judged, judged_on
from tests.judging.softmax_cases import ATTACKS, HONEST
from tests.judging.test_judge import submissions

distributed: Any = import_module("distributed")
psutil: Any = import_module("psutil")  # which Dask needs, too

REFERENCE = "tests/judging/softmax_cases.py::softmax"
OPTIONS = {"seconds": 20}


def processor_time() -> float:
    """Return the seconds of the processes below this one, and of those that they waited for."""
    times = (process.cpu_times() for process in psutil.Process().children(recursive=True))
    return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))


def gigabytes() -> float:
    """Return the memory of the processes below this one that they do not share."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            total += process.memory_full_info().uss
    return total / 1e9


def main() -> None:
    """Judge, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="submissions")
    parser.add_argument("--workers", type=int, default=2, help="processes, each with one thread")
    parser.add_argument("--compared", type=int, default=4, help="verdicts that are compared")
    given = parser.parse_args()
    os.chdir(ROOT)  # so that verdicts name files in the repository
    names = [
        f"{file.relative_to(ROOT)}::{case.values[0]}"
        for file in (HONEST, ATTACKS)
        for case in submissions(file)
    ]
    chosen = list(itertools.islice(itertools.cycle(names), given.count))
    rest = (REFERENCE, None, [None], OPTIONS)
    folder = tempfile.TemporaryDirectory(prefix="kernellab-judging-")
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name
    verdicts, memory = [], []
    with distributed.LocalCluster(
        n_workers=given.workers, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        before = processor_time()
        for verdict in judged_on(cluster.scheduler_address, chosen, *rest):
            verdicts.append(verdict)
            if len(verdicts) % max(1, len(chosen) // 4) == 0:
                memory.append(f"{gigabytes():.2f}")
        seconds = processor_time() - before
    left = [*os.listdir(folder.name)]
    for process in psutil.Process().children(recursive=True):
        left.append(" ".join(process.cmdline())[:80])
    differing = [
        verdict.submission
        for verdict in verdicts[:: max(1, len(verdicts) // given.compared)]
        if judged(verdict.submission, *rest).json() != verdict.json()
    ]
    print(f"{len(chosen)} submissions: {dict(Counter(verdict.verdict for verdict in verdicts))}")
    print(f"lost: {sum(verdict.kind == 'lost' for verdict in verdicts)}")
    print(f"{seconds / len(chosen):.2f} s of processor time for each")
    print(f"memory after each quarter: {', '.join(memory)} GB")
    print(f"left of files and processes: {left or 'nothing'}")
    print(f"verdicts that differ from those without a cluster: {differing or 'none'}")


if __name__ == "__main__":
    main()
