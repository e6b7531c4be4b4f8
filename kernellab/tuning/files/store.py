"""Outcomes on disk, by content: an interrupted sweep goes on where it was,
and a config is not timed twice.

One small JSON file for each config, named by a hash of all that it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.common.saved_json import SavedData, write_whole
from kernellab.triton_api.shipping import content_of
from kernellab.tuning.files.plain_data import outcome_from_json, outcome_to_json
from kernellab.tuning.results.records import Outcome

VERSION = 3
"""Of what is stored, and of how it is measured: a change of either leaves older outcomes unread."""

_LASTING = ("out of resources", "compile error", "wrong result", "fault")
"""Reasons that will hold the next time too, where the config itself gave them; what hung, crashed,
was lost or found no memory is tried again."""


def folder() -> Path:
    """Where outcomes are kept: KERNELLAB_CACHE_DIR, else kernellab/
    in the user's folder for caches.
    """
    given = os.environ.get("KERNELLAB_CACHE_DIR")
    if given:
        return Path(given, "tuning")
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "kernellab", "tuning")


def known_content(kernel: Any) -> str | None:
    """What a kernel is made of, as text; None where nobody can say:
    it has no source that can be read.
    """
    try:
        return content_of(kernel)
    except Exception:
        return None


def contents_within(values: Iterable[Any]) -> list[str]:
    """What the kernels and helpers among constants are made of:
    their names say nothing of their code.
    """
    return [known_content(one) or "" for one in triton_api.functions_within(values)]


class Store:
    """The outcomes of one sweep's configs; a Store without a key keeps nothing."""

    def __init__(self, key: Iterable[Any] | None) -> None:
        """`key` is what all configs depend on: kernel, target, arguments, machine, ..."""
        self._key = None if key is None else [VERSION, *map(str, key)]

    def get(self, parts: Iterable[Any]) -> Outcome | None:
        """What is known of a config; None where nothing is, or what there is was damaged."""
        if self._key is None:
            return None
        # Whatever is wrong with a file, the config can be tried.
        with contextlib.suppress(Exception):
            file = self._file(parts)
            if file.is_file():
                kept = json.loads(file.read_bytes())
                if kept["digest"] == _digest(kept["outcome"]):
                    return outcome_from_json(SavedData(kept["outcome"]))
        return None

    def put(self, parts: Iterable[Any], outcome: Outcome) -> None:
        """Keep an outcome, where it would come out the same again."""
        if self._key is None or not _is_lasting(outcome):
            return
        # A cache that cannot be written, or has no home, is no reason to fail.
        with contextlib.suppress(OSError, RuntimeError):
            file = self._file(parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            data = outcome_to_json(outcome)
            write_whole(file, json.dumps({"digest": _digest(data), "outcome": data}).encode())

    def _file(self, parts: Iterable[Any]) -> Path:
        text = json.dumps([self._key, *map(str, parts)])
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return folder() / digest[:2] / f"{digest}.json"


def _is_lasting(outcome: Outcome) -> bool:
    dropped = outcome.dropped
    return outcome.lasts and (dropped is None or dropped.reason in _LASTING)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
