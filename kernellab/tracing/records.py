"""A trace: the steps of traced programs, and every question about them."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy

from kernellab import errors
from kernellab.common.arguments import check_flags, check_tolerance, is_one_of
from kernellab.common.text import counted, element_text, joined_sizes, shown, what_it_raised
from kernellab.records import BoundLaunch
from kernellab.records.display import show
from kernellab.tracing.origins import Change, History, NoSuchVariable, ReplayedMemory, State
from kernellab.tracing.steps import (
    AsyncOperation,
    Checkpoint,
    Frame,
    Program,
    SourceText,
    Step,
    TracedArgument,
    TracedFault,
    TraceFacts,
    save_trace,
)
from kernellab.tracing.values import StoredValue, ValueStore

if TYPE_CHECKING:
    from kernellab.records.launches import Difference
    from kernellab.tracing.differences import TraceDifference
    from kernellab.tracing.origins import Origin

ComputeAgain = Callable[[Mapping[int, set[str]]], Mapping[tuple[int, str], Any]]
"""Runs the kernel again: takes names by the step that gave them their value (by -1 - the frame's
number, for what a frame began with); returns the values."""


_PROGRAMS_FOLLOWED = 16
"""The most programs that are traced for the origin of an element."""


class Trace(Sequence[Step]):
    """The recorded steps of traced programs: a sequence of `Step`s.

    `trace[5]` is a step, and `trace.at(5)` has all variables after it.

    Attributes:
        facts: the kernel, the grid, the traced programs and other facts of the launch.
        steps: the steps in the order in which they ran.
        frames: the function calls that the steps belong to.
        arguments: the tensors of the launch, by parameter.
        sources: the source text of the functions that ran.
        fault: the error that stopped the run, or None.
        notices: sentences that limit what the trace shows: a source that has changed, steps that
            were left out, a result that differs from the expected one.
        first_shown: the step at which the stepper opens: the one that wrote a wrong result. None
            opens it at the fault, or else at the first step.
        wrong: the first element that differs from the expected result, or None.
        launch: the launch that was traced, or None if the trace was read from a file.
        asynchronous: the asynchronous operations of a run with `completion="late"`.
    """

    def __init__(
        self,
        facts: TraceFacts,
        steps: Sequence[Step],
        frames: Sequence[Frame],
        values: ValueStore,
        arguments: Mapping[str, TracedArgument],
        checkpoints: Sequence[Checkpoint],
        sources: Sequence[SourceText],
        fault: TracedFault | None = None,
        notices: Sequence[str] = (),
        compute_again: ComputeAgain | None = None,
        stale: Callable[[], Sequence[str]] = tuple,
        trace_again: Callable[[Sequence[Program]], Trace] | None = None,
        last_writer: Callable[[str, tuple[int, ...]], Program | None] | None = None,
        asynchronous: Sequence[AsyncOperation] = (),
    ) -> None:
        self.facts = facts
        self.steps = tuple(steps)
        self.frames = tuple(frames)
        self.values = values
        self.arguments = dict(arguments)
        self.checkpoints = tuple(checkpoints)
        self.sources = tuple(sources)
        self.fault = fault
        self.notices = tuple(notices)
        self.first_shown: int | None = None
        self.wrong: Difference | None = None
        self._compute_again = compute_again
        self._stale = stale
        self._trace_again = trace_again
        self._last_writer = last_writer
        self.asynchronous = tuple(asynchronous)
        self.launch: BoundLaunch | None = None
        self._computed: dict[tuple[int, str], Any] = {}

    # As a sequence

    @overload
    def __getitem__(self, number: int) -> Step: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, number: int | slice) -> Step | tuple[Step, ...]:
        __tracebackhide__ = True
        return self.steps[number] if isinstance(number, slice) else self._step(number)

    def __len__(self) -> int:
        return len(self.steps)

    def notices_now(self) -> tuple[str, ...]:
        """The notices, and that the kernel was redefined or its file changed since the run."""
        return tuple(dict.fromkeys([*self.notices, *self._stale()]))

    def of_programs(self, programs: Any) -> Trace:
        """Trace other programs of the same launch, with its original arguments.

        Args:
            programs: as for `kernellab.trace`.

        Raises:
            OptionError: a program outside the grid.
            NotRecorded: the trace is from a file: there is no kernel.
        """
        from kernellab.interpreter.execution.grid import chosen_programs

        wanted = chosen_programs(programs, self.facts.grid, "programs")
        if self._trace_again is None:
            raise errors.NotRecorded(
                "Other programs of this launch cannot be traced: the trace was read from a file, "
                "which does not hold the kernel.",
                advice="Trace them where the kernel is: kernellab.trace(..., programs=...).",
            )
        traced = self._trace_again(wanted)
        traced.launch = self.launch
        return traced

    # Time travel

    def at(self, step: int | Step) -> State:
        """All variables as they are after a step; negative numbers count from the end.

        Raises:
            IndexError: there is no such step.
            ArgumentError: it is neither a step nor an integer.
        """
        return State(self, self._step(step))

    def in_flight(self, step: int | Step) -> tuple[AsyncOperation, ...]:
        """The asynchronous operations of the step's program that the step issues, that are in
        flight during it, or that complete in it; see `AsyncOperation.state`.

        Raises:
            IndexError, ArgumentError: as `at`.
        """
        at = self._step(step)
        return tuple(
            operation
            for operation in self.asynchronous
            if operation.state(at.number) and self.steps[operation.issued].program == at.program
        )

    def find(
        self, condition: Callable[[State], Any], *, after: int | Step = -1, backwards: bool = False
    ) -> Step | None:
        """The first step after which a condition on the variables holds; None if there is none.

        Args:
            condition: takes the State after a step, `lambda v: numpy.isnan(v.acc).any()`. Steps at
                which one of its variables does not exist are skipped.
            after: the search begins after this step; backwards, before it.
            backwards: search toward the beginning; `after` is then the end unless it is given.

        Raises:
            ArgumentError: the condition's variables do not exist, it fails, or gives a tile.
        """
        if not callable(condition):
            raise errors.ArgumentError(
                f"find takes a function of the variables, got {shown(condition)}.",
                advice=(
                    "For example, trace.find(lambda v: (v.x > 40).any()). trace.history(name) has "
                    "every value of a variable."
                ),
            )
        check_flags(backwards=backwards)
        if isinstance(condition, type) or _takes_no_state(condition):
            raise errors.ArgumentError(
                f"find calls its condition with the variables, and {shown(condition)} does not "
                "take them.",
                advice="Write a function of one argument: trace.find(lambda v: (v.x > 40).any()).",
            )
        begin = _number_of(after)
        if backwards:
            stop = len(self) if begin == -1 else begin
            candidates = reversed(self.steps[:stop])
        else:
            candidates = iter(self.steps[begin + 1 :])
        missing: set[str] = set()
        seen = False
        for step in candidates:
            try:
                seen_here = self._holds(condition, step)
            except NoSuchVariable as absent:
                missing.add(absent.name)
                continue
            seen = True
            if seen_here:
                return step
        if missing and not seen:
            self._refuse_unknown(missing)
        return None

    def _holds(self, condition: Callable[[State], Any], step: Step) -> bool:
        try:
            return bool(condition(self.at(step)))
        except (errors.KernelLabError, NoSuchVariable):
            raise
        except Exception as error:  # whatever the user's function raises
            if "truth value of an" not in str(error):
                raise errors.ArgumentError(
                    f"After step {step.number}, {what_it_raised('the condition', error)}",
                    position=step.position,
                ) from error
            raise errors.ArgumentError(
                f"After step {step.number}, the condition returned a tile of truth "
                "values instead of a single one.",
                advice=(
                    "State whether it must hold for some element or for all: (...).any() or "
                    "(...).all()."
                ),
                position=step.position,
            ) from error

    def history(self, name: str, program: Program | None = None) -> History:
        """Every value that a variable had, in order.

        Args:
            program: the program; None for all that were traced.

        Raises:
            ArgumentError: no function that ran has such a variable.
        """
        if not isinstance(name, str):
            raise errors.ArgumentError(
                f"history takes the name of a variable, got {shown(name)}.",
                advice=errors.suggestion("", self.names(), "Variables:"),
            )
        self._refuse_unknown({name})
        whose = None if program is None else self._traced_program(program)
        changes = [
            Change(self, self.steps[number] if number >= 0 else None, frame, name, value)
            for frame in self.frames
            if whose is None or frame.program == whose
            for number, value in self._changes.get((frame.number, name), ())
        ]
        changes.sort(key=lambda change: -1 if change.step is None else change.step.number)
        return History(name, tuple(changes))

    def _traced_program(self, program: Any) -> Program:
        """The id of a traced program, given as an id or a number. Raises OptionError: untraced."""
        from kernellab.interpreter.execution.grid import chosen_programs, no_program

        if isinstance(program, str):
            raise no_program(program, "program")
        (meant,) = chosen_programs([program], self.facts.grid, "program")
        if meant not in self.facts.programs:
            named = ", ".join(map(str, self.facts.programs[:_PROGRAMS_NAMED]))
            raise errors.OptionError(
                f"program={shown(program)} was not traced.",
                advice=f"The traced programs are {named}"
                + (", ..." if len(self.facts.programs) > _PROGRAMS_NAMED else "."),
            )
        return meant

    def why(self, argument: str, index: int | tuple[int, ...]) -> Origin:
        """Return what an element of an argument was computed from at the end of the launch: the
        line that stored it, and the lines, loads and masks before it, as a tree. Programs that
        wrote it, or what it was computed from, are traced too, up to 16.

        Args:
            argument: a tensor of the launch.
            index: the element, as an index of the tensor.

        Returns:
            The Origin, whose text is the tree. If it is not known which elements of a tile count,
            as in the argument of a sum, the whole tile is named.

        Raises:
            ArgumentError: the launch has no such tensor, or the tensor no such element.
            NotRecorded: no program wrote the element, or the trace is from a file and the program
                was not traced.
        """
        from kernellab.tracing.origins import origin_of

        place = self._argument(argument).checked_index(index)
        writer = None if self._last_writer is None else self._last_writer(argument, place)
        if writer is not None and writer not in self.facts.programs:
            return self.of_programs([writer]).why(argument, place)
        origin, not_written = origin_of(self, self._argument(argument), place, len(self))
        if origin is None:
            raise errors.NotRecorded(
                f"No traced program wrote {element_text(argument, place)}.",
                advice="The launch left it as it was."
                if self._last_writer is not None
                else "Trace all programs: kernellab.trace(..., programs='all').",
            )
        others = self._writers_of(not_written)
        if others:
            return self.of_programs([*self.facts.programs, *others]).why(argument, place)
        return origin

    def _writers_of(self, elements: Iterable[tuple[str, tuple[int, ...]]]) -> set[Program]:
        """Untraced programs that may have written what a traced one loads: all of a small grid, or
        the last writer of an element of each argument.
        """
        written = {
            name: index for name, index in elements
            if self._writing(self._argument(name), 0, len(self))
        }  # fmt: skip
        traced, grid = {*self.facts.programs}, self.facts.grid
        if self._last_writer is None or not written or len(traced) >= _PROGRAMS_FOLLOWED:
            return set()
        if math.prod(grid) <= _PROGRAMS_FOLLOWED:
            x, y, z = (range(size) for size in (*grid, 1, 1)[:3])
            return {*itertools.product(x, y, z)} - traced
        last = {self._last_writer(name, index) for name, index in written.items()}
        return {each for each in last if each is not None} - traced

    def diff(
        self,
        other: Trace | Mapping[str, Any],
        *,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> TraceDifference:
        """Return the first difference between two runs.

        Args:
            other: another trace: of another kernel, other dtypes, another seed; variables are
                compared by their names, one value after the other. Or the results of another
                launch, for example on a GPU: name -> tensor; the elements that the traced programs
                wrote are compared.
            rtol, atol: how far a float may differ: `atol + rtol * |theirs|`. By default,
                variables of one dtype must have the same bits; variables of two dtypes have the
                tolerance of the coarser one, and the results of another launch what rounding
                explains (docs/tolerances.md).

        Returns:
            The difference: which step, which variable, which element, both values. It is false if
            the runs agree, or if nothing could be compared, as its text says.

        Raises:
            ArgumentError: no program in common, no such argument, or `other` is neither.
        """
        rtol = check_tolerance("rtol", rtol)
        atol = check_tolerance("atol", atol)
        from kernellab.tracing.differences import difference_of_outputs, difference_of_traces

        if isinstance(other, Trace):
            return difference_of_traces(self, other, rtol, atol)
        if not isinstance(other, Mapping):
            raise errors.ArgumentError(
                f"diff must be given another Trace or {{argument name: tensor}}, got "
                f"{shown(other)}.",
                advice=(
                    f"Name the argument: trace.diff({{{next(iter(self.arguments), 'name')!r}: "
                    f"tensor}})."
                ),
            )
        return difference_of_outputs(self, other, rtol, atol)

    def memory(self, argument: str, step: int | Step = -1) -> numpy.ndarray:
        """The contents of an argument after a step, as an array of the tensor's shape.

        Raises:
            ArgumentError: no tensor of the launch has that name.
            NotRecorded: the argument, or what was written to it, was too large to be kept; or
                more than 67,108,864 lanes wrote to it.
        """
        known = self._argument(argument)
        last = self._step(step).number if self.steps else 0
        begin, stored = self._checkpoint(argument, last)
        if not stored.is_exact:
            raise errors.NotRecorded(
                f"The contents of {argument!r} were not recorded: {stored.nbytes:,} bytes."
            )
        lost = self.step_not_kept(argument, last + 1, last + 1)
        if lost is not None:
            raise self._lost(argument, last, lost)
        writing = self._writing(known, begin, last + 1)
        lanes = sum(write.lanes_written(known, self.arguments) for write in writing)
        if lanes > _MOST_REPLAYED:
            raise errors.NotRecorded(
                f"The contents of {argument!r} after step {last} are not computed: {lanes:,} "
                f"elements are written up to that step, but at most {_MOST_REPLAYED:,} can be "
                "computed.",
                advice="Ask for an earlier step, or trace fewer programs.",
            )
        memory = ReplayedMemory(known, stored.copied().reshape(known.shape))
        for write in writing:
            memory.write(write, self.arguments)
        return memory.contents()

    def _writing(self, argument: TracedArgument, begin: int, end: int) -> Sequence[Step]:
        """The steps from one number to another that may write to the memory of an argument."""
        steps = self._writers.get(argument.storage, [])
        first = bisect_left(steps, begin, key=lambda step: step.number)
        return steps[first : bisect_left(steps, end, key=lambda step: step.number)]

    @cached_property
    def _writers(self) -> dict[int, list[Step]]:
        steps_of: dict[int, list[Step]] = {}
        for step in self.steps:
            names = {access.argument for access in step.accesses if access.kind != "load"}
            known = (self.arguments[name] for name in names if name in self.arguments)
            for storage in {access.storage for access in known}:
                steps_of.setdefault(storage, []).append(step)
        return steps_of

    def _argument(self, name: Any) -> TracedArgument:
        if not isinstance(name, str) or name not in self.arguments:
            raise errors.ArgumentError(
                f"No tensor of this launch of {self.facts.kernel!r} is called {shown(name)}.",
                advice=errors.suggestion(name, self.arguments, "Tensors:"),
            )
        return self.arguments[name]

    def final_memory(self, argument: str) -> numpy.ndarray:
        """An argument's contents after the launch, untraced programs included; else `memory`."""
        self._argument(argument)
        _, stored = self._checkpoint(argument, len(self))
        is_last = any(
            checkpoint.step == len(self) and argument in checkpoint.contents
            for checkpoint in self.checkpoints
        )
        if not is_last or not stored.is_exact:
            return self.memory(argument)
        return stored.copied().reshape(self.arguments[argument].shape)

    def step_not_kept(self, argument: str, begin: int, end: int) -> int | None:
        """The first step up to number `end` after which the argument's contents are unknown,
        because a write was too large to record; None if they are known from step `begin` - 1 on.
        """
        known = self._argument(argument)
        start, _ = self._checkpoint(argument, max(begin - 1, 0))
        by_others = {
            checkpoint.step
            for checkpoint in self.checkpoints
            if checkpoint.step > start and argument in checkpoint.contents
            if not self.values[checkpoint.contents[argument]].is_exact
        }
        lost = [
            step.number
            for step in self._losing.get(known.storage, [])
            if start <= step.number < end
            and not all(access.has_contents for access, _ in step.writes(known, self.arguments))
        ]
        return min([*lost, *(number for number in by_others if number < end)], default=None)

    @cached_property
    def _losing(self) -> dict[int, list[Step]]:
        """Storage -> the steps that wrote to it more than was kept."""
        return {
            storage: [step for step in steps if not all(a.has_contents for a in step.accesses)]
            for storage, steps in self._writers.items()
        }

    def _lost(self, argument: str, step: int, lost: int) -> errors.NotRecorded:
        """The error that an argument's contents are unknown since step `lost`."""
        before = f"trace.memory({argument!r}, {lost - 1}) has what it held before. " if lost else ""
        largest = max(
            self.values[number].nbytes
            for access in self.steps[lost].accesses
            for number in (access.lanes, access.mask_number, access.written_number)
            if isinstance(number, int)
        )
        fewer = ", or trace fewer programs" if len(self.facts.programs) > 1 else ""
        return errors.NotRecorded(
            f"The contents of {argument!r} after step {step} are not known: step {lost} wrote more "
            "than the trace keeps.",
            advice=f"{before}Record it with {self._call(largest)}{fewer}",
            position=self.steps[lost].position,
        )

    def contents_before(self, argument: str, step: int) -> StoredValue:
        """What was kept of an argument's contents at the last checkpoint up to a step."""
        self._argument(argument)
        return self._checkpoint(argument, step)[1]

    def _checkpoint(self, argument: str, step: int) -> tuple[int, StoredValue]:
        begin, number = max(
            (checkpoint.step, checkpoint.contents[argument])
            for checkpoint in self.checkpoints
            if argument in checkpoint.contents and checkpoint.step <= step
        )
        return begin, self.values[number]

    # Values

    def names(self) -> list[str]:
        """The names of all variables, in the order in which they first had a value."""
        return list(dict.fromkeys(name for _, name in self._changes))

    def exact(self, frame: Frame, name: str, step: int) -> Any:
        """The value of a frame's variable after step number `step`, computed again if need be.

        Raises:
            NoSuchVariable: it has none yet.
            NotRecorded: only a summary was kept, and the kernel is gone.
        """
        origin, number = self._latest(frame, name, step)
        stored = self.values[number]
        if stored.is_exact:
            return stored.exact()
        key = (origin if origin >= 0 else -1 - frame.number), name
        if key not in self._computed:
            self._computed = self._computed_again(key, stored)
        return self._computed[key]

    def variables_at(self, frame: Frame, step: int) -> dict[str, StoredValue]:
        """The variables of a frame after step number `step`, in the order of their first values."""
        return {
            name: self.values[self._latest(frame, name, step)[1]]
            for name in self._names_of(frame)
            if self._changes[frame.number, name][0][0] <= step
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace to a file, which `kernellab.load` reads; returns its path.

        Raises:
            ArchiveError: the file cannot be written.
        """
        return save_trace(self, path)

    def show(self, step: int | Step | None = None) -> Any:
        """The stepper: source, variables and arguments at a step, with controls for other steps.

        Args:
            step: the first step to show; None for the fault, the step that wrote a wrong result, or
                else the first step.

        Returns:
            What notebooks display as a widget, and terminals as text;
            `.to_html(path)` writes it as one page; `.text()` is the step as text.
        """
        return show(self, **({} if step is None else {"step": self._step(step).number}))

    def _ipython_display_(self) -> None:
        self.show()._ipython_display_()

    def _display_(self) -> Any:
        return self.show()  # called by marimo

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.show()._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        facts = self.facts
        who = (
            f"program {facts.programs[0]}"
            if len(facts.programs) == 1
            else f"{len(facts.programs):,} programs"
        )
        what = counted(len(self), "operation" if facts.operations else "step")
        fault = f", stopped by {self.fault.kind}" if self.fault else ""
        grid = joined_sizes(facts.grid)
        return f"Trace({facts.kernel!r}, grid {grid}: {what} of {who}{fault})"

    @cached_property
    def _changes(self) -> dict[tuple[int, str], list[tuple[int, int]]]:
        """(frame, variable) -> (step, value's number) of each change; step -1: before the frame."""
        changes: dict[tuple[int, str], list[tuple[int, int]]] = {}
        started = set()
        for step in self.steps:
            frame: Frame | None = step.frame
            while frame is not None and frame.number not in started:
                started.add(frame.number)
                for name, number in frame.given.items():
                    changes.setdefault((frame.number, name), []).insert(0, (-1, number))
                frame = frame.caller
            for name, number in step.changed_numbers.items():
                changes.setdefault((step.frame.number, name), []).append((step.number, number))
        return changes

    @cached_property
    def _names(self) -> dict[int, list[str]]:
        """Frame -> its variables, in the order in which they first had a value."""
        names: dict[int, list[str]] = {}
        for frame, name in self._changes:
            names.setdefault(frame, []).append(name)
        return names

    def _names_of(self, frame: Frame) -> Sequence[str]:
        if not isinstance(frame, Frame):
            raise errors.ArgumentError(
                f"frame must be a Frame of this trace, got {shown(frame)}.",
                advice="Write trace[5].frame, for example.",
            )
        return self._names.get(frame.number, ())

    def _latest(self, frame: Frame, name: str, step: int) -> tuple[int, int]:
        """The change that made a variable what it is after a step."""
        known = is_one_of(name, self._names_of(frame))
        step = _number_of(step)
        changes = self._changes[frame.number, name] if known else []
        place = bisect_right(changes, step, key=lambda change: change[0])
        if not place:
            raise NoSuchVariable(name, frame, step)
        return changes[place - 1]

    def _step(self, step: int | Step) -> Step:
        __tracebackhide__ = True
        if isinstance(step, Step):
            return step
        number = _number_of(step)
        if not -len(self) <= number < len(self):
            there = f"steps 0 to {len(self) - 1:,}" if self.steps else "no steps"
            raise errors.NoSuchStep(f"There is no step {number}: this trace has {there}.")
        return self.steps[number]

    def _refuse_unknown(self, names: set[str]) -> None:
        known = self.names()
        for name in sorted(names.difference(known)):
            raise errors.ArgumentError(
                f"The trace of {self.facts.kernel!r} has no variable {name!r}.",
                advice=errors.suggestion(name, known, "Variables:"),
            )

    def _computed_again(
        self, key: tuple[int, str], stored: StoredValue
    ) -> dict[tuple[int, str], Any]:
        """The value of that key, and of the variable's next changes, some 64 MiB."""
        place, name = key
        if self._compute_again is None:
            summary = stored.summary
            raise errors.NotRecorded(
                f"The exact value of {name!r} was not recorded: {summary.dtype}"
                f"{list(summary.shape)}, {summary.range_text}, {stored.nbytes:,} bytes.",
                advice=f"Record it with {self._call(stored.nbytes)}",
            )
        wanted = {place: {name}}
        budget = _COMPUTED_BYTES - stored.nbytes
        for step in self.steps[max(place, 0) :]:
            number = step.changed_numbers.get(name)
            if number is None or step.number == place or self.values[number].is_exact:
                continue
            budget -= self.values[number].nbytes
            if budget < 0:
                break
            wanted.setdefault(step.number, set()).add(name)
        computed = dict(self._compute_again(wanted))
        store = ValueStore(largest=0)
        if key not in computed or store[store.add(computed[key])].digest != stored.digest:
            raise errors.NotRecorded(
                f"{name!r} cannot be computed again: another run of {self.facts.kernel!r} "
                "computed another value.",
                advice=f"Record it with {self._call(stored.nbytes)}",
            )
        return computed

    def _call(self, nbytes: int) -> str:
        """The call of `kernellab.trace` that keeps values of so many bytes."""
        facts = self.facts
        programs = repr(facts.programs[0] if len(facts.programs) == 1 else list(facts.programs))
        if len(facts.programs) == math.prod(facts.grid) > 1:
            programs = '"all"'
        return (
            f"kernellab.trace({facts.kernel}, {facts.grid}, ..., programs={programs}, "
            f"exact_bytes={nbytes})"
        )


_PROGRAMS_NAMED = 4


def _takes_no_state(condition: Callable[..., Any]) -> bool:
    """Whether a function cannot be called with one argument; not known of C functions."""
    try:
        signature = inspect.signature(condition)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(None)
    except TypeError:
        return True
    return False


def _number_of(step: Any) -> int:
    if isinstance(step, Step):
        return step.number
    try:
        return operator.index(step)
    except TypeError as error:
        raise errors.ArgumentError(
            f"step must be a Step or its number, got {shown(step)}.",
            advice="Write trace.at(5) or trace.at(trace[5]). Negative numbers count from the end.",
        ) from error


_MOST_REPLAYED = 1 << 26
"""Lanes that are written again to find what an argument holds after a step."""

_COMPUTED_BYTES = 64 * 1024 * 1024
