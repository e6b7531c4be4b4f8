"""Compilations back from what `saving` made of them."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, get_args

from kernellab.common.formatting import shown
from kernellab.common.saved_files import check_version
from kernellab.common.saved_json import Misfit, SavedData, pairs_of, value_of
from kernellab.compiler.files.format import BINARY, FORMAT, VERSION
from kernellab.compiler.providers import RecordProvider
from kernellab.compiler.remarks.catalogue import explained
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.records import (
    Compilation,
    FunctionSource,
    PassRun,
    Resources,
    SourceMap,
    Specialization,
    Stage,
    Stages,
    StoredText,
    Target,
)
from kernellab.records.launches import Origin, Path, is_architecture
from kernellab.records.remarks import Remark


def from_json(data: Any, name: str = "the record") -> Compilation:
    """The compilation that `to_json` made into `data`.

    Raises:
        ArchiveError: the data is of another kind or version, or does not fit the schema; the
            message says where.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(f"{name!r} holds JSON, but no compilation that KernelLab saved.")
    check_version(name, data, VERSION)
    try:
        return _compilation(SavedData(data))
    except Misfit as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error


_MOST_TEXTS = 20_000
"""Of a compilation: one for each stage and each pass that changes something."""


def _compilation(data: SavedData) -> Compilation:
    if len(data["texts"].items()) > _MOST_TEXTS:
        raise data["texts"].misfit(f"a list of no more than {_MOST_TEXTS:,}")
    texts = [StoredText(one.text()) for one in data["texts"].items()]
    for text in texts:
        text.pack()
    counts = [_counts(one) for one in data["op_counts"].items()]
    specialization = data["specialization"]
    resources, source_map, remarks = data["resources"], data["source_map"], data["remarks"]
    return Compilation(
        kernel=data["kernel"].text(),
        target=target_from_json(data["target"]),
        specialization=Specialization(
            signature=_by_name(specialization["signature"]),
            constants=_by_path(specialization["constants"]),
            attributes=_attributes(specialization["attributes"]),
            origins=_origins(specialization["origins"]),
        ),
        options=_options(data["options"]),
        stages=Stages({one.name: one for one in _stages(data["stages"], texts)}),
        passes=tuple(_pass(one, texts, counts) for one in data["passes"].items()),
        # Files of earlier versions have none.
        functions=tuple(map(_function, data["functions"].items() if data.has("functions") else ())),
        provider=RecordProvider(
            None if resources.is_null() else partial(_same, _resources(resources)),
            None if source_map.is_null() else partial(_same, _source_map(source_map)),
            None if remarks.is_null() else tuple(_remark(one) for one in remarks.items()),
        ),
    )


def _same(value: Any) -> Any:
    return value


def target_from_json(data: SavedData) -> Target:
    """A backend and its architecture; raises Misfit where they are none."""
    backend, arch = data["backend"].one_of("cuda", "hip"), data["arch"].text()
    if not is_architecture(backend, arch):
        raise data["arch"].misfit(f"an architecture of {backend}")
    return Target(backend, arch)


def _counts(data: SavedData) -> dict[str, int]:
    return {name: data[name].integer(0, 2**48) for name in data.names()}


def _by_name(data: SavedData) -> dict[str, Any]:
    found = pairs_of(data)
    if not all(isinstance(name, str) for name in found):
        raise data.misfit("values by name")
    return found


def _by_path(data: SavedData) -> dict[Path, Any]:
    found = pairs_of(data)
    for path in found:
        if not isinstance(path, tuple) or not all(type(one) is int for one in path):
            raise data.misfit("values by path")
    return found


def _attributes(data: SavedData) -> dict[Path, Any]:
    found = _by_path(data)
    for promises in found.values():
        if not isinstance(promises, list | tuple) or not all(map(_is_promise, promises)):
            raise data.misfit("lists of names and values, by path")
    return found


def _is_promise(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str)


def _origins(data: SavedData) -> dict[str, Origin]:
    found = _by_name(data)
    for origin in found.values():
        if not isinstance(origin, str) or origin not in get_args(Origin):
            raise data.misfit(f"by name one of {', '.join(get_args(Origin))}")
    return found


_COUNTED = {"num_warps": 1, "num_ctas": 1, "num_stages": 0}


def _options(data: SavedData) -> dict[str, Any]:
    """Options of the compiler's; those that are counts are computed with."""
    found = _by_name(data)
    for name, least in _COUNTED.items():
        value = found.get(name, least)
        if not (type(value) is int and least <= value <= 2**20):
            raise data.misfit(f"options whose {name!r} is a number of {name.partition('_')[2]}")
    return found


def _stages(data: SavedData, texts: list[StoredText]) -> Iterator[Stage]:
    for one in data.items():
        stage = _stage(one, texts)
        if (stage.name in BINARY) != isinstance(stage.content, bytes):
            raise one.misfit("a binary" if stage.name in BINARY else "a text")
        yield stage


def _stage(data: SavedData, texts: list[StoredText]) -> Stage:
    content: str | bytes
    if data.has("base64"):
        try:
            content = base64.b64decode(data["base64"].text(), validate=True)
        except ValueError as error:
            raise data["base64"].misfit("bytes in base64") from error
    else:
        content = data["text"].place_in(texts).read()
    return Stage(data["name"].text(), data["language"].text(), content)


def _pass(data: SavedData, texts: list[StoredText], counts: list[dict[str, int]]) -> PassRun:
    return PassRun(
        stage=data["stage"].text(),
        name=data["name"].text(),
        occurrence=data["occurrence"].integer(1, 2**31),
        arguments=tuple(value_of(one) for one in data["arguments"].items()),
        seconds=data["seconds"].number(least=0),
        changed=data["changed"].boolean(),
        op_counts_before=data["before"].place_in(counts),
        op_counts_after=data["after"].place_in(counts),
        text=data["text"].place_in(texts),
    )


def _resources(data: SavedData) -> Resources:
    known = {field.name for field in dataclasses.fields(Resources)}
    counts = _counts(data)
    if unknown := set(counts) - known:
        raise Misfit(f"resources has the unknown field {shown(sorted(unknown)[0])}")
    for name in ("registers", "spills", "shared_bytes", "stack_bytes"):
        data[name].integer()
    return Resources(**counts)


def _source_map(data: SavedData) -> SourceMap:
    for name in ("file", "files", "chains", "origins", "links"):
        data[name]
    try:
        found = SourceMap.from_json(data.plain())
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise data.misfit("a source map") from error
    if not _is_sound(found):
        raise data.misfit("a source map: its numbers lead nowhere")
    return found


def _is_sound(found: SourceMap) -> bool:
    """Whether the numbers of a source map are those of its files, chains and lines."""

    def are(numbers: Iterable[Any], least: int, end: int) -> bool:
        return all(type(one) is int and least <= one < end for one in numbers)

    files, chains = len(found.files), len(found.chains)
    return (
        all(isinstance(one, str) for one in (found.file, *found.files))
        and all(are(frame[:1], 0, files) for chain in found.chains for frame in chain)
        and all(are(frame[1:], 0, _MOST_LINES) for chain in found.chains for frame in chain)
        and all(are(numbers, 0, chains) for lines in found.origins.values() for numbers in lines)
        and all(are(numbers, 1, 2**31) for lines in found.links.values() for numbers in lines)
        and all(there != here for there, here in found.links)
    )


_MOST_LINES = 2_000_000
"""Of a source file."""


def _remark(data: SavedData) -> Remark:
    span = data["span"]
    saved = Remark(
        severity=data["severity"].one_of("remark", "warning", "note"),
        what=data["what"].text(),
        kind=data["origin"].one_of("mlir", "ptxas", "triton"),
        position=None if span.is_null() else _position(span),
        called_from=tuple(_position(one) for one in data["called_from"].items()),
    )
    return explained(saved)


def _function(data: SavedData) -> FunctionSource:
    lines = tuple(one.text() for one in data["lines"].items())
    first = data["first_line"].integer(1, _MOST_LINES - len(lines))
    return FunctionSource(data["file"].text(), data["name"].text(), first, lines)


def _position(data: SavedData) -> SourcePosition:
    parts = data.items()
    if len(parts) != 3:
        raise data.misfit("a file, a line and a column")
    line, column = (one.integer(0, _MOST_LINES) for one in parts[1:])
    return SourcePosition(parts[0].text(), line, column)
