"""Compilations back from what `saving` made of them."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from functools import partial
from typing import Any

from kernellab.common.saved_json import Misfit, SavedData, kernellab_version, pairs_of, value_of
from kernellab.compiler.files.format import FORMAT, VERSION
from kernellab.compiler.providers import RecordProvider
from kernellab.compiler.remarks.catalogue import explained
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.records import (
    Compilation,
    PassRun,
    Resources,
    SourceMap,
    Specialization,
    Stage,
    Stages,
    StoredText,
    Target,
)
from kernellab.records.remarks import Remark


def from_json(data: Any, name: str = "the record") -> Compilation:
    """The compilation that `to_json` made into `data`.

    Raises:
        ArchiveError: the data is of another kind or version, or does not fit the schema; the
            message says where.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(f"{name!r} holds JSON, but no compilation that KernelLab saved.")
    if data.get("version") != VERSION:
        raise ArchiveError(
            f"{name!r} is of version {data.get('version')!r} of the format; this KernelLab "
            f"({kernellab_version()}) reads version {VERSION}.",
            advice="It was written by KernelLab "
            + str(data.get("kernellab"))
            + ": load it with that one.",
        )
    try:
        return _compilation(SavedData(data))
    except Misfit as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error


def _compilation(data: SavedData) -> Compilation:
    texts = [StoredText(one.text()) for one in data["texts"].items()]
    for text in texts:
        text.pack()
    counts = [_counts(one) for one in data["op_counts"].items()]
    specialization = data["specialization"]
    resources, source_map, remarks = data["resources"], data["source_map"], data["remarks"]
    return Compilation(
        kernel=data["kernel"].text(),
        target=Target(
            data["target"]["backend"].one_of("cuda", "hip"), data["target"]["arch"].text()
        ),
        specialization=Specialization(
            signature=pairs_of(specialization["signature"]),
            constants=pairs_of(specialization["constants"]),
            attributes=pairs_of(specialization["attributes"]),
            origins=pairs_of(specialization["origins"]),
        ),
        options=pairs_of(data["options"]),
        stages=Stages(
            {stage["name"].text(): _stage(stage, texts) for stage in data["stages"].items()}
        ),
        passes=tuple(_pass(one, texts, counts) for one in data["passes"].items()),
        provider=RecordProvider(
            None if resources.is_null() else partial(_same, _resources(resources)),
            None if source_map.is_null() else partial(_same, _source_map(source_map)),
            None if remarks.is_null() else tuple(_remark(one) for one in remarks.items()),
        ),
    )


def _same(value: Any) -> Any:
    return value


def _counts(data: SavedData) -> dict[str, int]:
    return {name: data[name].integer() for name in data.names()}


def _stage(data: SavedData, texts: list[StoredText]) -> Stage:
    content: str | bytes
    if data.has("base64"):
        try:
            content = base64.b64decode(data["base64"].text(), validate=True)
        except binascii.Error as error:
            raise data["base64"].misfit("bytes in base64") from error
    else:
        content = data["text"].place_in(texts).read()
    return Stage(data["name"].text(), data["language"].text(), content)


def _pass(data: SavedData, texts: list[StoredText], counts: list[dict[str, int]]) -> PassRun:
    return PassRun(
        stage=data["stage"].text(),
        name=data["name"].text(),
        occurrence=data["occurrence"].integer(),
        arguments=tuple(value_of(one) for one in data["arguments"].items()),
        seconds=data["seconds"].number(),
        changed=data["changed"].boolean(),
        op_counts_before=data["before"].place_in(counts),
        op_counts_after=data["after"].place_in(counts),
        text=data["text"].place_in(texts),
    )


def _resources(data: SavedData) -> Resources:
    known = {field.name for field in dataclasses.fields(Resources)}
    counts = _counts(data)
    if unknown := set(counts) - known:
        raise Misfit(f"resources has the unknown field {sorted(unknown)[0]!r}")
    for name in ("registers", "spills", "shared_bytes", "stack_bytes"):
        data[name].integer()
    return Resources(**counts)


def _source_map(data: SavedData) -> SourceMap:
    for name in ("file", "files", "chains", "origins", "links"):
        data[name]
    try:
        return SourceMap.from_json(data.plain())
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise data.misfit("a source map") from error


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


def _position(data: SavedData) -> SourcePosition:
    parts = data.items()
    if len(parts) != 3:
        raise data.misfit("a file, a line and a column")
    return SourcePosition(parts[0].text(), parts[1].integer(), parts[2].integer())
