"""`while` loops that do not end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.loop_reads import LoopReads, asks_memory_alone
from kernellab.checker.naming import name_of_result
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.interpreter.analyses.spin_loops import is_spin_loop
from kernellab.interpreter.numerics.tiles import Value, first_active
from kernellab.ir import scf
from kernellab.ir.locations import locate
from kernellab.ir.traits import global_effect, may_do_anything, touches_memory
from kernellab.ir.types import is_pointer, shape

_FREE_ITERATIONS = 32
"""So many iterations are only counted: nearly every loop ends before."""

_PATIENCE = 2
"""So many times the iterations of other loops one may take that waits for other programs:
a deadlock is found before."""


@dataclass
class _Going:
    """A loop that is under way.

    Attributes:
        iterations: how many it has taken.
        first: what it carries from iteration to iteration, after the first of them.
        kept, kept_at: the same after some later iteration, to be compared with.
        reads: what it has read since it is watched, where only that decides.
    """

    iterations: int = 0
    first: tuple[Value, ...] = ()
    kept: tuple[Value, ...] = ()
    kept_at: int = 0
    reads: LoopReads | None = None

    def forget(self) -> None:
        """Memory is another one than it was."""
        self.kept, self.kept_at = (), 0
        if self.reads is not None:
            self.reads.stale_turns = 0


class _Deciding(NamedTuple):
    """What decides whether a loop goes on.

    Attributes:
        carried: which of the carried values do, in this iteration or a later one.
        by_memory: whether what is loaded does.
        by_memory_alone: see `asks_memory_alone`.
    """

    carried: Sequence[int]
    by_memory: bool
    by_memory_alone: bool


class EndlessLoop(Detector):
    """Counts the iterations of `while` loops, and stops one that has come back to an earlier state,
    that reads nothing new any more, or has taken too many.
    """

    kinds = ("endless-loop",)
    guards = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._going: dict[tuple[Operation, int], _Going] = {}
        self._watched: dict[tuple[Operation, int], _Going] = {}
        """Those that go on for long, and are decided by memory."""
        self._before: Value | None = None
        self._known: dict[Operation, _Deciding | None] = {}
        self._most: dict[Operation, int] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        if isinstance(operation, scf.YieldOp):
            return isinstance(operation.parent_op(), scf.WhileOp)
        return isinstance(operation, scf.WhileOp)

    def computed(self, computed: Computed) -> None:
        """A loop turns back, or has ended."""
        key = id(computed.programs)
        if isinstance(computed.operation, scf.WhileOp):
            self._going.pop((computed.operation, key), None)
            self._watched.pop((computed.operation, key), None)
            return
        loop = computed.operation.parent_op()
        assert isinstance(loop, scf.WhileOp)
        going = self._going.setdefault((loop, key), _Going())
        going.iterations += 1
        if going.iterations == 1:
            going.first = tuple(computed.operands)
        if loop not in self._most:
            self._most[loop] = self.run.most_turns * (_PATIENCE if is_spin_loop(loop) else 1)
        if going.iterations >= self._most[loop]:
            self._stop(computed, loop, going, circle=None)
        deciding = self._deciding(loop)
        if deciding is None:
            return
        if going.iterations > _FREE_ITERATIONS or not deciding.carried:
            if deciding.by_memory and (loop, key) not in self._watched:
                going.reads = LoopReads() if deciding.by_memory_alone else None
                self._watched[loop, key] = going
                return
            self._look_for_circle(computed, loop, going, deciding.carried)
            if going.reads is not None and going.reads.is_exhausted():
                self._stop(computed, loop, going, circle=None)

    def before(self, access: Access) -> None:
        """What a loop waits for may be about to change."""
        if self._watched and access.action != "load":
            self._before = _held(access)

    def after(self, access: Access, found: Value | None) -> None:
        """A loop has read something, or memory has changed."""
        del found
        if not self._watched:
            return
        if access.action == "load":
            for (loop, _), going in self._watched.items():
                if going.reads is not None and loop.is_ancestor(access.operation):
                    going.reads.note(access)
        elif self._before is None or not _is_same(self._before, _held(access)):
            for going in self._watched.values():
                going.forget()

    def _look_for_circle(
        self, computed: Computed, loop: scf.WhileOp, going: _Going, deciding: Sequence[int]
    ) -> None:
        """As `scheduler.py` does: compare with iterations 1, 2, 4, 8, ... (R. P.
        Brent, BIT 20, 1980).
        """
        carried = _of_active(computed, deciding)
        if going.kept_at and all(map(_is_same, carried, going.kept)):
            self._stop(computed, loop, going, circle=going.iterations - going.kept_at)
        if going.iterations & (going.iterations - 1) == 0:
            going.kept, going.kept_at = carried, going.iterations

    def _deciding(self, loop: scf.WhileOp) -> _Deciding | None:
        """What decides whether the loop goes on; None where other programs may."""
        if loop not in self._known:
            self._known[loop] = _deciding(loop)
        return self._known[loop]

    def _stop(
        self, computed: Computed, loop: scf.WhileOp, going: _Going, circle: int | None
    ) -> None:
        frames = locate(loop.location).frames
        ids = sorted(computed.linear_ids().tolist())
        position = first_active(computed.active)
        carried = list(_carried(loop, going.first, computed.operands, position))
        finding = Finding.of(
            kind="endless-loop",
            message=_message(going, circle, carried),
            advice=_ADVICE + (_MORE_TURNS if circle is None else ""),
            position=frames[0] if frames else None,
            calls=tuple(reversed(frames[1:])),
            programs=tuple(self.run.program_id(one) for one in ids[:LISTED_PROGRAMS]),
            program_count=len(ids),
            values={one.name: one.now for one in carried},
        )
        raise Stopped(finding)


_ADVICE = (
    "Let each turn bring the loop nearer to its end: change what its condition asks (i += BLOCK), "
    "in the right direction."
)
_MORE_TURNS = (
    " Where a loop needs more turns than that, say how many: check(..., most_turns=...), or "
    "%tilecheck --most-turns N."
)


@dataclass(frozen=True)
class _Carried:
    """A number that a loop carries from iteration to iteration."""

    name: str
    first: Any
    now: Any
    decides: bool


def _carried(
    loop: scf.WhileOp, first: Sequence[Value], now: Sequence[Value], program: int
) -> Iterator[_Carried]:
    """The scalars with names, for one program."""
    asked = _made_of(yielded(loop.before.block)[0], loop)
    for argument, ended, before, after in zip(
        loop.before.block.args, yielded(loop.after.block), first, now
    ):
        name = name_of_result(ended) or name_of_result(argument)
        if name is not None and not shape(argument.type) and not is_pointer(argument.type):
            then, at_last = _of_program(before, program), _of_program(after, program)
            yield _Carried(name, then, at_last, argument in asked)


def _held(access: Access) -> Value:
    """What memory holds where an access goes, lanes that are off among it."""
    elements = access.buffer.elements
    return elements.take(access.index, mode="clip") if len(elements) else elements


def _deciding(loop: scf.WhileOp) -> _Deciding | None:
    """See `EndlessLoop._deciding`."""
    carried = list(loop.before.block.args)
    passed, ended = yielded(loop.before.block)[1:], yielded(loop.after.block)
    found: set[SSAValue] = set()
    by_memory = False
    pending = [yielded(loop.before.block)[0]]
    while pending:
        for value in _made_of(pending.pop(), loop) - found:
            found.add(value)
            if isinstance(value, OpResult) and loop.is_ancestor(value.op):
                memory = [op for op in value.op.walk() if touches_memory(op) or may_do_anything(op)]
                if any(global_effect(op) != "load" for op in memory) or (
                    memory and is_spin_loop(loop)
                ):
                    return None
                by_memory = by_memory or bool(memory)
            elif isinstance(value, BlockArgument) and value.block is loop.before.block:
                pending.append(ended[value.index])
            elif isinstance(value, BlockArgument) and value.block is loop.after.block:
                pending.append(passed[value.index])
    numbers = [number for number, argument in enumerate(carried) if argument in found]
    return _Deciding(numbers, by_memory, by_memory and asks_memory_alone(loop))


def _made_of(value: SSAValue, loop: scf.WhileOp) -> set[SSAValue]:
    """What a value is computed from within an iteration of the loop, itself among it."""
    found: set[SSAValue] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            if isinstance(value, OpResult) and loop.is_ancestor(value.op):
                pending += [operand for op in value.op.walk() for operand in op.operands]
    return found


def _message(going: _Going, circle: int | None, carried: Sequence[_Carried]) -> str:
    asked = [one for one in carried if one.decides]
    still = [one for one in asked if _is_same(one.first, one.now)]
    moving = [one for one in asked if one not in still]
    if circle == 1 and still and not moving:
        names = " and ".join(f"{one.name} = {one.now}" for one in still)
        return f"this loop never ends: no turn changes {names}, which its condition asks"
    if circle == 1:
        return "this loop never ends: no turn changes anything that its condition asks"
    if circle is not None:
        listed = f" ({', '.join(f'{one.name} = {one.now}' for one in asked)})" if asked else ""
        return f"this loop never ends: every {circle} turns it comes back to where it was{listed}"
    changes = [f"; {one.name} went from {one.first} to {one.now}" for one in moving]
    changes += [f"; {one.name} = {one.now} did not change" for one in still]
    if going.reads is not None and going.reads.stale_turns > 1:
        stale = f"the last {going.reads.stale_turns:,} read nothing that none before had read"
        changes.insert(0, f": {stale}, and what they find does not end it")
    return f"this loop was stopped after {going.iterations:,} turns{''.join(changes)}"


def _of_program(value: Value, program: int) -> Any:
    """A scalar's value for the program at a position in the batch."""
    array = numpy.asarray(value)
    if not array.ndim:
        return array.item()
    return array[program if len(array) > 1 else 0].item()


def _of_active(computed: Computed, deciding: Sequence[int]) -> tuple[Value, ...]:
    """What the loop carries and decides, of the programs that go on."""
    active = computed.active
    carried = [(computed.operands[one], computed.operation.operands[one]) for one in deciding]
    if active is None:
        return tuple(value for value, _ in carried)
    return tuple(
        numpy.asarray(value)[active]
        if numpy.ndim(value) > len(shape(operand.type)) and len(value) > 1
        else value
        for value, operand in carried
    )


def _is_same(one: Value, other: Value) -> bool:
    """Whether two values are the same, bit for bit."""
    if one is other:
        return True
    first, second = numpy.asarray(one), numpy.asarray(other)
    return (
        first.dtype == second.dtype
        and first.dtype.kind != "O"
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )
