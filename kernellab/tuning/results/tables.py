"""Sweeps as pandas DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernellab.tuning.results.records import HOW_TIMED, Timing, Trial, format_value

if TYPE_CHECKING:
    from kernellab.tuning.results.tuning import Tuning
    from kernellab.tuning.results.tunings import Tunings

MICROSECONDS = 1e3
"""In a millisecond."""


def tuning_table(tuning: Tuning) -> Any:
    """Return one row per config, in the order of the sweep.

    The table has columns of times only if something was timed.
    """
    from kernellab.common.whole_imports import pandas

    trials = tuning.trials
    names = list(dict.fromkeys(name for trial in trials for name in trial.candidate.values))
    rows = [_row(tuning, trial, names) for trial in trials]
    index = pandas.Index([trial.number for trial in trials], name="config")
    return _table(rows, index, _OF_EVERY_SWEEP)


ESTIMATED = "us, estimated"
_COMPILED = (
    "registers",
    "spilled bytes",
    "shared bytes",
    "occupancy",
    "limited by",
    "matrix instruction",
)
_OF_EVERY_SWEEP = (*_COMPILED, "same result as", "dropped", "why")
"""Columns that even a sweep has that was stopped before its first config."""

_OF_SWEEPS = (
    "us",
    "us, lower quartile",
    "us, upper quartile",
    "runs",
    "timed by",
    "GB/s",
    "TFLOP/s",
    ESTIMATED,
    *_OF_EVERY_SWEEP,
    "ties",
    "GPU",
)


def parameter_column(name: str, results: Sequence[str] = _OF_SWEEPS) -> str:
    """Return the column of a parameter; one named like a result's is "runs (parameter)"."""
    return f"{name} (parameter)" if name in results else name


_WHOLE = ("registers", "spilled bytes", "shared bytes", "runs", "ties")
_FRACTIONS = ("us", "us, lower quartile", "us, upper quartile", "GB/s", "TFLOP/s", "occupancy")


def _table(
    rows: Sequence[Mapping[str, Any]], index: Any = None, columns: Sequence[str] = ()
) -> Any:
    """Return a DataFrame that has only numbers, booleans, texts and nulls, so that pandas can write
    it in any format.
    """
    from kernellab.common.whole_imports import pandas

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
    row["why"] = f"not checked: {unchecked}" if (unchecked := trial.outcome.unchecked) else ""
    if dropped is not None:
        row["why"] = dropped.line
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
            (
                f"Configs were timed in two ways, {words}: do not compare times of one with those "
                "of the other."
            )
        ]
    if "graph" in methods:
        return [
            (
                f"Timed by {HOW_TIMED['graph']}: the kernel is so short that its runs are back to "
                "back, and find their tensors in the cache if they fit."
            )
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
