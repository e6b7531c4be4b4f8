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


def _saved(evidence: Evidence, one: Conversion, times: float) -> float:
    """The share of the time that an exchange takes, so many times."""
    parts, cycle = evidence.parts, evidence.peaks.cycle
    wavefronts = 2 * one.shared_bytes / 128 * times
    slots = (2 * one.shared_bytes / 16 + one.shuffled_bytes / 4) / evidence.lanes * times
    return parts.saved_by(
        shared=parts.shared - wavefronts * evidence.per_sm * cycle,
        issue=parts.issue - evidence.microseconds(slots),
        latency=parts.latency - weights.BARRIER * times * evidence.waves * cycle,
    )


@rule("conversion-in-loop")
def conversion_in_loop(evidence: Evidence) -> Iterator[CostFinding]:
    """A tile that changes its layout through shared memory in each iteration."""
    for one in evidence.conversions:
        if one.operation != "ttg.convert_layout" or one.means != "shared memory" or not one.in_loop:
            continue
        times = evidence.times_of_conversion(one)
        sides = {
            "from": ", ".join(map(str, one.forced_by)),
            "for": ", ".join(map(str, one.wanted_by)),
        }
        yield finding(
            "conversion-in-loop",
            f"{one.name or 'a tile'} ({'x'.join(map(str, one.shape))} of {one.element}) changes "
            f"its layout through shared memory in the loop: {one.shared_bytes:,} bytes, "
            f"{round(times):,} times a program",
            _saved(evidence, one, times),
            one.position,
            "Convert once instead of each time: collect in the layout that the loop's loads have "
            "and convert behind the loop, load what does not change in front of it, or let both "
            "sides want one layout (the same order of axes, reductions along the last one).",
            {
                "bytes each time": one.shared_bytes,
                "times": round(times),
                **{name: words for name, words in sides.items() if words},
            },
            _SOURCE,
        )


@rule("reduction-across-warps")
def reduction_across_warps(evidence: Evidence) -> Iterator[CostFinding]:
    """A reduction in a loop for which the warps have to wait for each other."""
    for one in evidence.conversions:
        if one.operation not in ("tt.reduce", "tt.scan") or one.means != "shared memory":
            continue
        if not one.in_loop:
            continue
        times = evidence.times_of_conversion(one)
        yield finding(
            "reduction-across-warps",
            f"this {'reduction' if one.operation == 'tt.reduce' else 'scan'} in the loop goes "
            f"across warps: they wait for each other {round(times):,} times a program",
            _saved(evidence, one, times),
            one.position,
            "Combine tiles elementwise in the loop (acc += x, tl.maximum(acc, x)) and reduce once "
            "behind it; or fewer num_warps, so that one warp holds what is reduced.",
            {
                "tile": "x".join(map(str, one.shape)),
                "times": round(times),
                "num_warps": evidence.warps,
                "bytes each time": one.shared_bytes,
            },
            _SOURCE,
        )


@rule("bank-conflict", needs=("ttgir", "counts"))
def bank_conflict(evidence: Evidence) -> Iterator[CostFinding]:
    """Lanes that want different words of one bank of shared memory."""
    counts = evidence.counts
    if counts is None:
        return
    parts, programs = evidence.parts, max(prod(counts.grid), 1)
    for one in counts.shared:
        if one.wavefronts < 1.25 * one.best_wavefronts or not one.conflicts:
            continue
        each = one.conflicts / programs
        cost = parts.saved_by(
            shared=parts.shared - each * evidence.per_sm * evidence.peaks.cycle,
            latency=parts.latency - each * evidence.waves * evidence.peaks.cycle,
        )
        yield finding(
            "bank-conflict",
            f"{one.ways}-way bank conflict: this {one.title} takes "
            f"{one.wavefronts_per_instruction:.3g} wavefronts an instruction where "
            f"{one.best_wavefronts / max(one.instructions, 1):.3g} would do",
            cost,
            one.position,
            "Which lanes share a bank follows from the layouts on both sides: a swizzled or padded "
            "shared layout (Gluon), another tile or num_warps, the operation along the other axis. "
            "%tilelayout shows them.",
            {
                "ways": one.ways,
                "wavefronts": one.wavefronts,
                "would do": one.best_wavefronts,
                "conflicts": one.conflicts,
            },
            one.assumed or "counted from the compiled code's addresses",
        )
