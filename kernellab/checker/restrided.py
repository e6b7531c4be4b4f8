"""Find views that a kernel reads beyond their shape, because the launch passes other strides for
their memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from kernellab.interpreter.memory.pointer_arguments import is_pointer
from kernellab.launch.argument_copies import tensors_in


def restrided(values: Mapping[str, Any]) -> frozenset[str]:
    """Return the arguments that may be read anywhere in their storage.

    A view is one of them if its elements overlap, which only `as_strided` and `unfold` produce; or
    if the launch passes a stride that the view does not have, and the view is contiguous or the
    stride is that of its base. So is an object with its own address inside a tensor: its own sizes
    and strides describe the memory, and not those of the tensor.

    Args:
        values: a launch's arguments by name, with the tensors as they were passed.
    """
    tensors = dict(tensors_in(values))
    names = {name for name, value in values.items() if is_pointer(value)}
    for name, tensor in tensors.items():
        if _is_part(tensor) and (_overlaps(tensor) or _has_other_stride(name, tensors, values)):
            names.add(name)
    return frozenset(names)


def _is_part(tensor: torch.Tensor) -> bool:
    return bool(tensor.nbytes < tensor.untyped_storage().nbytes())


def _overlaps(tensor: torch.Tensor) -> bool:
    """Return whether different indices share a place in memory, other than by a stride of 0."""
    steps = sorted(
        (stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1
    )
    reached = 0
    for stride, size in steps:
        if 0 < stride <= reached:
            return True
        reached += stride * (size - 1)
    return False


def _has_other_stride(
    name: str, tensors: Mapping[str, torch.Tensor], values: Mapping[str, Any]
) -> bool:
    tensor = tensors[name]
    own, base = set(tensor.stride()), getattr(tensor, "_base", None)
    others = {step for other in tensors if other != name for step in tensors[other].stride()}
    behind = set() if base is None else set(base.stride())
    for stride in strides_for(name, [*tensors], values):
        if stride not in own | others | {0, 1} and (tensor.is_contiguous() or stride in behind):
            return True
    return False


def strides_for(name: str, tensors: Sequence[str], values: Mapping[str, Any]) -> Iterator[int]:
    """Yield the values of the parameters that are named as strides, except those named after
    another tensor, as `stride_ym` is for y.

    Args:
        name: the name of a tensor.
        tensors: the names of all tensors of the launch.
        values: the arguments of the launch by name.
    """
    stems = {_stem(tensor): tensor for tensor in tensors}
    for parameter, value in values.items():
        if "stride" not in parameter.lower():
            continue
        rest = re.sub("strides?|_", "", parameter.lower())
        matching = [stem for stem in stems if stem and (rest.startswith(stem) or stem == rest)]
        if not matching or stems[max(matching, key=len)] == name:
            given = value if isinstance(value, tuple) else (value,)
            yield from (stride for stride in given if type(stride) is int)


def _stem(tensor: str) -> str:
    """ "x" of x_ptr, XPtr and x_pointer."""
    return re.sub("(_?ptrs?|_?pointers?)$", "", tensor.lower()).replace("_", "")
