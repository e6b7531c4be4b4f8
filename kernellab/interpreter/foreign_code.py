"""Code in a kernel that is not Triton's: inline assembly, and functions of device libraries.

Common PTX and the vendors' device libraries are known here. What is not, a user can say in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy

from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import AddressSpace
from kernellab.interpreter.numerics.device_library import FUNCTIONS
from kernellab.interpreter.numerics.tiles import Active, Value, full
from kernellab.interpreter.ptx.kinds import resized
from kernellab.interpreter.ptx.parser import PtxError
from kernellab.interpreter.ptx.running import assembled, run

Meaning = TypeVar("Meaning", bound=Callable[..., Any])

_ASSEMBLY: dict[str, Callable[..., Any]] = {}
_SYMBOLS: dict[str, Callable[..., Any]] = {}


def inline_assembly(text: str) -> Callable[[Meaning], Meaning]:
    """Say what a piece of inline assembly computes, for the interpreter;
    a GPU runs the assembly itself.

        @kernellab.inline_assembly("lg2.approx.f32 $0, $1;")
        def _(x):
            return numpy.log2(x)

    The function takes one NumPy array for each argument of `tl.inline_asm_elementwise` and gives
    one array, or a tuple of one for each result, all element by element; arrays may have to be
    broadcast against each other. bfloat16 and fp8 come as ml_dtypes' types, unsigned integers as
    signed ones. It goes before what the interpreter knows itself.

    Args:
        text: the assembly as in the kernel; how much white space there is does not matter.

    Raises:
        ArgumentError: `text` is not a string, or the decorated object is not a function.
    """
    _check_name("text", text, '"lg2.approx.f32 $0, $1;"')

    def register(function: Meaning) -> Meaning:
        _check_function(function)
        _ASSEMBLY[_normalized(text)] = function
        return function

    return register


def device_function(symbol: str) -> Callable[[Meaning], Meaning]:
    """Say what a function of a device library computes, for the interpreter:
    `inline_assembly`, by symbol.

    @kernellab.device_function("__nv_my_function")
    def _(x, y):
        return numpy.hypot(x, y)

    Raises:
        ArgumentError: `symbol` is not a string, or the decorated object is not a function.
    """
    _check_name("symbol", symbol, '"__nv_my_function"')

    def register(function: Meaning) -> Meaning:
        _check_function(function)
        _SYMBOLS[symbol] = function
        return function

    return register


def _check_name(argument: str, given: Any, example: str) -> None:
    if not isinstance(given, str) or not given.strip():
        raise ArgumentError(
            f"{argument} must be a string that is not empty, got {shown(given)}.",
            advice=f"Give it as a string: {example}.",
        )


def _check_function(given: Any) -> None:
    if not callable(given):
        raise ArgumentError(
            f"The decorated object must be a function of NumPy arrays, got {shown(given)}.",
            advice="Put the decorator above such a function.",
        )


def _normalized(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


# Inline assembly


def check_assembly(text: str, constraints: str) -> None:
    """Nothing, where the text can be run.

    Raises:
        PtxError: it holds something that is not known.
    """
    if _normalized(text) not in _ASSEMBLY:
        assembled(text)
        _Constraints.read(constraints)


@dataclass(frozen=True)
class _Constraints:
    """Widths of the registers that stand for `$0`, `$1`, ...: outputs first.

    Attributes:
        outputs, inputs: in bits.
        tied: number of an input -> number of the output that starts with its value.
    """

    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    tied: dict[int, int]

    @staticmethod
    def read(text: str) -> _Constraints:
        """ "=r,=&l,f,0"."""
        letters = [part.strip() for part in text.split(",") if part.strip()]
        outputs = [part.lstrip("=&+") for part in letters if part[0] in "=+"]
        inputs = [part for part in letters if part[0] not in "=+~"]
        tied = {number: int(part) for number, part in enumerate(inputs) if part.isdigit()}
        kinds = [outputs[int(part)] if part.isdigit() else part for part in inputs]
        return _Constraints(tuple(map(_width, outputs)), tuple(map(_width, kinds)), tied)


_WIDTHS = {"r": 32, "f": 32, "h": 16, "l": 64, "d": 64, "c": 16, "b": 1}


def _width(letter: str) -> int:
    if letter not in _WIDTHS:
        raise PtxError(f"the constraint {letter!r} of inline assembly")
    return _WIDTHS[letter]


def assembly(
    text: str,
    constraints: str,
    pack: int,
    operands: Sequence[Value],
    dtypes: Sequence[numpy.dtype],
    shape: tuple[int, ...],
    space: AddressSpace,
    active: Active = None,
) -> tuple[Value, ...]:
    """Run inline assembly on every element, or on `pack` neighbors at a time.

    Args:
        operands: tiles of `shape`.
        dtypes: of the results.
        space: what loads and stores in the assembly reach.
    """
    meaning = _ASSEMBLY.get(_normalized(text))
    if meaning is not None:
        return _by_meaning(meaning, operands, dtypes)
    widths = _Constraints.read(constraints)
    rank = len(shape) if pack == 1 else 1
    packing = _Packing(pack, shape, operands)
    inputs: dict[str, Any] = {}
    registers = (register for operand in packing.operands for register in packing.split(operand))
    for number, (register, width) in enumerate(zip(registers, widths.inputs, strict=True)):
        inputs[f"${len(widths.outputs) + number}"] = resized(register, width)
        if number in widths.tied:
            inputs[f"${widths.tied[number]}"] = resized(register, width)
    outputs = {f"${number}": width for number, width in enumerate(widths.outputs)}
    results = iter(run(text, inputs, outputs, _GlobalMemory(space, rank, active)))
    return tuple(packing.joined(results, dtype) for dtype in dtypes)


class _Packing:
    """How the elements of tiles become 32-bit registers:
    `pack` neighbors go together, as many in a register as fit.
    """

    def __init__(self, pack: int, shape: tuple[int, ...], operands: Sequence[Value]) -> None:
        self.pack = pack
        self.shape = shape
        if pack == 1:
            self.operands = [numpy.asarray(operand) for operand in operands]
            return
        tiles = numpy.broadcast_arrays(*(full(operand, shape) for operand in operands))
        self.programs = tiles[0].shape[: tiles[0].ndim - len(shape)]
        self.operands = [self._grouped(tile) for tile in tiles]

    def _grouped(self, tile: Any) -> Any:
        """(programs, groups, pack); the last group is filled up with zeros."""
        rows = tile.reshape(*self.programs, -1)
        missing = -rows.shape[-1] % self.pack
        padded = numpy.pad(rows, [(0, 0)] * len(self.programs) + [(0, missing)])
        return padded.reshape(*self.programs, -1, self.pack)

    def split(self, operand: Any) -> Sequence[Any]:
        """The bits of an operand's registers."""
        bits = operand.view(f"u{operand.dtype.itemsize}")
        if self.pack == 1:
            return [bits]
        together = self._together(bits.dtype)
        registers = numpy.ascontiguousarray(bits).view(f"u{together * bits.itemsize}")
        return [registers[..., number] for number in range(registers.shape[-1])]

    def joined(self, registers: Any, dtype: numpy.dtype) -> Value:
        """The next result, from as many registers as it needs."""
        if self.pack == 1:
            element = _of_bits(next(registers), dtype)
            missing = len(self.shape) - element.ndim
            return element.reshape((1,) * missing + element.shape) if missing > 0 else element[()]
        together = self._together(dtype)
        parts = [next(registers) for _ in range(self.pack // together)]
        width = 8 * together * dtype.itemsize
        bits = numpy.stack([resized(part, width) for part in numpy.broadcast_arrays(*parts)], -1)
        elements = numpy.ascontiguousarray(bits).view(f"u{dtype.itemsize}").view(dtype)
        wanted = int(numpy.prod(self.shape))
        flat = elements.reshape(*elements.shape[:-2], -1)
        flat = numpy.broadcast_to(flat, (*self.programs, flat.shape[-1]))[..., :wanted]
        return flat.reshape(*self.programs, *self.shape)

    def _together(self, dtype: numpy.dtype) -> int:
        """How many elements share a register."""
        return min(max(4 // dtype.itemsize, 1), self.pack)


def _of_bits(register: Any, dtype: numpy.dtype) -> Any:
    bits = numpy.asarray(resized(register, 8 * dtype.itemsize))
    return (bits & 1).astype(dtype) if dtype == numpy.bool_ else bits.view(dtype)


@dataclass(frozen=True)
class _GlobalMemory:
    """Memory as assembly sees it: by addresses, checked like every access."""

    space: AddressSpace
    rank: int
    active: Active

    def load(self, addresses: Any, dtype: numpy.dtype, mask: Any) -> Any:
        """As `ptx.machine.Memory.load`."""
        elements = self.space.elements(dtype)
        return global_memory.load(elements, addresses, self.rank, mask=mask, active=self.active)

    def store(self, addresses: Any, values: Any, mask: Any) -> None:
        """As `ptx.machine.Memory.store`."""
        elements = self.space.elements(values.dtype)
        global_memory.store(elements, addresses, self.rank, values, mask=mask, active=self.active)


# Device libraries


def has_registered_functions() -> bool:
    """Whether users have registered what device functions or inline assembly compute."""
    return bool(_ASSEMBLY or _SYMBOLS)


def check_symbol(symbol: str) -> bool:
    """Whether the function is known."""
    return symbol in _SYMBOLS or symbol in FUNCTIONS


def call(symbol: str, operands: Sequence[Value], dtype: numpy.dtype) -> Value:
    """A function of a device library, of every element."""
    known = _SYMBOLS.get(symbol) or FUNCTIONS[symbol]
    return _by_meaning(known, operands, [dtype])[0]


def _by_meaning(
    meaning: Callable[..., Any], operands: Sequence[Value], dtypes: Sequence[numpy.dtype]
) -> tuple[Value, ...]:
    given = meaning(*map(numpy.asarray, operands))
    results = given if isinstance(given, tuple) else (given,)
    if len(results) != len(dtypes):
        raise ValueError(f"{meaning} gave {len(results)} results, and {len(dtypes)} are needed")
    return tuple(numpy.asarray(r).astype(dtype) for r, dtype in zip(results, dtypes))
