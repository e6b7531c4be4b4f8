"""Which value of a traced graph is the value of which node of the FX graph, or its gradient: noted
while AOTAutograd traces, and kept in the nodes' metadata through partitioning and passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._subclasses.functional_tensor
import torch.fx.experimental.proxy_tensor
import torch.fx.experimental.symbolic_shapes

from kernellab.common.patches import replaced

_proxies: Any = torch.fx.experimental.proxy_tensor
_symbolic: Any = torch.fx.experimental.symbolic_shapes
_functional: Any = torch._subclasses.functional_tensor
_unwrapped: Any = torch._from_functional_tensor

Mark = tuple[str, str]
""" "value" or "gradient", and the name of the FX node."""

_KEY = "kernellab_values"


def marks_of(node: torch.fx.Node) -> tuple[Mark, ...]:
    """What a node's value is."""
    return tuple(node.meta.get(_KEY, ()))


def on_gradient(value: Any, heard: Callable[[torch.Tensor], None]) -> None:
    """Have a function called with the gradient of a value, once there is one."""
    value.register_hook(heard)


@contextmanager
def values_marked() -> Iterator[None]:
    """While active, AOTAutograd's graphs have marks."""
    interpreter = _symbolic.PropagateUnbackedSymInts
    original = interpreter.run_node

    def run_node(self: Any, node: torch.fx.Node) -> Any:
        result = original(self, node)
        if isinstance(result, torch.Tensor) and node.op != "output":
            _mark(result, ("value", node.name))
            if result.requires_grad and _proxies.get_proxy_mode() is not None:
                on_gradient(result, lambda gradient: _mark(gradient, ("gradient", node.name)))
        return result

    with replaced(interpreter, run_node=run_node):
        yield


def _mark(value: Any, mark: Mark) -> None:
    mode = _proxies.get_proxy_mode()
    if mode is None or not isinstance(value, torch.Tensor):
        return
    if isinstance(value, _functional.FunctionalTensor):
        value = _unwrapped(value.elem)
    traced = _proxies.get_proxy_slot(value, mode.tracer, None)
    if traced is not None:
        traced.proxy.node.meta.setdefault(_KEY, []).append(mark)
