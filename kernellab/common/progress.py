"""Long work: its progress, shown if somebody watches, and what an interrupt leaves."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from time import sleep
from typing import Protocol

SECONDS_UNTIL_SHOWN = 0.5
"""Shorter work does not show a bar."""

_SECONDS_BETWEEN = 0.1
"""How often a bar is drawn at most."""

_SECONDS_BETWEEN_TIMES = 1.0
"""How often a bar is drawn while no step is done."""

_SECONDS_OF_TICK = 0.1
_TICKS_UNTIL_ASLEEP = 20
"""After how many turns without work the thread of the timer sleeps."""

VARIABLE = "KERNELLAB_PROGRESS"
"""The environment variable of bars: 0 never, 1 also if stderr is not a terminal."""

UNTOUCHED = "The arguments are as they were."
"""The note of an interrupt during work on copies."""


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this, which can hold a widget's other end."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Bar(Protocol):
    """A bar that the front end draws."""

    def draw(self, done: int, total: int | None, unit: str, words: str) -> None:
        """Draw the progress."""

    def close(self) -> None:
        """End and remove the bar."""


_State = tuple[int, int | None, str, str]
"""How far some work is: what is done, of how much, in which unit, and words."""


_innermost = threading.local()
"""`.work`: the latest work of this thread that is not finished."""


class ProgressBar:
    """A context in which something that may take long is done, step by step or in one piece.

    After half a second a bar appears: in a notebook tqdm's, in a terminal a line. It shows how
    long the work has been going on, also before the first step. Work inside other work has no
    separate bar: it is shown in the outer one. An interrupt passes on, with a note of how far the
    outermost work came and what is kept.

    Attributes:
        done, total: steps; a total of None is not known.
        kept: a sentence about what there is after an interrupt.
    """

    def __init__(
        self, title: str, total: int | None, unit: str, kept: str = "", shown: bool | None = None
    ) -> None:
        """Describe the work.

        Args:
            title: what is done, "check matmul".
            total: steps; None if unknown, 1 if it is in one piece.
            unit: what the steps are, "programs".
            kept: what there is after an interrupt, as a sentence.
            shown: whether there is a bar; None follows KERNELLAB_PROGRESS, and if that says
                nothing shows one in a notebook and in a terminal.
        """
        self.title, self.total, self.unit, self.kept = title, total, unit, kept
        self.done = 0
        self.words = ""
        self._shown = shown
        self._began = time.monotonic()
        self._shown_next = self._began + SECONDS_UNTIL_SHOWN
        self._shown_last = self._began
        self._around: ProgressBar | None = None
        self._inside: ProgressBar | None = None
        self._bar: Bar | None = None
        self._is_open = False

    def __enter__(self) -> ProgressBar:
        self._around = getattr(_innermost, "work", None)
        _innermost.work = self
        if self._around is None:
            _timer.begin(self)
        else:
            self._around._inside = self
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        _innermost.work = self._around
        if self._around is not None:
            self._around._inside = None
            return
        _timer.end(self)
        with _drawing:  # another thread may just be opening the bar
            if self._bar is not None:
                self._bar.close()
        if isinstance(error, KeyboardInterrupt):
            after = ""
            if self.total not in (None, 1):
                after = f" after {self.done:,} of {self.total:,} {self.unit}"
            error.add_note(f"{self.title} was interrupted{after}. {self.kept}".rstrip())

    def advance(self, steps: int = 1) -> None:
        self.done += steps
        now = time.monotonic()
        if now >= self._shown_next:
            self._shown_next = now + _SECONDS_BETWEEN
            outermost: ProgressBar = self
            while outermost._around is not None:
                outermost = outermost._around
            if outermost._is_open or self.done != self.total:
                outermost._show(now)

    def show_time(self) -> None:
        """Draw the bar although no step has been done, if it is time to."""
        now = time.monotonic()
        shown_next = self._shown_last + (
            _SECONDS_BETWEEN_TIMES if self._is_open else SECONDS_UNTIL_SHOWN
        )
        if now >= shown_next:
            self._show(now)

    def _show(self, now: float) -> None:
        with _drawing:
            if not _timer.knows(self):
                return
            self._shown_last = now
            state = self._state()
            if not self._is_open:
                self._is_open = True
                self._bar = self._opened(state[1], now - self._began)
            if self._bar is not None:
                self._bar.draw(*state)

    def _state(self) -> _State:
        if self._inside is None:
            return self.done, self.total, self.unit, self.words
        inner = self._inside._state()
        if self.total is None:
            return inner
        done, total, unit, _ = inner
        of = "" if total is None else f"/{total:,}"
        return self.done, self.total, self.unit, f"{done:,}{of} {unit}"

    def _opened(self, total: int | None, seconds: float) -> Bar | None:
        wanted = self._shown if self._shown is not None else _shown_by_environment()
        if wanted is False:
            return None
        from kernellab.viz.kit.progress_bar import open_bar

        return open_bar(self.title, total, seconds, wanted=bool(wanted))


class _Timer:
    """The one thread that shows the time of the current work, and sleeps without work."""

    def __init__(self) -> None:
        self._works: dict[ProgressBar, contextvars.Context] = {}
        """With what output below which cell is found by."""
        self._wake = threading.Event()
        self._is_awake = False

    def begin(self, work: ProgressBar) -> None:
        self._works[work] = contextvars.copy_context()
        if not self._is_awake:
            with _drawing:
                if self._thread is None and not self._start():
                    return
                self._is_awake = True
                self._wake.set()

    def _start(self) -> bool:
        thread = threading.Thread(target=self._run, name="kernellab-progress", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    _thread: threading.Thread | None = None

    def end(self, work: ProgressBar) -> None:
        self._works.pop(work, None)

    def knows(self, work: ProgressBar) -> bool:
        return work in self._works

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            quiet = 0
            while quiet < _TICKS_UNTIL_ASLEEP:
                sleep(_SECONDS_OF_TICK)
                quiet = 0 if self._works else quiet + 1
                for work, context in list(self._works.items()):
                    self._show(work, context)
            self._is_awake = False
            if self._works:  # begun meanwhile, by one that took this thread to be awake
                self._is_awake = True
                self._wake.set()

    def _show(self, work: ProgressBar, context: contextvars.Context) -> None:
        try:
            context.run(work.show_time)
        except Exception:
            # A bar that cannot be drawn must not end the work, nor the others' bars.
            self._works.pop(work, None)


_drawing = threading.RLock()
"""Held by the thread that draws."""

_timer = _Timer()


def _begin_anew() -> None:
    """After a fork there is only one thread, and nothing draws."""
    global _drawing, _timer
    _drawing, _timer = threading.RLock(), _Timer()
    _innermost.work = None


os.register_at_fork(after_in_child=_begin_anew)


def _shown_by_environment() -> bool | None:
    said = os.environ.get(VARIABLE, "").strip().lower()
    if said in ("0", "no", "off", "false"):
        return False
    return True if said in ("1", "yes", "on", "true") else None
