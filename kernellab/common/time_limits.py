"""Work that is stopped from within when it takes too long, so that what it has done is not lost."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = 10.0
"""Seconds until work that went on nevertheless, having caught the error, is stopped again."""

_SOON = 1e-3
"""Seconds until work is stopped again if the error was lost: Python prints the errors of
finalizers, of callbacks of weak references and of the collector's callbacks, and goes on.
"""


class OutOfTime(Exception):
    """Work took longer than it may."""


class StoppedForGood(BaseException):
    """The same, of work that takes every error for its own: no Exception, as Ctrl-C is none."""


@contextmanager
def limited(
    seconds: float | None, stopped_by: type[OutOfTime | StoppedForGood] = OutOfTime
) -> Iterator[None]:
    """While active, Python code of the main thread that takes longer is stopped: `stopped_by` is
    raised wherever it is. In other threads, and with None, nothing is. A clock that was set before
    goes on afterwards.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not in_main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise stopped_by(f"it took longer than {seconds:g} seconds, and was stopped here")

    def unraisable(error: sys.UnraisableHookArgs) -> None:
        if isinstance(error.exc_value, stopped_by):
            signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
        else:
            hook_before(error)

    begun = time.monotonic()
    hook_before, sys.unraisablehook = sys.unraisablehook, unraisable
    before = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook_before
        if left:
            rest = left - (time.monotonic() - begun)
            signal.setitimer(signal.ITIMER_REAL, max(rest, 1e-3), interval)
