"""Programs and multiprocessors: too few of the one, or a last round that is nearly empty."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.compiler.modules.structure import position_of
from kernellab.errors import SourcePosition
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import SEVERE, CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule

_SOURCE = "the launch's grid, and a usual GPU of the target"
_WASTE = 0.1
"""Of the SMs' time, in the last round, that is worth saying."""


@rule("few-programs", needs=("ttgir", "grid"))
def few_programs(evidence: Evidence) -> Iterator[CostFinding]:
    """Fewer programs than multiprocessors: the others have nothing to do."""
    programs, sms = evidence.programs, evidence.peaks.multiprocessors
    if programs >= sms:
        return
    cost = evidence.parts.saved_scaling(programs / sms)
    yield finding(
        "few-programs",
        f"{programs:,} program{'' if programs == 1 else 's'} on {sms} multiprocessors: "
        f"{1 - programs / sms:.0%} of the GPU has nothing to do",
        cost,
        _line(evidence),
        "Divide the work among more programs: smaller tiles; another axis of the grid; what one "
        "program loops over in parts of its own, whose results are combined afterwards (split-K).",
        {"programs": programs, "multiprocessors": sms, "grid": str(evidence.grid)},
        _SOURCE,
        severe_from=SEVERE if evidence.parts.launch < evidence.parts.total / 2 else 2.0,
    )


@rule("tail-wave", needs=("ttgir", "grid"))
def tail_wave(evidence: Evidence) -> Iterator[CostFinding]:
    """The last round of programs leaves most multiprocessors idle."""
    programs, sms, parts = evidence.programs, evidence.peaks.multiprocessors, evidence.parts
    share = programs / sms / evidence.per_sm
    if programs < sms or 1 - share < _WASTE:
        return
    in_waves = programs / evidence.slots / evidence.waves if programs > evidence.slots else 1.0
    cost = parts.saved_by(
        requests=parts.requests * share,
        shared=parts.shared * share,
        issue=parts.issue * share,
        matrix=parts.matrix * share,
        latency=parts.latency * in_waves,
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
        _SOURCE,
    )


def _line(evidence: Evidence) -> SourcePosition | None:
    """Where the kernel asks which program it is."""
    found = (position_of(op) for op in evidence.of_kind("tt.get_program_id"))
    return next((one for one in found if one is not None), None)
