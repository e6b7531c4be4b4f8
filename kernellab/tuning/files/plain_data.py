"""A sweep's records as JSON, and back."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, get_args

import triton.language as tl

from kernellab import triton_api
from kernellab.common.formatting import shown
from kernellab.common.saved_json import Misfit, SavedData, value_of, value_to_json
from kernellab.records import Resources
from kernellab.tuning.files.named import Named
from kernellab.tuning.results.records import (
    Candidate,
    Compiled,
    Dropped,
    Machine,
    Method,
    Outcome,
    Reason,
    Timing,
    Trial,
    Work,
)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Plain data; what is not known is left out."""
    data: dict[str, Any] = {}
    if outcome.compiled is not None:
        compiled = dataclasses.asdict(outcome.compiled)
        compiled["resources"] = dataclasses.asdict(outcome.compiled.resources)
        compiled["occupancy"] = (
            None if math.isnan(outcome.compiled.occupancy) else outcome.compiled.occupancy
        )
        compiled["seconds"] = round(outcome.compiled.seconds, 4)
        if compiled["estimated"] is None:
            del compiled["estimated"]
        data["compiled"] = compiled
    if outcome.dropped is not None:
        data["dropped"] = dataclasses.asdict(outcome.dropped)
    if outcome.checked:
        data["checked"] = outcome.checked
        data["check_seconds"] = round(outcome.check_seconds, 4)
    if outcome.unchecked:
        data["unchecked"] = outcome.unchecked
    if outcome.timing is not None:
        timing = dataclasses.asdict(outcome.timing)
        data["timing"] = {
            name: round(value, 7) if isinstance(value, float) else value
            for name, value in timing.items()
        }
    return data


def outcome_from_json(data: SavedData) -> Outcome:
    """What `outcome_to_json` wrote.

    Raises:
        Misfit: it is none.
    """
    seconds = data["check_seconds"].number(0, _LONGEST) if data.has("check_seconds") else 0.0
    return Outcome(
        compiled=_compiled_from_json(data["compiled"]) if data.has("compiled") else None,
        dropped=_dropped_from_json(data["dropped"]) if data.has("dropped") else None,
        checked=_text_or_nothing(data, "checked"),
        unchecked=_text_or_nothing(data, "unchecked"),
        check_seconds=seconds,
        timing=timing_from_json(data["timing"]) if data.has("timing") else None,
    )


def _text_or_nothing(data: SavedData, name: str) -> str:
    return data[name].text() if data.has(name) else ""


def _compiled_from_json(data: SavedData) -> Compiled:
    occupancy = data["occupancy"]
    return Compiled(
        resources=resources_from_json(data["resources"]),
        occupancy=math.nan if occupancy.is_null() else occupancy.number(least=0),
        limited_by=data["limited_by"].text(),
        matrix=data["matrix"].text(),
        seconds=data["seconds"].number(0, _LONGEST),
        estimated=data["estimated"].number(least=0) if data.has("estimated") else None,
    )


_RESOURCES = {
    field.name: field.name in ("registers", "spills", "shared_bytes", "stack_bytes")
    for field in dataclasses.fields(Resources)
}
"""Name -> whether every file has it; some came later."""

_METHODS = get_args(Method)


def resources_from_json(data: SavedData) -> Resources:
    """What a program takes; fields that came later may lack."""
    names = set(data.names())
    if unknown := sorted(names - _RESOURCES.keys()):
        raise Misfit(f"resources has the unknown field {shown(unknown[0])}")
    there = [name for name, required in _RESOURCES.items() if required or name in names]
    return Resources(**data.integers(there, 0, 2**48))


def _dropped_from_json(data: SavedData) -> Dropped:
    return Dropped(data["reason"].one_of(*get_args(Reason)), data["why"].text())


_SHORTEST, _LONGEST = 1e-12, 1e15
"""Of a time, in milliseconds: a femtosecond, and longer than anybody measures.
Rates of such times are numbers that a plot can draw and JSON can write.
"""

_MOST_WORK = 1e30
"""Bytes or operations of a launch."""

_ROUNDED = 1 - 1e-9
"""Quartiles are interpolated: equal ones may differ in their last digit."""


_TIMES = ("median", "lower", "upper", "fastest")


def timing_from_json(data: SavedData) -> Timing:
    """Times of runs, which are more than nothing; raises Misfit where they are none."""
    median, lower, upper, fastest = data.numbers(_TIMES, 0, _LONGEST).values()
    if median < _SHORTEST:
        raise data["median"].misfit(f"a time, at least {_SHORTEST:g} ms")
    method: Method = data["method"].one_of(*_METHODS)
    rounds = data["rounds"].integer(1, 2**53) if data.has("rounds") else 1
    if not lower * _ROUNDED <= median <= upper / _ROUNDED:
        raise data.misfit("times in order, the median between the quartiles")
    return Timing(median, lower, upper, fastest, data["runs"].integer(0, 2**53), method, rounds)


def work_from_json(data: SavedData) -> Work:
    """What a launch moves and computes; raises Misfit where it is none."""
    moved, computed = (
        None if data[name].is_null() else data[name].number(0, _MOST_WORK)
        for name in ("bytes", "flops")
    )
    return Work(moved, computed, data["bytes_from"].text(), data["flops_from"].text())


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """A config and its outcome."""
    return {
        "number": trial.number,
        "constants": values_to_json(trial.candidate.constants),
        "options": values_to_json(trial.candidate.options),
        **_where_any("pre_hook", trial.candidate.hook_name),
        **_where_any("own_types", values_to_json(trial.types)),
        **_where_any("own_constants", values_to_json(trial.constants)),
        **outcome_to_json(trial.outcome),
    }


def _where_any(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}


def trial_from_json(data: SavedData) -> Trial:
    """What `trial_to_json` wrote; raises as `outcome_from_json`."""
    constants, options = (values_from_json(data[name]) for name in ("constants", "options"))
    types, own = (
        values_from_json(data[name]) if data.has(name) else {}
        for name in ("own_types", "own_constants")
    )
    candidate = Candidate(constants, options, named_hook=_text_or_nothing(data, "pre_hook"))
    return Trial(data["number"].count(), candidate, outcome_from_json(data), types, own)


def machine_to_json(machine: Machine) -> dict[str, str]:
    """Names and versions."""
    return dataclasses.asdict(machine)


def machine_from_json(data: SavedData) -> Machine:
    """What `machine_to_json` wrote; raises as `outcome_from_json`."""
    return Machine(**{one.name: data[one.name].text() for one in dataclasses.fields(Machine)})


def values_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Constants and options by name: JSON's own kinds, types and layouts of Triton's;
    functions by name, anything else as text.
    """
    return {name: value_to_json(value, _own_to_json) for name, value in values.items()}


def values_from_json(data: SavedData) -> dict[str, Any]:
    """What `values_to_json` wrote; of what was kept as text only, a `Named`.

    Raises:
        Misfit: it did not.
    """
    return {name: value_of(data[name], _own_from_json) for name in data.names()}


def _own_to_json(value: Any) -> Any:
    """Values that a kernel takes and JSON has no kind for."""
    if isinstance(value, tl.constexpr):
        return value_to_json(value.value, _own_to_json)
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, Named):
        return {"shown": value.text, **_where_any("function", value.function)}
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
        # One that this Triton does not have is still good to read.
        with contextlib.suppress(ValueError):
            found = triton_api.layout_of_parts(data["layout"].text(), _fields(data["fields"]))
            hash(found)
            return found
    function = data["function"].text() if data.has("function") else ""
    return Named(data["shown"].text(), function)


def _dtype(data: SavedData) -> Any:
    try:
        return tl.dtype(data.text())
    except AssertionError:
        raise data.misfit("the name of a type of Triton's") from None


def _fields(data: SavedData) -> dict[str, Any]:
    return {name: value_of(data[name], _own_from_json) for name in data.names()}
