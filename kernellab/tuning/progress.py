"""How far a sweep is, said while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from kernellab.tuning.records import Trial


class Progress(Protocol):
    """Hears of a sweep's configs as they are done."""

    def done(self, trial: Trial, finished: int, total: int) -> None:
        """A config is done; `finished` of `total` are."""

    def end(self) -> None:
        """No more is to come."""


class NoProgress:
    """Says nothing."""

    def done(self, trial: Trial, finished: int, total: int) -> None:
        """See Progress."""

    def end(self) -> None:
        """See Progress."""


class ProgressLine:
    """One line of text with a bar, written over again and again: for terminals."""

    _WIDTH = 24

    def __init__(self, kernel: str, stream: TextIO) -> None:
        self._kernel = kernel
        self._stream = stream
        self._started = time.monotonic()
        self._dropped = 0
        self._best: Trial | None = None

    def done(self, trial: Trial, finished: int, total: int) -> None:
        """See Progress."""
        self._note(trial)
        filled = "#" * (self._WIDTH * finished // total)
        line = f"{self._kernel} [{filled:<{self._WIDTH}}] {self.words(finished, total)}"
        self._stream.write(f"\r{line:<100.100}")
        self._stream.flush()

    def _note(self, trial: Trial) -> None:
        self._dropped += trial.is_dropped
        if trial.timing is None or trial.is_dropped:
            return
        if self._best is None or self._best.timing is None or trial.timing.median < self._best.timing.median:  # fmt: skip
            self._best = trial

    def words(self, finished: int, total: int) -> str:
        """ "12/48 configs, 2 dropped, 3 s, best so far 31.2 us"."""
        words = [f"{finished}/{total} configs"]
        if self._dropped:
            words.append(f"{self._dropped} dropped")
        words.append(f"{time.monotonic() - self._started:.0f} s")
        if self._best is not None and self._best.timing is not None:
            words.append(f"best so far {self._best.timing.median * 1e3:.4g} us")
        return ", ".join(words)

    def end(self) -> None:
        """See Progress."""
        self._stream.write("\n")
        self._stream.flush()


def _line_in_terminals(kernel: str) -> Progress:
    return ProgressLine(kernel, sys.stderr) if sys.stderr.isatty() else NoProgress()


default_progress: Callable[[str], Progress] = _line_in_terminals
"""Makes the Progress of a sweep that says nothing about it; the notebook extension puts its own here."""


def progress_for(kernel: str, wanted: bool | None) -> Progress:
    """The Progress of a sweep: none where it is not wanted; a line of text where it is, and nobody offers better."""
    if wanted is False:
        return NoProgress()
    offered = default_progress(kernel)
    if wanted and isinstance(offered, NoProgress):
        return ProgressLine(kernel, sys.stderr)
    return offered
