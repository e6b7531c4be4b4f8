"""FX graphs as records: their text, their nodes, where those come from; and the tensors of a call.

Dynamo and Inductor are not imported here, because that takes seconds.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import torch
import torch._subclasses.fake_tensor
import torch.fx
import torch.utils._pytree as pytree
from torch._functorch._aot_autograd.descriptors import PlainAOTInput

from kernellab.errors.sources import frames_in
from kernellab.records.graphs import GraphNode, Level, ModulePlace, readable, users_position

_fakes: Any = torch._subclasses.fake_tensor
_ROOT_MODULE = re.compile(r"^L\['\w+'\]\.?")
"""Dynamo's name of the module itself, in front of the path within it."""
_MOST_ARGUMENT = 400
"""Characters that are kept of an argument's text: constants may be whole tensors."""


def level_of(module: torch.fx.GraphModule, name: str, fx: Level | None = None) -> Level:
    """A graph at the level of this name; `fx` is what its inputs are inputs of."""
    text = str(module.print_readable(print_output=False))
    given = [node for node in fx.nodes if node.opcode == "placeholder"] if fx is not None else []
    return Level(name, text, tuple(_with_source(node, given) for node in module.graph.nodes))


def _with_source(node: torch.fx.Node, given: Sequence[GraphNode]) -> GraphNode:
    """One node as a record; an input as the one of the FX graph that AOTAutograd made it of."""
    its = node.meta.get("desc") if node.op == "placeholder" else None
    if isinstance(its, PlainAOTInput) and its.idx < len(given):
        source = given[its.idx]
        return replace(node_of(node), target=source.target, origins=(source.name,))
    return node_of(node)


def level_or_error(name: str, make: Callable[[], torch.fx.GraphModule]) -> Level:
    """The level that `make` returns, or the reason why there is none."""
    try:
        return level_of(make(), name)
    except Exception as error:  # torch raises anything
        return Level(name, "", (), f"{type(error).__name__}: {error}")


GraphState = list[tuple[Any, ...]]
"""A graph's nodes and what each of them holds, by identity."""


def state_of(module: torch.fx.GraphModule) -> GraphState:
    """Return what distinguishes one state of a graph from the next without its text, which takes a
    hundred times as long: arguments are never changed, but replaced.
    """
    return [(node, node.name, node.target, node.args, node.kwargs) for node in module.graph.nodes]


def is_state(first: GraphState, second: GraphState) -> bool:
    """Whether nothing has changed from one state to the other."""
    return len(first) == len(second) and all(
        all(map(operator.is_, before, after)) for before, after in zip(first, second, strict=True)
    )


def node_of(node: torch.fx.Node) -> GraphNode:
    """One node as a record."""
    value: Any = node.meta.get("val", node.meta.get("example_value"))
    is_tensor = isinstance(value, torch.Tensor)
    return GraphNode(
        name=node.name,
        opcode=node.op,
        target=target_name(node),
        args=_shown(node.args),
        kwargs=_shown(node.kwargs),
        shape=sizes(value.shape) if is_tensor else None,
        dtype=str(value.dtype).removeprefix("torch.") if is_tensor else None,
        position=users_position(frames_in(node.meta.get("stack_trace") or "")),
        origins=tuple(dict.fromkeys(_origins(node))),
        inputs=tuple(input_node.name for input_node in node.all_input_nodes),
        modules=tuple(_modules(node)),
        strides=sizes(value.stride()) if is_tensor and value.layout is torch.strided else None,
    )


def _shown(arguments: Any) -> str:
    text = repr(arguments)
    return text if len(text) <= _MOST_ARGUMENT else text[: _MOST_ARGUMENT - 1] + "…"


def sizes(given: Iterable[Any]) -> tuple[int | str, ...]:
    """Sizes or strides: numbers, and names of symbols."""
    return tuple(size if isinstance(size, int) else str(size) for size in given)


def byte_count(tensor: torch.Tensor) -> int:
    """The bytes of a tensor's elements. For symbols, the sizes that were seen are used: reading
    those does not add a guard, as `int` does. A size that depends on a value counts as one.
    """
    return math.prod(map(_seen, tensor.shape)) * tensor.element_size()


def _seen(size: Any) -> int:
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else 1


def target_name(node: torch.fx.Node) -> str:
    """The name of a node's target: "aten.mul.Tensor", "torch.sin"; for an input of Dynamo, the
    user's expression.
    """
    target = node.target
    source = getattr(node.meta.get("grapharg"), "source", None)
    if source is not None and node.op == "placeholder":
        return readable(str(source.name() if callable(source.name) else source.name))
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__name__", str(target))
    prefix = {"_operator": "operator", "torch._C._nn": "torch.nn.functional"}.get(module, module)
    return f"{prefix}.{name}" if prefix else str(name)


def tensors_of_launch(node: torch.fx.Node) -> Iterator[tuple[str, torch.fx.Node]]:
    """Parameters and nodes of a node that launches a kernel of the user, which writes to some of
    these nodes' values.
    """
    if str(node.target) == "triton_kernel_wrapper_mutation":
        given: Any = node.kwargs["kwargs"]
        for name, value in given.items():
            if isinstance(value, torch.fx.Node):
                yield name, value


def _origins(node: torch.fx.Node) -> Iterator[str]:
    """Names of nodes that torch says this one comes from, the nearest first."""
    for source in node.meta.get("from_node", ()):
        yield from _sources(source)
    for key in ("source_fn_stack", "fwd_source_fn_stack"):
        for entry in reversed(node.meta.get(key) or ()):
            yield str(entry[0])


def _modules(node: torch.fx.Node) -> Iterator[ModulePlace]:
    """The modules that torch reports for a node; in a backward graph, those of the forward node
    whose gradient it is.
    """
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    for path, kind in stack.values():
        name = _ROOT_MODULE.sub("", str(path))
        if name:
            yield ModulePlace(name, kind if isinstance(kind, str) else kind.__name__)


def _sources(source: Any) -> Iterator[str]:
    name = getattr(source, "name", "")
    if name:
        yield str(name)
    for earlier in getattr(source, "from_node", ()):
        yield from _sources(earlier)


leaves, with_leaves = pytree.tree_leaves, pytree.tree_map
"""The leaves of lists, tuples, dicts and torch's other containers; the same structure with each
leaf changed: `with_leaves(change, value)`.
"""


class DrawingRun(torch.fx.Interpreter):
    """Runs a graph in which a node draws the random numbers that the node of the same name drew in
    an earlier run.

    Attributes:
        states: the name of a node that drew -> the state of the generator before.
    """

    def __init__(
        self, module: torch.fx.GraphModule, earlier: DrawingRun | None, *, keeps_all: bool
    ) -> None:
        """Prepare to run; without `keeps_all`, a value is freed after its last use."""
        super().__init__(module, garbage_collect_values=not keeps_all)
        self.states: dict[str, torch.Tensor] = {}
        self._states_before = {} if earlier is None else earlier.states

    def run_node(self, n: torch.fx.Node) -> Any:
        state = self._states_before.get(n.name)
        if state is None:
            state = torch.get_rng_state()
        else:
            torch.set_rng_state(state)
        result = super().run_node(n)
        if result is None and any(user.target is operator.getitem for user in n.users):
            # `_foreach_add_` returns None; Inductor lets its users read what it wrote to.
            result = self.fetch_args_kwargs_from_env(n)[0][0]
        if not torch.equal(state, torch.get_rng_state()):
            self.states[n.name] = state
        return result

    def drew(self, node: torch.fx.Node) -> bool:
        """Whether a node's value, which was computed, is of random numbers that the node drew, or a
        view of such a value.
        """
        if node.name in self.states:
            return True
        is_part = node.target is operator.getitem or getattr(node.target, "is_view", False)
        source = node.args[0] if is_part else None
        return isinstance(source, torch.fx.Node) and self.drew(source)


def is_unset(node: torch.fx.Node) -> bool:
    """Whether a node's value is unwritten memory."""
    name = target_name(node)
    return name.startswith(("aten.empty", "aten.new_empty", "torch.empty", "new_empty"))


def rewritten_by(node: torch.fx.Node) -> torch.fx.Node | None:
    """The node whose value an operation writes to through a view; None for other operations."""
    source: Any = node.args[0] if node.args else None
    is_written = node.op == "call_function" and str(node.target).startswith("aten.copy_.")
    if not is_written or not isinstance(source, torch.fx.Node):
        return None
    while getattr(source.target, "is_view", False):
        source = source.args[0]
    return None if source is node.args[0] else source


def operation_named(name: str) -> Any:
    """The operation that nodes are called by: "aten.gelu.default". Raises LookupError: torch has no
    such operation.
    """
    namespace, packet, *overload = name.removeprefix("torch.ops.").split(".")
    try:
        operation = getattr(getattr(torch.ops, namespace), packet)
        return getattr(operation, overload[0] if overload else "default")
    except (AttributeError, RuntimeError) as error:
        raise LookupError(f"torch has no operation {name!r}") from error


def copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of a graph and of the graphs that it calls; tensors and other modules are shared."""
    graph = copy.deepcopy(module.graph)
    made = torch.fx.GraphModule(module, graph, class_name=type(module).__name__)
    made.meta = dict(module.meta)
    for name, part in module.named_children():
        if isinstance(part, torch.fx.GraphModule):
            setattr(made, name, copied(part))
    return made


def move_graph(
    module: torch.fx.GraphModule, old: torch.device, new: torch.device
) -> torch.fx.GraphModule:
    """Move a graph to another device in place: the tensors that it makes, and the metadata of its
    values. The caller recompiles it before running it.
    """

    def moved(value: Any) -> Any:
        return new if isinstance(value, torch.device) and value.type == old.type else value

    for part in module.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for node in part.graph.nodes:
            node.args = torch.fx.node.map_aggregate(node.args, moved)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
            if "val" in node.meta:
                node.meta["val"] = with_leaves(
                    functools.partial(of_device, old=old, new=new), node.meta["val"]
                )
    return module


def of_device(value: Any, old: torch.device, new: torch.device) -> Any:
    """Return an empty tensor like a traced one on another device; anything else unchanged."""
    if not isinstance(value, torch.Tensor) or value.device.type != old.type:
        return value
    if not isinstance(value, _fakes.FakeTensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=new)
    with torch._C._DisableTorchDispatch():  # traced, it would take ten times as long
        like = torch.empty_strided(
            value.size(), value.stride(), dtype=value.dtype, device=torch.device("meta")
        )
    return _fakes.FakeTensor(value.fake_mode, like, new)


# The tensors of a call, and the call as it is captured: a function as the user wrote it, and
# tensors without values where some have none.

_META = torch.device("meta")

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function, its arguments by position and by name."""


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the module of a compiled module; a function is returned unchanged, because torch
    unwraps it. Modules that were compiled in place are no longer compiled.
    """
    original: Any = getattr(function, "_orig_mod", function)
    for module in _modules_of(original):
        module._compiled_call_impl = None
    return original  # type: ignore[no-any-return]


def has_values(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether all tensors of a call have values: none is on the meta device, or fake."""
    return not any(map(is_empty, tensors_of(function, args, keywords)))


def is_empty(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no values: it is on the meta device, or fake."""
    return tensor.is_meta or isinstance(tensor, _fakes.FakeTensor)


def on_meta(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Call:
    """Return a call with all its tensors on the meta device. A module is changed in place."""
    made: dict[int, torch.Tensor] = {}
    for module in _modules_of(function):
        held: list[dict[str, Any]] = [module._parameters, module._buffers]
        for named in held:
            for name, tensor in named.items():
                if tensor is not None:
                    named[name] = _meta(made, tensor)
    change = functools.partial(_meta, made)
    return function, *pytree.tree_map_only(torch.Tensor, change, (tuple(args), dict(keywords)))


def _meta(made: dict[int, torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
    """An empty tensor like this one; the same for the same tensor."""
    if tensor.is_meta and not isinstance(tensor, _fakes.FakeTensor):
        return tensor
    if id(tensor) not in made:
        like = torch.empty_strided(
            tuple(map(int, tensor.shape)),
            tuple(map(int, tensor.stride())),
            dtype=tensor.dtype,
            device=_META,
        )
        if isinstance(tensor, torch.nn.Parameter):
            like = torch.nn.Parameter(like, requires_grad=tensor.requires_grad)
        else:
            like.requires_grad_(tensor.requires_grad)
        marks = {name: value for name, value in vars(tensor).items() if name.startswith("_dynamo")}
        vars(like).update(marks)  # which dimensions are dynamic
        made[id(tensor)] = like
    return made[id(tensor)]


def tensors_of(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Return the tensors of a call: arguments, and what the function, its modules and other objects
    hold.
    """
    held = [*_held_by(function), *args, *keywords.values()]
    return list({id(tensor): tensor for tensor in _tensors_in(held, set())}.values())


def _tensors_in(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif id(leaf) not in seen and not isinstance(leaf, type | FunctionType | ModuleType):
            seen.add(id(leaf))
            yield from _tensors_in(list(getattr(leaf, "__dict__", {}).values()), seen)


def _held_by(function: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """What a function can reach without an argument: itself, by the functions in its closure, such
    as what `torch.no_grad` decorates, and by those of its module.
    """
    seen = set() if seen is None else seen
    if id(function) in seen:
        return
    seen.add(id(function))
    yield function
    yield getattr(function, "__self__", None)
    inner: list[Any] = []
    if isinstance(function, functools.partial):
        inner += [function.func]
        yield [*function.args, *function.keywords.values()]
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            inner.append(cell.cell_contents)
    code = getattr(function, "__code__", None)
    if code is not None:
        names = function.__globals__
        known = [names[name] for name in code.co_names if name in names]
        inner += [each for each in known if getattr(each, "__globals__", None) is names]
        yield known
    for each in inner:
        if isinstance(each, FunctionType | functools.partial):
            yield from _held_by(each, seen)
        else:
            yield each


def _of_type(
    kind: Any, function: Any, args: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None
) -> list[Any]:
    held = [*_held_by(function), *args, *(keywords or {}).values()]
    return [value for value in pytree.tree_leaves(held) if isinstance(value, kind)]


def _modules_of(function: Any) -> list[torch.nn.Module]:
    modules = _of_type(torch.nn.Module, function)
    return [part for module in modules for part in module.modules()]


def _is_other(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether a tensor's bits differ from its copy's. A Triton kernel that writes to a tensor does
    not change its version.
    """
    if tensor.layout is not torch.strided or not has_values(None, (tensor,), {}):
        return False
    bits, bits_before = (
        each.detach().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8)
        for each in (tensor, before)
    )
    return not torch.equal(bits, bits_before)


@contextmanager
def tensors_restored(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Iterator[None]:
    """While active, a call may write to its tensors; afterwards those, and their gradients, are as
    they were.
    """
    kept = [
        (tensor, tensor.detach().clone(), tensor._version, tensor.grad)
        for tensor in tensors_of(function, args, keywords)
    ]
    gradients = [
        (grad, grad.detach().clone(), grad._version) for _, _, _, grad in kept if grad is not None
    ]
    states = [
        (optimizer, {key: dict(state) for key, state in optimizer.state.items()})
        for optimizer in _of_type(torch.optim.Optimizer, function, args, keywords)
    ]
    try:
        yield
    finally:
        for optimizer, state in states:
            optimizer.state.clear()
            optimizer.state.update(state)
        with torch.no_grad():
            for tensor, before, version, grad in kept:
                if tensor._version != version or _is_other(tensor, before):
                    tensor.copy_(before)
                tensor.grad = grad
            for grad, before, version in gradients:
                if grad._version != version:
                    grad.copy_(before)
