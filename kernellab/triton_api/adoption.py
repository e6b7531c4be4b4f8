"""Kernels made under our eyes, and autotuners that nothing can time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import AutotunerError
from triton.runtime.jit import (
    JITFunction,
)


@contextmanager
def kernels_become(adopt: Callable[[Any], None], file: str) -> Iterator[None]:
    """While active, each kernel that `@triton.jit` or `@gluon.jit` makes of a function
    in `file` is handed to `adopt`.

    `adopt` may change the finished kernel's class to a subclass of it. The decorators themselves
    stay what they are, however they were imported; so does every `isinstance` check, and every
    kernel of another file.
    """
    initialise = JITFunction.__init__

    @functools.wraps(initialise)
    def initialise_and_adopt(kernel: Any, fn: Any, *args: Any, **keywords: Any) -> None:
        initialise(kernel, fn, *args, **keywords)
        code = getattr(fn, "__code__", None)
        if code is not None and code.co_filename == file:
            if type(kernel) in (JITFunction, GluonJITFunction):
                adopt(kernel)

    JITFunction.__init__ = initialise_and_adopt
    try:
        yield
    finally:
        JITFunction.__init__ = initialise


AutotunedLaunch = Callable[[Callable[..., Any], Any, Sequence[Any], Mapping[str, Any]], Any]
"""Given Triton's own `Autotuner.run`, an autotuner and a launch's arguments: launches."""


@contextmanager
def autotuned_launches_offered(taker: AutotunedLaunch) -> Iterator[None]:
    """While active, in any thread, each autotuned launch is given to `taker`."""
    _offer.begin(taker)
    try:
        yield
    finally:
        _offer.end()


def offer_autotuned_launches(taker: AutotunedLaunch) -> None:
    """Give each autotuned launch to `taker`, from now on.

    Triton's Autotuner asks the GPU's driver for a benchmarker before anything else,
    so it cannot launch without one.
    """
    if not _offer.lasts:
        _offer.lasts = True
        _offer.begin(taker)


class _Offer:
    """`Autotuner.run` is another while somebody takes autotuned launches; the first taker counts.

    Attributes:
        lasts: whether somebody takes them for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._takers = 0
        self._original: Any = None
        self.lasts = False

    def begin(self, taker: AutotunedLaunch) -> None:
        with self._lock:
            self._takers += 1
            if self._takers == 1:
                self._original = Autotuner.run
                Autotuner.run = _run_by_taker(self._original, taker)

    def end(self) -> None:
        with self._lock:
            self._takers -= 1
            if self._takers == 0:
                Autotuner.run = self._original


_offer = _Offer()


def _run_by_taker(run_timed: Callable[..., Any], taker: AutotunedLaunch) -> Callable[..., Any]:
    @functools.wraps(run_timed)
    def run(autotuner: Any, *args: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        return taker(run_timed, autotuner, args, keywords)

    return run


def pruned_configs(
    autotuner: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Sequence[Any]:
    """The configs that an autotuner would time for a launch:
    those that its own pruning leaves, which may be none.
    """
    before = vars(autotuner).get("nargs")
    autotuner.nargs = dict(zip(autotuner.arg_names, args))
    try:
        pruned: Sequence[Any] = autotuner.prune_configs(dict(keywords))
    except AutotunerError:
        return ()
    finally:
        autotuner.nargs = before
    return pruned
