"""Memory of a run that is observed: what is notified of every access, and what takes the place of
the modules that generated code calls.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
from xdsl.ir import Block as XdslBlock
from xdsl.ir import Operation

from kernellab.compiler.modules import pointers_of
from kernellab.interpreter.affine import BoxMask
from kernellab.interpreter.codegen.code_writer import located_at
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory import descriptors, global_memory
from kernellab.interpreter.memory.address_space import WildAddress
from kernellab.interpreter.memory.buffers import Addressed, Buffer, OutOfBoundsAccess
from kernellab.interpreter.memory.descriptors import Descriptor
from kernellab.interpreter.memory.global_memory import Load, Memory, MemoryAccess, MemoryLayer
from kernellab.interpreter.tiles import Active, Value
from kernellab.ir.types import shape as type_shape

# Global memory of an observed run: an observer is notified of every access before it is made.


DESCRIPTOR_BYTES = 128
"""Size and alignment of a descriptor that a kernel writes (PTX ISA, tensor-map)."""
_SCRATCH = 1 << 46
"""Where scratch memory is taken to begin: no address of this process is so high,
and every program's follows the last one's."""


@dataclass(frozen=True)
class ObservedAccess:
    """One access of a batch of programs.

    Attributes:
        operation: what makes it.
        addresses: of its elements, in bytes: an affine tile or an array, programs first
            where they differ.
        shape: of the tile of pointers, of the block that a descriptor describes, or of what is
            written for one.
        size: of an element, in bytes.
        mask: which elements take part; None for all.
        active: which programs take part; None for all.
        programs: the batch.
    """

    operation: Operation
    addresses: Value
    shape: tuple[int, ...]
    size: int
    mask: Value | None
    active: Active
    programs: Programs


class RunObserver(Protocol):
    """An observer of a run.

    Attributes:
        operations: the operations of the code, by location; set before it runs.
        programs: the batch that runs; set before it does.
    """

    operations: Sequence[Operation]
    programs: Programs

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """The objects that generated code calls in this run in place of modules, by the modules'
        names; `memory` is the one that it would read and write through.
        """


class AccessObserver:
    """Observes every access of a run, and passes it on with the operation that makes it.

    Attributes:
        operations: the operations of the code, by location; set before it runs.
        programs: the batch that runs; set before it does.
        entries: how often programs entered each block, if the code reports it; see
            `emitter.emit_entry_events`.
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
        observed = ObservedMemory(memory, self)
        return {
            "memory": observed,
            "descriptors": DescriptorsThrough(observed),
            "tensormaps": types.SimpleNamespace(
                Tensormaps=functools.partial(_ObservedTensormaps, observer=self)
            ),
            "observer": self,
        }

    def notify(
        self,
        frame: types.FrameType,
        addresses: Callable[[], Value],
        size: int,
        block: tuple[int, ...] | None,
        mask: Value | None,
        active: Active,
    ) -> None:
        """Report an access that the generated code of `frame` is about to make.

        Args:
            addresses: computes where the elements are.
            size: of an element, in bytes.
            block: the shape of a descriptor's block; None if pointers are accessed.
        """
        operation = located_at(frame.f_code, frame.f_lasti, self.operations)
        assert operation is not None, "every statement that accesses memory has a location"
        extents = type_shape(pointers_of(operation).type) if block is None else block
        seen = ObservedAccess(operation, addresses(), extents, size, mask, active, self.programs)
        self._notify(seen)


class ObservedMemory(MemoryLayer):
    """Replaces the module `memory` in generated code: reports every access before it is made."""

    def __init__(self, inner: Memory, observer: AccessObserver) -> None:
        self._inner = inner
        self._observer = observer

    def around(self, access: MemoryAccess) -> Value | None:
        frame, block = sys._getframe(2), None
        if frame.f_code.co_filename == descriptors.__file__:
            assert frame.f_back is not None, "generated code calls the functions of descriptors"
            frame, block = frame.f_back, _block_of(access)
        size, mask, active = access.buffer.itemsize, access.mask, access.active
        self._observer.notify(frame, lambda: access.addresses, size, block, mask, active)
        return access.made_by(self._inner)


def _block_of(access: MemoryAccess) -> tuple[int, ...]:
    """Return the shape of the block of a descriptor, which always has a mask."""
    if isinstance(access.mask, BoxMask):
        return access.mask.extents
    return numpy.asarray(access.mask).shape[-access.rank :]


class _ObservedTensormaps(descriptors.Tensormaps):
    """The descriptors of a batch, which report when one is written."""

    def __init__(self, programs: int, observer: AccessObserver) -> None:
        super().__init__(programs)
        self._observer = observer

    def write(self, address: Value, descriptor: Descriptor, active: Active = None) -> None:
        count = self._observer.programs.count
        place = numpy.asarray(address) - descriptors.SCRATCH + _SCRATCH
        place = place + numpy.arange(count) * (1 << 20)
        addresses = place[:, None] + numpy.arange(DESCRIPTOR_BYTES)
        shape = (DESCRIPTOR_BYTES,)
        self._observer.notify(sys._getframe(1), lambda: addresses, 1, shape, None, active)
        super().write(address, descriptor, active)


# Memory as code whose programs wait for each other sees it: watched for changes, and for what
# was read last.


@dataclass(frozen=True)
class Reading:
    """The values that a load or an atomic read.

    Attributes:
        offsets: elements from the start of the buffer's tensor, or addresses.
        values: the values there.
    """

    buffer: Buffer | Addressed
    offsets: Value
    values: Value

    def __str__(self) -> str:
        """ "lock_ptr[3] is 1"; of several elements the first."""
        offset = int(numpy.ravel(numpy.asarray(self.offsets))[0])
        values = numpy.ravel(numpy.asarray(self.values))
        more = f" (the first of {values.size} elements)" if values.size > 1 else ""
        name = (
            f"{self.buffer.name}[{offset}]"
            if isinstance(self.buffer, Buffer)
            else f"the value at address {offset:#x}"
        )
        return f"{name} is {values[0]}{more}"


class WatchedMemory(threading.local, MemoryLayer):
    """Replaces the module `memory` in generated code; each thread has its own notes.

    Attributes:
        changed: whether memory has other bits than when this was last set to False.
        strayed: whether an access has left its tensor since this was last set to False. The code
            that lets such a run continue sets it.
        reading: the latest load or atomic, None before the first.
    """

    def __init__(self) -> None:
        self.changed = self.strayed = False
        self.reading: Reading | None = None

    def around(self, access: MemoryAccess) -> Value | None:
        """Make the access, and note what it read and whether it changed anything."""
        if isinstance(access, Load):
            values: Value | None = access.made_by(global_memory)
        else:
            with self._changing(access):
                values = access.made_by(global_memory)
        if values is not None:
            self.reading = Reading(access.buffer, access.offsets, values)
        return values

    @contextmanager
    def _changing(self, access: MemoryAccess) -> Iterator[None]:
        """Notices whether what is done inside changes any of the elements of the access."""
        if self.changed:
            yield
            return
        look = Load(
            access.buffer, access.offsets, access.rank, mask=access.mask, active=access.active
        )
        try:
            before = look.made_by(global_memory)
        except (OutOfBoundsAccess, WildAddress):
            yield  # what is done inside finds the same fault, and calls it by its name
            return
        yield
        after = look.made_by(global_memory)
        self.changed = numpy.asarray(before).tobytes() != numpy.asarray(after).tobytes()


# Accesses through descriptors, made through a layer of memory.


class DescriptorsThrough:
    """Replaces the module `descriptors` in generated code: accesses go through `memory`."""

    def __init__(self, memory: Memory) -> None:
        for name in ("load", "store", "reduce", "gather", "scatter"):
            setattr(self, name, functools.partial(getattr(descriptors, name), through=memory))

    def __getattr__(self, name: str) -> Any:
        return getattr(descriptors, name)
