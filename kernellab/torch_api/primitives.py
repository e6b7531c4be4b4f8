"""A graph of ATen operations, written out in torch's primitive ones."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch._decomp
import torch._guards
import torch._refs
import torch._refs.nn.functional
import torch.fx.traceback
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx

from kernellab.records.graphs import Level
from kernellab.torch_api.fx_graphs import leaves, level_or_error, of_device, with_leaves
from kernellab.torch_api.virtual_gpu import DEVICE

_traceback: Any = torch.fx.traceback
_CPU = torch.device("cpu")


def primitives(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Level:
    """A graph of ATen operations on the CPU, written out; its inputs may be of the GPU."""
    fake_mode = torch._guards.detect_fake_mode(inputs) or nullcontext()

    def made() -> torch.fx.GraphModule:
        with fake_mode, torch.no_grad(), torch.fx.traceback.preserve_node_meta():
            if all(map(_is_plain, module.graph.nodes)):
                return _WrittenOut(module).made()
            run = torch.fx.Interpreter(module).run
            here = [of_device(value, DEVICE, _CPU) for value in inputs]
            return make_fx(run, decomposition_table=_primitive_table())(*here)

    return level_or_error("prims", made)


@functools.cache
def _primitive_table() -> dict[Any, Callable[..., Any]]:
    """What torch can write out: its decompositions, and its references in primitives."""
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
    return node.op == "output" or all(map(_is_of_known_size, leaves(node.meta.get("val"))))


def _is_of_known_size(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        parts: list[Any] = [*value.shape, *value.stride(), value.storage_offset()]
        return all(type(part) is int for part in parts)
    return value is None or isinstance(value, bool | int | float | complex)


class _WrittenOut:
    """A graph whose operations are written out one by one, equal ones once: models repeat
    themselves, and tracing is what takes the time.
    """

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self._graph = torch.fx.Graph()
        self._values: dict[torch.fx.Node, Any] = {}
        self._traced: dict[Any, torch.fx.Graph] = {}

    def made(self) -> torch.fx.GraphModule:
        """The graph."""
        for node in self._module.graph.nodes:
            with _traceback.set_current_meta(node, "kernellab"):
                self._values[node] = self._written(node)
        self._graph.eliminate_dead_code()
        return torch.fx.GraphModule(self._module, self._graph)

    def _written(self, node: torch.fx.Node) -> Any:
        if node.op != "call_function":
            copied = self._graph.node_copy(node, self._values.__getitem__)
            copied.meta.update(_traceback.get_current_meta())
            return copied
        args, kwargs = _with_nodes(self._values.__getitem__, (node.args, node.kwargs))
        if node.target is operator.getitem:
            return args[0][args[1]]
        return self._inlined(self._trace(node), list(_nodes_in((args, kwargs))))

    def _trace(self, node: torch.fx.Node) -> torch.fx.Graph:
        """The graph of a node's operation alone."""
        values = [value_node.meta["val"] for value_node in _nodes_in((node.args, node.kwargs))]
        taken = [of_device(value, _CPU, _CPU) for value in values]  # x * x takes two tensors
        kinds = tuple((value.shape, value.stride(), value.dtype, value.device) for value in taken)
        blank = _with_nodes(lambda _one: _PLACE, (node.args, node.kwargs))
        key = node.target, repr(blank), kinds
        if key not in self._traced:
            target: Any = node.target

            def call(*tensors: Any) -> Any:
                remaining = iter(tensors)
                args, kwargs = _with_nodes(lambda _one: next(remaining), (node.args, node.kwargs))
                return target(*args, **kwargs)

            with torch.fx.traceback.preserve_node_meta(enable=False):
                traced = make_fx(call, decomposition_table=_primitive_table())(*taken)
            self._traced[key] = traced.graph
        return self._traced[key]

    def _inlined(self, traced: torch.fx.Graph, inputs: list[torch.fx.Node]) -> Any:
        remaining = iter(inputs)
        values: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in traced.nodes:
            if node.op == "placeholder":
                values[node] = next(remaining)
            elif node.op == "output":
                return torch.fx.node.map_arg(node.args[0], values.__getitem__)
            else:
                values[node] = self._copied(node, values)
        raise AssertionError("a graph has an output")

    def _copied(
        self, node: torch.fx.Node, values: dict[torch.fx.Node, torch.fx.Node]
    ) -> torch.fx.Node:
        if node.op != "call_function":
            raise NotImplementedError(f"{node.op} within one operation")
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        name = getattr(getattr(node.target, "overloadpacket", node.target), "__name__", None)
        copied = self._graph.create_node("call_function", node.target, args, kwargs, name)
        copied.meta = {**_traceback.get_current_meta(), "val": node.meta.get("val")}
        return copied


_PLACE = "<tensor>"


def _with_nodes(change: Callable[[torch.fx.Node], Any], arguments: Any) -> Any:
    """Arguments of a node with the nodes among them changed."""
    return with_leaves(
        lambda leaf: change(leaf) if isinstance(leaf, torch.fx.Node) else leaf, arguments
    )


def _nodes_in(arguments: Any) -> Iterator[torch.fx.Node]:
    """The nodes among arguments, in the order in which `_with_nodes` comes to them."""
    yield from (leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.fx.Node))
