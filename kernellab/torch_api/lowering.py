"""Inductor, watched while it lowers one graph: its passes, its loop IR, what it fuses and why not,
the code that it writes.

Nothing of Inductor is imitated: its own functions run, and each watch notes what goes by.
"""

from __future__ import annotations

import ast
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch._guards
import torch._inductor.codegen.common
import torch._inductor.codegen.triton
import torch._inductor.compile_fx
import torch._inductor.config
import torch._inductor.graph
import torch._inductor.ir
import torch._inductor.scheduler
import torch._inductor.utils
import torch._inductor.virtualized
import torch.fx.passes.graph_transform_observer

from kernellab.common.patches import replaced
from kernellab.records.graphs import (
    Candidate,
    Fusion,
    GraphLaunch,
    GraphPass,
    KernelCode,
    LoopBuffer,
)
from kernellab.torch_api.candidates import candidates_noted
from kernellab.torch_api.fx_graphs import (
    GraphState,
    copied,
    graph_text,
    is_state,
    of_device,
    state_of,
)
from kernellab.torch_api.virtual_gpu import DEVICE

_compile_fx: Any = torch._inductor.compile_fx
_config: Any = torch._inductor.config
_graph: Any = torch._inductor.graph
_ir: Any = torch._inductor.ir
_inductor_utils: Any = torch._inductor.utils
_scheduling: Any = torch._inductor.scheduler
_triton_codegen: Any = torch._inductor.codegen.triton
_common_codegen: Any = torch._inductor.codegen.common
_virtualized: Any = torch._inductor.virtualized
_observing: Any = torch.fx.passes.graph_transform_observer

CONFIG: dict[str, Any] = {
    "force_disable_caches": True,
    "compile_threads": 1,
    "cpp_wrapper": False,
}
"""What a watched Inductor is set to: a graph that it finds in its cache shows nothing."""


@dataclass
class Lowering:
    """What was noted of one graph; `module` is the graph as it was lowered, or None; `values` says
    of buffers which node's value they are.
    """

    wrapper: str = ""
    module: torch.fx.GraphModule | None = None
    loops: list[LoopBuffer] = field(default_factory=list)
    groups: list[tuple[str, ...]] = field(default_factory=list)
    fusions: list[Fusion] = field(default_factory=list)
    launches: list[GraphLaunch] = field(default_factory=list)
    kernels: list[KernelCode] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)


# Passes


class _PassWatch:
    """Notes each FX pass of Inductor's: texts are written of graphs that a pass has changed."""

    def __init__(self, passes: list[GraphPass]) -> None:
        self._found = passes
        self._open: weakref.WeakKeyDictionary[Any, tuple[GraphState, str, float]]
        self._open = weakref.WeakKeyDictionary()
        self._known: weakref.WeakKeyDictionary[Any, tuple[GraphState, str]]
        self._known = weakref.WeakKeyDictionary()

    def entered(self, observer: Any) -> None:
        """A pass begins."""
        state = state_of(observer.gm)
        self._open[observer] = state, self._text(observer.gm, state), time.perf_counter()

    def left(self, observer: Any) -> None:
        """It has ended."""
        state, before, start = self._open.pop(observer)
        seconds = time.perf_counter() - start
        now = state_of(observer.gm)
        after = before if is_state(state, now) else self._text(observer.gm, now)
        texts = ("", "") if before == after else (before, after)
        self._found.append(GraphPass(str(observer.passname), _stage(observer), *texts, seconds))

    def _text(self, module: Any, state: GraphState) -> str:
        known = self._known.get(module)
        if known is None or not is_state(known[0], state):
            known = self._known[module] = state, graph_text(module)
        return known[1]


@contextmanager
def passes_watched(passes: list[GraphPass]) -> Iterator[None]:
    """While active, each FX pass of Inductor's is added to `found`."""
    observer, watch = _observing.GraphTransformObserver, _PassWatch(passes)
    enter, leave = observer.__enter__, observer.__exit__

    def entered(observer: Any) -> Any:
        watch.entered(observer)
        return enter(observer)

    def left(observer: Any, *error: Any) -> Any:
        watch.left(observer)
        return leave(observer, *error)

    with replaced(observer, __enter__=entered, __exit__=left):
        yield


def _stage(observer: Any) -> str:
    """Of what group of passes one is, as Inductor names the group."""
    return {
        "pre_grad_passes": "pre_grad",
        "joint_graph_passes": "joint",
        "post_grad_passes": "post_grad",
    }.get(str(observer.subsystem), "post_grad" if observer.subsystem is None else "other")


# The scheduler


class _SchedulerWatch:
    """Notes of the schedulers of one graph."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._pairs: dict[tuple[str, str], Fusion] = {}
        self._local = threading.local()
        self._variables: weakref.WeakKeyDictionary[Any, dict[str, str]]
        self._variables = weakref.WeakKeyDictionary()
        self._kernel_of: dict[str, str] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While active, schedulers are watched."""
        scheduler = _scheduling.Scheduler
        with ExitStack() as stack:
            for owner, name, watch in (
                (scheduler, "fuse_nodes", self._fuse_nodes),
                (scheduler, "can_fuse", self._can_fuse),
                (scheduler, "fuse_two_nodes", self._fuse_two_nodes),
                (scheduler, "codegen", self._codegen),
                (_scheduling.WhyNoFuse, "__call__", self._why),
                (_triton_codegen.TritonScheduling, "define_kernel", self._define_kernel),
                (_common_codegen.CSE, "generate", self._generate),
            ):
                watched = watch(getattr(owner, name))
                stack.enter_context(replaced(owner, **{name: watched}))
            yield

    def _fuse_nodes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def fuse_nodes(scheduler: Any, nodes: Any) -> Any:
            self._lowering.loops += [_buffer(node) for node in nodes if node.node is not None]
            return original(scheduler, nodes)

        return fuse_nodes

    def _why(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def why(note: Any, reason: str, *args: Any) -> Any:
            self._local.reason = reason % args if args else reason
            return original(note, reason, *args)

        return why

    def _can_fuse(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def can_fuse(scheduler: Any, first: Any, second: Any, *args: Any, **keywords: Any) -> Any:
            if getattr(self._local, "depth", 0):
                return original(scheduler, first, second, *args, **keywords)
            self._local.depth, self._local.reason = 1, ""
            try:
                can = original(scheduler, first, second, *args, **keywords)
            finally:
                self._local.depth = 0
            reason = "" if can else self._local.reason or "Inductor gives no reason"
            self._note(scheduler, first, second, fused=False, reason=reason)
            return can

        return can_fuse

    def _fuse_two_nodes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def fuse_two_nodes(scheduler: Any, first: Any, second: Any, *args: Any) -> Any:
            self._note(scheduler, first, second, fused=True, reason="")
            return original(scheduler, first, second, *args)

        return fuse_two_nodes

    def _note(self, scheduler: Any, first: Any, second: Any, *, fused: bool, reason: str) -> None:
        names = first.get_name(), second.get_name()
        known = self._pairs.get(names)
        if (known is not None and known.fused) or first is second:
            return
        saved = scheduler.score_fusion_memory(first, second)
        if not fused and not reason:
            reason = "another pair went first, or a circle would come of it"
        self._pairs[names] = Fusion(*names, fused, reason, int(saved))

    def _generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def generate(cse: Any, *args: Any, **keywords: Any) -> Any:
            made = original(cse, *args, **keywords)
            kernel = _virtualized.V.kernel
            node = getattr(kernel, "current_node", None)
            if node is not None and hasattr(made, "name"):
                self._variables.setdefault(kernel, {}).setdefault(made.name, node.get_name())
            return made

        return generate

    def _define_kernel(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def define_kernel(
            scheduling: Any, source: str, node_schedule: Any, kernel: Any, *args: Any
        ) -> Any:
            name = original(scheduling, source, node_schedule, kernel, *args)
            nodes = [node for node in node_schedule if hasattr(node, "get_name")]
            for node in nodes:
                self._kernel_of[node.get_name()] = str(name)
            variables = self._variables.get(kernel, {})
            self._lowering.kernels.append(_kernel(str(name), nodes, variables))
            return name

        return define_kernel

    def _ended(self, pair: Fusion) -> Fusion:
        """A pair as it came out: it may be in one kernel by way of others."""
        both = _split(pair.first) | _split(pair.second)
        if not pair.fused and any(both <= set(group) for group in self._lowering.groups):
            return replace(pair, fused=True, reason="")
        return pair

    def _codegen(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def codegen(scheduler: Any) -> Any:
            nodes = list(scheduler.nodes)
            result = original(scheduler)
            self._lowering.groups += [_names(node) for node in nodes]
            self._lowering.values.update(_values(nodes))
            launched = [_launch(node, self._kernel_of) for node in nodes]
            self._lowering.launches += [launch for launch in launched if launch is not None]
            self._lowering.fusions = [self._ended(pair) for pair in self._pairs.values()]
            return result

        return codegen


def _split(name: str) -> set[str]:
    """The operations of a node that the scheduler has fused: "op0_op1"."""
    return set(name.split("_"))


def _names(node: Any) -> tuple[str, ...]:
    return tuple(part.get_name() for part in node.get_nodes())


def _origins(nodes: Sequence[Any]) -> tuple[str, ...]:
    kept = [
        origin.name for node in nodes if node.node is not None for origin in node.node.get_origins()
    ]
    return tuple(dict.fromkeys(kept))


def _values(nodes: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Name of a buffer, and of the post-grad node whose value it is, where one is known."""
    for part in (part for node in nodes for part in node.get_nodes()):
        for buffer in part.get_outputs():
            origin = buffer.node.get_origin_node()
            if origin is not None:
                yield buffer.get_name(), origin.name


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _buffer(node: Any) -> LoopBuffer:
    computed = node.node
    data = getattr(computed, "data", computed)
    return LoopBuffer(
        name=", ".join(buffer.get_name() for buffer in node.get_outputs()),
        operation=node.get_name(),
        kind=type(data).__name__,
        text=str(computed),
        reads=tuple(sorted({read.name for read in node.read_writes.reads})),
        writes=tuple(sorted({write.name for write in node.read_writes.writes})),
        read_bytes=int(node.get_read_buffer_sizes()),
        write_bytes=int(node.get_write_buffer_sizes()),
        origins=_origins([node]),
        flops=_number(node.estimate_flops()),
    )


def _kernel(name: str, nodes: Sequence[Any], variables: dict[str, str]) -> KernelCode:
    return KernelCode(
        name=name,
        source="",
        operations=tuple(node.get_name() for node in nodes),
        buffers=tuple(buffer.get_name() for node in nodes for buffer in node.get_outputs()),
        origins=_origins(nodes),
        variables=dict(variables),
    )


def _used_again(kernel: KernelCode, again: KernelCode) -> KernelCode:
    """A kernel that what is fused later is computed by too."""
    return replace(
        kernel,
        buffers=tuple(dict.fromkeys(kernel.buffers + again.buffers)),
        origins=tuple(dict.fromkeys(kernel.origins + again.origins)),
        reused=(*kernel.reused, again.operations),
    )


def _launch(node: Any, kernel_of: dict[str, str]) -> GraphLaunch | None:
    names = _names(node)
    kernel = next((kernel_of[name] for name in names if name in kernel_of), None)
    if kernel is None and (not node.is_extern() or isinstance(node.node, _ir.MultiOutput)):
        return None  # nothing is launched for it: a view, a buffer that is there, a call's part
    called = getattr(node.node, "python_kernel_name", None) or type(node.node).__name__
    return GraphLaunch(
        name=kernel or str(called),
        is_generated=kernel is not None,
        operations=names,
        moved_bytes=int(node.get_read_write_buffers_sizes()),
        flops=_number(node.estimate_flops()),
    )


# One graph


def lower(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    keywords: dict[str, Any],
    config: dict[str, Any],
    lowering: Lowering,
    *,
    here: torch.device,
    is_run: bool,
) -> None:
    """Have Inductor write the code of a graph for the GPU that is answered for.

    Args:
        module: of the GPU already; it stays as it is.
        inputs: its traced inputs, of either device.
        keywords: what `compile_fx` gives to its inner compiler.
        config: Inductor's options.
        lowering: where everything is noted, also what was reached before an error.
        here: where inputs are that count as being on the GPU.
        is_run: the code is what will run, so that strides of its outputs count.
    """

    def compile_to_module(graph: Any) -> Any:
        lowering.module = graph.module
        lowering.wrapper = str(graph.codegen()[0].value)
        return types.SimpleNamespace(call=lambda *_args: None, __file__="<kernellab>")

    # CUDA graphs are made of code that runs on a GPU; they change nothing of it.
    keywords = {**keywords, "cudagraphs": _inductor_utils.BoxedBool(False)}
    with ExitStack() as stack:
        # Inductor raises it for good; how deep a kernel may nest is not to depend on that.
        stack.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        if not is_run:
            stack.enter_context(_output_strides_kept())
        stack.enter_context(_config.patch({**CONFIG, **config}))
        stack.enter_context(_SchedulerWatch(lowering).watching())
        stack.enter_context(replaced(_graph.GraphLowering, compile_to_module=compile_to_module))
        stack.enter_context(candidates_noted(lowering.candidates))
        moved = [of_device(tensor, here, DEVICE) for tensor in inputs]
        _compile_fx.compile_fx_inner(copied(module), moved, **keywords)
    sources = dict(kernel_sources(lowering.wrapper))
    noted: dict[str, KernelCode] = {}
    for kernel in lowering.kernels:
        first = noted.get(kernel.name)
        noted[kernel.name] = kernel if first is None else _used_again(first, kernel)
    bare = KernelCode("", "", (), (), ())
    lowering.kernels = [
        replace(noted.get(name, bare), name=name, source=source) for name, source in sources.items()
    ]


@contextmanager
def _output_strides_kept() -> Iterator[None]:
    """Inductor passes AOTAutograd the strides of its outputs, except where other code runs."""
    context = torch._guards.TracingContext.try_get()
    before = getattr(context, "output_strides", None)
    if context is None or before is None:
        yield
        return
    context.output_strides = []
    try:
        yield
    finally:
        context.output_strides = before


def kernel_sources(wrapper: str) -> Iterator[tuple[str, str]]:
    """Name and source of each Triton kernel in the code that launches them."""
    if not wrapper:
        return
    for node in ast.walk(ast.parse(wrapper)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("async_compile"), attr="triton"),
                args=[ast.Constant(str(name)), ast.Constant(str(source)), *_],
            ):
                yield name, source
