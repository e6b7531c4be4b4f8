"""Global memory as a run that is observed sees it:
every access is told to an observer, and then done.
"""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
from xdsl.ir import Block as XdslBlock
from xdsl.ir import Operation

from kernellab.interpreter.codegen.code_positions import located_at
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory import descriptors, tensormaps
from kernellab.interpreter.memory.descriptors import Block, Descriptor
from kernellab.interpreter.memory.global_memory import Buffer, Elsewhere
from kernellab.interpreter.memory.layers import Memory, MemoryAccess, MemoryLayer
from kernellab.interpreter.numerics.tiles import Active, Value

DESCRIPTOR_BYTES = 128
"""Size and alignment of a descriptor that a kernel writes (PTX ISA, tensor-map)."""
_SCRATCH = 1 << 46
"""Where scratch memory is taken to begin: no address of this process lies so high,
and every program's follows the last one's."""


@dataclass(frozen=True)
class ObservedAccess:
    """One access of a batch of programs.

    Attributes:
        operation: what makes it.
        addresses: of its elements, in bytes: an affine tile or an array, programs first
            where they differ.
        shape: of the block that a descriptor describes, or that is written for one; None where the
            type of the pointers has it.
        size: of an element, in bytes.
        mask: which elements take part; None for all.
        active: which programs take part; None for all.
        programs: the batch.
    """

    operation: Operation
    addresses: Value
    shape: tuple[int, ...] | None
    size: int
    mask: Value | None
    active: Active
    programs: Programs


class RunObserver(Protocol):
    """What observes a run.

    Attributes:
        operations: the operations of the code, by location; set before it runs.
        programs: the batch that runs; set before it does.
    """

    operations: Sequence[Operation]
    programs: Programs

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """What generated code calls by name in this run, where that is not the module of the name;
        `memory` is what it would read and write through.
        """


class AccessObserver:
    """Observes every access of a run, and tells it on with the operation that makes it.

    Attributes:
        operations: the operations of the code, by location; set before it runs.
        programs: the batch that runs; set before it does.
        entries: how often programs entered each block, where the code tells; see
            `entries.emit_entry_events`.
    """

    def __init__(self, notify: Callable[[ObservedAccess], None]) -> None:
        self._notify = notify
        self.operations: Sequence[Operation] = ()
        self.programs: Programs
        self.entries: Counter[XdslBlock] = Counter()

    def entered(self, block: XdslBlock, programs: int, active: Active) -> None:
        """Hear that the programs of a batch, or those of them that are active, are in a block."""
        self.entries[block] += programs if active is None else int(numpy.count_nonzero(active))

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """As `RunObserver.modules`."""
        return {
            "memory": ObservedMemory(memory, self),
            "descriptors": ObservedDescriptors(self),
            "tensormaps": ObservedTensormaps(self),
            "observer": self,
        }

    def access(
        self,
        frame: types.FrameType,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        mask: Value | None,
        active: Active,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Tell of an access that the generated code of `frame` is about to make."""
        self.notify(frame, buffer.addresses(offsets), buffer.itemsize, shape, mask, active)

    def notify(
        self,
        frame: types.FrameType,
        addresses: Value,
        size: int,
        shape: tuple[int, ...] | None,
        mask: Value | None = None,
        active: Active = None,
    ) -> None:
        """Tell of an access at addresses."""
        operation = located_at(frame.f_code, frame.f_lasti, self.operations)
        assert operation is not None, "every statement that accesses memory has a location"
        seen = ObservedAccess(operation, addresses, shape, size, mask, active, self.programs)
        self._notify(seen)


class ObservedMemory(MemoryLayer):
    """Stands where generated code expects the module `memory`:
    tells of every access before it is made.
    """

    def __init__(self, inner: Memory, observer: AccessObserver) -> None:
        self._inner = inner
        self._observer = observer

    def around(self, access: MemoryAccess) -> Value | None:
        """Tell, then make the access."""
        frame = sys._getframe(2)
        self._observer.access(frame, access.buffer, access.offsets, access.mask, access.active)
        return access.made_by(self._inner)


class ObservedDescriptors:
    """Stands where generated code expects the module `descriptors`."""

    def __init__(self, observer: AccessObserver) -> None:
        self._observer = observer

    def load(
        self,
        descriptor: Descriptor,
        indices: tuple[Value, ...],
        block: Block,
        shape: tuple[int, ...],
        active: Active = None,
    ) -> Value:
        """As `descriptors.load`."""
        self._box(sys._getframe(1), descriptor, indices, block, active)
        return descriptors.load(descriptor, indices, block, shape, active)

    def store(
        self,
        descriptor: Descriptor,
        indices: tuple[Value, ...],
        value: Value,
        block: Block,
        shape: tuple[int, ...],
        active: Active = None,
    ) -> None:
        """As `descriptors.store`."""
        self._box(sys._getframe(1), descriptor, indices, block, active)
        descriptors.store(descriptor, indices, value, block, shape, active)

    def reduce(
        self,
        operation: str,
        descriptor: Descriptor,
        indices: tuple[Value, ...],
        value: Value,
        block: Block,
        shape: tuple[int, ...],
        programs: int,
        active: Active = None,
    ) -> None:
        """As `descriptors.reduce`."""
        self._box(sys._getframe(1), descriptor, indices, block, active)
        descriptors.reduce(operation, descriptor, indices, value, block, shape, programs, active)

    def gather(
        self,
        descriptor: Descriptor,
        rows: Value,
        column: Value,
        shape: Block,
        active: Active = None,
    ) -> Value:
        """As `descriptors.gather`."""
        self._rows(sys._getframe(1), descriptor, rows, column, shape, active)
        return descriptors.gather(descriptor, rows, column, shape, active)

    def scatter(
        self,
        descriptor: Descriptor,
        rows: Value,
        column: Value,
        value: Value,
        shape: Block,
        active: Active = None,
    ) -> None:
        """As `descriptors.scatter`."""
        self._rows(sys._getframe(1), descriptor, rows, column, shape, active)
        descriptors.scatter(descriptor, rows, column, value, shape, active)

    def _box(
        self,
        frame: types.FrameType,
        descriptor: Descriptor,
        indices: tuple[Value, ...],
        block: Block,
        active: Active,
    ) -> None:
        offsets, mask = descriptors.box(descriptor, indices, block)
        self._observer.access(frame, descriptor.buffer, offsets, mask, active, block)

    def _rows(
        self,
        frame: types.FrameType,
        descriptor: Descriptor,
        rows: Value,
        column: Value,
        shape: Block,
        active: Active,
    ) -> None:
        offsets, mask = descriptors.rows_of(descriptor, rows, column, shape)
        self._observer.access(frame, descriptor.buffer, offsets, mask, active, shape)

    def __getattr__(self, name: str) -> Any:
        return getattr(descriptors, name)


class ObservedTensormaps:
    """Stands where generated code expects the module `tensormaps`."""

    def __init__(self, observer: AccessObserver) -> None:
        self._observer = observer

    def Tensormaps(self, programs: int) -> tensormaps.Tensormaps:  # noqa: N802 - the module's class
        """The descriptors of a batch, which tell when one is written."""
        return _ObservedTensormaps(programs, self._observer)


class _ObservedTensormaps(tensormaps.Tensormaps):
    def __init__(self, programs: int, observer: AccessObserver) -> None:
        super().__init__(programs)
        self._observer = observer

    def write(self, address: Value, descriptor: Descriptor, active: Active = None) -> None:
        count = self._observer.programs.count
        place = numpy.asarray(address) - tensormaps.SCRATCH + _SCRATCH
        place = place + numpy.arange(count) * (1 << 20)
        addresses = place[:, None] + numpy.arange(DESCRIPTOR_BYTES)
        self._observer.notify(sys._getframe(1), addresses, 1, (DESCRIPTOR_BYTES,), None, active)
        super().write(address, descriptor, active)
