"""One call under torch.compile, captured: by Inductor, or by another backend, watched while it
compiles.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib.metadata import entry_points
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.backends.registry
import torch._functorch.aot_autograd
import torch._functorch.config
import torch._guards
import torch._inductor
import torch._inductor.codegen.common
import torch._inductor.compile_fx
import torch._inductor.config
import torch._inductor.decomposition
import torch._inductor.fx_passes.joint_graph
import torch._inductor.fx_passes.pad_mm
import torch.utils._pytree as pytree

from kernellab.common.patches import replaced, watched
from kernellab.common.processes import Forked
from kernellab.common.system import limited, usable_cores
from kernellab.errors import WorkerError
from kernellab.records.graphs import (
    Bytecode,
    CapturedFrame,
    GraphPass,
    Level,
    LoweredGraph,
    SavedTensor,
)
from kernellab.torch_api import fx_graphs, virtual_gpu
from kernellab.torch_api.lowering import CONFIG, Lowering, lower, passes_watched, primitives
from kernellab.torch_api.tracers import Event, bytecode_heard, events_heard

# One call under torch.compile, captured from bytecode to Triton kernels for a GPU that may not
# be there. The call itself runs on the CPU, in ATen operations.

_compile_fx: Any = torch._inductor.compile_fx
_config: Any = torch._inductor.config
_joint_passes: Any = torch._inductor.fx_passes.joint_graph
_pad_mm: Any = torch._inductor.fx_passes.pad_mm
_codegen: Any = torch._inductor.codegen.common
_functorch: Any = torch._functorch.config
_dynamo: Any = torch._dynamo
_cuda: Any = torch.cuda

Answering = Callable[[], AbstractContextManager[None]]
"""A context in which torch and Triton answer for the GPU."""

Run = Callable[[list[Any]], Any]
"""A graph as a function of its inputs."""


@dataclass(frozen=True)
class Made:
    """One of AOTAutograd's graphs, lowered.

    Attributes:
        direction, number: as its record has them.
        aten: the graph, on the CPU.
        lowering: the record of its lowering.
    """

    direction: str
    number: int
    aten: torch.fx.GraphModule
    lowering: Lowering


Runner = Callable[[Made], Run]
"""A function that says how a graph runs."""


def run_aten(made: Made) -> Run:
    """A graph's ATen operations, on the CPU."""
    module = virtual_gpu.written_out(made.aten)
    return lambda args: module(*args)


@dataclass
class Captured:
    """The results of a capture, as far as it went."""

    frames: list[CapturedFrame] = field(default_factory=list)
    lowered: list[LoweredGraph] = field(default_factory=list)
    bytecode: list[Bytecode] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    error: str = ""


class Backend:
    """A backend of torch.compile that lowers each graph for a GPU, and runs it on the CPU."""

    def __init__(
        self,
        answering: Answering,
        *,
        config: Mapping[str, Any] | None = None,
        levels: bool = True,
        runner: Runner = run_aten,
        runs_code: bool = False,
        decompositions: Mapping[Any, Callable[..., Any]] | None = None,
        beside: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Nothing is captured yet.

        Args:
            answering: a context that is entered for decisions about the GPU.
            config: options of Inductor.
            levels: whether primitive operations and passes are recorded, which takes time.
            runner: runs a graph that was lowered completely; others run in ATen operations.
            runs_code: whether that is the generated code, so that strides of its outputs count.
            decompositions: operation -> replacement of Inductor's own.
            beside: whether large graphs are lowered in copies of this process, on other cores,
                and run in ATen operations.
            seconds: how long lowering a graph beside this process may take.
        """
        self.captured = Captured()
        self.__name__ = "kernellab"  # as Dynamo's errors call it
        self._answering = answering
        self._config = dict(config or {})
        self._levels = levels
        self._runner, self._runs_code = runner, runs_code
        self._decompositions = dict(decompositions or {})
        self._passes: list[GraphPass] = []
        self._applied: Counter[str] = Counter()
        self._beside, self._seconds = beside, seconds
        self._pending: list[_Pending] = []
        self._forward_calls: dict[int, frozenset[str]] = {}
        self._lock = threading.RLock()
        self._here = virtual_gpu.CPU

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While active, Dynamo's events are kept."""
        with events_heard(self.captured.events), bytecode_heard(self.captured.bytecode):
            yield
        self._finish()

    def __call__(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], **_options: Any
    ) -> Callable[..., Any]:
        """As torch.compile calls it with a Dynamo graph."""
        with self._lock, ExitStack() as stack:
            number = len(self.captured.frames)
            self.captured.frames.append(
                CapturedFrame(number, fx_graphs.level_of(module, "fx"), None)
            )
            applied = self._applied = Counter()
            stack.enter_context(_config.patch({**CONFIG, **self._config}))
            table = torch._inductor.decomposition.select_decomp_table()
            self._here = _place_of(inputs)
            virtual_gpu.without_gpu(module, self._here)
            virtual_gpu.lift_constants(module, self._here)
            stack.enter_context(self._answering())  # the partitioner asks for its random numbers
            stack.enter_context(virtual_gpu.decompositions_see_gpu(self._here))
            stack.enter_context(self._passes_watched())
            joint = functools.partial(self._joint, number)
            stack.enter_context(watched(_compile_fx, _recursive_joint_graph_passes=joint))
            stack.enter_context(virtual_gpu.attention_of_gpu())
            compiled: Callable[..., Any] = _compile_fx.compile_fx(
                module,
                inputs,
                inner_compile=functools.partial(self._inner, number),
                decompositions=virtual_gpu.seeing_gpu({**table, **self._decompositions}, applied),
            )
            return compiled

    def _passes_watched(self) -> AbstractContextManager[None]:
        return passes_watched(self._passes) if self._levels else nullcontext()

    def _joint(
        self, number: int, original: Any, module: torch.fx.GraphModule, *args: Any, **keywords: Any
    ) -> Any:
        frame = self.captured.frames[number]
        nodes = module.graph.nodes
        if any(node.op == "placeholder" and "tangents" in node.name for node in nodes):
            made = replace(frame, joint=fx_graphs.level_of(module, "joint", frame.fx))
            self.captured.frames[number] = made
        _trace_patterns()
        fx_graphs.move_graph(module, self._here, virtual_gpu.DEVICE)
        if "input_device" in keywords:
            keywords["input_device"] = virtual_gpu.DEVICE
        fold = _joint_passes.constant_fold_uniform_value
        known = replaced(
            _joint_passes,
            lazy_init=lambda _device=None: None,
            constant_fold_uniform_value=functools.partial(_folded_on_cpu, fold),
        )
        padding = replaced(_pad_mm, **dict.fromkeys(_ASKS_FOR_TIMES, _pads_untimed))
        with known, padding, self._answering(), virtual_gpu.gpu_tensors_lie(None):
            return original(module, *args, **keywords)

    def _inner(
        self, number: int, module: torch.fx.GraphModule, inputs: Sequence[Any], **keywords: Any
    ) -> Callable[..., Any]:
        """As `compile_fx` calls its inner compiler with each of AOTAutograd's graphs."""
        here = fx_graphs.move_graph(fx_graphs.copied(module), virtual_gpu.DEVICE, self._here)
        direction = "inference" if keywords.get("is_inference") else "forward"
        direction = "backward" if keywords.get("is_backward") else direction
        made = Made(direction, number, here, Lowering())
        called = tuple(node.name for node in module.graph.nodes if node.op == "call_function")
        if direction == "forward":
            self._forward_calls[number] = frozenset(called)
        before = self._forward_calls.get(number, frozenset())
        recomputed = tuple(node for node in called if node in before)
        recomputed = recomputed if direction == "backward" else ()
        work = functools.partial(self._recorded, made, module, inputs, keywords, recomputed)
        if self._beside and _is_large(module, inputs):
            self._begin_beside(made, work)
            return _boxed(run_aten(made))
        record = work()
        self.captured.lowered.append(record)
        is_whole = record.wrapper and not record.error
        return _boxed((self._runner if is_whole else run_aten)(made))

    def _recorded(
        self,
        made: Made,
        module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        keywords: dict[str, Any],
        recomputed: tuple[str, ...],
    ) -> LoweredGraph:
        start = time.perf_counter()
        aten = fx_graphs.level_of(module, "aten", self.captured.frames[made.number].fx)
        lowering, error = made.lowering, ""
        prims = Level("prims", "", (), "not requested")
        if self._levels:
            prims = primitives(made.aten, inputs)
        try:
            with (
                self._lock,
                self._passes_watched(),
                self._answering(),
                virtual_gpu.gpu_tensors_lie(None),
            ):
                lower(
                    module,
                    inputs,
                    keywords,
                    self._config,
                    lowering,
                    here=self._here,
                    is_run=self._runs_code,
                )
        except Exception as problem:  # torch raises anything
            error = _said(problem)
        passes, self._passes[:] = tuple(self._passes), []
        final = lowering.module
        return LoweredGraph(
            direction=made.direction,
            number=made.number,
            aten=aten,
            prims=prims,
            decompositions=dict(self._applied.most_common()),
            passes=passes,
            post_grad=fx_graphs.level_or_error("post_grad", lambda: _present(final)),
            saved=saved_by(module) if made.direction == "forward" else (),
            recomputed=recomputed,
            loops=tuple(lowering.loops),
            groups=tuple(lowering.groups),
            fusions=tuple(lowering.fusions),
            wrapper=lowering.wrapper,
            kernels=tuple(lowering.kernels),
            launches=tuple(lowering.launches),
            candidates=tuple(lowering.candidates),
            error=error,
            seconds=time.perf_counter() - start,
        )

    # Beside this process

    def _begin_beside(self, made: Made, work: Callable[[], LoweredGraph]) -> None:
        """Have a graph lowered while the call continues in ATen operations, which need nothing of
        that. Of its passes those over the joint graph are noted with it, and with no other.
        """
        for earlier in self._pending[: max(0, len(self._pending) + 1 - usable_cores())]:
            earlier.forked.wait()
        place = len(self.captured.lowered) + len(self._pending)
        work = functools.partial(_alone, work, self._seconds)
        self._pending.append(_Pending(place, made, Forked(work, "Inductor")))
        self._passes.clear()

    def _finish(self) -> None:
        for pending in self._pending:
            try:
                record = pending.forked.result()
            except WorkerError as problem:
                made, aten = pending.made, fx_graphs.level_of(pending.made.aten, "aten")
                record = LoweredGraph(made.direction, made.number, aten, error=str(problem))
            self.captured.lowered.insert(pending.place, record)
        self._pending.clear()


@dataclass(frozen=True)
class _Pending:
    """A graph that is being lowered, and its place among all graphs."""

    place: int
    made: Made
    forked: Forked[LoweredGraph]


_LARGE = 150
"""Nodes of a graph that is worth a separate process: starting one takes as long as lowering a
few dozen.
"""


def _is_large(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a graph is lowered beside this process. One with symbols is not: Inductor adds
    guards for those, which would be lost; nor is one in a process that uses a GPU, which no copy
    of it may.
    """
    has_symbols = any(_has_symbols(value) for value in inputs)
    can_fork = usable_cores() > 1 and not _cuda.is_initialized()
    return can_fork and len(module.graph.nodes) >= _LARGE and not has_symbols


def _has_symbols(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        sizes_and_strides: list[Any] = [*value.shape, *value.stride()]
        return not all(type(stride) is int for stride in sizes_and_strides)
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _alone(work: Callable[[], LoweredGraph], seconds: float | None) -> LoweredGraph:
    torch.set_num_threads(1)  # a copy of a process has none of its other threads
    with limited(seconds):
        return work()


_ASKS_FOR_TIMES = ("_should_pad", "should_pad_bench")
"""The functions that time a matmul on the GPU, as it is and padded to a multiple of 4 or 8."""


def _pads_untimed(*_args: Any, **_keywords: Any) -> bool:
    """Whether matmuls are padded if nothing can be timed."""
    return bool(getattr(_config, "force_shape_pad", False))


def _folded_on_cpu(fold: Callable[..., Any], module: torch.fx.GraphModule) -> None:
    """Constants are computed while they are folded: on the CPU."""
    fold(fx_graphs.move_graph(module, virtual_gpu.DEVICE, virtual_gpu.CPU))
    fx_graphs.move_graph(module, virtual_gpu.CPU, virtual_gpu.DEVICE)


def _place_of(inputs: Sequence[Any]) -> torch.device:
    """The device of a Dynamo graph's tensors that count as being on the GPU."""
    has_meta = any(isinstance(value, torch.Tensor) and value.is_meta for value in inputs)
    return virtual_gpu.META if has_meta else virtual_gpu.CPU


def _present(module: torch.fx.GraphModule | None) -> torch.fx.GraphModule:
    if module is None:
        raise LookupError("Inductor did not reach this step")
    return module


def _boxed(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """As AOTAutograd calls what is compiled: with a list, which is emptied."""

    def boxed(args: list[Any]) -> Any:
        held = list(args)
        args.clear()
        return function(held)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def _said(problem: BaseException) -> str:
    """The last words of an error of torch, with the place in torch where it was raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{where}"


def saved_by(module: torch.fx.GraphModule) -> tuple[SavedTensor, ...]:
    """The outputs of a forward graph that its caller does not see."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    (results,) = next(node for node in module.graph.nodes if node.op == "output").args
    if metadata is None:
        return ()
    kept = list(results)[metadata.num_forward_returns + metadata.num_outputs_rng_offset :]
    guards = []
    for node in kept:
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if isinstance(value, torch.Tensor):
            kind = str(value.dtype).removeprefix("torch.")
            guards.append(
                SavedTensor(
                    node.name, fx_graphs.sizes(value.shape), kind, fx_graphs.byte_count(value)
                )
            )
    return tuple(guards)


# One call, or several of one function

CallArguments = tuple[Sequence[Any], Mapping[str, Any]]
"""The positional and the keyword arguments of a call."""


def capture(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    backend: Backend | WatchedBackend,
    *,
    backward: bool,
    dynamic: bool | None,
    fullgraph: bool,
    seconds: float | None = None,
    more: Sequence[CallArguments] = (),
) -> Captured:
    """Call a function under torch.compile, and its gradient if that is asked for; then once more
    with each of the arguments in `more`.

    After `seconds` it is stopped: what was captured until then is there.
    """
    captured = backend.captured
    with backend.listening(), limited(seconds):
        captured.error = call_once(
            function,
            args,
            keywords,
            backend,
            more=more,
            backward=backward,
            dynamic=dynamic,
            fullgraph=fullgraph,
        )
    return captured


_FUNCTORCH = {"check_custom_op_aliasing": False, "graphsafe_rng_functionalization": False}
"""Torch does not check whether custom operations return a part of their arguments: that takes
longer than the call, and its warning would not be seen. States of random numbers are tensors, as a
GPU's generator exists only with a GPU.
"""


@functools.cache
def prepare() -> None:
    """Load what every capture needs, so that copies of this process need not."""
    if not _cuda.is_available():
        # Autograd begins its threads once, and none now: later, builds for CUDA pretend a GPU.
        torch.ones((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
    for name in _NEEDED:
        with suppress(ImportError):  # not every version of torch has all
            importlib.import_module(name)
    _codegen.init_backend_registration()
    _dynamo.list_backends(())
    _trace_patterns()


def _trace_patterns() -> None:
    """Let Inductor trace its patterns on a device that exists, not on the emulated GPU."""
    with replaced(_cuda, is_available=lambda: False):
        _joint_passes.lazy_init()


_NEEDED = (
    "torch._dynamo.backends.inductor",
    "torch._dynamo.repro.after_dynamo",
    "torch._export.db.logging",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._inductor.bounds",
    "torch._inductor.choices",
    "torch._inductor.codegen.segmented_tree",
    "torch._inductor.tiling_utils",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental",
    "torch.fx.experimental.validator",
    "sympy.combinatorics",
    "sympy.tensor.tensor",
)


def call_once(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    backend: Callable[..., Any],
    *,
    backward: bool,
    dynamic: bool | None,
    fullgraph: bool,
    more: Sequence[CallArguments] = (),
    results: list[Any] | None = None,
) -> str:
    """Call a function under torch.compile with any backend, and its gradient if that is
    requested; then once more with each of the arguments in `more`. Return why that did not finish,
    or "". `results` gets the result of each call.
    """
    _dynamo.reset()
    function = fx_graphs.uncompiled(function)
    place = virtual_gpu.CPU
    calls: Sequence[CallArguments] = [(args, keywords), *more]
    if not fx_graphs.has_values(function, calls, {}):
        place = virtual_gpu.META
        function, calls, _ = fx_graphs.on_meta(function, calls, {})
    known = {name: value for name, value in _FUNCTORCH.items() if hasattr(_functorch, name)}
    made = 0
    try:
        compiled = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
        with (
            _functorch.patch(known),
            virtual_gpu.calls_on_gpu(),
            virtual_gpu.gpu_tensors_lie(place),
        ):
            for given, named in calls:
                result = compiled(*given, **named)
                if results is not None:
                    results.append(result)
                if backward:
                    _differentiate(result)
                made += 1
    except (Exception, SystemExit) as problem:  # of the user's function, or of torch
        return f"call {made + 1}: {_said(problem)}" if more else _said(problem)
    finally:
        _dynamo.reset()
    return ""


def _differentiate(result: Any) -> None:
    """Backward from everything in the result that has a gradient, with ones coming in."""
    tensors = [tensor for tensor in _tensors_in(result) if tensor.requires_grad]
    if not tensors:
        raise ValueError("backward=True, but the result has no gradient: no argument requires one")
    torch.autograd.backward(tensors, [torch.ones_like(tensor) for tensor in tensors])


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a result: in containers that torch knows, and in data classes."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            for field_ in fields(leaf):
                yield from _tensors_in(getattr(leaf, field_.name))


def mode_options(mode: str | None) -> dict[str, Any]:
    """Inductor's options for one of torch.compile's modes."""
    if mode in (None, "default"):
        return {}
    config: dict[str, Any] = dict(torch._inductor.list_mode_options(mode))
    return config


def option_names() -> list[str]:
    """The names of Inductor's options."""
    return list(_config.get_config_copy())


# Backends of torch.compile other than Inductor: the installed ones; and any function, watched
# while it compiles: the graphs that it is given, and those that it has AOTAutograd make of them.

_registry: Any = torch._dynamo.backends.registry
_aot: Any = torch._functorch.aot_autograd

GROUP = "torch_dynamo_backends"
"""Of entry points, in which packages name their backends."""

_COMPILERS = {
    "bw_compiler": "backward",
    "inference_compiler": "inference",
    "fw_compiler": "forward",
}
"""AOTAutograd's name of a compiler -> direction of what it compiles. Where it is given none, the
last one compiles that too.
"""


def installed() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Name of each backend -> the package that it is from, and torch's tags of it."""
    packages = {
        point.name: point.dist.name if point.dist is not None else ""
        for point in entry_points(group=GROUP)
    }
    backends = {}
    for name in sorted(_registry.list_backends(())):
        tags = getattr(_registry._COMPILER_FNS.get(name), "_tags", ())
        backends[name] = packages.get(name, "torch"), tuple(map(str, tags))
    return backends


def looked_up(backend: Any) -> Callable[..., Any]:
    """The function behind a backend's name; a function is itself."""
    backend_function: Callable[..., Any] = _registry.lookup_backend(backend)
    return backend_function


_NOT_INDUCTORS = Level("post_grad", "", (), "the backend is not Inductor")


class WatchedBackend:
    """A backend that compiles as another does, and records the graphs that it receives."""

    def __init__(
        self, backend: Callable[..., Any], options: Mapping[str, Any], *, levels: bool
    ) -> None:
        """Nothing is captured yet.

        Args:
            backend: as torch.compile calls one.
            options: for it, as torch.compile passes them; none if empty.
            levels: whether primitive operations are recorded.
        """
        self.captured = Captured()
        self.__name__ = str(getattr(backend, "__name__", type(backend).__name__))  # as torch has it
        self._backend, self._levels = backend, levels
        self._options = {"options": dict(options)} if options else {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While active, Dynamo's events are kept, and AOTAutograd's graphs are noted."""
        with (
            events_heard(self.captured.events),
            bytecode_heard(self.captured.bytecode),
            replaced(_aot, aot_stage2_compile=self._compiling_graphs(_aot.aot_stage2_compile)),
        ):
            yield

    def __call__(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], **_options: Any
    ) -> Callable[..., Any]:
        """As torch.compile calls it with a Dynamo graph."""
        number = len(self.captured.frames)
        self.captured.frames.append(CapturedFrame(number, fx_graphs.level_of(module, "fx"), None))
        start = time.perf_counter()
        before, error = len(self.captured.lowered), ""
        try:
            compiled: Callable[..., Any] = self._backend(module, inputs, **self._options)
        except Exception as problem:  # torch raises anything
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            if len(self.captured.lowered) == before:
                asks = "the backend did not ask for it: it takes the FX graph as it is"
                aten, prims = (Level(name, "", (), asks) for name in ("aten", "prims"))
                self._note(_graph_direction(inputs), number, aten, prims, error, start)
        return compiled

    def _note(
        self,
        direction: str,
        number: int,
        aten: Level,
        prims: Level,
        error: str,
        start: float,
        saved: tuple[SavedTensor, ...] = (),
    ) -> None:
        graph = LoweredGraph(direction, number, aten, prims, post_grad=_NOT_INDUCTORS, saved=saved)
        seconds = time.perf_counter() - start
        self.captured.lowered.append(replace(graph, error=error, seconds=seconds))

    def _compiling_graphs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def compile_graphs(*args: Any, **keywords: Any) -> Any:
            given = signature.bind(*args, **keywords).arguments
            number = len(self.captured.frames) - 1
            for name, direction in _COMPILERS.items():
                compiler = given.get(name) or given["fw_compiler"]
                given[name] = functools.partial(self._compile, number, direction, compiler)
            return original(**given)

        return compile_graphs

    def _compile(
        self, number: int, direction: str, compiler: Callable[..., Any],
        module: torch.fx.GraphModule, inputs: Sequence[Any], *more: Any,
    ) -> Any:  # fmt: skip
        start, error = time.perf_counter(), ""
        aten = fx_graphs.level_of(module, "aten")
        prims = primitives(module, inputs) if self._levels else Level("prims", "", (), "")
        saved = saved_by(module) if direction == "forward" else ()
        try:
            return compiler(module, inputs, *more)
        except Exception as problem:  # torch raises anything
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            self._note(direction, number, aten, prims, error, start, saved)


def _graph_direction(inputs: Sequence[Any]) -> str:
    tensors = [tensor for tensor in inputs if isinstance(tensor, torch.Tensor)]
    is_trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return "forward" if is_trained else "inference"


def compiled_by() -> Any:
    """The object that `torch.compile` returned and whose backend is calling this; None if
    something else calls this.
    """
    wrapper: Any = torch._TorchCompileWrapper
    frame = inspect.currentframe()
    while frame is not None and not isinstance(frame.f_locals.get("self"), wrapper):
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]


def compilation_id() -> str:
    """Dynamo's number of the current compilation: "0/1"; "" if there is none."""
    return str(torch._guards.CompileContext.current_compile_id() or "").strip("[]")
