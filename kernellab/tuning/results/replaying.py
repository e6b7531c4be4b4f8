"""Times that were recorded elsewhere, beside what the compiler says here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kernellab.common.argument_checks import listed
from kernellab.common.formatting import counted, shown
from kernellab.errors import ArgumentError
from kernellab.tuning.files.kernel_source import is_another
from kernellab.tuning.files.saved_sweeps import load_all
from kernellab.tuning.results.merging import sides
from kernellab.tuning.results.records import Outcome, Trial
from kernellab.tuning.results.tuning import Tuning

Recorded = str | os.PathLike[str] | Tuning | Iterable[Tuning]
"""A file of `Tuning.save` or `Tunings.save`, or the sweeps themselves."""


def with_recorded_times(tuning: Tuning, found: Sequence[Tuning]) -> Tuning:
    """A sweep that was compiled here, with the times that another took of the same launch.

    Raises:
        ArgumentError: none of the recorded sweeps is of this launch, or none of its configs is
            among those tried here.
    """
    for one in found:
        if _same_launch(one, tuning):
            return _with_times_of(one, tuning)
    known = "\n".join(f"  {_format_recorded(one)}" for one in found) or "  none"
    raise ArgumentError(
        f"no recorded sweep is of this launch, {_format_recorded(tuning)}",
        advice=f"There are:\n{known}\nKernel, target, types and sizes must be the same.",
    )


def recorded_sweeps(recorded: Recorded) -> list[Tuning]:
    """The sweeps of a file, or those that were given.

    Raises:
        ArchiveError: the file cannot be read.
        ArgumentError: something else was given.
    """
    if isinstance(recorded, str | os.PathLike):
        return load_all(recorded, Tuning)
    given: Any = [recorded] if isinstance(recorded, Tuning) else recorded  # whatever it may be
    sweeps = listed("recorded", given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, Tuning) for one in sweeps):
        raise ArgumentError(
            f"recorded={shown(recorded)} is no recorded sweep",
            advice='Give the path of a saved one, recorded="sweeps.json", or what load gives.',
        )
    return sweeps


def _same_launch(left: Tuning, right: Tuning) -> bool:
    """Whether a time depends on the same, but for the machine and the config;
    names of a key say nothing.
    """
    return all(one == other for what, one, other in sides(left, right) if what != "key")


def _format_recorded(tuning: Tuning) -> str:
    arguments = ", ".join(f"{name}: {value}" for name, value in tuning.arguments.items())
    return f"{tuning.kernel} for {tuning.target} ({arguments})"


def _with_times_of(recorded: Tuning, tuning: Tuning) -> Tuning:
    outcomes = {_name(one): one.outcome for one in recorded.trials}
    unknown = [one for one in tuning.trials if _name(one) not in outcomes]
    if outcomes and len(unknown) == len(tuning.trials):
        raise ArgumentError(
            f"no time was recorded of any of the {counted(len(unknown), 'config')}, "
            f"{unknown[0].candidate} for one",
            advice=f"Those that were recorded are such as {recorded.trials[0].candidate}: "
            "space has to name the same parameters and options.",
        )
    trials = tuple(
        replace(one, outcome=_completed(one.outcome, outcomes.get(_name(one), Outcome())))
        for one in tuning.trials
    )
    notes = [f"times were recorded with {recorded.machine}"]
    if recorded.machine.triton != tuning.machine.triton:
        notes[0] += (
            f"; registers, shared memory and occupancy are those of Triton {tuning.machine.triton}"
        )
    if unknown:
        notes.append(f"no time was recorded of {counted(len(unknown), 'config')}")
    if is_another(tuning.source, recorded.source):
        notes.append(f"the source of {tuning.kernel!r} is another than when they were recorded")
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
    """What the compiler says here, and what came of it there."""
    if here.dropped is not None:
        return here
    if there.dropped is not None:
        return replace(here, dropped=there.dropped)
    return replace(here, timing=there.timing, checked=here.checked or there.checked)
