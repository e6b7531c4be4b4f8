"""Autotuned kernels: what Triton's autotuner measured on a GPU, and its choice if nothing can be
timed.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.common.patches import replaced, variable_is
from kernellab.compiler.arguments import tensor_of
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.kernels import unwrap_kernel
from kernellab.compiler.targets import DEFAULT_TARGET, local_target
from kernellab.errors import ArgumentError, CompileError, KernelLabError
from kernellab.launch.argument_copies import without_memory
from kernellab.launch.dispatch import Fits, is_settled, settle, trial
from kernellab.launch.preparation import goes_to_gpu, innermost
from kernellab.triton_api import Autotuner, Config, JITFunction

# The times that Triton's autotuner measured on a GPU, kept because Triton discards them.


@dataclass(frozen=True)
class AutotunerTimings:
    """The times of Triton's autotuner in one launch. Triton keeps it only until the next launch,
    and has no hook for it.
    """

    key: Mapping[str, Any]
    """The arguments that select the config, with their values."""
    timings: Sequence[tuple[Config, Sequence[float]]]
    """Each config with its median, 20th and 80th percentile in milliseconds; infinite if it could
    not run."""
    calls: Sequence[BoundCall]
    """The launch with each config; tensors without memory."""
    seconds: float
    """The autotuner's time."""


@dataclass(frozen=True)
class TunerFacts:
    """The steps of an autotuner around the trials of its configs.

    Attributes:
        configs: its configs.
        keys: the names in key=.
        zeroed, restored: the arguments in reset_to_zero= and restore_value=.
        lost: the arguments in `zeroed` that hold other numbers than 0.
        restores_otherwise: whether a hook of the user may restore arguments.
    """

    configs: Sequence[Config]
    keys: Sequence[str]
    zeroed: Sequence[str]
    restored: Sequence[str]
    lost: Sequence[str]
    restores_otherwise: bool


def tuner_facts(kernel: Any, values: Mapping[str, Any]) -> TunerFacts | None:
    """Return what the autotuner around a kernel does in a launch with these arguments, by name;
    None if there is none.
    """
    inside = kernel
    while inside is not None and not isinstance(inside, Autotuner):
        inside = None if isinstance(inside, JITFunction) else getattr(inside, "fn", None)
    if inside is None:
        return None
    zeroed = tuple(inside.reset_to_zero)
    lost = [name for name in zeroed if isinstance(values.get(name), torch.Tensor)]
    has_hook = getattr(inside, "user_defined_pre_hook", False) or any(
        config.pre_hook is not None for config in inside.configs
    )
    return TunerFacts(
        tuple(inside.configs), tuple(inside.keys), zeroed, tuple(inside.restore_value),
        tuple(name for name in lost if bool(values[name].ne(0).any())), has_hook,
    )  # fmt: skip


def restoring(tuner: Autotuner, name: str) -> Autotuner:
    """Return an autotuner like another one that restores an argument after each trial, and does
    not reset it to zero.
    """
    zeroed = [other for other in tuner.reset_to_zero if other != name]
    restored = [*tuner.restore_value, name]
    return Autotuner(tuner.fn, tuner.arg_names, tuner.configs, tuner.keys, zeroed, restored)


_noted: weakref.WeakKeyDictionary[JITFunction, list[AutotunerTimings]] = weakref.WeakKeyDictionary()


def autotuner_timings(kernel: JITFunction) -> Sequence[AutotunerTimings]:
    """Return what autotuners around a kernel have measured in this process, in order."""
    return tuple(_noted.get(kernel, ()))


def last_timings(autotuner: Autotuner) -> Any:
    """Return what the autotuner measured last: a new dict each time."""
    return getattr(autotuner, "configs_timings", None)


def note_timings(autotuner: Autotuner, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Keep what the autotuner has just measured; a launch that cannot be described is left out."""
    kernel = innermost(autotuner)
    times_of_configs = last_timings(autotuner)
    if not times_of_configs:
        return
    given = {**dict(zip(autotuner.arg_names, args)), **keywords}
    known = {*kernel.arg_names, *triton_api.option_names(local_target() or DEFAULT_TARGET)}
    own = {name: value for name, value in given.items() if name in known}
    with contextlib.suppress(KernelLabError):
        calls = [_call_with(config, autotuner, own) for config in times_of_configs]
        # Of a tensor in the key only the dtype counts, which Triton adds by itself.
        key = {
            name: given[name]
            for name in autotuner.keys
            if name in own and not hasattr(given[name], "data_ptr")
        }
        timings = [(config, _percentiles(times)) for config, times in times_of_configs.items()]
        seconds = float(getattr(autotuner, "bench_time", 0.0))
        noted = AutotunerTimings(key, timings, calls, seconds)
        _noted.setdefault(kernel, []).append(noted)


def _call_with(config: Config, autotuner: Autotuner, given: Mapping[str, Any]) -> BoundCall:
    """Return the launch with a config, after its hook and heuristics; tensors do not change."""
    # Tensors themselves, for their alignment; copies of descriptors, whose block the hook sets.
    values = {
        name: value if isinstance(value, torch.Tensor) else without_memory(value)
        for name, value in given.items()
    }
    with replaced(autotuner, configs=[config]):
        kernel, keywords = unwrap_kernel(autotuner, (), values, {})
    call = bind(kernel, (), keywords, local_target() or DEFAULT_TARGET)
    return replace(
        call, values={name: without_memory(value) for name, value in call.values.items()}
    )


def _percentiles(times: float | Sequence[float]) -> Sequence[float]:
    """Return three percentiles; a user's benchmarker may give one number."""
    if isinstance(times, int | float):
        return (float(times),) * 3
    return tuple(float(time) for time in times)


# Autotuned kernels if nothing can be timed: Triton's own autotuner runs, and all configs
# count as equally fast.


ConfigName = int | Any
"""The number of one of an autotuner's configs, from 0; or another `triton.Config`."""

_named: ContextVar[ConfigName | None] = ContextVar("kernellab_config", default=None)


def launched_with(kernel: Any, config: ConfigName | None) -> AbstractContextManager[object]:
    """While active, autotuned launches of this thread use `config`, and time nothing. Raises
    ArgumentError: `kernel` has no such config.
    """
    if config is not None:
        _named_config(_autotuner_in(kernel), config)
    return variable_is(_named, config)


def _autotuner_in(kernel: Any) -> Autotuner:
    inside = kernel
    while not isinstance(inside, Autotuner):
        if isinstance(inside, JITFunction):
            raise ArgumentError(
                f"{inside.__name__!r} is not autotuned, so it has no configs.",
                advice="Remove config=, and pass constants and options by name.",
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
        numbered = "\n".join(f"  {number}: {each}" for number, each in enumerate(autotuner.configs))
        raise ArgumentError(
            f"{kernel.__name__!r} has no config {config!r}.",
            advice=f"Pass a triton.Config or the number of one of these:\n{numbered}",
            position=triton_api.definition_of(kernel),
        )
    return autotuner.configs[config]


def take_autotuned_launches() -> None:
    """Replace Triton's `Autotuner.run` with `launch_autotuned`, for the rest of the process.

    Only from then on does a launch on a GPU discard choices made without timing and keep its
    timings. Importing this module does not change Triton.
    """
    triton_api.offer_autotuned_launches(_TAKER)


@contextmanager
def autotuned_launches_taken() -> Iterator[None]:
    """While active, `launch_autotuned` replaces Triton's `Autotuner.run`. Afterwards, choices made
    without timing are discarded.
    """
    with triton_api.autotuned_launches_offered(_TAKER):
        try:
            yield
        finally:
            for autotuner in [*_untimed]:
                _forget_untimed(autotuner)


def launch_autotuned(
    run_timed: Callable[..., Any],
    autotuner: Autotuner,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Any:
    """Launch with the requested config, or on a CPU with the first that is not pruned; Triton makes
    launches on a GPU itself.

    Pruning, hooks and `best_config` are Triton's. The choice without timing is printed once, and
    never used on a GPU.
    """
    __tracebackhide__ = True
    config = _named.get()
    if config is not None:
        with replaced(autotuner, configs=[_named_config(autotuner, config)]):
            return run_timed(autotuner, *args, **keywords)
    if not _is_ours(autotuner) or goes_to_gpu(innermost(autotuner), args, keywords):
        _forget_untimed(autotuner)
        before = last_timings(autotuner)
        result = run_timed(autotuner, *args, **keywords)
        # A new key need not mean new timings: from Triton 3.8 on,
        # a single config that pruning leaves is not timed.
        if last_timings(autotuner) is not before:
            note_timings(autotuner, args, keywords)
        return result
    _check_not_given(autotuner, keywords)
    arguments = [_as_tensor(value) for value in args]
    named = {name: _as_tensor(value) for name, value in keywords.items()}
    choices = _untimed_choices(autotuner)
    known = len(choices)
    choice = _choice.get()
    choice.tried = 0
    with variable_is(_on_cpu, True), replaced(autotuner, cache_results=False):
        result = run_timed(autotuner, *arguments, **named)
    choice.count = max(choice.count, choice.tried)
    if len(choices) > known == 0:
        _say_not_tuned(autotuner)
    return result


@dataclass
class UntimedChoice:
    """Which config autotuned launches use if nothing can be timed.

    Attributes:
        place: its place among the configs that are not pruned; the first that fits if it does not,
            or if it is below 0.
        count: the most configs that an autotuner chose from.
        tried: how many the current launch has tried.
    """

    place: int
    count: int = 1
    tried: int = 0


_choice: ContextVar[UntimedChoice] = ContextVar("kernellab_choice", default=UntimedChoice(-1))  # noqa: B039 - which counts only


def untimed_choice(place: int) -> AbstractContextManager[UntimedChoice]:
    """While active, launches choose the config at `place`, also those that have chosen before."""
    for autotuner in [*_untimed]:
        _forget_untimed(autotuner)
    return variable_is(_choice, UntimedChoice(place))


_on_cpu: ContextVar[bool] = ContextVar("kernellab_autotuned_on_cpu", default=False)
"""Whether an autotuned launch on the interpreter is running."""


def _benchmarker(autotuner: Autotuner) -> Callable[..., list[float]] | None:
    """Return the function that an autotuner of any class times with; None for its own."""
    if not _on_cpu.get():
        given = (getattr(autotuner, "nargs", None) or {}).values()
        if not _is_ours(autotuner) or goes_to_gpu(innermost(autotuner), [*given], {}):
            return None
        # An autotuner of another class launches by itself, and keeps its choices in its cache.
        _untimed_choices(autotuner)
    return functools.partial(_first_that_fits, autotuner)


_TAKER = triton_api.AutotunedLaunches(launch_autotuned, _benchmarker)


def _first_that_fits(
    autotuner: Autotuner, kernel_call: Callable[[], Any], quantiles: Sequence[float] | None = None
) -> Any:
    """A benchmarker that runs nothing. Configs are tried until one fits the target; all but the
    chosen one count as equally fast, so the first that fits wins. Raises OutOfResources: this
    config does not fit; the autotuner drops it.
    """
    choice = _choice.get()
    is_chosen = choice.tried == choice.place
    choice.tried += 1
    if is_chosen or not is_settled(autotuner):
        try:
            with trial():
                kernel_call()
        except Fits:
            pass
        except CompileError as error:
            raise error.__cause__ or error from None
        settle(autotuner)
    seconds = -1.0 if is_chosen else 0.0
    return seconds if quantiles is None else [seconds] * len(quantiles)


def _is_ours(autotuner: Autotuner) -> bool:
    """Return whether a launch on CPU tensors goes to the interpreter, as all do in an emulation."""
    kernel = innermost(autotuner)
    return triton_api.emulation_of(kernel) is not None or getattr(kernel, "runs_on_cpu", False)


_untimed: weakref.WeakKeyDictionary[Autotuner, Any] = weakref.WeakKeyDictionary()
"""Autotuner that has chosen without timing -> its earlier cache."""


def _untimed_choices(autotuner: Autotuner) -> Any:
    """Return a dict before an autotuner's cache, which may write to a file, for untimed choices."""
    if autotuner not in _untimed:
        _untimed[autotuner] = autotuner.cache
        autotuner.cache = ChainMap({}, autotuner.cache)
    return autotuner.cache.maps[0]


def _forget_untimed(autotuner: Autotuner) -> None:
    if autotuner in _untimed:
        autotuner.cache = _untimed.pop(autotuner)


def _as_tensor(value: Any) -> Any:
    """Return a writable NumPy array as a tensor, which hooks expect; other values unchanged."""
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
            "was also given in the launch.",
            advice="Remove it from the launch.",
            position=triton_api.definition_of(kernel),
        )


def _say_not_tuned(autotuner: Autotuner) -> None:
    configs = autotuner.configs
    first = "The first" if autotuner.best_config is configs[0] else "The first that fits"
    print(
        f"{innermost(autotuner).__name__}: not autotuned, because time on a CPU says nothing about "
        f"a GPU. {first} of {len(configs)} configs is used: {autotuner.best_config}",
        file=sys.stderr,
    )
