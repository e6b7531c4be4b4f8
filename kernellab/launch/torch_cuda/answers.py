"""What `torch.cuda`, `torch.accelerator` and torch's questions about Triton answer inside."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernellab import triton_api
from kernellab.launch.torch_cuda import streams
from kernellab.launch.torch_cuda.marks import GPU, allocated
from kernellab.launch.torch_cuda.properties import DeviceProperties
from kernellab.launch.torch_cuda.sessions import Session
from kernellab.records import Target
from kernellab.torch_api import gpu_answers
from kernellab.torch_api.gpu_answers import device_index

Answer = Callable[..., Any]
"""Called with the session and the arguments."""


def _is(value: Any) -> Answer:
    return lambda _session, *_args, **_kwargs: value


def _of_device(answer: Callable[[Session], Any]) -> Answer:
    """An answer about one device: the emulated one, or none."""

    def answer_about(session: Session, device: Any = None) -> Any:
        device_index(device)
        return answer(session)

    return answer_about


def _of_torch(answers: Mapping[str, Callable[..., Any]]) -> dict[str, Answer]:
    return {
        name: lambda _session, *args, _answer=answer: _answer(*args)
        for name, answer in answers.items()
    }


_properties = functools.cache(DeviceProperties)


def _is_bf16_supported(session: Session, including_emulation: bool = True) -> bool:
    is_amd = session.target.backend == "hip"
    return is_amd or _properties(session.target).major >= 8 or including_emulation


def _is_tf32_supported(session: Session) -> bool:
    return session.target.backend == "cuda" and _properties(session.target).major >= 8


_DEVICE: dict[str, Answer] = {
    **_of_torch(gpu_answers.OF_CUDA),
    "_get_device_properties": lambda session, _index: _properties(session.target),
    "is_initialized": _is(True),
    "init": _is(None),
    "is_bf16_supported": _is_bf16_supported,
    "is_tf32_supported": _is_tf32_supported,
    "cudart": lambda session: _CudaRuntime(session),
    "check_error": _is(None),
}


class _CudaRuntime:
    """What `torch.cuda.cudart()` has."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def cudaProfilerStart(self) -> int:  # noqa: N802
        """No one listens."""
        return 0

    cudaProfilerStop = cudaProfilerStart  # noqa: N815

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


def _reset_peak(_session: Session, _index: int) -> None:
    allocated.reset_peak()


def _free_and_total(session: Session) -> tuple[int, int]:
    total: int = _properties(session.target).total_memory
    return max(total - allocated.bytes, 0), total


def _memory_stats(_session: Session, _index: int) -> dict[str, Any]:
    now = {"all": {"current": allocated.bytes, "peak": allocated.peak}}
    return {"allocated_bytes": now, "reserved_bytes": now, "num_alloc_retries": 0, "num_ooms": 0}


def _memory_summary(session: Session, device: Any = None, *_: Any, **__: Any) -> str:
    device_index(device)
    free, total = _free_and_total(session)
    return (
        f"{_properties(session.target).name}, emulated: {allocated.bytes:,} bytes allocated (at "
        f"most {allocated.peak:,}), {free:,} of {total:,} free\n"
    )


OF_CUDA: Mapping[str, Answer] = _DEVICE | _STREAMS | {"memory_summary": _memory_summary}
"""Functions of `torch.cuda`; its others are written in terms of these and of `OF_C`."""

_cuda: Any = torch.cuda

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
        name: lambda _session, *args, _name=name: getattr(_cuda, _name)(*args)
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
    **_of_torch(gpu_answers.OF_C),
    "_cuda_canDeviceAccessPeer": _is(False),
    "_cuda_getArchFlags": lambda session: session.target.name,
    "_cuda_getAllocatorBackend": _is("native"),
    "_cuda_get_sync_debug_mode": _is(0),
    "_cuda_memoryStats": _memory_stats,
    "_cuda_resetPeakMemoryStats": _reset_peak,
    **dict.fromkeys(
        (
            "_cuda_emptyCache",
            "_cuda_ipc_collect",
            "_cuda_resetAccumulatedMemoryStats",
            "_cuda_setMemoryFraction",
            "_cuda_set_sync_debug_mode",
            "_cuda_sleep",
        ),
        _is(None),
    ),
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
