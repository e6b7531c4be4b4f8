"""What programs have in common: elements that many load again, and elements that many update."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kernellab.ir.types import shape
from kernellab.profiling.diagnosis import weights
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule
from kernellab.profiling.diagnosis.work import work_of

_OFTEN = 8
"""Programs that load the same, from which on it is worth saying."""
_REACH = 64.0
"""Products of an element that is loaded, in a tile of 128 by 128."""
_CROWD = 16
"""Updates of one element, likewise."""


@rule("repeated-loads")
def repeated_loads(evidence: Evidence) -> Iterator[CostFinding]:
    """Many programs load the same, and the second-level cache is what the launch waits for."""
    shared = [
        access
        for access in evidence.accesses
        if access.reads and access.repeats >= _OFTEN and not evidence.is_fixed(access)
    ]
    if evidence.grid is None or not shared:
        return
    work = evidence.work
    moved = sum(access.sectors * access.times for access in shared) * 32 * evidence.programs
    lines = sum(max(access.lines, 2 * access.requests) * access.times for access in shared)
    less = _avoidable(evidence)
    cost = evidence.costs.saved_by(
        cache=work.cache - moved / evidence.programs * less,
        requests=work.requests - lines * less,
        shared=work.shared * (1 - less) if _on_newest(evidence) else work.shared,
        latency=work.latency * (1 - less) if evidence.dots else work.latency,
    )
    if cost <= 0:
        return
    worst = max(shared, key=lambda access: access.sectors * access.times)
    products = bool(evidence.dots)
    names = ", ".join(dict.fromkeys(access.argument for access in shared if access.argument))
    yield finding(
        "repeated-loads",
        f"each element of {names or 'what is loaded'} is loaded by {worst.repeats:,.0f} programs: "
        f"{moved / 1e6:,.0f} MB come from the second-level cache",
        cost,
        worst.position,
        "Let a program use more of what it loads: "
        + (
            "larger tiles (twice the tile along M and N halves the loads), and programs that share "
            "operands near each other in the grid."
            if products
            else "several rows a program, so that what all rows share is loaded once for them."
        ),
        {
            "programs an element": round(worst.repeats),
            "bytes": round(moved),
            "tile": "x".join(map(str, worst.shape)),
        },
        worst.source,
    )


def _on_newest(evidence: Evidence) -> bool:
    """Whether matmuls read shared memory only once per tile. Older instructions, whose operands go
    through registers, are a separate finding.
    """
    older = evidence.compilation.target.arch in ("90", "100", "103")
    return bool(evidence.dots) and not (
        older and any(weights.generation(op) == "mma" for op in evidence.dots)
    )


def _avoidable(evidence: Evidence) -> float:
    """The share of the loads that larger tiles would spare: of products those that make more than
    a reasonable tile, of anything else half.
    """
    if not evidence.dots:
        return 0.5
    reach = []
    for op in evidence.dots:
        a, b = shape(op.operands[0].type), shape(op.operands[1].type)
        if len(a) > 1 and len(b) > 1:
            reach.append(a[-2] * b[-1] / (a[-2] + b[-1]))
    return max(1 - max(reach, default=_REACH) / _REACH, 0.0)


@rule("atomic-contention")
def contended_atomics(evidence: Evidence) -> Iterator[CostFinding]:
    """Atomics that take turns because they go to the same elements."""
    for access in evidence.accesses:
        if not access.is_atomic:
            continue
        updates = prod(access.shape or (1,)) * access.times * evidence.programs
        different = evidence.different_of(access)
        in_turns = access.repeated_sectors > 0 or updates / different >= _CROWD
        if not in_turns:
            continue
        alone = [each for each in evidence.accesses if each is not access]
        after = work_of(evidence.with_accesses(alone))
        cost = evidence.costs.saved_by(
            atomics=after.atomics, cache=after.cache, requests=after.requests
        )
        yield finding(
            "atomic-contention",
            f"{updates:,.0f} atomic updates go to about {different:,.0f} element"
            f"{'' if different == 1 else 's'} of {access.argument or 'memory'}, and take turns "
            "there",
            cost,
            access.position,
            "Combine what one program adds to an element first (tl.sum, tl.max, tl.histogram), so "
            "that it takes one atomic; let fewer programs do more each; or write partial results "
            "and add them up in a second kernel.",
            {
                "updates": round(updates),
                "different elements": round(different),
                "programs": evidence.programs,
            },
            access.source,
        )
