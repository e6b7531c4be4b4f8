"""Views whose shape says nothing of what a kernel reads: the launch lays a stride of its own over
the memory behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from kernellab.interpreter.memory.pointer_arguments import is_pointer
from kernellab.launch.argument_copies import tensors_in


def restrided(values: Mapping[str, Any]) -> frozenset[str]:
    """The arguments that may be read anywhere in their storage.

    A view is one of them if it is of overlapping windows, which only `as_strided` and `unfold`
    make; if it has no holes, and the launch passes a stride that it does not have; if that is the
    stride of what it is a view of. So is an object that has a tensor and an address of its own
    in it: what it describes, its own sizes and strides say, and no tensor's.

    Args:
        values: a launch's arguments by name, the tensors as they were given.
    """
    tensors = dict(tensors_in(values))
    found = {name for name, value in values.items() if is_pointer(value)}
    for name, tensor in tensors.items():
        if _is_part(tensor) and (_overlaps(tensor) or _has_other_stride(name, tensors, values)):
            found.add(name)
    return frozenset(found)


def _is_part(tensor: torch.Tensor) -> bool:
    return bool(tensor.nbytes < tensor.untyped_storage().nbytes())


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements of different indices lie in one place, which is none's of a broadcast."""
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
    others = {s for other, one in tensors.items() if other != name for s in one.stride()}
    behind = set() if base is None else set(base.stride())
    for stride in strides_for(name, [*tensors], values):
        if stride not in own | others | {0, 1} and (tensor.is_contiguous() or stride in behind):
            return True
    return False


def strides_for(name: str, tensors: Sequence[str], values: Mapping[str, Any]) -> Iterator[int]:
    """The values of parameters that are called strides, but for those named after another
    tensor: `stride_ym` is y's.

    Args:
        name: of a tensor.
        tensors: the names of all of a launch's.
        values: its arguments by name.
    """
    stems = {_stem(tensor): tensor for tensor in tensors}
    for parameter, value in values.items():
        if "stride" not in parameter.lower():
            continue
        rest = re.sub("strides?|_", "", parameter.lower())
        matching = [stem for stem in stems if stem and (rest.startswith(stem) or stem == rest)]
        if not matching or stems[max(matching, key=len)] == name:
            given = value if isinstance(value, tuple) else (value,)
            yield from (one for one in given if type(one) is int)


def _stem(tensor: str) -> str:
    """ "x" of x_ptr, XPtr and x_pointer."""
    return re.sub("(_?ptrs?|_?pointers?)$", "", tensor.lower()).replace("_", "")
