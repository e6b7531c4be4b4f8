"""Find loops that do not end, or that take too long to run here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy
from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed, Event
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.common.containers import distinct, sparse_zeros
from kernellab.interpreter.codegen.analyses import (
    deciding_values,
    inside_of,
    is_spin_loop,
    taken_inside,
)
from kernellab.interpreter.codegen.indices import variable_of
from kernellab.interpreter.execution.bounds_advice import LaneValues
from kernellab.interpreter.tiles import Value, first_active
from kernellab.ir import flow, mlir
from kernellab.ir.flow import yielded
from kernellab.ir.operations import global_effect, locate, may_do_anything, touches_memory
from kernellab.ir.types import is_pointer, shape

_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "ne": "ne"}
_SIGNS = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "ne": "!="}


@dataclass(frozen=True)
class Counter:
    """A `while` loop that compares a counter, which changes by one step, with a fixed value.

    Attributes:
        carried: the counter's number among the carried values.
        name: the counter's name; "the counter" if it has none.
        comparison: the condition: "slt" for counter < bound.
        bits: the width of the counter.
    """

    carried: int
    name: str
    comparison: str
    bound: SSAValue
    step: SSAValue
    subtracts: bool
    bits: int

    def format(self, values: LaneValues) -> str:
        """Return, as text, how the counter changes: "i changes by -2 while i != 0"."""
        condition = f"{self.name} {_SIGNS[self.comparison]} {values.at(self.bound, ())}"
        return f"{self.name} changes by {self._step(values)} while {condition}"

    def iterations_left(self, now: int, values: LaneValues) -> float | None:
        """Return the loop's iterations left, which wrap; infinity if endless, None if unknown."""
        step, bound = self._step(values), values.at(self.bound, ())
        if step is None or bound is None:
            return None
        if self.comparison == "ne":
            return _until_equal(now, bound, step, self.bits)
        if self.comparison.startswith("sg"):  # as for the numbers with the other sign
            now, bound, step = -now, -bound, -step
        limit = bound + (self.comparison in ("sle", "sge"))
        if now >= limit:
            return 0
        if step == 0:
            return math.inf
        if step > 0:
            return -(-(limit - now) // step)
        return (now + (1 << (self.bits - 1))) // -step + 1  # below the least integer it wraps

    def _step(self, values: LaneValues) -> int | None:
        step = values.at(self.step, ())
        return -step if step is not None and self.subtracts else step


def counter_of(loop: mlir.WhileOp) -> Counter | None:
    """Return the counter that alone decides whether a loop continues, if there is one."""
    condition, *passed = yielded(loop.before.block)
    if not isinstance(condition, OpResult) or not isinstance(condition.op, mlir.CmpIOp):
        return None
    comparison = mlir.INTEGER_PREDICATES[condition.op.predicate.value.data]
    first, second = condition.op.operands
    if _is_fixed(first, loop):
        first, second, comparison = second, first, _MIRRORED.get(comparison, "")
    if comparison not in _SIGNS or not _is_fixed(second, loop):
        return None
    if not isinstance(first, BlockArgument) or first.block is not loop.before.block:
        return None
    changed = yielded(loop.after.block)[first.index]
    if not isinstance(changed, OpResult) or not isinstance(changed.op, mlir.AddIOp | mlir.SubIOp):
        return None
    counter, step = changed.op.operands
    subtracts = isinstance(changed.op, mlir.SubIOp)
    if not subtracts and _is_fixed(counter, loop):
        counter, step = step, counter
    if not isinstance(counter, BlockArgument) or counter.block is not loop.after.block:
        return None
    if passed[counter.index] is not first or not _is_fixed(step, loop):
        return None
    kind = first.type
    if not isinstance(kind, builtin.IntegerType):
        return None
    name = variable_of(changed) or variable_of(first) or "the counter"
    return Counter(first.index, name, comparison, second, step, subtracts, kind.width.data)


def trip_count(loop: mlir.ForOp, values: LaneValues) -> int | None:
    """Return how many iterations a running `for` loop has in all; None if it is not known."""
    bounds = [values.at(value, ()) for value in (loop.lower, loop.upper, loop.step)]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds) or not known[2]:
        return None
    return len(range(*known))


def _is_fixed(value: SSAValue, loop: Operation) -> bool:
    if isinstance(value, OpResult):
        return isinstance(value.op, mlir.ConstantOp) or not loop.is_ancestor(value.op)
    parent = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return parent is not None and not loop.is_ancestor(parent)


def _until_equal(now: int, bound: int, step: int, bits: int) -> float:
    """Return the least k with now + k * step = bound modulo 2^bits; infinity if there is none."""
    size = 1 << bits
    distance, common = (bound - now) % size, math.gcd(step, size)
    if distance % common:
        return math.inf
    return distance // common * pow(step // common, -1, size // common) % (size // common)


# Record what `while` loops read, to recognize a search that never ends.
#
# A loop whose condition depends only on loaded values, and not on a counter, continues as long
# as it loads the same values. If it reads no new element for some thousand iterations, and for
# twice as many as it needs to read all that it has read, it counts as endless. So does a loop
# that leaves its tensors, or whose elements are all masked off. Loops that other programs may
# end are different (`has_spin_loop` of `interpreter/codegen/analyses.py`).


_TURNS = 2_000
"""The least number of iterations without a new element; as in `scheduler.STRAY_ROUNDS`."""


@dataclass
class LoopReads:
    """The elements that a loop has read.

    Attributes:
        stale_turns: the number of iterations since it last read a new element.
    """

    stale_turns: int = 0
    _seen: dict[tuple[int, int], numpy.ndarray] = field(default_factory=dict)
    _turns: float = 0

    def note(self, access: CheckedAccess) -> None:
        elements = access.buffer.elements
        key = elements.__array_interface__["data"][0], elements.itemsize
        if key not in self._seen:
            self._seen[key] = sparse_zeros(len(elements), numpy.bool_)
        index = access.index
        if access.on is not None:
            index, on = numpy.broadcast_arrays(index, access.on)
            index = index[on]
        seen = self._seen[key]
        fresh = distinct(index[~seen[index]])
        if fresh.size:
            seen[fresh] = True
            lanes = math.prod(access.index.shape[access.index.ndim - access.rank :])
            self._turns += fresh.size / max(1, lanes)
            self.stale_turns = 0

    def is_exhausted(self) -> bool:
        """Count an iteration, and return whether the loop no longer reads anything new."""
        self.stale_turns += 1
        return self.stale_turns > max(_TURNS, 2 * self._turns)


def asks_memory_alone(loop: mlir.WhileOp) -> bool:
    """Return whether loaded values alone decide whether a loop continues."""
    ended = yielded(loop.after.block)
    pending, loads_decide = _sources(yielded(loop.before.block)[0], loop)
    order: dict[int, set[int]] = {}
    queue = set(pending)
    while queue:
        number = queue.pop()
        if number not in order:
            sources, loads = _sources(ended[number], loop)
            order[number] = set() if _hands_itself_on(number, loop) else sources
            loads_decide = loads_decide or loads
            queue |= order[number]
    if not loads_decide:
        return False
    while order:  # no value may depend on its own earlier values
        first = [number for number, sources in order.items() if not sources & order.keys()]
        if not first:
            return False
        for number in first:
            del order[number]
    return True


def _sources(value: SSAValue, loop: mlir.WhileOp) -> tuple[set[int], bool]:
    """Numbers of the carried values that a value is computed from; whether any of it was loaded."""

    def is_load(value: SSAValue) -> bool:
        op = next(inside_of(value, loop), None)
        return op is not None and not op.regions and global_effect(op) == "load"

    def step(value: SSAValue) -> Iterable[SSAValue]:
        if isinstance(value, BlockArgument):
            return flow.sources(value) if value.block is loop.after.block else ()
        return () if is_load(value) else taken_inside(value, loop)

    followed = list(flow.reached([value], step))
    computed = [value for value in followed if not is_load(value)]
    if any(touches_memory(op) for value in computed for op in inside_of(value, loop)):
        numbers = set(range(len(loop.before.block.args)))  # anything may decide
    else:
        numbers = {arg.index for arg in loop.before.block.args if arg in followed}
    return numbers, len(computed) < len(followed)


def _hands_itself_on(number: int, loop: mlir.WhileOp) -> bool:
    value: SSAValue = yielded(loop.after.block)[number]
    if isinstance(value, BlockArgument) and value.block is loop.after.block:
        value = yielded(loop.before.block)[1:][value.index]
    return value is loop.before.block.args[number]


_FREE_ITERATIONS = 32
"""This many iterations are only counted: nearly every loop ends before."""

_PATIENCE = 2
"""How many times other loops' iterations a waiting loop may take before it counts as endless."""


_FOR_PATIENCE = 10
"""A `for` loop may have this many times the iterations of a `while` loop: it ends."""

_LOOKS = 1_000
"""After this many accesses, or iterations without one, the length of a `for` loop is looked up."""


@dataclass
class LoopState:
    """A running loop.

    Attributes:
        iterations: how many it has taken.
        first: the values that it carries, after the first iteration.
        kept, kept_at: the same after a later iteration, and its number, for comparisons.
        reads: what it has read since it is watched, if only that decides whether it ends.
    """

    iterations: int = 0
    first: tuple[Value, ...] = ()
    kept: tuple[Value, ...] = ()
    kept_at: int = 0
    reads: LoopReads | None = None

    def forget(self) -> None:
        """Discard the earlier states: the memory changed."""
        self.kept, self.kept_at = (), 0
        if self.reads is not None:
            self.reads.stale_turns = 0


class _Deciding(NamedTuple):
    """The condition that decides whether a loop continues.

    Attributes:
        carried: which of the carried values decide it, in this iteration or a later one.
        by_memory_alone: see `asks_memory_alone`.
    """

    carried: Sequence[int]
    by_memory: bool
    by_memory_alone: bool


class EndlessLoop(Detector):
    """Stop a `while` loop that returns to a state, reads nothing new, or takes too long."""

    kinds = ("endless-loop",)
    guards = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._going: dict[tuple[Operation, int], LoopState] = {}
        self._watched: dict[tuple[Operation, int], LoopState] = {}
        """The loops that run for long and depend on memory."""
        self._before: Value | None = None
        self._most: dict[Operation, int] = {}
        self._for_events = 0

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        if isinstance(operation, mlir.YieldOp):
            loop = operation.parent_op()
            if isinstance(loop, mlir.ForOp):  # the others are noticed by their accesses
                return not any(map(touches_memory, loop.walk()))
            return isinstance(loop, mlir.WhileOp)
        return isinstance(operation, mlir.WhileOp)

    def computed(self, computed: Computed) -> None:
        """Count an iteration, or forget a loop that has ended."""
        key = id(computed.programs)
        if isinstance(computed.operation, mlir.WhileOp):
            self._going.pop((computed.operation, key), None)
            self._watched.pop((computed.operation, key), None)
            return
        loop = computed.operation.parent_op()
        if isinstance(loop, mlir.ForOp):
            self._look_at_for(computed)
            return
        assert isinstance(loop, mlir.WhileOp)
        going = self._going.setdefault((loop, key), LoopState())
        going.iterations += 1
        if going.iterations == 1:
            going.first = tuple(computed.operands)
        if loop not in self._most:
            self._most[loop] = self.run.most_turns * (_PATIENCE if is_spin_loop(loop) else 1)
        if going.iterations >= self._most[loop]:
            self._stop(computed, loop, going, circle=None)
        if going.iterations == _FREE_ITERATIONS:
            self._look_ahead(computed, loop, going)
        deciding = _deciding(loop)
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

    def before(self, access: CheckedAccess) -> None:
        """Record the memory that an access may change."""
        self._look_at_for(access)
        if self._watched and access.action != "load":
            self._before = _held(access)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        """Record what a loop read, or that the memory changed."""
        if not self._watched:
            return
        if access.action == "load":
            for (loop, _), going in self._watched.items():
                if going.reads is not None and loop.is_ancestor(access.operation):
                    going.reads.note(access)
        elif self._before is None or not _is_same(self._before, _held(access)):
            for going in self._watched.values():
                going.forget()

    def _look_ahead(self, computed: Computed, loop: mlir.WhileOp, going: LoopState) -> None:
        """Stop a loop whose counter never ends it, or only after too many iterations."""
        counter = _counter(loop)
        if counter is None:
            return
        now = numpy.asarray(computed.operands[counter.carried]).reshape(-1)
        programs = [0] if computed.active is None else numpy.flatnonzero(computed.active).tolist()
        if computed.active is None and len(now) > 1:
            programs = list(range(len(now)))
        for program in programs[:_FEW_PROGRAMS]:
            values = LaneValues(computed.frame, program, self.run.code, self.run.call)
            left = counter.iterations_left(int(now[program if len(now) > 1 else 0]), values)
            if left is not None and left > self._most[loop] - going.iterations:
                how = counter.format(values)
                message = f"this loop never ends: {how}"
                if left < math.inf:
                    message = f"this loop needs {int(left):,} more iterations: {how}"
                self._stop(computed, loop, going, circle=None, message=message)

    def _look_at_for(self, event: Event) -> None:
        """Stop a `for` loop around an operation if it has too many iterations."""
        self._for_events += 1
        if self._for_events % _LOOKS:
            return
        most = _FOR_PATIENCE * self.run.most_turns
        loop = event.operation.parent_op()
        while loop is not None:
            if isinstance(loop, mlir.ForOp):
                program = first_active(event.active)
                values = LaneValues(event.frame, program, self.run.code, self.run.call)
                number = trip_count(loop, values)
                if number is not None and number > most:
                    ids = sorted(event.linear_ids().tolist())
                    self._raise(
                        loop,
                        f"this for loop has {number:,} iterations, and a check runs at most "
                        f"{most:,}",
                        f"Check the bounds of its range.{_MORE_TURNS}",
                        ids,
                        {},
                    )
            loop = loop.parent_op()

    def _look_for_circle(
        self, computed: Computed, loop: mlir.WhileOp, going: LoopState, deciding: Sequence[int]
    ) -> None:
        """Compare the state with that of iterations 1, 2, 4, 8, ... (R. P. Brent, BIT 20, 1980)."""
        carried = _of_active(computed, deciding)
        if going.kept_at and all(map(_is_same, carried, going.kept)):
            self._stop(computed, loop, going, circle=going.iterations - going.kept_at)
        if going.iterations & (going.iterations - 1) == 0:
            going.kept, going.kept_at = carried, going.iterations

    def _stop(
        self,
        computed: Computed,
        loop: mlir.WhileOp,
        going: LoopState,
        circle: int | None,
        message: str = "",
    ) -> None:
        ids = sorted(computed.linear_ids().tolist())
        position = first_active(computed.active)
        carried = list(_carried(loop, going.first, computed.operands, position))
        more = _MORE_TURNS if circle is None and "never ends" not in message else ""
        self._raise(
            loop,
            message or _message(going, circle, carried),
            _ADVICE + more,
            ids,
            {variable.name: variable.now for variable in carried},
        )

    def _raise(
        self, loop: Operation, message: str, advice: str, ids: list[int], values: dict[str, Any]
    ) -> None:
        finding = Finding.of(
            kind="endless-loop",
            message=message,
            advice=advice,
            places=locate(loop.location).frames[::-1],
            programs=tuple(map(self.run.program_id, ids[:LISTED_PROGRAMS])),
            program_count=len(ids),
            values=values,
        )
        raise Stopped(finding)


_FEW_PROGRAMS = 256
"""The counters of this many programs of a batch are looked at."""

_counter = lru_cache(maxsize=32)(counter_of)


_ADVICE = (
    "Update a variable of the loop's condition in each iteration (i += BLOCK), in the direction "
    "that ends the loop."
)
_MORE_TURNS = (
    " If the loop needs more iterations, raise the limit: check(..., most_turns=...), or "
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
    loop: mlir.WhileOp, first: Sequence[Value], now: Sequence[Value], program: int
) -> Iterator[_Carried]:
    condition = yielded(loop.before.block)[0]
    deciding = set(flow.reached([condition], lambda value: taken_inside(value, loop)))
    for argument, ended, before, after in zip(
        loop.before.block.args, yielded(loop.after.block), first, now
    ):
        name = variable_of(ended) or variable_of(argument)
        if name is not None and not shape(argument.type) and not is_pointer(argument.type):
            then, at_last = _of_program(before, program), _of_program(after, program)
            yield _Carried(name, then, at_last, argument in deciding)


def _held(access: CheckedAccess) -> Value:
    """Return the memory that an access goes to, masked elements included."""
    elements = access.buffer.elements
    return elements.take(access.index, mode="clip") if len(elements) else elements


@lru_cache(maxsize=32)
def _deciding(loop: mlir.WhileOp) -> _Deciding | None:
    """Return what decides whether the loop continues; None if other programs may decide it."""
    sources = set(deciding_values(loop))
    inside = (op for value in sources for op in inside_of(value, loop))
    memory = [op for op in inside if touches_memory(op) or may_do_anything(op)]
    if any(global_effect(op) != "load" for op in memory) or (memory and is_spin_loop(loop)):
        return None
    numbers = [arg.index for arg in loop.before.block.args if arg in sources]
    by_memory = bool(memory)
    return _Deciding(numbers, by_memory, by_memory and asks_memory_alone(loop))


def _message(going: LoopState, circle: int | None, carried: Sequence[_Carried]) -> str:
    deciding = [variable for variable in carried if variable.decides]
    still = [variable for variable in deciding if _is_same(variable.first, variable.now)]
    moving = [variable for variable in deciding if variable not in still]
    if circle == 1 and still and not moving:
        names = " and ".join(f"{variable.name} = {variable.now}" for variable in still)
        return f"this loop never ends: no iteration changes {names}, which its condition uses"
    if circle == 1:
        return "this loop never ends: no iteration changes anything that its condition uses"
    if circle is not None:
        state = ", ".join(f"{variable.name} = {variable.now}" for variable in deciding)
        listed = f" ({state})" if state else ""
        return (
            f"this loop never ends: it returns to the same state every {circle} iterations{listed}"
        )
    changes = [
        f"; {variable.name} went from {variable.first} to {variable.now}" for variable in moving
    ]
    changes += [f"; {variable.name} = {variable.now} did not change" for variable in still]
    if going.reads is not None and going.reads.stale_turns > 1:
        changes.insert(
            0,
            f": the last {going.reads.stale_turns:,} iterations read only elements that earlier "
            "iterations had read, and their values do not end the loop",
        )
    return f"this loop was stopped after {going.iterations:,} iterations{''.join(changes)}"


def _of_program(value: Value, program: int) -> Any:
    array = numpy.asarray(value)
    if not array.ndim:
        return array.item()
    return array[program if len(array) > 1 else 0].item()


def _of_active(computed: Computed, deciding: Sequence[int]) -> tuple[Value, ...]:
    """Return the carried values that decide, of the programs that are still in the loop."""
    active = computed.active
    operands = computed.operation.operands
    carried = [(computed.operands[number], operands[number]) for number in deciding]
    if active is None:
        return tuple(value for value, _ in carried)
    return tuple(
        numpy.asarray(value)[active]
        if numpy.ndim(value) > len(shape(operand.type)) and len(value) > 1
        else value
        for value, operand in carried
    )


def _is_same(value: Value, other: Value) -> bool:
    if value is other:
        return True
    first, second = numpy.asarray(value), numpy.asarray(other)
    return (
        first.dtype == second.dtype
        and first.dtype.kind != "O"
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )
