"""Compilations back from what `saving` made of them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, get_args

from kernellab.common.saved_files import (
    MOST_LINES,
    Line,
    Misfit,
    RecordReader,
    SavedData,
    Size,
    check_version,
    pairs_of,
    value_of,
)
from kernellab.compiler.files.format import BINARY, FORMAT, VERSION
from kernellab.compiler.providers import RecordProvider
from kernellab.compiler.remarks.catalog import explained
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
from kernellab.records.compilations import Remark
from kernellab.records.launches import Origin, Path, is_architecture


def from_json(data: Any, name: str = "the record") -> Compilation:
    """The compilation that `to_json` made into `data`.

    Raises:
        ArchiveError: the data is of another kind or version, or does not fit the schema; the
            message says where.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(f"{name!r} contains JSON, but not a compilation that KernelLab saved.")
    check_version(name, data, VERSION)
    try:
        return _compilation(SavedData(data))
    except Misfit as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error


_READER = RecordReader()

_MOST_TEXTS = 20_000
"""Of a compilation: one for each stage and each pass that changes something."""


def _compilation(data: SavedData) -> Compilation:
    if len(data["texts"].items()) > _MOST_TEXTS:
        raise data["texts"].misfit(f"a list of no more than {_MOST_TEXTS:,}")
    texts = [StoredText(item.text()) for item in data["texts"].items()]
    for text in texts:
        text.pack()
    counts = _READER.read(tuple[dict[str, Size], ...], data["op_counts"])
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
        stages=Stages({stage.name: stage for stage in _stages(data["stages"], texts)}),
        passes=tuple(_pass(item, texts, counts) for item in data["passes"].items()),
        # Files of earlier versions have none.
        functions=tuple(map(_function, data["functions"].items() if data.has("functions") else ())),
        provider=RecordProvider(
            None if resources.is_null() else partial(_same, _READER.record(Resources, resources)),
            None if source_map.is_null() else partial(_same, _source_map(source_map)),
            None if remarks.is_null() else tuple(_remark(item) for item in remarks.items()),
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


def _by_name(data: SavedData) -> dict[str, Any]:
    by_name = pairs_of(data)
    if not all(isinstance(name, str) for name in by_name):
        raise data.misfit("values by name")
    return by_name


def _by_path(data: SavedData) -> dict[Path, Any]:
    by_path = pairs_of(data)
    for path in by_path:
        if not isinstance(path, tuple) or not all(type(number) is int for number in path):
            raise data.misfit("values by path")
    return by_path


def _attributes(data: SavedData) -> dict[Path, Any]:
    by_path = _by_path(data)
    for promises in by_path.values():
        if not isinstance(promises, list | tuple) or not all(map(_is_promise, promises)):
            raise data.misfit("lists of names and values, by path")
    return by_path


def _is_promise(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str)


def _origins(data: SavedData) -> dict[str, Origin]:
    by_name = _by_name(data)
    for origin in by_name.values():
        if not isinstance(origin, str) or origin not in get_args(Origin):
            raise data.misfit(f"by name one of {', '.join(get_args(Origin))}")
    return by_name


_COUNTED = {"num_warps": 1, "num_ctas": 1, "num_stages": 0}


def _options(data: SavedData) -> dict[str, Any]:
    """Options of the compiler's; those that are counts are computed with."""
    options = _by_name(data)
    for name, least in _COUNTED.items():
        value = options.get(name, least)
        if not (type(value) is int and least <= value <= 2**20):
            raise data.misfit(f"options whose {name!r} is a number of {name.partition('_')[2]}")
    return options


def _stages(data: SavedData, texts: list[StoredText]) -> Iterator[Stage]:
    for item in data.items():
        stage = _stage(item, texts)
        if (stage.name in BINARY) != isinstance(stage.content, bytes):
            raise item.misfit("a binary" if stage.name in BINARY else "a text")
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


def _pass(data: SavedData, texts: list[StoredText], counts: Sequence[dict[str, int]]) -> PassRun:
    return PassRun(
        stage=data["stage"].text(),
        name=data["name"].text(),
        occurrence=data["occurrence"].integer(1, 2**31),
        arguments=tuple(value_of(item) for item in data["arguments"].items()),
        seconds=data["seconds"].number(least=0),
        changed=data["changed"].boolean(),
        op_counts_before=data["before"].place_in(counts),
        op_counts_after=data["after"].place_in(counts),
        text=data["text"].place_in(texts),
    )


def _source_map(data: SavedData) -> SourceMap:
    for name in ("file", "files", "chains", "origins", "links"):
        data[name]
    try:
        source_map = SourceMap.from_json(data.plain())
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise data.misfit("a source map") from error
    if not _is_sound(source_map):
        raise data.misfit("a source map: its numbers lead nowhere")
    return source_map


def _is_sound(source_map: SourceMap) -> bool:
    """Whether the numbers of a source map are those of its files, chains and lines."""

    def are(numbers: Iterable[Any], least: int, end: int) -> bool:
        return all(type(number) is int and least <= number < end for number in numbers)

    files, chains = len(source_map.files), len(source_map.chains)
    return (
        all(isinstance(file, str) for file in (source_map.file, *source_map.files))
        and all(are(frame[:1], 0, files) for chain in source_map.chains for frame in chain)
        and all(are(frame[1:], 0, MOST_LINES) for chain in source_map.chains for frame in chain)
        and all(
            are(numbers, 0, chains) for lines in source_map.origins.values() for numbers in lines
        )
        and all(are(numbers, 1, 2**31) for lines in source_map.links.values() for numbers in lines)
        and all(there != here for there, here in source_map.links)
    )


def _remark(data: SavedData) -> Remark:
    span = data["span"]
    saved = Remark(
        severity=data["severity"].one_of("remark", "warning", "note"),
        what=data["what"].text(),
        kind=data["origin"].one_of("mlir", "ptxas", "triton"),
        position=None if span.is_null() else _position(span),
        called_from=tuple(_position(item) for item in data["called_from"].items()),
    )
    return explained(saved)


def _function(data: SavedData) -> FunctionSource:
    function: FunctionSource = _READER.record(FunctionSource, data)
    data["first_line"].integer(1, MOST_LINES - len(function.lines))
    return function


def _position(data: SavedData) -> SourcePosition:
    file, line, column = data.parts(3)
    return SourcePosition(file.text(), _READER.read(Line, line), _READER.read(Line, column))
