"""What `torch.cuda`, `torch.accelerator` and torch's questions about Triton answer inside."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernellab import triton_api
from kernellab.launch.torch_cuda import streams
from kernellab.launch.torch_cuda.generators import Generator, default_generator
from kernellab.launch.torch_cuda.marks import GPU, allocated, names_gpu
from kernellab.launch.torch_cuda.properties import DeviceProperties
from kernellab.launch.torch_cuda.sessions import Session
from kernellab.records import Target

Answer = Callable[..., Any]
"""Called with the session, and with what was asked."""


def _is(value: Any) -> Answer:
    return lambda _session, *_args, **_kwargs: value


def _of_device(answer: Callable[[Session], Any]) -> Answer:
    """An answer about one device: the emulated one, or none."""

    def answer_about(session: Session, device: Any = None) -> Any:
        _check(device)
        return answer(session)

    return answer_about


def _check(device: Any) -> None:
    """Refuse what is no device of the emulated GPU, as torch does."""
    if device is None or (isinstance(device, int) and device < 0):
        return
    if not names_gpu(device):
        raise ValueError(f"Expected a cuda device, but got: {device}")


@functools.cache
def _properties(target: Target) -> DeviceProperties:
    return DeviceProperties(target)


def _is_bf16_supported(session: Session, including_emulation: bool = True) -> bool:
    major, _ = triton_api.compute_capability(session.target)
    return session.target.backend == "hip" or major >= 8 or including_emulation


def _is_tf32_supported(session: Session) -> bool:
    major, _ = triton_api.compute_capability(session.target)
    return session.target.backend == "cuda" and major >= 8


_DEVICE: dict[str, Answer] = {
    "is_available": _is(True),
    "is_initialized": _is(True),
    "init": _is(None),
    "_lazy_init": _is(None),
    "is_bf16_supported": _is_bf16_supported,
    "is_tf32_supported": _is_tf32_supported,
    "device_count": _is(1),
    "current_device": _is(0),
    "set_device": _of_device(_is(None)),
    "synchronize": _of_device(_is(None)),
    "_exchange_device": _of_device(_is(0)),
    "_maybe_exchange_device": _of_device(_is(0)),
    "get_device_name": _of_device(lambda session: _properties(session.target).name),
    "get_device_capability": _of_device(
        lambda session: triton_api.compute_capability(session.target)
    ),
    "get_device_properties": _of_device(lambda session: _properties(session.target)),
    "get_arch_list": lambda session: [session.target.name],
    "can_device_access_peer": _is(False),
    "get_sync_debug_mode": _is(0),
    "set_sync_debug_mode": _is(None),
    "get_allocator_backend": _is("native"),
    "cudart": lambda session: _CudaRuntime(session),
    "check_error": _is(None),
    "_sleep": _is(None),
    "ipc_collect": _is(None),
}


class _CudaRuntime:
    """What `torch.cuda.cudart()` has."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def cudaProfilerStart(self) -> int:  # noqa: N802
        """Nobody listens."""
        return 0

    def cudaProfilerStop(self) -> int:  # noqa: N802
        """Nobody listens."""
        return 0

    def cudaMemGetInfo(self, _device: int = 0) -> tuple[int, int]:  # noqa: N802
        """Free bytes, and all."""
        return _free_and_total(self._session)


_STREAMS: dict[str, Answer] = {
    "current_stream": _of_device(streams.current_stream),
    "default_stream": _of_device(lambda _session: streams.default_stream()),
    "set_stream": streams.set_stream,
    "is_current_stream_capturing": _is(False),
    "graph_pool_handle": lambda _session: streams.refuse_graph(),
    "make_graphed_callables": streams.refuse_graph,
    "range_push": _is(0),
    "range_pop": _is(0),
    "range_start": _is(0),
    "range_end": _is(None),
    "mark": _is(None),
}


# Memory: the tensors that count as being there


def _reset_peak(_session: Session) -> None:
    allocated.reset_peak()


def _free_and_total(session: Session) -> tuple[int, int]:
    total: int = _properties(session.target).total_memory
    return max(total - allocated.bytes, 0), total


def _memory_stats(_session: Session) -> dict[str, int]:
    return dict.fromkeys(("num_alloc_retries", "num_ooms"), 0) | {
        f"{what}_bytes.all.{when}": bytes_
        for what in ("allocated", "reserved")
        for when, bytes_ in (("current", allocated.bytes), ("peak", allocated.peak))
    }


def _memory_summary(session: Session, device: Any = None, abbreviated: bool = False) -> str:
    _check(device)
    del abbreviated
    free, total = _free_and_total(session)
    return (
        f"{_properties(session.target).name}, emulated: {allocated.bytes:,} bytes allocated (at "
        f"most {allocated.peak:,}), {free:,} of {total:,} free\n"
    )


_MEMORY: dict[str, Answer] = {
    "memory_summary": _memory_summary,
    "empty_cache": _is(None),
    "mem_get_info": _of_device(_free_and_total),
    "memory_stats": _of_device(_memory_stats),
    **dict.fromkeys(
        ("memory_allocated", "memory_reserved"), _of_device(lambda _session: allocated.bytes)
    ),
    **dict.fromkeys(
        ("max_memory_allocated", "max_memory_reserved"),
        _of_device(lambda _session: allocated.peak),
    ),
    **dict.fromkeys(
        ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"),
        _of_device(_reset_peak),
    ),
    "reset_accumulated_memory_stats": _of_device(_is(None)),
    "set_per_process_memory_fraction": _is(None),
}


# Random numbers: the GPU's default generator


def _of_generator(answer: Callable[[Generator], Any]) -> Answer:
    return lambda _session: answer(default_generator())


def _manual_seed(_session: Session, seed: int) -> None:
    default_generator().manual_seed(seed)


def _set_rng_state(_session: Session, new_state: torch.Tensor, device: Any = "cuda") -> None:
    _check(device)
    default_generator().set_state(new_state)


def _set_rng_states(_session: Session, new_states: Any) -> None:
    for state in new_states:
        default_generator().set_state(state)


_RANDOM: dict[str, Answer] = {
    "manual_seed": _manual_seed,
    "manual_seed_all": _manual_seed,
    "seed": _of_generator(lambda one: one.seed()),
    "seed_all": _of_generator(lambda one: one.seed()),
    "initial_seed": _of_generator(lambda one: one.initial_seed()),
    "get_rng_state": _of_device(lambda _session: default_generator().get_state()),
    "get_rng_state_all": _of_generator(lambda one: [one.get_state()]),
    "set_rng_state": _set_rng_state,
    "set_rng_state_all": _set_rng_states,
}

OF_CUDA: Mapping[str, Answer] = _DEVICE | _STREAMS | _MEMORY | _RANDOM
"""Functions of `torch.cuda`."""

OF_ACCELERATOR: dict[str, Answer] = {
    "is_available": _is(True),
    "device_count": _is(1),
    "current_accelerator": _is(torch.device(GPU.type)),
    "current_device_index": _is(0),
    "set_device_index": _of_device(_is(None)),
    "current_stream": _of_device(streams.current_stream),
    "set_stream": streams.set_stream,
    "synchronize": _of_device(_is(None)),
    **{
        name: _MEMORY[name]
        for name in (
            "empty_cache",
            "memory_stats",
            "memory_allocated",
            "max_memory_allocated",
            "memory_reserved",
            "max_memory_reserved",
            "reset_peak_memory_stats",
            "reset_accumulated_memory_stats",
        )
    },
    "get_memory_info": _of_device(_free_and_total),
}
"""Functions of `torch.accelerator`."""

OF_C: Mapping[str, Answer] = {
    "_get_accelerator": _is(torch.device(GPU.type)),
    "_accelerator_exchangeDevice": _is(0),
    "_accelerator_maybeExchangeDevice": _is(0),
    "_accelerator_emptyHostCache": _is(None),
    "_cuda_getCurrentRawStream": lambda session, _device: (
        streams.current_stream(session).cuda_stream
    ),
}
"""Functions of torch's extension module that Python code calls by name."""

STAND_INS: Mapping[str, type] = {
    "Stream": streams.Stream,
    "ExternalStream": streams.ExternalStream,
    "Event": streams.Event,
    "CUDAGraph": streams.CUDAGraph,
    "graph": streams.GraphCapture,
}
"""Classes of `torch.cuda`."""


def version_of(target: Target, name: str) -> str | None:
    """`torch.version.cuda` or `.hip`: of the part of the toolkit that Triton brings."""
    return triton_api.toolkit_version(target) if name == target.backend else None
