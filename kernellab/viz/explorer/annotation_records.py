"""What evidence adds to a compilation's side of the explorer,
and what all who read evidence need.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import singledispatch

from kernellab.compiler.subjects import is_defined_alike
from kernellab.errors import ArgumentError
from kernellab.records import Compilation, Subject
from kernellab.viz.explorer.data import IrSide, MarginNote, MetricData


@dataclass(frozen=True)
class Annotations:
    """What evidence adds to one compilation's side of the explorer."""

    notes: tuple[MarginNote, ...] = ()
    metrics: tuple[MetricData, ...] = ()

    def on(self, side: IrSide) -> IrSide:
        """The side with these notes and metrics."""
        return dataclasses.replace(
            side, notes=(*self.notes, *side.notes), metrics=(*side.metrics, *self.metrics)
        )


@singledispatch
def annotations_of(given: object, compilation: Compilation) -> Annotations:
    """What evidence says of a compilation, by the class of the evidence.

    Raises:
        ArgumentError: it is no evidence, or is of another kernel, definition or compilation.
        ProfileError: a profile of other machine code.
    """
    del compilation
    raise ArgumentError(
        f"A {type(given).__name__} is no evidence that the explorer shows.",
        advice=(
            "It shows what kernellab.check, kernellab.accesses, kernellab.profile and "
            "kernellab.read_ncu give: Findings, Accesses, Profile, SampledCode."
        ),
    )


def file_of(compilation: Compilation) -> str:
    """The kernel's file; "" where the record has none."""
    return compilation.source_map.file if compilation.can_answer("source_map") else ""


def check_subject(
    what: str, kernel: str, subject: Subject | None, compilation: Compilation
) -> None:
    """Refuse what is of another kernel, or of another definition of it;
    `what` is of it, as in "The findings".

    Raises:
        ArgumentError: it is.
    """
    if kernel != compilation.kernel:
        raise ArgumentError(
            f"{what} are of the kernel {kernel!r}, and the compilation is of "
            f"{compilation.kernel!r}."
        )
    if subject is not None and not is_defined_alike(subject, compilation):
        raise ArgumentError(
            f"{what} are of another definition of {kernel!r} than the compilation: its "
            "lines are others.",
            advice="Run it again with the kernel as it is now, or compile the kernel again.",
            position=subject.definition,
        )


def metric_of(
    name: str, unit: str, stage: str, numbers: Iterable[tuple[int, float]], origin: str
) -> Iterator[MetricData]:
    """Pairs of a line and a number as a metric, the numbers of each line summed;
    nothing where all are 0.
    """
    total: Counter[int] = Counter()
    for line, number in numbers:
        if line and number:
            total[line] += number  # type: ignore[assignment]
    if total:
        yield MetricData(name, unit, stage, dict(total), origin)
