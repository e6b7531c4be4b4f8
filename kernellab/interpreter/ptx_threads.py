"""Whole functions of PTX: their text, and what the registers of every thread of a program hold, as
far as that follows from the threads' numbers alone.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy

from kernellab.interpreter.ptx import (
    COMMENT,
    KINDS,
    Address,
    Instruction,
    Operand,
    PtxError,
    Register,
    ThreadState,
    Vector,
    declared,
    parse_instruction,
)
from kernellab.interpreter.ptx_instructions import form_of, step

# The text of a whole PTX function: its instructions in order, each with the line of the source
# that it comes from.


@dataclass(frozen=True)
class Statement:
    """One instruction of a function.

    Attributes:
        text: the statement, without the semicolon.
        line: of the source, as the last `.loc` before it says; 0 if none does.
        labels: those before it.
    """

    text: str
    line: int
    labels: tuple[str, ...] = ()

    @cached_property
    def instruction(self) -> Instruction:
        """The instruction taken apart. Raises PtxError: it cannot be."""
        return parse_instruction(self.text)


@dataclass(frozen=True)
class Function:
    """One function of a PTX module.

    Attributes:
        name: its symbol.
        is_entry: whether a launch starts it; other functions are called.
        threads: of a program, as `.reqntid` or `.maxntid` says; 0 if neither does.
        statements: its instructions.
        widths: of its registers, in bits.
    """

    name: str
    is_entry: bool
    threads: int
    statements: tuple[Statement, ...]
    widths: Mapping[str, int]

    @cached_property
    def loops(self) -> tuple[int, ...]:
        """How many loops are around each statement: from a label to the last jump back."""
        begins: dict[str, int] = {}
        ends: dict[int, int] = {}
        for place, statement in enumerate(self.statements):
            begins.update(dict.fromkeys(statement.labels, place))
            jump = _JUMP.search(statement.text)
            if jump is not None and jump[1] in begins:
                ends[begins[jump[1]]] = place
        changes = [0] * (len(self.statements) + 1)
        for begin, end in ends.items():
            changes[begin] += 1
            changes[end + 1] -= 1
        return tuple(itertools.accumulate(changes[:-1]))


_JUMP = re.compile(r"\bbra(?:\.uni)?\s+([\w$]+)")
_BEGINNING = re.compile(r"^[ \t]*(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\b", re.MULTILINE)
_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_PLACE = re.compile(r"\.loc\s+\d+\s+(\d+)")
_BEFORE = re.compile(r"(?:[{}]|([\w$]+):(?!:))\s*")
"""A brace that only limits names, or a label."""


def functions(text: str) -> tuple[Function, ...]:
    """The functions that a PTX module has a body of."""
    plain = COMMENT.sub(" ", text)
    begins = [match.start() for match in _BEGINNING.finditer(plain)]
    pieces = [plain[start:end] for start, end in zip(begins, [*begins[1:], len(plain)])]
    return tuple(_function(piece) for piece in pieces if "{" in piece.partition(";")[0])


def _function(text: str) -> Function:
    head, _, rest = text.partition("{")
    body = rest[: _closing_brace(rest)]
    name, threads = _NAME.search(head), _THREADS.search(head)
    assert name is not None, "it begins with .entry or .func"
    sizes = [int(size) for size in threads.groups() if size] if threads else [0]
    widths: dict[str, int] = {}
    statements = []
    for statement in _statements(body):
        if statement.text.startswith("."):
            widths.update(_widths(statement.text))
        else:
            statements.append(statement)
    return Function(name[1], ".entry" in head, math.prod(sizes), tuple(statements), widths)


def _closing_brace(text: str) -> int:
    """Return the position of the brace that closes one before the text."""
    depth = 1
    for match in re.finditer(r"[{}]", text):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.start()
    return len(text)


def _statements(body: str) -> Iterator[Statement]:
    line, labels = 0, list[str]()
    for piece in body.split(";"):
        for match in _PLACE.finditer(piece):
            line = int(match[1])
        words = [line for line in piece.splitlines() if not _PLACE.match(line.strip())]
        statement = " ".join(words).strip()
        while before := _BEFORE.match(statement):
            statement = statement[before.end() :]
            labels += [before[1]] if before[1] else []
        if statement:
            yield Statement(statement, line, tuple(labels))
            labels = []


def _widths(statement: str) -> Mapping[str, int]:
    if not statement.startswith(".reg"):
        return {}
    try:
        return declared(statement)
    except PtxError:  # a type that no instruction here computes with, such as .b128
        return {}


# The contents of the registers of a program's threads, as far as they follow from the threads'
# numbers alone.  The addresses of accesses to shared memory nearly always do: the compiler
# computes them from the thread's number and from numbers that are the same in every thread (loop
# counters, arguments, the program's id). Such an equal number is not known here; it is taken for 0,
# which moves the accesses of all threads alike. A register that is written in several places, as a
# variable of a loop is, has what it is given first.


Array = Any
"""A NumPy array or scalar."""

WARP = 32
"""Threads of a warp."""


class Unknown(Enum):
    """Why a register's value is not known."""

    EQUAL = "the same in every thread"
    ANY = "depends on data"


@dataclass(frozen=True)
class ThreadAccess:
    """The accesses of a program's threads at one instruction.

    Attributes:
        place: of the instruction among the function's statements.
        threads: how many there are.
        address: of every thread, in bytes; None if it depends on data.
        on: which threads take part; None if that depends on data.
    """

    place: int
    threads: int
    address: numpy.ndarray | None
    on: numpy.ndarray | None


class Threads:
    """The threads of a program that run one function.

    Args:
        function: a kernel; in a function that is called, arguments depend on data.
        threads: how many there are.
    """

    def __init__(self, function: Function, threads: int) -> None:
        self._function = function
        self._count = threads
        number = numpy.arange(threads, dtype=numpy.uint32)
        special = {
            "%tid.x": number,
            "%laneid": number % WARP,
            "%warpid": number // WARP,
            "%ntid.x": numpy.uint32(threads),
            "%WARP_SZ": numpy.uint32(WARP),
        }
        self._machine = ThreadState(function.widths, special, _NoMemory())
        self._declared = {*function.widths, *special}
        self._unknown: dict[str, Unknown] = {}

    def accesses(self, places: Collection[int]) -> Iterator[ThreadAccess]:
        """The threads' accesses at instructions that have an address, in the order of the text.

        Args:
            places: of the instructions among the function's statements.
        """
        statements = self._function.statements
        needed = self._needed(places)
        if _reads_ahead([statements[place].instruction for place in sorted(needed | set(places))]):
            for place in sorted(needed):  # The text is not in the order in which it runs.
                self._step(statements[place].instruction)
        for place, statement in enumerate(statements):
            if place in places:
                yield self._access(place, statement.instruction)
            if place in needed:
                self._step(statement.instruction)

    def _needed(self, places: Collection[int]) -> set[int]:
        """The instructions that the addresses and the guards at some places come from."""
        writers: dict[str, list[int]] = {}
        for place, statement in enumerate(self._function.statements):
            for name in _written(statement.instruction):
                writers.setdefault(name, []).append(place)
        needed: set[int] = set()
        waiting = [
            name
            for place in places
            for name in _address_and_guard(self._function.statements[place].instruction)
        ]
        seen = set(waiting)
        while waiting:
            for place in writers.get(waiting.pop(), ()):
                needed.add(place)
                for name in _read(self._function.statements[place].instruction):
                    if name not in seen:
                        seen.add(name)
                        waiting.append(name)
        return needed

    # One instruction

    def _access(self, place: int, instruction: Instruction) -> ThreadAccess:
        address = next(operand for operand in instruction.operands if isinstance(operand, Address))
        where = None
        if self._state(_names(address)) is not Unknown.ANY:
            where = numpy.broadcast_to(self._machine.address(address), self._count)
        return ThreadAccess(place, self._count, where, self._on(instruction))

    def _on(self, instruction: Instruction) -> numpy.ndarray | None:
        if instruction.guard is None:
            return numpy.ones(self._count, numpy.bool_)
        register, negated = instruction.guard
        state = self._state([register.name])
        if state is Unknown.ANY:
            return None
        if state is Unknown.EQUAL:  # All threads or none: this is about when it happens.
            return numpy.ones(self._count, numpy.bool_)
        on = self._machine.read(register, KINDS["pred"]) ^ negated
        return numpy.broadcast_to(on, self._count)

    def _step(self, instruction: Instruction) -> None:
        written = _written(instruction)
        unknown = self._result(instruction)
        for name in written:
            if unknown is None:
                self._unknown.pop(name, None)
            else:
                self._unknown[name] = unknown
                self._machine.forget(name)

    def _result(self, instruction: Instruction) -> Unknown | None:
        """Execute an instruction if that makes its result known; else return why it does not."""
        read = _read(instruction)
        state = self._state(read)
        if state is Unknown.ANY:
            return state
        if state is None and instruction.name in _BY_WARP:
            return _BY_WARP[instruction.name](self._machine, instruction, self._count)
        if all(self._is_equal(name) for name in read):
            known = state is None and instruction.name not in _FROM_ELSEWHERE
            return None if known and self._carry_out(instruction) else Unknown.EQUAL
        if instruction.name in _FROM_ELSEWHERE:
            return Unknown.ANY
        if state is Unknown.EQUAL and instruction.name not in _MOVE_ALIKE:
            return Unknown.ANY
        return None if self._carry_out(instruction) else Unknown.ANY

    def _carry_out(self, instruction: Instruction) -> bool:
        """Whether the machine can; what is not known is 0 to it."""
        try:
            step(self._machine, instruction, form_of(instruction))
        except PtxError:
            return False
        return True

    # What is known

    def _state(self, names: Sequence[str]) -> Unknown | None:
        states = {self._state_of(name) for name in names}
        return next((state for state in (Unknown.ANY, Unknown.EQUAL) if state in states), None)

    def _state_of(self, name: str) -> Unknown | None:
        if name in self._declared or not name.startswith("%"):  # a symbol stands for one address
            return self._unknown.get(name)
        return Unknown.ANY if name.startswith("%lanemask") else Unknown.EQUAL

    def _is_equal(self, name: str) -> bool:
        """Whether a register holds the same number in every thread."""
        state = self._state_of(name)
        if state is not None:
            return state is Unknown.EQUAL
        bits = numpy.asarray(self._machine.bits(Register(name)))
        return bits.ndim == 0 or bool((bits == bits[0]).all())


def _reads_ahead(instructions: Sequence[Instruction]) -> bool:
    """Whether an instruction reads what only a later one in the text writes."""
    everything = {name for instruction in instructions for name in _written(instruction)}
    written: set[str] = set()
    for instruction in instructions:
        if not everything.intersection(_read(instruction)) <= written:
            return True
        written.update(_written(instruction))
    return False


class _NoMemory:
    """Nothing that addresses depend on is read from memory here."""

    def load(self, _addresses: Array, _dtype: numpy.dtype, _mask: Array | None) -> Array:
        raise PtxError("a load")

    def store(self, _addresses: Array, _values: Array, _mask: Array | None) -> None:
        raise PtxError("a store")


_FROM_ELSEWHERE = frozenset(
    (
        "ld", "ldu", "ldmatrix", "atom", "shfl", "vote", "match", "redux", "activemask", "elect",
        "call", "mbarrier", "mma", "wgmma", "tcgen05", "clusterlaunchcontrol", "mapa", "getctarank",
        "tex", "isspacep",
    )
)  # fmt: skip
"""Instructions whose result comes from memory, other threads or units:
equal where what they take is equal."""

_MOVE_ALIKE = frozenset(("add", "sub", "or", "xor", "mad", "mov", "cvt", "cvta", "selp"))
"""Instructions through which an equal number moves a known one, the same way in every thread."""


def _elected(machine: ThreadState, instruction: Instruction, threads: int) -> Unknown | None:
    """`elect.sync d|p, mask`: one lane of each warp, here the first."""
    lane = numpy.arange(threads) % WARP
    machine.write(instruction.operands[1], lane == 0, KINDS["pred"])
    return None


def _shuffled(machine: ThreadState, instruction: Instruction, threads: int) -> Unknown | None:
    """`shfl.sync.idx.b32 d, a, lane, 31, mask`: what that lane of the warp has."""
    target, source, lane, clamp, *_ = instruction.operands
    if "idx" not in instruction.suffixes or getattr(clamp, "value", None) != WARP - 1:
        return Unknown.ANY
    kind = KINDS["b32"]
    values = numpy.broadcast_to(machine.read(source, kind), threads).reshape(-1, WARP)
    lanes = numpy.broadcast_to(machine.read(lane, kind), threads).reshape(-1, WARP) % WARP
    machine.write(
        target, numpy.take_along_axis(values, lanes.astype(numpy.int64), 1).reshape(-1), kind
    )
    return None


_BY_WARP = {"elect": _elected, "shfl": _shuffled}
"""Instructions whose result depends on other lanes, where what these hold is known."""


# Registers of an instruction

_WRITES_NOTHING = frozenset((
    "st", "stmatrix", "red", "cp", "bar", "barrier", "bra", "ret", "exit", "fence",
    "membar", "prefetch",
))  # fmt: skip
_MAY_WRITE_TWO = {"elect": 1, "shfl": 4, "setp": 2}
"""Instructions that may write `a|b`, and how many operands they read."""


def _names(operand: Operand) -> list[str]:
    match operand:
        case Register(name):
            return [name]
        case Vector(items):
            return [item.name for item in items if isinstance(item, Register)]
        case Address(Register(name)):
            return [name]
        case _:
            return []


def _results(instruction: Instruction) -> int:
    if instruction.name in _WRITES_NOTHING or not instruction.operands:
        return 0
    if instruction.name not in _MAY_WRITE_TWO:
        return 1
    combined = {"and", "or", "xor"}.intersection(instruction.suffixes)  # with one more predicate
    return len(instruction.operands) - _MAY_WRITE_TWO[instruction.name] - len(combined)


def _written(instruction: Instruction) -> list[str]:
    first = instruction.operands[: _results(instruction)]
    return [
        name for operand in first if not isinstance(operand, Address) for name in _names(operand)
    ]


def _read(instruction: Instruction) -> list[str]:
    rest = instruction.operands[_results(instruction) :]
    names = [name for operand in rest for name in _names(operand)]
    return names + ([instruction.guard[0].name] if instruction.guard else [])


def _address_and_guard(instruction: Instruction) -> list[str]:
    address = next(operand for operand in instruction.operands if isinstance(operand, Address))
    return _names(address) + ([instruction.guard[0].name] if instruction.guard else [])
