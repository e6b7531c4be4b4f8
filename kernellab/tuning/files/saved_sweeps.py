"""Sweeps on disk: one JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.common.saved_files import (
    BadFile,
    NotJson,
    NotText,
    file_bytes,
    is_version,
    json_in,
    text_in,
)
from kernellab.common.saved_json import Misfit, SavedData, save_whole, saved_path
from kernellab.compiler.files.restore import target_from_json
from kernellab.errors import ArchiveError
from kernellab.tuning.files.kernel_source import KernelSource
from kernellab.tuning.files.plain_data import (
    machine_from_json,
    machine_to_json,
    timing_from_json,
    trial_from_json,
    trial_to_json,
    values_from_json,
    values_to_json,
    work_from_json,
)

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
    file = saved_path(path, ArchiveError)
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


def from_json(data: SavedData, kind: type[Tuning]) -> Tuning:
    """What `to_json` made; the class is given by those who know it, which use this file.

    Raises:
        ValueError, Misfit: it is none.
    """
    arguments, baselines = data["arguments"], data["baselines"]
    found = kind(
        kernel=data["kernel"].text(),
        target=target_from_json(data["target"]),
        key=values_from_json(data["key"]),
        arguments={name: arguments[name].text() for name in arguments.names()},
        types=values_from_json(data["types"]),
        constants=values_from_json(data["constants"]),
        trials=tuple(trial_from_json(one) for one in data["trials"].items()),
        machine=machine_from_json(data["machine"]),
        known_work=work_from_json(data["work"]),
        baselines={name: timing_from_json(baselines[name]) for name in baselines.names()},
        seconds=float(data["seconds"].number(0, 1e15)),
        pruned=data["pruned"].count(),
        notes=tuple(one.text() for one in data["notes"].items()),
        source=KernelSource.from_json(data["source"].plain()) if data.has("source") else None,
    )
    if len({one.number for one in found.trials}) != len(found.trials):
        raise data["trials"].misfit("configs of different numbers")
    return found


def load_all(path: str | os.PathLike[str], kind: type[Tuning]) -> list[Tuning]:
    """The sweeps that a file holds, in order.

    Raises:
        ArchiveError: there is no such file, it holds no sweeps, is damaged, or of another version.
    """
    file = saved_path(path, ArchiveError)
    return sweeps_in(file_bytes(file, ArchiveError), file, kind)


def sweeps_in(content: bytes, file: Path, kind: type[Tuning]) -> list[Tuning]:
    """The sweeps that the bytes of a file hold; raises as `load_all`."""
    name = str(file)
    data = _parsed(content, name)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(
            f"{name!r} holds JSON, but no sweep that KernelLab saved.", advice=_WHO_WRITES
        )
    if not is_version(data.get("version"), VERSION):
        raise ArchiveError(
            f"{name!r} is of version {data.get('version')!r:.40} of the format; this KernelLab "
            f"reads version {VERSION}."
        )
    if "tunings" not in data:
        raise ArchiveError(f"{name!r} is damaged: 'tunings' is missing.")
    try:
        found = [from_json(one, kind) for one in SavedData(data)["tunings"].items()]
    except (ValueError, Misfit) as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error
    kernels = dict.fromkeys(one.kernel for one in found)
    if len(kernels) > 1:
        raise ArchiveError(f"{name!r} is damaged: its sweeps are of {', '.join(kernels):.200}.")
    return found


_WHO_WRITES = "tuning.save writes one; kernellab.load reads saved compilations and traces too."


def _parsed(content: bytes, name: str) -> Any:
    """The JSON of a file.

    Raises:
        ArchiveError: it holds something else.
    """
    try:
        text = text_in(content)
    except NotText as error:
        raise ArchiveError(
            f"{name!r} holds no text, so no saved sweep.", advice=_WHO_WRITES
        ) from error
    try:
        return json_in(text)
    except NotJson as error:
        if not text.lstrip().startswith(("{", "[")):
            holds = "it holds no JSON" if text.strip() else "it is empty"
            raise ArchiveError(
                f"{name!r} is no saved sweep: {holds}.", advice=_WHO_WRITES
            ) from error
        raise ArchiveError(
            f"{name!r} is damaged: its JSON breaks off or goes wrong at line {error.line}, "
            f"column {error.column}."
        ) from error
    except BadFile as error:
        raise ArchiveError(f"{name!r} {error}.") from error


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
