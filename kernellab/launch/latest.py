"""The latest launch that a cell made of each of its kernels, kept so that it can be made again.

One a kernel's name: a launch holds its tensors, and those of a cell that ran again go.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from kernellab.records import AskedLaunch

_latest: dict[tuple[str, str], AskedLaunch] = {}


def keep(asked: AskedLaunch) -> weakref.ref[AskedLaunch]:
    """Keep a launch until another one of a kernel of that name is kept."""
    _latest[_name(asked.plain)] = asked
    return weakref.ref(asked)


def latest_of(kernel: Any) -> AskedLaunch | None:
    """The launch that is kept of this very kernel."""
    found = _latest.get(_name(kernel))
    return found if found is not None and found.plain is kernel else None


def latest_named(name: str) -> Iterator[AskedLaunch]:
    """The launches that are kept of kernels with a name, of whatever module."""
    return (asked for asked in _latest.values() if asked.name == name)


def _name(kernel: Any) -> tuple[str, str]:
    return str(kernel.fn.__module__), str(kernel.fn.__qualname__)
