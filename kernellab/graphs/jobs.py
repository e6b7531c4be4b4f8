"""The jobs of the processes that work for a report: capture a call, time it, count and time it
without some optimizations, and run torch's tracers on a function.

The user's process sends them a pickled function. Their emulated GPUs and changes of torch do not
reach it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.compiler
import torch.fx

from kernellab.errors import ArgumentError
from kernellab.graphs.captures import capture_of, check_name, gpu_named
from kernellab.graphs.processes import SECONDS, GivenCall
from kernellab.graphs.records import AblationRow, ModeTime, Speedups
from kernellab.graphs.torch_texts import breaks_in
from kernellab.launch.interception import interpreted
from kernellab.launch.results import Tolerances, is_equal
from kernellab.records.graphs import GraphCapture
from kernellab.torch_api.fx_graphs import leaves, with_leaves
from kernellab.torch_api.lowering import UNFUSED, caches_off, nothing_inlined
from kernellab.torch_api.pickling import Sent

# Capture a call in a copy of the user's process, which is not changed.


_MOST_SECONDS = 0.6 * SECONDS
"""When a capture is stopped, so that a report can be made of what there is."""


def capture(call: GivenCall) -> GraphCapture:
    from kernellab.torch_api.capture import Backend, mode_options
    from kernellab.torch_api.capture import capture as capture_with

    start = time.perf_counter()
    options = call.request
    gpu = gpu_named(options["gpu"])
    if options.get("backend") is None:
        backend: Any = Backend(
            gpu.answering,
            config={**mode_options(options["mode"]), **options["options"]},
            levels=options["levels"],
            beside=True,
            seconds=_MOST_SECONDS / 2,
        )
    else:
        backend = _other_backend(options)
    called = {name: options[name] for name in ("backward", "dynamic", "fullgraph")}
    given = call.function, call.args, call.keywords
    with gpu.answering(), interpreted():  # the function, or a backend, may launch kernels
        captured = capture_with(
            *given, backend, seconds=_MOST_SECONDS, more=options["calls"], **called
        )
    return capture_of(captured, options["name"], gpu, time.perf_counter() - start)


def _other_backend(options: Mapping[str, Any]) -> Any:
    """Return a backend other than Inductor, given as a name or as a function, watched."""
    from kernellab.torch_api.capture import WatchedBackend, looked_up

    given = options["backend"]
    if isinstance(given, str):
        check_name(given)
    backend = looked_up(given) if isinstance(given, str) else given
    return WatchedBackend(backend, options["options"], levels=options["levels"])


# A call timed eager and compiled: by turns, so that all see the same machine; medians.


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
_WARM_UPS = 3
"""CUDA graphs run once as they are, then are recorded, then replayed."""


def speedups_of_call(call: GivenCall, rounds: int, ways: Mapping[str, Way] = WAYS) -> Speedups:
    """In the process with the GPU: the times of a call."""
    options = {name: call.request[name] for name in ("name", "backward", "dynamic")}
    given = call.function, call.args, call.keywords
    return speedups(*given, rounds=rounds, ways=ways, **options)


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
    """Time a call on a device that this machine has.

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
        given = [
            tensor
            for tensor in leaves((args, keywords))
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad
        ]
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
        if not self.error:
            with self._failing():
                self._milliseconds.append(self._timed(self._calls))

    def time(self, eager: float | None) -> ModeTime:
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
            self.error = _shortened(f"{type(error).__name__}: {error}")


def _distance(tensors: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> float | None:
    farthest = None
    for tensor, expected in zip(tensors, right, strict=True):
        if expected.is_floating_point() and expected.numel():
            size = float(expected.float().abs().max()) or 1.0
            distance = float((tensor.float() - expected.float()).abs().max()) / size
            farthest = max(distance, farthest or 0.0)
    return farthest


# Compile and time a call without some of Inductor's optimizations (`report.ablation()`), in the
# processes that capture and time.


@dataclass(frozen=True)
class Variant:
    """A choice of optimizations.

    Attributes:
        options: Inductor's options besides the call's own.
        compiling: a context in which graphs are compiled as this variant.
    """

    options: Mapping[str, Any]
    compiling: Callable[[], AbstractContextManager[None]] = nullcontext

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Compile graphs as this variant while active, without caches."""
        with caches_off(), self.compiling():
            yield


VARIANTS = {
    "all": Variant({}),
    "no fusion": Variant(UNFUSED),
    "no inlining": Variant({}, nothing_inlined),
    "neither": Variant(UNFUSED, nothing_inlined),
}


def counted(call: GivenCall, name: str) -> AblationRow:
    """Count what a variant of a call launches, without times."""
    variant = VARIANTS[name]
    options = {**call.request["options"], **variant.options}
    with variant.compiling():
        request = {**call.request, "options": options, "levels": False}
        return _row(name, capture(replace(call, request=request)))


def _row(name: str, made: GraphCapture) -> AblationRow:
    launches = [launch for graph in made.lowered for launch in graph.launches]
    errors = [made.error, *(graph.error for graph in made.lowered)]
    return AblationRow(
        optimizations=name,
        kernels=sum(len(graph.kernels) for graph in made.lowered),
        launches=sum(launch.is_generated for launch in launches),
        calls=sum(not launch.is_generated for launch in launches),
        moved_bytes=sum(launch.moved_bytes or 0 for launch in launches),
        milliseconds=None,
        error=next(filter(None, errors), ""),
    )


def timed(call: GivenCall, rounds: int) -> Speedups:
    """In the process with the GPU: time each variant, and eager torch."""
    options = call.request["options"]
    ways = {
        name: Way({"options": {**options, **variant.options}}, variant.timing)
        for name, variant in VARIANTS.items()
    }
    return speedups_of_call(call, rounds, {"eager": EAGER, **ways})


# Run torch's tracers on a function, in a separate process.


_jit: Any = torch.jit

_LONGEST = 300
"""Characters of an error, or of a tracer's message."""

_WATCHED = (bool, int, float, str, list, dict, set, tuple)
"""Types of the variables around a function whose changes are noticed."""

Outcome = Literal["whole", "parts", "fixed", "wrong", "refused"]


@dataclass(frozen=True)
class Traced:
    """A function, captured by one tracer and called again.

    Attributes:
        tracer: "jit.trace", "jit.script", "fx.symbolic_trace", "lazy tensors", "export", "compile".
        outcome: "whole": one program that does what the function does, also with other inputs;
            "parts": several, with Python between them; "fixed": right for the inputs that it was
            captured with, and an error for others; "wrong": another result than the function's,
            or another effect, and no error; "refused": an error while it was captured.
        programs: how many there are for one call.
        operations: how many they have; None if a tracer does not say.
        says: the error, what differs, or where it was split.
    """

    tracer: str
    outcome: Outcome
    programs: int
    operations: int | None
    says: str


def _unpickled(sent: Sent) -> tuple[Callable[..., Any], Callable[..., Any], list[tuple[Any, ...]]]:
    """Return the function, the function with its keywords bound, and the calls' arguments; new for
    each tracer, so that none sees what another did to the function's variables.
    """
    function, calls, keywords = sent.load()
    bound = functools.partial(function, **keywords) if keywords else function
    return function, bound, calls


@dataclass
class _Program:
    """A function as a tracer captured it."""

    call: Callable[..., Any]
    size: Callable[[], tuple[int, int | None]]
    """Returns the number of programs of one call and of operations, after the first call."""
    breaks: Callable[[], str] = lambda: ""
    """Returns where the function was split into several programs, or ""."""


@dataclass(frozen=True)
class _Seen:
    """The results and side effects of the calls."""

    results: list[Any]
    arguments: list[Any]
    printed: str
    variables: dict[str, str]


def traced(sent: Sent) -> list[Traced]:
    """Return a row for every tracer."""
    with sent.settings_hold():
        function, bound, calls = _unpickled(sent)
        try:
            expected = _seen(function, bound, calls)
        except Exception as error:  # the user's function may raise anything
            raise ArgumentError(
                f"The function fails with these arguments, without a tracer: {_words(error)}",
                advice="Pass arguments, and others as again=(...), that it accepts.",
            ) from error
        return [_row_of_tracer(name, tracer, sent, expected) for name, tracer in TRACERS.items()]


def _row_of_tracer(
    name: str, tracer: Callable[..., _Program], sent: Sent, expected: _Seen
) -> Traced:
    function, bound, calls = _unpickled(sent)
    printed = io.StringIO()
    counted: list[tuple[int, int | None]] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            _seed(-1)
            with contextlib.redirect_stdout(printed):
                program = tracer(bound, _copied(calls[0]))

            def call(*args: Any) -> Any:
                result = program.call(*args)
                counted.append(program.size())
                return result

            seen = _seen(function, call, calls, printed)
        except Exception as error:  # each of torch's tracers raises differently
            programs, operations = counted[0] if counted else (0, None)
            failed: Outcome = "fixed" if counted else "refused"
            return Traced(name, failed, programs, operations, _words(error))
    programs, operations = counted[0]
    differs, breaks = _difference(expected, seen), program.breaks()
    if differs:
        said = "; ".join(filter(None, (differs, _warning(warned))))
        return Traced(name, "wrong", programs, operations, said)
    outcome: Outcome = "parts" if breaks or programs > 1 else "whole"
    return Traced(name, outcome, programs, operations, breaks)


def _warning(warned: Sequence[warnings.WarningMessage]) -> str:
    ours = [warning for warning in warned if warning.category.__name__ == "TracerWarning"]
    return f"it warned: {_shortened(str(ours[0].message))}" if ours else ""


# Calls, and their effects.


def _seen(
    function: Any,
    call: Callable[..., Any],
    calls: list[tuple[Any, ...]],
    printed: io.StringIO | None = None,
) -> _Seen:
    printed = printed or io.StringIO()
    results, arguments = [], []
    for number, args in enumerate(calls):
        mine = _copied(args)
        _seed(number)
        with contextlib.redirect_stdout(printed):
            results.append(call(*mine))
        arguments.append(mine)
    return _Seen(results, arguments, printed.getvalue(), dict(_variables(function)))


def _seed(number: int) -> None:
    """Seed random numbers for a call, in the same way for each tracer and for Python."""
    torch.manual_seed(number)
    random.seed(number)


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)


def _variables(function: Any) -> Iterator[tuple[str, str]]:
    """Yield the global and nonlocal variables of a function with their reprs."""
    if not inspect.isfunction(function):
        return
    around = inspect.getclosurevars(function)
    for name, value in {**around.globals, **around.nonlocals}.items():
        if isinstance(value, _WATCHED):
            yield name, repr(value)[:_LONGEST]


def _difference(expected: _Seen, seen: _Seen) -> str:
    for what, right, actual in (
        ("result", expected.results, seen.results),
        ("argument afterwards", expected.arguments, seen.arguments),
    ):
        for number, (left, other) in enumerate(zip(right, actual, strict=True)):
            if not _equal(left, other):
                which = "first" if number == 0 else "second"
                return f"different {what} in the {which} call"
    if expected.printed != seen.printed:
        lines, wanted = (text.count("\n") for text in (seen.printed, expected.printed))
        return f"prints {lines} lines instead of {wanted}"
    for name, words in expected.variables.items():
        if seen.variables.get(name) != words:
            return f"{name} is {seen.variables.get(name)} afterwards instead of {words}"
    return ""


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
            return False
        is_alike = left.shape == right.shape and left.dtype == right.dtype
        return is_alike and is_equal(right, left, Tolerances())
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    return _shortened(f"{kind}: {lines[0]}" if lines else kind)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# Tracers.


def _jit_trace(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    made: Any = _jit.trace(_of_tensors(function, args), _tensors(args), check_trace=False)
    calls = sum(node.kind().startswith("aten::") for node in made.inlined_graph.nodes())
    return _Program(lambda *given: made(*_tensors(given)), lambda: (1, calls))


def _jit_script(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    del args
    bound = function.keywords if isinstance(function, functools.partial) else {}
    made: Any = _jit.script(getattr(function, "func", function))
    calls = str(made.inlined_graph).count(" = aten::")
    return _Program(lambda *given: made(*given, **bound), lambda: (1, calls))


def _symbolic_trace(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    made = torch.fx.symbolic_trace(_of_tensors(function, args))
    calls = sum(node.op.startswith("call_") for node in made.graph.nodes)
    return _Program(lambda *given: made(*_tensors(given)), lambda: (1, calls))


def _lazy(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    from kernellab.torch_api import tracers

    del args
    tracers.forget()

    def breaks() -> str:
        names = tracers.operations_sent_on()
        return f"torch ran {', '.join(names)} immediately" if names else ""

    call = functools.partial(tracers.called_lazily, function)
    return _Program(call, lambda: (tracers.programs_run(), None), breaks)


def _export(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    class Called(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return _of_tensors(function, args)(*tensors)

    made = torch.export.export(Called(), _tensors(args))
    calls = sum(node.op.startswith("call_") for node in made.graph.nodes)
    module = made.module()
    return _Program(lambda *given: module(*_tensors(given)), lambda: (1, calls))


def _compile(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    from kernellab.torch_api.tracers import Event, events_heard

    del args
    events: list[Event] = []
    sizes: list[int] = []

    def backend(module: Any, inputs: Any) -> Any:
        del inputs
        sizes.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module.forward

    torch.compiler.reset()
    made = torch.compile(function, backend=backend)

    def call(*given: Any) -> Any:
        with events_heard(events):
            return made(*given)

    def breaks() -> str:
        return "; ".join(
            f"{each.reason}, line {each.position.line}" if each.position else each.reason
            for each in breaks_in(events)
        )

    return _Program(call, lambda: (len(sizes), sum(sizes)), breaks)


def _tensors(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(arg for arg in args if isinstance(arg, torch.Tensor))


def _of_tensors(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the function as a function of its tensors alone, with the other arguments fixed."""
    has_only_tensors = all(isinstance(arg, torch.Tensor) for arg in args)
    if has_only_tensors and not isinstance(function, functools.partial):
        return function

    def called(*tensors: Any) -> Any:
        left = iter(tensors)
        return function(*(next(left) if isinstance(arg, torch.Tensor) else arg for arg in args))

    return called


TRACERS: dict[str, Callable[[Callable[..., Any], tuple[Any, ...]], _Program]] = {
    "jit.trace": _jit_trace,
    "jit.script": _jit_script,
    "fx.symbolic_trace": _symbolic_trace,
    "lazy tensors": _lazy,
    "export": _export,
    "compile": _compile,
}
"""Torch's tracers, the oldest first."""
