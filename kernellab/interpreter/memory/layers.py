"""Layers around memory: what stands where generated code expects the module `memory`,
and does something about every access.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from kernellab.interpreter.memory.global_memory import Buffer, Elsewhere
from kernellab.interpreter.numerics.tiles import Active, Value


class Memory(Protocol):
    """What generated code calls: the module `memory`, or a layer around it."""

    def load(
        self,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        rank: int,
        mask: Value | None = ...,
        other: Value | None = ...,
        active: Active = ...,
    ) -> Value: ...

    def store(
        self,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        value: Value,
        rank: int,
        mask: Value | None = ...,
        active: Active = ...,
    ) -> None: ...

    def atomic(
        self,
        operation: str,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        value: Value,
        rank: int,
        shape: tuple[int, ...],
        programs: int,
        mask: Value | None = ...,
        active: Active = ...,
        wanted: bool = ...,
    ) -> Value | None: ...

    def compare_and_swap(
        self,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        compare: Value,
        value: Value,
        rank: int,
        shape: tuple[int, ...],
        programs: int,
        mask: Value | None = ...,
        active: Active = ...,
    ) -> Value: ...


@dataclass(frozen=True)
class MemoryAccess(ABC):
    """One access of a batch of programs, before it is made;
    see the functions of `memory` for the attributes.
    """

    buffer: Buffer | Elsewhere
    offsets: Value
    rank: int
    mask: Value | None
    active: Active

    @abstractmethod
    def made_by(self, memory: Memory) -> Value | None:
        """Make the access; what it gives."""


@dataclass(frozen=True)
class Load(MemoryAccess):
    """A call of `memory.load`."""

    other: Value | None

    def made_by(self, memory: Memory) -> Value:
        """The values that are read."""
        return memory.load(self.buffer, self.offsets, self.rank, self.mask, self.other, self.active)


@dataclass(frozen=True)
class Store(MemoryAccess):
    """A call of `memory.store`."""

    value: Value

    def made_by(self, memory: Memory) -> None:
        """Write the values."""
        memory.store(self.buffer, self.offsets, self.value, self.rank, self.mask, self.active)


@dataclass(frozen=True)
class Atomic(MemoryAccess):
    """A call of `memory.atomic`."""

    operation: str
    value: Value
    shape: tuple[int, ...]
    programs: int
    wanted: bool

    def made_by(self, memory: Memory) -> Value | None:
        """What each lane found, where that is wanted."""
        return memory.atomic(
            self.operation,
            self.buffer,
            self.offsets,
            self.value,
            self.rank,
            self.shape,
            self.programs,
            self.mask,
            self.active,
            self.wanted,
        )


@dataclass(frozen=True)
class CompareAndSwap(MemoryAccess):
    """A call of `memory.compare_and_swap`."""

    compare: Value
    value: Value
    shape: tuple[int, ...]
    programs: int

    def made_by(self, memory: Memory) -> Value:
        """What each lane found."""
        return memory.compare_and_swap(
            self.buffer,
            self.offsets,
            self.compare,
            self.value,
            self.rank,
            self.shape,
            self.programs,
            self.mask,
            self.active,
        )


class MemoryLayer(ABC):
    """Stands where generated code expects the module `memory`:
    every access of it goes through `around`.
    """

    @abstractmethod
    def around(self, access: MemoryAccess) -> Value | None:
        """Make the access, or another one in its place.
        Two frames up stands the generated code that asks for it.
        """

    def load(
        self,
        buffer: Buffer | Elsewhere,
        offsets: Value,
        rank: int,
        mask: Value | None = None,
        other: Value | None = None,
        active: Active = None,
    ) -> Any:
        """As `memory.load`."""
        return self.around(Load(buffer, offsets, rank, mask, active, other))

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
        self.around(Store(buffer, offsets, rank, mask, active, value))

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
        return self.around(
            Atomic(buffer, offsets, rank, mask, active, operation, value, shape, programs, wanted)
        )

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
    ) -> Any:
        """As `memory.compare_and_swap`."""
        return self.around(
            CompareAndSwap(buffer, offsets, rank, mask, active, compare, value, shape, programs)
        )
