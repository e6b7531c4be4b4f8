"""What an answer says about a student's kernel: the first wrong element and its inputs, what the
kernel costs, how evenly its programs share the work, and the change that makes it right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy
import torch

from kernellab.checker.element_inputs import inputs_behind, inputs_by_argument
from kernellab.checker.fixes import (
    EXACT,
    Tries,
    WrongTensor,
    fix_words,
    likely_families,
    never_used,
    reading,
    search,
)
from kernellab.checker.kernel_source import Source
from kernellab.checker.records import Inputs
from kernellab.checker.rewrites import LIKELY, UNSAFE, WRONG, Family, Rewrite, on_lines_of
from kernellab.common.system import OutOfTime, limited
from kernellab.common.text import counted
from kernellab.compiler.binding import bind
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.targets import parse_target
from kernellab.errors import Diagnostic, KernelLabError, changes_between
from kernellab.interpreter import CollectedFaults
from kernellab.interpreter.execution.grid import check_grid
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import program_code
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.interpreter.tiles import full
from kernellab.judging.code import Code
from kernellab.judging.submissions import variants
from kernellab.launch.argument_copies import copied, map_tensors, tensors_in
from kernellab.launch.dispatch import interpret
from kernellab.launch.results import Within, elements_off
from kernellab.profiling.accesses.counts import accesses
from kernellab.profiling.accesses.records import Accesses, GlobalAccess
from kernellab.records import Target
from kernellab.records.launches import DEFAULT, Difference
from kernellab.tracing.origins import lane_within
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Step
from kernellab.triton_api import definition_of, given_texts
from kernellab.workshop.exercise import Budget, Exercise, FirstDifference
from kernellab.workshop.launches import Case

# Find the first wrong element, the values of the kernel's variables there, and its inputs.


def difference_of(trace: Trace, case: Case) -> FirstDifference | None:
    """Return the first wrong element of a traced launch; None if the trace has no wrong element,
    as for a kernel whose results change from run to run.
    """
    wrong = trace.wrong
    if wrong is None:
        return None
    plain = FirstDifference(**vars(wrong), case=str(case))
    if trace.first_shown is None:
        return plain
    step = trace[trace.first_shown]
    lane = _lane(step, wrong.name, trace.arguments[wrong.name].offset_of(wrong.index))
    return replace(
        plain,
        line=step.line,
        program=step.program,
        lane=lane,
        values=dict(_values(trace, step, lane)),
        inputs=_inputs(trace, step, wrong),
    )


def _inputs(trace: Trace, step: Step, wrong: Difference) -> tuple[Inputs, ...] | None:
    """Return what a wrong element was computed from; None if its program does not run alone."""
    if trace.launch is None:
        return None
    try:
        offset = trace.arguments[wrong.name].offset_of(wrong.index)
        elements = inputs_behind(trace.launch, step.program, wrong.name, offset)
    except KernelLabError:
        return None
    return inputs_by_argument(elements)


def _lane(step: Step, argument: str, offset: int) -> tuple[int, ...]:
    """Return the position in its tile of the value that is stored to an element."""
    for access in step.accesses:
        if access.kind == "load" or access.argument != argument or not access.has_elements:
            continue
        here = access.indices == offset
        if access.mask is not None:
            here = here & numpy.broadcast_to(access.mask, here.shape)
        if here.any():
            return tuple(int(place) for place in numpy.argwhere(here)[-1])
    return ()


def _values(trace: Trace, step: Step, lane: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values of tiles, rows, columns and scalars at a position in a tile."""
    state = trace.at(step)
    for name in state:
        try:
            value = numpy.asarray(state[name])
        except Exception:  # the value was too large to keep, or is not a number
            continue
        if value.dtype == object:  # pointers, descriptors
            continue
        if value.ndim == 0:
            yield name, value.item()
        elif value.ndim == len(lane) and (place := lane_within(lane, value.shape)) is not None:
            yield name, value[place].item()


# The cost of a correct kernel, and the line that causes most of it.


def over_budget(budget: Budget, kernel: Any, case: Case, compiled: Compilation) -> list[Diagnostic]:
    """Return what exceeds the budget in a launch; nothing if everything is within budget.

    Raises:
        KernelLabError: the launch has a fault.
    """
    return [*_traffic(budget, kernel, case, compiled), *_machine_code(budget, kernel, compiled)]


def _traffic(
    budget: Budget, kernel: Any, case: Case, compiled: Compilation
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a launch moves too many bytes, relative to the size of its tensors."""
    if budget.traffic is None:
        return
    counted_accesses = accesses(
        kernel, case.grid, **case.arguments, **case.constants, target=compiled.target
    )
    yield from _narrow_accesses(budget, kernel, counted_accesses)
    # A descriptor that the kernel makes has one size, however large the tensors are.
    moving = [each for each in counted_accesses.accesses if each.action != "tensor map"]
    moved = sum(access.moved_bytes for access in moving)
    needed = sum(value.numel() * value.element_size() for value in case.tensors.values())
    if moved <= budget.traffic * needed:
        return
    worst = max(moving, key=lambda each: max(0, each.moved_bytes - each.footprint_bytes))
    yield Diagnostic(
        "error",
        "traffic",
        f"the launch moves {moved:,} bytes, {moved / needed:.3g} times the size of its tensors "
        f"({needed:,} bytes); the budget is {budget.traffic:g} times",
        worst.position,
        why=f"most of these bytes come from this {worst.title}: {worst.moved_bytes:,} bytes in "
        f"{counted(worst.requests, 'request')} of {worst.sectors_per_request:.3g} sectors each, of "
        f"which the kernel uses {worst.efficiency:.0%}; it runs "
        f"{counted(worst.executions, 'time')}",
        advice=_how_to_move_less(worst),
        facts={"moved_bytes": moved, "tensor_bytes": needed, "allowed": budget.traffic},
    )


def _narrow_accesses(budget: Budget, kernel: Any, launch: Accesses) -> Iterator[Diagnostic]:
    """Yield diagnostics on loads and stores by narrow vectors, and on bank conflicts."""
    fewest = budget.vector_bytes or 0
    for access in launch.accesses:
        width = access.vector_width * access.element_bytes
        if width < fewest:
            yield Diagnostic(
                "error",
                "narrow-access",
                f"each thread moves {counted(width, 'byte')} of {access.argument} at once; "
                f"{fewest} are asked for",
                access.position,
                advice="Let a thread hold several elements that are neighbors in memory.",
            )
    conflicts = launch.bank_conflicts
    if budget.bank_conflicts is not None and conflicts > budget.bank_conflicts:
        yield Diagnostic(
            "error",
            "bank-conflicts",
            f"the launch has {counted(conflicts, 'bank conflict')}; the budget is "
            f"{budget.bank_conflicts}",
            definition_of(kernel),
            advice="Choose a layout of shared memory that spreads the elements of a row and those "
            "of a column over all banks.",
        )


def _how_to_move_less(access: GlobalAccess) -> str:
    """Return the advice for an access that moves too much."""
    if access.repeated_sectors > access.sectors / 2:
        return (
            "Several elements of a tile update the same element in memory, one after the other: "
            "combine their values first (tl.sum, tl.max), and update it once."
        )
    if access.reuse_between_programs >= 2:
        return (
            f"About {access.reuse_between_programs:.3g} programs move the same sectors: let each "
            "program compute more of the result, so that it uses what it loads more often."
        )
    if access.sectors > 1.5 * access.best_sectors:
        return (
            "Neighboring elements of the tile are far apart in memory: let the last dimension of "
            "the tile run along the dimension whose stride is 1."
        )
    return (
        "It moves elements several times: keep the values that the program has loaded, and use "
        "tiles with at least as many elements as a program has threads."
    )


def _machine_code(budget: Budget, kernel: Any, made: Compilation) -> Iterator[Diagnostic]:
    place, resources = definition_of(kernel), made.resources
    if resources.spills:
        yield Diagnostic(
            "error", "spills",
            f"each thread spills {counted(resources.spills, 'register')} to memory",
            place, advice="Use smaller tiles or more warps.",
        )  # fmt: skip
    categories = {instruction.category for instruction in made.instructions}
    if budget.needs_asynchronous_copies and not categories & {"async copy", "tma"}:
        yield Diagnostic(
            "error",
            "no-asynchronous-copy",
            "the machine code has no copy that runs while the program computes",
            place,
            advice="Copy to shared memory by the functions that the task names.",
        )
    if budget.needs_tensor_cores and "matrix" not in categories:
        yield Diagnostic(
            "error",
            "no-tensor-core",
            "the machine code has no tensor core instruction",
            place,
            advice="Multiply tiles with tl.dot: at least 16 x 16 x 16 elements, in float16 or "
            "bfloat16 (or in float32 with input_precision='tf32').",
        )


# How much of the work of a launch each program does, and whether one of them does most of it.


FEWEST = 4
"""In a launch of fewer programs, one may have most of the work because of the sizes."""

_MOST_TIMES = 4
"""The multiple of the budget's traffic that a launch other than the priced one may access: its
tiles may be smaller.
"""


def uneven_work(
    kernel: Any, cases: Sequence[Case], target: str, traffic: float | None
) -> Diagnostic | None:
    """Return a diagnostic if one program of several makes more than half of all accesses, or if a
    launch makes far more accesses than its budget of `traffic` allows.

    Raises:
        KernelLabError: a launch has a fault.
    """
    for case in cases:
        accessed = _accessed(kernel, case, target)
        total, elements = int(accessed.sum()), sum(map(torch.numel, case.tensors.values()))
        if 2 * int(accessed.max()) > total:
            return _diagnostic(kernel, case, accessed, int(accessed.argmax()))
        if traffic is not None and total > _MOST_TIMES * traffic * elements:
            return Diagnostic(
                "error",
                "traffic",
                f"a launch accesses {total:,} elements, {total / elements:.3g} times as many as "
                f"its tensors have: grid {case.grid}, {case}",
                definition_of(kernel),
                advice="Let the kernel do the same work per element in every launch.",
            )
    return None


def _diagnostic(kernel: Any, case: Case, accessed: numpy.ndarray, most: int) -> Diagnostic:
    part = accessed[most] / accessed.sum()
    idle = int((accessed == 0).sum())
    return Diagnostic(
        "error",
        "uneven-work",
        f"of {len(accessed):,} programs, program {most} makes {part:.0%} of all accesses, and "
        f"{idle:,} make none: grid {case.grid}, {case}",
        definition_of(kernel),
        why="On a GPU, the multiprocessors of the other programs wait for this one.",
        advice="Let each program compute its own part of the result, as the task says.",
    )


def _accessed(kernel: Any, case: Case, target: str) -> numpy.ndarray:
    """Return how many elements each program of a launch accesses, by linear id."""
    chosen = parse_target(target)
    call = bind(kernel, (), case.keywords, chosen)
    code = program_code(kernel, call, chosen)
    elements = numpy.zeros(math.prod(check_grid(case.grid, call.values)), numpy.int64)

    def count(seen: ObservedAccess) -> None:
        extents = seen.shape
        each: Any = math.prod(extents)
        if seen.mask is not None:
            mask = full(seen.mask, extents)
            differs = mask.ndim > len(extents)
            each = mask.reshape(len(mask), -1).sum(axis=1) if differs else int(mask.sum())
        if seen.active is not None:
            each = each * seen.active
        elements[seen.programs.linear] += each

    launch_observed(
        kernel, case.grid, replace(call, values=copied(call.values)), code, AccessObserver(count)
    )
    return elements


# Look for the change that makes a student's kernel right, by trying changes on hidden launches.
#
# The changed kernels compile where the student's own does, in the confined process, and run on
# the interpreter. A change is reported only if the changed kernel passes the same checks as an
# answer.


TRIES = Tries(seconds=20.0, most=800, batch=12)

_SECOND_TRIES = Tries(seconds=8.0, most=300, batch=12)
"""For the second of two faults, after each of the changes that are taken for the first."""

_ENOUGH = 300
"""After so many changes, a change that makes a launch right, or all of its elements wrong alike,
is taken for the first of two.
"""

_MOST_FIRST = 3
"""How many changes are taken for the first of two faults."""

_RUN_SECONDS = 3.0
"""A changed kernel that takes longer does not count as right; the solutions take 0.07 at most,
and on a busy machine ten times as long."""

_MOST_WITHOUT_END = 3
"""After so many changed kernels that took longer, no more are tried: the rest of a kernel with an
endless loop is seldom at fault, and each try takes all of its seconds."""


class _NoneEnds(Exception):
    """Too many changed kernels did not end in time."""


class _Enough(Exception):
    """Of two faults, one is known."""


@dataclass(frozen=True)
class Repair:
    """Changes that were tried, each made in the source that the one before it left.

    Attributes:
        remains: what they improve, as a sentence, if more is wrong; "" if all launches are right.
    """

    changes: tuple[Rewrite, ...]
    remains: str = ""

    def fix(self, diagnostic: Diagnostic, kernel: Any, launches: int) -> Diagnostic:
        """Return a diagnostic on a kernel whose advice are these changes."""
        last, first_line = self.changes[-1].text, definition_of(kernel).line
        lines = changes_between(str(kernel.src), last, first_line)
        reason = " ".join(change.reason for change in self.changes)
        if self.remains:
            words = fix_words(f"More than one thing has to change. {reason}", self.remains, lines)
            return replace(diagnostic, advice=words)
        change = "this change"
        if len(self.changes) > 1:
            reason, change = f"Two things have to change. {reason}", "these changes"
        effect = f"With {change}, all {launches} launches give the right results"
        words = fix_words(reason, effect, lines)
        return replace(diagnostic, advice=words, changes=lines, verified=True)


@dataclass(frozen=True)
class _Left:
    """A launch's results: tensors by parameter, whether it continued after accesses out of bounds,
    and which elements are wrong.
    """

    tensors: Mapping[str, torch.Tensor]
    has_faults: bool
    off: Mapping[str, torch.Tensor]

    @property
    def wrong(self) -> int:
        return sum(int(off.sum()) for off in self.off.values())

    @property
    def is_right(self) -> bool:
        return not self.has_faults and not self.wrong


@dataclass(eq=False)
class Repairing:
    """The tries for one answer.

    Attributes:
        code, kernel: the student's code, and its kernel here.
        cases: the hidden launches.
        number: the launch that went wrong.
        check: returns what is wrong with a launch of a kernel.
        is_done: returns whether a kernel whose results are right is within budget.
    """

    exercise: Exercise
    code: Code
    kernel: Any
    cases: Sequence[Case]
    number: int
    target: Target
    check: Callable[[Any, Case], Sequence[Diagnostic]]
    is_done: Callable[[Any], bool]
    without_end: int = 0
    """How many changed kernels did not end in time."""
    wrong: set[tuple[str, ...]] = field(default_factory=set)
    """The modules that went wrong: one in three changes compiles to a module that was tried."""
    tried: float = 0
    """How many changes were tried for the first of two faults."""
    nearer: dict[tuple[Any, ...], Rewrite] = field(default_factory=dict)
    """Changes after which less is wrong; each key begins with how much less."""
    before: dict[int, _Left] = field(default_factory=dict)
    """The results of the student's kernel, by the number of the launch."""

    def found(self, families: Sequence[Family], problem: Diagnostic) -> Repair | None:
        """Return the changes with which all launches are right, or else more elements of each
        launch; None if none were found.
        """
        left, text = self._before(self.number), str(self.kernel.src)
        try:
            with suppress(_Enough):
                change = self._searched(text, self.number, left, families, problem, TRIES)
                if change is not None:
                    return Repair((change,))
            self.tried = -math.inf
            return self._found_in_two_steps()
        except _NoneEnds:
            return None

    def _found_in_two_steps(self) -> Repair | None:
        best = sorted(self.nearer, key=lambda key: -float(key[0]))[:_MOST_FIRST]
        first = [self.nearer[key] for key in best]
        made = [(each, self._made(self.cases, [each.text])[0]) for each in first]
        made = [(change, kernel) for change, kernel in made if kernel is not None]
        for change, kernel in made:
            checked = ((number, self.check(kernel, case)) for number, case in enumerate(self.cases))
            number, problems = next((each for each in checked if each[1]), (0, ()))
            left = self._after(kernel, number)
            if problems and left is not None:
                families = WRONG if problems[0].kind == "wrong-result" else UNSAFE
                second = self._searched(
                    change.text, number, left, families, problems[0], _SECOND_TRIES
                )
                if second is not None:
                    return Repair((change, second))
        claims = ((change, self._remaining(kernel)) for change, kernel in made)
        return next((Repair((change,), said) for change, said in claims if said), None)

    def _searched(
        self,
        text: str,
        number: int,
        left: _Left,
        families: Sequence[Family],
        problem: Diagnostic,
        tries: Tries,
    ) -> Rewrite | None:
        """Return a change that makes all launches right, or None. Launch `number` is the first
        wrong one, and `left` has its results.
        """
        case, argument = self.cases[number], getattr(problem, "argument", "")
        source = Source(text, case.keywords, case.grid)
        wrong = self._wrong(number, argument, left)
        if wrong is not None and families is WRONG:
            likely = likely_families(wrong)
        else:
            suggested = LIKELY.get(problem.kind, LIKELY["unsafe"])
            likely = [on_lines_of(family, argument) for family in suggested]
        make, judge = partial(self._made, [case]), partial(self._is_right, number)
        return search(source, families, make, judge, tries, likely)

    def _made(self, cases: Sequence[Case], sources: Sequence[str]) -> list[Any]:
        launches = [case.keywords for case in cases]
        return variants(self.code, sources, launches, self.target, seconds=TRIES.seconds)

    def _is_right(self, number: int, change: Rewrite, kernel: Any) -> bool:
        self.tried += 1
        if self.tried > _ENOUGH and any(key[0] >= 2 for key in self.nearer):
            raise _Enough
        modules = tuple(given_texts(kernel))
        if modules in self.wrong:
            return False
        left = self._after(kernel, number)
        if left is None or not left.is_right:
            self.wrong.add(modules)
            if left and self.tried > 0 and (gain := self._gain(number, left, change.text)):
                self._keep(gain, change, left)
            return False
        (kernel,) = self._made(self.cases, [change.text])
        for each, case in enumerate(self.cases if kernel is not None else ()):
            left = self._after(kernel, each)
            if left is None or not left.is_right or self.check(kernel, case):
                self._keep(3.0 + each, change, left)
                return False
        return kernel is not None and self.is_done(kernel)

    def _keep(self, gain: float, change: Rewrite, left: _Left | None) -> None:
        """Keep a change for the first of two, one of those that leave the same elements wrong."""
        wrong = () if left is None else tuple(left.off[name].numpy().tobytes() for name in left.off)
        self.nearer.setdefault((gain, *wrong), change)

    def _gain(self, number: int, left: _Left, text: str) -> float:
        """Return how much less is wrong in a launch: 2 if now one relation holds for all elements,
        such as a factor; else the part of the wrong elements that are right now; else a little if
        the kernel now uses what it did not; 0 if an element is wrong that was right.
        """
        before, more = self._before(number), self._more(number, left)
        if more is None or not before.wrong:
            return 0.0
        if self._relation(number, left) and not self._relation(number, before):
            return 2.0
        if more:
            return more / before.wrong
        wrong = self._wrong(number, next(iter(left.off)), before)
        if wrong is None or not never_used(wrong) or never_used(replace(wrong, text=text)):
            return 0.0
        return 1e-3 / (1 + abs(len(text) - len(wrong.text)))

    def _more(self, number: int, left: _Left) -> int | None:
        """Return how many elements more are right than the student's kernel leaves, apart from
        those with the most frequent expected value, which zeros or infinities stored everywhere
        would give; None if an element is wrong that was right.
        """
        before, more = self._before(number).off, 0
        for name, off in left.off.items():
            if bool((off & ~before[name]).any()):
                return None
            due = self._right[number][name].values.double()
            is_usual = due == due.flatten().mode().values
            newly = before[name] & ~off
            more += int((newly & ~is_usual if is_usual.sum() > 1 else newly).sum())
        return more

    def _relation(self, number: int, left: _Left) -> str:
        """Return what holds for all elements of each wrong tensor; "" if nothing does."""
        wrong = [self._wrong(number, name, left) for name, off in left.off.items() if off.any()]
        said = [reading(each, EXACT) if each else "" for each in wrong]
        return " ".join(said) if all(said) else ""

    def _remaining(self, kernel: Any) -> str:
        """Return what a change of one of several faults improves in all launches, and what is
        still wrong; "" if it does not improve all of them.
        """
        lefts = [self._after(kernel, number) for number in range(len(self.cases))]
        more = [left and self._more(number, left) for number, left in enumerate(lefts)]
        before, after = self._before(self.number), lefts[self.number]
        if after is None or None in more or not before.wrong:
            return ""
        wrong = [number for number in range(len(lefts)) if not self._before(number).is_right]
        if all(more[number] for number in wrong):
            return (
                f"With this change, {before.wrong - after.wrong:,} of the {before.wrong:,} wrong "
                "elements are right; more are in every wrong launch, and none becomes wrong"
            )
        said = [self._relation(number, left) for number in wrong if (left := lefts[number])]
        if not all(said):
            return ""
        return f"With this change, one fault remains ({said[0].removesuffix('.')})"

    def said(self, name: str) -> str:
        """Return what a wrong result of the student's kernel says by itself; "" if nothing."""
        wrong = self._wrong(self.number, name, self._before(self.number))
        return "" if wrong is None else reading(wrong)

    def _wrong(self, number: int, name: str, left: _Left) -> WrongTensor | None:
        """Return what a launch left in an argument; None if it left nothing there to compare."""
        due = self._right[number].get(name)
        if due is None or not left.tensors:
            return None
        text, values = str(self.kernel.src), self.cases[number].keywords
        return WrongTensor(name, left.tensors[name], due.values, due.allowed, values, text)

    def _after(self, kernel: Any, number: int) -> _Left | None:
        """Return what a changed kernel leaves; None if it fails."""
        try:
            return self._left(kernel, number)
        except OutOfTime:
            self.without_end += 1
            if self.without_end == _MOST_WITHOUT_END:
                raise _NoneEnds from None
            return None

    def _before(self, number: int) -> _Left:
        """Return what the student's kernel leaves; if it fails, no output is written."""
        if number not in self.before:
            left = None
            with suppress(OutOfTime):
                left = self._left(self.kernel, number)
            case, due = self.cases[number], self._right[number]
            off = {
                name: elements_off(case.tensors[name], each.values, each.allowed)
                | torch.tensor(name in case.outputs)
                for name, each in due.items()
            }
            self.before[number] = left or _Left({}, True, off)
        return self.before[number]

    def _left(self, kernel: Any, number: int) -> _Left | None:
        """Return a kernel's results; None if it fails. Raises OutOfTime: it exceeded
        `_RUN_SECONDS`.
        """
        case, faults = self.cases[number], CollectedFaults()
        arguments = {
            name: map_tensors(value, _unwritten if name in case.outputs else torch.clone)
            for name, value in case.arguments.items()
        }
        try:
            with limited(_RUN_SECONDS):
                call = bind(kernel, (), {**arguments, **case.constants}, self.target)
                interpret(kernel, case.grid, call, self.target, DEFAULT, faults)
        except OutOfTime:
            raise
        except Exception:  # whatever it raises, there are no results
            return None
        tensors, due = dict(tensors_in(arguments)), self._right[number].items()
        off = {name: elements_off(tensors[name], each.values, each.allowed) for name, each in due}
        return _Left(tensors, bool(faults), off)

    @cached_property
    def _right(self) -> list[Mapping[str, Within]]:
        return [dict(self.exercise.right_results(case)) for case in self.cases]


def _unwritten(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape with contents that no result has."""
    return torch.full_like(value, torch.nan if value.is_floating_point() else -123)
