"""Store outcomes on disk by content, so that an interrupted sweep continues where it stopped and no
config is timed twice.

One small JSON file for each config, named by a hash of all that it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.common.cache_folders import cache_folder
from kernellab.common.saved_json import SavedData, write_whole
from kernellab.triton_api.shipping import content_of
from kernellab.tuning.files.plain_data import outcome_from_json, outcome_to_json
from kernellab.tuning.results.records import Outcome

VERSION = 3
"""The version of the stored data and of the way to measure; outcomes of other versions are ignored.
"""

_LASTING = ("out of resources", "compile error", "wrong result", "fault")
"""Reasons to drop a config that also apply the next time. A config that hung, crashed, was lost or
ran out of memory is tried again."""


def known_content(kernel: Any) -> str | None:
    """Return what a kernel consists of, as text; None if its source cannot be read."""
    try:
        return content_of(kernel)
    except Exception:
        return None


def contents_within(values: Iterable[Any]) -> list[str]:
    """Return what the kernels and helpers among constants consist of, as their names do not show a
    change of their code.
    """
    return [known_content(function) or "" for function in triton_api.functions_within(values)]


class Store:
    """The outcomes of one sweep's configs; a Store without a key keeps nothing."""

    def __init__(self, key: Iterable[Any] | None) -> None:
        """`key` is what all configs depend on: kernel, target, arguments, machine, ..."""
        self._key = None if key is None else [VERSION, *map(str, key)]

    def get(self, parts: Iterable[Any]) -> Outcome | None:
        """Return the stored outcome of a config; None if there is none, or it is damaged."""
        if self._key is None:
            return None
        # A config whose file cannot be read is tried again.
        with contextlib.suppress(Exception):
            file = self._file(parts)
            if file.is_file():
                kept = json.loads(file.read_bytes())
                if kept["digest"] == _digest(kept["outcome"]):
                    return outcome_from_json(SavedData(kept["outcome"]))
        return None

    def put(self, parts: Iterable[Any], outcome: Outcome) -> None:
        """Keep an outcome if the next run of the config would have the same one."""
        if self._key is None or not _is_lasting(outcome):
            return
        # A cache that cannot be written, or has no home folder, must not end the sweep.
        with contextlib.suppress(OSError, RuntimeError):
            file = self._file(parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            data = outcome_to_json(outcome)
            write_whole(file, json.dumps({"digest": _digest(data), "outcome": data}).encode())

    def _file(self, parts: Iterable[Any]) -> Path:
        text = json.dumps([self._key, *map(str, parts)])
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return cache_folder("tuning") / digest[:2] / f"{digest}.json"


def _is_lasting(outcome: Outcome) -> bool:
    dropped = outcome.dropped
    return outcome.lasts and (dropped is None or dropped.reason in _LASTING)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
