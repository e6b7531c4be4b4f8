"""Types and compiled-in values of a sweep's launches, as files keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.compiler.specialization.binding import BoundCall
from kernellab.records import Specialization


def type_strings(
    specialization: Specialization, names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the parameters `names`: the types of those that a launch passes ("*fp16:16"),
    and the values of those compiled in.
    """
    types: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for number, (name, kind) in enumerate(specialization.signature.items()):
        if name not in names:
            continue
        if (number,) in specialization.constants:
            constants[name] = specialization.constants[(number,)]
            continue
        promises = {
            str(word): value for word, value in specialization.attributes.get((number,), ())
        }
        divisor = promises.get("tt.divisibility")
        types[name] = f"{kind}:{divisor}" if divisor and isinstance(kind, str) else kind
    return types, constants


@dataclass(frozen=True)
class CallTypes:
    """Types and compiled-in values of a sweep's launches."""

    types: Mapping[str, Any]
    """Those of the first launch."""
    constants: Mapping[str, Any]
    own: Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]]
    """Number of a config -> those of its types and constants that are others."""


def types_of_calls(calls: Mapping[int, BoundCall], names: Sequence[str]) -> CallTypes:
    """Of the parameters `names`, in each launch of a sweep: see `type_strings`."""
    found = {n: type_strings(one.specialization, names) for n, one in calls.items()}
    types, constants = next(iter(found.values()), ({}, {}))
    own = {
        n: (_others(kinds, types), _others(values, constants))
        for n, (kinds, values) in found.items()
    }
    return CallTypes(types, constants, own)


def _others(these: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in these.items() if name not in first or first[name] != one}
