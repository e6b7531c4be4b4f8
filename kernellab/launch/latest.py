"""The latest launch of each kernel of a cell, kept so that it can run again.

There is one for each kernel name, because a launch holds its tensors: a cell that runs again
replaces its launches.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from kernellab.errors import KernelLabError
from kernellab.records import BoundLaunch

_latest: dict[tuple[str, str], BoundLaunch] = {}


def keep(launch: BoundLaunch) -> weakref.ref[BoundLaunch]:
    """Keep a launch until another launch of a kernel with that name is kept."""
    _latest[_name(launch.plain)] = launch
    return weakref.ref(launch)


_stopped: weakref.WeakKeyDictionary[KernelLabError, BoundLaunch] = weakref.WeakKeyDictionary()


def keep_stopped(launch: BoundLaunch, error: BaseException) -> None:
    """Keep a launch as long as the error of KernelLab's that ended it."""
    if isinstance(error, KernelLabError):
        _stopped[error] = launch


def launch_stopped_by(error: KernelLabError) -> BoundLaunch | None:
    """Return the launch that ended with an error; None if it is not known."""
    return _stopped.get(error)


def latest_of(kernel: Any) -> BoundLaunch | None:
    """Return the launch that is kept of this kernel; None for another kernel of the same name."""
    launch = _latest.get(_name(kernel))
    return launch if launch is not None and launch.plain is kernel else None


def latest_named(name: str) -> Iterator[BoundLaunch]:
    """Return the launches that are kept of kernels with a name, in any module."""
    return (launch for launch in _latest.values() if launch.name == name)


def _name(kernel: Any) -> tuple[str, str]:
    return str(kernel.fn.__module__), str(kernel.fn.__qualname__)
