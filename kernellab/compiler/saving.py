"""How a compilation is saved: the format of `compilation.save`."""

from __future__ import annotations

import base64
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import triton

from kernellab.common.saved_files import Format, pairs_to_json, value_to_json
from kernellab.common.system import save_whole, saved_path
from kernellab.compiler.records import Remark
from kernellab.errors import ArchiveError, KernelLabError, SourcePosition
from kernellab.records import PassRun, Specialization, Stage, StoredText

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation


FORMAT = Format("kernellab.record", "compilation")
SCHEMA = Path(__file__).with_name("schema") / "record.schema.json"
"""The format, for other programs to read."""

BINARY = frozenset({"cubin", "hsaco"})
"""The stages that are binary."""


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
        compilation: what is saved. What it computes on demand is computed now.
        path: the file, gzipped JSON whatever its suffix; replaced when the new one is complete.

    Returns:
        The path.

    Raises:
        ArchiveError: the file cannot be written.
    """
    target = saved_path(path, ArchiveError)
    return save_whole(target, FORMAT.packed(**parts(compilation)), ArchiveError)


def parts(compilation: Compilation) -> dict[str, Any]:
    """The parts of the record, which fit the schema."""
    texts, counts = _Pool(), _Pool()
    passes = [_pass_to_json(run, texts, counts) for run in compilation.passes]
    stages = [_stage_to_json(stage, texts) for stage in compilation.stages.made()]
    return {
        "triton": triton.__version__,
        "kernel": compilation.kernel,
        "target": compilation.target,
        "specialization": {
            field.name: pairs_to_json(getattr(compilation.specialization, field.name))
            for field in dataclasses.fields(Specialization)
        },
        "options": pairs_to_json(compilation.options),
        "texts": texts.items,
        "op_counts": counts.items,
        "stages": stages,
        "passes": passes,
        "resources": _answer(lambda: compilation.resources),
        "source_map": _answer(lambda: compilation.source_map.to_json()),
        "remarks": _answer(lambda: list(map(_remark_to_json, compilation.remarks))),
        "functions": compilation.functions,
    }


def _answer(query: Callable[[], Any]) -> Any:
    try:
        return query()
    except KernelLabError:  # Not recorded, or a tool fails: what is there is worth a file.
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
        "origin": remark.kind,
        "span": None if remark.position is None else _position_to_json(remark.position),
        "called_from": [_position_to_json(position) for position in remark.called_from],
    }


def _position_to_json(position: SourcePosition) -> list[Any]:
    return [position.file, position.line, position.column]
