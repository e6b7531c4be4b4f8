"""The sweeps that were made in this process: `kernellab.tunings`."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

from kernellab.launching import innermost
from kernellab.tuning.tunings import Tuning, Tunings

_made: weakref.WeakKeyDictionary[Any, list[Tuning]] = weakref.WeakKeyDictionary()
"""Kernel -> its sweeps, in order. They hold no kernel of their own here: that would keep it alive for ever."""


def remember(kernel: Any, tuning: Tuning) -> None:
    """Keep a sweep for `tunings`."""
    _made.setdefault(innermost(kernel), []).append(replace(tuning, live=None))


def tunings(kernel: Any) -> Tunings:
    """The sweeps of a kernel in this process, in order: those of `kernellab.tune`, and what `@triton.autotune` timed.

    Raises:
        ArgumentError: `kernel` is no kernel.
    """
    plain = innermost(kernel)
    return Tunings(one.with_kernel(kernel) for one in _made.get(plain, ()))
