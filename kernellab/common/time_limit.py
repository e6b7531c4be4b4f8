"""A limit of time for work that may never end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfTime(BaseException):
    """The work within `time_limit` took longer than it may. No Exception, as Ctrl-C is none: what
    work does about its own errors must not take it.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End what runs within the block by OutOfTime when the time is over.

    Only in a process's main thread, where Python hears of a clock; elsewhere there is no limit.
    A clock that was set before goes on afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: Any) -> None:
        del number, frame
        raise OutOfTime

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, over)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = left - (time.monotonic() - begun)
            signal.setitimer(signal.ITIMER_REAL, max(rest, 1e-3), interval)
