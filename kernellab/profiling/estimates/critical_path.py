"""How many cycles one warp takes that has a multiprocessor to itself: its instructions one after
the other, by the stall counts in their control codes, waiting for the scoreboards that they name.

Loads take a fixed time each, and copies past the registers are waited for by groups, so what a
pipelined loop hides is hidden here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernellab.profiling.estimates.loops import CodeLoop, Executions
from kernellab.profiling.estimates.pipes import product_of
from kernellab.records import Instruction


@dataclass(frozen=True)
class Latencies:
    """Cycles until a result is there."""

    memory: float
    """Of a load."""
    near: float = 45.0
    """Of one of a spilled register, which L1 answers."""
    cache: float = 300.0
    """Of an atomic, which L2 does."""
    shared: float = 30.0
    lanes: float = 24.0
    special: float = 22.0
    barrier: float = 25.0
    tensor: float = 32.0
    macs: float = 2048.0
    """Multiply-adds of 16 bits that the tensor cores of a multiprocessor do in a cycle."""


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

    def later(self, cycles: float) -> None:
        """Move everything."""
        self.now += cycles
        self.boards = [one + cycles for one in self.boards]
        self.copied = [one + cycles for one in self.copied]
        self.products = [one + cycles for one in self.products]
        self.copying += cycles
        self.multiplying += cycles
        self.loaded += cycles


_WATCHED = 8
"""Turns of a loop that are followed; the others take as long as the last of these on average."""
_SETTLED = 6
"""The last turns: where several tiles are on their way, they come to two or three at once."""


class CriticalPath:
    """The way of one warp through a kernel."""

    def __init__(
        self, instructions: Sequence[Instruction], executions: Executions, latencies: Latencies
    ) -> None:
        self._instructions, self._executions = instructions, executions
        self._latencies = latencies
        self._times = executions.of_each
        self._around = [executions.around(number) for number in range(len(instructions))]

    def cycles(self) -> float:
        """From the first instruction to the last."""
        clock = _Clock()
        self._walk(0, len(self._instructions), self._executions.loops, 1.0, clock)
        return clock.now

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
        ends = [clock.now]
        for _ in range(min(whole, _WATCHED)):
            inside = [one for one in loop.inside if one.first > loop.first]
            self._walk(loop.first, loop.last + 1, inside, came * loop.turns, clock)
            ends.append(clock.now)
        if loop.turns > _WATCHED:
            each = (ends[-1] - ends[-1 - _SETTLED]) / _SETTLED
            clock.later(each * (loop.turns - _WATCHED))

    def _issue(self, one: Instruction, clock: _Clock) -> None:
        control, root = one.control, one.opcode.partition(".")[0]
        assert control is not None, "SASS has control codes"
        for board in control.waits_for:
            clock.now = max(clock.now, clock.boards[board])
        if root in ("DEPBAR", "WARPGROUP"):
            self._wait(one, clock)
        elif root == "SYNCS" and "TRYWAIT" in one.opcode:
            clock.now = max(clock.now, clock.loaded)
        elif root == "BAR":
            clock.now += self._latencies.barrier
        done = clock.now + self._latency(one, root, clock)
        if control.write_barrier is not None:
            clock.boards[control.write_barrier] = max(done, clock.boards[control.write_barrier])
        if control.read_barrier is not None:
            read = clock.now + _READ_AFTER
            clock.boards[control.read_barrier] = max(read, clock.boards[control.read_barrier])
        clock.now += max(control.stall_cycles, 1)

    def _latency(self, one: Instruction, root: str, clock: _Clock) -> float:
        known = self._latencies
        match one.category:
            case "global load":
                return known.memory
            case "global atomic":
                return known.cache
            case "local load":
                return known.near
            case "shared load" | "shared atomic":
                return known.shared
            case "lanes":
                return known.lanes
            case "special function" | "conversion" | "uniform":
                return known.special
            case "async copy" if root == "LDGSTS":
                clock.copying = max(clock.copying, clock.now + known.memory)
            case "async copy" if root == "LDGDEPBAR":
                clock.copied.append(clock.copying)
            case "tma" if root.startswith(("UTMALDG", "UBLKCP")):
                clock.loaded = max(clock.loaded, clock.now + known.memory)
            case "matrix":
                return self._multiply(one, clock)
            case _:
                pass
        return known.special

    def _multiply(self, one: Instruction, clock: _Clock) -> float:
        product = product_of(one.opcode)
        if product is None or not product.asynchronous:
            return self._latencies.tensor
        took = 4 * product.macs / self._latencies.macs * product.bits / 16
        begins = max(clock.now, clock.multiplying - self._latencies.tensor)
        clock.multiplying = begins + took + self._latencies.tensor
        if "gsb0" in one.operands:
            clock.products.append(clock.multiplying)
        return took

    def _wait(self, one: Instruction, clock: _Clock) -> None:
        """`DEPBAR.LE SB0, 0x2`, `WARPGROUP.DEPBAR.LE gsb0, 0x1`: until no more are on their way."""
        if "DEPBAR" not in one.opcode:
            return
        allowed = int(one.operands[1], 16) if len(one.operands) > 1 else 0
        groups = clock.products if one.opcode.startswith("WARPGROUP") else clock.copied
        if len(groups) > allowed:
            arrived = groups[: len(groups) - allowed]
            clock.now = max(clock.now, *arrived)
            del groups[: len(arrived)]


_OFTEN = 0.5
"""What runs less often than every second time is passed by."""
_READ_AFTER = 12.0
"""Cycles until a store or a load has read its operands."""
