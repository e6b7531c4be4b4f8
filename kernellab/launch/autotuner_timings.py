"""The times that Triton's autotuner measured on a GPU, kept because Triton discards them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernellab import triton_api
from kernellab.compiler.specialization.binding import BoundCall, bind
from kernellab.compiler.specialization.unwrapping import unwrap_kernel
from kernellab.compiler.targets import DEFAULT_TARGET, local_target
from kernellab.errors import KernelLabError
from kernellab.launch.argument_copies import without_memory
from kernellab.launch.preparation import innermost
from kernellab.triton_api import Autotuner, Config, JITFunction


@dataclass(frozen=True)
class AutotunerTimings:
    """What Triton's autotuner measured in one launch. Triton keeps it only until the next launch,
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
    facts = {name: without_memory(value) for name, value in given.items()}
    if config.pre_hook is not None:
        with contextlib.suppress(Exception):  # a hook that reads tensors
            config.pre_hook({**facts, **config.all_kwargs()})
    # Tensors themselves, for their alignment; descriptors with the block that the hook set.
    values = {
        name: value if isinstance(value, torch.Tensor) else facts[name]
        for name, value in given.items()
    }
    kernel, keywords = unwrap_kernel(autotuner.fn, (), {**values, **config.all_kwargs()}, {})
    call = bind(kernel, (), keywords, local_target() or DEFAULT_TARGET)
    return replace(
        call, values={name: without_memory(value) for name, value in call.values.items()}
    )


def _percentiles(times: float | Sequence[float]) -> Sequence[float]:
    """Return three percentiles; a user's benchmarker may give one number."""
    if isinstance(times, int | float):
        return (float(times),) * 3
    return tuple(float(time) for time in times)
