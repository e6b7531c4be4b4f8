"""Requests to the confined process: calls to record, whose tensors are described and not sent."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kernellab.judging.code import Code
from kernellab.records import Target
from kernellab.triton_api.compilation import DESCRIPTORS

MOST_CONFIGS = 64
"""The configs of an autotuner that are judged."""


@dataclass(frozen=True)
class TensorView:
    """A tensor as a part of a storage; sizes, strides and offset count elements."""

    storage: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class HostCall:
    """One call of the submission.

    Attributes:
        args, keywords: its arguments, with a TensorView in place of each tensor.
        grid: of a kernel, the grid of its launch; None for a function.
    """

    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HostRequest:
    """What a confined process is to record.

    Attributes:
        code: the submission.
        target: the GPU that torch and Triton report.
        storages: the bytes of each storage that the calls share.
        calls: the calls, made one after the other in one process.
        constructor: the arguments with which a class is called first; None for a function.
        parameters: of a module, the tensors that its parameters are, by name.
        is_again: whether the inputs hold other numbers there than the first time.
    """

    code: Code
    target: Target
    storages: tuple[int, ...]
    calls: tuple[HostCall, ...]
    constructor: tuple[Any, ...] | None = None
    parameters: Mapping[str, TensorView] = field(default_factory=dict)
    is_again: bool = False


def leaves(value: Any) -> Iterator[Any]:
    """Yield the items of lists, tuples and mappings, the tensors of descriptors, and the arguments
    of calls.
    """
    if isinstance(value, HostCall):
        value = (*value.args, value.keywords)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value.base if isinstance(value, DESCRIPTORS) else value


def tensors_within(value: Any) -> Iterator[torch.Tensor]:
    """Yield the leaves of a value that are tensors."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value whose leaves are changed: the items of lists, tuples and mappings, and the
    tensor of a descriptor.
    """
    if isinstance(value, list | tuple):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, Mapping):
        return {name: mapped(item, change) for name, item in value.items()}
    if isinstance(value, DESCRIPTORS):
        twin = copy.copy(value)  # whose checks are not made again, for a view is not a tensor
        twin.base = change(value.base)
        return twin
    return change(value)
