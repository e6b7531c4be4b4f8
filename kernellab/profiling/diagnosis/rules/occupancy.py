"""Few warps on a multiprocessor, so that nobody works while they wait; and what limits them."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.parts import parts_of
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


@rule("low-occupancy", "too-many-stages", needs=("ttgir", "occupancy"))
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
    if staged:
        fewer = resources.shared_bytes * _FEW_STAGES // evidence.stages
        blocks = evidence.compilation.occupancy(shared_bytes=fewer).blocks
        if blocks <= now.blocks:
            return
    else:
        blocks = min(int(now.blocks * _ENOUGH / now.fraction), evidence.per_sm)
    found = parts_of(evidence.with_blocks(blocks))
    exposed = found.exposed if staged else evidence.parts.exposed
    cost = evidence.parts.saved_by(latency=found.latency, issue=found.issue, exposed=exposed)
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
        f"{', '.join(now.limited_by)}: while they wait, nobody works",
        cost,
        None,
        _ADVICE.get(limit, "Let each program take less of what limits it."),
        evident,
        "the binary's resources and the occupancy calculator",
    )
