"""The text of inline assembly as instructions with operands."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kernellab.interpreter.ptx.kinds import KINDS


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
        """Modifiers and types, in order."""
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
            assembly.instructions.append(instruction(statement))
    return assembly


COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def _statements(text: str) -> Iterator[str]:
    """Yield the statements between semicolons; braces around several only limit names."""
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


def instruction(statement: str) -> Instruction:
    """Read one instruction, without the semicolon behind it.

    Raises:
        PtxError: there is a label before it.
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
