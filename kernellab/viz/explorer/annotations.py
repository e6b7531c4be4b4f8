"""What is known of a kernel besides its compilation, laid over the explorer:
findings of a check, costs of accesses, a profile.

Each kind of evidence becomes notes on lines of the kernel and numbers on lines of a stage; the
explorer carries both to its other texts. Evidence of another kernel, or of another definition
of it, is refused.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# Imported for what they register.
import kernellab.viz.explorer.access_annotations
import kernellab.viz.explorer.check_annotations
import kernellab.viz.explorer.profile_annotations
import kernellab.viz.explorer.sample_annotations  # noqa: F401
from kernellab.compiler.comparison import Comparison
from kernellab.errors import KernelLabError
from kernellab.records import Compilation
from kernellab.viz.explorer.annotation_records import Annotations, annotations_of
from kernellab.viz.explorer.data import IrView, MarginNote, MetricData
from kernellab.viz.kit.card import Card, Table


def annotations_from(compilation: Compilation, given: Sequence[Any]) -> Annotations:
    """What all evidence says of a compilation.

    Raises:
        ArgumentError: something is no evidence, or is of another kernel, definition or compilation.
        ProfileError: a profile of other machine code.
    """
    return _together([annotations_of(one, compilation) for one in given])


def annotations_by_side(
    comparison: Comparison, given: Sequence[Any]
) -> tuple[Annotations, Annotations]:
    """The same for two compilations: evidence stands on each side that it is of.

    Raises:
        ArgumentError, ProfileError: as `annotations_from`, where it is of neither.
    """
    sides: tuple[list[Annotations], list[Annotations]] = ([], [])
    for one in given:
        refusals = []
        for compilation, found in zip((comparison.left, comparison.right), sides):
            try:
                found.append(annotations_of(one, compilation))
            except KernelLabError as error:
                refusals.append(error)
        if len(refusals) == len(sides):
            raise refusals[0]
    return _together(sides[0]), _together(sides[1])


def annotated(view: IrView, annotations: Sequence[Annotations]) -> IrView:
    """The explorer's data with what evidence says, one `Annotations` for each side;
    its bars are shown first.
    """
    metrics = [metric.name for one in annotations for metric in one.metrics]
    sides = tuple(one.on(side) for side, one in zip(view.sides, annotations, strict=True))
    return dataclasses.replace(view, sides=sides, metric=metrics[0] if metrics else view.metric)


def annotation_card(compilation: Compilation, annotations: Annotations, side: str = "") -> Card:
    """The same for a still: notes in a table, and of each metric the kernel's lines
    with the largest numbers.
    """
    in_order = sorted(annotations.notes, key=lambda note: note.line)
    rows = [row for note in in_order for row in _rows(note)]
    notes = Table("", ("line", "", "what", "from"), rows)
    numbers = Table(
        "Lines with the largest numbers",
        ("bars", "line", "", "from"),
        [
            (metric.name, str(line), f"{number:,}", metric.origin)
            for metric in annotations.metrics
            for line, number in _largest(compilation, metric)
        ],
    )
    return Card("Findings and measurements", side, (notes, numbers))


def _rows(note: MarginNote) -> Iterator[tuple[str, str, str, str]]:
    """What is said, line by line, and what to try."""
    first, *more = note.words.splitlines() or [""]
    yield str(note.line or ""), note.severity, first, note.origin
    yield from (("", "", line, "") for line in more)
    yield from (("", "try", line, "") for line in note.advice.splitlines())


_LISTED_LINES = 3
"""So many lines of each metric stand in a still."""


def _largest(compilation: Compilation, metric: MetricData) -> list[tuple[int, float]]:
    """The kernel's lines that have most of a metric, what was inlined there counted in."""
    total: Counter[int] = Counter()
    if not compilation.can_answer("source_map"):
        return []
    source_map = compilation.source_map
    if metric.stage not in source_map.stages:
        return []
    for line, number in metric.values.items():
        for there in source_map.lines(metric.stage, "source", line):
            total[there] += number  # type: ignore[assignment]
    return list(total.most_common(_LISTED_LINES))


def can_annotate(thing: Any) -> bool:
    """Whether the explorer can show it beside a compilation."""
    return annotations_of.dispatch(type(thing)) is not annotations_of.dispatch(object)


def _together(found: Iterable[Annotations]) -> Annotations:
    """All notes and metrics; metrics of one name are told apart by a number."""
    found = list(found)
    taken: Counter[str] = Counter()
    metrics = []
    for metric in (metric for one in found for metric in one.metrics):
        taken[metric.name] += 1
        number = taken[metric.name]
        name = metric.name if number == 1 else f"{metric.name} ({number})"
        metrics.append(dataclasses.replace(metric, name=name))
    return Annotations(tuple(note for one in found for note in one.notes), tuple(metrics))
