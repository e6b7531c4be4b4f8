"""Work that is stopped from within when it takes too long, so that what it has done is not lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_AGAIN = 10.0
"""Seconds until work that went on nevertheless, having caught the error, is stopped again."""


class OutOfTime(Exception):
    """Work took longer than it may."""


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """While active, Python code of the main thread that takes longer is stopped: OutOfTime is
    raised wherever it is. In other threads, and with None, nothing is.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not in_main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: Any) -> None:
        raise OutOfTime(f"it took longer than {seconds:g} seconds, and was stopped here")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
