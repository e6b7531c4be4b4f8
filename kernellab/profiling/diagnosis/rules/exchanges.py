"""Exchanges between threads in a loop: conversions, reductions across warps, bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kernellab.profiling.diagnosis import weights
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule
from kernellab.records.conversions import Conversion

_SOURCE = "the layouts of the TTGIR, and the loop's trip count"


def _saved(evidence: Evidence, conversion: Conversion, times: float) -> float:
    """The share of the time that an exchange takes, so many times."""
    work = evidence.work
    wavefronts = 2 * conversion.shared_bytes / 128 * times
    slots = evidence.moves_of(conversion) * times
    return evidence.costs.saved_by(
        shared=work.shared - wavefronts,
        moves=work.moves - slots,
        issue=work.issue - slots,
        latency=work.latency - weights.BARRIER * times,
    )


@rule("conversion-in-loop")
def conversion_in_loop(evidence: Evidence) -> Iterator[CostFinding]:
    """A tile that changes its layout through shared memory in each iteration."""
    for conversion in evidence.conversions:
        if (
            conversion.operation != "ttg.convert_layout"
            or conversion.means != "shared memory"
            or not conversion.in_loop
        ):
            continue
        times = evidence.times_of_conversion(conversion)
        sides = {
            "from": ", ".join(map(str, conversion.forced_by)),
            "for": ", ".join(map(str, conversion.wanted_by)),
        }
        yield finding(
            "conversion-in-loop",
            f"{conversion.name or 'a tile'} ({'x'.join(map(str, conversion.shape))} of "
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
            _SOURCE,
        )


@rule("reduction-across-warps")
def reduction_across_warps(evidence: Evidence) -> Iterator[CostFinding]:
    """A reduction in a loop for which the warps have to wait for each other."""
    for conversion in evidence.conversions:
        if (
            conversion.operation not in ("tt.reduce", "tt.scan")
            or conversion.means != "shared memory"
        ):
            continue
        if not conversion.in_loop:
            continue
        times = evidence.times_of_conversion(conversion)
        yield finding(
            "reduction-across-warps",
            f"this {'reduction' if conversion.operation == 'tt.reduce' else 'scan'} in the loop "
            f"goes across warps: they wait for each other {round(times):,} times a program",
            _saved(evidence, conversion, times),
            conversion.position,
            "Combine tiles elementwise in the loop (acc += x, tl.maximum(acc, x)) and reduce once "
            "behind it; or fewer num_warps, so that one warp holds what is reduced.",
            {
                "tile": "x".join(map(str, conversion.shape)),
                "times": round(times),
                "num_warps": evidence.warps,
                "bytes each time": conversion.shared_bytes,
            },
            _SOURCE,
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
