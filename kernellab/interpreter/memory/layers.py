"""Layers around memory: they replace the module `memory` in generated code, and act on every
access.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from kernellab.interpreter.memory.buffers import Addressed, Buffer
from kernellab.interpreter.numerics.tiles import Active, Value


class Memory(Protocol):
    """What generated code calls: the module `global_memory`, whose functions have the signatures,
    or a layer around it.
    """

    def load(self, *args: Any, **keywords: Any) -> Any: ...

    def store(self, *args: Any, **keywords: Any) -> Any: ...

    def atomic(self, *args: Any, **keywords: Any) -> Any: ...

    def compare_and_swap(self, *args: Any, **keywords: Any) -> Any: ...


@dataclass(frozen=True)
class MemoryAccess:
    """One access of a batch of programs, before it is made: the arguments of a function of
    `global_memory`.
    """

    function: ClassVar[str]
    buffer: Buffer | Addressed
    offsets: Value
    rank: int
    mask: Value | None = field(default=None, kw_only=True)
    active: Active = field(default=None, kw_only=True)

    def made_by(self, memory: Memory) -> Any:
        """Make the access; what the function returns."""
        return getattr(memory, self.function)(**vars(self))


@dataclass(frozen=True)
class Load(MemoryAccess):
    """A call of `global_memory.load`."""

    function = "load"
    other: Value | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Store(MemoryAccess):
    """A call of `global_memory.store`."""

    function = "store"
    value: Value


@dataclass(frozen=True)
class Atomic(MemoryAccess):
    """A call of `global_memory.atomic`."""

    function = "atomic"
    operation: str
    value: Value
    shape: tuple[int, ...]
    programs: int
    wanted: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class CompareAndSwap(MemoryAccess):
    """A call of `global_memory.compare_and_swap`."""

    function = "compare_and_swap"
    compare: Value
    value: Value
    shape: tuple[int, ...]
    programs: int


def _around(kind: type[MemoryAccess]) -> Callable[..., Any]:
    """The function of a layer that generated code calls in the place of `global_memory`'s."""

    def call(layer: MemoryLayer, *args: Any, **keywords: Any) -> Any:
        return layer.around(kind(*args, **keywords))

    return call


class MemoryLayer(ABC):
    """Replaces the module `memory` in generated code: every access goes through `around`."""

    @abstractmethod
    def around(self, access: MemoryAccess) -> Any:
        """Make the access, or another one in its place. The generated code is two frames up."""

    load = _around(Load)
    store = _around(Store)
    atomic = _around(Atomic)
    compare_and_swap = _around(CompareAndSwap)
