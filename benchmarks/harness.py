"""Two ways of doing one job, measured in turns in one run.

Times of different runs, hours or machines do not compare; ratios of one run do. So the two sides
take turns (A, B, A, B, ...), the medians are divided, and both sides' outputs are compared, because
a fast wrong answer is worth nothing.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import pickle
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
}
"""Environment that keeps NumPy's and torch's libraries on one thread;
it has to be there before they are imported."""

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Sample:
    """One measured call."""

    seconds: float
    output: Any = None
    """What the call gave, for the comparison with the other side."""


Side = Callable[[], Sample]
"""Does the job once and says how long it took, leaving out whatever preparation
both sides share."""

Result = TypeVar("Result")


def timed(call: Callable[[], Result], clock: Callable[[], float] = time.perf_counter) -> Sample:
    """Call and time, once.

    With `time.process_time` as the clock, what else runs on the machine counts little;
    for jobs of one thread that is the time they take on an idle one.
    """
    started = clock()
    output = call()
    return Sample(clock() - started, output)


@dataclass(frozen=True)
class Comparison:
    """What the turns gave."""

    ours: Sequence[float]
    """Seconds of each of our calls."""
    theirs: Sequence[float]
    last_ours: Any
    """The output of our last call."""
    last_theirs: Any

    @property
    def our_median(self) -> float:
        """Seconds."""
        return statistics.median(self.ours)

    @property
    def their_median(self) -> float:
        """Seconds."""
        return statistics.median(self.theirs)

    @property
    def speedup(self) -> float:
        """How many times faster ours is: their median over our median."""
        return self.their_median / self.our_median

    @property
    def overhead(self) -> float:
        """How many times longer ours takes: our median over their median."""
        return self.our_median / self.their_median


def take_turns(
    ours: Side,
    theirs: Side,
    *,
    rounds: int,
    ours_per_round: int = 1,
    warm_up: bool = True,
    seconds: float = math.inf,
) -> Comparison:
    """Measure both sides in turns.

    Args:
        ours, theirs: the two sides.
        rounds: how many turns each side gets.
        ours_per_round: our calls in one turn, where the other side takes so long that one call of
            ours would say little.
        warm_up: call each side once beforehand, unmeasured.
        seconds: no new round starts once this time has passed; one round is always made.
    """
    if warm_up:
        ours()
        theirs()
    started = time.perf_counter()
    our_samples: list[Sample] = []
    their_samples: list[Sample] = []
    for _ in range(rounds):
        our_samples += [ours() for _ in range(ours_per_round)]
        their_samples.append(theirs())
        if time.perf_counter() - started > seconds:
            break
    return Comparison(
        ours=[sample.seconds for sample in our_samples],
        theirs=[sample.seconds for sample in their_samples],
        last_ours=our_samples[-1].output,
        last_theirs=their_samples[-1].output,
    )


class Server:
    """A process of its own that answers requests with one function,
    for a side that needs another environment.

    Use it as a context manager; `ask(request)` gives what the function returns for it.
    """

    def __init__(self, function: str, environment: Mapping[str, str]) -> None:
        """`function` is "module:name"; `environment` is added to this process's."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server", function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **environment},
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, request: Any) -> Any:
        """The function's answer; raises RuntimeError with the traceback
        where it failed, or died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()
        try:
            worked, answer = pickle.load(self._process.stdout)
        except EOFError:
            raise RuntimeError(f"the server died: exit status {self._process.wait()}") from None
        if not worked:
            raise RuntimeError(f"the server's function failed:\n{answer}")
        return answer


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean for ratios: the n-th root of their product."""
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def print_report(title: str, rows: pandas.DataFrame, *notes: str) -> None:
    """The markdown that docs/performance.md holds: the command, the table, the machine."""
    print(f"### {title}\n")
    print(f"`{command_line()}`\n")
    print(markdown_table(rows))
    for note in notes:
        print(f"\n{note}")
    print(f"\n{machine_facts()}\n")


def command_line() -> str:
    """How the running benchmark was started, without this machine's paths."""
    main = sys.modules["__main__"]
    name = main.__spec__.name if main.__spec__ is not None else Path(sys.argv[0]).name
    return f"python -m {shlex.join([name, *sys.argv[1:]])}"


def markdown_table(rows: pandas.DataFrame) -> str:
    """A DataFrame without its index, as a markdown table;
    the first column to the left, the others to the right.
    """
    header = [str(name) for name in rows.columns]
    lines = [header, *([str(value) for value in row] for row in rows.itertuples(index=False))]
    texts = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([texts[0], "|---" + "|---:" * (len(header) - 1) + "|", *texts[1:]])


def machine_facts() -> str:
    """What a reader needs to know of the machine:
    versions, processor and cores, and no name of it.
    """
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("torch", "triton", "numpy")
    )
    cores = len(os.sched_getaffinity(0))
    return f"Python {platform.python_version()}, {versions}; {_processor()}, {cores} cores."


def _processor() -> str:
    """The processor's own name where Linux tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
