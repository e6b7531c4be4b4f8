"""Compilations on disk: `compilation.save` and `kernellab.load`.

The format is schema/record.schema.json, gzipped.
A change that an older reader would misread gets a new version number.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import json
import os
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import triton

from kernellab.common.saved_json import (
    Misfit,
    SavedData,
    kernellab_version,
    pairs_of,
    pairs_to_json,
    save_whole,
    value_of,
    value_to_json,
    why_unreadable,
)
from kernellab.compiler.files.restore import restore_compilation
from kernellab.compiler.remarks.catalogue import explained
from kernellab.errors import ArchiveError, KernelLabError, SourcePosition
from kernellab.records import (
    Compilation,
    PassRun,
    Resources,
    SourceMap,
    Specialization,
    Stage,
    StoredText,
    Target,
)
from kernellab.records.remarks import Remark

FORMAT = "kernellab.record"
VERSION = 1
SCHEMA = Path(__file__).with_name("schema") / "record.schema.json"
"""The format, for other programs to read."""

_COMPRESSION = 6


# --------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------


class _Pool:
    """Things that are kept once, and named by their place."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._places: dict[Any, int] = {}

    def place(self, key: Any, item: Callable[[], Any]) -> int:
        if key not in self._places:
            self._places[key] = len(self.items)
            self.items.append(item())
        return self._places[key]


def save(compilation: Compilation, path: str | os.PathLike[str]) -> Path:
    """Write the whole record of a compilation: stages, passes, resources, source map, remarks.

    Args:
        compilation: what is saved. What it would compute when asked is computed now.
        path: the file, whatever its suffix: gzipped JSON. A file that is there is overwritten once
            the new one is complete.

    Returns:
        The path.

    Raises:
        ArchiveError: the file cannot be written.
    """
    target = Path(path)
    data = json.dumps(to_json(compilation), separators=(",", ":"), ensure_ascii=False)
    return save_whole(target, gzip.compress(data.encode(), _COMPRESSION, mtime=0), ArchiveError)


def to_json(compilation: Compilation) -> dict[str, Any]:
    """The record as plain data that fits the schema."""
    texts, counts = _Pool(), _Pool()
    passes = [_pass_to_json(run, texts, counts) for run in compilation.passes]
    stages = [_stage_to_json(stage, texts) for stage in compilation.stages.values()]
    resources = _if_there(lambda: dataclasses.asdict(compilation.resources))
    return {
        "format": FORMAT,
        "version": VERSION,
        "kernellab": kernellab_version(),
        "triton": triton.__version__,
        "kernel": compilation.kernel,
        "target": {"backend": compilation.target.backend, "arch": compilation.target.arch},
        "specialization": {
            field.name: pairs_to_json(getattr(compilation.specialization, field.name))
            for field in dataclasses.fields(Specialization)
        },
        "options": pairs_to_json(compilation.options),
        "texts": texts.items,
        "op_counts": counts.items,
        "stages": stages,
        "passes": passes,
        "resources": resources,
        "source_map": _if_there(lambda: compilation.source_map.to_json()),
        "remarks": _if_there(lambda: [_remark_to_json(one) for one in compilation.remarks]),
    }


def _if_there(ask: Callable[[], Any]) -> Any:
    """None for what a record does not have."""
    try:
        return ask()
    except (KernelLabError, ValueError):
        return None


def _pass_to_json(run: PassRun, texts: _Pool, counts: _Pool) -> dict[str, Any]:
    def counted(numbers: Mapping[str, int]) -> int:
        return counts.place(tuple(numbers.items()), lambda: dict(numbers))

    return {
        "stage": run.stage,
        "name": run.name,
        "occurrence": run.occurrence,
        "arguments": [value_to_json(value) for value in run.arguments],
        "seconds": round(run.seconds, 6),
        "changed": run.changed,
        "before": counted(run.op_counts_before),
        "after": counted(run.op_counts_after),
        "text": texts.place(run.text.digest, run.text.read),
    }


def _stage_to_json(stage: Stage, texts: _Pool) -> dict[str, Any]:
    common = {"name": stage.name, "language": stage.language}
    if isinstance(stage.content, bytes):
        return {**common, "base64": base64.b64encode(stage.content).decode()}
    text = stage.content
    return {**common, "text": texts.place(StoredText(text).digest, lambda: text)}


def _remark_to_json(remark: Remark) -> dict[str, Any]:
    return {
        "severity": remark.severity,
        "what": remark.what,
        "origin": remark.origin,
        "span": None if remark.span is None else _position_to_json(remark.span),
        "called_from": [_position_to_json(one) for one in remark.called_from],
    }


def _position_to_json(position: SourcePosition) -> list[Any]:
    return [position.file, position.line, position.column]


# --------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Compilation:
    """Read a compilation from a file, or from what others left on disk.

    Args:
        path: a file that `compilation.save` wrote; a folder of Triton's cache
            (~/.triton/cache/<hash>), or the .json in it; or the text that `MLIR_ENABLE_DUMP=1`
            prints. A record from elsewhere has what is there: a cache folder holds no passes, a
            dump no machine code, neither holds remarks.

    Raises:
        ArchiveError: there is no such file, it is none of these, it is damaged, or of
            another version.
    """
    from kernellab.compiler.files.importers import read_cache_folder, read_dump

    file = Path(path)
    if not file.exists():
        raise ArchiveError(f"There is no file {str(path)!r}.")
    if file.is_dir():
        return read_cache_folder(file)
    text = _text_of(file)
    if "// -----// IR Dump " in text:
        return read_dump(text, file)
    data = _parsed(text, file)
    if isinstance(data, dict) and "format" not in data and "triton_version" in data:
        return read_cache_folder(file.parent, file)
    return from_json(data, str(file))


def _text_of(file: Path) -> str:
    try:
        content = file.read_bytes()
        _refuse_stub(content, file)
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        return content.decode()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ArchiveError(f"{str(file)!r} is cut off or damaged: {error}.") from error
    except OSError as error:
        raise ArchiveError(why_unreadable(file, error)) from error
    except UnicodeDecodeError as error:
        raise ArchiveError(
            f"{str(file)!r} is no saved compilation: it holds neither gzip nor text.",
            advice=_WHAT_LOAD_READS,
        ) from error


_BEGINNINGS = (b"\x1f\x8b", b"PK\x03\x04")
"""Of a saved compilation (gzip) and of a saved trace (zip)."""

_WHAT_LOAD_READS = (
    "kernellab.load reads what compilation.save, trace.save or tuning.save wrote, a folder of "
    "Triton's cache, or a dump of MLIR_ENABLE_DUMP=1."
)


def _refuse_stub(content: bytes, file: Path) -> None:
    """A file that ends before it says what it is has lost the rest."""
    if not content:
        raise ArchiveError(f"{str(file)!r} is empty.", advice=_WHAT_LOAD_READS)
    if any(len(content) < len(begin) and begin.startswith(content) for begin in _BEGINNINGS):
        count = f"{len(content)} byte{'s' if len(content) > 1 else ''}"
        raise ArchiveError(f"{str(file)!r} is cut off after {count}.", advice=_WHAT_LOAD_READS)


def _parsed(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        looks_like_json = text.lstrip()[:1] == "{"
        problem = "is cut off or damaged" if looks_like_json else "is no saved compilation"
        raise ArchiveError(
            f"{str(file)!r} {problem}: {error}."
            if looks_like_json
            else f"{str(file)!r} {problem}.",
            advice=_WHAT_LOAD_READS,
        ) from error


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
    return restore_compilation(
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
        stages={stage["name"].text(): _stage(stage, texts) for stage in data["stages"].items()},
        passes=tuple(_pass(one, texts, counts) for one in data["passes"].items()),
        read_resources=None if resources.is_null() else partial(_same, _resources(resources)),
        read_source_map=None if source_map.is_null() else partial(_same, _source_map(source_map)),
        remarks=None if remarks.is_null() else tuple(_remark(one) for one in remarks.items()),
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
        origin=data["origin"].one_of("mlir", "ptxas", "triton"),
        span=None if span.is_null() else _position(span),
        called_from=tuple(_position(one) for one in data["called_from"].items()),
    )
    return explained(saved)


def _position(data: SavedData) -> SourcePosition:
    parts = data.items()
    if len(parts) != 3:
        raise data.misfit("a file, a line and a column")
    return SourcePosition(parts[0].text(), parts[1].integer(), parts[2].integer())
