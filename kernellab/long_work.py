"""Long work: how far it is, said where somebody watches, and what an interrupt of it leaves."""

from __future__ import annotations

import importlib
import os
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

SECONDS_UNTIL_TOLD = 0.5
"""Work that takes less says nothing."""

_SECONDS_BETWEEN = 0.1
"""How often a bar is drawn at most."""

VARIABLE = "KERNELLAB_PROGRESS"
"""The environment variable that says whether bars are shown: 0 never, 1 also where stderr is no terminal."""

UNTOUCHED = "The arguments are as they were."
"""What is kept where work is done on copies."""


class Bar(Protocol):
    """What the front end draws."""

    def draw(self, done: int, total: int | None, words: str) -> None:
        """So much is done."""

    def close(self) -> None:
        """No more is to come: the bar goes, and leaves nothing behind."""


@dataclass(frozen=True)
class _News:
    """How far some work is."""

    done: int
    total: int | None
    unit: str
    words: str


_innermost = threading.local()
"""`.work`: the work of this thread that began last and goes on."""


class LongWork:
    """A context in which something that may take long is done, step by step.

    After half a second a bar appears: in a notebook tqdm's, in a terminal a line. Work inside other work has no bar of its own, and is told in that one's. An interrupt passes on, with a note of how far the outermost work came and what is kept.

    Attributes:
        done, total: steps; a total of None is not known.
        kept: a sentence about what there is after an interrupt.
        words: what else is told beside the bar.
    """

    def __init__(
        self, title: str, total: int | None, unit: str, kept: str = "", shown: bool | None = None
    ) -> None:
        """Work of so many steps.

        Args:
            title: what is done, "check matmul".
            total: steps; None where that is not known.
            unit: what the steps are, "programs".
            kept: what there is after an interrupt, as a sentence.
            shown: whether there is a bar; None goes by KERNELLAB_PROGRESS, and where that says nothing shows one in a notebook and in a terminal.
        """
        self.title, self.total, self.unit, self.kept = title, total, unit, kept
        self.done = 0
        self.words = ""
        self._shown = shown
        self._began = time.monotonic()
        self._told_next = self._began + SECONDS_UNTIL_TOLD
        self._around: LongWork | None = None
        self._bar: Bar | None = None
        self._is_open = False

    def __enter__(self) -> LongWork:
        self._around = getattr(_innermost, "work", None)
        _innermost.work = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        _innermost.work = self._around
        if self._bar is not None:
            self._bar.close()
        if isinstance(error, KeyboardInterrupt) and self._around is None:
            error.add_note(f"{self.title} was interrupted{self._how_far()}. {self.kept}".rstrip())

    def advance(self, steps: int = 1) -> None:
        """So many steps more are done."""
        self.done += steps
        now = time.monotonic()
        if now >= self._told_next and (self._is_open or self.done != self.total):
            self._told_next = now + _SECONDS_BETWEEN
            self._tell(_News(self.done, self.total, self.unit, self.words))

    def _tell(self, news: _News) -> None:
        """Have the bar of the outermost work drawn."""
        if self._around is not None:
            self._around._tell(self._around._with(news))
            return
        if not self._is_open:
            self._is_open = True
            self._bar = self._opened(news)
        if self._bar is not None:
            self._bar.draw(news.done, news.total, news.words)

    def _with(self, inner: _News) -> _News:
        """News of this work, when there is some of work inside it: where its own steps are not known, the other's are its."""
        if self.total is None:
            return inner
        of = "" if inner.total is None else f"/{inner.total:,}"
        return _News(self.done, self.total, self.unit, f"{inner.done:,}{of} {inner.unit}")

    def _opened(self, news: _News) -> Bar | None:
        wanted = self._shown if self._shown is not None else _wish_of_environment()
        if wanted is False:
            return None
        # The room of the screens is above this one: it is found by its name.
        screens: Any = importlib.import_module("kernellab.viz.progress_bar")
        seconds = time.monotonic() - self._began
        bar: Bar | None = screens.open_bar(
            self.title, news.total, news.unit, seconds, wanted=bool(wanted)
        )
        return bar

    def _how_far(self) -> str:
        if self.total in (None, 1):
            return ""
        return f" after {self.done:,} of {self.total:,} {self.unit}"


def _wish_of_environment() -> bool | None:
    said = os.environ.get(VARIABLE, "").strip().lower()
    if said in ("0", "no", "off", "false"):
        return False
    return True if said in ("1", "yes", "on", "true") else None
