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
from kernellab.common.saved_json import Misfit, SavedData, write_whole
from kernellab.triton_api.shipping import content_key
from kernellab.tuning.files.plain_data import outcome_from_json, outcome_to_json
from kernellab.tuning.results.records import Outcome

VERSION = 1
"""Of what is stored, and of how it is measured: a change of either leaves older outcomes unread."""

_LASTING = ("out of resources", "compile error", "wrong result", "out of memory", "fault")
"""Reasons that will hold the next time too; what hung, crashed or was lost is tried again."""


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
    """What a kernel is made of, as text; None where Triton cannot say:
    it refers to something that compiling refuses too.
    """
    try:
        return content_key(kernel)
    except Exception:
        return None


def contents_within(values: Iterable[Any]) -> list[str]:
    """What the kernels and helpers among constants are made of:
    their names say nothing of their code.
    """
    found: list[str] = []
    for value in values:
        if isinstance(value, tuple):
            found += contents_within(value)
        elif isinstance(value, triton_api.JITFunction):
            found.append(known_content(value) or "")
    return found


class Store:
    """The outcomes of one sweep's configs; a Store without a key keeps nothing."""

    def __init__(self, key: Iterable[Any] | None) -> None:
        """`key` is what all configs depend on: kernel, target, arguments, machine, ..."""
        self._key = None if key is None else [VERSION, *map(str, key)]

    def get(self, parts: Iterable[Any]) -> Outcome | None:
        """What is known of a config; None where nothing is."""
        if self._key is None:
            return None
        try:
            return outcome_from_json(SavedData(json.loads(self._file(parts).read_text())))
        except (OSError, ValueError, RecursionError, Misfit):
            return None

    def put(self, parts: Iterable[Any], outcome: Outcome) -> None:
        """Keep an outcome, where it would come out the same again."""
        dropped = outcome.dropped
        if self._key is None or (dropped is not None and dropped.reason not in _LASTING):
            return
        file = self._file(parts)
        # A cache that cannot be written is no reason to fail.
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(outcome_to_json(outcome)).encode())

    def _file(self, parts: Iterable[Any]) -> Path:
        text = json.dumps([self._key, *map(str, parts)])
        digest = hashlib.sha256(text.encode()).hexdigest()
        return folder() / digest[:2] / f"{digest}.json"
