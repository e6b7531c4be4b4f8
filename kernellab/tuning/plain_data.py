"""A sweep's records as JSON, and back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import triton.language as tl

from kernellab.records import Resources
from kernellab.triton_api import JITFunction
from kernellab.tuning.named import Named
from kernellab.tuning.records import (
    Candidate,
    Compiled,
    Dropped,
    Machine,
    Outcome,
    Timing,
    Trial,
)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Plain data; what is not known is left out."""
    data: dict[str, Any] = {}
    if outcome.compiled is not None:
        compiled = dataclasses.asdict(outcome.compiled)
        compiled["resources"] = dataclasses.asdict(outcome.compiled.resources)
        compiled["occupancy"] = None if math.isnan(outcome.compiled.occupancy) else outcome.compiled.occupancy  # fmt: skip
        compiled["seconds"] = round(outcome.compiled.seconds, 4)
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


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    """What `outcome_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    compiled = None
    if "compiled" in data:
        facts = dict(data["compiled"])
        facts["resources"] = Resources(**facts["resources"])
        facts["occupancy"] = math.nan if facts["occupancy"] is None else facts["occupancy"]
        compiled = Compiled(**facts)
    return Outcome(
        compiled=compiled,
        dropped=Dropped(**data["dropped"]) if "dropped" in data else None,
        checked=data.get("checked", ""),
        unchecked=data.get("unchecked", ""),
        check_seconds=data.get("check_seconds", 0.0),
        timing=Timing(**data["timing"]) if "timing" in data else None,
    )


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


def trial_from_json(data: Mapping[str, Any]) -> Trial:
    """What `trial_to_json` wrote; raises as `outcome_from_json`."""
    constants, options = (values_from_json(data[name]) for name in ("constants", "options"))
    types, own = (values_from_json(data.get(name, {})) for name in ("own_types", "own_constants"))
    candidate = Candidate(constants, options, named_hook=str(data.get("pre_hook", "")))
    return Trial(int(data["number"]), candidate, outcome_from_json(data), types, own)


def machine_to_json(machine: Machine) -> dict[str, str]:
    """Names and versions."""
    return dataclasses.asdict(machine)


def machine_from_json(data: Mapping[str, Any]) -> Machine:
    """What `machine_to_json` wrote; raises as `outcome_from_json`."""
    return Machine(**{field.name: str(data[field.name]) for field in dataclasses.fields(Machine)})


def values_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Constants and options by name: JSON's own kinds as they are, types of Triton's and functions by name, anything else as text."""
    return {name: _value_to_json(value) for name, value in values.items()}


def values_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """What `values_to_json` wrote; of what was kept as text only, a `Named`.

    Raises:
        ValueError: it did not.
    """
    return {name: _value_from_json(value) for name, value in data.items()}


def _value_to_json(value: Any) -> Any:
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return {"tuple": [_value_to_json(item) for item in value]}
    if isinstance(value, Named):
        return _without_empty({"shown": value.text, "function": value.function})
    if isinstance(value, JITFunction):
        return {"shown": repr(value), "function": value.fn.__name__}
    return {"shown": repr(value)}


def _without_empty(data: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in data.items() if value}


def _value_from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "shown" in value:
        return Named(str(value["shown"]), str(value.get("function", "")))
    ((kind, inside),) = value.items()
    if kind == "float":
        return float(inside)
    if kind == "dtype":
        return tl.dtype(inside)
    if kind == "tuple":
        return tuple(_value_from_json(item) for item in inside)
    raise ValueError(f"values of the kind {kind!r} are not known")
