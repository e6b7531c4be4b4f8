"""Readings of the clock as cycles of scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from kernellab.profiling.line_scopes.readings import Array, Readings


@dataclass(frozen=True)
class Spans:
    """What warps spent where, one after the other: arrays of one entry each."""

    program: Array
    """Its place among the programs that were read."""
    warp: Array
    """Its place among the warps that noted the clock."""
    scope: Array
    start: Array
    """Cycles since the first reading of the program."""
    cycles: Array


def spans_of(readings: Readings, marks: Sequence[int | None]) -> Spans:
    """From each reading to the next one of the same warp."""
    scope_of_mark = numpy.full(512, -1)
    for number, scope in enumerate(marks):
        scope_of_mark[number] = -1 if scope is None else scope
    clocks = readings.clocks
    cycles = (clocks[:, :, 1:] - clocks[:, :, :-1]).astype(numpy.int64)  # the clock may go round
    many = readings.marks.shape[2]
    there = numpy.arange(max(many - 1, 0)) < readings.kept[:, :, None] - 1
    scopes = scope_of_mark[readings.marks[:, :, :-1]]
    program, warp, at = numpy.nonzero(there & (scopes >= 0))
    if not len(program):
        return Spans(program, warp, at, at, at)
    first = clocks[:, :, 0]
    has = readings.kept > 0
    base = numpy.where(has, first, 0)
    reference = base[numpy.arange(len(base)), has.argmax(axis=1)]
    offsets = (clocks - reference[:, None, None]).astype(numpy.int32).astype(numpy.int64)
    least = numpy.where(has, offsets[:, :, 0], numpy.iinfo(numpy.int64).max).min(axis=1)
    starts = _grown(offsets[:, :, 0], cycles) - least[:, None, None]
    chosen = program, warp, at
    return Spans(program, warp, scopes[chosen], starts[chosen], cycles[chosen])


def _grown(first: Array, cycles: Array) -> Array:
    """When each span begins, where the clock goes round more than once too."""
    before = numpy.cumsum(cycles, axis=2) - cycles
    grown: Array = first[:, :, None] + before
    return grown


@dataclass(frozen=True)
class Sums:
    """Cycles and executions of each scope, by program and warp: arrays (program, warp, scope)."""

    cycles: Array
    executions: Array


def sums_of(spans: Spans, readings: Readings, scopes: int) -> Sums:
    """The spans of each scope, together."""
    shape = len(readings.programs), len(readings.warps), scopes
    cycles, executions = numpy.zeros(shape, numpy.int64), numpy.zeros(shape, numpy.int64)
    place = spans.program, spans.warp, spans.scope
    numpy.add.at(cycles, place, spans.cycles)
    numpy.add.at(executions, place, 1)
    return Sums(cycles, executions)
