"""Multiprocessors and threads with little or nothing to do: few programs, tiles smaller than the
program's threads, single elements, a few bytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kernellab.compiler.modules.structure import position_of
from kernellab.errors import SourcePosition
from kernellab.ir.types import shape
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import SEVERE, CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule
from kernellab.profiling.diagnosis.work import LOAD_LATENCY

_OF_GRID = "the launch's grid, and a usual GPU of the target"
_WASTE = 0.1
"""Of the SMs' time, in the last round, that is worth saying."""


@rule("few-programs")
def few_programs(evidence: Evidence) -> Iterator[CostFinding]:
    """Fewer programs than multiprocessors: the others have nothing to do."""
    programs, sms = evidence.programs, evidence.gpu.multiprocessors
    if evidence.grid is None or programs >= sms:
        return
    cost = evidence.costs.saved_dividing(sms / programs)
    yield finding(
        "few-programs",
        f"{programs:,} program{'' if programs == 1 else 's'} on {sms} multiprocessors: "
        f"{1 - programs / sms:.0%} of the GPU has nothing to do",
        cost,
        _line(evidence),
        "Divide the work among more programs: smaller tiles; another axis of the grid; what one "
        "program loops over, split into parts whose results are combined afterwards (split-K).",
        {"programs": programs, "multiprocessors": sms, "grid": str(evidence.grid)},
        _OF_GRID,
        severe_from=SEVERE if evidence.costs.launch < evidence.costs.microseconds / 2 else 2.0,
    )


@rule("tail-wave")
def tail_wave(evidence: Evidence) -> Iterator[CostFinding]:
    """The last round of programs leaves most multiprocessors idle."""
    programs, sms, work = evidence.programs, evidence.gpu.multiprocessors, evidence.work
    share = programs / sms / evidence.per_sm
    if evidence.grid is None or programs < sms or 1 - share < _WASTE:
        return
    in_waves = programs / evidence.slots / evidence.waves if programs > evidence.slots else 1.0
    cost = evidence.costs.saved_by(
        requests=work.requests * share,
        shared=work.shared * share,
        issue=work.issue * share,
        matrix=work.matrix * share,
        latency=work.latency * in_waves,
    )
    yield finding(
        "tail-wave",
        f"{programs:,} programs on {sms} multiprocessors: the busiest has {evidence.per_sm}, "
        f"and on average there are {programs / sms:.2f}",
        cost,
        _line(evidence),
        "Let the number of programs be a multiple of the multiprocessors, or much larger: other "
        "tile sizes, or a persistent kernel with one program a multiprocessor that loops over "
        "tiles.",
        {
            "programs": programs,
            "multiprocessors": sms,
            "at most on one": evidence.per_sm,
            "on average": round(programs / sms, 2),
        },
        _OF_GRID,
    )


def _line(evidence: Evidence) -> SourcePosition | None:
    """The line where the kernel reads its program id."""
    positions = (position_of(op) for op in evidence.of_kind("tt.get_program_id"))
    return next((position for position in positions if position is not None), None)


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
    work = evidence.work
    wanted = max(largest // evidence.lanes, 1)
    # With fewer warps a program, more programs are on a multiprocessor at once.
    fits = evidence.blocks
    if evidence.compilation.can_answer("occupancy"):
        fits = max(evidence.compilation.occupancy(warps=wanted).blocks, fits)
    cost = evidence.costs.saved_by(
        warps=wanted,
        resident=fits,
        issue=work.issue * share,
        shared=work.shared * share,
        requests=work.requests * share,
    )
    place = next((access.position for access in evidence.accesses if access.shape), None)
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
        single = [load for load in loads if not load.shape and not load.by_engine]
        if not single or len(single) < len(loads) or loop.turns < _FEW_TURNS:
            continue
        if evidence.computes_tiles(loop):
            continue
        work = evidence.work
        turns = loop.times * loop.turns
        waited = evidence.waiting_in(loop)
        few = min(evidence.lanes, loop.turns)
        cost = evidence.costs.saved_by(
            latency=work.latency - waited * (1 - 1 / few),
            issue=work.issue / few,
            requests=work.requests / few,
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
        work, costs = evidence.work, evidence.costs
        cost = (
            costs.saved_by(
                latency=work.latency - waited * (1 - each / _ENOUGH), issue=work.issue * 0.7
            )
            if turns > 1
            else costs.saved_dividing(each / _ENOUGH, path=False)
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
        loads = [load for load in evidence.loads_in(loop) if load.shape]
        if loads and loop.turns >= _FEW_TURNS and not evidence.is_asynchronous(loop.op):
            each = sum(load.bytes for load in loads) / evidence.threads
            waited = evidence.waiting_in(loop)
            yield loads[0].position, each, loop.turns, waited, "each iteration of this loop"
    outside = [
        access
        for access in evidence.accesses
        if access.reads and access.loop is None and access.shape
    ]
    in_loops = any(access.reads and access.loop is not None for access in evidence.accesses)
    if outside and not in_loops and evidence.waves > 1:
        each = sum(access.bytes for access in outside) / evidence.threads
        yield outside[0].position, each, 1, LOAD_LATENCY, "a program"
