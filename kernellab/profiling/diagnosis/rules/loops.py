"""Loops: waiting for loads, and exchanges between threads in every iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from kernellab.common.text import counted, joined_sizes
from kernellab.compiler.analyses.records import Conversion
from kernellab.compiler.modules import position_of
from kernellab.ir import flow, mlir, ttg
from kernellab.ir.flow import loops_around
from kernellab.ir.operations import DotLike, has
from kernellab.profiling.diagnosis import cost_model
from kernellab.profiling.diagnosis.cost_model import work_of
from kernellab.profiling.diagnosis.evidence import Evidence, Loop, Staged, with_stages
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rules import finding, rule
from kernellab.profiling.diagnosis.traffic import Traffic, empty_share

_SOURCE = "the loop's trip count, a load's latency, and the order of the binary's instructions"
_STAGES = 4
_FEW_TURNS = 3
_IN_L1 = 1 << 14
"""Bytes of L1 that every target has beside its shared memory. On an H200, a loop that loads 4 KB
of centers ran 5 percent slower with num_stages=3 or 4."""
_LEAST_ASYNC = 4
"""Bytes that an asynchronous copy of a thread takes at least (PTX ISA, cp.async)."""


@rule("loop-not-pipelined")
def not_pipelined(evidence: Evidence) -> Iterator[CostFinding]:
    """A loop that waits for its own load in each iteration."""
    for loop in evidence.loops.values():
        loads = [load for load in evidence.loads_in(loop) if load.shape and not _is_ahead(load)]
        if not loads or evidence.is_asynchronous(loop.op) or loop.turns < _FEW_TURNS:
            continue
        if all(evidence.is_fixed(load) or _stays_near(evidence, load) for load in loads):
            continue  # that they are in the loop at all is another finding; L1 has the others
        products = any(has(op, DotLike) for op in loop.op.walk())
        why, advice = _why_not(evidence, loop, loads, products)
        waits, most = evidence.waits_in(loop)
        if not why or waits < most / 2:
            continue  # the compiler unrolled it: several iterations wait together
        if evidence.estimate is None:  # there is no path through the binary
            cost = _saved_in_stages(evidence, loop)
        else:
            cost = evidence.costs.saved_ahead(waits, _STAGES - 1)
        yield finding(
            "loop-not-pipelined",
            f"each iteration of this loop waits for its own loads: {why}",
            cost,
            loop.position,
            advice,
            {
                "iterations": loop.iterations,
                "loads an iteration": len(loads),
                "num_stages": evidence.stages_of(loop),
                "waits of a program": round(waits),
            },
            _SOURCE,
        )


def _stays_near(evidence: Evidence, load: Traffic) -> bool:
    """Whether all programs load the same few elements, which L1 keeps between them."""
    counts = evidence.costs.counts
    return any(
        demand.name == load.argument and demand.shared(counts.programs) and demand.whole <= _IN_L1
        for demand in counts.arguments
    )


def _saved_in_stages(evidence: Evidence, loop: Loop) -> float:
    """Return the share of the time that a loop would save with `_STAGES`."""
    waiting = evidence.waiting_cycles - evidence.waiting_in(loop)
    waiting += evidence.waiting_in(loop, stages=_STAGES)
    return evidence.costs.saved_by(latency=waiting)


def _is_ahead(load: Traffic) -> bool:
    """Whether what is loaded is first used in a later iteration."""
    users = [use.operation for result in load.op.results for use in result.uses]
    return bool(users) and all(isinstance(user, mlir.YieldOp | ttg.LocalStoreOp) for user in users)


def _why_not(
    evidence: Evidence, loop: Loop, loads: list[Traffic], products: bool
) -> tuple[str, str]:
    if evidence.chained(loop.op) > 1:
        return (
            "one load's address is loaded by another",
            "Load the indices of the next iteration ahead, or all of them in front of the loop.",
        )
    if isinstance(loop.op, mlir.WhileOp):
        return (
            "a while loop is not pipelined",
            "Write it as a for loop over range(...) whose length is known when it begins.",
        )
    stages = evidence.stages_of(loop)
    if stages < 2 and (products or evidence.own_stages(loop) is not None):
        if (staged := with_stages(evidence, loop, 3)) is not None:
            return f"num_stages={stages} asks for it", staged.advice
    if evidence.compilation.target.arch == "75":
        return ("sm_75 has no asynchronous copies", "Load the next iteration's tiles by hand.")
    if any(isinstance(op, flow.LOOPS) for op in loop.op.walk() if op is not loop.op):
        return "", ""  # the inner loop is the one that counts
    narrow = [load for load in loads if load.width * load.element_bytes < _LEAST_ASYNC]
    if products and narrow:
        load = narrow[0]
        return (
            f"a thread takes {load.width * load.element_bytes} bytes of "
            f"{load.argument or 'a tile'} at once, and an asynchronous copy takes at least "
            f"{_LEAST_ASYNC}",
            "Let the loads be wider: pass pointers, sizes and strides that are multiples of 16, "
            "and masks that compare with such; or promise it with tl.multiple_of.",
        )
    requested = with_stages(evidence, loop, 3)
    if not products:
        return (
            "it has no tl.dot, and Triton pipelines other loops only on request",
            _advice(requested, "Let each iteration load more."),
        )
    return (
        "its loads do not go straight to the matmul, or change with what the loop computes",
        _advice(requested, "Load the operands in the loop itself, by addresses that only advance."),
    )


def _advice(requested: Staged | None, other: str) -> str:
    """Return the advice on stages that were tried, and another."""
    if requested is None:
        return other
    return f"{requested.advice} Or {other[0].lower()}{other[1:]}"


@rule("masked-blocks")
def masked_blocks(evidence: Evidence) -> Iterator[CostFinding]:
    """Iterations of which a mask leaves nothing."""
    outer = {around for op in evidence.loops for around in loops_around(op)}
    innermost = [loop for op, loop in evidence.loops.items() if op not in outer]
    for op in evidence.of_class(mlir.SelectOp):
        assert isinstance(op, mlir.SelectOp)
        loop = evidence.loop_of(op)
        if evidence.grid is None or loop is None or loop.turns < 2:
            continue
        empty = empty_share(op.condition, evidence.integers, evidence.grid)
        if empty < _EMPTY:
            continue
        cycles = {each: each.times * each.turns * evidence.body_cycles(each) for each in innermost}
        left = 1 - empty * cycles.get(loop, 0.0) / sum(cycles.values())
        yield finding(
            "masked-blocks",
            f"in {empty:.0%} of its iterations, the mask of this loop's tile leaves no element",
            evidence.costs.saved_leaving(left, *_IN_LOOPS),
            position_of(op),
            "Let the loop end (or begin) with the last block that has elements: for a causal mask, "
            "range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N).",
            {"iterations": loop.iterations, "empty": f"{empty:.0%}"},
            "the TTGIR: the mask of some programs and iterations",
        )
        return


_EMPTY = 0.2
_IN_LOOPS = ("cache", "requests", "sectors", "shared", "matrix")


@rule("too-few-stages")
def too_few_stages(evidence: Evidence) -> Iterator[CostFinding]:
    """A pipelined loop that waits all the same, with shared memory left for more stages."""
    if evidence.compilation.target.backend != "cuda":
        return
    for loop in evidence.loops.values():
        stages = evidence.stages_of(loop)
        if stages >= _STAGES or not evidence.is_asynchronous(loop.op) or loop.turns < 2 * _STAGES:
            continue
        staged = with_stages(evidence, loop, _STAGES)
        if staged is None or not _fits(evidence, staged.shared_bytes):
            continue
        cost = _saved_in_stages(evidence, loop)
        if cost <= 0:
            continue
        yield finding(
            "too-few-stages",
            f"with num_stages={stages} this loop has copies of "
            f"{counted(max(stages - 1, 1), 'iteration')} ahead in flight, and waits for them",
            cost,
            loop.position,
            f"{staged.advice} A program then takes {staged.shared_bytes:,} bytes of shared memory.",
            {
                "num_stages": stages,
                "iterations": loop.iterations,
                "cycles of an iteration": round(evidence.body_cycles(loop)),
                "shared bytes": evidence.resources.shared_bytes if evidence.resources else 0,
            },
            _SOURCE,
        )


def _fits(evidence: Evidence, shared_bytes: int) -> bool:
    """Whether as many programs fit with so much shared memory."""
    if evidence.occupancy is None:
        return False
    occupancy = evidence.compilation.occupancy(shared_bytes=shared_bytes)
    return occupancy.blocks >= min(evidence.blocks, evidence.per_sm)


@rule("loop-invariant-load")
def invariant_load(evidence: Evidence) -> Iterator[CostFinding]:
    """Loads in a loop that take the same each time."""
    for loop in evidence.loops.values():
        loads = evidence.loads_in(loop)
        same = [load for load in loads if evidence.is_fixed(load) and not load.by_engine]
        if not same or loop.turns < 2:
            continue
        left = 1 / loop.turns
        requests = sum(load.requests for load in same) / sum(load.requests for load in loads)
        waited = evidence.waiting_in(loop) * (1 - left) * requests
        fewer = {id(load): replace(load, times=load.times * left) for load in same}
        slots = sum(2 * load.requests * load.times * (1 - left) for load in same)
        after = work_of(
            evidence.with_accesses(
                [fewer.get(id(access), access) for access in evidence.accesses],
                evidence.issue_slots - slots,
            )
        )
        cost = evidence.costs.saved_by(
            cache=after.cache,
            dram=after.dram,
            requests=after.requests,
            issue=after.issue,
            latency=evidence.work.latency - waited,
        )
        names = ", ".join(dict.fromkeys(load.argument for load in same if load.argument))
        of_what = f" of {names}" if names else ""
        plural = "this load" if len(same) == 1 else f"{len(same)} loads"
        yield finding(
            "loop-invariant-load",
            f"{plural}{of_what} take{'s' if len(same) == 1 else ''} the same elements in each "
            "iteration",
            cost,
            same[0].position,
            "Load it once, in front of the loop: the compiler may not, since a store could change "
            "it in between.",
            {
                "argument": names,
                "iterations": loop.iterations,
                "bytes each time": round(sum(load.bytes for load in same)),
            },
            "the TTGIR: nothing that its address and mask are made of changes in the loop",
        )


_SOURCE_OF_EXCHANGES = "the layouts of the TTGIR, and the loop's trip count"


def _exchanges_in_loops(evidence: Evidence, *operations: str) -> Iterator[tuple[Conversion, float]]:
    """Yield the exchanges through shared memory in loops, and how often a program makes each."""
    for each in evidence.conversions:
        if each.operation in operations and each.means == "shared memory" and each.in_loop:
            yield each, evidence.times_of_conversion(each)


def _saved(evidence: Evidence, conversion: Conversion, times: float) -> float:
    """The share of the time that an exchange takes, so many times."""
    work, counts = evidence.work, evidence.counts
    wavefronts = 2 * conversion.shared_bytes / 128 * times
    slots = evidence.moves_of(conversion) * times
    if counts is not None and conversion.operation != "ttg.convert_layout":
        here = [each for each in counts.shared if each.position == conversion.position]
        line = [each for each in here if each.action in ("reduction", "scan")]
        programs = max(prod(counts.grid), 1)
        wavefronts = max(wavefronts, sum(each.wavefronts for each in line) / programs)
        slots = max(slots, sum(each.instructions for each in line) / programs)
    return evidence.costs.saved_by(
        shared=work.shared - wavefronts,
        moves=work.moves - slots,
        issue=work.issue - slots,
        latency=work.latency - cost_model.BARRIER * times,
    )


@rule("conversion-in-loop")
def conversion_in_loop(evidence: Evidence) -> Iterator[CostFinding]:
    """A tile that changes its layout through shared memory in each iteration."""
    for conversion, times in _exchanges_in_loops(evidence, "ttg.convert_layout"):
        sides = {
            "from": ", ".join(map(str, conversion.forced_by)),
            "for": ", ".join(map(str, conversion.wanted_by)),
        }
        yield finding(
            "conversion-in-loop",
            f"{conversion.name or 'a tile'} ({joined_sizes(conversion.shape)} of "
            f"{conversion.element}) changes its layout"
            f" through shared memory in the loop: {conversion.shared_bytes:,} bytes, "
            f"{round(times):,} times a program",
            _saved(evidence, conversion, times),
            conversion.position,
            "Convert once instead of each time: collect in the layout that the loop's loads have "
            "and convert behind the loop, load what does not change in front of it, or let both "
            "sides want one layout (the same order of axes, reductions along the last one).",
            {
                "bytes each time": conversion.shared_bytes,
                "times": round(times),
                **{name: words for name, words in sides.items() if words},
            },
            _SOURCE_OF_EXCHANGES,
        )


@rule("reduction-across-warps")
def reduction_across_warps(evidence: Evidence) -> Iterator[CostFinding]:
    """A reduction in a loop for which the warps have to wait for each other."""
    for conversion, times in _exchanges_in_loops(evidence, "tt.reduce", "tt.scan"):
        yield finding(
            "reduction-across-warps",
            f"this {'reduction' if conversion.operation == 'tt.reduce' else 'scan'} in the loop "
            f"goes across warps: they wait for each other {round(times):,} times a program",
            _saved(evidence, conversion, times),
            conversion.position,
            "Combine tiles elementwise in the loop (acc += x, tl.maximum(acc, x)) and reduce once "
            "behind it; or fewer num_warps, so that one warp holds what is reduced.",
            {
                "tile": joined_sizes(conversion.shape),
                "times": round(times),
                "num_warps": evidence.warps,
                "bytes each time": conversion.shared_bytes,
            },
            _SOURCE_OF_EXCHANGES,
        )


@rule("bank-conflict")
def bank_conflict(evidence: Evidence) -> Iterator[CostFinding]:
    """Lanes that want different words of one bank of shared memory."""
    counts = evidence.counts
    if counts is None:
        return
    work, programs = evidence.work, max(prod(counts.grid), 1)
    for access in counts.shared:
        if access.wavefronts < 1.25 * access.best_wavefronts or not access.conflicts:
            continue
        each = access.conflicts / programs
        cost = evidence.costs.saved_by(
            shared=work.shared - each, moves=work.moves, latency=work.latency - each
        )
        yield finding(
            "bank-conflict",
            f"{access.ways}-way bank conflict: this {access.title} takes "
            f"{access.wavefronts_per_instruction:.3g} wavefronts an instruction where "
            f"{access.best_wavefronts / max(access.instructions, 1):.3g} would do",
            cost,
            access.position,
            "Which lanes share a bank follows from the layouts on both sides: a swizzled or padded "
            "shared layout (Gluon), another tile or num_warps, the operation along the other axis. "
            "%tilelayout shows them.",
            {
                "ways": access.ways,
                "wavefronts": access.wavefronts,
                "would do": access.best_wavefronts,
                "conflicts": access.conflicts,
            },
            access.assumed or "counted from the compiled code's addresses",
        )
