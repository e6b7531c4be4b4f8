"""Save sweeps to one JSON file, and load them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
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
from kernellab.errors import ArchiveError
from kernellab.tuning.files.plain_data import READER, trial_to_json, values_to_json
from kernellab.tuning.results.records import Work

if TYPE_CHECKING:
    from kernellab.tuning.results.tuning import Tuning

FORMAT = "kernellab.tuning"
VERSION = 1


def save(tunings: Iterable[Tuning], path: str | os.PathLike[str]) -> Path:
    """Write sweeps to one JSON file; an existing file is replaced once the new one is complete.

    Raises:
        ArchiveError: the file cannot be written.
    """
    file = saved_path(path, ArchiveError)
    sweeps = [to_json(tuning) for tuning in tunings]
    data = {"format": FORMAT, "version": VERSION, "tunings": sweeps}
    return save_whole(file, (json.dumps(data, indent=1) + "\n").encode(), ArchiveError)


def to_json(tuning: Tuning) -> dict[str, Any]:
    """Return a sweep as plain data."""
    return {
        "kernel": tuning.kernel,
        **({} if tuning.source is None else {"source": asdict(tuning.source)}),
        "target": {"backend": tuning.target.backend, "arch": tuning.target.arch},
        "key": values_to_json(tuning.key),
        "arguments": dict(tuning.arguments),
        "types": values_to_json(tuning.types),
        "constants": values_to_json(tuning.constants),
        "machine": asdict(tuning.machine),
        "work": asdict(tuning.work),
        "baselines": {name: asdict(timing) for name, timing in tuning.baselines.items()},
        "seconds": round(tuning.seconds, 3),
        "pruned": tuning.pruned,
        "notes": list(tuning.notes),
        "trials": [trial_to_json(trial) for trial in tuning.trials],
    }


def from_json(data: SavedData, kind: type[Tuning]) -> Tuning:
    """Read what `to_json` made.

    Args:
        data: the plain data.
        kind: the class `Tuning`, whose module imports this one.

    Raises:
        Misfit: the data is not a saved sweep.
    """
    tuning: Tuning = READER.record(kind, data, ["work"])
    tuning = replace(tuning, known_work=READER.read(Work, data["work"]))
    if len({trial.number for trial in tuning.trials}) != len(tuning.trials):
        raise data["trials"].misfit("configs of different numbers")
    return tuning


def load_all(path: str | os.PathLike[str], kind: type[Tuning]) -> list[Tuning]:
    """Return the sweeps of a file, in order.

    Raises:
        ArchiveError: there is no such file, or it has no sweeps, is damaged, or is of another
            version.
    """
    file = saved_path(path, ArchiveError)
    return sweeps_in(file_bytes(file, ArchiveError), file, kind)


def sweeps_in(content: bytes, file: Path, kind: type[Tuning]) -> list[Tuning]:
    """Return the sweeps in the bytes of a file; raise as `load_all`."""
    name = str(file)
    data = _parsed(content, name)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(
            f"{name!r} contains JSON, but not a sweep that KernelLab saved.", advice=_WHO_WRITES
        )
    if not is_version(data.get("version"), VERSION):
        raise ArchiveError(
            f"{name!r} is of version {data.get('version')!r:.40} of the format; this KernelLab "
            f"reads version {VERSION}."
        )
    if "tunings" not in data:
        raise ArchiveError(f"{name!r} is damaged: 'tunings' is missing.")
    try:
        tunings = [from_json(saved, kind) for saved in SavedData(data)["tunings"].items()]
    except Misfit as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error
    kernels = dict.fromkeys(tuning.kernel for tuning in tunings)
    if len(kernels) > 1:
        raise ArchiveError(
            f"{name!r} is damaged: its sweeps are of several kernels: {', '.join(kernels):.200}."
        )
    return tunings


_WHO_WRITES = (
    "tuning.save writes saved sweeps; kernellab.load also reads saved compilations and traces."
)


def _parsed(content: bytes, name: str) -> Any:
    """Return the JSON of a file.

    Raises:
        ArchiveError: the file contains something else.
    """
    try:
        text = text_in(content)
    except NotText as error:
        raise ArchiveError(
            f"{name!r} is not a saved sweep: it is not a text file.", advice=_WHO_WRITES
        ) from error
    try:
        return json_in(text)
    except NotJson as error:
        if not text.lstrip().startswith(("{", "[")):
            reason = "it does not contain JSON" if text.strip() else "it is empty"
            raise ArchiveError(
                f"{name!r} is not a saved sweep: {reason}.", advice=_WHO_WRITES
            ) from error
        raise ArchiveError(
            f"{name!r} is damaged: its JSON ends early or is invalid at line {error.line}, "
            f"column {error.column}."
        ) from error
    except BadFile as error:
        raise ArchiveError(f"{name!r} {error}.") from error


def load_one(path: str | os.PathLike[str], kind: type[Tuning]) -> Tuning:
    """Return the only sweep of a file.

    Raises:
        ArchiveError: as `load_all`, or the file does not have exactly one sweep.
    """
    tunings = load_all(path, kind)
    if len(tunings) != 1:
        raise ArchiveError(
            f"{str(path)!r} must contain one sweep, but has {len(tunings)}.",
            advice="kernellab.Tunings.load(path) reads them all.",
        )
    return tunings[0]
