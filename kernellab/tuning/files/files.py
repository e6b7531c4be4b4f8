"""Sweeps on disk, and sweeps of several machines put together."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kernellab.common.saved_json import Misfit, save_whole, why_unreadable
from kernellab.errors import ArchiveError, ArgumentError
from kernellab.records import Target
from kernellab.tuning.files.kernel_source import KernelSource, is_another
from kernellab.tuning.files.plain_data import (
    machine_from_json,
    machine_to_json,
    trial_from_json,
    trial_to_json,
    values_from_json,
    values_to_json,
)
from kernellab.tuning.results.records import Machine, Timing, Trial
from kernellab.tuning.results.tuning import Tuning, Work

FORMAT = "kernellab.tuning"
VERSION = 1


def save(tunings: Iterable[Tuning], path: str | os.PathLike[str]) -> Path:
    """Write sweeps to one JSON file; a file that is there is overwritten once the new
    one is complete.

    Raises:
        ArchiveError: the file cannot be written.
    """
    file = Path(path)
    data = {"format": FORMAT, "version": VERSION, "tunings": [to_json(one) for one in tunings]}
    return save_whole(file, (json.dumps(data, indent=1) + "\n").encode(), ArchiveError)


def to_json(tuning: Tuning) -> dict[str, Any]:
    """A sweep as plain data."""
    return {
        "kernel": tuning.kernel,
        **({} if tuning.source is None else {"source": tuning.source.to_json()}),
        "target": {"backend": tuning.target.backend, "arch": tuning.target.arch},
        "key": values_to_json(tuning.key),
        "arguments": dict(tuning.arguments),
        "types": values_to_json(tuning.types),
        "constants": values_to_json(tuning.constants),
        "machine": machine_to_json(tuning.machine),
        "work": asdict(tuning.work),
        "baselines": {name: asdict(one) for name, one in tuning.baselines.items()},
        "seconds": round(tuning.seconds, 3),
        "pruned": tuning.pruned,
        "notes": list(tuning.notes),
        "trials": [trial_to_json(one) for one in tuning.trials],
    }


def from_json(data: Mapping[str, Any]) -> Tuning:
    """What `to_json` made.

    Raises:
        KeyError, TypeError, ValueError, Misfit: it is none.
    """
    return Tuning(
        kernel=str(data["kernel"]),
        target=Target(data["target"]["backend"], str(data["target"]["arch"])),
        key=values_from_json(data["key"]),
        arguments=dict(data["arguments"]),
        types=values_from_json(data["types"]),
        constants=values_from_json(data["constants"]),
        trials=tuple(trial_from_json(one) for one in data["trials"]),
        machine=machine_from_json(data["machine"]),
        known_work=Work(**data["work"]),
        baselines={name: Timing(**one) for name, one in data["baselines"].items()},
        seconds=float(data["seconds"]),
        pruned=int(data["pruned"]),
        notes=tuple(data["notes"]),
        source=KernelSource.from_json(data["source"]) if "source" in data else None,
    )


def load_all(path: str | os.PathLike[str]) -> list[Tuning]:
    """The sweeps that a file holds, in order.

    Raises:
        ArchiveError: there is no such file, it holds no sweeps, is damaged, or of another version.
    """
    name = str(path)
    data = _read(Path(path))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(
            f"{name!r} holds JSON, but no sweep that KernelLab saved.", advice=_WHO_WRITES
        )
    if data.get("version") != VERSION:
        raise ArchiveError(
            f"{name!r} is of version {data.get('version')!r} of the format; this KernelLab reads "
            f"version {VERSION}."
        )
    try:
        return [from_json(one) for one in data["tunings"]]
    except (KeyError, TypeError, ValueError, AttributeError, Misfit) as error:
        words = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArchiveError(f"{name!r} is damaged: {words}.") from error


_WHO_WRITES = "tuning.save writes one; kernellab.load reads saved compilations and traces too."


def _read(file: Path) -> Any:
    """The JSON of a file.

    Raises:
        ArchiveError: there is no such file, or it holds something else.
    """
    name = str(file)
    try:
        text = file.read_text()
    except OSError as error:
        raise ArchiveError(why_unreadable(file, error)) from error
    except UnicodeDecodeError as error:
        raise ArchiveError(
            f"{name!r} holds no text, so no saved sweep.", advice=_WHO_WRITES
        ) from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if not text.lstrip().startswith(("{", "[")):
            holds = "it holds no JSON" if text.strip() else "it is empty"
            raise ArchiveError(
                f"{name!r} is no saved sweep: {holds}.", advice=_WHO_WRITES
            ) from error
        raise ArchiveError(
            f"{name!r} is damaged: its JSON breaks off or goes wrong at line {error.lineno}, "
            f"column {error.colno}."
        ) from error


def load_one(path: str | os.PathLike[str]) -> Tuning:
    """The only sweep of a file.

    Raises:
        ArchiveError: as `load_all`, or it holds none or several.
    """
    found = load_all(path)
    if len(found) != 1:
        raise ArchiveError(
            f"{str(path)!r} holds {len(found)} sweeps, not one.",
            advice="kernellab.Tunings.load(path) reads them all.",
        )
    return found[0]


# Put together

_SEVERAL = "Several sizes or types of one kernel: kernellab.Tunings([left, right])."
_ADVICE_TO_MERGE = {
    "kernel": "Only sweeps of one kernel are put together.",
    "target": "What is right for one target says nothing of another: keep them apart.",
}


def merge(left: Tuning, right: Tuning) -> Tuning:
    """`Tuning.merged`."""
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
