"""Merge sweeps of several machines into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.errors import ArgumentError
from kernellab.records.showing import described
from kernellab.tuning.files.kernel_source import differs
from kernellab.tuning.results.records import Machine, Trial

if TYPE_CHECKING:
    from kernellab.tuning.results.tuning import Tuning

_SEVERAL = "For several sizes or types of one kernel, use kernellab.Tunings([left, right])."
_ADVICE_TO_MERGE = {
    "kernel": "Only sweeps of one kernel can be merged.",
    "target": "Results for one target do not apply to another: keep the sweeps separate.",
}


def merge(left: Tuning, right: Tuning) -> Tuning:
    """Implement `Tuning.merged`."""
    if not isinstance(right, type(left)):
        raise ArgumentError(
            f"merged takes another sweep, got {described(right)}",
            advice="kernellab.load(path) reads saved sweeps.",
        )
    for what, first, second in sides(left, right):
        if first != second:
            raise ArgumentError(
                f"these sweeps differ in their {what}: {first} and {second}",
                advice=_ADVICE_TO_MERGE.get(what, _SEVERAL),
            )
    machine, notes = _one_machine(left.machine, right.machine)
    versions = []
    if differs(left.source, right.source):
        versions.append(f"merged from sweeps of two versions of {left.kernel!r}")
    trials = _all_trials(left.trials, [_as_part_of(left, right, trial) for trial in right.trials])
    return replace(
        left,
        trials=trials,
        machine=machine,
        known_work=left.work,
        baselines={**right.baselines, **left.baselines},
        seconds=left.seconds + right.seconds,
        notes=tuple(dict.fromkeys([*left.notes, *right.notes, *notes, *versions])),
        source=left.source or right.source,
        live=left.live and replace(left.live, calls={}, compiled={}),
    )


def sides(left: Tuning, right: Tuning) -> list[tuple[str, Any, Any]]:
    """Return what must be equal in two sweeps of one launch: its name, and its value in each."""
    depend = _depending_on_config(left) | _depending_on_config(right)

    def shared(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in depend}

    return [
        ("kernel", left.kernel, right.kernel),
        ("target", left.target, right.target),
        ("key", dict(left.key), dict(right.key)),
        ("arguments", dict(left.arguments), dict(right.arguments)),
        ("types", shared(left.types), shared(right.types)),
        ("constants", _text(shared(left.constants)), _text(shared(right.constants))),
    ]


def _depending_on_config(tuning: Tuning) -> set[str]:
    return {name for trial in tuning.trials for name in (*trial.types, *trial.constants)}


def _text(values: Mapping[str, Any]) -> str:
    """Format values by their repr, which is all that a file holds of a function."""
    return ", ".join(f"{name}={value!r}" for name, value in sorted(values.items()))


def _as_part_of(left: Tuning, right: Tuning, trial: Trial) -> Trial:
    """Return a config of `right` with those types and constants that differ from `left`'s."""
    types = {**right.types, **trial.types}
    constants = {**right.constants, **trial.constants}
    return replace(
        trial,
        types={name: kind for name, kind in types.items() if left.types.get(name) != kind},
        constants={
            name: value
            for name, value in constants.items()
            if repr(left.constants.get(name)) != repr(value)
        },
    )


def _one_machine(left: Machine, right: Machine) -> tuple[Machine, list[str]]:
    """Return the machine of both, and a note if they differ in their versions.

    A sweep that was not timed takes the other's machine.

    Raises:
        ArgumentError: the sweeps were timed on different GPUs.
    """
    if left.gpu and right.gpu and left.gpu != right.gpu:
        raise ArgumentError(
            f"one sweep was timed on {left.gpu}, the other on {right.gpu}, and times of different "
            "GPUs are never mixed",
            advice="Keep the sweeps separate, and compare their tables or plots.",
        )
    machine = left if left.gpu or not right.gpu else right
    if left == right or not (left.gpu and right.gpu):
        return machine, []
    return machine, [f"merged from sweeps with {left} and with {right}"]


def _all_trials(left: Sequence[Trial], right: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the configs of both, each once, numbered anew."""
    kept: dict[str, Trial] = {}
    for trial in (*left, *right):
        name = repr(sorted((key, repr(value)) for key, value in trial.candidate.values.items()))
        if name not in kept or _runs(trial) > _runs(kept[name]):
            kept[name] = trial
    return tuple(replace(trial, number=number) for number, trial in enumerate(kept.values()))


def _runs(trial: Trial) -> int:
    return 0 if trial.timing is None else trial.timing.runs
