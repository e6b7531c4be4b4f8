"""Combine times that were recorded on another machine with what the compiler reports here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kernellab.common.argument_checks import listed
from kernellab.common.formatting import counted, shown
from kernellab.errors import ArgumentError
from kernellab.tuning.files.kernel_source import differs
from kernellab.tuning.files.saved_sweeps import load_all
from kernellab.tuning.results.merging import sides
from kernellab.tuning.results.records import Outcome, Trial
from kernellab.tuning.results.tuning import Tuning

Recorded = str | os.PathLike[str] | Tuning | Iterable[Tuning]
"""A file of `Tuning.save` or `Tunings.save`, or the sweeps themselves."""


def with_recorded_times(tuning: Tuning, recorded: Sequence[Tuning]) -> Tuning:
    """Return a sweep that was compiled here with the recorded times of the same launch.

    Raises:
        ArgumentError: none of the recorded sweeps is of this launch, or none of its configs is
            among those tried here.
    """
    for other in recorded:
        if _same_launch(other, tuning):
            return _with_times_of(other, tuning)
    known = "\n".join(f"  {_format_recorded(other)}" for other in recorded) or "  none"
    raise ArgumentError(
        f"no recorded sweep matches this launch, {_format_recorded(tuning)}",
        advice=(
            "Kernel, target, types and sizes must be the same. The recorded sweeps are:\n" + known
        ),
    )


def recorded_sweeps(recorded: Recorded) -> list[Tuning]:
    """Return the sweeps of a file, or those that were given.

    Raises:
        ArchiveError: the file cannot be read.
        ArgumentError: `recorded` is neither a path nor sweeps.
    """
    if isinstance(recorded, str | os.PathLike):
        return load_all(recorded, Tuning)
    given: Any = [recorded] if isinstance(recorded, Tuning) else recorded  # whatever it may be
    sweeps = listed("recorded", given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(sweep, Tuning) for sweep in sweeps):
        raise ArgumentError(
            f"recorded must be the path of a saved sweep or a Tuning, got {shown(recorded)}",
            advice='Write recorded="sweeps.json", or pass what kernellab.load returns.',
        )
    return sweeps


def _same_launch(left: Tuning, right: Tuning) -> bool:
    """Whether two sweeps are of the same launch; the names in their keys do not matter."""
    return all(first == second for what, first, second in sides(left, right) if what != "key")


def _format_recorded(tuning: Tuning) -> str:
    arguments = ", ".join(f"{name}: {value}" for name, value in tuning.arguments.items())
    return f"{tuning.kernel} for {tuning.target} ({arguments})"


def _with_times_of(recorded: Tuning, tuning: Tuning) -> Tuning:
    outcomes = {_name(trial): trial.outcome for trial in recorded.trials}
    unknown = [trial for trial in tuning.trials if _name(trial) not in outcomes]
    if outcomes and len(unknown) == len(tuning.trials):
        raise ArgumentError(
            f"no time was recorded for any of the {counted(len(unknown), 'config')}, such as "
            f"{unknown[0].candidate}",
            advice=f"A recorded config is {recorded.trials[0].candidate}: space must name the "
            "same parameters and options.",
        )
    trials = tuple(
        replace(trial, outcome=_completed(trial.outcome, outcomes.get(_name(trial), Outcome())))
        for trial in tuning.trials
    )
    notes = [f"times were recorded with {recorded.machine}"]
    if recorded.machine.triton != tuning.machine.triton:
        notes[0] += (
            f"; registers, shared memory and occupancy are those of Triton {tuning.machine.triton}"
        )
    if unknown:
        notes.append(f"no time was recorded for {counted(len(unknown), 'config')}")
    if differs(tuning.source, recorded.source):
        notes.append(f"the source of {tuning.kernel!r} changed after the times were recorded")
    return replace(
        tuning,
        trials=trials,
        machine=recorded.machine,
        baselines=recorded.baselines,
        notes=(*tuning.notes, *notes, *recorded.notes),
    )


def _name(trial: Trial) -> str:
    return repr(sorted((name, repr(value)) for name, value in trial.candidate.values.items()))


def _completed(here: Outcome, there: Outcome) -> Outcome:
    """Combine what the compiler reports here with the recorded outcome."""
    if here.dropped is not None:
        return here
    if there.dropped is not None:
        return replace(here, dropped=there.dropped)
    return replace(here, timing=there.timing, checked=here.checked or there.checked)
