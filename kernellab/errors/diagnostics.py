"""Diagnostics: what is said of a kernel, a launch or this machine, as words and as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from kernellab.errors.positions import SourcePosition

Severity = Literal["error", "warning", "remark", "note"]
"""How bad it is: an "error" is a fault, or ends the work; a "warning" may be intended, or costs
time; a "remark" is worth knowing; a "note" states a fact, or belongs to another diagnostic."""


@dataclass(frozen=True)
class Change:
    """A change of one line of source, or of several that follow each other.

    Attributes:
        line: the number of the (first) line in its file.
        old, new: its text before and after, without indentation if it is one line.
    """

    line: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.new}"


def changes_between(before: str, after: str, first_line: int) -> tuple[Change, ...]:
    """Return the lines that differ between two sources of equally many lines; of others, one change
    of all lines between the first and the last that differ.

    Args:
        first_line: the number of the sources' first line in their file.
    """
    old, new = before.splitlines(), after.splitlines()
    if len(old) == len(new):
        return tuple(
            Change(first_line + number, was.strip(), other.strip())
            for number, (was, other) in enumerate(zip(old, new, strict=True))
            if was != other
        )
    start = next(n for n, (was, other) in enumerate(zip(old, new, strict=False)) if was != other)
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    parts = ("\n".join(lines[start : len(lines) - tail]) for lines in (old, new))
    return (Change(first_line + start, *parts),)


@dataclass(frozen=True)
class Diagnostic:
    """Something that is said of a kernel, of a launch or of this machine.

    The fields that a derived class adds are among the facts too.

    Attributes:
        severity: how bad it is.
        kind: what it is, a word that programs may compare: "out-of-bounds", "race", "mlir".
        what: what happens, with the values.
        position: the line that it speaks of; None where it speaks of no line.
        called_from: the calls that lead there where the line is a helper's, the innermost first.
        why: how it comes about, or what it means; "" where there is nothing to say.
        advice: what to try; "" where there is nothing to do.
        facts: what the words are made of, in types that JSON has.
        changes: the lines to change, if the advice is a change of the source.
        verified: whether that change was applied, compiled and checked: what the diagnostic says
            no longer happens, and nothing new does.
    """

    severity: Severity
    kind: str
    what: str
    position: SourcePosition | None = None
    called_from: tuple[SourcePosition, ...] = ()
    why: str = ""
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    changes: tuple[Change, ...] = ()
    verified: bool = False

    def __post_init__(self) -> None:
        added = fields(self)[len(fields(Diagnostic)) :]
        own = {
            field_.name: getattr(self, field_.name)
            for field_ in added
            if field_.metadata.get("fact", True)
        }
        object.__setattr__(self, "facts", json_value({**self.facts, **own}))

    @property
    def line(self) -> int | None:
        """The line's number in its file."""
        return None if self.position is None else self.position.line

    @property
    def headline(self) -> str:
        """The first words, before the place."""
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
        return {
            field_.name: json_value(getattr(self, field_.name)) for field_ in fields(Diagnostic)
        }

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
            changes=tuple(Change(**change) for change in data.get("changes", ())),
            verified=bool(data.get("verified", False)),
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
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, range):
        return [value[0], value[-1]] if value else []
    if isinstance(value, tuple | list):
        return [json_value(item) for item in value]
    if is_dataclass(value):
        return {item.name: json_value(getattr(value, item.name)) for item in fields(value)}
    item = getattr(value, "item", None)  # a scalar of NumPy's
    return json_value(item()) if item is not None and getattr(value, "size", 0) == 1 else str(value)


def indented(why: str) -> str:
    """Further lines of a text."""
    return "".join(f"\n  {line}" for line in why.splitlines())
