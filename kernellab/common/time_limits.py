"""Work that is stopped from within when it takes too long, so that what it has done is not lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_AGAIN = 10.0
"""Seconds until work that went on nevertheless, having caught the error, is stopped again."""


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

    def stop(_signal: int, _frame: Any) -> None:
        raise stopped_by(f"it took longer than {seconds:g} seconds, and was stopped here")

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = left - (time.monotonic() - begun)
            signal.setitimer(signal.ITIMER_REAL, max(rest, 1e-3), interval)
