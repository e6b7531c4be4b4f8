"""Registers that do not suffice: values go to local memory and come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kernellab.compiler.modules.structure import position_of, users_line
from kernellab.errors import SourcePosition
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule

_SLOTS = 8.0
"""Issue slots that an access to local memory costs, with what waits for it."""


@rule("spills", needs=("ttgir", "resources"))
def spills(evidence: Evidence) -> Iterator[CostFinding]:
    """Values that went to local memory, by the lines that move most of them."""
    resources = evidence.resources
    if resources is None or not resources.spills:
        return
    times: dict[int, float] = {}
    for op in evidence.operations:
        place = position_of(op)
        if place is not None:
            times[place.line] = max(times.get(place.line, 0.0), evidence.times(op))
    moved: Counter[SourcePosition] = Counter()
    slots = 0.0
    if evidence.compilation.can_answer("instructions"):
        for site in evidence.compilation.spill_sites:
            place = users_line(site.chain)
            often = times.get(place.line, 1.0) if place is not None else 1.0
            slots += _SLOTS * evidence.warps * often
            if place is not None:
                moved[place] += round(site.bytes * often)
    slots = slots or _SLOTS * evidence.warps * (resources.spills + resources.spill_loads) / 4
    parts = evidence.parts
    cost = parts.saved_by(issue=parts.issue) + _with(evidence, slots)
    worst = [place for place, _ in moved.most_common(3)]
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


def _with(evidence: Evidence, slots: float) -> float:
    """The share of the time that so many more issue slots take, which the parts do not have."""
    parts = evidence.parts
    more = evidence.microseconds(slots)
    whole = parts.total
    return 1 - whole / (whole + more)
