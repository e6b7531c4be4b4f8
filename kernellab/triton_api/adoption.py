"""Kernels made under our eyes, and autotuners that nothing can time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import AutotunerError
from triton.runtime.jit import JITFunction

from kernellab.common.patches import replaced


@contextmanager
def kernels_become(adopt: Callable[[Any], None], file: str) -> Iterator[None]:
    """While active, each kernel that `@triton.jit` or `@gluon.jit` makes of a function
    in `file` is handed to `adopt`.

    `adopt` may change the finished kernel's class to a subclass of it. The decorators themselves
    stay what they are, however they were imported; so does every `isinstance` check, and every
    kernel of another file.
    """
    initialize = JITFunction.__init__

    @functools.wraps(initialize)
    def initialize_and_adopt(kernel: Any, fn: Any, *args: Any, **keywords: Any) -> None:
        initialize(kernel, fn, *args, **keywords)
        code = getattr(fn, "__code__", None)
        if code is not None and code.co_filename == file:
            if type(kernel) in (JITFunction, GluonJITFunction):
                adopt(kernel)

    with replaced(JITFunction, __init__=initialize_and_adopt):
        yield


@dataclass(frozen=True)
class AutotunedLaunches:
    """Who takes autotuned launches.

    Attributes:
        launch: given Triton's own `Autotuner.run`, an autotuner and a launch's arguments: launches.
        benchmarker: gives for an autotuner what is called as `do_bench(kernel_call, quantiles)` in
            its benchmarker's place, also that of a class derived from Autotuner with another `run`;
            None keeps its benchmarker.
    """

    launch: Callable[[Callable[..., Any], Any, Sequence[Any], Mapping[str, Any]], Any]
    benchmarker: Callable[[Any], Callable[..., Any] | None]


@contextmanager
def autotuned_launches_offered(taker: AutotunedLaunches) -> Iterator[None]:
    """While active, in any thread, each autotuned launch is given to `taker`."""
    _offer.begin(taker)
    try:
        yield
    finally:
        _offer.end()


def offer_autotuned_launches(taker: AutotunedLaunches) -> None:
    """Give each autotuned launch to `taker`, from now on.

    Triton's Autotuner gets a benchmarker from the GPU's driver before anything else,
    so it cannot launch without a GPU.
    """
    if not _offer.lasts:
        _offer.lasts = True
        _offer.begin(taker)


class _Offer:
    """`Autotuner.run` and `do_bench` are others while somebody takes autotuned launches;
    the first taker counts.

    Attributes:
        lasts: whether somebody takes them for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._takers = 0
        self._originals: tuple[Any, Any] = None, None
        self.lasts = False

    def begin(self, taker: AutotunedLaunches) -> None:
        with self._lock:
            self._takers += 1
            if self._takers == 1:
                self._originals = Autotuner.run, vars(Autotuner)["do_bench"]
                Autotuner.run = _run_by_taker(self._originals[0], taker)
                Autotuner.do_bench = _Benchmarker(self._originals[1], taker)

    def end(self) -> None:
        with self._lock:
            self._takers -= 1
            if self._takers == 0:
                Autotuner.run, Autotuner.do_bench = self._originals


class _Benchmarker:
    """The descriptor that replaces `autotuner.do_bench` while autotuned launches are taken. What is
    kept for each autotuner stays where Triton keeps it, among the autotuner's attributes.
    """

    def __init__(self, original: Any, taker: AutotunedLaunches) -> None:
        self._original = original
        self._taker = taker

    def __get__(self, autotuner: Any, owner: type) -> Any:
        if autotuner is None:
            return self._original
        taken = self._taker.benchmarker(autotuner)
        if taken is not None:
            return taken
        kept = vars(autotuner)
        return kept["do_bench"] if "do_bench" in kept else self._original.__get__(autotuner, owner)

    def __set__(self, autotuner: Any, benchmarker: Any) -> None:
        vars(autotuner)["do_bench"] = benchmarker

    def __delete__(self, autotuner: Any) -> None:
        del vars(autotuner)["do_bench"]


_offer = _Offer()


def _run_by_taker(run_timed: Callable[..., Any], taker: AutotunedLaunches) -> Callable[..., Any]:
    @functools.wraps(run_timed)
    def run(autotuner: Any, *args: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        return taker.launch(run_timed, autotuner, args, keywords)

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
