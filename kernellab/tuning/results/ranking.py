"""Rank the configs of a sweep: the fastest, and those whose times overlap with its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernellab.tuning.results.records import Trial

FINALIST_MARGIN = 1.05
"""Configs up to this many times the fastest median are measured again, since one round of
measuring can be off by some percent."""
MOST_FINALISTS = 4


def timed(trials: Sequence[Trial]) -> list[Trial]:
    """Return the configs that were timed and not dropped, the fastest median first."""
    medians = [
        (trial.timing.median, trial.number, trial)
        for trial in trials
        if trial.timing is not None and not trial.is_dropped
    ]
    return [trial for _, _, trial in sorted(medians, key=lambda item: item[:2])]


def by_compiler(trials: Sequence[Trial]) -> list[Trial]:
    """Return the configs that compile, for sweeps without times, the best first.

    Configs are ordered by their estimated time (docs/estimates.md). Those without an estimate
    follow, ordered by fewer spills, more warps on a multiprocessor, and fewer registers.
    """

    def costs(trial: Trial) -> tuple[float, ...]:
        compiled = trial.outcome.compiled
        if compiled is None:
            return (math.inf, math.inf, 0.0, math.inf, trial.number)
        estimated = math.inf if compiled.estimated is None else compiled.estimated
        occupancy = compiled.occupancy if math.isfinite(compiled.occupancy) else 0.0
        resources = compiled.resources
        return estimated, resources.spills, -occupancy, resources.registers, trial.number

    return sorted((trial for trial in trials if not trial.is_dropped), key=costs)


def tied_with_best(trials: Sequence[Trial]) -> list[Trial]:
    """Return the fastest config and those whose times overlap with its own.

    Two configs overlap if the lower quartile of the slower is not above the upper of the faster.
    """
    ranked = timed(trials)
    if not ranked:
        return []
    best = ranked[0].timing
    assert best is not None
    return [trial for trial in ranked if trial.timing and trial.timing.lower <= best.upper]


def finalists(trials: Sequence[Trial]) -> list[Trial]:
    """Return the configs worth a second round of measuring, at most MOST_FINALISTS.

    These are the two fastest, since the first may have run while the GPU's clock was high, and
    those within FINALIST_MARGIN of the fastest.
    """
    ranked = timed(trials)
    if not ranked or ranked[0].timing is None:
        return []
    limit = ranked[0].timing.median * FINALIST_MARGIN
    close = [trial for trial in ranked if trial.timing and trial.timing.median <= limit]
    return ranked[: min(max(len(close), 2), MOST_FINALISTS)] if len(ranked) > 1 else []
