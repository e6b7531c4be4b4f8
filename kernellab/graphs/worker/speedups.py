"""A call timed eager and compiled: by turns, so that all see the same machine; medians."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.compiler

from kernellab.graphs.given_calls import GivenCall
from kernellab.records.graph_results import ModeTime, Speedups
from kernellab.torch_api.fx_graphs import leaves, with_leaves

_compiler: Any = torch.compiler
_cuda: Any = torch.cuda


@dataclass(frozen=True)
class Way:
    """A way of calling.

    Attributes:
        options: of torch.compile; None for torch as it is.
        compiling: a context for the first calls, in which it is compiled.
    """

    options: Mapping[str, Any] | None
    compiling: Callable[[], AbstractContextManager[None]] = nullcontext


EAGER = Way(None)

WAYS = {
    "eager": EAGER,
    "aot_eager": Way({"backend": "aot_eager"}),
    "inductor": Way({"backend": "inductor"}),
    "inductor, CUDA graphs": Way({"backend": "inductor", "mode": "reduce-overhead"}),
}

_LEAST_MILLISECONDS = 20.0
"""Of one round of one mode: shorter ones say little."""
_MOST_CALLS = 1000
_MOST_WORDS = 300
"""Characters of an error that are kept."""
_WARM_UPS = 3
"""CUDA graphs run once as they are, then are recorded, then replayed."""


def speedups_of_call(call: GivenCall, rounds: int, ways: Mapping[str, Way] = WAYS) -> Speedups:
    """In the process with the GPU: the times of a call."""
    request = call.request
    return speedups(
        call.function,
        call.args,
        call.keywords,
        name=request["name"],
        backward=request["backward"],
        dynamic=request["dynamic"],
        rounds=rounds,
        ways=ways,
    )


def speedups(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    name: str,
    backward: bool,
    dynamic: bool | None = None,
    rounds: int = 7,
    device: str = "cuda",
    ways: Mapping[str, Way] = WAYS,
) -> Speedups:
    """The times of a call, on a device that is there.

    Args:
        function, args, keywords: on any device; the module and tensors are moved.
        name: what the function is called.
        backward: also the gradient of everything in the result that has one.
        dynamic: as for torch.compile.
        rounds: turns of each mode.
        device: "cuda", or "cpu".
        ways: eager torch and others, by name.
    """
    if isinstance(function, torch.nn.Module):
        function = function.to(device)
    args, keywords = with_leaves(_to(device), (tuple(args), dict(keywords)))
    runs: list[_Mode] = []
    for name_of_way, way in ways.items():
        made = function
        if way.options is not None:
            made = torch.compile(function, dynamic=dynamic, **way.options)
        run = _Mode(name_of_way, _Step(made, function, args, keywords, backward), device)
        with way.compiling():
            run.start(runs[0].results if runs else None)
        runs.append(run)
    for _ in range(rounds):
        for run in runs:
            run.take_turn()
    eager = runs[0].median
    return Speedups(
        name=name,
        device=torch.cuda.get_device_name(0) if device == "cuda" else device,
        direction="forward and backward" if backward else "forward",
        rounds=rounds,
        torch_version=str(torch.__version__),
        modes=tuple(run.time(eager) for run in runs),
    )


def _to(device: str) -> Callable[[Any], Any]:
    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(device).requires_grad_(value.requires_grad)

    return moved


class _Step:
    """One call, with its gradient if requested."""

    def __init__(
        self, made: Callable[..., Any], function: Any, args: Any, keywords: Any, backward: bool
    ) -> None:
        self._made, self._args, self._keywords = made, args, keywords
        self._backward = backward
        given = [tensor for tensor in leaves((args, keywords)) if _is_leaf(tensor)]
        own = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
        self._leaves = [*given, *(parameter for parameter in own if parameter.requires_grad)]

    def __call__(self) -> list[torch.Tensor]:
        """Call the function and return results and gradients."""
        for tensor in self._leaves:
            tensor.grad = None
        _compiler.cudagraph_mark_step_begin()
        with nullcontext() if self._backward else torch.no_grad():
            result = self._made(*self._args, **self._keywords)
        tensors = [tensor for tensor in leaves(result) if isinstance(tensor, torch.Tensor)]
        if self._backward:
            wanted = [tensor for tensor in tensors if tensor.requires_grad]
            torch.autograd.backward(wanted, [torch.ones_like(tensor) for tensor in wanted])
        return [*tensors, *(tensor.grad for tensor in self._leaves if tensor.grad is not None)]


def _is_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


class _Mode:
    """One mode of calling the function, with its measurements."""

    def __init__(self, name: str, step: _Step, device: str) -> None:
        self.name, self._step, self._device = name, step, device
        self._milliseconds: list[float] = []
        self._calls = 1
        self._first_seconds = 0.0
        self._distance: float | None = None
        self.results: list[torch.Tensor] = []
        self.error = ""

    @property
    def median(self) -> float | None:
        """Median milliseconds of a call, or None before the first measurement."""
        return statistics.median(self._milliseconds) if self._milliseconds else None

    def start(self, right: list[torch.Tensor] | None) -> None:
        """Make the first calls, which compile, and choose the number of calls per round."""
        with self._failing():
            start = time.perf_counter()
            torch.manual_seed(0)
            self.results = [tensor.detach().clone() for tensor in self._step()]
            self._wait()
            self._first_seconds = time.perf_counter() - start
            if right is not None:
                self._distance = _distance(self.results, right)
                self.results = []
            for _ in range(_WARM_UPS):
                self._step()
            self._wait()
            once = max(self._timed(1), 1e-3)
            self._calls = min(_MOST_CALLS, math.ceil(_LEAST_MILLISECONDS / once))

    def take_turn(self) -> None:
        """One round."""
        if not self.error:
            with self._failing():
                self._milliseconds.append(self._timed(self._calls))

    def time(self, eager: float | None) -> ModeTime:
        """What was measured."""
        median = None if self.error else self.median
        return ModeTime(
            mode=self.name,
            milliseconds=median,
            speedup=eager / median if eager and median else None,
            first_seconds=self._first_seconds,
            distance=self._distance,
            error=self.error,
        )

    def _timed(self, calls: int) -> float:
        """Milliseconds of a call."""
        if self._device != "cuda":
            start = time.perf_counter()
            for _ in range(calls):
                self._step()
            return (time.perf_counter() - start) * 1e3 / calls
        begin, end = (_cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            self._step()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / calls

    def _wait(self) -> None:
        if self._device == "cuda":
            torch.cuda.synchronize()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Record a failure, so that the other modes are still measured."""
        try:
            yield
        except Exception as error:  # of the user's function, of torch, of the GPU's memory
            words = " ".join(str(error).split())
            self.error = f"{type(error).__name__}: {words[:_MOST_WORDS]}"


def _distance(tensors: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> float | None:
    farthest = None
    for tensor, expected in zip(tensors, right, strict=True):
        if expected.is_floating_point() and expected.numel():
            size = float(expected.float().abs().max()) or 1.0
            distance = float((tensor.float() - expected.float()).abs().max()) / size
            farthest = max(distance, farthest or 0.0)
    return farthest
