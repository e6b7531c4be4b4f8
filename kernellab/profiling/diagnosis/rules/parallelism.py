"""Parallelism: programs, warps and threads with too little to do, and what bounds a launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from kernellab.common.text import counted, time_text
from kernellab.compiler.modules import position_of
from kernellab.errors import SourcePosition
from kernellab.ir import tt
from kernellab.ir.types import shape
from kernellab.profiling.diagnosis.cost_model import LOAD_LATENCY, divided
from kernellab.profiling.diagnosis.evidence import Evidence, Loop, with_stages
from kernellab.profiling.diagnosis.records import SEVERE, WORTH_SAYING, CostFinding
from kernellab.profiling.diagnosis.rules import finding, rule
from kernellab.profiling.estimates.counts import LaunchCounts
from kernellab.profiling.estimates.model import CALIBRATION

_OF_GRID = "the launch's grid, and a usual GPU of the target"
_WASTE = 0.1
"""Of the SMs' time, in the last round, that is worth saying."""


@rule("few-programs")
def few_programs(evidence: Evidence) -> Iterator[CostFinding]:
    """Fewer programs than multiprocessors: the others have nothing to do."""
    programs, sms = evidence.programs, evidence.gpu.multiprocessors
    if evidence.grid is None or programs >= sms:
        return
    costs = evidence.costs
    cost = costs.saved_with(divided(costs.counts, sms / programs))
    yield finding(
        "few-programs",
        f"{counted(programs, 'program')} on {sms} multiprocessors: "
        f"{1 - programs / sms:.0%} of the GPU has nothing to do",
        cost,
        _line(evidence),
        "Divide the work among more programs: smaller tiles; another axis of the grid; what one "
        "program loops over, split into parts whose results are combined afterwards (split-K).",
        {"programs": programs, "multiprocessors": sms, "grid": str(evidence.grid)},
        _OF_GRID,
        severe_from=SEVERE if costs.launch < costs.microseconds / 2 else 2.0,
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


@rule("uneven-programs")
def uneven_programs(evidence: Evidence) -> Iterator[CostFinding]:
    """Programs with more to do than the others, for which the launch waits at its end."""
    counts = evidence.costs.counts
    longer = max(counts.latest, counts.busiest)
    if longer < 1 + _WASTE:
        return
    loops = sorted(evidence.loops.values(), key=lambda loop: loop.times * loop.turns)
    yield finding(
        "uneven-programs",
        f"programs have different amounts of work, and the last one ends {longer:.2f} times as "
        "late as if all had the same",
        evidence.costs.saved_with(replace(counts, latest=1.0, busiest=1.0)),
        loops[-1].position if loops else _line(evidence),
        "Give each program the same: take rows or tiles in turns instead of bands that follow each "
        "other, join a long part with a short one, or start the longest programs first.",
        {"last program": round(longer, 2), "programs": evidence.programs},
        f"{counts.sampled} sampled programs",
    )


def _line(evidence: Evidence) -> SourcePosition | None:
    """The line where the kernel reads its program id."""
    positions = (position_of(op) for op in evidence.of_class(tt.GetProgramIdOp))
    return next((position for position in positions if position is not None), None)


_SOURCE = "the TTGIR's tiles, and num_warps"
_ENOUGH = 16
"""Bytes that a thread should have in flight at least."""
_FEW_TURNS = 4


def _largest(evidence: Evidence) -> int:
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
    # With fewer warps per program, more programs are on a multiprocessor at once.
    fits = evidence.blocks
    if evidence.compilation.can_answer("occupancy"):
        fits = max(evidence.compilation.occupancy(warps=wanted).blocks, fits)
    few = largest < evidence.lanes  # also of a single warp
    cost = (
        evidence.costs.saved_with(_filled(evidence.costs.counts, share))
        if few
        else evidence.costs.saved_by(
            warps=wanted,
            resident=fits,
            issue=work.issue * share,
            shared=work.shared * share,
            requests=work.requests * share,
        )
    )
    place = next((access.position for access in evidence.accesses if access.shape), None)
    yield finding(
        "idle-threads",
        f"the largest tile has {largest:,} elements, and a program {evidence.threads:,} threads: "
        f"{1 - share:.0%} of them repeat what others do",
        cost,
        place,
        f"Give each program a tile of at least {evidence.threads:,} elements, such as several rows."
        if few
        else f"Compile with num_warps={wanted}, or give each program a larger tile.",
        {"elements": largest, "threads": evidence.threads, "num_warps": evidence.warps},
        _SOURCE,
    )


def _filled(counts: LaunchCounts, share: float) -> LaunchCounts:
    """Return the counts if a program's instructions served all its threads, not this share."""
    fewer = divided(counts, share, path=False)
    same = ("instructions", "requests", "lines", "wavefronts", "conflicts")
    return replace(fewer, **{name: getattr(counts, name) for name in same})


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
        turns = loop.times * loop.turns
        part = evidence.waiting_in(loop) / evidence.waiting_cycles
        left = 1 - part * (1 - 1 / min(evidence.lanes, loop.turns))
        cost = evidence.costs.saved_leaving(left, "requests")
        yield finding(
            "scalar-work",
            f"this loop takes one element an iteration, {round(turns):,} a program: its "
            f"{evidence.threads} threads all do the same",
            cost,
            single[0].position or loop.position,
            "Load a tile an iteration: pointer + tl.arange(0, BLOCK) with a mask, and combine it "
            "with tl.sum or the like.",
            {"iterations": loop.iterations, "threads": evidence.threads},
            _SOURCE,
        )


@rule("small-tile")
def small_tile(evidence: Evidence) -> Iterator[CostFinding]:
    """Each thread has only a few bytes in flight while the memory's latency passes."""
    fixed = any(True for _ in evidence.of_class(tt.ReduceOp, tt.ScanOp))
    if evidence.dots or (fixed and _largest(evidence) < evidence.threads):
        return  # a tile that is reduced is as large as what it holds
    for place, each, turns, waited, what in _waits(evidence):
        if each >= _ENOUGH or each <= 0:
            continue
        work, costs = evidence.work, evidence.costs
        cost = (
            costs.saved_by(
                latency=work.latency - waited * (1 - each / _ENOUGH), issue=work.issue * 0.7
            )
            if turns > 1  # else larger still, if the starts of programs are what takes time
            else max(
                costs.saved_with(divided(costs.counts, each / _ENOUGH / by, path=False))
                for by in (1, 2, 4)
            )
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
        full = sum(prod(load.shape) * load.element_bytes for load in loads)
        if sum(load.bytes for load in loads) < full / 2:
            continue  # masks would switch off most of a larger tile too
        if loads and loop.turns >= _FEW_TURNS and not evidence.is_asynchronous(loop.op):
            results = (value.type for op in loop.op.walk() for value in op.results)
            most, largest = (
                max(map(prod, shapes))
                for shapes in ([load.shape for load in loads], map(shape, results))
            )
            if largest > 2 * most and 4 * largest >= _ENOUGH * evidence.threads:
                continue  # the load becomes a larger tile, with enough to do for each thread
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


_ENOUGH_OCCUPANCY = 0.5
"""Occupancy beyond which more warps seldom help."""
_FEW_STAGES = 3

_ADVICE = {
    "registers": "Let a thread hold less: a smaller tile, or more num_warps for this one.",
    "shared memory": "Take less shared memory: a smaller tile (its depth along K first), or fewer "
    "num_stages.",
    "warps": "Fewer num_warps, so that more programs fit.",
    "blocks": "Let each program do more: a larger tile with more num_warps.",
}


@rule("low-occupancy", "too-many-stages")
def low_occupancy(evidence: Evidence) -> Iterator[CostFinding]:
    """Registers or shared memory limit how many warps are resident, and the launch has more."""
    now, resources = evidence.occupancy, evidence.resources
    if now is None or resources is None or now.fraction >= _ENOUGH_OCCUPANCY or now.blocks < 1:
        return
    if evidence.per_sm <= now.blocks:
        return  # more would fit than there are
    limit = now.limited_by[0]
    waiting = [each for each in evidence.loops.values() if evidence.is_asynchronous(each.op)]
    deep = [each for each in waiting if evidence.stages_of(each) > _FEW_STAGES]
    staged = None
    if deep and limit == "shared memory":
        staged = with_stages(evidence, deep[0], _FEW_STAGES)
    if waiting and staged is None:
        yield from _few_warps(evidence, waiting, limit)
        return  # the stages of its loops hide what other programs would
    if staged is not None:
        blocks = evidence.compilation.occupancy(shared_bytes=staged.shared_bytes).blocks
        if blocks <= now.blocks:
            return
    else:
        blocks = min(int(now.blocks * _ENOUGH_OCCUPANCY / now.fraction), evidence.per_sm)
    cost, advice = evidence.costs.saved_by(resident=blocks), _ADVICE.get(limit, _ADVICE["blocks"])
    if limit == "registers" and cost >= SEVERE:
        more = 2 * evidence.warps
        tried = evidence.saved_with(num_warps=more)
        if tried is not None and tried < WORTH_SAYING:
            return  # warps that each hold less exchange what one warp had
        if tried is not None:
            cost, advice = tried, f"Compile with num_warps={more}: a thread then holds less."
    evident = {
        "occupancy": f"{now.fraction:.0%}",
        "warps on a multiprocessor": now.warps,
        "limited by": ", ".join(now.limited_by),
        "registers": resources.registers,
        "shared bytes": resources.shared_bytes,
    }
    if staged is not None:
        stages = evidence.stages_of(deep[0])
        yield finding(
            "too-many-stages",
            f"num_stages={stages} takes {resources.shared_bytes:,} bytes of shared "
            f"memory: {counted(now.blocks, 'program')} of {evidence.warps} "
            f"warps fit on a multiprocessor, with {_FEW_STAGES} stages {blocks}",
            cost,
            deep[0].position,
            f"{staged.advice} More copies in flight help only until the memory's latency is "
            "hidden, and other programs hide it too.",
            {"num_stages": stages, **evident},
            "the binary's resources and the occupancy calculator",
        )
        return
    yield finding(
        "low-occupancy",
        f"{now.warps} of {now.most_warps} warps are on a multiprocessor at once, limited by "
        f"{', '.join(now.limited_by)}: its units are idle while they wait",
        cost,
        None,
        advice,
        evident,
        "the binary's resources and the occupancy calculator",
    )


def _few_warps(evidence: Evidence, waiting: list[Loop], limit: str) -> Iterator[CostFinding]:
    """A loop with few warps because of shared memory, of which twice as many fit."""
    for loop in waiting:
        dots = [op for op in evidence.dots if evidence.loop_of(op) is loop]
        rows = max((shape(op.operands[0].type)[-2] for op in dots), default=0)
        if limit != "shared memory" or len(dots) < 2 or rows < 32 * evidence.warps:
            continue
        counts = evidence.costs.counts
        products = sum(evidence.dot_cycles(op) * evidence.times(op) for op in dots)
        path = tuple((cycles + min(products, cycles)) / 2 for cycles in counts.path)
        yield finding(
            "low-occupancy",
            f"a program's {evidence.warps} warps compute one after the other between the matmuls "
            "of this loop, and shared memory has no place for other programs",
            evidence.costs.saved_with(
                replace(counts, path=path, warps=2 * counts.warps, spilled=0.0)
            ),
            loop.position,
            f"Compile with num_warps={2 * evidence.warps}: it takes no more shared memory, and "
            "each thread holds half as much.",
            {"num_warps": evidence.warps, "rows of the tile": rows},
            "the TTGIR's matmuls, and the occupancy calculator",
        )


@rule("spills")
def spills(evidence: Evidence) -> Iterator[CostFinding]:
    """Values that went to local memory, by the lines that move most of them."""
    resources = evidence.resources
    if resources is None or not resources.spills:
        return
    cost = evidence.costs.saved_without_spills(evidence.spill_slots)
    worst = [place for place, _ in evidence.spilled_bytes.most_common(3) if place is not None]
    yield finding(
        "spills",
        f"each thread stores {resources.spills:,} bytes to local memory, because its "
        f"{resources.registers} registers do not suffice",
        cost,
        worst[0] if worst else None,
        "Give each thread less to hold: more num_warps for this tile, a smaller tile, or a loop "
        "over parts of it"
        + (
            f"; maxnreg={evidence.compilation.options['maxnreg']} asks for this few registers: "
            "leave it out."
            if evidence.compilation.options.get("maxnreg")
            else "."
        ),
        {
            "bytes spilled": resources.spills,
            "bytes loaded back": resources.spill_loads,
            "registers": resources.registers,
            "lines": ", ".join(str(place.line) for place in worst),
        },
        "the binary's resources; the lines of its accesses to local memory",
    )


_SOURCE_OF_BOUNDS = "the sum of what its accesses and its arithmetic take, at the target's rates"
_MOSTLY = 0.5

_BOUNDS = {
    "DRAM": ("memory-bound", "the bytes of DRAM"),
    "L2": ("memory-bound", "the bytes of the L2 cache"),
    "loads and stores (L1)": ("memory-bound", "the load and store units"),
    "instruction issue": ("compute-bound", "instructions outside of the tensor cores"),
    "integer and logic units": ("compute-bound", "integer and logic instructions"),
    "floating-point units": ("compute-bound", "floating-point instructions"),
    "special functions": ("compute-bound", "special functions and conversions"),
    "tensor cores": ("compute-bound", "matrix instructions"),
    "latency": ("latency-bound", "waiting for results, with too little else to do"),
    "starting programs": ("latency-bound", "starting programs"),
    "atomics": ("memory-bound", "atomic updates that wait for each other"),
    "stores of parts of sectors": ("memory-bound", "stores of parts of sectors"),
}


@rule("launch-bound")
def launch_bound(evidence: Evidence) -> Iterator[CostFinding]:
    """The launch itself takes longer than what it does."""
    costs = evidence.costs
    share = costs.launch / costs.microseconds
    if evidence.grid is None or share < _MOSTLY:
        return
    yield finding(
        "launch-bound",
        f"a launch takes about {time_text(costs.launch, 2)} whatever it does, and this one has "
        f"work for {time_text(costs.microseconds - costs.launch, 2)}",
        share,
        None,
        "Do more in one launch: fuse it with its neighbors, or launch once for a whole batch; "
        "a CUDA graph makes what stays cheaper.",
        {
            "launch us": round(costs.launch, 3),
            "work us": round(costs.microseconds - costs.launch, 3),
        },
        _SOURCE_OF_BOUNDS,
        severe_from=2.0,
    )


@rule("memory-bound", "compute-bound", "latency-bound", "shared-memory-bound")
def bound(evidence: Evidence) -> Iterator[CostFinding]:
    """Which resource takes longest."""
    costs = evidence.costs
    kind, words = _BOUNDS[costs.bound]
    if costs.bound == "loads and stores (L1)" and _is_shared_first(evidence):
        kind, words = "shared-memory-bound", "the wavefronts of shared memory"
    longest = costs.parts[costs.bound]
    if evidence.grid is None or longest < costs.launch:
        return
    roof = max(costs.parts["DRAM"], costs.parts["tensor cores"], costs.launch)
    yield finding(
        kind,
        f"the longest part is {words}: {time_text(longest)} of {time_text(costs.microseconds)}",
        0.0,
        None,
        "",
        {
            f"{costs.bound} us": round(longest, 3),
            "together us": round(costs.microseconds, 3),
            "DRAM and matrix units alone us": round(roof, 3),
        },
        f"{_SOURCE_OF_BOUNDS}: estimated, not measured",
    )


def _is_shared_first(evidence: Evidence) -> bool:
    """Whether shared memory takes more of the load and store units than global memory."""
    counts = evidence.costs.counts
    wavefronts = CALIBRATION.of_shared(counts.wavefronts, counts.conflicts)
    exchanged = CALIBRATION.lanes * counts.instructions.get("shared", 0.0)
    return bool(wavefronts + exchanged > CALIBRATION.of_lines(counts.lines, counts.sectors))
