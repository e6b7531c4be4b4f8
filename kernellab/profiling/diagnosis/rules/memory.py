"""Global memory: accesses that move more than they use, and elements that many programs access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.common.text import joined_sizes
from kernellab.compiler.modules import integer, pointers_of
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import (
    GlobalAccess,
    SharedWrite,
    argument_name,
    global_effect,
    has,
    trait_of,
)
from kernellab.ir.types import shape
from kernellab.profiling.accesses.records import Fault, spread
from kernellab.profiling.accesses.requests import LINE, SECTOR
from kernellab.profiling.diagnosis import cost_model
from kernellab.profiling.diagnosis.cost_model import divided, work_of
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import WORTH_SAYING, CostFinding
from kernellab.profiling.diagnosis.rules import finding, rule
from kernellab.profiling.diagnosis.traffic import (
    Traffic,
    are_made_alike,
    axes_of,
    backward,
    is_loaded,
)
from kernellab.profiling.estimates.counts import LaunchCounts
from kernellab.profiling.estimates.model import CALIBRATION, refetched

_WASTE = 1.25
_WIDEST = 16


@rule("strided-access", "scattered-access")
def spread_access(evidence: Evidence) -> Iterator[CostFinding]:
    """Neighboring lanes whose elements are far apart; accesses of tiles alike are one finding."""
    alike: dict[object, list[Traffic]] = {}
    for access in filter(_is_spread, evidence.accesses):
        alike.setdefault((access.shape, access.dimension), []).append(access)
    for bad in alike.values():
        access = bad[0]
        lines = sorted({each.position.line for each in bad if each.position is not None})
        cost = _cost(evidence, bad, lambda access: _gathered(evidence, access))
        each = max(access.requests, 1)
        words = (
            f"{access.sectors / each:.3g} sectors per request where "
            f"{access.best_sectors / each:.3g} would do"
        )
        kind_of, what, advice = _spread_words(access, words)
        yield finding(
            kind_of,
            what,
            cost,
            access.position,
            advice,
            {
                "argument": access.argument,
                "sectors per request": round(access.sectors / each, 2),
                "would do": round(access.best_sectors / each, 2),
                "executions by a program": round(access.times),
                **({"lines": ", ".join(map(str, lines))} if len(lines) > 1 else {}),
                "steps in elements": ", ".join(
                    "unknown" if step is None else str(step) for step in access.steps or ()
                ),
            },
            access.source,
        )


def _is_spread(access: Traffic) -> bool:
    return (
        not access.by_engine
        and access.dimension is not None
        and (not access.is_dense or _is_thin(access))
        and access.sectors - access.repeated_sectors > _WASTE * access.best_sectors
    )


def _is_thin(access: Traffic) -> bool:
    """Whether a store writes parts of sectors, since its tile has no more along memory."""
    row = access.shape[access.dimension or 0] * access.element_bytes
    return global_effect(access.op) == "store" and row < SECTOR


def _gathered(evidence: Evidence, access: Traffic) -> Traffic:
    """The same, if neighboring lanes took neighboring elements, each up to 16 bytes at once."""
    held = evidence.registers(pointers_of(access.op))
    requests = access.requests / max(1, min(_WIDEST // access.element_bytes, held))
    return replace(
        access,
        requests=requests,
        sectors=access.best_sectors,
        different=min(access.different, access.best_sectors),
        lines=max(access.best_sectors * SECTOR / LINE, requests),
    )


def _spread_words(access: Traffic, cost: str) -> Fault:
    of_what = f"{access.action} of {access.argument}" if access.argument else access.action
    along, size = access.dimension or 0, access.element_bytes
    if access.is_dense:
        row = access.shape[along] * size
        return (
            "strided-access",
            f"each row of this {of_what} has {row} bytes, a part of a sector of {SECTOR}: {cost}",
            f"Take a tile with more elements along dimension {along}: {SECTOR} bytes at least, "
            f"better {LINE}.",
        )
    steps = [None if step is None else step * size for step in access.steps or ()]
    is_fixed = bool(steps) and (steps[along] is not None or not is_loaded(pointers_of(access.op)))
    return spread(of_what, along, tuple(steps), size, cost, is_fixed)


@rule("narrow-access")
def narrow_access(evidence: Evidence) -> Iterator[CostFinding]:
    """Neighbors in memory that a thread takes one by one."""
    for several in _by_line(evidence):
        bad = [access for access in several if _possible(evidence, access) > access.width]
        if not bad:
            continue
        access = max(bad, key=lambda each: each.requests * each.times)
        possible = _possible(evidence, access)
        why, advice = _why_narrow(evidence, access, possible)
        of_what = f"{access.action} of {access.argument}" if access.argument else access.action
        yield finding(
            "narrow-access",
            f"each thread of this {of_what} takes {access.width * access.element_bytes} bytes at "
            f"once where {possible * access.element_bytes} would do: {why}",
            _cost(evidence, bad, lambda each: _widened(evidence, each)),
            access.position,
            advice,
            {
                "argument": access.argument,
                "elements at once": access.width,
                "possible": possible,
                "requests": round(access.requests),
            },
            access.source,
        )


def _possible(evidence: Evidence, access: Traffic) -> int:
    """Elements that a thread could take at once, if all were known about addresses and mask."""
    if access.by_engine or access.is_atomic or access.dimension is None or access.steps is None:
        return 1
    if not access.is_dense:
        return 1
    along = access.shape[access.dimension]
    each = evidence.registers(pointers_of(access.op))
    first = evidence.padded.number(pointers_of(access.op)) or 0
    aligned = first & -first or _WIDEST
    return max(min(_WIDEST // access.element_bytes, each, along, aligned), 1)


def _widened(evidence: Evidence, access: Traffic) -> Traffic:
    possible = _possible(evidence, access)
    share = access.width / possible
    return replace(
        access,
        requests=access.requests * share,
        sectors=access.bytes / SECTOR,
        lines=max(access.bytes / LINE, 1),
        best_sectors=access.bytes / SECTOR,
        width=possible,
    )


def _why_narrow(evidence: Evidence, access: Traffic, possible: int) -> tuple[str, str]:
    facts = evidence.pointer_facts.get(access.op)
    unaligned = _unaligned(pointers_of(access.op))
    along = access.dimension or 0
    if facts is not None and along < len(facts.contiguity):
        if facts.contiguity[along] < possible:
            return (
                "nothing shows the compiler that the elements are neighbors in memory",
                "Where % or a loaded index hides it, promise it with "
                "tl.max_contiguous(tl.multiple_of(index, W), W); write the index of that "
                "dimension without a stride.",
            )
        if facts.divisibility[along] < possible * access.element_bytes:
            who = f" ({', '.join(unaligned)})" if unaligned else ""
            return (
                f"nothing shows the compiler that they are aligned to "
                f"{possible * access.element_bytes} bytes{who}",
                "Pass pointers, sizes and strides that are multiples of 16"
                f"{f' for {chr(44).join(unaligned)}' if unaligned else ''} (a separate tensor "
                "instead of a view that starts in the middle, a padded row), or promise what holds "
                "with tl.multiple_of.",
            )
    trait = trait_of(access.op, GlobalAccess)
    mask = trait.mask_of(access.op) if trait is not None else None
    if mask is not None and any(step != 0 for step in evidence.scalars.steps(mask)):
        bounds = _unaligned(mask)
        who = f" ({', '.join(bounds)} is not known to be a multiple of 16)" if bounds else ""
        return (
            f"the mask may switch off any one of them alone{who}",
            "Let the mask compare with a multiple of 16: pad the tensor and pass the padded size, "
            "or promise it with tl.multiple_of where it holds.",
        )
    if has(access.op, SharedWrite):
        return (
            "it is laid down in shared memory along the tile's other axis, as the matmul needs it",
            "Keep this operand with the matmul's inner axis last in memory: wgmma turns tiles of "
            "16-bit elements by itself, and no others.",
        )
    return (
        "what the compiler knows of their addresses allows no more",
        "Pass pointers, sizes and strides that are multiples of 16.",
    )


def _unaligned(value: SSAValue) -> list[str]:
    """The parameters in an address or a mask of which no divisibility is known."""
    names: dict[str, None] = {}
    for each in backward([value]):
        if flow.is_parameter(each) and not _is_promised(each):
            names[argument_name(each) or f"argument {each.index}"] = None
    return list(names)


def _is_promised(parameter: BlockArgument) -> bool:
    function, place = parameter.block.parent_op(), parameter.index
    promises = function.arg_attrs if isinstance(function, tt.FuncOp) else None
    if not isinstance(promises, builtin.ArrayAttr) or place >= len(promises.data):
        return False
    promise = promises.data[place]
    return isinstance(promise, builtin.DictionaryAttr) and "tt.divisibility" in promise.data


def _by_line(evidence: Evidence) -> Iterator[list[Traffic]]:
    """The accesses of one line to one argument together: prologue and body of a pipelined loop."""
    lines: dict[object, list[Traffic]] = {}
    for access in evidence.accesses:
        lines.setdefault((access.position, access.argument), []).append(access)
    yield from lines.values()


def _cost(evidence: Evidence, bad: Sequence[Traffic], fixed: Callable[[Traffic], Traffic]) -> float:
    """The time saved if some accesses were as `fixed` makes them."""
    changed = {id(access): fixed(access) for access in bad}
    fewer = sum(
        2 * (access.requests - changed[id(access)].requests) * access.times for access in bad
    )
    accesses = [changed.get(id(access), access) for access in evidence.accesses]
    after = work_of(evidence.with_accesses(accesses, evidence.issue_slots - fewer))
    return evidence.costs.saved_by(
        dram=after.dram,
        cache=after.cache,
        requests=after.requests,
        sectors=after.sectors,
        partial=after.partial,
        issue=after.issue,
    )


_OFTEN = 8
"""Programs that load the same, from which on it is worth saying."""
_REACH = 64.0
"""Products of an element that is loaded, in a tile of 128 by 128."""
_CROWD = 16
"""Updates of one element, likewise."""


@rule("repeated-loads")
def repeated_loads(evidence: Evidence) -> Iterator[CostFinding]:
    """Many programs of a matmul load the same, and the launch waits for the second-level cache.

    Other kernels are left out: on an H200, where 8 to 64 programs count in the same row, the launch
    was at most 1.12 times faster when one program did the work of 2, 4 or 8.
    """
    shared = [
        access
        for access in evidence.accesses
        if access.reads and access.repeats >= _OFTEN and not evidence.is_fixed(access)
    ]
    if evidence.grid is None or not shared or not evidence.dots:
        return
    work = evidence.work
    moved = sum(access.sectors * access.times for access in shared) * 32 * evidence.programs
    lines = sum(max(access.lines, 2 * access.requests) * access.times for access in shared)
    less = _avoidable(evidence)
    around = less if all(map(evidence.dot_cycles, evidence.dots)) else 0.0
    larger = evidence.costs.with_work(
        issue=work.issue * (1 - around),
        moves=work.moves * (1 - around),
        cache=work.cache - moved / evidence.programs * less,
        requests=work.requests - lines * less,
        shared=work.shared * (1 - less) if _on_newest(evidence) else work.shared,
        latency=work.latency * (1 - less),
    )
    # Tiles with fewer loads are as much larger along both sides, so there are fewer programs.
    cost = evidence.costs.saved_with(divided(larger, (1 - less) ** 2))
    if cost <= 0:
        return
    worst = max(shared, key=lambda access: access.sectors * access.times)
    names = ", ".join(dict.fromkeys(access.argument for access in shared if access.argument))
    yield finding(
        "repeated-loads",
        f"each element of {names or 'what is loaded'} is loaded by {worst.repeats:,.0f} programs: "
        f"{moved / 1e6:,.0f} MB come from the second-level cache",
        cost,
        worst.position,
        "Let a program use more of what it loads: larger tiles (twice the tile along M and N "
        "halves the loads), and programs that share operands near each other in the grid.",
        {
            "programs an element": round(worst.repeats),
            "bytes": round(moved),
            "tile": joined_sizes(worst.shape),
        },
        worst.source,
    )


def _on_newest(evidence: Evidence) -> bool:
    """Whether matmuls read shared memory once per tile; older instructions are another finding."""
    older = evidence.compilation.target.arch in ("90", "100", "103")
    return not (older and any(cost_model.generation(op) == "mma" for op in evidence.dots))


def _avoidable(evidence: Evidence) -> float:
    """The share of a matmul's loads that a reasonable tile would spare."""
    reach: list[float] = []
    for op in evidence.dots:
        a, b = shape(op.operands[0].type), shape(op.operands[1].type)
        loop, made = evidence.loop_of(op), op.operands[0].owner
        if loop and isinstance(made, Operation) and loop.op not in flow.loops_around(made):
            reach.append(a[-2])  # only the other operand is loaded in the loop
        elif len(a) > 1 and len(b) > 1:
            reach.append(a[-2] * b[-1] / (a[-2] + b[-1]))
    return max(1 - max(reach, default=_REACH) / _REACH, 0.0)


@rule("program-order")
def program_order(evidence: Evidence) -> Iterator[CostFinding]:
    """Programs that load the same run so long after each other that L2 has lost it."""
    counts, grid = evidence.costs.counts, evidence.grid
    before = refetched(counts, evidence.gpu)
    if grid is None or not before:
        return
    programs = prod(grid)
    axes: dict[str, set[int]] = {}
    loads = [access for access in evidence.accesses if access.reads and not access.by_engine]
    for access in loads:
        of = axes_of(pointers_of(access.op))
        axes.setdefault(access.argument, set()).update(range(3) if of is None else of)
    wave = min(evidence.gpu.multiprocessors * counts.resident, programs)
    tried = [(block, _in_blocks(counts, axes, block, grid)) for block in _blocks(grid, wave)]
    block, after = min(tried, key=lambda other: refetched(other[1], evidence.gpu))
    shared = [
        access
        for access in loads
        if any(ask.name == access.argument and ask.shared(programs) for ask in after.arguments)
        and not all(size == 1 or axis in axes[access.argument] for axis, size in enumerate(grid))
    ]
    cost = evidence.costs.saved_with(after)
    if not shared or cost < WORTH_SAYING:
        yield from _order_of_turns(evidence, loads, before)
        return
    names = ", ".join(dict.fromkeys(access.argument for access in shared))
    now = refetched(after, evidence.gpu)
    yield finding(
        "program-order",
        f"programs load {names} again when the L2 cache has lost it: about {before / 1e6:,.0f} MB "
        f"more come from DRAM, in another order {now / 1e6:,.0f} MB",
        cost,
        max(shared, key=lambda access: access.bytes * access.times).position,
        "Let programs that follow each other take a block of "
        f"{joined_sizes(block[: max(2, 3 - (grid[2] == 1))])} programs of this grid: other axes of "
        "the grid in the order of tl.program_id, or groups of rows as in Triton's tutorial on "
        "matmul.",
        {"bytes loaded again": round(before), "L2": evidence.gpu.cache_bytes, "wave": wave},
        "the loads of two waves of programs, run on the interpreter",
    )


def _order_of_turns(
    evidence: Evidence, loads: Sequence[Traffic], before: float
) -> Iterator[CostFinding]:
    """The same of a persistent kernel, whose programs take tiles in turns, each from its number."""
    counts, programs = evidence.costs.counts, evidence.costs.counts.programs

    def once(*names: str) -> LaunchCounts:
        return replace(
            counts,
            arguments=tuple(
                replace(ask, read=min(ask.read, ask.whole / programs)) if ask.name in names else ask
                for ask in counts.arguments
            ),
        )

    shared = {ask.name for ask in counts.arguments if ask.shared(programs)}
    in_turns = [access for access in loads if access.argument in shared and _is_in_turns(access.op)]
    cost = evidence.costs.saved_with(once(*shared))
    if not in_turns or cost < WORTH_SAYING:
        return
    worst = min(in_turns, key=lambda access: refetched(once(access.argument), evidence.gpu))
    yield finding(
        "program-order",
        f"the tiles that programs take in turns load {worst.argument} again when the L2 cache has "
        f"lost it: about {before / 1e6:,.0f} MB more come from DRAM",
        cost,
        worst.position,
        "Let tiles that are computed at the same time share rows or columns: count them along the "
        "other axis first, or in groups of rows as in Triton's tutorial on persistent matmuls. No "
        "other order was tried here; the cost is that of all these bytes.",
        {"bytes loaded again": round(before), "L2": evidence.gpu.cache_bytes},
        "the loads of programs, run on the interpreter",
    )


def _is_in_turns(op: Operation) -> bool:
    """Whether an operation is in two loops, the outer of which begins at the program's number."""
    *inner, outer = (op, *flow.loops_around(op))
    is_outer = len(inner) > 1 and isinstance(outer, mlir.ForOp)
    return is_outer and isinstance(outer.operands[0].owner, tt.GetProgramIdOp)


def _blocks(grid: tuple[int, int, int], wave: int) -> Iterator[tuple[int, int, int]]:
    """Parts of a grid that one wave of programs may take, their sides powers of two."""
    sides = [[min(1 << bit, size) for bit in range(size.bit_length() + 1)] for size in grid[:2]]
    for first, second in {(first, second) for first in sides[0] for second in sides[1]}:
        if first * second <= wave:
            yield first, second, min(max(wave // (first * second), 1), grid[2])


def _in_blocks(
    counts: LaunchCounts,
    axes: Mapping[str, set[int]],
    block: tuple[int, int, int],
    grid: tuple[int, int, int],
) -> LaunchCounts:
    """Return the counts if each wave takes such a block; `axes` are each argument's."""
    arguments = []
    for ask in counts.arguments:
        of = axes.get(ask.name, set(range(3)))
        whole = all(block[axis] == grid[axis] for axis in of)
        apart = prod(block[axis] for axis in of) / prod(block)
        arguments.append(replace(ask, apart=min(apart, 1.0), stays=float(whole)))
    return replace(counts, arguments=tuple(arguments))


@rule("atomic-contention")
def contended_atomics(evidence: Evidence) -> Iterator[CostFinding]:
    """Atomics that take turns on the same elements: those of one request, or of many programs.
    Those of tiles alike are one finding: what adds them up first does so for all.
    """
    counts = evidence.costs.counts
    sent = CALIBRATION.atomics * counts.atomic_sectors * counts.programs
    waits = CALIBRATION.contention * counts.atomic_turns >= sent
    alike: dict[object, list[Traffic]] = {}
    for access in evidence.accesses:
        if not access.is_atomic or isinstance(access.op, tt.AtomicCASOp):
            continue
        repeated, often = access.repeated_sectors, _updates(evidence, [access])
        crowded = often / evidence.different_of(access) >= _CROWD or (waits and repeated > 0)
        if crowded or repeated > access.sectors / 2:
            alike.setdefault((access.shape, access.times), []).append(access)
    for several in alike.values():
        rest = [each for each in evidence.accesses if each not in several]
        after = work_of(evidence.with_accesses(rest))
        updates = _updates(evidence, several)
        different = sum(map(evidence.different_of, several))
        names = ", ".join(dict.fromkeys(each.argument for each in several if each.argument))
        yield finding(
            "atomic-contention",
            f"{updates:,.0f} atomic updates go to about {different:,.0f} element"
            f"{'' if different == 1 else 's'} of {names or 'memory'}, "
            + ("and wait for each other there" if waits else "and sending them takes time"),
            evidence.costs.saved_by(
                atomics=after.atomics, cache=after.cache, requests=after.requests
            ),
            several[0].position,
            "Combine what one program adds to an element first (tl.sum, tl.max, tl.histogram), so "
            "that it takes one atomic; let fewer programs do more work each; or write partial "
            "results and add them up in a second kernel.",
            {
                "updates": round(updates),
                "different elements": round(different),
                "programs": evidence.programs,
            },
            several[0].source,
        )


def _updates(evidence: Evidence, atomics: Sequence[Traffic]) -> float:
    return evidence.programs * sum(prod(each.shape or (1,)) * each.times for each in atomics)


@rule("lock")
def lock(evidence: Evidence) -> Iterator[CostFinding]:
    """Programs that wait for each other's sections under a lock."""
    counts = evidence.costs.counts
    if not counts.locked:
        return
    access = next(filter(evidence.sections, evidence.accesses))
    name = access.argument or "memory"
    yield finding(
        "lock",
        f"{counts.locked:,.0f} sections under the lock in {name} run one after the other, however "
        "many multiprocessors there are",
        evidence.costs.saved_with(replace(counts, locked=0.0, atomic_turns=0.0)),
        access.position,
        "Add by atomics instead (tl.atomic_add, tl.atomic_max), or write partial results and "
        "combine them in a second kernel; with many locks, let each guard a few programs.",
        {"sections": round(counts.locked), "programs": evidence.programs},
        "the sampled programs; a section takes 1.0 to 2.0 us on an H200",
    )


_ORDERS = {2: "acquire", 3: "release", 4: "acq_rel"}
"""`sem` of atomics that order other accesses (TritonAttrDefs.td, MemSemantic)."""


@rule("ordered-atomic")
def ordered_atomics(evidence: Evidence) -> Iterator[CostFinding]:
    """Atomics of tiles that also order the other accesses, and whose results nothing uses."""
    for access in evidence.accesses:
        op = access.op
        order = _ORDERS.get(integer(op, "sem") or 0)
        if not isinstance(op, tt.AtomicRMWOp) or order is None or not access.shape:
            continue
        if any(True for _ in op.result.uses):
            continue
        yield finding(
            "ordered-atomic",
            f"each atomic of this tile on {access.argument or 'memory'} also orders the accesses "
            f'around it (sem="{order}"), so a thread waits for one before it sends the next',
            0.0,
            access.position,
            'Pass sem="relaxed", unless a program reads other results of this one as soon as it '
            "sees the update.",
            {"order": order, "updates by a program": round(prod(access.shape) * access.times)},
            "the TTGIR. The estimate does not include the cost of ordering; on an H200, two "
            "kernels were 1.4 and 1.2 times faster without it",
        )


@rule("loaded-again")
def loaded_again(evidence: Evidence) -> Iterator[CostFinding]:
    """Tiles that a program loads again in another loop, or after it stored them itself."""
    for earlier, later in _twice(evidence.accesses):
        name = later.argument or "memory"
        gone = (later,) if earlier.reads else (earlier, later)
        yield finding(
            "loaded-again",
            f"this loads again what the program loads from {name} in an earlier loop"
            if earlier.reads
            else f"this loads from {name} what the program itself stored there",
            _without(evidence, gone),
            later.position,
            "Do the work of both loops in one: sums of values and of squares, or a maximum and a "
            "sum that is rescaled when the maximum grows; or keep the tile in registers if all of "
            "it fits."
            if earlier.reads
            else "Use the tile that was stored, and leave the store out if nothing else reads it.",
            {
                "argument": name,
                "line before": "?" if earlier.position is None else earlier.position.line,
                "bytes again": round(later.bytes * later.times * evidence.programs),
            },
            "the TTGIR: both addresses are made in the same way",
        )


def _twice(accesses: Sequence[Traffic]) -> Iterator[tuple[Traffic, Traffic]]:
    """Yield the loads of tiles for which an earlier access went to the same elements."""
    for number, later in enumerate(accesses):
        if not later.reads or not later.shape or later.by_engine or later.is_atomic:
            continue
        for earlier in accesses[:number]:
            apart = earlier.position != later.position
            kept = not earlier.reads or earlier.loop is not later.loop
            if (
                apart
                and kept
                and not earlier.is_atomic
                and earlier.argument == later.argument
                and earlier.shape == later.shape
                and earlier.times == later.times
                and are_made_alike(pointers_of(earlier.op), pointers_of(later.op))
            ):
                yield earlier, later
                break


_OF_ACCESSES = ("cache", "requests", "sectors", "issue", "partial")
"""The resources that fewer accesses take less of, besides DRAM."""


def _without(evidence: Evidence, gone: Sequence[Traffic]) -> float:
    """Return the share of the time that is saved without some accesses."""
    work, costs = evidence.work, evidence.costs
    slots = sum(2 * access.requests * access.times for access in gone)
    rest = [access for access in evidence.accesses if access not in gone]
    after = work_of(evidence.with_accesses(rest, evidence.issue_slots - slots))
    loops = [evidence.loops.get(access.loop) for access in gone if access.reads and access.loop]
    waited = sum(evidence.waiting_in(loop) for loop in loops if loop is not None)
    less = {name: getattr(after, name) for name in _OF_ACCESSES}
    counts = costs.with_work(latency=work.latency - waited, **less)
    stored = {access.argument for access in gone if not access.reads}
    names = {access.argument for access in gone}
    arguments = tuple(
        replace(each, again=0.0) if each.name in names else each for each in counts.arguments
    )
    written = sum(
        min(each.written * counts.programs, each.whole)
        for each in costs.counts.arguments
        if each.name in stored
    )
    return costs.saved_with(
        replace(counts, arguments=arguments, written_bytes=counts.written_bytes - written)
    )
