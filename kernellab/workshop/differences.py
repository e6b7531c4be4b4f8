"""The first element that is not what it should be, what a kernel's variables held there, and what
it was computed from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy

from kernellab.checker.inputs_behind import inputs_behind
from kernellab.errors import KernelLabError
from kernellab.tracing.expected import WrongElement
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Step
from kernellab.workshop.answers import Difference, Inputs
from kernellab.workshop.exercise import Case


def difference_of(trace: Trace, case: Case) -> Difference | None:
    """Of a traced launch whose result is wrong; None where the trace has nothing of it, as of a
    kernel whose results change from run to run.
    """
    wrong = trace.wrong
    if wrong is None:
        return None
    plain = Difference(
        str(case), wrong.argument, wrong.index, wrong.found, wrong.expected, wrong.count, wrong.size
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
    """What a wrong element was computed from; None where its program does not run alone."""
    if trace.asked is None:
        return None
    try:
        found = inputs_behind(trace.asked, step.program, wrong.argument, wrong.offset)
    except KernelLabError:
        return None
    by_argument: dict[str, list[tuple[tuple[int, ...], Any]]] = {}
    for one in found:
        by_argument.setdefault(one.argument, []).append((one.index, one.value))
    return tuple(Inputs.of(*one) for one in by_argument.items())


def _lane(step: Step, argument: str, offset: int) -> tuple[int, ...]:
    """The position in its tile of the lane that writes an element."""
    for one in step.accesses:
        if one.kind == "load" or one.argument != argument or not one.has_elements:
            continue
        here = one.indices == offset
        if one.mask is not None:
            here = here & numpy.broadcast_to(one.mask, here.shape)
        if here.any():
            return tuple(int(place) for place in numpy.argwhere(here)[-1])
    return ()


def _values(trace: Trace, step: Step, lane: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """What the variables hold at a lane: those of its shape, parts of it, and single numbers."""
    state = trace.at(step)
    for name in state:
        try:
            value = numpy.asarray(state[name])
        except Exception:  # too large to be kept, or no number
            continue
        if value.dtype == object:  # pointers, descriptors
            continue
        if value.ndim == 0:
            yield name, value.item()
        elif value.ndim == len(lane) and _holds(value.shape, lane):
            yield name, value[tuple(0 if n == 1 else at for n, at in zip(value.shape, lane))].item()


def _holds(extents: Sequence[int], lane: Sequence[int]) -> bool:
    """Whether a tile has a lane, or a part of it along dimensions of one element."""
    return all(size == 1 or place < size for size, place in zip(extents, lane))
