"""Turns for programs that wait for each other, or are preempted.

Each program is a coroutine. Its turn continues until it ends, or until a spin loop turns back.
Programs are admitted in the launch's order: the first one alone, and when those that are admitted
all wait, as many more as there are waiting. From then on all take their turns round after round, in
the order of their admission. So a program that finds every lock free runs from start to end before
the next one begins, and few programs are alive at a time, however large the grid.

A program waits when its turn changed nothing in memory and did not end it. A round in which all
wait is silent. In silence, nothing new becomes visible: a program whose variables come back to what
they were is in a cycle, and if all are, that is a deadlock. Variables that only count do not matter
(`idle_variables`). A program whose count decides when it gives up is not in a cycle; it gets
`SILENT_ROUNDS`. One whose accesses leave their tensors, if a checker lets the run continue, gets
`STRAY_ROUNDS`: no value that it reads there can end its loop.

Code that preempts may stop a program elsewhere too. Its programs are all admitted at once, and take
their turns as `preempted` decides; those that then wait, or are left, continue as described above.
"""

from __future__ import annotations

import ast
import functools
import itertools
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy

from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.observers import Reading, WatchedMemory

# A program as a coroutine: it runs until it ends or stops, and runs on later.


Coroutine: TypeAlias = "types.GeneratorType[bool | None, None, None]"
"""Gives None if a spin loop turns back, True at a switch point (`Emitter.may_switch`)."""

Step = tuple[Programs, Callable[[], object]]
"""A batch of programs, and what to call to run it, or to run it on."""


@dataclass(frozen=True)
class Waiting:
    """A program that waits.

    Attributes:
        programs: the batch of this one program.
        code, instruction: where in the generated code it waits.
        reading: what it read last.
    """

    programs: Programs
    code: types.CodeType
    instruction: int
    reading: Reading | None


class RunningProgram:
    """A program that has been admitted.

    Attributes:
        changed: whether its latest turn changed memory.
        strayed: whether its latest turn made an access that left its tensor.
        turned_back: whether its latest turn ended where a spin loop turns back.
        ended: whether it has run to its end.
    """

    def __init__(self, programs: Programs, coroutine: Coroutine) -> None:
        self.programs = programs
        self.coroutine = coroutine
        self.changed = self.strayed = self.turned_back = self.ended = False
        self._reading: Reading | None = None
        self._variables: dict[str, Any] = {}

    def turn(self, memory: WatchedMemory) -> None:
        """Run it until it ends, or until a spin loop turns back."""
        self._go_on(memory, stops_at_switch_points=False)

    def step(self, memory: WatchedMemory) -> None:
        """The same, but only up to the next switch point."""
        self._go_on(memory, stops_at_switch_points=True)

    def _go_on(self, memory: WatchedMemory, *, stops_at_switch_points: bool) -> None:
        memory.changed = memory.strayed = False
        stop = next(self.coroutine, _END)
        while stop is True and not stops_at_switch_points:
            stop = next(self.coroutine, _END)
        self.ended, self.turned_back = stop is _END, stop is None
        self.changed, self.strayed = memory.changed, memory.strayed
        self._reading = memory.reading

    def comes_round(self, silent_rounds: int, idle: Collection[str]) -> bool:
        """Whether its variables, except for the idle ones, are as at an earlier end of a turn in
        this silence.

        Call it after every silent round, from the first on. It compares with rounds 1, 2, 4, 8,
        ..., so that it finds a cycle of any length (R. P. Brent, An improved Monte Carlo
        factorization algorithm, BIT 20, 1980).
        """
        frame = self._frame()
        variables = {name: value for name, value in frame.f_locals.items() if name not in idle}
        variables["the instruction"] = frame.f_lasti
        same = silent_rounds > 1 and _are_same(variables, self._variables)
        if silent_rounds & (silent_rounds - 1) == 0:
            self._variables = variables
        return same

    def waiting(self) -> Waiting:
        frame = self._frame()
        return Waiting(self.programs, frame.f_code, frame.f_lasti, self._reading)

    def _frame(self) -> types.FrameType:
        frame = self.coroutine.gi_frame
        assert frame is not None, "only a program that has not ended has a frame"
        return frame


_END: Any = object()


def _are_same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(
        _is_same(value, second[name]) for name, value in first.items()
    )


def _is_same(left: Any, right: Any) -> bool:
    """Whether two values of one variable are the same, bit for bit."""
    if left is right:
        return True
    if isinstance(left, types.FunctionType) and isinstance(right, types.FunctionType):
        return left.__code__ is right.__code__
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    first, second = numpy.asarray(left), numpy.asarray(right)
    return (
        first.dtype == second.dtype
        and first.dtype.kind != "O"
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )


# Programs that are stopped at their switch points, where others continue: what a GPU may do with
# them, and programs that run one after the other never show.
#
# All programs are admitted at once. They take turns, each up to its next switch point: round
# after round, which keeps them abreast of each other; or by chance, one of them many turns in a
# row now and then, so that it gets far ahead while others are stopped. A program that waits for
# another has no turn until memory changes.


MOST_TURNS = 5_000
"""The most turns in which a run preempts programs: faults show early, and long waits end without
preemption."""


@dataclass(frozen=True)
class Preemption:
    """Which program continues at a switch point.

    Attributes:
        turns: "rounds", all of them one after the other, again and again; "there and back", the
            same, every second round backwards; or at most this number of turns in a row, of a
            program that is chosen at random.
        seed: of that choice.
    """

    turns: Literal["rounds", "there and back"] | int
    seed: int = 0


@dataclass(frozen=True)
class Residency:
    """How many programs fit on a GPU at a time: the next ones begin as others end."""

    most: int


def preempted(
    programs: Sequence[RunningProgram], memory: WatchedMemory, preemption: Preemption
) -> Iterator[Step]:
    """Yield one turn after the other, each to be run before the next is requested, until all
    programs have ended or wait, or `MOST_TURNS` are over.
    """
    still = _Stillness(programs)
    match preemption.turns:
        case int(most):
            chosen = _by_chance(still, most, preemption.seed)
        case turns:
            chosen = _in_rounds(still, turns_round=turns == "there and back")
    for _, program in zip(range(MOST_TURNS), chosen):
        yield program.programs, functools.partial(program.step, memory)
        still.note(program)


class _Stillness:
    """Which programs wait: those whose spin loop turned back twice while memory stayed as it was.

    Attributes:
        programs: those that take turns.
    """

    def __init__(self, programs: Sequence[RunningProgram]) -> None:
        self.programs = programs
        self._changes = 0
        self._turned_back: dict[RunningProgram, int] = {}
        self._waiting: dict[RunningProgram, int] = {}

    def note(self, program: RunningProgram) -> None:
        self._changes += program.changed
        if program.turned_back:
            if self._turned_back.get(program) == self._changes:
                self._waiting[program] = self._changes
            self._turned_back[program] = self._changes

    def may_go_on(self, program: RunningProgram) -> bool:
        """Whether a turn of a program may have an effect."""
        return not program.ended and self._waiting.get(program) != self._changes


def _in_rounds(still: _Stillness, *, turns_round: bool) -> Iterator[RunningProgram]:
    order = still.programs
    goes_on = True
    while goes_on:
        goes_on = False
        for program in order:
            if still.may_go_on(program):
                goes_on = True
                yield program
        order = order[::-1] if turns_round else order


def _by_chance(still: _Stillness, most: int, seed: int) -> Iterator[RunningProgram]:
    """Numbers of turns in a row are powers of two, so that small ones are as frequent as large."""
    chance = numpy.random.default_rng(seed)
    while ready := [program for program in still.programs if still.may_go_on(program)]:
        program = ready[chance.integers(len(ready))]
        for _ in range(1 << chance.integers(most.bit_length())):
            if not still.may_go_on(program):
                break
            yield program


# Variables that change while a program waits, and decide nothing: the number of its tries.
#
# A waiting program is in a cycle if the values that decide return to an earlier state: those that a
# loop's condition, its reads and its writes are computed from. Variables that only count may
# change. They are found in the generated code, whose variables the scheduler compares.


_WITHOUT_EFFECT = {
    "tiles": {
        "merge", "narrowed", "splat", "unsplat", "expand_dims", "make_range", "select", "full",
    },
    "numpy": {"where", "minimum", "maximum"},
}  # fmt: skip
"""Functions of generated code's modules that compute and cannot fail."""
_METHODS_WITHOUT_EFFECT = {"any", "all", "astype"}
_WITH_EFFECTS = ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Lambda | ast.Subscript


@lru_cache(maxsize=64)
def idle_variables(source: str) -> frozenset[str]:
    """The variables of generated code that decide nothing in the loops that wait,
    those which `yield`.

    An inner loop is entered again with the values that it left:
    there, variables that are read outside of it decide too.
    """
    tree = ast.parse(source)
    idle: set[str] = set()
    deciding: set[str] = set()
    for loop, inside_another in _spin_loops(tree, None):
        names = (node for node in ast.walk(loop) if isinstance(node, ast.Name))
        assigned = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        decides = _deciding(loop, _read_outside(tree, loop) if inside_another else set())
        idle |= assigned - decides
        deciding |= assigned & decides
    return frozenset(idle - deciding)


def _spin_loops(
    node: ast.AST, loop: ast.For | ast.While | None, inside_another: bool = False
) -> Iterator[tuple[ast.For | ast.While, bool]]:
    """The innermost loop around every `yield` of a waiting program, and whether it is nested."""
    if isinstance(node, ast.Yield) and node.value is None and loop is not None:
        yield loop, inside_another
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.For | ast.While):
            yield from _spin_loops(child, child, loop is not None)
        else:
            yield from _spin_loops(child, loop, inside_another)


def _read(node: ast.AST) -> set[str]:
    names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _read_outside(node: ast.AST, loop: ast.AST) -> set[str]:
    if node is loop:
        return set()
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    return set().union(*(_read_outside(child, loop) for child in ast.iter_child_nodes(node)))


def _deciding(loop: ast.AST, asked_for: set[str]) -> set[str]:
    """The variables that anything with an effect, or the loop's way on, is computed from."""
    deciding = set(asked_for)
    handed_on: list[tuple[str, set[str]]] = []
    for statement in _statements(loop):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _only_computes(value):
                handed_on.append((name, _read(value)))
            case ast.Expr(value=value) if _only_emits_event(value):
                pass
            case ast.If(test=test) | ast.While(test=test):
                deciding |= _read(test)
            case _:
                deciding |= _read(statement)
    known = -1
    while len(deciding) != known:
        known = len(deciding)
        for name, read in handed_on:
            if name in deciding:
                deciding |= read
    return deciding


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a loop and of branches and loops in it, itself first."""
    if isinstance(node, ast.stmt):
        yield node
    if isinstance(node, ast.If | ast.While):
        for child in [*node.body, *node.orelse]:
            yield from _statements(child)


def _only_computes(value: ast.expr) -> bool:
    """Whether an expression has no effect, cannot fail, and depends on its variables alone."""
    return all(
        _is_harmless(node.func)
        if isinstance(node, ast.Call)
        else not isinstance(node, _WITH_EFFECTS)
        for node in ast.walk(value)
    )


def _is_harmless(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _WITHOUT_EFFECT:
            return name in _WITHOUT_EFFECT[module]
        case ast.Attribute(attr=name):
            return name in _METHODS_WITHOUT_EFFECT
        case _:
            return False


def _only_emits_event(value: ast.expr) -> bool:
    """Whether a statement only notifies observers of a run's values."""
    match value:
        case ast.Yield(value=None | ast.Constant()) | ast.Constant():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="observer"), attr="computed")):
            return True
    return False


# Turns for programs that wait for each other.


SILENT_ROUNDS = 100_000
"""The number of silent rounds, with no program left to admit, after which programs that count their
tries are stopped."""

STRAY_ROUNDS = 2_000
"""The same, if every program is in a cycle or makes accesses that leave their tensors."""

PATIENCE = 1_000
"""The number of rounds without an ended program after which more are admitted although memory
changes: programs may count there as they wait."""


@dataclass
class DeadlockDetected(Exception):
    """A deadlock; raised where the first of the programs waits.

    Attributes:
        waiting: every program that has not ended, in the order of their turns.
        silent_rounds: how many silent rounds have passed.
        proven: True if all were in cycles, False if the programs were stopped because of the number
            of rounds.
    """

    waiting: tuple[Waiting, ...]
    silent_rounds: int
    proven: bool


def take_turns(
    batches: Iterator[Programs],
    start: Callable[[Programs], Coroutine],
    memory: WatchedMemory,
    idle: Collection[str] = (),
    preemption: Preemption | Residency | None = None,
) -> Iterator[Step]:
    """One turn after the other, each to be carried out before the next is asked for.

    Args:
        batches: one program each.
        start: the kernel's code, which makes a coroutine of a program.
        memory: what that code reads and writes through.
        idle: variables of that code that decide nothing while a program waits.
        preemption: how programs are preempted, if they are, or how many are alive at a time.

    The last step raises DeadlockDetected where programs wait for ever.
    """
    live: list[RunningProgram] = []
    most = preemption.most if isinstance(preemption, Residency) else None
    if isinstance(preemption, Preemption):
        live = [RunningProgram(batch, start(batch)) for batch in batches]
        yield from preempted(live, memory, preemption)
        live = [program for program in live if not program.ended]
    admitted, silent_rounds, stray_rounds, rounds_without_end = 1, 0, 0, 0
    while True:
        newcomers = [
            RunningProgram(batch, start(batch)) for batch in itertools.islice(batches, admitted)
        ]
        live += newcomers
        if not live:
            return
        for program in live:
            yield program.programs, functools.partial(program.turn, memory)
        silent = not any(program.changed or program.ended for program in live)
        left = [program for program in live if not program.ended]
        rounds_without_end = rounds_without_end + 1 if len(left) == len(live) else 0
        live = left
        silent_rounds = silent_rounds + 1 if silent and not newcomers else 0
        if silent_rounds:
            circling = [program.comes_round(silent_rounds, idle) for program in live]
            stray_rounds += all(
                is_circling or program.strayed for is_circling, program in zip(circling, live)
            )
            stopped = silent_rounds >= SILENT_ROUNDS or stray_rounds >= STRAY_ROUNDS
            if (proven := all(circling)) or stopped:
                yield _stop(live, silent_rounds, proven)
        else:
            stray_rounds = 0
        enough = live and not silent and rounds_without_end < PATIENCE
        admitted = 0 if enough else max(1, len(live))
        admitted = admitted if most is None else min(admitted, most - len(live))
        rounds_without_end = rounds_without_end if enough else 0


def _stop(live: Sequence[RunningProgram], silent_rounds: int, proven: bool) -> Step:
    stuck = DeadlockDetected(tuple(program.waiting() for program in live), silent_rounds, proven)
    return live[0].programs, functools.partial(live[0].coroutine.throw, stuck)
