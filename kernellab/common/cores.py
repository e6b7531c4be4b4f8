"""How much of the machine is this process's."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))
