"""Sweeps as pandas DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernellab.tuning.results.records import HOW_TIMED, Timing, Trial
from kernellab.tuning.results.value_formatting import format_value

if TYPE_CHECKING:
    from kernellab.tuning.results.tuning import Tuning
    from kernellab.tuning.results.tunings import Tunings

MICROSECONDS = 1e3
"""In a millisecond."""


def tuning_table(tuning: Tuning) -> Any:
    """One row per config, in the order of the sweep;
    columns of times are there only where something was timed.
    """
    from kernellab.common.whole_imports import pandas

    names = list(dict.fromkeys(name for one in tuning.trials for name in one.candidate.values))
    rows = [_row(tuning, one, names) for one in tuning.trials]
    index = pandas.Index([one.number for one in tuning.trials], name="config")
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
"""Columns of a sweep that was stopped before its first config, too."""

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
    """The column of a parameter; one that is called as a column of results is told apart:
    "runs (parameter)".
    """
    return f"{name} (parameter)" if name in results else name


_WHOLE = ("registers", "spilled bytes", "shared bytes", "runs", "ties")
_FRACTIONS = ("us", "us, lower quartile", "us, upper quartile", "GB/s", "TFLOP/s", "occupancy")


def _table(
    rows: Sequence[Mapping[str, Any]], index: Any = None, columns: Sequence[str] = ()
) -> Any:
    """A DataFrame of numbers, booleans and texts alone, so that pandas writes it in any format;
    what is not known is null.
    """
    from kernellab.common.whole_imports import pandas

    made = {}
    for name in dict.fromkeys(name for row in rows or [dict.fromkeys(columns)] for name in row):
        values = [row.get(name) for row in rows]
        kind = "Int64" if name in _WHOLE else "float64" if name in _FRACTIONS else _kind(values)
        if kind == "string":
            values = [None if one is None else format_value(one) for one in values]
        made[name] = pandas.Series(values, dtype=kind, index=index)
    return pandas.DataFrame(made, index=index)


_LARGEST_WHOLE = 2**63


def _kind(values: Sequence[Any]) -> str:
    """Pandas' name for what a parameter's values are; those of several kinds are text."""
    known = [one for one in values if one is not None]
    kinds, all_known = {type(one) for one in known}, len(known) == len(values)
    if kinds == {bool}:
        return "bool" if all_known else "boolean"
    if kinds == {int} and all(-_LARGEST_WHOLE <= one < _LARGEST_WHOLE for one in known):
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
    """How the times were taken, in sentences: those of a warm cache are no times of tensors
    that come from memory.
    """
    methods = Counter(one.timing.method for one in tuning.trials if one.timing is not None)
    if len(methods) > 1:
        words = " and ".join(f"{count} by {HOW_TIMED[method]}" for method, count in methods.items())
        return [
            (
                f"Configs were timed in two ways, {words}: times of one are not to be compared "
                "with those of the other."
            )
        ]
    if "graph" in methods:
        return [
            (
                f"Timed by {HOW_TIMED['graph']}: the kernel is so short that runs are made in a "
                "row, and find their tensors in the cache where they fit."
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
    """GB/s and TFLOP/s at the median time, of those of the two that are known."""
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
    """One row per sweep: its key, its fastest config, the time,
    and how many configs cannot be told from it.
    """

    rows = []
    for one in tunings:
        row = _parameters(one.key)
        if one.is_timed:
            best = one.best
            row |= (
                _parameters(best.candidate.values)
                | _times(best.timing)
                | achieved(one, best.timing)
            )
            row["ties"] = len(one.ties) - 1
        row["GPU"] = one.machine.gpu
        rows.append(row)
    return _table(rows)
