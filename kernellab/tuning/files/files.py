"""Sweeps on disk: one JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.common.saved_json import Misfit, save_whole, why_unreadable
from kernellab.errors import ArchiveError
from kernellab.records import Target
from kernellab.tuning.files.kernel_source import KernelSource
from kernellab.tuning.files.plain_data import (
    machine_from_json,
    machine_to_json,
    trial_from_json,
    trial_to_json,
    values_from_json,
    values_to_json,
)
from kernellab.tuning.results.records import Timing, Work

if TYPE_CHECKING:
    from kernellab.tuning.results.tuning import Tuning

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


def from_json(data: Mapping[str, Any], kind: type[Tuning]) -> Tuning:
    """What `to_json` made; the class is given by those who know it, which use this file.

    Raises:
        KeyError, TypeError, ValueError, Misfit: it is none.
    """
    return kind(
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


def load_all(path: str | os.PathLike[str], kind: type[Tuning]) -> list[Tuning]:
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
        return [from_json(one, kind) for one in data["tunings"]]
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


def load_one(path: str | os.PathLike[str], kind: type[Tuning]) -> Tuning:
    """The only sweep of a file.

    Raises:
        ArchiveError: as `load_all`, or it holds none or several.
    """
    found = load_all(path, kind)
    if len(found) != 1:
        raise ArchiveError(
            f"{str(path)!r} holds {len(found)} sweeps, not one.",
            advice="kernellab.Tunings.load(path) reads them all.",
        )
    return found[0]
