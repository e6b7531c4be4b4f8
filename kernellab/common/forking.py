"""What a process that forks while its threads work leaves to its child: no lock for ever."""

from __future__ import annotations

import os
import threading

_MOST_SECONDS = 5.0
"""How long a fork waits for a thread that may be waiting for the fork in its turn."""


def hold_while_forking(lock: threading.RLock) -> None:
    """Let a fork wait until no other thread holds the lock, so that the child finds it free, and
    what it guards whole.
    """
    held: list[bool] = []

    def hold() -> None:
        held.append(lock.acquire(timeout=_MOST_SECONDS))

    def let_go() -> None:
        if held.pop():
            lock.release()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=let_go)
