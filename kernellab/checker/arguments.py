"""A checked launch's tensors: uninitialized memory, views read beyond their shape, copies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import torch

from kernellab.common.containers import sparse_zeros
from kernellab.errors import ArgumentError
from kernellab.interpreter.memory.address_space import is_pointer
from kernellab.interpreter.memory.buffers import extent_of
from kernellab.launch.argument_copies import ALIGNMENT, aligned_copy, aligned_part, tensors_in
from kernellab.launch.results import Bounds, compare, exactly
from kernellab.records.launches import Difference

_MARK = "kernellab_uninitialized"


def uninitialized(tensor: Any) -> torch.Tensor:
    """Return the tensor, marked as uninitialized memory.

    `kernellab.check` reports reads of its elements before the kernel has written them. Everything
    else, including a plain launch, uses it as the tensor itself: both share their memory.

    Args:
        tensor: a torch tensor on any device, or a NumPy array.

    Returns:
        A tensor with the same memory, shape and strides.

    Raises:
        ArgumentError: `tensor` is neither.
    """
    if isinstance(tensor, numpy.ndarray):
        tensor = torch.from_numpy(tensor)
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(
            f"tensor must be a torch tensor or a NumPy array, got {tensor!r} of type "
            f"{type(tensor).__name__}."
        )
    marked = tensor.detach()
    setattr(marked, _MARK, True)
    return marked


def is_uninitialized(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is marked."""
    return bool(getattr(tensor, _MARK, False))


# Find views that a kernel reads beyond their shape, because the launch passes other strides for
# their memory.


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
        is_part = tensor.nbytes < tensor.untyped_storage().nbytes()
        if is_part and (_overlaps(tensor) or _has_other_stride(name, tensors, values)):
            names.add(name)
    return frozenset(names)


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


# Copies of a launch's memory for one run of it, made as far as the run touches it.
#
# Storages that the kernel cannot write are the caller's own. Others are copied: small ones as a
# whole, large ones by blocks, when an access first reaches them. So a store into a few places of a
# tensor takes as much memory more as these places do.


_LARGE = 64 * 1024 * 1024
"""Bytes from which on a storage is copied block by block; fewer are copied in some 10 ms."""

_BLOCK = 1 << 12
"""Bytes that are copied together: a page."""

_MANY = 1 << 12
"""The number of separate blocks that are copied at a time."""


class LazyCopy:
    """A copy of a large storage. What was not fetched yet is zero, whatever the original holds."""

    def __init__(self, original: torch.UntypedStorage) -> None:
        size = original.nbytes()
        self._bytes = aligned_part(sparse_zeros(size + ALIGNMENT, numpy.uint8), size)
        self._original = torch.empty(0, dtype=torch.uint8, device="cpu").set_(original).numpy()
        self._fetched = numpy.zeros(-(-size // _BLOCK), numpy.bool_)
        self.storage = torch.from_numpy(self._bytes).untyped_storage()

    def fetch(self, starts: numpy.ndarray, stops: numpy.ndarray) -> None:
        """Have the bytes of these stretches, none of them empty, as the original has them."""
        if not len(starts):
            return
        first, last = starts // _BLOCK, (stops - 1) // _BLOCK
        low, high = int(first.min()), int(last.max())
        if low < 0 or high >= len(self._fetched) or self._fetched[low : high + 1].all():
            return
        if (first == last).all() and len(first) < high - low:
            wanted = numpy.unique(first)
        else:
            depth = numpy.zeros(high - low + 2, numpy.int64)
            numpy.add.at(depth, first - low, 1)
            numpy.add.at(depth, last - low + 1, -1)
            wanted = low + numpy.flatnonzero(depth.cumsum()[:-1])
        self._copy(wanted[~self._fetched[wanted]])

    def _copy(self, blocks: numpy.ndarray) -> None:
        self._fetched[blocks] = True
        if len(blocks) and blocks[-1] == len(self._fetched) - 1:  # which may be shorter
            self._copy_run(int(blocks[-1]), int(blocks[-1]))
            blocks = blocks[:-1]
        begins = numpy.flatnonzero(numpy.diff(blocks, prepend=-2) > 1)
        if len(begins) * 4 > len(blocks):
            whole = len(self._bytes) // _BLOCK * _BLOCK
            copy, original = (
                memory[:whole].reshape(-1, _BLOCK) for memory in (self._bytes, self._original)
            )
            for start in range(0, len(blocks), _MANY):
                some = blocks[start : start + _MANY]
                copy[some] = original[some]
            return
        firsts, lasts = blocks[begins], blocks[numpy.append(begins[1:] - 1, -1)[: len(begins)]]
        for run in zip(firsts.tolist(), lasts.tolist()):
            self._copy_run(*run)

    def _copy_run(self, first: int, last: int) -> None:
        part = slice(first * _BLOCK, (last + 1) * _BLOCK)
        self._bytes[part] = self._original[part]

    def match(self, other: LazyCopy, start: int, stop: int) -> bool:
        """Have, of the bytes from `start` up to `stop`, all that the copy of another run has;
        False if neither has any.
        """
        first, beyond = start // _BLOCK, -(-stop // _BLOCK)
        mine, theirs = (copy._fetched[first:beyond] for copy in (self, other))
        self._copy(first + numpy.flatnonzero(theirs & ~mine))
        return bool(mine.any())


class LazyCopies:
    """The memory of one run."""

    def __init__(self, kept: Collection[int] = ()) -> None:
        """`kept` are the addresses of storages that no access of the kernel changes."""
        self._kept = kept
        self._lazy: dict[int, LazyCopy] = {}

    def __bool__(self) -> bool:
        """Whether there is anything that must be fetched."""
        return bool(self._lazy)

    def copy(self, original: torch.UntypedStorage) -> torch.UntypedStorage:
        if original.data_ptr() in self._kept:
            return original
        if original.nbytes() < _LARGE:
            return aligned_copy(original)
        made = LazyCopy(original)
        self._lazy[made.storage.data_ptr()] = made
        return made.storage

    def of(self, tensor: torch.Tensor) -> LazyCopy | None:
        """The copy that a tensor of the run is in, if it is made block by block."""
        return self._lazy.get(tensor.untyped_storage().data_ptr()) if self._lazy else None


@dataclass(frozen=True)
class Results:
    """The contents of a run's tensors at its end."""

    tensors: Mapping[str, torch.Tensor]
    copies: LazyCopies


def differences(results: Results, other: Results, bounds: Bounds = exactly) -> Iterator[Difference]:
    """Yield the arguments in which two results differ; the second are the expected ones."""
    were_touched = partial(_have_the_same, ours=results.copies, others=other.copies)
    return compare(results.tensors, other.tensors, bounds, were_touched)


def _have_the_same(
    mine: torch.Tensor, theirs: torch.Tensor, ours: LazyCopies, others: LazyCopies
) -> bool:
    """Make pieces of two runs comparable; return False if neither run touched anything."""
    copy, other = ours.of(mine), others.of(theirs)
    size, first = mine.element_size(), int(mine.storage_offset())
    extent = first * size, (first + extent_of(mine.shape, mine.stride())) * size
    if copy is None or other is None:
        for alone in filter(None, (copy, other)):  # the other run has not made a copy
            alone.fetch(*(numpy.array([end]) for end in extent))
        return True
    return other.match(copy, *extent) | copy.match(other, *extent)
