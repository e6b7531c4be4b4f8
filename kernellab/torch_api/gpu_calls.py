"""A call whose tensors count as a GPU's: what it makes on "cuda" lies where they are, and
`torch.autocast("cuda")` casts them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._subclasses.fake_tensor
import torch.fx

from kernellab.common.patches import replaced
from kernellab.torch_api.autocast_kernels import follow_autocast
from kernellab.torch_api.virtual_gpu import DEVICE, META

_copy: Any = torch.ops.aten._to_copy.default
_fakes: Any = torch._subclasses.fake_tensor

_places: list[torch.device | None] = [None]
"""Where what is made on the GPU lies; None for there. The last one counts."""


@contextmanager
def gpu_tensors_lie(place: torch.device | None) -> Iterator[None]:
    """While active, what is traced as made on the GPU lies in another place; None for there."""
    _places.append(place)
    try:
        yield
    finally:
        _places.pop()


def moved_devices(
    args: Sequence[Any], kwargs: Mapping[str, Any] | None, place: torch.device
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments of an operation with another place instead of the GPU."""

    def moved(value: Any) -> Any:
        is_gpu = isinstance(value, torch.device) and value.type == DEVICE.type
        return place if is_gpu else value

    return tuple(map(moved, args)), {name: moved(value) for name, value in (kwargs or {}).items()}


def without_gpu(module: torch.fx.GraphModule, place: torch.device) -> None:
    """Have one of Dynamo's graphs, in place, name another place wherever it names the GPU."""

    def moved(value: Any) -> Any:
        is_device = isinstance(value, torch.device) or (
            isinstance(value, str) and value.partition(":")[0] == DEVICE.type
        )
        return place if is_device and torch.device(value).type == DEVICE.type else value

    for node in module.graph.nodes:
        if node.op == "call_method" and node.target == "cuda":
            node.target, node.args, node.kwargs = "to", (node.args[0], place), {}
        elif "autocast" not in getattr(node.target, "__name__", ""):
            node.args = torch.fx.node.map_aggregate(node.args, moved)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
    module.recompile()


@contextmanager
def calls_on_gpu() -> Iterator[None]:
    """While active, calls may name the GPU, and are autocast as on it."""
    dispatch = vars(_fakes.FakeTensorMode)["__torch_dispatch__"]
    with (
        replaced(_fakes.FakeTensorMode, __torch_dispatch__=_elsewhere(dispatch)),
        replaced(torch, set_autocast_enabled=_following(torch.set_autocast_enabled)),
    ):
        follow_autocast(torch.is_autocast_enabled(DEVICE.type), _counts)
        try:
            yield
        finally:
            follow_autocast(False, _counts)


def _elsewhere(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(dispatch)
    def elsewhere(mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = _places[-1]
        if place is not None:
            args, kwargs = moved_devices(args, kwargs, place)
            if function is _copy and kwargs.get("device") == META:
                kwargs["device"] = place  # `let_operations_be_traced` has "cuda" mean it there
        return dispatch(mode, function, types, args, kwargs)

    return elsewhere


def _following(set_enabled: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.set_autocast_enabled`, which `torch.autocast` calls when it is entered and left."""

    @functools.wraps(set_enabled)
    def set_and_follow(*args: Any) -> Any:
        result = set_enabled(*args)
        follow_autocast(torch.is_autocast_enabled(DEVICE.type), _counts)
        return result

    return set_and_follow


def _counts(_tensor: torch.Tensor) -> bool:
    """Every tensor of the call counts as being on the GPU."""
    return True
