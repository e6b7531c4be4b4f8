"""Runs that go on after an access out of bounds, as a GPU often does, and collect the faults."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.common.formatting import counted
from kernellab.errors import KernelLabError
from kernellab.interpreter.codegen.code_positions import is_among, located_at
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import Elements, WildAddress
from kernellab.interpreter.memory.buffers import Buffer, OutOfBoundsAccess
from kernellab.interpreter.memory.descriptor_routing import DescriptorsThrough
from kernellab.interpreter.memory.layers import Load, Memory, MemoryAccess, MemoryLayer
from kernellab.interpreter.memory.watch import WatchedMemory
from kernellab.ir.locations import locate

MOST_COLLECTED = 300
"""The most faults that are kept; further ones are only counted."""

GARBAGE_BYTE = 0xA5
"""Integers that are read out of bounds consist of it: they are odd and, if signed, negative, so
that a loop that they bound ends."""


@dataclasses.dataclass
class CollectedFault:
    """An access of a kernel that left its memory, once for each line and argument.

    Attributes:
        error: the first time that it happened: an OutOfBounds with the line, program and index.
        kernel: the kernel's name.
        count: how many elements left the memory, in all launches.
    """

    error: KernelLabError
    kernel: str
    count: int = 0

    def __str__(self) -> str:
        more = f"\n{self.count:,} elements in all." if self.count > 1 else ""
        return f"{self.kernel}: {self.error}{more}"


class CollectedFaults(Sequence[CollectedFault]):
    """The faults that launches went on after, in the order in which they happened first.

    Attributes:
        left_out: how many elements belong to faults that are not kept, because there are too many.
    """

    def __init__(self) -> None:
        self._faults: dict[Hashable, CollectedFault] = {}
        self.left_out = 0

    def __getitem__(self, index: Any) -> Any:
        return list(self._faults.values())[index]

    def __len__(self) -> int:
        return len(self._faults)

    def __iter__(self) -> Iterator[CollectedFault]:
        return iter(list(self._faults.values()))

    def add(
        self, key: Hashable, kernel: str, count: int, explain: Callable[[], KernelLabError]
    ) -> None:
        """Count a fault; `explain` makes the error if it is the first with this key."""
        if key not in self._faults:
            if len(self._faults) >= MOST_COLLECTED:
                self.left_out += count
                return
            self._faults[key] = CollectedFault(explain(), kernel)
        self._faults[key].count += count

    def __str__(self) -> str:
        if not self:
            return "No access was out of bounds."
        title = f"Launches went on after {counted(len(self), 'fault')}:"
        rest = [f"{self.left_out:,} more elements, of further faults."] if self.left_out else []
        return "\n\n".join([title, *map(str, self), *rest])


class FaultObserver:
    """Lets the accesses of a run go on without the elements that are out of bounds; see
    `observing.RunObserver`.

    Attributes:
        operations: the operations of the code, by location.
        programs: the batch that runs.
    """

    operations: Sequence[Operation] = ()
    programs: Programs

    def __init__(
        self,
        kernel: str,
        code: ProgramCode,
        faults: CollectedFaults,
        explain: Callable[[Any, Programs], KernelLabError],
    ) -> None:
        """Collect what happens in `faults`; `explain` makes an error of a fault of a batch."""
        self._kernel = kernel
        self._code = code
        self._faults = faults
        self._explain = explain

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """See `observing.RunObserver.modules`."""
        tolerant = _TolerantMemory(memory, self)
        return {"memory": tolerant, "descriptors": DescriptorsThrough(tolerant)}

    def collect(
        self, fault: OutOfBoundsAccess | WildAddress, frame: types.FrameType | None
    ) -> None:
        """Record a fault of an access that the generated code among the callers makes."""
        traceback = fault.__traceback__
        operation: Operation | None = None
        while frame is not None:
            if is_among(frame.f_code, self._code.codes):
                if operation is None:
                    operation = located_at(frame.f_code, frame.f_lasti, self.operations)
                line = frame.f_lineno or 1
                traceback = types.TracebackType(traceback, frame, frame.f_lasti, line)
            frame = frame.f_back
        name = fault.buffer.name if isinstance(fault, OutOfBoundsAccess) else ""

        def explain() -> KernelLabError:
            return self._explain(fault.with_traceback(traceback), self.programs)

        frames = () if operation is None else locate(operation.location).frames
        key = self._kernel, frames[:1], name, fault.action
        self._faults.add(key, self._kernel, fault.count, explain)


class _TolerantMemory(MemoryLayer):
    """Replaces the module `memory` in generated code: where an access is out of bounds, reads give
    garbage and writes are dropped.
    """

    def __init__(self, inner: Memory, observer: FaultObserver) -> None:
        self._inner = inner
        self._observer = observer

    def around(self, access: MemoryAccess) -> Any:
        """Make the access; if it leaves its memory, without the elements that do."""
        try:
            return access.made_by(self._inner)
        except (OutOfBoundsAccess, WildAddress) as fault:
            self._observer.collect(fault, sys._getframe(2))
        if isinstance(self._inner, WatchedMemory):
            self._inner.strayed = True
        outside = _outside(access)
        inside = ~outside if access.mask is None else numpy.asarray(access.mask) & ~outside
        result = dataclasses.replace(access, mask=inside).made_by(self._inner)
        if result is None:
            return None
        result = numpy.asarray(result)
        return numpy.where(outside, garbage(result.dtype), result)


def _outside(access: MemoryAccess) -> numpy.ndarray:
    """Return which enabled elements of an access are out of bounds, programs first if they
    differ.
    """
    other = access.other if isinstance(access, Load) else None
    uniform = isinstance(access, Load) and not global_memory.differs(
        access.rank, access.offsets, access.mask, other
    )
    if isinstance(access.buffer, Buffer):
        index = numpy.asarray(access.offsets) + access.buffer.origin
        outside = access.buffer.is_outside(index)
        on = global_memory.lanes_on(access.mask, None if uniform else access.active, access.rank)
        return outside if on is None else numpy.asarray(outside & on)
    assert isinstance(access.buffer, Elements)
    _, wild = access.buffer.parts(access.offsets, access.rank, access.mask, access.active, uniform)
    return numpy.zeros((1,) * access.rank, numpy.bool_) if wild is None else wild


def garbage(dtype: numpy.dtype) -> Any:
    """Return what a read out of bounds gives: NaN, True, or an integer of `GARBAGE_BYTE`s."""
    if dtype.kind == "b":
        return numpy.True_
    if dtype.kind in "iu":
        return numpy.frombuffer(bytes([GARBAGE_BYTE]) * dtype.itemsize, dtype)[0]
    return numpy.asarray(numpy.nan).astype(dtype)[()]
