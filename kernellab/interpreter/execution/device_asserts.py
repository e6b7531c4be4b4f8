"""What generated code calls for `tl.device_assert` and `tl.device_print`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.lane_fault import LaneFault, lanes_at_fault
from kernellab.interpreter.numerics.tiles import (
    Active,
    Value,
    full,
)


@dataclass
class FailedAssertion(LaneFault):
    """An assertion that does not hold."""

    message: str


def check(condition: Value, message: str, rank: int, active: Active = None) -> None:
    """Raise FailedAssertion at the first lane of an active program where `condition` is false."""
    failed = ~numpy.asarray(condition, numpy.bool_)
    if active is not None:
        failed = failed & active.reshape((-1,) + (1,) * rank)
    if failed.any():
        raise FailedAssertion(message, **lanes_at_fault(failed, rank))


def show(
    prefix: str,
    values: tuple[tuple[Value, tuple[int, ...], bool], ...],
    programs: Programs,
    active: Active = None,
) -> None:
    """Print the values of every active program, program by program, as NumPy prints arrays.

    Args:
        values: each with its shape, and whether its bits are shown, in hexadecimal.
    """
    for program in range(programs.count):
        if active is not None and not active[program]:
            continue
        shown = [
            _hexadecimal(array) if hexadecimal else str(array)
            for value, shape, hexadecimal in values
            for array in [_of_program(value, shape, program)]
        ]
        print(f"{programs.name(program)}{prefix}{', '.join(shown)}")


def _hexadecimal(array: numpy.ndarray) -> str:
    """The bits of each element."""
    size = array.dtype.itemsize
    bits = numpy.asarray(array).view(f"u{size}")
    return numpy.array2string(bits, formatter={"int": lambda number: f"0x{number:0{2 * size}x}"})


def _of_program(value: Value, shape: tuple[int, ...], program: int) -> Any:
    array = full(value, shape)
    if array.ndim > len(shape):
        array = array[program if len(array) > 1 else 0]
    return array
