"""Diagnose a `Tuning` for `kernellab.diagnose`: why a sweep may have missed a faster config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import is_real
from kernellab.errors import KernelLabError
from kernellab.profiling.diagnosis.diagnose import Asked, diagnosis_of
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding, Diagnosis
from kernellab.profiling.diagnosis.rules import finding
from kernellab.tuning.records import Trial

if TYPE_CHECKING:
    from kernellab.tuning.tuning import Tuning

_LEAST_VALUES = 3
"""A parameter with fewer values has only edges."""


def diagnosed_sweep(tuning: Tuning, request: Asked) -> Diagnosis:
    """Return the findings on the sweep's space and on its best config's compilation."""
    request.takes_nothing_of_a_launch("a sweep")
    own = tuple(edges(tuning))
    diagnosis = _of_best(tuning)
    if diagnosis is None:
        return Diagnosis(tuning.kernel, str(tuning.target), None, own)
    ranked = sorted((*own, *diagnosis.findings), key=lambda cost_finding: -cost_finding.cost)
    return replace(diagnosis, findings=tuple(ranked))


def _of_best(tuning: Tuning) -> Diagnosis | None:
    if not tuning.is_timed or not tuning.knows_kernel:
        return None
    try:
        return diagnosis_of(Evidence(tuning.compilation(tuning.best)))
    except KernelLabError:
        return None


def edges(tuning: Tuning) -> Iterator[CostFinding]:
    """Yield a finding for each parameter whose best value is the smallest or the largest tried,
    if times improved toward that value.
    """
    if not tuning.is_timed:
        return
    best = tuning.best.candidate.values
    for name, value in best.items():
        medians = _medians(tuning.trials, name, best)
        if len(medians) < _LEAST_VALUES or not is_real(value):
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
            f"the best {name}, {value}, is the {which} that was tried, and times fell toward it",
            gain / 2,
            None,
            f"Try {beyond} values of {name} too.",
            {
                "values": ", ".join(map(str, values)),
                "best": value,
                "faster than its neighbor by": f"{gain:.0%}",
            },
            f"{len(tuning.ranked)} configs, timed",
        )


def _medians(trials: tuple[Trial, ...], name: str, best: dict[str, Any]) -> dict[Any, float]:
    """Map each value of a parameter to the fastest median among the configs that have it."""
    medians: dict[Any, float] = {}
    for trial in trials:
        values = trial.candidate.values
        if trial.timing is None or trial.is_dropped or set(values) != set(best):
            continue
        value = values.get(name)
        if is_real(value):
            medians[value] = min(medians.get(value, float("inf")), trial.timing.median)
    return medians
