"""Graphs lowered: by Inductor, which is watched meanwhile, and to torch's primitive operations."""

from __future__ import annotations

import ast
import functools
import operator
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import torch
import torch._decomp
import torch._guards
import torch._inductor.codegen.common
import torch._inductor.codegen.triton
import torch._inductor.compile_fx
import torch._inductor.config
import torch._inductor.graph
import torch._inductor.ir
import torch._inductor.scheduler
import torch._inductor.select_algorithm
import torch._inductor.utils
import torch._inductor.virtualized
import torch._refs
import torch._refs.nn.functional
import torch.fx.passes.graph_transform_observer
import torch.fx.traceback
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx

from kernellab.common.patches import replaced, watched
from kernellab.records.graphs import (
    Candidate,
    Fusion,
    GraphLaunch,
    GraphPass,
    KernelCode,
    Level,
    LoopBuffer,
    kernel_names,
    with_origins,
)
from kernellab.torch_api import fx_graphs
from kernellab.torch_api.fx_graphs import copied
from kernellab.torch_api.virtual_gpu import CPU, DEVICE

# What max-autotune would choose from: each template of Inductor in each config; torch's own
# operation. Nothing is timed: the first template is taken.

_selection: Any = torch._inductor.select_algorithm


def candidates_noted(candidates: list[Candidate]) -> AbstractContextManager[None]:
    """While active, what Inductor would time is added to `candidates`, and the first template
    is taken; if there is none, the first.
    """

    def choose(
        original: Any, cache: Any, name: str, choices: Sequence[Any], *args: Any, **keywords: Any
    ) -> Any:
        if not choices:
            return original(cache, name, choices, *args, **keywords)
        taken = next((choice for choice in choices if _is_template(choice)), choices[0])
        place = len({candidate.place for candidate in candidates})
        candidates.extend(_candidate(name, place, choice, choice is taken) for choice in choices)
        return original(cache, name, [taken], *args, **keywords)

    return watched(_selection.AlgorithmSelectorCache, __call__=choose)


def _is_template(choice: Any) -> bool:
    return isinstance(choice, _selection.TritonTemplateCaller)


def _candidate(operation: str, place: int, choice: Any, is_taken: bool) -> Candidate:
    request = choice.bmreq if _is_template(choice) else None
    return Candidate(
        operation=operation,
        place=place,
        name=str(getattr(request, "kernel_name", None) or choice.name),
        config=_text(lambda: choice.description) or _text(choice.call_name),
        is_template=request is not None,
        is_taken=is_taken,
        source=Path(request.module_path).read_text(encoding="utf-8") if request else "",
    )


def _text(read: Callable[[], Any]) -> str:
    """A choice's description of itself, in a line; "" if it has none."""
    try:
        return " ".join(str(read() or "").split())
    except (AttributeError, NotImplementedError):
        return ""


# Inductor, watched while it lowers one graph: its passes, its loop IR, what it fuses and why
# not, the code that it writes.
#
# Inductor is not imitated: its own functions run, and each watcher records what passes.

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

CONFIG: dict[str, Any] = {"force_disable_caches": True, "compile_threads": 1, "cpp_wrapper": False}
"""The settings of a watched Inductor: a graph from its cache would show nothing."""


@dataclass(frozen=True)
class Mutation:
    """A launch of a kernel of the user.

    Attributes:
        node: the post-grad node that launches it.
        mutated: parameter -> the node to whose value the kernel writes.
        kernel: the kernel's variable in the code; "" before the code is written.
    """

    node: str
    mutated: dict[str, str]
    kernel: str = ""


@dataclass
class Lowering:
    """The record of one graph; `module` is the graph as it was lowered, or None; `values` says
    of buffers which node's value they are; `mutations` are in the order of the code, and `names`
    has the kernels' by their variables in the code.
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
    mutations: list[Mutation] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


# Passes


class _PassWatch:
    """Notes each FX pass of Inductor: texts are written of graphs that a pass has changed."""

    def __init__(self, passes: list[GraphPass]) -> None:
        self._passes = passes
        self._open: weakref.WeakKeyDictionary[Any, tuple[fx_graphs.GraphState, str, float]]
        self._open = weakref.WeakKeyDictionary()
        self._known: weakref.WeakKeyDictionary[Any, tuple[fx_graphs.GraphState, str]]
        self._known = weakref.WeakKeyDictionary()

    def entered(self, enter: Any, observer: Any) -> Any:
        state = fx_graphs.state_of(observer.gm)
        self._open[observer] = state, self._text(observer.gm, state), time.perf_counter()
        return enter(observer)

    def left(self, leave: Any, observer: Any, *error: Any) -> Any:
        state, before, start = self._open.pop(observer)
        seconds = time.perf_counter() - start
        now = fx_graphs.state_of(observer.gm)
        after = before if fx_graphs.is_state(state, now) else self._text(observer.gm, now)
        texts = ("", "") if before == after else (before, after)
        self._passes.append(GraphPass(str(observer.passname), _stage(observer), *texts, seconds))
        return leave(observer, *error)

    def _text(self, module: Any, state: fx_graphs.GraphState) -> str:
        known = self._known.get(module)
        if known is None or not fx_graphs.is_state(known[0], state):
            known = self._known[module] = state, str(module.graph)
        return known[1]


def passes_watched(passes: list[GraphPass]) -> AbstractContextManager[None]:
    """While active, each FX pass of Inductor's is added to `passes`."""
    watch = _PassWatch(passes)
    observer = _observing.GraphTransformObserver
    return watched(observer, __enter__=watch.entered, __exit__=watch.left)


def _stage(observer: Any) -> str:
    """Of what group of passes one is, as Inductor names the group."""
    return {
        "pre_grad_passes": "pre_grad",
        "joint_graph_passes": "joint",
        "post_grad_passes": "post_grad",
    }.get(str(observer.subsystem), "post_grad" if observer.subsystem is None else "other")


# The scheduler


def _shared(scheduler: Any, first: Any, second: Any) -> tuple[list[str], int]:
    """Return the buffers that both of two scheduler's nodes use, and the bytes of those of which
    both use every element: the memory traffic that one kernel for both would save.
    """
    used: list[dict[str, Any]] = [
        {
            scheduler.mutation_real_name.get(dependency.name, dependency.name): dependency
            for dependency in node.read_writes.reads_and_writes()
            if not isinstance(dependency, _scheduling.WeakDep)
        }
        for node in (first, second)
    ]
    names = sorted(used[0].keys() & used[1].keys())
    saved = 0
    for name in names:
        size = scheduler.dep_size_hint(_scheduling.StarDep(name))
        if all(scheduler.dep_size_hint(uses[name]) >= size for uses in used):
            saved += size
    return names, int(saved)


class _SchedulerWatch:
    """Notes of the schedulers of one graph."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._pairs: dict[tuple[str, str], Fusion] = {}
        self._local = threading.local()
        self._variables: weakref.WeakKeyDictionary[Any, dict[str, str]]
        self._variables = weakref.WeakKeyDictionary()
        self._kernel_of: dict[str, str] = {}
        self._mutations: dict[str, Mutation] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While active, schedulers are watched."""
        with (
            watched(
                _scheduling.Scheduler,
                fuse_nodes=self._fuse_nodes,
                can_fuse=self._can_fuse,
                fuse_two_nodes=self._fuse_two_nodes,
                codegen=self._codegen,
            ),
            watched(_scheduling.WhyNoFuse, __call__=self._why),
            watched(_triton_codegen.TritonScheduling, define_kernel=self._define_kernel),
            watched(_common_codegen.CSE, generate=self._generate),
            watched(
                _ir.UserDefinedTritonKernel,
                __init__=self._users_kernel,
                codegen_comment=self._define_users_kernel,
            ),
        ):
            yield

    def _fuse_nodes(self, original: Any, scheduler: Any, nodes: Any) -> Any:
        self._lowering.loops += [_buffer(node) for node in nodes if node.node is not None]
        return original(scheduler, nodes)

    def _why(self, original: Any, note: Any, reason: str, *args: Any) -> Any:
        self._local.reason = reason % args if args else reason
        return original(note, reason, *args)

    def _can_fuse(
        self, original: Any, scheduler: Any, first: Any, second: Any, *args: Any, **keywords: Any
    ) -> Any:
        if getattr(self._local, "depth", 0):
            return original(scheduler, first, second, *args, **keywords)
        self._local.depth, self._local.reason = 1, ""
        try:
            can = original(scheduler, first, second, *args, **keywords)
        finally:
            self._local.depth = 0
        reason = "" if can else self._local.reason or "Inductor gives no reason"
        if reason.startswith("intermediate nodes"):
            reason = f"{reason}: {self._between(scheduler, first, second)}"
        saved = None
        if reason == "no shared data":  # of which Inductor says so if no index is the same
            shared, saved = _shared(scheduler, first, second)
            reason = f"both use {', '.join(shared)}, at different indices" if shared else reason
        self._note(scheduler, first, second, fused=False, reason=reason, saved=saved)
        return can

    def _between(self, scheduler: Any, first: Any, second: Any) -> str:
        """The operations that use what the first computes and that the second uses."""
        sources = first.get_operation_names()
        nodes = scheduler.name_to_fused_node
        names = [name for name in second.ancestors if nodes[name].ancestors & sources]
        names.sort(key=lambda name: (len(name), name))  # op2 is before op10
        return ", ".join(with_origins(name, self._lowering.loops) for name in names)

    def _fuse_two_nodes(
        self, original: Any, scheduler: Any, first: Any, second: Any, *args: Any
    ) -> Any:
        self._note(scheduler, first, second, fused=True, reason="")
        return original(scheduler, first, second, *args)

    def _note(
        self,
        scheduler: Any,
        first: Any,
        second: Any,
        *,
        fused: bool,
        reason: str,
        saved: int | None = None,
    ) -> None:
        names = first.get_name(), second.get_name()
        known = self._pairs.get(names)
        if (known is not None and known.fused) or first is second:
            return
        saved = scheduler.score_fusion_memory(first, second) if saved is None else saved
        if not fused and not reason:
            reason = "another pair went first, or a circle would come of it"
        self._pairs[names] = Fusion(*names, fused, reason, int(saved))

    def _generate(self, original: Any, cse: Any, *args: Any, **keywords: Any) -> Any:
        made = original(cse, *args, **keywords)
        kernel = _virtualized.V.kernel
        node = getattr(kernel, "current_node", None)
        if node is not None and hasattr(made, "name"):
            self._variables.setdefault(kernel, {}).setdefault(made.name, node.get_name())
        return made

    def _define_kernel(
        self,
        original: Any,
        scheduling: Any,
        source: str,
        node_schedule: Any,
        kernel: Any,
        *args: Any,
    ) -> Any:
        name = original(scheduling, source, node_schedule, kernel, *args)
        nodes = [node for node in node_schedule if hasattr(node, "get_name")]
        for node in nodes:
            self._kernel_of[node.get_name()] = str(name)
        variables = self._variables.get(kernel, {})
        self._lowering.kernels.append(_kernel(str(name), nodes, variables))
        return name

    def _users_kernel(
        self, original: Any, kernel: Any, *, kernel_args: dict[str, Any], **keywords: Any
    ) -> None:
        original(kernel, kernel_args=kernel_args, **keywords)
        node = _virtualized.V.graph.current_node
        mutated = {
            name: node.kwargs["kwargs"][name].name
            for name, value in kernel_args.items()
            if any(value is argument for argument in kernel.mutable_args)
        }
        self._mutations[kernel.get_operation_name()] = Mutation(node.name, mutated)

    def _define_users_kernel(self, original: Any, kernel: Any, wrapper: Any, name: str) -> None:
        original(kernel, wrapper, name)
        operation = kernel.get_operation_name()
        self._kernel_of[operation] = name
        mutation = replace(self._mutations[operation], kernel=name)
        self._lowering.mutations.append(mutation)
        buffers = tuple(buffer.get_name() for buffer in kernel.get_outputs())
        origins = (mutation.node,)
        self._lowering.kernels.append(KernelCode(name, "", (operation,), buffers, origins))

    def _launch(self, node: Any) -> GraphLaunch | None:
        names = _names(node)
        kernel = next((self._kernel_of[name] for name in names if name in self._kernel_of), None)
        if kernel is None and (not node.is_extern() or isinstance(node.node, _ir.MultiOutput)):
            return None  # nothing is launched for it: a view, a buffer that is there, a call's part
        called = getattr(node.node, "python_kernel_name", None) or type(node.node).__name__
        mutation = next((self._mutations[name] for name in names if name in self._mutations), None)
        return GraphLaunch(
            name=kernel or str(called),
            is_generated=kernel is not None,
            operations=names,
            moved_bytes=int(node.get_read_write_buffers_sizes()),
            flops=_number(node.estimate_flops()),
            mutated={} if mutation is None else mutation.mutated,
        )

    def _ended(self, pair: Fusion) -> Fusion:
        """A pair as it came out: it may be in one kernel by way of others."""
        both = {*pair.first.split("_"), *pair.second.split("_")}  # of "op0_op1", fused before
        if not pair.fused and any(both <= set(group) for group in self._lowering.groups):
            return replace(pair, fused=True, reason="")
        return pair

    def _codegen(self, original: Any, scheduler: Any) -> Any:
        nodes = list(scheduler.nodes)
        result = original(scheduler)
        self._lowering.groups += [_names(node) for node in nodes]
        self._lowering.values.update(_values(nodes))
        launched = [self._launch(node) for node in nodes]
        self._lowering.launches += [launch for launch in launched if launch is not None]
        self._lowering.fusions = [self._ended(pair) for pair in self._pairs.values()]
        return result


def _names(node: Any) -> tuple[str, ...]:
    return tuple(part.get_name() for part in node.get_nodes())


def _origins(nodes: Sequence[Any]) -> tuple[str, ...]:
    kept = [
        origin.name for node in nodes if node.node is not None for origin in node.node.get_origins()
    ]
    return tuple(dict.fromkeys(kept))


def _values(nodes: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Name of a buffer, and of the post-grad node whose value it is, if one is known."""
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
    """Have Inductor write the code of a graph for the emulated GPU.

    Args:
        module: on the GPU already; it is not changed.
        inputs: its traced inputs, on either device.
        keywords: the arguments that `compile_fx` passes to its inner compiler.
        config: Inductor's options.
        lowering: records everything, including what was reached before an error.
        here: the device of the inputs that count as being on the GPU.
        is_run: whether the code will run, so that the strides of its outputs matter.
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
        moved = [fx_graphs.of_device(tensor, here, DEVICE) for tensor in inputs]
        _compile_fx.compile_fx_inner(copied(module), moved, **keywords)
    noted: dict[str, KernelCode] = {}
    for kernel in lowering.kernels:
        first = noted.get(kernel.name)
        noted[kernel.name] = (
            kernel
            if first is None
            else replace(
                first,
                buffers=tuple(dict.fromkeys(first.buffers + kernel.buffers)),
                origins=tuple(dict.fromkeys(first.origins + kernel.origins)),
                reused=(*first.reused, kernel.operations),
            )
        )
    sources = list(kernel_sources(lowering.wrapper))
    names = kernel_names({variable: function for variable, function, _ in sources})
    bare = KernelCode("", "", (), (), ())
    lowering.names = names
    lowering.kernels = [
        replace(noted.get(variable, bare), name=names[variable], source=source)
        for variable, _, source in sources
    ]
    lowering.launches = [
        replace(launch, name=names.get(launch.name, launch.name)) for launch in lowering.launches
    ]


def _output_strides_kept() -> AbstractContextManager[None]:
    """Inductor passes AOTAutograd the strides of its outputs, except where other code runs."""
    context = torch._guards.TracingContext.try_get()
    if getattr(context, "output_strides", None) is None:
        return nullcontext()
    return replaced(context, output_strides=[])


def kernel_sources(wrapper: str) -> Iterator[tuple[str, str, str]]:
    """Variable, function and source of each Triton kernel in the code that launches them."""
    if not wrapper:
        return
    for node in ast.walk(ast.parse(wrapper)):
        match node:
            case ast.Assign(
                [ast.Name(variable)],
                ast.Call(
                    func=ast.Attribute(value=ast.Name("async_compile"), attr="triton"),
                    args=[ast.Constant(str(function)), ast.Constant(str(source)), *_],
                ),
            ):
                yield variable, function, source


# Optimizations of Inductor, switched off.

UNFUSED: dict[str, Any] = {"max_fusion_size": 1}
"""Options with which the scheduler fuses nothing: every pair "exceeds max fusion"."""


def caches_off() -> AbstractContextManager[Any]:
    """While active, every graph is compiled anew: one in Inductor's cache would be found whatever
    is switched off. Not every torch takes this as an option of torch.compile.
    """
    return _config.patch(force_disable_caches=True)  # type: ignore[no-any-return]


def nothing_inlined() -> AbstractContextManager[None]:
    """While active, what a node computes from other values is stored, and not written into the
    loops of its users.

    Inductor has options for values with several users (`realize_reads_threshold`), and none for
    those with one.
    """

    def run_node(original: Any, graph: Any, node: Any) -> Any:
        result = original(graph, node)
        box: Any = getattr(result, "data", None)
        is_computed = isinstance(box, _ir.StorageBox) and isinstance(
            box.data, _ir.Pointwise | _ir.Reduction
        )
        if is_computed and box.num_reads() > 0:
            result.realize()
        return result

    return watched(_graph.GraphLowering, run_node=run_node)


# A graph of ATen operations, written out in torch's primitive ones.

_map_arg: Any = torch.fx.node.map_arg
_traceback: Any = torch.fx.traceback


def primitives(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Level:
    """A graph of ATen operations on the CPU, written out; its inputs may be of the GPU."""
    fake_mode = torch._guards.detect_fake_mode(inputs) or nullcontext()

    def made() -> torch.fx.GraphModule:
        with fake_mode, torch.no_grad(), torch.fx.traceback.preserve_node_meta():
            if all(map(_is_plain, module.graph.nodes)):
                return _WrittenOut(module).made()
            run = torch.fx.Interpreter(module).run
            here = [fx_graphs.of_device(value, DEVICE, CPU) for value in inputs]
            return make_fx(run, decomposition_table=_primitive_table())(*here)

    return fx_graphs.level_or_error("prims", made)


@functools.cache
def _primitive_table() -> dict[Any, Callable[..., Any]]:
    """Operations that torch can write out: its decompositions, and its references in primitives."""
    registered: Any = torch._decomp.global_decomposition_table
    table: dict[Any, Callable[..., Any]] = dict(registered["post_autograd"])
    modules: tuple[Any, ...] = (torch._refs, torch._refs.nn.functional)
    for module in modules:
        for name in module.__all__:
            packet = getattr(torch.ops.aten, name, None)
            for overload in packet.overloads() if packet is not None else ():
                operation = getattr(packet, overload)
                if not any(argument.is_out for argument in operation._schema.arguments):
                    table.setdefault(operation, getattr(module, name))
    table.pop(torch.ops.aten.view.dtype)  # the reference takes sizes
    return table


# Operation by operation


def _is_plain(node: torch.fx.Node) -> bool:
    """Whether what a node is written out as follows from it alone: it takes and gives tensors of
    known sizes, and writes to none.
    """
    if node.op in ("placeholder", "get_attr", "output"):
        return _is_static(node)
    if node.op != "call_function" or not _is_static(node):
        return False
    target = node.target
    is_operation = isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable
    return target is operator.getitem or is_operation


def _is_static(node: torch.fx.Node) -> bool:
    return node.op == "output" or all(
        map(_is_of_known_size, fx_graphs.leaves(node.meta.get("val")))
    )


def _is_of_known_size(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        parts: list[Any] = [*value.shape, *value.stride(), value.storage_offset()]
        return all(type(part) is int for part in parts)
    return value is None or isinstance(value, bool | int | float | complex)


class _WrittenOut:
    """A graph whose operations are written out, equal ones once, and all in one trace: models
    repeat themselves, and tracing is what takes the time.
    """

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self._graph = torch.fx.Graph()
        self._values: dict[torch.fx.Node, Any] = {}
        self._traced: dict[Any, _Traced] = {}

    def made(self) -> torch.fx.GraphModule:
        nodes = list(self._module.graph.nodes)
        called = (node for node in nodes if node.op == "call_function")
        kinds = {node: _kind_of(node) for node in called if node.target is not operator.getitem}
        self._trace({kind: node for node, kind in kinds.items()})
        for node in nodes:
            with _traceback.set_current_meta(node, "kernellab"):
                self._values[node] = self._written(node, kinds.get(node))
        self._graph.eliminate_dead_code()
        return torch.fx.GraphModule(self._module, self._graph)

    def _written(self, node: torch.fx.Node, kind: Any) -> Any:
        if node.op != "call_function":
            copied = self._graph.node_copy(node, self._values.__getitem__)
            copied.meta.update(_traceback.get_current_meta())
            return copied
        args, kwargs = _map_arg((node.args, node.kwargs), self._values.__getitem__)
        if node.target is operator.getitem:
            return args[0][args[1]]
        traced = self._traced[kind]
        values = dict(zip(traced.inputs, _nodes_in((args, kwargs)), strict=True))
        for inner in traced.body:
            values[inner] = self._copied(inner, values)
        return _map_arg(traced.result, values.__getitem__)

    def _trace(self, kinds: Mapping[Any, torch.fx.Node]) -> None:
        taken = [list(_nodes_in((node.args, node.kwargs))) for node in kinds.values()]

        def call(*tensors: Any) -> list[Any]:
            remaining = iter(tensors)
            return [_called(node, remaining) for node in kinds.values()]

        with torch.fx.traceback.preserve_node_meta(enable=False):
            traced_call = make_fx(call, decomposition_table=_primitive_table())
            module = traced_call(*map(_like, chain.from_iterable(taken)))
        *nodes, output = module.graph.nodes
        inputs = iter([node for node in nodes if node.op == "placeholder"])
        results: Any = output.args[0]
        owners: dict[torch.fx.Node, _Traced] = {}
        for kind, given, result in zip(kinds, taken, results, strict=True):
            traced = self._traced[kind] = _Traced(list(islice(inputs, len(given))), [], result)
            owners.update(dict.fromkeys([*traced.inputs, *_nodes_in(result)], traced))
        for node in reversed(nodes):
            if node in owners:
                owners.update(dict.fromkeys(node.all_input_nodes, owners[node]))
        for node in nodes:
            owner = owners.get(node) or next(
                filter(None, map(owners.get, node.all_input_nodes)), None
            )
            if node.op != "placeholder" and owner is not None:  # others compute nothing of a result
                owners[node] = owner
                owner.body.append(node)

    def _copied(
        self, node: torch.fx.Node, values: dict[torch.fx.Node, torch.fx.Node]
    ) -> torch.fx.Node:
        if node.op != "call_function":
            raise NotImplementedError(f"{node.op} within one operation")
        args, kwargs = _map_arg((node.args, node.kwargs), values.__getitem__)
        name = getattr(getattr(node.target, "overloadpacket", node.target), "__name__", None)
        copied = self._graph.create_node("call_function", node.target, args, kwargs, name)
        copied.meta = {**_traceback.get_current_meta(), "val": node.meta.get("val")}
        return copied


@dataclass(frozen=True)
class _Traced:
    """An operation as it was traced: its tensors, and what computes the result."""

    inputs: list[torch.fx.Node]
    body: list[torch.fx.Node]
    result: Any


def _kind_of(node: torch.fx.Node) -> Any:
    """A key that is equal for nodes that are written out alike."""
    values = [value_node.meta["val"] for value_node in _nodes_in((node.args, node.kwargs))]
    kinds = tuple((value.shape, value.stride(), value.dtype, value.device) for value in values)
    blank = _map_arg((node.args, node.kwargs), lambda _node: "<tensor>")
    return node.target, repr(blank), kinds


def _like(node: torch.fx.Node) -> Any:
    """A new tensor like a node's value: `x * x` takes two."""
    value = node.meta["val"]
    return fx_graphs.of_device(value, value.device, value.device)


def _called(node: torch.fx.Node, tensors: Iterator[Any]) -> Any:
    args, kwargs = _map_arg((node.args, node.kwargs), lambda _node: next(tensors))
    return cast(Callable[..., Any], node.target)(*args, **kwargs)


def _nodes_in(arguments: Any) -> Iterator[torch.fx.Node]:
    """The nodes among arguments, in the order in which `_map_arg` comes to them."""
    yield from (leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.fx.Node))
