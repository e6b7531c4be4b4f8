"""Find the first wrong element, the values of the kernel's variables there, and its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy

from kernellab.checker.element_inputs import inputs_behind, inputs_by_argument
from kernellab.checker.records import Inputs
from kernellab.errors import KernelLabError
from kernellab.tracing.launches import WrongElement
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Step
from kernellab.workshop.answers import Difference
from kernellab.workshop.exercise import Case


def difference_of(trace: Trace, case: Case) -> Difference | None:
    """Return the first wrong element of a traced launch; None if the trace has no wrong element,
    as for a kernel whose results change from run to run.
    """
    wrong = trace.wrong
    if wrong is None:
        return None
    plain = Difference(
        str(case),
        wrong.argument,
        wrong.index,
        wrong.actual,
        wrong.expected,
        wrong.count,
        wrong.size,
    )
    if trace.first_shown is None:
        return plain
    step = trace[trace.first_shown]
    lane = _lane(step, wrong.argument, wrong.offset)
    return replace(
        plain,
        line=step.line,
        program=step.program,
        lane=lane,
        values=dict(_values(trace, step, lane)),
        inputs=_inputs(trace, step, wrong),
    )


def _inputs(trace: Trace, step: Step, wrong: WrongElement) -> tuple[Inputs, ...] | None:
    """Return what a wrong element was computed from; None if its program does not run alone."""
    if trace.launch is None:
        return None
    try:
        elements = inputs_behind(trace.launch, step.program, wrong.argument, wrong.offset)
    except KernelLabError:
        return None
    return inputs_by_argument(elements)


def _lane(step: Step, argument: str, offset: int) -> tuple[int, ...]:
    """Return the position in its tile of the value that is stored to an element."""
    for access in step.accesses:
        if access.kind == "load" or access.argument != argument or not access.has_elements:
            continue
        here = access.indices == offset
        if access.mask is not None:
            here = here & numpy.broadcast_to(access.mask, here.shape)
        if here.any():
            return tuple(int(place) for place in numpy.argwhere(here)[-1])
    return ()


def _values(trace: Trace, step: Step, lane: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values of tiles, rows, columns and scalars at a position in a tile."""
    state = trace.at(step)
    for name in state:
        try:
            value = numpy.asarray(state[name])
        except Exception:  # the value was too large to keep, or is not a number
            continue
        if value.dtype == object:  # pointers, descriptors
            continue
        if value.ndim == 0:
            yield name, value.item()
        elif value.ndim == len(lane) and _holds(value.shape, lane):
            yield name, value[tuple(0 if n == 1 else at for n, at in zip(value.shape, lane))].item()


def _holds(extents: Sequence[int], lane: Sequence[int]) -> bool:
    """Return whether a tile has this position, apart from its dimensions of size 1."""
    return all(size == 1 or place < size for size, place in zip(extents, lane))
