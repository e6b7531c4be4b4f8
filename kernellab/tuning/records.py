"""The outcome of each config as plain data, the ranking, and the kernel's source."""

from __future__ import annotations

import ast
import math
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy
import triton.language as tl

from kernellab import errors, triton_api
from kernellab.common.saved_files import Amount, Limits, Line
from kernellab.common.text import shown, time_text
from kernellab.compiler.records import Resources

if TYPE_CHECKING:
    from kernellab.tuning.tuning import Tuning
    from kernellab.tuning.tunings import Tunings


@dataclass(frozen=True)
class KernelSource:
    """Where a kernel was defined when it was swept, and its text."""

    kernel: str
    module: str
    """The module to import it from; "" for a notebook's cell, a script, or a nested function."""
    file: str
    """The path relative to its module's import root, "a notebook's cell", or ""."""
    line: Line
    """The line of its `def`."""
    text: str
    """The constants that it reads, its helpers, and the kernel."""

    @property
    def place(self) -> str:
        """ "benchmarks/kernels.py, line 21"."""
        return f"{self.file or 'no file'}, line {self.line}"


_CELL = "a notebook's cell"


def source_of(kernel: Any, values: Iterable[Any] = ()) -> KernelSource | None:
    """Return a JIT function's source, with functions among `values`, its constants; or None."""
    functions = dict.fromkeys([kernel, *triton_api.functions_within(values)])
    try:
        text = _text_of(functions)
        position = triton_api.definition_of(kernel)
    except (OSError, SyntaxError, TypeError):  # A function without text.
        return None
    module, name = str(kernel.fn.__module__), str(kernel.fn.__name__)
    importable = kernel.fn.__qualname__ == name and module != "__main__"
    file = _relative(position.file, module)
    return KernelSource(
        name, module if importable and file not in ("", _CELL) else "", file, position.line, text
    )


def _text_of(functions: Iterable[Any]) -> str:
    constants: dict[str, str] = {}
    sources: dict[str, None] = {}
    for function in functions:
        made = triton_api.made_of(function)
        for name, _, _, value in made.constants:
            constants[name] = f"{name} = {_written(value)}"
        sources |= {textwrap.dedent(source).rstrip(): None for _, source in made.functions}
    head = ["\n".join(constants[name] for name in sorted(constants))] if constants else []
    return "\n\n\n".join([*head, *reversed(sources)]) + "\n"


def _written(value: Any) -> str:
    text = shown(value)
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return repr(type(value).__name__)
    return text


def _relative(file: str, module: str) -> str:
    """Return a path relative to where its module is imported from, which other machines share."""
    if errors.label_file(file) is not None:
        return _CELL
    if not os.path.exists(file):
        return ""
    path = Path(file)
    depth = 1 if module == "__main__" else len(module.split("."))
    return "/".join(path.parts[-depth - (path.stem == "__init__") :])


def how_to_open(kernel: str, source: KernelSource | None, then: str = "") -> str:
    """Return advice on how to open the configs of a sweep from a file.

    Args:
        source: the source in the file, if any.
        then: what the user calls next, such as ".show()".
    """
    place = "" if source is None else f", which is defined at {source.place},"
    # A reader may copy the advice: of the file, it contains nothing but names.
    name = kernel if kernel.isidentifier() else "kernel"
    module = "" if source is None else source.module
    is_named = all(part.isidentifier() for part in module.split("."))
    if not is_named:
        return f"Pass the kernel{place.rstrip(',')}: tuning.with_kernel({name}){then}."
    imported = f"from {module} import {name}; tuning.with_kernel({name}){then}"
    return f"Import the kernel{place} and pass it: {imported}."


def differs(left: KernelSource | None, right: KernelSource | None) -> bool:
    """Whether both are known and differ by more than comments, docstrings and places."""
    if left is None or right is None or left.text == right.text:
        return False
    try:
        return _statements(left.text) != _statements(right.text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # A damaged file.
        return True


def _statements(text: str) -> set[str]:
    """Return the statements of a text without comments and docstrings."""
    statements = set()
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(body=[first, _, *_]) if ast.get_docstring(node) is not None:
                node.body.remove(first)
        statements.add(ast.unparse(node))
    return statements


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


HOW_TIMED: Mapping[Method, str] = {"events": "do_bench, cold L2", "graph": "CUDA graph, warm L2"}
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
    """The hook's name in a saved file; the hook itself is that of the autotuner's equal config."""

    @property
    def hook_name(self) -> str:
        return self.named_hook or getattr(
            self.pre_hook, "__name__", "" if self.pre_hook is None else "pre_hook"
        )

    @property
    def values(self) -> dict[str, Any]:
        return {**self.constants, **self.options}

    @property
    def written(self) -> str:
        """The values as text, the same for equal configs, also those of files."""
        return repr(sorted((name, repr(value)) for name, value in self.values.items()))

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
    """The compiler's numbers for a config."""

    resources: Resources
    occupancy: OccupancyOrNan
    """Predicted warps on an SM over the most possible, 0 to 1; NaN without known limits."""
    limited_by: str
    """The resource that limits the occupancy: "registers", "shared memory", ..."""
    matrix: str
    """The most frequent matrix instruction in PTX or AMD's assembly; "" if there is none."""
    seconds: Duration
    """Wall time of compiling beside other configs; near 0 if it was in Triton's cache."""
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
    """How many rounds measured the config; the quartiles are the widest of all rounds."""

    @property
    def how(self) -> str:
        """The method in a few words."""
        return HOW_TIMED[self.method]

    @classmethod
    def of(cls, samples: Sequence[float], method: Method) -> Timing:
        """Summarize one round's times."""
        lower, middle, upper = map(float, numpy.quantile(samples, (0.25, 0.5, 0.75)))
        return cls(middle, lower, upper, min(samples), len(samples), method)

    @classmethod
    def pooled(cls, rounds: Sequence[Timing]) -> Timing:
        return cls(
            median=median(timing.median for timing in rounds),
            lower=min(timing.lower for timing in rounds),
            upper=max(timing.upper for timing in rounds),
            fastest=min(timing.fastest for timing in rounds),
            runs=sum(timing.runs for timing in rounds),
            method=rounds[0].method,
            rounds=sum(timing.rounds for timing in rounds),
        )


@dataclass(frozen=True)
class Outcome:
    """The facts about a config so far; each step of a sweep adds more."""

    compiled: Compiled | None = None
    dropped: Dropped | None = None
    checked: str = ""
    """Which results its own were equal to: "the reference", "the first config", or ""."""
    timing: Timing | None = None
    check_seconds: Duration = 0.0
    """Wall time of the run whose results were compared."""
    unchecked: str = ""
    """Why requested comparisons failed: an unsupported operation, or the time limit."""
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
    """Parameter -> its type string if a config decides it, as a tensor descriptor's."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Parameter -> a compiled constant that depends on the config, as a heuristic's result."""

    @property
    def timing(self) -> Timing | None:
        """Its time; None if it was not measured."""
        return self.outcome.timing

    @property
    def is_dropped(self) -> bool:
        return self.outcome.dropped is not None

    def __str__(self) -> str:
        status = "not timed"
        if (dropped := self.outcome.dropped) is not None:
            status = f"{dropped.reason}: {dropped.line}"
        elif self.timing is not None:
            status = time_text(self.timing.median * 1e3, 4)
        return f"{self.number}: {self.candidate}: {status}"

    def __repr__(self) -> str:
        return f"Trial({self})"


@dataclass(frozen=True)
class SweepMachine:
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
    """The bytes and operations of a launch, whatever its config."""

    bytes: Quantity | None
    """None if it was not given and could not be counted."""
    flops: Quantity | None
    bytes_from: str
    """Where the number comes from: "given", or how KernelLab counted it."""
    flops_from: str


FINALIST_MARGIN = 1.05
"""Configs up to this times the fastest median are measured again: a round may be off."""
MOST_FINALISTS = 4


def timed(trials: Sequence[Trial]) -> list[Trial]:
    """Return the timed configs that were kept, by median, then by lower quartile."""
    times = [
        ((trial.timing.median, trial.timing.lower, trial.timing.upper, trial.number), trial)
        for trial in trials
        if trial.timing is not None and not trial.is_dropped
    ]
    return [trial for _, trial in sorted(times, key=lambda item: item[0])]


def by_compiler(trials: Sequence[Trial]) -> list[Trial]:
    """Return the configs that compile by estimated time, then spills, occupancy, registers."""

    def costs(trial: Trial) -> tuple[float, ...]:
        compiled = trial.outcome.compiled
        if compiled is None:
            return (math.inf, math.inf, 0.0, math.inf, trial.number)
        estimated = math.inf if compiled.estimated is None else compiled.estimated
        occupancy = compiled.occupancy if math.isfinite(compiled.occupancy) else 0.0
        resources = compiled.resources
        return estimated, resources.spills, -occupancy, resources.registers, trial.number

    return sorted((trial for trial in trials if not trial.is_dropped), key=costs)


def tied_with_best(trials: Sequence[Trial]) -> list[Trial]:
    """Return the fastest config and those whose quartiles overlap with its own."""
    ranked = timed(trials)
    if not ranked:
        return []
    best = ranked[0].timing
    assert best is not None
    return [trial for trial in ranked if trial.timing and trial.timing.lower <= best.upper]


def finalists(trials: Sequence[Trial]) -> list[Trial]:
    """Return the configs to measure again: the two fastest, and those in FINALIST_MARGIN."""
    ranked = timed(trials)
    if not ranked or ranked[0].timing is None:
        return []
    limit = ranked[0].timing.median * FINALIST_MARGIN
    close = [trial for trial in ranked if trial.timing and trial.timing.median <= limit]
    return ranked[: min(max(len(close), 2), MOST_FINALISTS)] if len(ranked) > 1 else []


MICROSECONDS = 1e3
"""In a millisecond."""


def tuning_table(tuning: Tuning) -> Any:
    """Return one row per config, in the sweep's order, with times if something was timed."""
    from kernellab.common.pandas_import import pandas

    trials = tuning.trials
    names = list(dict.fromkeys(name for trial in trials for name in trial.candidate.values))
    rows = [_row(tuning, trial, names) for trial in trials]
    index = pandas.Index([trial.number for trial in trials], name="config")
    return _table(rows, index, _OF_EVERY_SWEEP)


ESTIMATED = "us, estimated"
_COMPILED = (
    "registers", "spilled bytes", "shared bytes", "occupancy", "limited by", "matrix instruction",
)  # fmt: skip
_OF_EVERY_SWEEP = (*_COMPILED, "same result as", "dropped", "why")
"""Columns that even a sweep has that was stopped before its first config."""

_OF_SWEEPS = (
    "us", "us, lower quartile", "us, upper quartile", "runs", "timed by", "GB/s", "TFLOP/s",
    ESTIMATED, *_OF_EVERY_SWEEP, "ties", "GPU",
)  # fmt: skip


def parameter_column(name: str, results: Sequence[str] = _OF_SWEEPS) -> str:
    """Return the column of a parameter; one named like a result's is "runs (parameter)"."""
    return f"{name} (parameter)" if name in results else name


_WHOLE = ("registers", "spilled bytes", "shared bytes", "runs", "ties")
_FRACTIONS = ("us", "us, lower quartile", "us, upper quartile", "GB/s", "TFLOP/s", "occupancy")


def _table(
    rows: Sequence[Mapping[str, Any]], index: Any = None, columns: Sequence[str] = ()
) -> Any:
    """Return a DataFrame of numbers, booleans, texts and nulls, for any format of pandas."""
    from kernellab.common.pandas_import import pandas

    made = {}
    for name in dict.fromkeys(name for row in rows or [dict.fromkeys(columns)] for name in row):
        values = [row.get(name) for row in rows]
        kind = "Int64" if name in _WHOLE else "float64" if name in _FRACTIONS else _kind(values)
        if kind == "string":
            values = [None if value is None else format_value(value) for value in values]
        made[name] = pandas.Series(values, dtype=kind, index=index)
    return pandas.DataFrame(made, index=index)


_LARGEST_WHOLE = 2**63


def _kind(values: Sequence[Any]) -> str:
    """Return pandas' dtype for a parameter's values; values of several kinds become text."""
    known = [value for value in values if value is not None]
    kinds, all_known = {type(value) for value in known}, len(known) == len(values)
    if kinds == {bool}:
        return "bool" if all_known else "boolean"
    if kinds == {int} and all(-_LARGEST_WHOLE <= value < _LARGEST_WHOLE for value in known):
        return "int64" if all_known else "Int64"
    return "float64" if float in kinds and kinds <= {int, float} else "string"


def _row(tuning: Tuning, trial: Trial, names: list[str]) -> dict[str, Any]:
    values = trial.candidate.values
    row: dict[str, Any] = {parameter_column(name): values.get(name) for name in names}
    if tuning.is_timed:
        row |= _times(trial.timing) | achieved(tuning, trial.timing)
    row |= _compiled(trial)
    dropped = trial.outcome.dropped
    row["same result as"] = trial.outcome.checked
    row["dropped"] = "" if dropped is None else dropped.reason
    unchecked = trial.outcome.unchecked and f"not checked: {trial.outcome.unchecked}"
    row["why"] = unchecked if dropped is None else dropped.line
    return row


def _parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    return {parameter_column(name): value for name, value in values.items()}


def how_timed(tuning: Tuning) -> list[str]:
    """Return sentences on how the times were measured, which say if the cache was warm."""
    timings = (trial.timing for trial in tuning.trials)
    methods = Counter(timing.method for timing in timings if timing is not None)
    if len(methods) > 1:
        words = " and ".join(f"{count} by {HOW_TIMED[method]}" for method, count in methods.items())
        return [
            f"Configs were timed in two ways, {words}: do not compare times of one with those of "
            "the other."
        ]
    if "graph" in methods:
        return [
            f"Timed by {HOW_TIMED['graph']}: the kernel is so short that its runs are back to "
            "back, and find their tensors in the cache if they fit."
        ]
    return [f"Timed by {HOW_TIMED['events']}."] if methods else []


def _times(timing: Timing | None) -> dict[str, Any]:
    names = {"us": "median", "us, lower quartile": "lower", "us, upper quartile": "upper"}
    row: dict[str, Any] = {
        name: None if timing is None else getattr(timing, field) * MICROSECONDS
        for name, field in names.items()
    }
    row["runs"] = None if timing is None else timing.runs
    row["timed by"] = "" if timing is None else timing.how
    return row


def achieved(tuning: Tuning, timing: Timing | None) -> dict[str, float | None]:
    """Return GB/s and TFLOP/s at the median time, as far as bytes and operations are known."""
    work = tuning.work
    rates: dict[str, float | None] = {}
    for name, amount, unit in (("GB/s", work.bytes, 1e6), ("TFLOP/s", work.flops, 1e9)):
        if amount:
            rates[name] = None if timing is None else amount / timing.median / unit
    return rates


def _compiled(trial: Trial) -> dict[str, Any]:
    compiled = trial.outcome.compiled
    if compiled is None:
        return dict.fromkeys(_COMPILED)
    resources = compiled.resources
    estimated = {} if compiled.estimated is None else {ESTIMATED: compiled.estimated}
    return {
        **estimated,
        "registers": resources.registers,
        "spilled bytes": resources.spills,
        "shared bytes": resources.shared_bytes,
        "occupancy": compiled.occupancy,
        "limited by": compiled.limited_by,
        "matrix instruction": compiled.matrix,
    }


def best_table(tunings: Tunings) -> Any:
    """Return one row per sweep: its key, its fastest config and time, and the number of ties."""
    rows = []
    for tuning in tunings:
        row = _parameters(tuning.key)
        if tuning.is_timed:
            best = tuning.best
            row |= _parameters(best.candidate.values)
            row |= _times(best.timing) | achieved(tuning, best.timing)
            row["ties"] = len(tuning.ties) - 1
        row["GPU"] = tuning.machine.gpu
        rows.append(row)
    return _table(rows)
