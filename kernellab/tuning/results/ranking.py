"""Which config is the fastest, and which cannot be told from it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernellab.tuning.results.records import Trial

FINALIST_MARGIN = 1.05
"""Configs up to this many times the fastest median are measured again:
one round of measuring can be off by some percent."""
MOST_FINALISTS = 4


def timed(trials: Sequence[Trial]) -> list[Trial]:
    """The configs that were timed and not dropped, the fastest median first."""
    found = [one for one in trials if one.timing is not None and not one.is_dropped]
    return sorted(found, key=lambda one: (one.timing.median if one.timing else 0.0, one.number))


def by_compiler(trials: Sequence[Trial]) -> list[Trial]:
    """The configs that compile, where none was timed: those first that are estimated to be faster
    (docs/estimates.md); where nothing was estimated, those that spill less, keep more warps on a
    multiprocessor and take fewer registers.
    """

    def costs(one: Trial) -> tuple[float, ...]:
        compiled = one.outcome.compiled
        if compiled is None:
            return (math.inf, math.inf, 0.0, math.inf, one.number)
        estimated = math.inf if compiled.estimated is None else compiled.estimated
        occupancy = compiled.occupancy if math.isfinite(compiled.occupancy) else 0.0
        resources = compiled.resources
        return estimated, resources.spills, -occupancy, resources.registers, one.number

    return sorted((one for one in trials if not one.is_dropped), key=costs)


def tied_with_best(trials: Sequence[Trial]) -> list[Trial]:
    """The fastest config and those whose times overlap with its own:
    their lower quartile is not above its upper one.
    """
    ranked = timed(trials)
    if not ranked:
        return []
    best = ranked[0].timing
    assert best is not None
    return [one for one in ranked if one.timing is not None and one.timing.lower <= best.upper]


def finalists(trials: Sequence[Trial]) -> list[Trial]:
    """The configs worth a second round: the fastest and the next, since a lead may be a moment
    in which the GPU's clock was high, and those as close to the fastest as that.
    """
    ranked = timed(trials)
    if not ranked or ranked[0].timing is None:
        return []
    limit = ranked[0].timing.median * FINALIST_MARGIN
    close = [one for one in ranked if one.timing is not None and one.timing.median <= limit]
    return ranked[: min(max(len(close), 2), MOST_FINALISTS)] if len(ranked) > 1 else []
