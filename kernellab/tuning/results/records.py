"""What a sweep finds out of each config, as plain facts that fit into JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from kernellab.records import Resources
from kernellab.tuning.results.value_formatting import format_value

Reason = Literal[
    "out of resources",
    "compile error",
    "wrong result",
    "fault",
    "time-out",
    "crash",
    "out of memory",
    "lost",
]
"""Why a config was dropped. "fault": the kernel left its tensors, or an error was raised when it
was prepared or launched; "lost": what had it failed (a process lost again and again, a full disk,
a tool of the compiler's that is not there), with no fault of the config's known."""

Method = Literal["events", "graph"]
"""How a time was measured: "events" is `triton.testing.do_bench`, the L2 cache emptied before each
run; "graph" is `do_bench_cudagraph`, runs in a row with a warm cache, for kernels so short that a
launch takes longer."""


HOW_TIMED: Mapping[Method, str] = {
    "events": "do_bench, cold L2",
    "graph": "CUDA graph, warm L2",
}
"""A method in a few words, for tables and plots."""


INTERRUPTED = "interrupted"
"""What the note of a sweep begins with that was stopped before it was through."""


@dataclass(frozen=True)
class Candidate:
    """One config of a sweep."""

    constants: Mapping[str, Any]
    """Values of the kernel's parameters."""
    options: Mapping[str, Any]
    """Options of the compiler's backend: num_warps, num_stages, ..."""
    pre_hook: Callable[[dict[str, Any]], Any] | None = field(
        default=None, compare=False, repr=False
    )
    """Called with all arguments by name before a launch, as that of a `triton.Config`."""
    named_hook: str = field(default="", compare=False, repr=False)
    """The name that a file has of it; the hook itself is found again beside the kernel."""

    @property
    def hook_name(self) -> str:
        """The hook's name; "" where there is none."""
        return self.named_hook or getattr(
            self.pre_hook, "__name__", "" if self.pre_hook is None else "pre_hook"
        )

    @property
    def values(self) -> dict[str, Any]:
        """Constants and options together."""
        return {**self.constants, **self.options}

    def __str__(self) -> str:
        return ", ".join(f"{name}={format_value(value)}" for name, value in self.values.items())


@dataclass(frozen=True)
class Dropped:
    """Why a config is out of the race."""

    reason: Reason
    why: str
    """In full, with the compiler's or the driver's own words."""

    @property
    def line(self) -> str:
        """The first line of `why`."""
        return self.why.strip().partition("\n")[0]


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of a config."""

    resources: Resources
    occupancy: float
    """Warps on a multiprocessor over the most possible, 0 to 1, as far as the model goes;
    NaN where no limits are known."""
    limited_by: str
    """What allows no more: "registers", "shared memory", ..."""
    matrix: str
    """The matrix instructions with the most work each, as PTX or AMD's assembly names them;
    "" where there are none."""
    seconds: float
    """Wall time of the compilation, on a machine that compiles others beside it;
    near 0 where Triton's cache had it."""
    estimated: float | None = None
    """Microseconds of a launch, estimated and not measured (docs/estimates.md); None where nothing
    was estimated: configs that are timed, types alone, targets that are not calibrated."""


@dataclass(frozen=True)
class Timing:
    """Times of one config's runs on a GPU, in milliseconds."""

    median: float
    lower: float
    """A quarter of the runs took less."""
    upper: float
    """A quarter of the runs took more."""
    fastest: float
    runs: int
    method: Method
    rounds: int = 1
    """How many times it was measured, with others in between;
    quartiles are then the widest of all rounds."""

    @property
    def how(self) -> str:
        """The method in a few words."""
        return HOW_TIMED[self.method]

    @classmethod
    def of(cls, samples: Sequence[float], method: Method) -> Timing:
        """The summary of one round's times."""
        ordered = sorted(samples)
        lower, middle, upper = (quantile(ordered, part) for part in (0.25, 0.5, 0.75))
        return cls(middle, lower, upper, ordered[0], len(ordered), method)

    @classmethod
    def pooled(cls, rounds: Sequence[Timing]) -> Timing:
        """Several rounds of one config as one."""
        return cls(
            median=median(one.median for one in rounds),
            lower=min(one.lower for one in rounds),
            upper=max(one.upper for one in rounds),
            fastest=min(one.fastest for one in rounds),
            runs=sum(one.runs for one in rounds),
            method=rounds[0].method,
            rounds=sum(one.rounds for one in rounds),
        )


def quantile(ordered: Sequence[float], part: float) -> float:
    """The value below which `part` of the ordered values lie, interpolated between neighbours."""
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = math.ceil(place)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True)
class Outcome:
    """What is known of a config so far; each step of a sweep fills in more."""

    compiled: Compiled | None = None
    dropped: Dropped | None = None
    checked: str = ""
    """What its results were found equal to: "the reference", or "the first config";
    "" where nobody looked."""
    timing: Timing | None = None
    check_seconds: float = 0.0
    """Wall time of the run that was looked at."""
    unchecked: str = ""
    """Why its results could not be looked at, though that was wanted:
    the interpreter's limits, of operations or of time."""
    lasts: bool = field(default=True, compare=False)
    """Whether the config would come to the same the next time, as far as anybody can say."""


@dataclass(frozen=True, repr=False)
class Trial:
    """One config, and what became of it."""

    number: int
    """Its place in the sweep, from 0."""
    candidate: Candidate
    outcome: Outcome
    types: Mapping[str, Any] = field(default_factory=dict)
    """Parameter -> its type string, where that depends on the config:
    a tensor descriptor's has the block in it."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Parameter -> the value compiled in, where that depends on the config and is no part of it:
    what a heuristic computes."""

    @property
    def timing(self) -> Timing | None:
        """Its time; None where it was not measured."""
        return self.outcome.timing

    @property
    def is_dropped(self) -> bool:
        """Whether it is out of the race."""
        return self.outcome.dropped is not None

    def __str__(self) -> str:
        return f"{self.number}: {self.candidate}: {self._standing}"

    def __repr__(self) -> str:
        return f"Trial({self})"

    @property
    def _standing(self) -> str:
        dropped = self.outcome.dropped
        if dropped is not None:
            return f"{dropped.reason}: {dropped.line}"
        return "not timed" if self.timing is None else f"{self.timing.median * 1e3:.4g} us"


@dataclass(frozen=True)
class Machine:
    """Where a sweep was compiled and timed."""

    gpu: str
    """The name that the driver gives it, "NVIDIA H200"; "" where nothing was timed."""
    driver: str
    python: str
    torch: str
    triton: str
    kernellab: str

    @property
    def versions(self) -> str:
        """ "Triton 3.6.0, torch 2.11.0"."""
        return f"Triton {self.triton}, torch {self.torch}"

    def __str__(self) -> str:
        gpu = f"{self.gpu}, driver {self.driver}" if self.gpu else "no GPU"
        return f"{gpu}; {self.versions}"


@dataclass(frozen=True)
class Work:
    """What a launch moves and computes, whatever its config."""

    bytes: float | None
    """None where nobody said, and it could not be counted."""
    flops: float | None
    bytes_from: str
    """Where the number comes from: "given", or how the lab counted it."""
    flops_from: str
