"""Convert a sweep's records to JSON and back, and look up what a file only names: functions among
its constants, and the configs' hooks.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import triton.language as tl

from kernellab import triton_api
from kernellab.common.saved_json import SavedData, value_of, value_to_json
from kernellab.common.saved_records import RecordReader
from kernellab.compiler.files.restore import target_from_json
from kernellab.errors import ArgumentError
from kernellab.records import Target
from kernellab.triton_api.functions import scope_of
from kernellab.tuning.results.records import Candidate, OccupancyOrNan, Outcome, Timing, Trial
from kernellab.tuning.sweep.spaces import autotuner_in, of_config


@dataclass(frozen=True, repr=False)
class Named:
    """A value that a file contains only as text."""

    text: str
    """Its repr."""
    function: str = ""
    """The name of a JIT function; "" for any other value."""

    def __repr__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.function or self.text


def found_again(value: Any, parameter: str, kernel: Any) -> Any:
    """Return the function that a `Named` names, and any other value unchanged.

    Raises:
        ArgumentError: there is no such function where the kernel is defined, or the value was not a
            function.
    """
    if not isinstance(value, Named):
        return value
    function = scope_of(kernel.fn).get(value.function)
    if isinstance(function, triton_api.JITFunction):
        return function
    wanted = f"the function {value.function!r}" if value.function else value.text
    raise ArgumentError(
        f"{parameter!r} of this sweep of {kernel.__name__!r} was {wanted}, which its "
        "file can only name",
        advice="The file that defines the kernel must define it too."
        if value.function
        else "A file can hold numbers, texts, Triton's types, and names of JIT functions.",
        position=triton_api.definition_of(kernel),
    )


def complete(candidate: Candidate, kernel: Any, plain: Any) -> Candidate:
    """Return the config with its functions and its hook.

    Args:
        candidate: a config of a sweep that was made here or read from a file.
        kernel: the kernel with its autotuner, whose configs have the hooks.
        plain: the JIT function inside.

    Raises:
        ArgumentError: a function or the hook does not exist.
    """
    constants = {
        name: found_again(value, name, plain) for name, value in candidate.constants.items()
    }
    candidate = replace(candidate, constants=constants)
    if candidate.pre_hook is not None or not candidate.hook_name:
        return candidate
    autotuner = autotuner_in(kernel)
    for config in autotuner.configs if autotuner is not None else ():
        if of_config(plain, config) == candidate and config.pre_hook is not None:
            return replace(candidate, pre_hook=config.pre_hook)
    raise ArgumentError(
        f"the config {candidate} has the hook {candidate.hook_name!r}, which a file can only name",
        advice="Pass the kernel with its @triton.autotune, whose configs have their hooks.",
        position=triton_api.definition_of(plain),
    )


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return plain data without what is not known."""
    data = {name: value for name, value in asdict(outcome).items() if value and name != "lasts"}
    if outcome.compiled is not None and math.isnan(outcome.compiled.occupancy):
        data["compiled"]["occupancy"] = None
    return data


def outcome_from_json(data: SavedData, others: Collection[str] = ()) -> Outcome:
    """Read what `outcome_to_json` wrote; `others` are names of other parts of the same object.

    Raises:
        Misfit: the data is not an outcome.
    """
    outcome: Outcome = READER.record(Outcome, data, others)
    return outcome


def _occupancy(data: SavedData) -> float:
    return math.nan if data.is_null() else data.number(least=0)


_SHORTEST = 1e-12
"""A time in milliseconds: a femtosecond. Rates of such times are numbers that a plot can draw."""

_ROUNDED = 1 - 1e-9
"""The tolerance of quartiles: they are interpolated, so equal ones may differ in the last digit."""


def _timing(data: SavedData) -> Timing:
    timing: Timing = READER.record(Timing, data)
    if timing.median < _SHORTEST:
        raise data["median"].misfit(f"a time, at least {_SHORTEST:g} ms")
    if not timing.lower * _ROUNDED <= timing.median <= timing.upper / _ROUNDED:
        raise data.misfit("times in order, the median between the quartiles")
    return timing


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """Return a config and its outcome as plain data."""
    where_any = {
        "pre_hook": trial.candidate.hook_name,
        "own_types": values_to_json(trial.types),
        "own_constants": values_to_json(trial.constants),
    }
    return {
        "number": trial.number,
        "constants": values_to_json(trial.candidate.constants),
        "options": values_to_json(trial.candidate.options),
        **{name: value for name, value in where_any.items() if value},
        **outcome_to_json(trial.outcome),
    }


def _trial(data: SavedData) -> Trial:
    constants, options = (values_from_json(data[name]) for name in ("constants", "options"))
    types, own = (
        values_from_json(data[name]) if data.has(name) else {}
        for name in ("own_types", "own_constants")
    )
    hook = data["pre_hook"].text() if data.has("pre_hook") else ""
    candidate = Candidate(constants, options, named_hook=hook)
    outcome = outcome_from_json(data, _OF_TRIALS)
    return Trial(data["number"].count(), candidate, outcome, types, own)


_OF_TRIALS = ("number", "constants", "options", "pre_hook", "own_types", "own_constants")


def values_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return constants and options by name as plain data.

    JSON's kinds and Triton's types and layouts can be read back; functions are kept by name, and
    anything else as text.
    """
    return {name: value_to_json(value, _own_to_json) for name, value in values.items()}


def values_from_json(data: SavedData) -> dict[str, Any]:
    """Read what `values_to_json` wrote, with a `Named` for what was kept only as text.

    Raises:
        Misfit: the data does not fit.
    """
    return {name: value_of(data[name], _own_from_json) for name in data.names()}


def _own_to_json(value: Any) -> Any:
    """Return a value that kernels take but JSON cannot represent, as plain data."""
    if isinstance(value, tl.constexpr):
        return value_to_json(value.value, _own_to_json)
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, Named):
        function = {"function": value.function} if value.function else {}
        return {"shown": value.text, **function}
    if isinstance(value, triton_api.JITFunction):
        return {"shown": repr(value), "function": value.fn.__name__}
    layout = triton_api.parts_of_layout(value)
    if layout is None:
        return {"shown": repr(value)}
    name, fields = layout
    return {"shown": repr(value), "layout": name, "fields": values_to_json(fields)}


def _own_from_json(data: SavedData) -> Any:
    if data.has("dtype"):
        return _dtype(data["dtype"])
    if data.has("layout"):
        # A layout that this Triton does not have is read as a Named.
        with contextlib.suppress(ValueError):
            layout = triton_api.layout_of_parts(
                data["layout"].text(), values_from_json(data["fields"])
            )
            hash(layout)
            return layout
    function = data["function"].text() if data.has("function") else ""
    return Named(data["shown"].text(), function)


def _dtype(data: SavedData) -> Any:
    try:
        return tl.dtype(data.text())
    except AssertionError:
        raise data.misfit("the name of a type of Triton's") from None


READER = RecordReader(
    {
        Timing: _timing,
        OccupancyOrNan: _occupancy,
        Trial: _trial,
        Target: target_from_json,
        Mapping[str, Any]: values_from_json,
    }
)
"""Reads the records of a sweep."""
