"""A launch that is run for its trace, and run again for values that were not kept."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernellab import triton_api
from kernellab.compiler.specialization.argument_values import array_of
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import KernelFault
from kernellab.interpreter.execution.grid import Programs, linear_ids
from kernellab.interpreter.execution.launcher import (
    Stepping,
    argument_names,
    launch_observed,
    launch_stepped,
)
from kernellab.interpreter.execution.program import memory_effects
from kernellab.interpreter.execution.stepping_code import SteppingCode
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.observers import AccessObserver
from kernellab.launch.argument_copies import copied, copied_back, tensors_in
from kernellab.launch.differences import UNWRITTEN
from kernellab.launch.reference_results import Results
from kernellab.records.run_options import RunOptions
from kernellab.tracing.checkpoints import Checkpoints
from kernellab.tracing.expected import LastWriter, WrongElement, writing_step, wrong_element
from kernellab.tracing.hooks import TracingHook, TracingObserver
from kernellab.tracing.recording import MOST_STEPS, Enough, Recorder, SecondRecorder
from kernellab.tracing.records import Trace
from kernellab.tracing.sources import changed_sources, compiled_sources
from kernellab.tracing.steps import Frame, Program, SourceText, TracedFault, TraceFacts
from kernellab.tracing.values import ValueStore


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that can be traced, again and again:
    `call` holds the arguments as they were given.
    """

    kernel: Any
    grid: Program
    call: BoundCall
    code: SteppingCode
    programs: tuple[Program, ...]
    options: RunOptions
    target: str
    notes: tuple[str, ...] = ()

    def traced(
        self, in_place: bool, exact_bytes: int, operations: bool, expected: Results
    ) -> Trace:
        """Run it and keep the steps; where a program that is not traced ends it by a fault, or
        writes the first element that is not as expected, run it once more with that one traced.
        """
        kept = replace(self, call=replace(self.call, values=copied(self.call.values)))
        values = kept.to_work_on()
        trace, unseen = kept.traced_once(values, exact_bytes, operations)
        if unseen is not None:
            closer, again = replace(kept, programs=(*self.programs, unseen)), kept.to_work_on()
            with redirect_stdout(io.StringIO()):  # what it prints was printed by the first
                seen, _ = closer.traced_once(again, exact_bytes, operations, unseen)
            if seen.fault is not None and seen.fault.step is not None:
                values, trace = again, seen
        wrong = wrong_element(values, expected) if trace.fault is None else None
        if wrong is not None:
            trace = kept.opened_at(wrong, trace, exact_bytes, operations)
        if in_place:
            self._take_over(values)
        return trace

    def opened_at(
        self, wrong: WrongElement, trace: Trace, exact_bytes: int, operations: bool
    ) -> Trace:
        """A trace that says who wrote a wrong element, and opens at the step, if need be with the
        program that did.
        """
        step = None
        writer = self._last_writer(wrong)
        if writer is not None and writer not in self.programs:
            closer = replace(self, programs=(*self.programs, writer))
            with redirect_stdout(io.StringIO()):
                trace, _ = closer.traced_once(self.to_work_on(), exact_bytes, operations)
        if writer is not None:
            step = writing_step(trace, wrong)
        advice = UNWRITTEN
        if step is not None:
            advice = f"Step {step.number} of program {writer} writes it, on line {step.line}."
        elif writer is not None:
            advice = f"Program {writer} writes it."
        trace.notices = (*trace.notices, f"{wrong} {advice}")
        trace.first_shown = None if step is None else step.number
        trace.wrong = wrong
        return trace

    def _last_writer(self, wrong: WrongElement) -> Program | None:
        """The program that writes an element last, of a further run."""
        call = replace(self.call, values=self.to_work_on())
        heard = LastWriter(wrong.address_in(call.values))
        with redirect_stdout(io.StringIO()):
            launch_observed(
                self.kernel, self.grid, call, self.code.batch, AccessObserver(heard.see),
                self.options,
            )  # fmt: skip
        return heard.program

    def traced_once(
        self,
        arguments: Mapping[str, Any],
        exact_bytes: int,
        operations: bool,
        added: Program | None = None,
    ) -> tuple[Trace, Program | None]:
        """One run, and its trace.

        Args:
            arguments: with the tensors that the run may write.
            exact_bytes: the largest value that is kept exactly.
            operations: whether steps are operations.
            added: a program that is traced though no one chose it.

        Returns:
            The trace; and the program that was not traced and ended the run by a fault, where one
            did.
        """
        call, values = replace(self.call, values=arguments), ValueStore(exact_bytes)
        recorder = Recorder(values, MOST_STEPS, compiled_sources(self.kernel))
        memory = Checkpoints(self.call, call, values)
        fault, unseen = None, None
        try:
            self.run(call, recorder, memory)
        except KernelFault as error:
            fault = TracedFault(type(error).__name__, str(error), error.position, memory.fault_step)
            if fault.step is None:
                unseen = next(iter(error.programs), None)
        memory.end(len(recorder.steps))
        edited = triton_api.edited_functions(self.kernel)
        names = {function.__name__ for function in edited}
        later = [source for source in recorder.sources if source.function not in names]
        trace = Trace(
            self._facts(exact_bytes, operations),
            recorder.steps,
            recorder.frames,
            values,
            memory.arguments,
            memory.checkpoints,
            recorder.sources,
            fault,
            [
                *self.notes,
                *([_CUT.format(len(recorder.steps), recorder.left_out)] * bool(recorder.left_out)),
                *([] if added is None else [_ADDED.format(added)]),
                *([] if fault is None else _not_run(self.programs, recorder.frames)),
                *map(triton_api.format_edited, edited),
            ],
            self.computed_again,
            functools.partial(_stale, self.kernel, later),
            lambda programs: replace(self, programs=tuple(programs)).traced(
                False, exact_bytes, operations, Results()
            ),
        )
        return trace, unseen

    def to_work_on(self) -> dict[str, Any]:
        """The arguments for one run: copies of those tensors whose memory the kernel may write,
        the others as they are.
        """
        values = self.call.values
        written = self._may_be_written()
        storages = {
            tensor.untyped_storage().data_ptr()
            for name, tensor in tensors_in(values)
            if name in written
        }
        shared = {
            name
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
            and value.untyped_storage().data_ptr() not in storages
        }
        copies = copied({name: value for name, value in values.items() if name not in shared})
        return {name: copies.get(name, value) for name, value in values.items()}

    def _take_over(self, values: Mapping[str, Any]) -> None:
        """Let the launch's own tensors have what a run left in `values`;
        arrays that are read-only are as they were.
        """
        names = values.keys() - self.call.readonly
        ours = self.call.values
        copied_back({name: values[name] for name in names}, {name: ours[name] for name in names})

    def _may_be_written(self) -> set[str]:
        """Names of tensors that the kernel may write; all of them where no one knows."""
        effects = memory_effects(self.code.batch)
        if effects.stored is None or effects.updated is None:
            return {name for name, _ in tensors_in(self.call.values)}
        names = argument_names(self.call, self.code.batch)
        return {names[number] for number in effects.stored | effects.updated}

    def run(self, call: BoundCall, recorder: Recorder, memory: Checkpoints | None = None) -> None:
        """Run it in place, a recorder listening."""
        hook = TracingHook(recorder, self.code)
        ends = self.code.batch.watched is None  # programs that wait come back for another turn
        chosen = linear_ids(self.programs, self.grid)

        def on_batch(programs: Programs) -> None:
            if memory is not None:
                memory.next_runs(int(programs.linear[0]) in chosen, len(recorder.steps))

        observer = TracingObserver(recorder, hook, _buffers(call), on_batch)
        around = functools.partial(hook.program, ends=ends)
        stepping = Stepping(self.code, self.programs, hook, observer, around)
        try:
            launch_stepped(self.kernel, self.grid, call, stepping, self.options)
            recorder.end()
        except KernelFault as fault:
            hook.stopped(fault)
            if memory is not None:
                memory.stopped(recorder.current_step)
            recorder.end()
            raise
        finally:
            hook.forget()
            observer.forget()

    def computed_again(self, wanted: Mapping[int, set[str]]) -> Mapping[tuple[int, str], Any]:
        """The values that these steps gave to these names, from another run."""
        recorder = SecondRecorder(wanted)
        again = replace(self.call, values=self.to_work_on())
        printed_before = io.StringIO()
        with suppress(Enough, KernelFault), redirect_stdout(printed_before):
            self.run(again, recorder)
        return recorder.caught

    def _facts(self, exact_bytes: int, operations: bool) -> TraceFacts:
        specialization = self.call.specialization
        return TraceFacts(
            kernel=self.kernel.__name__,
            grid=self.grid,
            target=self.target,
            programs=self.programs,
            operations=operations,
            constants={
                name: repr(self.call.values[name])
                for name, type in specialization.signature.items()
                if type == "constexpr"
            },
            options={name: str(value) for name, value in self.options.changed().items()},
            largest_exact=exact_bytes,
        )


_ADDED = (
    "Program {} is traced too: the fault is in it, and it was not among those that were chosen."
)
_CUT = "The trace ends after {:,} steps; {:,} more were made. Trace fewer programs."


def _not_run(programs: Sequence[Program], frames: Sequence[Frame]) -> list[str]:
    """That chosen programs are not there, since a fault stopped the launch before their turn."""
    ran = {frame.program for frame in frames}
    missing = [program for program in programs if program not in ran]
    if not missing:
        return []
    more = len(missing) - _PROGRAMS_NAMED
    named = ", ".join(map(str, missing[:_PROGRAMS_NAMED])) + (
        f" and {more:,} more" if more > 0 else ""
    )
    plural = len(missing) > 1
    return [
        (
            f"Program{'s' if plural else ''} {named} did not run: the fault stopped the launch "
            f"before {'their' if plural else 'its'} turn."
        )
    ]


_PROGRAMS_NAMED = 4
"""So many programs are named one by one."""


def _stale(kernel: Any, sources: Sequence[SourceText]) -> list[str]:
    """A sentence for each way in which the kernel is another one than it was when it ran."""
    name = kernel.__name__
    now = triton_api.source_now(kernel)
    if now is not None and now != "".join(kernel.raw_src):
        return [
            (
                f"{name} has been defined anew since this trace was recorded; the lines shown are "
                "those that ran."
            )
        ]
    return changed_sources(sources)


def _buffers(call: BoundCall) -> dict[str, Buffer]:
    """The memory of each tensor among the arguments."""
    return {
        name: Buffer(name, tensor.detach(), array_of(tensor[:0] if tensor.ndim else tensor).dtype)
        for name, tensor in tensors_in(call.values)
    }
