"""Memory as code whose programs wait for each other sees it:
watched for changes, and for what was read last.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy

from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import WildAddress
from kernellab.interpreter.memory.global_memory import Buffer, Elsewhere, OutOfBoundsAccess
from kernellab.interpreter.memory.layers import Load, MemoryAccess, MemoryLayer
from kernellab.interpreter.numerics.tiles import Value


@dataclass(frozen=True)
class Reading:
    """What a load or an atomic found.

    Attributes:
        offsets: elements from the start of the buffer's tensor, or addresses.
        found: the values there.
    """

    buffer: Buffer | Elsewhere
    offsets: Value
    found: Value

    def __str__(self) -> str:
        """ "lock_ptr[3] is 1"; of several elements the first."""
        offset = int(numpy.ravel(numpy.asarray(self.offsets))[0])
        values = numpy.ravel(numpy.asarray(self.found))
        more = f" (the first of {values.size} elements)" if values.size > 1 else ""
        name = (
            f"{self.buffer.name}[{offset}]"
            if isinstance(self.buffer, Buffer)
            else f"what is at address {offset:#x}"
        )
        return f"{name} is {values[0]}{more}"


class WatchedMemory(threading.local, MemoryLayer):
    """Stands where generated code expects the module `memory`; each thread has its own notes.

    Attributes:
        changed: whether memory has other bits than when this was last set to False.
        strayed: whether an access has left its tensor since this was last set to False; said by who
            lets such a run go on.
        reading: the latest load or atomic, None before the first.
    """

    def __init__(self) -> None:
        self.changed = self.strayed = False
        self.reading: Reading | None = None

    def around(self, access: MemoryAccess) -> Value | None:
        """Make the access, and note what it found and whether it changed anything."""
        if isinstance(access, Load):
            found: Value | None = access.made_by(global_memory)
        else:
            with self._changing(access):
                found = access.made_by(global_memory)
        if found is not None:
            self.reading = Reading(access.buffer, access.offsets, found)
        return found

    @contextmanager
    def _changing(self, access: MemoryAccess) -> Iterator[None]:
        """Notices whether what is done inside changes any of the elements of the access."""
        if self.changed:
            yield
            return
        look = Load(access.buffer, access.offsets, access.rank, access.mask, access.active, None)
        try:
            before = look.made_by(global_memory)
        except (OutOfBoundsAccess, WildAddress):
            yield  # what is done inside finds the same fault, and calls it by its name
            return
        yield
        after = look.made_by(global_memory)
        self.changed = numpy.asarray(before).tobytes() != numpy.asarray(after).tobytes()
