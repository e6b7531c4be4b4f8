"""Functions that generated code calls besides numbers and memory: assertions, prints, and
groups of warps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, TypeAlias

import numpy

from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory import shared_memory
from kernellab.interpreter.memory.shared_memory import Waiting
from kernellab.interpreter.tiles import Active, LaneFault, Value, full, lanes_at_fault

# What generated code calls for `tl.device_assert` and `tl.device_print`.


@dataclass
class FailedAssertion(LaneFault):
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
    size = array.dtype.itemsize
    bits = numpy.asarray(array).view(f"u{size}")
    return numpy.array2string(bits, formatter={"int": lambda number: f"0x{number:0{2 * size}x}"})


def _of_program(value: Value, shape: tuple[int, ...], program: int) -> Any:
    array = full(value, shape)
    if array.ndim > len(shape):
        array = array[program if len(array) > 1 else 0]
    return array


# Groups of warps that run separate code: coroutines, each of which runs until it has to wait at
# a barrier.


Group: TypeAlias = "GeneratorType[Waiting, None, Any]"


Turn: TypeAlias = Callable[[int, Group], AbstractContextManager[Any]]
"""A context in which a group runs, or its wait is queried."""


def run(groups: tuple[Group, ...], turn: Turn = lambda *_: nullcontext()) -> Any:
    """Run the groups in turns until all have ended; return the default group's result. It is the
    first, and runs last in each turn, since it often waits for what the others load.

    Args:
        turn: a context manager that is entered for each turn of a group.

    Raises:
        PhaseNeverCompletes: all that are left wait; raised where the first of them does.
    """
    result: Any = None
    live: dict[int, Waiting | None] = dict.fromkeys(range(len(groups)))

    def is_ready(number: int) -> bool:
        wait = live[number]
        with turn(number, groups[number]):
            return wait is None or wait.is_over()

    while live:
        ready = [number for number in live if is_ready(number)]
        if not ready:
            _stop(groups, live, turn)
        for number in reversed(ready):
            with turn(number, groups[number]):
                try:
                    wait = next(groups[number])
                    while number and wait.is_over():
                        wait = next(groups[number])
                    live[number] = wait
                except StopIteration as end:
                    del live[number]
                    result = end.value if number == 0 else result
    return result


def _stop(groups: tuple[Group, ...], live: dict[int, Waiting | None], turn: Turn) -> None:
    first, *others = (_stuck(groups[number], wait) for number, wait in live.items())
    first.others = tuple(each for each in others if each.program == first.program)
    number = next(iter(live))
    with turn(number, groups[number]):
        groups[number].throw(first)


def _stuck(group: Group, wait: Waiting | None) -> shared_memory.PhaseNeverCompletes:
    assert wait is not None
    try:
        shared_memory.wait(wait.barrier, wait.phase, wait.active)
    except shared_memory.PhaseNeverCompletes as stuck:
        while isinstance(group.gi_yieldfrom, GeneratorType):  # code for stepping calls functions
            group = group.gi_yieldfrom
        frame = group.gi_frame
        assert frame is not None, "a group that waits has not ended"
        stuck.place = frame.f_code, frame.f_lasti
        return stuck
    raise AssertionError("a group of warps whose wait is over was not ready")
