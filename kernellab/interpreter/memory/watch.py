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
from kernellab.interpreter.memory.buffers import Addressed, Buffer, OutOfBoundsAccess
from kernellab.interpreter.memory.layers import Load, MemoryAccess, MemoryLayer
from kernellab.interpreter.numerics.tiles import Value


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
            else f"what is at address {offset:#x}"
        )
        return f"{name} is {values[0]}{more}"


class WatchedMemory(threading.local, MemoryLayer):
    """Replaces the module `memory` in generated code; each thread has its own notes.

    Attributes:
        changed: whether memory has other bits than when this was last set to False.
        strayed: whether an access has left its tensor since this was last set to False. The code
            that lets such a run go on sets it.
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
