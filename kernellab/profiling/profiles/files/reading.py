"""Profiles from files: our own form, Proton's, Chrome's."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import numpy

from kernellab.common.saved_files import BadFile, check_version, gunzipped, json_in, text_in
from kernellab.common.saved_json import Misfit, SavedData
from kernellab.common.saved_records import Count, RecordReader
from kernellab.errors import ArchiveError
from kernellab.profiling.profiles.files.chrome import chrome_in, is_chrome
from kernellab.profiling.profiles.files.hatchet import hatchet_in, is_hatchet
from kernellab.profiling.profiles.files.writing import COLUMNS, FORMAT, VERSION
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import (
    PROTON,
    Events,
    Machine,
    Perturbation,
    ProfiledKernel,
    ProfiledLine,
    Scope,
)
from kernellab.profiling.profiles.trees import MOST_LEVELS

_READER = RecordReader()

_BEGINNING = 512
"""Bytes of a file that say what it is."""


def _is_own(content: bytes) -> bool:
    try:
        start = zlib.decompressobj(wbits=31).decompress(content[:_BEGINNING], _BEGINNING)
    except zlib.error:
        return False
    return start.startswith(json.dumps({"format": FORMAT})[:-1].encode())


def profile_in(content: bytes, file: Path) -> Profile | None:
    """Return the profile that the bytes of a file hold, whoever wrote it; None if they hold none.

    Raises:
        ArchiveError: it is damaged, or of another version.
    """
    try:
        if _is_own(content):
            return _own(content, file)
        if is_hatchet(content):
            return replace(hatchet_in(content, PROTON), name=file.name)
        if is_chrome(content):
            return replace(chrome_in(content, "a trace in Chrome's form"), name=file.name)
    except BadFile as error:
        raise ArchiveError(f"{str(file)!r} {error}.") from error
    except Misfit as error:
        raise ArchiveError(f"{str(file)!r} is not a complete profile: {error}.") from error
    return None


def _own(content: bytes, file: Path) -> Profile:
    plain = json_in(text_in(gunzipped(content)), len(content))
    data = SavedData(plain)
    data["version"]
    check_version(str(file), plain, VERSION)
    return _profile(data["profile"])


def _profile(data: SavedData) -> Profile:
    read = _READER.read
    scopes = [
        (_READER.record(Scope, item, ["in"]), read(Count | None, item["in"]))
        for item in data["scopes"].items()
    ]
    return Profile(
        measured_by=data["measured_by"].text(),
        root=tree_of(scopes, data["scopes"]),
        machine=read(Machine, data["machine"]),
        kernels=read(tuple[ProfiledKernel, ...], data["kernels"]),
        notes=read(tuple[str, ...], data["notes"]),
        line_records=read(tuple[ProfiledLine, ...], data["lines"]),
        events=None if data["events"].is_null() else _events(data["events"]),
        perturbation=read(Perturbation | None, data["perturbation"]),
        name=data["name"].text(),
    )


def tree_of(flat: list[tuple[Scope, int | None]], data: SavedData) -> Scope:
    """The tree of scopes of which each names the place of the one that it is in: one before it.

    Raises:
        Misfit: they are not a tree, or the tree is too deep.
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
        node = flat[place][0]
        inner = tuple(made[child] for child in children[place])
        made[place] = Scope(node.name, node.kind, node.metrics, inner, node.labels)
    return made[0]


def _events(data: SavedData) -> Events:
    names = tuple(item.text() for item in data["names"].items())
    columns = program, warp, scope, start, end = [_column(data[name]) for name in COLUMNS]
    if len({len(column) for column in columns}) != 1:
        raise data.misfit("columns of one length")
    if len(scope) and not (scope.min() >= 0 and scope.max() < len(names)):
        raise data.misfit("events of the scopes that it names")
    if any(
        len(column) and max(-int(column.min()), int(column.max())) > _LATEST for column in columns
    ):
        raise data.misfit("events with times in range")
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
