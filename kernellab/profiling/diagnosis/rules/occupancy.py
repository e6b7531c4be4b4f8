"""Too few warps on a multiprocessor to keep its units busy, and what limits them; registers that
do not suffice.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule

_ENOUGH = 0.5
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
    """Few warps are resident, by registers or shared memory, and the launch has more of them."""
    now, resources = evidence.occupancy, evidence.resources
    if now is None or resources is None or now.fraction >= _ENOUGH or now.blocks < 1:
        return
    if evidence.per_sm <= now.blocks:
        return  # more would fit than there are
    limit = now.limited_by[0]
    staged = (
        limit == "shared memory"
        and evidence.stages > _FEW_STAGES
        and any(evidence.is_asynchronous(loop) for loop in evidence.loops)
    )
    if not staged and any(evidence.is_asynchronous(loop) for loop in evidence.loops):
        return  # the stages of its loops hide what other programs would
    if staged:
        fewer = resources.shared_bytes * _FEW_STAGES // evidence.stages
        blocks = evidence.compilation.occupancy(shared_bytes=fewer).blocks
        if blocks <= now.blocks:
            return
    else:
        blocks = min(int(now.blocks * _ENOUGH / now.fraction), evidence.per_sm)
    cost = evidence.costs.saved_by(resident=blocks)
    evident = {
        "occupancy": f"{now.fraction:.0%}",
        "warps on a multiprocessor": now.warps,
        "limited by": ", ".join(now.limited_by),
        "registers": resources.registers,
        "shared bytes": resources.shared_bytes,
    }
    if staged:
        yield finding(
            "too-many-stages",
            f"num_stages={evidence.stages} takes {resources.shared_bytes:,} bytes of shared "
            f"memory: {now.blocks} program{'' if now.blocks == 1 else 's'} of {evidence.warps} "
            f"warps fit on a multiprocessor, with {_FEW_STAGES} stages {blocks}",
            cost,
            next((loop.position for loop in evidence.loops.values()), None),
            f"Try num_stages={_FEW_STAGES}: more copies in flight help only until the memory's "
            "latency is hidden, and other programs hide it too.",
            {"num_stages": evidence.stages, **evident},
            "the binary's resources and the occupancy calculator",
        )
        return
    yield finding(
        "low-occupancy",
        f"{now.warps} of {now.most_warps} warps are on a multiprocessor at once, limited by "
        f"{', '.join(now.limited_by)}: its units are idle while they wait",
        cost,
        None,
        _ADVICE.get(limit, "Let each program take less of what limits it."),
        evident,
        "the binary's resources and the occupancy calculator",
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
