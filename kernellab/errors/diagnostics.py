"""Diagnostics: what is said of a kernel, a launch or this machine, as words and as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from kernellab.errors.positions import SourcePosition

Severity = Literal["error", "warning", "remark", "note"]
"""How bad it is: an "error" is a fault, or stops what was asked for; a "warning" may be meant, or
costs; a "remark" is worth knowing; a "note" tells a fact, or goes with another diagnostic."""


@dataclass(frozen=True)
class Diagnostic:
    """Something that is said of a kernel, of a launch or of this machine.

    What a class that derives from it adds as fields stands among the facts too.

    Attributes:
        severity: how bad it is.
        kind: what it is, a word that programs may compare: "out-of-bounds", "race", "mlir".
        what: what happens, with the values.
        position: the line that it speaks of; None where it speaks of no line.
        called_from: the calls that lead there where the line is a helper's, the innermost first.
        why: how it comes about, or what it means; "" where there is nothing to say.
        advice: what to try; "" where there is nothing to do.
        facts: what the words are made of, in types that JSON has.
    """

    severity: Severity
    kind: str
    what: str
    position: SourcePosition | None = None
    called_from: tuple[SourcePosition, ...] = ()
    why: str = ""
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        added = fields(self)[len(fields(Diagnostic)) :]
        own = {one.name: getattr(self, one.name) for one in added}
        object.__setattr__(self, "facts", json_value({**self.facts, **own}))

    @property
    def line(self) -> int | None:
        """The line's number in its file."""
        return None if self.position is None else self.position.line

    @property
    def headline(self) -> str:
        """What stands first, before the place."""
        return self.what

    @property
    def circumstances(self) -> Mapping[str, str]:
        """What a text and a card say between the place and the advice: "in", "with" -> words."""
        return {}

    def __str__(self) -> str:
        """What happens and how it comes about; where, with the line's source; what to try."""
        lines = [self.headline + indented(self.why)]
        if self.position is not None:
            lines += [f"  at {self.position}", self.position.excerpt()]
        if self.called_from:
            lines.append(f"  called from {', '.join(map(str, self.called_from))}")
        lines += [f"  {lead} {words}" for lead, words in self.circumstances.items()]
        return "\n".join(line for line in (*lines, self.advice) if line)

    def to_json(self) -> dict[str, Any]:
        """All of it in types that JSON has, the same keys for every kind (docs/analyses.md)."""
        return {one.name: json_value(getattr(self, one.name)) for one in fields(Diagnostic)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Diagnostic:
        """The diagnostic that `to_json` wrote; of a class that derives from it the common part.

        Raises KeyError or TypeError where `data` is none.
        """
        place = data["position"]
        return Diagnostic(
            severity=data["severity"],
            kind=data["kind"],
            what=data["what"],
            position=None if place is None else SourcePosition(**place),
            called_from=tuple(SourcePosition(**call) for call in data["called_from"]),
            why=data["why"],
            advice=data["advice"],
            facts=data["facts"],
        )


def json_value(value: Any) -> Any:
    """A value in types that JSON has: of a data class its fields, of a range its first and its
    last number; NaN, infinities and what else JSON does not know in words.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): json_value(one) for name, one in value.items()}
    if isinstance(value, range):
        return [value[0], value[-1]] if value else []
    if isinstance(value, tuple | list):
        return [json_value(one) for one in value]
    if is_dataclass(value):
        return {one.name: json_value(getattr(value, one.name)) for one in fields(value)}
    item = getattr(value, "item", None)  # a scalar of NumPy's
    return json_value(item()) if item is not None and getattr(value, "size", 0) == 1 else str(value)


def indented(why: str) -> str:
    """Further lines of a text."""
    return "".join(f"\n  {line}" for line in why.splitlines())
