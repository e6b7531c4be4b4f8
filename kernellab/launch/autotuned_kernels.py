"""Autotuned kernels where nothing can be timed:
Triton's own autotuner, with every config as fast as the next.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.specialization.argument_values import tensor_of
from kernellab.compiler.specialization.binding import BoundCall, bind
from kernellab.compiler.specialization.unwrapping import unwrap_kernel
from kernellab.compiler.targets import DEFAULT_TARGET, local_target
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.launch.dispatch import facts_of
from kernellab.launch.preparation import goes_to_gpu, innermost
from kernellab.triton_api import Autotuner, Config, JITFunction

ConfigName = int | Any
"""One of an autotuner's configs, by its number from 0; or a `triton.Config` of one's own."""

_named: ContextVar[ConfigName | None] = ContextVar("kernellab_config", default=None)


@contextmanager
def launched_with(kernel: Any, config: ConfigName | None) -> Iterator[None]:
    """While active, autotuned launches of this thread take `config` instead of timing,
    or of taking the first.

    Raises:
        ArgumentError: `kernel` has no such config.
    """
    if config is not None:
        _named_config(_autotuner_in(kernel), config)
    token = _named.set(config)
    try:
        yield
    finally:
        _named.reset(token)


def _autotuner_in(kernel: Any) -> Autotuner:
    inside = kernel
    while not isinstance(inside, Autotuner):
        if isinstance(inside, JITFunction):
            raise ArgumentError(
                f"{inside.__name__!r} is not autotuned, and a config was named for it",
                advice="Give its constants and options by name.",
                position=triton_api.definition_of(inside),
            )
        inside = inside.fn
    return inside


def _named_config(autotuner: Autotuner, config: ConfigName) -> Config:
    if isinstance(config, Config):
        return config
    count = len(autotuner.configs)
    if isinstance(config, bool) or not isinstance(config, int) or not 0 <= config < count:
        kernel = innermost(autotuner)
        numbered = "\n".join(f"  {number}: {one}" for number, one in enumerate(autotuner.configs))
        raise ArgumentError(
            f"{kernel.__name__!r} has no config {config!r}",
            advice=f"Give a triton.Config, or the number of one of these:\n{numbered}",
            position=triton_api.definition_of(kernel),
        )
    return autotuner.configs[config]


def take_autotuned_launches() -> None:
    """Put `launch_autotuned` in the place of Triton's own `Autotuner.run`, for good.

    A launch on a GPU forgets what was chosen without timing, and leaves its timings behind, only
    from then on. Importing this module changes nothing of Triton's.
    """
    triton_api.offer_autotuned_launches(launch_autotuned)


@contextmanager
def autotuned_launches_taken() -> Iterator[None]:
    """While active, `launch_autotuned` is in the place of Triton's own `Autotuner.run`. Afterwards
    no choice is left that was made without timing.
    """
    with triton_api.autotuned_launches_offered(launch_autotuned):
        try:
            yield
        finally:
            for autotuner in list(_untimed):
                _forget_untimed(autotuner)


def launch_autotuned(
    run_timed: Callable[..., Any],
    autotuner: Autotuner,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Any:
    """Launch with the config that was named, else on a CPU with the first that is not pruned;
    the GPU's are left to Triton.

    All else is Triton's own: pruning, hooks, `best_config`.
    The choice made without timing is said once, and never used on a GPU.
    """
    __tracebackhide__ = True
    config = _named.get()
    if config is not None:
        with _replaced(autotuner, configs=[_named_config(autotuner, config)]):
            return run_timed(autotuner, *args, **keywords)
    if not _is_ours(autotuner) or goes_to_gpu(innermost(autotuner), args, keywords):
        _forget_untimed(autotuner)
        before = _last_timings(autotuner)
        result = run_timed(autotuner, *args, **keywords)
        # A new key need not mean new timings: from Triton 3.8 on,
        # a single config that pruning leaves is not timed.
        if _last_timings(autotuner) is not before:
            _note_timings(autotuner, args, keywords)
        return result
    _check_not_given(autotuner, keywords)
    arguments = [_as_tensor(value) for value in args]
    named = {name: _as_tensor(value) for name, value in keywords.items()}
    known = set(autotuner.cache)
    with _replaced(autotuner, do_bench=_all_equal, cache_results=False):
        result = run_timed(autotuner, *arguments, **named)
    chosen = set(autotuner.cache) - known
    if chosen:
        _say_not_tuned(autotuner)
        _untimed.setdefault(autotuner, set()).update(chosen)
    return result


@dataclass(frozen=True)
class AutotunerTimings:
    """What Triton's autotuner found out in one launch;
    Triton keeps it until the next only, and has no hook for it.
    """

    key: Mapping[str, Any]
    """The arguments that choose the config, and their values."""
    timings: Sequence[tuple[Config, Sequence[float]]]
    """Each config's median, 20th and 80th percentile in milliseconds;
    infinite where it could not run."""
    calls: Sequence[BoundCall]
    """The launch with each config, values without their memory."""
    seconds: float
    """What the autotuner took."""


_noted: weakref.WeakKeyDictionary[JITFunction, list[AutotunerTimings]] = weakref.WeakKeyDictionary()


def autotuner_timings(kernel: JITFunction) -> Sequence[AutotunerTimings]:
    """What autotuners around a kernel have timed in this process, in order."""
    return tuple(_noted.get(kernel, ()))


def _last_timings(autotuner: Autotuner) -> Any:
    """What the autotuner timed last: a new dict each time."""
    return getattr(autotuner, "configs_timings", None)


def _note_timings(autotuner: Autotuner, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Keep what the autotuner has just timed; a launch that cannot be described is
    not worth an error.
    """
    kernel = innermost(autotuner)
    found = _last_timings(autotuner)
    if not found:
        return
    given = {**dict(zip(autotuner.arg_names, args)), **keywords}
    known = {*kernel.arg_names, *triton_api.option_names(local_target() or DEFAULT_TARGET)}
    own = {name: value for name, value in given.items() if name in known}
    with contextlib.suppress(KernelLabError):
        calls = [_call_with(config, autotuner, own) for config in found]
        # A tensor in the key stands for its dtype alone, which Triton adds by itself.
        key = {
            name: given[name]
            for name in autotuner.keys
            if name in own and not hasattr(given[name], "data_ptr")
        }
        timings = [(config, _percentiles(times)) for config, times in found.items()]
        seconds = float(getattr(autotuner, "bench_time", 0.0))
        noted = AutotunerTimings(key, timings, calls, seconds)
        _noted.setdefault(kernel, []).append(noted)


def _call_with(config: Config, autotuner: Autotuner, given: Mapping[str, Any]) -> BoundCall:
    """The launch with a config, as its hook makes the arguments and heuristics complete them;
    nothing is done to the tensors.
    """
    facts = {name: facts_of(value) for name, value in given.items()}
    if config.pre_hook is not None:
        with contextlib.suppress(Exception):  # a hook that wants memory
            config.pre_hook({**facts, **config.all_kwargs()})
    # Tensors as they are, for their alignment; descriptors with the block that the hook gave them.
    values = {
        name: value if isinstance(value, torch.Tensor) else facts[name]
        for name, value in given.items()
    }
    kernel, keywords = unwrap_kernel(autotuner.fn, (), {**values, **config.all_kwargs()}, {})
    call = bind(kernel, (), keywords, local_target() or DEFAULT_TARGET)
    return replace(call, values={name: facts_of(value) for name, value in call.values.items()})


def _percentiles(times: float | Sequence[float]) -> Sequence[float]:
    """A user's own benchmarker may give one number."""
    if isinstance(times, int | float):
        return (float(times),) * 3
    return tuple(float(one) for one in times)


def _is_ours(autotuner: Autotuner) -> bool:
    """Whether the interpreter would get a launch on CPU tensors:
    in an emulation it gets every kernel's.
    """
    kernel = innermost(autotuner)
    return triton_api.current_emulation() is not None or getattr(kernel, "runs_on_cpu", False)


_untimed: weakref.WeakKeyDictionary[Autotuner, set[Any]] = weakref.WeakKeyDictionary()
"""The keys of each autotuner's cache whose config was chosen without timing."""


def _forget_untimed(autotuner: Autotuner) -> None:
    for key in _untimed.pop(autotuner, ()):
        autotuner.cache.pop(key, None)


def _all_equal(_kernel_call: Callable[[], Any], quantiles: Sequence[float]) -> list[float]:
    """A benchmarker that runs nothing: the first of equally fast configs wins."""
    return [0.0] * len(quantiles)


@contextmanager
def _replaced(autotuner: Autotuner, **attributes: Any) -> Iterator[None]:
    """The autotuner with other attributes for a while;
    those that it did not have are gone again afterwards.
    """
    own = vars(autotuner)
    before = {name: own[name] for name in attributes if name in own}
    own.update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            del own[name]
        own.update(before)


def _as_tensor(value: Any) -> Any:
    """Hooks are written for tensors; NumPy arrays become tensors over the same memory,
    as long as they can be written.
    """
    if isinstance(value, numpy.ndarray) and value.flags.writeable:
        return tensor_of(value)
    return value


def _check_not_given(autotuner: Autotuner, keywords: Mapping[str, Any]) -> None:
    tuned = {name for config in autotuner.configs for name in config.kwargs}
    twice = sorted(tuned & keywords.keys())
    if twice:
        kernel = innermost(autotuner)
        raise ArgumentError(
            f"{', '.join(twice)} of {kernel.__name__!r} comes from the autotuner's configs, and "
            "the launch gives it too",
            advice="Leave it out of the launch.",
            position=triton_api.definition_of(kernel),
        )


def _say_not_tuned(autotuner: Autotuner) -> None:
    if autotuner in _untimed:
        return
    print(
        f"{innermost(autotuner).__name__}: not autotuned, because time on a CPU says nothing about "
        f"a GPU. The first of {len(autotuner.configs)} configs is used: {autotuner.best_config}",
        file=sys.stderr,
    )
