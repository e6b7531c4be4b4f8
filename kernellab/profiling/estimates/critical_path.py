"""How many cycles one warp takes that has a multiprocessor to itself: its instructions one after
the other, by the stall counts in their control codes, waiting for the scoreboards that they name.

Loads take a fixed time each, and copies past the registers are waited for by groups, so what a
pipelined loop hides is hidden here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.profiling.estimates.loops import CodeLoop, Executions
from kernellab.profiling.estimates.pipes import product_of
from kernellab.records import Instruction

_CYCLES: Mapping[str, float] = {
    "local load": 45.0,  # of a spilled register, which L1 answers
    "global atomic": 300.0,  # which L2 does
    "shared load": 30.0,
    "shared atomic": 30.0,
    "lanes": 24.0,
}
"""Cycles until a result is there, by the instruction's category."""
_OTHER_CYCLES = 22.0
"""Of special functions, conversions and all others."""
_BARRIER = 25.0
_TENSOR = 32.0


@dataclass
class _Clock:
    """Where a warp is."""

    now: float = 0.0
    boards: list[float] = field(default_factory=lambda: [0.0] * 6)
    """When each scoreboard is clear."""
    copied: list[float] = field(default_factory=list)
    """When each group of asynchronous copies has arrived, the oldest first."""
    copying: float = 0.0
    products: list[float] = field(default_factory=list)
    """When each group of products of a warp group is done."""
    multiplying: float = 0.0
    loaded: float = 0.0
    """When the last block of the copy engine has arrived."""

    skipped: float = 0.0
    """Cycles of iterations that are not followed, by which all of these are later."""


_WATCHED = 8
"""Turns of a loop that are followed; the others take as long as the last of these on average."""
_SETTLED = 6
"""The last turns: where several tiles are on their way, they come to two or three at once."""


class CriticalPath:
    """The way of one warp through a kernel."""

    def __init__(
        self,
        instructions: Sequence[Instruction],
        executions: Executions,
        memory: float,
        macs: float,
    ) -> None:
        """`memory` is the cycles of a load, `macs` the multiply-adds of 16 bits that the tensor
        cores of a multiprocessor do in a cycle.
        """
        self._instructions, self._executions = instructions, executions
        self._memory, self._macs = memory, macs
        self._times = executions.of_each

    def cycles(self) -> float:
        """From the first instruction to the last."""
        clock = _Clock()
        self._walk(0, len(self._instructions), self._executions.loops, 1.0, clock)
        return clock.now + clock.skipped

    def _walk(
        self, start: int, stop: int, loops: Sequence[CodeLoop], came: float, clock: _Clock
    ) -> None:
        by_first = {loop.first: loop for loop in loops}
        number = start
        while number < stop:
            loop = by_first.get(number)
            if loop is None:
                if came and self._times[number] / came >= _OFTEN:
                    self._issue(self._instructions[number], clock)
                number += 1
                continue
            self._turn(loop, came, clock)
            number = loop.last + 1

    def _turn(self, loop: CodeLoop, came: float, clock: _Clock) -> None:
        whole = int(loop.turns) if loop.turns >= 1 else int(loop.turns >= _OFTEN)
        ends = [clock.now + clock.skipped]
        for _ in range(min(whole, _WATCHED)):
            inside = [nested for nested in loop.inside if nested.first > loop.first]
            self._walk(loop.first, loop.last + 1, inside, came * loop.turns, clock)
            ends.append(clock.now + clock.skipped)
        if loop.turns > _WATCHED:
            each = (ends[-1] - ends[-1 - _SETTLED]) / _SETTLED
            clock.skipped += each * (loop.turns - _WATCHED)

    def _issue(self, instruction: Instruction, clock: _Clock) -> None:
        control, root = instruction.control, instruction.opcode.partition(".")[0]
        assert control is not None, "SASS has control codes"
        for board in control.waits_for:
            clock.now = max(clock.now, clock.boards[board])
        if root in ("DEPBAR", "WARPGROUP"):
            self._wait(instruction, clock)
        elif root == "SYNCS" and "TRYWAIT" in instruction.opcode:
            clock.now = max(clock.now, clock.loaded)
        elif root == "BAR":
            clock.now += _BARRIER
        done = clock.now + self._latency(instruction, root, clock)
        if control.write_barrier is not None:
            clock.boards[control.write_barrier] = max(done, clock.boards[control.write_barrier])
        if control.read_barrier is not None:
            read = clock.now + _READ_AFTER
            clock.boards[control.read_barrier] = max(read, clock.boards[control.read_barrier])
        clock.now += max(control.stall_cycles, 1)

    def _latency(self, instruction: Instruction, root: str, clock: _Clock) -> float:
        match instruction.category:
            case "global load":
                return self._memory
            case "async copy" if root == "LDGSTS":
                clock.copying = max(clock.copying, clock.now + self._memory)
            case "async copy" if root == "LDGDEPBAR":
                clock.copied.append(clock.copying)
            case "tma" if root.startswith(("UTMALDG", "UBLKCP")):
                clock.loaded = max(clock.loaded, clock.now + self._memory)
            case "matrix":
                return self._multiply(instruction, clock)
            case _:
                pass
        return _CYCLES.get(instruction.category, _OTHER_CYCLES)

    def _multiply(self, instruction: Instruction, clock: _Clock) -> float:
        product = product_of(instruction.opcode)
        if product is None or not product.asynchronous:
            return _TENSOR
        took = 4 * product.macs / self._macs * product.bits / 16
        begins = max(clock.now, clock.multiplying - _TENSOR)
        clock.multiplying = begins + took + _TENSOR
        if "gsb0" in instruction.operands:
            clock.products.append(clock.multiplying)
        return took

    def _wait(self, instruction: Instruction, clock: _Clock) -> None:
        """`DEPBAR.LE SB0, 0x2`, `WARPGROUP.DEPBAR.LE gsb0, 0x1`: until no more are on their way."""
        if "DEPBAR" not in instruction.opcode:
            return
        allowed = int(instruction.operands[1], 16) if len(instruction.operands) > 1 else 0
        groups = clock.products if instruction.opcode.startswith("WARPGROUP") else clock.copied
        if len(groups) > allowed:
            arrived = groups[: len(groups) - allowed]
            clock.now = max(clock.now, *arrived)
            del groups[: len(arrived)]


_OFTEN = 0.5
"""What runs less often than every second time is passed by."""
_READ_AFTER = 12.0
"""Cycles until a store or a load has read its operands."""
