"""Streams, events and graphs of the emulated GPU: work is over when its call returns,
so a stream is a name, an event a moment, and a graph cannot be recorded.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import torch

from kernellab.errors import UnsupportedOperation
from kernellab.launch.torch_cuda.marks import GPU, names_gpu
from kernellab.launch.torch_cuda.sessions import Session
from kernellab.launch.torch_cuda.stand_ins import StandIn

_cuda: Any = torch.cuda  # whose functions answer with these classes


class _OfAnyDevice(StandIn):
    """Replaces a class whose constructor takes the device of its objects."""

    def made(self, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if device is not None and not names_gpu(device):
            return self.original(device, *args, **kwargs)
        return self.on_gpu(*args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.of_gpu() | self.original)

    on_gpu: Callable[..., Any]
    """What makes them of the GPU."""

    of_gpu: Callable[[], type[Any]]
    """Their class there."""


class AnyStream(metaclass=_OfAnyDevice):
    """As `torch.Stream`."""

    original = torch.Stream

    @staticmethod
    def on_gpu(priority: int = 0, **_: Any) -> Stream:
        return Stream(priority=priority)

    @staticmethod
    def of_gpu() -> type[Stream]:
        return Stream


class AnyEvent(metaclass=_OfAnyDevice):
    """As `torch.Event`."""

    original = torch.Event

    @staticmethod
    def on_gpu(*, enable_timing: bool = False, **_: Any) -> Event:
        return Event(enable_timing)

    @staticmethod
    def of_gpu() -> type[Event]:
        return Event


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

    def synchronize(self) -> None:
        """It is."""

    def is_capturing(self) -> bool:
        """Whether a graph is recorded."""
        return False

    def wait_event(self, event: Event) -> None:
        """The event has passed."""

    def wait_stream(self, stream: Stream) -> None:
        """Its work is done."""

    def record_event(self, event: Event | None = None) -> Event:
        """A moment: now."""
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


class ExternalStream(Stream):
    """As `torch.cuda.ExternalStream`, by the number that somebody else knows a stream by."""

    original = torch.cuda.ExternalStream

    def __init__(self, stream_ptr: int, device: Any = None, **_: Any) -> None:
        super().__init__(device)
        self.stream_id = self.cuda_stream = stream_ptr


def default_stream() -> Stream:
    """The stream that is current where no one chose another."""
    stream = Stream()
    stream.stream_id = stream.cuda_stream = 0
    return stream


def current_stream(session: Session) -> Stream:
    """This thread's current stream."""
    stream: Stream = vars(session.streams).setdefault("current", default_stream())
    return stream


def set_stream(session: Session, stream: Stream | None) -> None:
    """Let it be this thread's current stream."""
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
        """Let it be now."""
        self._seconds = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """It has passed."""

    def query(self) -> bool:
        """Whether it has passed."""
        return True

    def synchronize(self) -> None:
        """It has passed."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until a later event, of this machine's time."""
        if not (self._times and end_event._times):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._seconds is None or end_event._seconds is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end_event._seconds - self._seconds)


def refuse_graph(*_: Any, **__: Any) -> Any:
    """What makes a graph, or uses one."""
    raise UnsupportedOperation(
        "CUDA graphs are not emulated: work runs when it is called, and none is recorded",
        advice="Call the function itself, without a graph.",
    )


class CUDAGraph(metaclass=StandIn):
    """Refused."""

    original = torch.cuda.CUDAGraph

    def __init__(self, *_: Any, **__: Any) -> None:
        refuse_graph()


class GraphCapture(metaclass=StandIn):
    """Refused: `torch.cuda.graph`."""

    original = torch.cuda.graph

    def __init__(self, *_: Any, **__: Any) -> None:
        refuse_graph()
