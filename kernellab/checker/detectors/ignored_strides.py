"""Transposed and expanded tensors that a kernel reads as if their rows lay one after another: it is
not told their strides.

The checked run notes how the kernel walks through such a tensor. Where it takes none of the steps
that only the strides have, the launch runs once more, on contiguous copies: where that gives
another result, the kernel takes other elements than the tensor has there.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.outcomes import Apart, differences, within
from kernellab.checker.restrided import strides_for
from kernellab.checker.written_storages import unchanged_storages
from kernellab.errors import KernelFault
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.global_memory import Buffer

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_LARGEST = 64 * 1024 * 1024
"""Bytes of a tensor that is copied to see what comes of it."""


class IgnoredStrides(Detector):
    """Follows tensors whose strides no parameter passes on."""

    kinds = ("ignored-strides",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._suspects = set(_suspects(run))
        self._first: dict[str, Access] = {}
        self._starts: dict[Operation, int] = {}
        self._outside: set[Operation] = set()
        self._explained: frozenset[Operation] = frozenset()

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return any(not one.is_contiguous() for one in run.tensors.values()) and bool(_suspects(run))

    def outside_tensor(self, access: Access, outside: numpy.ndarray, view: Buffer) -> None:
        del outside, view
        self._left(access)

    def outside_memory(self, access: Access, wild: numpy.ndarray, elements: Elements) -> None:
        del wild, elements
        self._left(access)

    def _left(self, access: Access) -> None:
        if access.buffer.name in self._suspects:
            self._outside.add(access.operation)

    def before(self, access: Access) -> None:
        name = access.buffer.name
        if name not in self._suspects:
            return
        self._first.setdefault(name, access)
        if self._steps(access) & _foreign(self.run.tensors[name]):
            self._suspects.discard(name)

    def _steps(self, access: Access) -> set[int]:
        """How far apart neighbours lie: lanes, programs, and turns of a loop."""
        index = access.index
        start = int(index.flat[0]) if index.size else 0
        found = {
            abs(int(index.take(1, axis).flat[0]) - start)
            for axis in range(index.ndim)
            if index.shape[axis] > 1 and index.size
        }
        found.add(abs(start - self._starts.get(access.operation, start)))
        self._starts[access.operation] = start
        return found

    def ask(self, session: CheckSession) -> None:
        names = [name for name in self._first if name in self._suspects]
        if not names:
            return
        outside: set[Operation] = set()
        try:
            again = _made_contiguous(session, names, outside)
        except (Stopped, KernelFault):
            return
        for apart in differences(self.run.results, again.results, within(None, None)):
            self._explained = frozenset(self._outside - outside)
            for name in names:
                self._report(name, self._first[name], apart)
            return

    def explains(self) -> frozenset[Operation]:
        return self._explained

    def _report(self, name: str, access: Access, apart: Apart) -> None:
        tensor = self.run.tensors[name]
        passed = {*strides_for(name, [*self.run.tensors], self.run.call.values)}
        lacking = sorted(_needed(tensor) - passed)
        positions = access.calls()
        effect = (
            f"; {apart.element} is {apart.one_text}, and {apart.other_text} where {name} is "
            "contiguous"
        )
        facts: dict[str, Any] = {
            "kind": self.kinds[0],
            "argument": name,
            "position": positions[-1] if positions else None,
            "calls": positions[:-1],
            "message": (
                f"{_VERBS[access.action]} {name} as if it were contiguous: its shape is "
                f"{tuple(tensor.shape)} and its strides are {tensor.stride()}, and the kernel is "
                f"not told its stride of {' or '.join(map(str, lacking))}"
                f"{'' if passed else effect}"
            ),
            "advice": (
                f"Launch with .contiguous() of what is given as {name}{_NEW[bool(passed)]}; or "
                "pass its .stride(0), .stride(1), ... to the kernel, and multiply each index by "
                "its own."
            ),
        }
        self.collector.add(name, facts)


_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
_NEW = {True: ", and with the strides of that", False: ""}


def _suspects(run: CheckedRun) -> list[str]:
    """Tensors without holes that are not contiguous, of whose strides one is no parameter's."""
    tensors = run.tensors
    values = run.call.values
    starts = [one.untyped_storage().data_ptr() for one in tensors.values()]
    kept = unchanged_storages(run) if any(map(_is_rearranged, tensors.values())) else frozenset()
    found = []
    for name, tensor in tensors.items():
        start = tensor.untyped_storage().data_ptr()
        if (
            _is_rearranged(tensor)
            and isinstance(values.get(name), torch.Tensor)
            and (starts.count(start) == 1 or start in kept)
            and not _is_told(name, tensor, tensors, values)
        ):
            found.append(name)
    return found


def _is_rearranged(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of some memory, in another order or repeated."""
    if tensor.is_contiguous() or tensor.numel() * tensor.element_size() > _LARGEST:
        return False
    axes = [(step, size) for step, size in zip(tensor.stride(), tensor.shape) if size > 1 and step]
    reached = 1
    for step, size in sorted(axes):
        if step != reached:
            return False
        reached *= size
    return True


def _needed(tensor: torch.Tensor) -> set[int]:
    """The strides without which nobody finds its elements."""
    return {step for step, size in zip(tensor.stride(), tensor.shape) if size > 1 and step != 1}


def _foreign(tensor: torch.Tensor) -> set[int]:
    """Steps that lead through the tensor, and through no contiguous one of its shape."""
    sizes = [*tensor.shape[1:], 1]
    rows = {*itertools.accumulate(reversed(sizes), lambda a, b: a * b)}
    return _needed(tensor) - rows - {0}


def _is_told(
    name: str,
    tensor: torch.Tensor,
    tensors: Mapping[str, torch.Tensor],
    values: Mapping[str, Any],
) -> bool:
    """Whether parameters have all of its strides: such as are called so, or such as have a value
    that is no size of a tensor.
    """
    needed = _needed(tensor)
    if needed <= {*strides_for(name, [*tensors], values)}:
        return True
    sizes = {size for one in tensors.values() for size in (*one.shape, one.numel())}
    numbers = {one for one in values.values() if type(one) is int}
    return bool(needed & (numbers - sizes))


def _made_contiguous(
    session: CheckSession, names: Sequence[str], outside: set[Operation]
) -> CheckedRun:
    """The launch on contiguous copies of some tensors; accesses that leave their tensors then are
    added to `outside`.
    """
    launch = session.launch
    rows = {name: launch.call.values[name].detach().contiguous() for name in names}
    call = replace(launch.call, values={**launch.call.values, **rows})
    again = replace(session, launch=replace(launch, call=call))

    def watching(run: CheckedRun) -> Sequence[Detector]:
        return [_Leaving(run, outside)]

    return again.repeat(watching)


class _Leaving(Detector):
    """Hears which accesses leave their tensors."""

    kinds = ()

    def __init__(self, run: CheckedRun, outside: set[Operation]) -> None:
        super().__init__(run)
        self._found = outside

    def outside_tensor(self, access: Access, outside: numpy.ndarray, view: Buffer) -> None:
        del outside, view
        self._found.add(access.operation)
