"""Sweeps of several machines put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.errors import ArgumentError
from kernellab.records.showing import described
from kernellab.tuning.files.kernel_source import is_another
from kernellab.tuning.results.records import Machine, Trial

if TYPE_CHECKING:
    from kernellab.tuning.results.tuning import Tuning

_SEVERAL = "Several sizes or types of one kernel: kernellab.Tunings([left, right])."
_ADVICE_TO_MERGE = {
    "kernel": "Only sweeps of one kernel are put together.",
    "target": "What is right for one target says nothing of another: keep them apart.",
}


def merge(left: Tuning, right: Tuning) -> Tuning:
    """`Tuning.merged`."""
    if not isinstance(right, type(left)):
        raise ArgumentError(
            f"merged takes another sweep, and this is {described(right)}",
            advice="Tunings([...]) holds several; kernellab.load(path) reads them.",
        )
    for what, one, other in sides(left, right):
        if one != other:
            raise ArgumentError(
                f"these sweeps differ in their {what}: {one} and {other}",
                advice=_ADVICE_TO_MERGE.get(what, _SEVERAL),
            )
    machine, notes = _one_machine(left.machine, right.machine)
    versions = []
    if is_another(left.source, right.source):
        versions.append(f"put together from sweeps of two versions of {left.kernel!r}")
    trials = _all_trials(left.trials, [_as_part_of(left, right, one) for one in right.trials])
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
    """What makes two sweeps those of one launch: its name, and how it is in each."""
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
    return {name for one in tuning.trials for name in (*one.types, *one.constants)}


def _text(values: Mapping[str, Any]) -> str:
    """A function's repr is all that a file has of it."""
    return ", ".join(f"{name}={value!r}" for name, value in sorted(values.items()))


def _as_part_of(left: Tuning, right: Tuning, trial: Trial) -> Trial:
    """A config of `right` with the types and constants in which its launch differs
    from those of `left`.
    """
    types = {**right.types, **trial.types}
    constants = {**right.constants, **trial.constants}
    return replace(
        trial,
        types={name: one for name, one in types.items() if left.types.get(name) != one},
        constants={
            name: one
            for name, one in constants.items()
            if repr(left.constants.get(name)) != repr(one)
        },
    )


def _one_machine(left: Machine, right: Machine) -> tuple[Machine, list[str]]:
    """The machine of both; a sweep that was not timed takes the other's.

    Raises:
        ArgumentError: they were timed on different GPUs.
    """
    if left.gpu and right.gpu and left.gpu != right.gpu:
        raise ArgumentError(
            f"one sweep was timed on {left.gpu}, the other on {right.gpu}: such times "
            "are never mixed",
            advice="Keep them apart, and compare their tables or plots.",
        )
    machine = left if left.gpu or not right.gpu else right
    if left == right or not (left.gpu and right.gpu):
        return machine, []
    return machine, [f"put together from sweeps with {left} and with {right}"]


def _all_trials(left: Sequence[Trial], right: Sequence[Trial]) -> tuple[Trial, ...]:
    """The configs of both, each once, numbered anew."""
    kept: dict[str, Trial] = {}
    for one in (*left, *right):
        name = repr(sorted((key, repr(value)) for key, value in one.candidate.values.items()))
        if name not in kept or _knows_more(one, kept[name]):
            kept[name] = one
    return tuple(replace(one, number=number) for number, one in enumerate(kept.values()))


def _knows_more(one: Trial, other: Trial) -> bool:
    runs = [0 if trial.timing is None else trial.timing.runs for trial in (one, other)]
    return runs[0] > runs[1]
