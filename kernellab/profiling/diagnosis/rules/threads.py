"""Threads with little or nothing to do: tiles smaller than the program's threads, single elements,
a few bytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kernellab.errors import SourcePosition
from kernellab.ir.types import shape
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.parts import begins, load_latency
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule

_SOURCE = "the TTGIR's tiles, and num_warps"
_ENOUGH = 16
"""Bytes that a thread should have in flight at least."""
_FEW_TURNS = 4


def _largest(evidence: Evidence) -> int:
    """Elements of the largest tile."""
    sizes = (prod(shape(value.type)) for op in evidence.operations for value in op.results)
    return max(sizes, default=1)


@rule("idle-threads")
def idle_threads(evidence: Evidence) -> Iterator[CostFinding]:
    """No tile has as many elements as the program has threads."""
    largest = _largest(evidence)
    if largest <= 1 or largest * 2 > evidence.threads or evidence.dots:
        return
    share = largest / evidence.threads
    parts = evidence.parts
    wanted = max(largest // evidence.lanes, 1)
    # With fewer warps a program, more programs are on a multiprocessor at once.
    fits = 1 / share
    if evidence.compilation.can_answer("occupancy"):
        more = evidence.compilation.occupancy(warps=wanted).blocks
        fits = min(more / evidence.blocks, max(evidence.programs / evidence.slots, 1.0), 1 / share)
    cost = parts.saved_by(
        latency=parts.latency / max(fits, 1.0),
        issue=parts.issue * share,
        shared=parts.shared * share,
        requests=parts.requests * share,
    )
    place = next((one.position for one in evidence.accesses if one.shape), None)
    yield finding(
        "idle-threads",
        f"the largest tile has {largest:,} elements, and a program {evidence.threads:,} threads: "
        f"{1 - share:.0%} of them repeat what others do",
        cost,
        place,
        f"Compile with num_warps={wanted}, or give each program a larger tile.",
        {"elements": largest, "threads": evidence.threads, "num_warps": evidence.warps},
        _SOURCE,
    )


@rule("scalar-work")
def scalar_work(evidence: Evidence) -> Iterator[CostFinding]:
    """A loop that loads single elements: every thread does the same."""
    for loop in evidence.loops.values():
        loads = evidence.loads_in(loop)
        single = [one for one in loads if not one.shape and not one.by_engine]
        if not single or len(single) < len(loads) or loop.turns < _FEW_TURNS:
            continue
        if evidence.computes_tiles(loop):
            continue
        parts = evidence.parts
        turns = loop.times * loop.turns
        waited = evidence.waiting_in(loop)
        few = min(evidence.lanes, loop.turns)
        cost = parts.saved_by(
            latency=parts.latency - waited * (1 - 1 / few) * evidence.waves * evidence.peaks.cycle,
            issue=parts.issue / few,
            requests=parts.requests / few,
        )
        yield finding(
            "scalar-work",
            f"this loop takes one element an iteration, {round(turns):,} a program: its "
            f"{evidence.threads} threads all do the same",
            cost,
            single[0].position or loop.position,
            "Load a tile an iteration: pointer + tl.arange(0, BLOCK) with a mask, and combine it "
            "with tl.sum or the like.",
            {
                "iterations": loop.turns if loop.is_known else f"{loop.turns} assumed",
                "threads": evidence.threads,
            },
            _SOURCE,
        )


@rule("small-tile")
def small_tile(evidence: Evidence) -> Iterator[CostFinding]:
    """Each thread has only a few bytes in flight while the memory's latency passes."""
    if evidence.dots or _largest(evidence) < evidence.threads:
        return
    for place, each, turns, waited, what in _waits(evidence):
        if each >= _ENOUGH or each <= 0:
            continue
        parts = evidence.parts
        saved = waited * (1 - each / _ENOUGH)
        fewer = 0.0 if turns > 1 else begins(evidence) * (1 - each / _ENOUGH)
        fixed = parts.issue * 0.3 if turns > 1 else parts.issue * 0.2
        cost = parts.saved_by(
            latency=parts.latency - saved * evidence.waves * evidence.peaks.cycle - fewer,
            issue=parts.issue - fixed,
        )
        yield finding(
            "small-tile",
            f"{what} loads {each:.3g} bytes a thread before it waits for them",
            cost,
            place,
            "Take a larger tile, so that each thread has at least 16 bytes in flight: several "
            "times the BLOCK at the same num_warps.",
            {
                "bytes a thread": round(each, 2),
                "threads": evidence.threads,
                "iterations": turns,
                "programs": evidence.programs,
            },
            _SOURCE,
        )


def _waits(evidence: Evidence) -> Iterator[tuple[SourcePosition | None, float, float, float, str]]:
    """Where a program waits for loads: the line, bytes a thread, iterations, cycles, words."""
    for loop in evidence.loops.values():
        loads = [one for one in evidence.loads_in(loop) if one.shape]
        if loads and loop.turns >= _FEW_TURNS and not evidence.is_asynchronous(loop.op):
            each = sum(one.bytes for one in loads) / evidence.threads
            waited = evidence.waiting_in(loop)
            yield loads[0].position, each, loop.turns, waited, "each iteration of this loop"
    outside = [one for one in evidence.accesses if one.reads and one.loop is None and one.shape]
    in_loops = any(one.reads and one.loop is not None for one in evidence.accesses)
    if outside and not in_loops and evidence.waves > 1:
        each = sum(one.bytes for one in outside) / evidence.threads
        yield outside[0].position, each, 1, float(load_latency()), "a program"
