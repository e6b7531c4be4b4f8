"""The cards of `equal` and `validate`: the verdict, and the first element that differs."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.common.text import counted
from kernellab.errors import SourcePosition, source_line
from kernellab.records.comparisons import Equality, UnequalElement, Validation
from kernellab.viz.kit.card import Card, Table, card_of


@card_of.register
def equality_card(equality: Equality) -> Card:
    """The verdict, what was compared, and the first element that differs."""
    rows = [(name, f"{size:,}") for name, size in equality.compared.items()]
    return Card(
        title=f"{equality.first} and {equality.second}",
        subtitle=equality.verdict,
        tables=(
            Table("First difference", ("", ""), list(_difference(equality.difference))),
            Table("Line", ("", ""), _lines([equality.position])),
            Table("Compared", ("tensor", "elements"), rows, numbers=(1,)),
        ),
        notes=(*_words(equality), *equality.notes),
    )


def _words(equality: Equality) -> Iterator[str]:
    seeds = counted(equality.seeds, "set") + " of random residues"
    if equality.verdict == "equal":
        yield f"Both compute the same for all inputs of these sizes, by {seeds}."
        yield "Rounding, overflow and the order of sums do not count."
    elif equality.verdict == "different":
        yield "They compute different functions of their inputs."
    elif equality.reason:
        yield f"{equality.reason}."
    if equality.uninterpreted:
        functions = ", ".join(f"`{name}`" for name in equality.uninterpreted)
        yield f"Nothing is known of {functions} but that equal arguments give equal results."


def _difference(difference: UnequalElement | None) -> Iterator[tuple[str, str]]:
    if difference is None:
        return
    yield "element", _element(difference.tensor, difference.index)
    yield "elements that differ", f"{difference.count:,} of {difference.size:,}"
    if difference.floats is not None:
        index, first, second = difference.floats
        yield f"{_element(difference.tensor, index)} with floats", f"{first:.6g}, {second:.6g}"


def _element(tensor: str, index: tuple[int, ...]) -> str:
    return f"{tensor}[{', '.join(map(str, index))}]"


def _lines(positions: list[SourcePosition | None]) -> list[tuple[str, str]]:
    return [
        (str(position.line), source_line(position.file, position.line).strip())
        for position in positions
        if position is not None
    ]


@card_of.register
def validation_card(validation: Validation) -> Card:
    """A row for each pass; of the first that changes a result, the element and the lines."""
    rows = [
        (each.label, each.verdict, f"{each.seconds * 1e3:.0f}", each.reason)
        for each in validation.passes
    ]
    return Card(
        title=validation.kernel,
        subtitle=f"{validation.target}: pass by pass",
        tables=(
            Table("Passes that change the module", ("pass", "results", "ms", ""), rows, (2,)),
            Table("First difference", ("", ""), list(_difference(validation.difference))),
            Table("Lines that the pass rewrote", ("", ""), _lines(list(validation.lines))),
        ),
        notes=(_summary(validation), *validation.notes),
    )


def _summary(validation: Validation) -> str:
    if validation.wrong is not None:
        return f"`{validation.wrong.label}` is the first pass after which a result changes."
    undecided = sum(each.verdict == "not decided" for each in validation.passes)
    if undecided:
        return f"No pass changes a result that is decided; {undecided} are not decided."
    return f"Every pass keeps the results of the module after {validation.compared_with}."
