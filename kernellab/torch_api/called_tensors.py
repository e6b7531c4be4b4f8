"""The tensors of a call, and the call as it is captured: a function as the user wrote it, and
tensors without values where some have none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._subclasses.fake_tensor
import torch.utils._pytree as pytree

_fakes: Any = torch._subclasses.fake_tensor
_META = torch.device("meta")

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function, its arguments by position and by name."""


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the module of a compiled module, and a function as it is, which torch unwraps. Modules
    that were compiled in place are not any more.
    """
    original: Any = getattr(function, "_orig_mod", function)
    for module in _modules_of(original):
        module._compiled_call_impl = None
    return original  # type: ignore[no-any-return]


def has_values(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether all tensors of a call have values: none is on the meta device, or fake."""
    return not any(map(is_empty, tensors_of(function, args, keywords)))


def is_empty(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no values."""
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
    change = functools.partial(_meta_or_same, made)
    return function, *pytree.tree_map(change, (tuple(args), dict(keywords)))


def _meta_or_same(made: dict[int, torch.Tensor], value: Any) -> Any:
    return _meta(made, value) if isinstance(value, torch.Tensor) else value


def _meta(made: dict[int, torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's like; the same one for the same tensor."""
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
        made[id(tensor)] = like
    return made[id(tensor)]


def tensors_of(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Return the tensors of a call: arguments, and what the function or its modules hold."""
    held = [*_held_by(function), *args, *keywords.values()]
    tensors = {
        id(tensor): tensor
        for leaf in pytree.tree_leaves(held)
        for tensor in _tensors_in(leaf)
        if tensor is not None
    }
    return list(tensors.values())


def _tensors_in(value: Any) -> Iterator[torch.Tensor | None]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
        yield from value.buffers()
    elif isinstance(value, torch.optim.Optimizer):
        yield from (leaf for group in value.param_groups for leaf in group["params"])
        yield from (
            leaf
            for leaf in pytree.tree_leaves([*value.state.values()])
            if isinstance(leaf, torch.Tensor)
        )


def _held_by(function: Any) -> Iterator[Any]:
    """What a function can reach without an argument."""
    if isinstance(function, functools.partial):
        yield from _held_by(function.func)
        yield [*function.args, *function.keywords.values()]
        return
    yield function
    yield getattr(function, "__self__", None)
    code = getattr(function, "__code__", None)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    if code is not None:
        names = function.__globals__
        yield [names[name] for name in code.co_names if name in names]


def _of_type(
    kind: Any, function: Any, args: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None
) -> list[Any]:
    held = [*_held_by(function), *args, *(keywords or {}).values()]
    return [value for value in pytree.tree_leaves(held) if isinstance(value, kind)]


def _modules_of(function: Any) -> list[torch.nn.Module]:
    modules = _of_type(torch.nn.Module, function)
    return [part for module in modules for part in module.modules()]


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
                if tensor._version != version:
                    tensor.copy_(before)
                tensor.grad = grad
            for grad, before, version in gradients:
                if grad._version != version:
                    grad.copy_(before)
