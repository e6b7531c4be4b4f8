"""`interpreted(answers="gpu")`: torch's answers, as if a GPU were there.

`torch.cuda` describes the target, in threads that are inside. Tensors are in `cuda_tensors.py`.
Private names of torch's are in `torch_api/`.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from kernellab import triton_api
from kernellab.common.patches import Replacement, WhileAnyThread, all_replaced, around
from kernellab.compiler.machine_code.resources import AMD_LIMITS, NVIDIA_LIMITS
from kernellab.compiler.targets import (
    device_name,
    multiprocessor_count,
    shared_limit,
    usual_gpu,
)
from kernellab.errors import UnsupportedOperation
from kernellab.launch.cuda_tensors import (
    FUNCTIONS,
    GPU,
    OPERATIONS,
    DefaultGenerators,
    Generator,
    GpuSession,
    StandIn,
    allocated,
    context_seeing_gpu,
    current_session,
    is_on_gpu,
    made_unseen,
    names_gpu,
    on_default_device,
    place_of_storage,
    place_storage,
    seeing_gpu,
    session_is,
    share_place,
)
from kernellab.records import Target
from kernellab.torch_api import emulation
from kernellab.torch_api.emulation import (
    device_index,
    follow_autocast,
    following,
    let_operations_be_traced,
    remove_modes,
    stated_default_device,
)

# What `torch.cuda.get_device_properties` says about a target.


_STATIC_SHARED = 48 * 1024
"""The bytes that a block has without an opt-in (CUDA C++ Programming Guide, "Shared Memory")."""

_MOST_THREADS = 1024
"""Of one block (CUDA C++ Programming Guide) or workgroup (AMDGPU backend: flat workgroup size)."""


class DeviceProperties:
    """Like torch's, with the known attributes of the target."""

    def __init__(self, target: Target) -> None:
        """Collect the known attributes."""
        self._target = target
        self.name = device_name(target)
        self.major, self.minor = triton_api.compute_capability(target)
        self.warp_size = triton_api.gpu_target(target).warp_size
        self.max_threads_per_block = _MOST_THREADS
        self.is_integrated = self.is_multi_gpu_board = 0
        # As HIP names it: CDNA 2 to 4 with error correction on, and no retried page faults.
        features = ":sramecc+:xnack-" if target.arch.startswith("gfx9") else ""
        self.gcnArchName = self.name if target.backend == "cuda" else target.arch + features
        usual = usual_gpu(target.arch)
        known = {
            "total_memory": getattr(usual, "memory_bytes", None),
            "multi_processor_count": multiprocessor_count(target),
            "L2_cache_size": getattr(usual, "cache_bytes", None),
            **_limits(target),
        }
        vars(self).update({name: value for name, value in known.items() if value is not None})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"The property {name!r} of {self._target} is not available: KernelLab emulates this "
            "GPU. print(torch.cuda.get_device_properties(0)) shows the properties that it knows."
        )

    def __repr__(self) -> str:
        known = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        said = ", ".join(f"{name}={value!r}" for name, value in known.items())
        return f"_CudaDeviceProperties({said})"


def _limits(target: Target) -> dict[str, int | None]:
    if target.arch in NVIDIA_LIMITS:
        sm = NVIDIA_LIMITS[target.arch]
        return {
            "regs_per_multiprocessor": sm.registers,
            "max_threads_per_multi_processor": sm.warps * 32,
            "shared_memory_per_block": _STATIC_SHARED,
            "shared_memory_per_block_optin": shared_limit(target),
            "shared_memory_per_multiprocessor": sm.shared,
        }
    if target.arch in AMD_LIMITS:
        unit = AMD_LIMITS[target.arch]
        lanes = triton_api.gpu_target(target).warp_size
        return {
            "max_threads_per_multi_processor": unit.simds * unit.waves_per_simd * lanes,
            "shared_memory_per_block": shared_limit(target),
            "shared_memory_per_multiprocessor": unit.lds,
        }
    return {}


# Streams, events and graphs of the emulated GPU: work is over when its call returns, so a stream
# is a name, an event a moment, and a graph cannot be recorded.


_cuda: Any = torch.cuda  # whose functions answer with these classes


class Stream(metaclass=StandIn):
    """As `torch.cuda.Stream`; all work on it is done."""

    original: type[Any] = torch.cuda.Stream
    _numbers = itertools.count(1)
    device = GPU
    device_type = 1
    device_index = 0

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        if device is not None:
            names_gpu(device)
        self.priority = priority
        self.stream_id = next(self._numbers)
        self.cuda_stream = self.stream_id
        self._before: list[Stream] = []

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest that torch gives on a GPU (c10/cuda/CUDAStream.h)."""
        return 0, -3

    def query(self) -> bool:
        """Whether all work is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether a graph is recorded."""
        return False

    def synchronize(self, *_: Any, **__: Any) -> None:
        """Return at once: all work is done, and every event has passed."""

    wait_event = wait_stream = synchronize

    def record_event(self, event: Event | None = None) -> Event:
        """Record the current time in an event."""
        event = Event(enable_timing=True) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._before.append(_cuda.current_stream())
        _cuda.set_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        _cuda.set_stream(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return hash((Stream, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={GPU} cuda_stream={self.cuda_stream:#x}>"


def default_stream() -> Stream:
    """The default current stream."""
    stream = Stream()
    stream.stream_id = stream.cuda_stream = 0
    return stream


def current_stream(session: GpuSession) -> Stream:
    """This thread's current stream."""
    stream: Stream = vars(session.streams).setdefault("current", default_stream())
    return stream


def set_stream(session: GpuSession, stream: Stream | None) -> None:
    """Make a stream this thread's current one."""
    if stream is not None:
        session.streams.current = stream


class Event(metaclass=StandIn):
    """As `torch.cuda.Event`: a moment of this machine's clock."""

    original = torch.cuda.Event
    device = GPU

    def __init__(self, enable_timing: bool = False, *_: bool, **__: bool) -> None:
        self._times = enable_timing
        self._seconds: float | None = None

    def record(self, _stream: Stream | None = None) -> None:
        """Record the current time."""
        self._seconds = time.perf_counter()

    def query(self) -> bool:
        return True

    def synchronize(self, *_: Any, **__: Any) -> None:
        """Return at once: the event has passed."""

    wait = synchronize

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until a later event, of this machine's time."""
        if not (self._times and end_event._times):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._seconds is None or end_event._seconds is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end_event._seconds - self._seconds)


def refuse_graph(*_: Any, **__: Any) -> Any:
    """Refuse to make or use a CUDA graph."""
    raise UnsupportedOperation(
        "CUDA graphs are not emulated: each operation runs at once, and nothing is recorded.",
        advice="Call the function itself, without a graph.",
    )


# What `torch.cuda`, `torch.accelerator` and torch's questions about Triton answer inside.


Answer = Callable[..., Any]
"""Called with the session and the arguments."""


def _is(value: Any) -> Answer:
    return lambda _session, *_args, **_kwargs: value


def _of_device(answer: Callable[[GpuSession], Any]) -> Answer:
    return lambda session, device=None: (device_index(device), answer(session))[1]


def _of_torch(answers: Mapping[str, Callable[..., Any]]) -> dict[str, Answer]:
    return {
        name: lambda _session, *args, _answer=answer: _answer(*args)
        for name, answer in answers.items()
    }


_properties = functools.cache(DeviceProperties)


def _is_bf16_supported(session: GpuSession, including_emulation: bool = True) -> bool:
    is_amd = session.target.backend == "hip"
    return is_amd or _properties(session.target).major >= 8 or including_emulation


_DEVICE: dict[str, Answer] = {
    **_of_torch(emulation.OF_CUDA),
    "_get_device_properties": lambda session, _index: _properties(session.target),
    "is_initialized": _is(True),
    "init": _is(None),
    "is_bf16_supported": _is_bf16_supported,
    "is_tf32_supported": lambda session: (
        session.target.backend == "cuda" and _properties(session.target).major >= 8
    ),
    "cudart": lambda session: _CudaRuntime(session),
    "check_error": _is(None),
}


class _CudaRuntime:
    """The functions of `torch.cuda.cudart()`."""

    def __init__(self, session: GpuSession) -> None:
        self._session = session

    def cudaProfilerStart(self) -> int:  # noqa: N802
        return 0

    cudaProfilerStop = cudaProfilerStart  # noqa: N815

    def cudaMemGetInfo(self, _device: int = 0) -> tuple[int, int]:  # noqa: N802
        """The free bytes, and the total."""
        return _free_and_total(self._session)


_STREAMS: dict[str, Answer] = {
    "current_stream": _of_device(current_stream),
    "default_stream": _of_device(lambda _session: default_stream()),
    "set_stream": set_stream,
    "is_current_stream_capturing": _is(False),
    "graph_pool_handle": lambda _session: refuse_graph(),
    "make_graphed_callables": refuse_graph,
    "range_push": _is(0),
    "range_pop": _is(0),
    "range_start": _is(0),
    "range_end": _is(None),
    "mark": _is(None),
}


# Memory: the tensors that count as being there


def _free_and_total(session: GpuSession) -> tuple[int, int]:
    total: int = _properties(session.target).total_memory
    return max(total - allocated.bytes, 0), total


def _memory_stats(_session: GpuSession, _index: int) -> dict[str, Any]:
    now = {"all": {"current": allocated.bytes, "peak": allocated.peak}}
    return {"allocated_bytes": now, "reserved_bytes": now, "num_alloc_retries": 0, "num_ooms": 0}


def _memory_summary(session: GpuSession, device: Any = None, *_: Any, **__: Any) -> str:
    device_index(device)
    free, total = _free_and_total(session)
    return (
        f"{_properties(session.target).name}, emulated: {allocated.bytes:,} bytes allocated (at "
        f"most {allocated.peak:,}), {free:,} of {total:,} free\n"
    )


OF_CUDA: Mapping[str, Answer] = _DEVICE | _STREAMS | {"memory_summary": _memory_summary}
"""Functions of `torch.cuda`; its others are written in terms of these and of `OF_C`."""


OF_ACCELERATOR: dict[str, Answer] = {
    "is_available": _is(True),
    "device_count": _is(1),
    "current_accelerator": _is(torch.device(GPU.type)),
    "current_device_index": _is(0),
    "set_device_index": _of_device(_is(None)),
    "current_stream": _of_device(current_stream),
    "set_stream": set_stream,
    "synchronize": _of_device(_is(None)),
    **{
        name: lambda _session, *args, _name=name: getattr(_cuda, _name)(*args)
        for name in (
            "empty_cache", "memory_stats", "memory_allocated", "max_memory_allocated",
            "memory_reserved", "max_memory_reserved", "reset_peak_memory_stats",
            "reset_accumulated_memory_stats",
        )
    },
    "get_memory_info": _of_device(_free_and_total),
}  # fmt: skip
"""Functions of `torch.accelerator`."""

OF_C: Mapping[str, Answer] = {
    **_of_torch(emulation.OF_C),
    "_cuda_canDeviceAccessPeer": _is(False),
    "_cuda_getArchFlags": lambda session: session.target.name,
    "_cuda_getAllocatorBackend": _is("native"),
    "_cuda_get_sync_debug_mode": _is(0),
    "_cuda_memoryStats": _memory_stats,
    "_cuda_resetPeakMemoryStats": lambda _session, _index: allocated.reset_peak(),
    **dict.fromkeys(
        (
            "_cuda_emptyCache", "_cuda_ipc_collect", "_cuda_resetAccumulatedMemoryStats",
            "_cuda_setMemoryFraction", "_cuda_set_sync_debug_mode", "_cuda_sleep",
        ),
        _is(None),
    ),
    "_get_accelerator": _is(torch.device(GPU.type)),
    "_accelerator_exchangeDevice": _is(0),
    "_accelerator_maybeExchangeDevice": _is(0),
    "_accelerator_emptyHostCache": _is(None),
    "_cuda_getCurrentRawStream": lambda session, _device: current_stream(session).cuda_stream,
}  # fmt: skip
"""Functions of torch's extension module that Python code calls by name."""

STAND_INS: Mapping[ModuleType, Mapping[str, type]] = {
    torch: {"Generator": Generator},
    torch.cuda: {
        "Stream": Stream,
        "Event": Event,
        **{
            name: StandIn(name, (), {"original": getattr(torch.cuda, name), "made": refuse_graph})
            for name in ("CUDAGraph", "graph")
        },
    },
}
"""Classes of torch's modules."""


# Tensors in files: where they are is said there, and they come back to it.


def place_said(storage: Any) -> str | None:
    """The device of a storage that a file states; None leaves it to torch."""
    untyped = getattr(storage, "_untyped_storage", storage)
    is_there = current_session() is not None and place_of_storage(untyped) == "gpu"
    return str(GPU) if is_there else None


def back_in_place(storage: torch.UntypedStorage, said: str) -> torch.UntypedStorage | None:
    """A storage that was read, where a file, or who loads it, says that it is; None leaves it to
    torch.
    """
    if current_session() is None or not said.startswith(GPU.type) or not names_gpu(said):
        return None
    place_storage(storage, "gpu")
    return storage


# How threads enter a session: the one that opened it, and those that it starts.


class _Depth(threading.local):
    depth = 0


_inside = _Depth()


@contextmanager
def joined_by_this_thread(session: GpuSession) -> Iterator[None]:
    """While active, this thread is inside of the session."""
    stated = stated_default_device()
    _inside.depth += 1
    if _inside.depth == 1:
        FUNCTIONS.__enter__()
        OPERATIONS.__enter__()
    try:
        with session_is(session):
            yield
    finally:
        follow_autocast(False, is_on_gpu)
        _inside.depth -= 1
        if _inside.depth == 0:
            remove_modes(FUNCTIONS, OPERATIONS)
        if stated_default_device() != stated:
            torch.set_default_device(stated)


def start_inside(start: Callable[[threading.Thread], None], thread: threading.Thread) -> None:
    """`threading.Thread.start`, for which a thread that is started inside is inside too."""
    session = current_session()
    if session is not None:
        run: Any = functools.partial(_run_inside, session, thread, thread.run)
        thread.run = run  # type: ignore[method-assign]
    start(thread)


def _run_inside(session: GpuSession, thread: threading.Thread, run: Callable[[], None]) -> None:
    del thread.run  # it may be kept for long, and the session not
    if not session.is_open:
        run()
        return
    with triton_api.emulation_joined(session.emulation), joined_by_this_thread(session):
        run()


# The names of torch's, and `threading.Thread.start`, that are others while a thread is inside.
#
# Each checks whether its caller's thread is inside, and otherwise is what it replaces; so other
# threads are left alone, and what a library took for good (`from torch.cuda import
# is_available`) is harmless later.


_FILES = (place_said, back_in_place)


@contextmanager
def _all_in_place() -> Iterator[None]:
    emulation.forget_answers_about_triton()
    try:
        with all_replaced(_replacements()):
            emulation.take_files(*_FILES)
            torch.version.__class__ = _Versions
            try:
                yield
            finally:
                torch.version.__class__ = ModuleType
                emulation.leave_files(*_FILES)
    finally:
        emulation.forget_answers_about_triton()


_in_place = WhileAnyThread(_all_in_place)


def _replacements() -> Iterator[Replacement]:
    for module in emulation.CUDA_MODULES:
        yield from _answered(module, OF_CUDA)
    yield from _answered(emulation.C_MODULE, OF_C)
    for module, stand_ins in STAND_INS.items():
        yield from ((module, name, stand_in) for name, stand_in in stand_ins.items())
    for accelerator in emulation.ACCELERATOR_MODULES:
        yield from _answered(accelerator, OF_ACCELERATOR)
    questions = emulation.ABOUT_TRITON
    for name in emulation.QUESTIONS_OF_TRITON:
        yield _watched(questions, name, lambda function, _, *args: function.__wrapped__(*args))
    yield questions, "has_triton", _asking(vars(questions)["has_triton"], lambda _session: True)
    yield _watched(torch.backends.cuda, "is_built", _is_built)
    yield torch.cuda, "default_generators", DefaultGenerators(torch.cuda.default_generators)
    yield _watched(torch, "compile", _compile)
    yield torch, "set_autocast_enabled", following(lambda: is_on_gpu if current_session() else None)
    # `record_stream` does not accept our streams.
    yield _watched(torch.Tensor, "record_stream", lambda *_: None)
    for module in (torch, torch.utils.dlpack):
        yield _watched(module, "from_dlpack", _from_dlpack)
    yield torch.Tensor, "__new__", around(torch.Tensor.__new__, made_unseen)
    yield torch.autograd.graph.saved_tensors_hooks, "__init__", _hooks_seeing_gpu()
    converter, mode = emulation.FakeTensorConverter, emulation.FakeTensorMode
    yield converter, "from_real_tensor", around(converter.from_real_tensor, seeing_gpu)
    opcheck = emulation.CrossRefFakeMode
    yield opcheck, "__torch_dispatch__", around(opcheck.__torch_dispatch__, seeing_gpu)
    yield mode, "avoid_device_init", property(_asking(mode.avoid_device_init.fget, _untouched))
    fakes = emulation.FAKE_TENSORS
    yield fakes, "init_gpu_context", _asking(fakes.init_gpu_context, _untouched)
    tracing, constants = emulation.TRACING, "unset_fake_temporarily"
    yield tracing, constants, around(vars(tracing)[constants], context_seeing_gpu)
    context = emulation.DeviceContext
    yield context, "__torch_function__", around(context.__torch_function__, on_default_device)
    yield threading.Thread, "start", around(threading.Thread.start, start_inside)


def _from_dlpack(by_torch: Any, _session: GpuSession, source: Any, **options: Any) -> Any:
    made = by_torch(source, **options)
    share_place(made, source)
    return made


def _hooks_seeing_gpu() -> Callable[..., None]:
    """Hooks that run within torch's functions, as those of checkpoints do."""
    init: Any = torch.autograd.graph.saved_tensors_hooks.__init__

    def make(hooks: Any, pack_hook: Any, unpack_hook: Any) -> None:
        init(hooks, around(pack_hook, seeing_gpu), around(unpack_hook, seeing_gpu))

    return make


def _answered(module: ModuleType, answers: Mapping[str, Any]) -> Iterator[Replacement]:
    for name, answer in answers.items():
        original = vars(module).get(name)
        if callable(original):
            yield module, name, _asking(original, answer)
        elif name.startswith("_") and module in (emulation.C_MODULE, torch.cuda):
            # a torch without CUDA does not have it
            missing = functools.partial(_missing_function, module.__name__, name)
            yield module, name, _asking(missing, answer)


def _missing_function(module: str, name: str, *_: Any, **__: Any) -> Any:
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def _asking(original: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    return around(original, functools.partial(_ask, answer))


def _ask(answer: Callable[..., Any], original: Any, /, *args: Any, **kwargs: Any) -> Any:
    session = current_session()
    return original(*args, **kwargs) if session is None else answer(session, *args, **kwargs)


def _watched(owner: Any, name: str, answer: Callable[..., Any]) -> Replacement:
    """A replacement whose answer gets the original before the session."""
    original = getattr(owner, name)
    return owner, name, _asking(original, functools.partial(answer, original))


def _is_built(is_built: Callable[[], bool], _session: GpuSession) -> bool:
    """Whether torch was built for a GPU: torch itself continues to use what such a build has."""
    return is_built() or not sys._getframe(3).f_globals.get("__name__", "").startswith("torch.")


def _untouched(_session: GpuSession, _mode: Any) -> bool:
    """Whether tracing avoids the GPU, as it does without one."""
    return True


class _Versions(ModuleType):
    """`torch.version`, whose `cuda` or `hip` is that of the toolkit's part that Triton brings."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("cuda", "hip"):
            session = current_session()
            if session is not None:
                target = session.target
                return triton_api.toolkit_version(target) if name == target.backend else None
        return super().__getattribute__(name)


def _compile(
    compile_: Callable[..., Any], session: GpuSession, model: Any = None, **options: Any
) -> Any:
    """`torch.compile`: the function itself; its code for a GPU could not run."""
    if model is None:
        return functools.partial(_compile, compile_, session, **options)
    return model


# The entry point: a context in which torch answers for a GPU.


@contextmanager
def torch_answers_for(target: Target, emulation: triton_api.Emulation) -> Iterator[None]:
    """While active, torch answers in this thread, and in those that it starts, as if that GPU
    were there.

    Args:
        target: the GPU.
        emulation: the emulation that runs this thread's launches; those of its threads use it too.
    """
    let_operations_be_traced()
    session = GpuSession(target, emulation)
    with _in_place:
        try:
            with joined_by_this_thread(session):
                yield
        finally:
            session.is_open = False
