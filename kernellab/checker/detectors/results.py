"""Find wrong results: those that differ from what the caller expects, and those of a kernel that
ignores the strides of its tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.arguments import LazyCopies, Results, differences, strides_for
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, unchanged_storages
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.detectors.rounding import Rounding, explained
from kernellab.checker.element_inputs import LastWriter, inputs_by_argument, inputs_in, last_writer
from kernellab.checker.records import Inputs
from kernellab.common.text import counted
from kernellab.errors import KernelFault, KernelLabError
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.ir.operations import locate
from kernellab.launch.results import UNWRITTEN, Tolerances
from kernellab.records.launches import Difference
from kernellab.triton_api import definition_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

# Find results that differ from those that the caller expects.


class WrongResult(Detector):
    """Compare the results of the run with the expected ones, and find the line and the program
    that wrote the first wrong element.
    """

    kinds = ("wrong-result", "rounding")

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.expected)

    def investigate(self, session: CheckSession) -> None:
        tensors = {name: self.run.tensors[name] for name in self.run.expected}
        actual = Results(tensors, self.run.copies)
        expected = Results(self.run.expected, LazyCopies())
        for apart in differences(actual, expected, self.run.tolerances):
            rounding = self._rounding(apart.name, session)
            if rounding is not None and rounding.within:
                self._report_rounding(apart, rounding)
                continue
            writer = last_writer(apart, session.repeat)
            self._report(apart, writer, self._inputs(apart, writer, session), rounding)

    def _rounding(self, name: str, session: CheckSession) -> Rounding | None:
        """Return why a result differs, if rounding is the only reason."""
        sides = name, self.run.tensors[name], self.run.expected[name]
        if self.run.tolerances(*sides) is None:
            return None  # every bit counts
        return explained(session, name, sides[2], self.run.tolerances.elements(*sides))

    def _report_rounding(self, apart: Difference, rounding: Rounding) -> None:
        """Report a difference that is within the bound of the kernel's operations."""
        actual, expected = apart.texts
        facts = {
            "kind": "rounding",
            "severity": "note",
            "argument": apart.name,
            "index": apart.index,
            "places": rounding.places,
            "message": (
                f"{apart.name} differs from the expected values in {apart.count:,} of "
                f"{counted(apart.size, 'element')}, by rounding alone: {rounding.words}. "
                f"{apart.element} is {actual}, and {expected} is expected"
            ),
            "advice": (
                "The kernel is right within the bound that follows from its operations and their "
                "dtypes. To accept the difference without a note, pass rtol=."
            ),
            "cause": rounding.kind,
            "errors": (rounding.error, rounding.remaining),
        }
        self.collector.add(apart.name, facts, (), apart.count)

    def _inputs(
        self, apart: Difference, writer: LastWriter, session: CheckSession
    ) -> tuple[Inputs, ...] | None:
        """Return what the element was computed from; None if its program does not run alone."""
        if writer.last is None:
            return None
        tensor = self.run.tensors[apart.name]
        offset = sum(place * step for place, step in zip(apart.index, tensor.stride()))
        try:
            return inputs_by_argument(inputs_in(session, writer.last, apart.name, offset))
        except KernelLabError:
            return None

    def _report(
        self,
        apart: Difference,
        writer: LastWriter,
        inputs: tuple[Inputs, ...] | None,
        rounding: Rounding | None,
    ) -> None:
        facts: dict[str, Any] = {
            "argument": apart.name,
            "index": apart.index,
            "places": (definition_of(self.run.kernel),),
            "advice": UNWRITTEN,
        }
        if writer.operation is not None:
            program = (0, 0, 0) if writer.last is None else self.run.program_id(writer.last)
            facts |= {
                "places": locate(writer.operation.location).frames[::-1],
                "lane": writer.place,
                "values": writer.values,
                "inputs": inputs,
                "advice": _STEP.format(_program_option(program)),
            }
        facts["message"] = str(apart)
        if rounding is not None:
            facts["message"] += f". The cause is rounding: {rounding.words}"
            facts |= {"cause": rounding.kind, "errors": (rounding.error, rounding.remaining)}
        self.collector.add(
            apart.name, facts, () if writer.last is None else (writer.last,), apart.count
        )


_STEP = (
    "To see how the value is computed, put %tilestep --program {0} in front of the launch. With "
    "the same --expect it opens at the step that wrote the element; so does "
    "kernellab.trace(..., expect=...)."
)


def _program_option(program: tuple[int, int, int]) -> str:
    """Return a program's id as `%tilestep --program` takes it, without zeros at the end."""
    x, y, z = program
    return f"{x},{y},{z}" if z else f"{x},{y}" if y else str(x)


# Find transposed and expanded tensors that a kernel reads as if they were contiguous, because it
# does not receive their strides.
#
# The checked run records the distances between the elements that the kernel accesses in such a
# tensor. If none of them is one of the tensor's strides, the launch runs once more with
# contiguous copies: if the result changes, the kernel accesses the wrong elements.


_LARGEST = 64 * 1024 * 1024
"""Bytes of the largest tensor that is copied to see whether the result changes."""


class IgnoredStrides(Detector):
    """Check tensors whose strides are not passed to the kernel."""

    kinds = ("ignored-strides",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._suspects = set(_suspects(run))
        self._first: dict[str, CheckedAccess] = {}
        self._starts: dict[Operation, int] = {}
        self._outside: set[Operation] = set()
        self._explained: frozenset[Operation] = frozenset()

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return any(not tensor.is_contiguous() for tensor in run.tensors.values()) and bool(
            _suspects(run)
        )

    def outside_tensor(self, access: CheckedAccess, outside: numpy.ndarray, view: Buffer) -> None:
        self._left(access)

    def outside_memory(
        self, access: CheckedAccess, wild: numpy.ndarray, elements: Elements
    ) -> None:
        self._left(access)

    def _left(self, access: CheckedAccess) -> None:
        if access.buffer.name in self._suspects:
            self._outside.add(access.operation)

    def before(self, access: CheckedAccess) -> None:
        name = access.buffer.name
        if name not in self._suspects:
            return
        self._first.setdefault(name, access)
        if self._steps(access) & _foreign(self.run.tensors[name]):
            self._suspects.discard(name)

    def _steps(self, access: CheckedAccess) -> set[int]:
        """Return the distances between neighboring elements, programs, and iterations of a loop."""
        index = access.index
        start = int(index.flat[0]) if index.size else 0
        steps = {
            abs(int(index.take(1, axis).flat[0]) - start)
            for axis in range(index.ndim)
            if index.shape[axis] > 1 and index.size
        }
        steps.add(abs(start - self._starts.get(access.operation, start)))
        self._starts[access.operation] = start
        return steps

    def investigate(self, session: CheckSession) -> None:
        names = [name for name in self._first if name in self._suspects]
        if not names:
            return
        outside: set[Operation] = set()
        try:
            again = _made_contiguous(session, names, outside)
        except (Stopped, KernelFault):
            return
        for apart in differences(self.run.results, again.results, Tolerances()):
            self._explained = frozenset(self._outside - outside)
            for name in names:
                self._report(name, self._first[name], apart)
            return

    def explains(self) -> frozenset[Operation]:
        return self._explained

    def _report(self, name: str, access: CheckedAccess, apart: Difference) -> None:
        tensor = self.run.tensors[name]
        passed = {*strides_for(name, [*self.run.tensors], self.run.call.values)}
        missing = sorted(_needed(tensor) - passed)
        strided, contiguous = apart.texts
        values = f"{strided}, but {contiguous} if {name} is contiguous"
        effect = f"; {apart.element} is {values}"
        facts: dict[str, Any] = {
            "argument": name,
            "places": access.calls(),
            "message": (
                f"this {access.action} {_VERBS[access.action]} {name} as if it were contiguous: "
                f"its shape is {tuple(tensor.shape)} and its strides are {tensor.stride()}, but "
                f"the kernel does not receive the stride {' or '.join(map(str, missing))}"
                f"{'' if passed else effect}"
            ),
            "advice": (
                f"Pass a contiguous copy as {name} (.contiguous()){_NEW[bool(passed)]}. Or pass "
                "its .stride(0), .stride(1), ... to the kernel, and multiply each index by its "
                "stride."
            ),
        }
        self.collector.add(name, facts)


_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
_NEW = {True: ", and the strides of that copy", False: ""}


def _suspects(run: CheckedRun) -> list[str]:
    """Return the non-contiguous tensors without gaps that have a stride that is not passed."""
    tensors = run.tensors
    values = run.call.values
    starts = [tensor.untyped_storage().data_ptr() for tensor in tensors.values()]
    kept = unchanged_storages(run) if any(map(_is_rearranged, tensors.values())) else frozenset()
    suspects = []
    for name, tensor in tensors.items():
        start = tensor.untyped_storage().data_ptr()
        if (
            _is_rearranged(tensor)
            and isinstance(values.get(name), torch.Tensor)
            and (starts.count(start) == 1 or start in kept)
            and not _receives_strides(name, tensor, tensors, values)
        ):
            suspects.append(name)
    return suspects


def _is_rearranged(tensor: torch.Tensor) -> bool:
    """Return whether a tensor covers a block of memory completely, in another order or repeated."""
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
    """Return the strides that are needed to address the elements of a tensor."""
    return {step for step, size in zip(tensor.stride(), tensor.shape) if size > 1 and step != 1}


def _foreign(tensor: torch.Tensor) -> set[int]:
    """Return the strides of a tensor that a contiguous tensor of its shape does not have."""
    sizes = [*tensor.shape[1:], 1]
    rows = {*itertools.accumulate(reversed(sizes), lambda a, b: a * b)}
    return _needed(tensor) - rows - {0}


def _receives_strides(
    name: str,
    tensor: torch.Tensor,
    tensors: Mapping[str, torch.Tensor],
    values: Mapping[str, Any],
) -> bool:
    """Return whether the kernel receives all strides of a tensor: in parameters that are named as
    strides, or in any that has the value of a stride and not of a size.
    """
    needed = _needed(tensor)
    if needed <= {*strides_for(name, [*tensors], values)}:
        return True
    sizes = {size for other in tensors.values() for size in (*other.shape, other.numel())}
    numbers = {value for value in values.values() if type(value) is int}
    return bool(needed & (numbers - sizes))


def _made_contiguous(
    session: CheckSession, names: Sequence[str], outside: set[Operation]
) -> CheckedRun:
    """Run the launch with contiguous copies of some tensors, and add the accesses that leave their
    tensors to `outside`.
    """
    launch = session.launch
    rows = {name: launch.call.values[name].detach().contiguous() for name in names}
    call = replace(launch.call, values={**launch.call.values, **rows})
    again = replace(session, launch=replace(launch, call=call))

    def watching(run: CheckedRun) -> Sequence[Detector]:
        return [_Leaving(run, outside)]

    return again.repeat(watching)


class _Leaving(Detector):
    """Record which accesses leave their tensors."""

    def __init__(self, run: CheckedRun, outside: set[Operation]) -> None:
        super().__init__(run)
        self._outside = outside

    def outside_tensor(self, access: CheckedAccess, outside: numpy.ndarray, view: Buffer) -> None:
        self._outside.add(access.operation)
