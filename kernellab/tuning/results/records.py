"""What a sweep learns about each config, as plain data that fits into JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, Literal

import triton.language as tl

from kernellab import triton_api
from kernellab.common.saved_records import Amount, Limits
from kernellab.records import Resources


def format_value(value: Any) -> str:
    """Return a function's name, or the text of a type or any other value."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, triton_api.JITFunction):
        return str(value.fn.__name__)
    return str(value)


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
"""Why a config was dropped. "fault": the kernel accessed memory outside its tensors, or preparing
or launching it raised an error. "lost": the machine failed, not the config (a process that was lost
repeatedly, a full disk, a missing tool of the compiler)."""

Method = Literal["events", "graph"]
"""How a time was measured. "events": `triton.testing.do_bench`, which empties the L2 cache before
each run. "graph": `do_bench_cudagraph`, runs back to back with a warm cache, for kernels that take
less time than their launch."""


HOW_TIMED: Mapping[Method, str] = {
    "events": "do_bench, cold L2",
    "graph": "CUDA graph, warm L2",
}
"""A method in a few words, for tables and plots."""


Duration = Annotated[float, Limits(0, 1e15)]
"""A time; the largest is longer than any measurement, in seconds too."""

Quantity = Annotated[float, Limits(0, 1e30)]
"""A number of bytes or operations of a launch."""

OccupancyOrNan = Annotated[float, "NaN is null in a file"]
"""A part of the warps that fit on a multiprocessor."""

INTERRUPTED = "interrupted"
"""How the note of a sweep begins that was stopped before its end."""


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
    """The hook's name in a saved file; the hook itself is looked up in the kernel's module."""

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
    """Why a config was dropped."""

    reason: Reason
    why: str
    """The full message, including the compiler's or the driver's."""

    @property
    def line(self) -> str:
        """The first line of `why`."""
        return self.why.strip().partition("\n")[0]


@dataclass(frozen=True)
class Compiled:
    """What the compiler reports for a config."""

    resources: Resources
    occupancy: OccupancyOrNan
    """Warps on a multiprocessor over the largest possible number, 0 to 1, as the model predicts;
    NaN if the limits are not known."""
    limited_by: str
    """What limits the occupancy: "registers", "shared memory", ..."""
    matrix: str
    """The most frequent matrix instruction, as PTX or AMD's assembly names it; "" if there is
    none."""
    seconds: Duration
    """Wall time of the compilation, while other configs compile on the same machine; near 0 if the
    config was in Triton's cache."""
    estimated: Amount | None = None
    """Microseconds of a launch, estimated and not measured (docs/estimates.md); None without an
    estimate: for types alone, tensor descriptors, and targets that are not calibrated."""


@dataclass(frozen=True)
class Timing:
    """Times of one config's runs on a GPU, in milliseconds."""

    median: Duration
    lower: Duration
    """A quarter of the runs took less."""
    upper: Duration
    """A quarter of the runs took more."""
    fastest: Duration
    runs: Annotated[int, Limits(0, 2**53)]
    method: Method
    rounds: Annotated[int, Limits(1, 2**53)] = 1
    """How many times the config was measured, with other configs in between; the quartiles are
    then the widest of all rounds."""

    @property
    def how(self) -> str:
        """The method in a few words."""
        return HOW_TIMED[self.method]

    @classmethod
    def of(cls, samples: Sequence[float], method: Method) -> Timing:
        """Summarize one round's times."""
        ordered = sorted(samples)
        lower, middle, upper = (quantile(ordered, part) for part in (0.25, 0.5, 0.75))
        return cls(middle, lower, upper, ordered[0], len(ordered), method)

    @classmethod
    def pooled(cls, rounds: Sequence[Timing]) -> Timing:
        """Combine several rounds of one config."""
        return cls(
            median=median(timing.median for timing in rounds),
            lower=min(timing.lower for timing in rounds),
            upper=max(timing.upper for timing in rounds),
            fastest=min(timing.fastest for timing in rounds),
            runs=sum(timing.runs for timing in rounds),
            method=rounds[0].method,
            rounds=sum(timing.rounds for timing in rounds),
        )


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which `part` of the ordered values lie, linearly interpolated."""
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = math.ceil(place)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True)
class Outcome:
    """What is known about a config so far; each step of a sweep fills in more."""

    compiled: Compiled | None = None
    dropped: Dropped | None = None
    checked: str = ""
    """What its results were equal to: "the reference" or "the first config"; "" if they were not
    compared."""
    timing: Timing | None = None
    check_seconds: Duration = 0.0
    """Wall time of the run whose results were compared."""
    unchecked: str = ""
    """Why its results could not be compared though that was requested: an operation that the
    interpreter does not support, or its time limit."""
    lasts: bool = field(default=True, compare=False)
    """Whether the next run of the config is expected to have the same outcome."""


@dataclass(frozen=True, repr=False)
class Trial:
    """One config and its outcome."""

    number: int
    """Its place in the sweep, from 0."""
    candidate: Candidate
    outcome: Outcome
    types: Mapping[str, Any] = field(default_factory=dict)
    """Parameter -> its type string if that depends on the config, as a tensor descriptor's type
    contains the block."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Parameter -> the value compiled in if that depends on the config without being part of it,
    such as a heuristic's result."""

    @property
    def timing(self) -> Timing | None:
        """Its time; None if it was not measured."""
        return self.outcome.timing

    @property
    def is_dropped(self) -> bool:
        """Whether it was dropped."""
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
    """The driver's name of the GPU, such as "NVIDIA H200"; "" if nothing was timed."""
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

    bytes: Quantity | None
    """None if it was not given and could not be counted."""
    flops: Quantity | None
    bytes_from: str
    """Where the number comes from: "given", or how KernelLab counted it."""
    flops_from: str
