"""Our own files of profiles."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy

from kernellab.common.saved_files import BadFile, check_version, gunzipped, json_in, text_in
from kernellab.common.saved_json import Misfit, SavedData
from kernellab.errors import ArchiveError
from kernellab.profiling.profiles.files.writing import COLUMNS, FORMAT, VERSION
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import (
    Device,
    Events,
    Machine,
    Perturbation,
    ProfiledKernel,
    ProfiledLine,
    Scope,
    ScopeKind,
)
from kernellab.profiling.profiles.trees import MOST_LEVELS

_BEGINNING = 512
"""Bytes of a file that say what it is."""


def is_of_profiles(content: bytes) -> bool:
    """Whether the bytes of a file begin as those of our own profiles do."""
    try:
        start = zlib.decompressobj(wbits=31).decompress(content[:_BEGINNING], _BEGINNING)
    except zlib.error:
        return False
    return start.startswith(json.dumps({"format": FORMAT})[:-1].encode())


def profile_in(content: bytes, file: Path) -> Profile:
    """The profile that the bytes of a file hold.

    Raises:
        ArchiveError: it is damaged, or of another version.
    """
    try:
        plain = json_in(text_in(gunzipped(content)), len(content))
        data = SavedData(plain)
        data["version"]
        check_version(str(file), plain, VERSION)
        return _profile(data["profile"])
    except BadFile as error:
        raise ArchiveError(f"{str(file)!r} {error}.") from error
    except Misfit as error:
        raise ArchiveError(f"{str(file)!r} is no whole profile: {error}.") from error


def _profile(data: SavedData) -> Profile:
    events = None if data["events"].is_null() else _events(data["events"])
    perturbation = data["perturbation"]
    return Profile(
        measured_by=data["measured_by"].text(),
        root=tree_of([_flat(one) for one in data["scopes"].items()], data["scopes"]),
        machine=_machine(data["machine"]),
        kernels=tuple(map(_kernel, data["kernels"].items())),
        notes=tuple(one.text() for one in data["notes"].items()),
        line_records=tuple(map(_line, data["lines"].items())),
        events=events,
        perturbation=None if perturbation.is_null() else _perturbation(perturbation),
        name=data["name"].text(),
    )


# The tree


def _flat(data: SavedData) -> tuple[Scope, int | None]:
    kind: ScopeKind = data["kind"].one_of(*get_args(ScopeKind))
    inside = None if data["in"].is_null() else data["in"].count()
    labels = data["labels"]
    scope = Scope(
        data["name"].text(),
        kind,
        numbers_in(data["metrics"]),
        labels={name: labels[name].text() for name in labels.names()},
    )
    return scope, inside


def tree_of(flat: list[tuple[Scope, int | None]], data: SavedData) -> Scope:
    """The tree of scopes of which each names the place of the one that it is in: one before it.

    Raises:
        Misfit: they are no tree, or one that is too deep.
    """
    if not flat or flat[0][1] is not None:
        raise data.misfit("a list that begins with the root")
    levels: list[int] = [0]
    children: list[list[int]] = [[] for _ in flat]
    for place, (_, inside) in enumerate(flat[1:], 1):
        if inside is None or inside >= place:
            raise data.misfit("a list in which each scope is in one before it")
        levels.append(levels[inside] + 1)
        if levels[-1] > MOST_LEVELS:
            raise data.misfit(f"a tree of at most {MOST_LEVELS} levels")
        children[inside].append(place)
    made: list[Scope] = [flat[0][0]] * len(flat)
    for place in reversed(range(len(flat))):
        one = flat[place][0]
        inner = tuple(made[child] for child in children[place])
        made[place] = Scope(one.name, one.kind, one.metrics, inner, one.labels)
    return made[0]


def numbers_in(data: SavedData) -> dict[str, float]:
    """Names with a number each."""
    return {name: data[name].number() for name in data.names()}


# What is beside it


def _machine(data: SavedData) -> Machine:
    versions = data["versions"]
    return Machine(
        data["target"].text(),
        data["device"].text(),
        {name: versions[name].text() for name in versions.names()},
        tuple(map(_device, data["devices"].items())),
    )


def _device(data: SavedData) -> Device:
    return Device(
        data["kind"].text(),
        data["index"].text(),
        data["arch"].text(),
        data["multiprocessors"].count(),
        data["clock_khz"].count(),
        data["memory_clock_khz"].count(),
        data["bus_bits"].count(),
    )


def _kernel(data: SavedData) -> ProfiledKernel:
    options = data["options"]
    return ProfiledKernel(
        name=data["name"].text(),
        launches=data["launches"].count(),
        options={name: _value(options[name]) for name in options.names()},
        code=data["code"].text(),
        file=data["file"].text(),
        line=data["line"].count(),
    )


def _value(data: SavedData) -> Any:
    value = data.plain()
    if isinstance(value, list | dict):
        raise data.misfit("a number, a text, true, false or null")
    return value


def _line(data: SavedData) -> ProfiledLine:
    return ProfiledLine(
        file=data["file"].text(),
        line=data["line"].count(),
        operation=data["operation"].text(),
        share=data["share"].number(0),
        cycles=None if data["cycles"].is_null() else data["cycles"].number(),
        executions=_count(data["executions"]),
        warps=_count(data["warps"]),
        programs=_count(data["programs"]),
        scope=data["scope"].integer(-1),
        kernel=data["kernel"].text(),
        metrics=numbers_in(data["metrics"]),
    )


def _count(data: SavedData) -> int | None:
    return None if data.is_null() else data.count()


def _perturbation(data: SavedData) -> Perturbation:
    counts = {
        name: _count(data[name])
        for name in (
            "shared_before", "shared_after", "registers_before", "registers_after",
            "events_kept", "events_lost",
        )
    }  # fmt: skip
    return Perturbation(
        data["plain_us"].number(0),
        data["instrumented_us"].number(0),
        data["method"].text(),
        **counts,
    )


def _events(data: SavedData) -> Events:
    names = tuple(one.text() for one in data["names"].items())
    columns = program, warp, scope, start, end = [_column(data[name]) for name in COLUMNS]
    if len({len(one) for one in columns}) != 1:
        raise data.misfit("columns of one length")
    if len(scope) and not (scope.min() >= 0 and scope.max() < len(names)):
        raise data.misfit("events of the scopes that it names")
    if any(len(one) and max(-int(one.min()), int(one.max())) > _LATEST for one in columns):
        raise data.misfit("events of sane times")
    unit = cast(Literal["cycles", "ns"], data["unit"].one_of("cycles", "ns"))
    return Events(program, warp, scope, start, end, names, unit)


_LATEST = 2**62
"""Of a time: differences of two have 64 bits too."""


def _column(data: SavedData) -> numpy.ndarray:
    try:
        content = base64.b64decode(data.text(), validate=True)
        return numpy.frombuffer(content, dtype="<i8").astype(numpy.int64)
    except (binascii.Error, ValueError) as error:
        raise data.misfit("integers of 64 bits, as base64") from error
