"""The state of a run of assembly: each register holds bits, one array element for each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy

from kernellab.interpreter.ptx.kinds import KINDS, Kind, bits_of, numbers, pattern, resized
from kernellab.interpreter.ptx.parser import (
    Address,
    Immediate,
    Instruction,
    Operand,
    PtxError,
    Register,
    Vector,
)

Array = Any
"""A NumPy array or scalar."""


class Memory(Protocol):
    """Global memory, by addresses."""

    def load(self, addresses: Array, dtype: numpy.dtype, mask: Array | None) -> Array:
        """The elements at the addresses, where the mask is on."""

    def store(self, addresses: Array, values: Array, mask: Array | None) -> None:
        """Write values to the addresses where the mask is on."""


class Machine:
    """The state between two instructions."""

    def __init__(
        self, widths: Mapping[str, int], inputs: Mapping[str, Array], memory: Memory
    ) -> None:
        self.memory = memory
        self.guard: Array | None = None
        self._widths = dict(widths)
        self._registers: dict[str, Array] = {}
        for name, bits in inputs.items():
            self._registers[name] = bits
            self._widths[name] = 8 * numpy.asarray(bits).itemsize

    def guarded_by(self, instruction: Instruction) -> None:
        """Take an instruction's guard: it decides which elements `write` changes."""
        self.guard = None
        if instruction.guard is not None:
            register, negated = instruction.guard
            self.guard = self.read(register, KINDS["pred"]) ^ negated

    def read(self, operand: Operand, kind: Kind) -> Array:
        """The numbers of an operand."""
        match operand:
            case Immediate(float() as number) if not kind.is_float:
                return numbers(pattern(number, KINDS[f"f{kind.bits}"]), kind)
            case Immediate(number) if isinstance(number, float) or kind.name in ("f32", "f64"):
                return numpy.asarray(number, kind.dtype)
            case Immediate(number):
                bits = int(number) & ((1 << kind.bits) - 1)
                return numbers(numpy.asarray(bits, bits_of(kind.bits)), kind)
            case Vector(items):
                return numbers(self._joined(items, kind.bits), kind)
            case Register():
                return numbers(self.bits(operand), kind)
            case _:
                raise PtxError(f"the operand {operand}")

    def bits(self, register: Register) -> Array:
        """What a register holds; one that was never written holds zeros."""
        if register.name not in self._widths and register.name in SPECIAL_REGISTERS:
            return SPECIAL_REGISTERS[register.name]()
        zero = bits_of(self._widths.get(register.name, 32)).type(0)
        return self._registers.get(register.name, zero)

    def forget(self, name: str) -> None:
        """From here on, take a register for one that was never written."""
        self._registers.pop(name, None)

    def write(self, target: Operand, values: Array, kind: Kind) -> None:
        """Put numbers into a register, or their bits into several, where the guard allows."""
        bits = pattern(values, kind)
        if isinstance(target, Vector):
            part = kind.bits // len(target.items)
            for index, item in enumerate(target.items):
                shifted = bits >> bits.dtype.type(index * part)
                self._set(item, resized(shifted, part), signed=False)
            return
        self._set(target, bits, kind.is_signed)

    def address(self, operand: Operand) -> Array:
        """The address, in bytes, that an operand in brackets stands for."""
        if not isinstance(operand, Address):
            raise PtxError(f"an access to memory through {operand}")
        return self.read(operand.base, KINDS["s64"]) + operand.offset

    def _set(self, target: Operand, bits: Array, signed: bool) -> None:
        if not isinstance(target, Register):
            raise PtxError(f"a result that is written to {target}")
        if target.name == "_":
            return
        width = self._widths.setdefault(target.name, 8 * bits.dtype.itemsize)
        new = resized(bits, width, signed)
        if self.guard is not None:
            new = numpy.where(self.guard, new, self.bits(target))
        self._registers[target.name] = new

    def _joined(self, items: Sequence[Register | Immediate], width: int) -> Array:
        """The bits of several registers as those of one, the first in the lowest bits."""
        part = KINDS[f"b{width // len(items)}"]
        whole = bits_of(width)
        total: Array = whole.type(0)
        for index, item in enumerate(items):
            bits = numpy.asarray(self.read(item, part)).astype(whole)
            total = total | bits << whole.type(index * part.bits)
        return total


def _nanoseconds() -> Array:
    return numpy.uint64(time.perf_counter_ns())


SPECIAL_REGISTERS: dict[str, Callable[[], Array]] = {
    "%clock": lambda: numpy.uint32(time.perf_counter_ns() & 0xFFFFFFFF),
    "%clock64": _nanoseconds,
    "%globaltimer": lambda: numpy.uint64(time.time_ns()),
    "%smid": lambda: numpy.uint32(0),
    "%nsmid": lambda: numpy.uint32(1),
}
"""What is true here: time in nanoseconds, and one multiprocessor.
Numbers of threads there are none."""
