"""PTX: its types, its text as instructions, and the registers of a run.

What each instruction computes is in `ptx_instructions`. The reference is NVIDIA's PTX ISA.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import ml_dtypes
import numpy

from kernellab.interpreter.numerics import FLOAT32

# PTX's types: how the bits of a register are read as numbers, and numbers are written as bits.


Array = Any
"""A NumPy array or scalar."""


@dataclass(frozen=True)
class Kind:
    """A type of PTX.

    Attributes:
        name: "f32", "s64", "e4m3x2".
        dtype: of one number.
        bits: of the whole value; numbers narrower than a byte fill a byte each in `dtype`.
        count: how many numbers it holds; they are along a last axis, the lowest bits first, where
            there are two or more.
    """

    name: str
    dtype: numpy.dtype
    bits: int
    count: int = 1

    @property
    def is_float(self) -> bool:
        return self.dtype.kind not in "iub"

    @property
    def is_signed(self) -> bool:
        return self.dtype.kind == "i"

    @property
    def element_bits(self) -> int:
        """Bits of one of its numbers."""
        return self.bits // self.count


def _kind(name: str, dtype: Any, bits: int, count: int = 1) -> tuple[str, Kind]:
    return name, Kind(name, numpy.dtype(dtype), bits, count)


KINDS: dict[str, Kind] = dict(
    [
        _kind("pred", numpy.bool_, 1),
        *(
            _kind(f"{letter}{bits}", f"u{bits // 8}", bits)
            for letter in "bu"
            for bits in (8, 16, 32, 64)
        ),
        *(_kind(f"s{bits}", f"i{bits // 8}", bits) for bits in (8, 16, 32, 64)),
        _kind("f16", numpy.float16, 16),
        _kind("bf16", ml_dtypes.bfloat16, 16),
        _kind("f32", numpy.float32, 32),
        _kind("f64", numpy.float64, 64),
        _kind("f16x2", numpy.float16, 32, 2),
        _kind("bf16x2", ml_dtypes.bfloat16, 32, 2),
        _kind("f32x2", numpy.float32, 64, 2),
        _kind("e4m3x2", ml_dtypes.float8_e4m3fn, 16, 2),
        _kind("e5m2x2", ml_dtypes.float8_e5m2, 16, 2),
        _kind("e2m1x2", ml_dtypes.float4_e2m1fn, 8, 2),
        _kind("e2m3x2", ml_dtypes.float6_e2m3fn, 16, 2),
        _kind("e3m2x2", ml_dtypes.float6_e3m2fn, 16, 2),
    ]
)
"""Every type by name. `tf32` is not a type of a register: the
instruction that makes it writes a b32."""


def bits_of(width: int) -> numpy.dtype:
    """The dtype that holds the bits of a register: unsigned, or bool for a predicate."""
    return numpy.dtype(numpy.bool_ if width == 1 else f"u{width // 8}")


def resized(bits: Array, width: int, signed: bool = False) -> Array:
    """A register's bits in another width: cut off, or extended with zeros or the sign."""
    array = numpy.asarray(bits)
    wanted = bits_of(width)
    if array.dtype == wanted:
        return array
    if signed and width > 8 * array.itemsize:
        return array.view(f"i{array.itemsize}").astype(f"i{width // 8}").view(wanted)
    return array.astype(wanted)


def numbers(bits: Array, kind: Kind) -> Array:
    """The numbers that a register holds."""
    whole = resized(bits, kind.bits)
    if kind.count == 1:
        return whole if kind.dtype == whole.dtype else whole.view(kind.dtype)
    if kind.element_bits == 4:
        return numpy.stack([whole & 15, whole >> 4], -1).view(kind.dtype)
    parts = numpy.ascontiguousarray(whole)[..., None].view(bits_of(kind.element_bits))
    return parts.view(kind.dtype)


def pattern(values: Array, kind: Kind) -> Array:
    """The bits of numbers, `count` of them along the last axis if that is two or more."""
    array = numpy.asarray(values, kind.dtype)
    if kind.dtype == numpy.bool_:
        return array
    parts = array.view(f"u{array.itemsize}")
    if kind.count == 1:
        return parts
    if kind.element_bits == 4:
        return parts[..., 0] | parts[..., 1] << 4
    return numpy.ascontiguousarray(parts).view(bits_of(kind.bits))[..., 0]


def flushed(values: Array) -> Array:
    """Numbers of float32 with the subnormal ones as zeros of their sign: `.ftz`."""
    if numpy.asarray(values).dtype != FLOAT32:
        return values
    tiny = numpy.abs(values) < numpy.finfo(FLOAT32).tiny
    return numpy.where(tiny, numpy.copysign(FLOAT32.type(0), values), values)


# The text of inline assembly as instructions with operands.


class PtxError(Exception):
    """Assembly that cannot be run; the message names the construct, to
    follow "does not know".
    """


@dataclass(frozen=True)
class Register:
    """A register by name: "$0" is an operand of the assembly, "%clock" a special register."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A number in the text."""

    value: int | float


@dataclass(frozen=True)
class Vector:
    """`{a, b}`: several registers as one operand, the lowest bits first."""

    items: tuple[Register | Immediate, ...]


@dataclass(frozen=True)
class Address:
    """`[a + 4]`: memory at an address, in bytes."""

    base: Register | Immediate
    offset: int


Operand = Register | Immediate | Vector | Address


@dataclass(frozen=True)
class Instruction:
    """One instruction: `@!p add.rn.f32 $0, $1, $2`.

    Attributes:
        opcode: "add.rn.f32".
        operands: in the text's order, the destination first. Of two destinations `p|q`, both.
        guard: the predicate that it runs under, and whether that is negated.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: tuple[Register, bool] | None = None

    @property
    def name(self) -> str:
        """The part before the first dot."""
        return self.opcode.split(".")[0]

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(self.opcode.replace("::", "_").split(".")[1:])


@dataclass
class Assembly:
    """Instructions, and the widths in bits of the registers that the text declares;
    1 is a predicate.
    """

    instructions: list[Instruction] = field(default_factory=list)
    widths: dict[str, int] = field(default_factory=dict)


def parse(text: str) -> Assembly:
    """Read the text of inline assembly, in which `$0` stands for the first operand and `$$`
    for a dollar sign.

    Raises:
        PtxError: a statement that is none of declaration and instruction; labels and
            branches are not run.
    """
    assembly = Assembly()
    for statement in _statements(text):
        if statement.startswith(".reg"):
            assembly.widths.update(declared(statement))
        else:
            assembly.instructions.append(parse_instruction(statement))
    return assembly


COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def _statements(text: str) -> Iterator[str]:
    for piece in COMMENT.sub(" ", text).split(";"):
        statement = piece.strip()
        while statement[:1] in ("{", "}"):
            statement = statement[1:].lstrip()
        if statement:
            yield statement


_NAMES = re.compile(r"([\w$%]+)(?:<(\d+)>)?")


def declared(statement: str) -> Mapping[str, int]:
    """The width in bits of each register: `.reg .b32 a, b<2>` declares a, b0 and b1."""
    _, kind, names = (*statement.split(None, 2), "", "")[:3]
    if kind[:1] != "." or kind[1:] not in KINDS:
        raise PtxError(f"the declaration {statement!r}")
    declared = {}
    for name, count in _NAMES.findall(names):
        numbered = [f"{name}{index}" for index in range(int(count))] if count else [name]
        declared.update(dict.fromkeys(numbered, KINDS[kind[1:]].bits))
    return declared


_GUARD = re.compile(r"@(!?)\s*([\w$%]+)\s+(.*)", re.DOTALL)


def parse_instruction(statement: str) -> Instruction:
    """Read one instruction, without the semicolon behind it. Raises PtxError: there is a label
    before it.
    """
    guard = None
    guarded = _GUARD.fullmatch(statement)
    if guarded:
        guard = (Register(guarded[2]), guarded[1] == "!")
        statement = guarded[3]
    opcode, rest = (*statement.split(None, 1), "")[:2]
    if ":" in opcode.replace("::", ""):
        raise PtxError(f"the label {opcode!r}: branches are not run")
    operands = tuple(_operand(part) for part in _OPERANDS.findall(rest))
    return Instruction(opcode, operands, guard)


_OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,|\s{}\[\]]+")
_NUMBER = re.compile(
    r"(?P<sign>-?)(?:0[fF](?P<single>[0-9a-fA-F]{8})|0[dD](?P<double>[0-9a-fA-F]{16})"
    r"|(?P<real>\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)"
    r"|0[xX](?P<hex>[0-9a-fA-F]+)U?|0[bB](?P<binary>[01]+)U?|(?P<decimal>\d+)U?)"
)


def _operand(text: str) -> Operand:
    if text.startswith("{"):
        return Vector(tuple(_simple(item.strip()) for item in text[1:-1].split(",")))
    if text.startswith("["):
        base, plus, offset = text[1:-1].partition("+")
        return Address(_simple(base.strip()), int(offset, 0) if plus else 0)
    return _simple(text)


def _simple(text: str) -> Register | Immediate:
    number = _NUMBER.fullmatch(text)
    if number is None:
        return Register(text)
    sign = -1 if number["sign"] else 1
    if number["single"]:
        return Immediate(sign * _float_of_bits(number["single"], "f"))
    if number["double"]:
        return Immediate(sign * _float_of_bits(number["double"], "d"))
    if number["real"]:
        return Immediate(sign * float(number["real"]))
    for base, digits in ((16, number["hex"]), (2, number["binary"])):
        if digits:
            return Immediate(sign * int(digits, base))
    digits = number["decimal"]
    octal = digits.startswith("0") and len(digits) > 1 and set(digits) <= set("01234567")
    return Immediate(sign * int(digits, 8 if octal else 10))


def _float_of_bits(digits: str, format: str) -> float:
    number: float = struct.unpack(f">{format}", bytes.fromhex(digits))[0]
    return number


# The state of a run of assembly: each register holds bits, one array element for each run.


class Memory(Protocol):
    """Global memory, by addresses."""

    def load(self, addresses: Array, dtype: numpy.dtype, mask: Array | None) -> Array:
        """The elements at the addresses, where the mask is on."""

    def store(self, addresses: Array, values: Array, mask: Array | None) -> None:
        """Write values to the addresses where the mask is on."""


class ThreadState:
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
        """The contents of a register; one that was never written holds zeros."""
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


SPECIAL_REGISTERS: dict[str, Callable[[], Array]] = {
    "%clock": lambda: numpy.uint32(time.perf_counter_ns() & 0xFFFFFFFF),
    "%clock64": lambda: numpy.uint64(time.perf_counter_ns()),
    "%globaltimer": lambda: numpy.uint64(time.time_ns()),
    "%smid": lambda: numpy.uint32(0),
    "%nsmid": lambda: numpy.uint32(1),
}
"""The values of special registers here: time in nanoseconds, and one multiprocessor.
Numbers of threads there are none."""
