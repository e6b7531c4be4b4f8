"""Memory as code whose programs wait for each other sees it: watched for changes, and for what was read last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.interpreter import memory
from kernellab.interpreter.address_space import WildAddress
from kernellab.interpreter.memory import Buffer, Elsewhere, OutOfBoundsAccess
from kernellab.interpreter.tiles import Active, Value


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


class WatchedMemory(threading.local):
    """Stands where generated code expects the module `memory`; each thread has its own notes.

    Attributes:
        changed: whether memory has other bits than when this was last set to False.
        reading: the latest load or atomic, None before the first.
    """

    def __init__(self) -> None:
        self.changed = False
        self.reading: Reading | None = None

    def load(
        self, buffer: Buffer | Elsewhere, offsets: Value, rank: int, *rest: Any, **keywords: Any
    ) -> Value:
        """As `memory.load`."""
        found = memory.load(buffer, offsets, rank, *rest, **keywords)
        self.reading = Reading(buffer, offsets, found)
        return found

    def store(
        self,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        value: Value,
        rank: int,
        mask: Value | None = None,
        active: Active = None,
    ) -> None:
        """As `memory.store`."""
        with self._changing(buffer, offsets, rank, mask, active):
            memory.store(buffer, offsets, value, rank, mask, active)

    def atomic(
        self,
        operation: str,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        value: Value,
        rank: int,
        shape: tuple[int, ...],
        programs: int,
        mask: Value | None = None,
        active: Active = None,
        wanted: bool = True,
    ) -> Value | None:
        """As `memory.atomic`."""
        with self._changing(buffer, offsets, rank, mask, active):
            found = memory.atomic(
                operation, buffer, offsets, value, rank, shape, programs, mask, active, wanted
            )
        if found is not None:
            self.reading = Reading(buffer, offsets, found)
        return found

    def compare_and_swap(
        self,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        compare: Value,
        value: Value,
        rank: int,
        shape: tuple[int, ...],
        programs: int,
        mask: Value | None = None,
        active: Active = None,
    ) -> Value:
        """As `memory.compare_and_swap`."""
        with self._changing(buffer, offsets, rank, mask, active):
            found = memory.compare_and_swap(
                buffer, offsets, compare, value, rank, shape, programs, mask, active
            )
        self.reading = Reading(buffer, offsets, found)
        return found

    def __getattr__(self, name: str) -> Any:
        """Anything else of the module's is taken to change memory whenever it is called."""
        function = getattr(memory, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.changed = True
            return function(*arguments, **keywords)

        return call

    @contextmanager
    def _changing(
        self,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        rank: int,
        mask: Value | None,
        active: Active,
    ) -> Iterator[None]:
        """Notices whether what is done inside changes any of these elements."""
        if self.changed:
            yield
            return
        try:
            before = memory.load(buffer, offsets, rank, mask, None, active)
        except (OutOfBoundsAccess, WildAddress):
            yield  # what is done inside finds the same fault, and calls it by its name
            return
        yield
        after = memory.load(buffer, offsets, rank, mask, None, active)
        self.changed = numpy.asarray(before).tobytes() != numpy.asarray(after).tobytes()
