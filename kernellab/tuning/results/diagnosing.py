"""Why a sweep may have missed what is faster: how `kernellab.diagnose` takes a `Tuning`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kernellab.errors import KernelLabError
from kernellab.profiling.diagnosis.diagnosing import Asked, diagnosed, diagnosis_of
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding, Diagnosis
from kernellab.profiling.diagnosis.rule import finding
from kernellab.tuning.results.records import Trial
from kernellab.tuning.results.tuning import Tuning

_LEAST_VALUES = 3
"""Of a parameter: of fewer, each is an edge."""


@diagnosed.register
def diagnosed_sweep(tuning: Tuning, asked: Asked) -> Diagnosis:
    """What the sweep's space says, and what is to be said of its best config's compilation."""
    asked.takes_nothing_of_a_launch("a sweep")
    own = tuple(edges(tuning))
    found = _of_best(tuning)
    if found is None:
        return Diagnosis(tuning.kernel, str(tuning.target), None, own)
    ranked = sorted((*own, *found.findings), key=lambda one: -one.cost)
    return replace(found, findings=tuple(ranked))


def _of_best(tuning: Tuning) -> Diagnosis | None:
    if not tuning.is_timed or not tuning.knows_kernel:
        return None
    try:
        return diagnosis_of(Evidence(tuning.compilation(tuning.best)))
    except KernelLabError:
        return None


def edges(tuning: Tuning) -> Iterator[CostFinding]:
    """The parameters whose best value is the smallest or the largest that was tried, and got
    better towards it.
    """
    if not tuning.is_timed:
        return
    best = tuning.best.candidate.values
    for name, value in best.items():
        medians = _medians(tuning.trials, name, best)
        if len(medians) < _LEAST_VALUES or not _is_number(value):
            continue
        values = sorted(medians)
        if value not in (values[0], values[-1]):
            continue
        next_to = values[1] if value == values[0] else values[-2]
        gain = 1 - medians[value] / medians[next_to]
        if gain <= 0:
            continue
        which, beyond = ("smallest", "smaller") if value == values[0] else ("largest", "larger")
        yield finding(
            "edge-of-space",
            f"the best {name}, {value}, is the {which} that was tried, and times fell towards it",
            gain / 2,
            None,
            f"Try {beyond} values of {name} too.",
            {
                "values": ", ".join(map(str, values)),
                "best": value,
                "faster than its neighbour by": f"{gain:.0%}",
            },
            f"{len(tuning.ranked)} configs, timed",
        )


def _medians(trials: tuple[Trial, ...], name: str, best: dict[str, Any]) -> dict[Any, float]:
    """Value of a parameter -> the fastest median among the configs that have it."""
    found: dict[Any, float] = {}
    for one in trials:
        values = one.candidate.values
        if one.timing is None or one.is_dropped or set(values) != set(best):
            continue
        if _is_number(values.get(name)):
            found[values[name]] = min(found.get(values[name], float("inf")), one.timing.median)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
