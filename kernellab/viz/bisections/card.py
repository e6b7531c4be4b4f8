"""The card of a bisection: the pass that changes a result, and what it changes."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.common.text import counted
from kernellab.errors import SourcePosition, source_line
from kernellab.records.comparisons import Bisection, Difference
from kernellab.viz.kit.card import Card, Table, card_of

_MOST_LINES = 12
"""Lines shown; the record has them all."""


@card_of.register
def bisection_card(bisection: Bisection) -> Card:
    """The pass, the lines that it rewrote, the arguments that differ,
    the modules that could not run.
    """
    lines = [_line(position) for position in bisection.lines[:_MOST_LINES]]
    if len(bisection.lines) > _MOST_LINES:
        lines.append((f"and {len(bisection.lines) - _MOST_LINES} more", ""))
    columns = ("argument", "elements off", "farthest", "expected", "found")
    return Card(
        title=bisection.kernel,
        subtitle=f"{bisection.target}: pass by pass",
        tables=(
            Table(
                "Arguments that differ",
                columns,
                [_row(difference) for difference in bisection.differences],
            ),
            Table("Lines that the pass rewrote", ("", ""), lines),
            Table("Not run", ("after", "because"), list(bisection.not_run.items())),
        ),
        notes=(*_notes(bisection), *bisection.notes),
    )


def _notes(bisection: Bisection) -> Iterator[str]:
    compared = f"{counted(bisection.modules, 'module')} ran, from {bisection.compared_with} on"
    if bisection.label is None:
        yield f"No pass changes a result: {compared}."
        return
    yield f"{bisection.label} is the first pass after which a result changes: {compared}."
    if bisection.failure:
        yield f"After it the kernel fails: {bisection.failure}"
    yield from dict.fromkeys(line.notice for line in bisection.lines if line.notice)


def _row(difference: Difference) -> tuple[str, str, str, str, str]:
    place = f"{difference.argument}[{', '.join(map(str, difference.index))}]"
    off = f"{difference.elements:,} of {difference.size:,}"
    return (
        difference.argument,
        off,
        f"{place}, by {difference.largest:.3g}",
        str(difference.expected),
        str(difference.actual),
    )


def _line(position: SourcePosition) -> tuple[str, str]:
    return str(position.line), source_line(position.file, position.line).strip()
