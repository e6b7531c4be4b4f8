"""`kernellab.trace`: a launch that is run for its trace, and again for values not kept."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.common.arguments import check_flags, check_whole
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler.arguments import array_of
from kernellab.compiler.binding import BoundCall
from kernellab.errors import KernelFault, OptionError
from kernellab.interpreter.execution import launcher
from kernellab.interpreter.execution.grid import Programs, chosen_programs, linear_ids
from kernellab.interpreter.execution.program import is_asynchronous, memory_effects
from kernellab.interpreter.execution.stepping_code import SteppingCode, stepping_code
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.interpreter.tiles import full
from kernellab.ir.operations import global_effect
from kernellab.launch.argument_copies import copied, copied_back, tensors_in
from kernellab.launch.dispatch import check_fits
from kernellab.launch.preparation import EntryPoint, prepare_bound, takes_launch
from kernellab.launch.reference_results import Reference, Results, expected_results, tensor_about
from kernellab.launch.results import UNWRITTEN, Tolerances, compare, rounding_of
from kernellab.records import BoundLaunch, Target
from kernellab.records.launches import Difference, RunOptions
from kernellab.tracing import steps
from kernellab.tracing.recorder import (
    MOST_STEPS,
    Enough,
    Recorder,
    SecondRecorder,
    TracingHook,
    TracingObserver,
)
from kernellab.tracing.records import Trace
from kernellab.tracing.values import LARGEST_EXACT, ValueStore


def _argument(
    name: str, tensor: torch.Tensor, dtype: str, storages: dict[int, int]
) -> steps.TracedArgument:
    """The facts of a tensor; `storages` numbers the memory that there is, by its address."""
    number = storages.setdefault(tensor.untyped_storage().data_ptr(), len(storages))
    start = int(tensor.storage_offset()) * tensor.element_size()
    return steps.TracedArgument(
        name, dtype, tuple(tensor.shape), tuple(tensor.stride()), number, start
    )


class Checkpoints:
    """The arguments' contents, kept whenever programs that are not traced may have changed them.

    Attributes:
        fault_step: the step in which the run stopped; None without one in these programs.
    """

    def __init__(self, before: BoundCall, works_on: BoundCall, values: ValueStore) -> None:
        self._tensors = dict(tensors_in(works_on.values))
        self._values = values
        self._latest = {name: array_of(tensor) for name, tensor in tensors_in(before.values)}
        self.fault_step: int | None = None
        self._others_ran = False
        storages: dict[int, int] = {}
        self.arguments = {
            name: _argument(name, tensor, self._latest[name].dtype.name, storages)
            for name, tensor in self._tensors.items()
        }
        contents = {name: values.add(tensor, whole=True) for name, tensor in self._latest.items()}
        self.checkpoints = [steps.Checkpoint(0, contents)]

    def next_runs(self, is_traced: bool, step: int) -> None:
        """Programs run next, traced or not; the next step of a traced one has that number."""
        if is_traced and self._others_ran:
            self._take(step)
        self._others_ran = not is_traced

    def stopped(self, step: int | None) -> None:
        """A fault ended the run, in that step if the program is traced."""
        if not self._others_ran:
            self.fault_step = step

    def _take(self, step: int) -> None:
        changed = {}
        for name, tensor in self._tensors.items():
            now = array_of(tensor)
            if now.tobytes() != self._latest[name].tobytes():
                self._latest[name] = now.copy()
                changed[name] = self._values.add(self._latest[name], whole=True)
        if changed:
            self.checkpoints.append(steps.Checkpoint(step, changed))

    def end(self, step: int) -> None:
        if self._others_ran:
            self._take(step)


def wrong_element(
    values: Mapping[str, Any], expected: Results, parts: Mapping[str, float]
) -> Difference | None:
    """Return the first wrong element, or None; `parts`: see `launch.results.rounding_of`."""
    allowed = Tolerances(stated=expected.allowed, parts=lambda: parts)
    return next(compare({name: _left(values, name) for name in expected}, expected, allowed), None)


def _left(values: Mapping[str, Any], name: str) -> torch.Tensor:
    """Return the contents after a run of an argument that has an expected result."""
    tensor = tensor_about(values[name])
    assert tensor is not None  # `right_results` has seen to that
    return tensor


class LastWriter:
    """Finds the program that writes a byte last, from a run's accesses.

    Attributes:
        program: its id; None if none does.
    """

    def __init__(self, address: int) -> None:
        self._address = address
        self.program: steps.Program | None = None

    def see(self, seen: ObservedAccess) -> None:
        if global_effect(seen.operation) == "load":
            return
        extents = seen.shape
        rank = len(extents)
        addresses = full(seen.addresses, extents)
        here = (addresses <= self._address) & (self._address < addresses + seen.size)
        if seen.mask is not None:
            here = here & full(seen.mask, extents)
        programs = numpy.ones(seen.programs.count, numpy.bool_)
        if seen.active is not None:
            programs = programs & seen.active
        if here.ndim > rank:
            programs = programs & here.reshape(len(here), -1).any(axis=1)
        elif not here.any():
            return
        if programs.any():
            self.program = seen.programs.id(int(numpy.flatnonzero(programs)[-1]))


def writing_step(trace: Trace, wrong: Difference) -> steps.Step | None:
    """The last step of a trace that writes an element; None if none does."""
    offset = trace.arguments[wrong.name].offset_of(wrong.index)
    for step in reversed(trace.steps):
        for access in step.accesses:
            writes = access.kind != "load" and access.argument == wrong.name
            if writes and access.has_elements and (access.elements == offset).any():
                return step
    return None


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that can be traced again and again, with its arguments as given in `call`."""

    kernel: Any
    grid: steps.Program
    call: BoundCall
    code: SteppingCode
    programs: tuple[steps.Program, ...]
    options: RunOptions
    target: str
    notes: tuple[str, ...] = ()

    def traced(
        self, in_place: bool, exact_bytes: int, operations: bool, expected: Results
    ) -> Trace:
        """Run it and keep the steps; again with the failing or first wrong program, if untraced."""
        kept = replace(self, call=replace(self.call, values=copied(self.call.values)))
        values = kept.to_work_on()
        trace, unseen = kept.traced_once(values, exact_bytes, operations)
        if unseen is not None:
            closer, again = replace(kept, programs=(*self.programs, unseen)), kept.to_work_on()
            with redirect_stdout(io.StringIO()):  # what it prints was printed by the first
                seen, _ = closer.traced_once(again, exact_bytes, operations, unseen)
            if seen.fault is not None and seen.fault.step is not None:
                values, trace = again, seen
        wrong = None
        if trace.fault is None:
            wrong = wrong_element(values, expected, trace.facts.roundings)
        if wrong is not None:
            trace = kept.opened_at(wrong, trace, exact_bytes, operations)
        if in_place:
            names = values.keys() - self.call.readonly
            ours = self.call.values
            copied_back(
                {name: values[name] for name in names}, {name: ours[name] for name in names}
            )
        return trace

    def opened_at(
        self, wrong: Difference, trace: Trace, exact_bytes: int, operations: bool
    ) -> Trace:
        """A trace that opens at the step that wrote a wrong element, in its program."""
        step = None
        writer = self.last_writer(wrong.name, wrong.index)
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
        trace.notices = (*trace.notices, f"{wrong}. {advice}")
        trace.first_shown = None if step is None else step.number
        trace.wrong = wrong
        return trace

    def last_writer(self, argument: str, index: tuple[int, ...]) -> steps.Program | None:
        """Run once more, and return the program that writes an element last, or None."""
        call = replace(self.call, values=self.to_work_on())
        tensor = dict(tensors_in(call.values))[argument]
        heard = LastWriter(tensor[index].data_ptr())
        with redirect_stdout(io.StringIO()):
            launcher.launch_observed(
                self.kernel, self.grid, call, self.code.batch, AccessObserver(heard.see),
                self.options,
            )  # fmt: skip
        return heard.program

    def traced_once(
        self,
        arguments: Mapping[str, Any],
        exact_bytes: int,
        operations: bool,
        added: steps.Program | None = None,
    ) -> tuple[Trace, steps.Program | None]:
        """Run the launch once. `arguments`: with the tensors that the run may write. Returns the
        trace, and the program that ended the run by a fault if it was not traced.
        """
        call, values = replace(self.call, values=arguments), ValueStore(exact_bytes)
        recorder = Recorder(values, MOST_STEPS, steps.compiled_sources(self.kernel))
        memory = Checkpoints(self.call, call, values)
        fault, unseen = None, None
        try:
            self.run(call, recorder, memory)
        except KernelFault as error:
            fault = steps.TracedFault(
                type(error).__name__, str(error), error.position, memory.fault_step
            )
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
            self.last_writer,
            recorder.asynchronous,
        )
        return trace, unseen

    def to_work_on(self) -> dict[str, Any]:
        """The arguments for one run: copies of tensors that the kernel may write."""
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

    def _may_be_written(self) -> set[str]:
        """Names of tensors that the kernel may write; all of them if that is not known."""
        effects = memory_effects(self.code.batch)
        if effects.stored is None or effects.updated is None:
            return {name for name, _ in tensors_in(self.call.values)}
        names = launcher.argument_names(self.call, self.code.batch)
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
        stepping = launcher.Stepping(
            self.code, self.programs, hook, observer, around, issued=hook.issued
        )
        try:
            launcher.launch_stepped(self.kernel, self.grid, call, stepping, self.options)
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

    def _facts(self, exact_bytes: int, operations: bool) -> steps.TraceFacts:
        specialization = self.call.specialization
        return steps.TraceFacts(
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
            roundings=rounding_of(self.code.batch),
        )


_ADDED = (
    "Program {} is traced too: the fault is in it, and it was not among those that were chosen."
)
_CUT = "The trace ends after {:,} steps; {:,} more were made. Trace fewer programs."


def _not_run(programs: Sequence[steps.Program], frames: Sequence[steps.Frame]) -> list[str]:
    """The note that chosen programs are missing, because a fault stopped the launch before them."""
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
        f"Program{'s' if plural else ''} {named} did not run: the fault stopped the launch "
        f"before {'their' if plural else 'its'} turn."
    ]


_PROGRAMS_NAMED = 4
"""The most programs that are named one by one."""


def _stale(kernel: Any, sources: Sequence[steps.SourceText]) -> list[str]:
    """A sentence for each way in which the kernel has changed since it ran."""
    name = kernel.__name__
    now = triton_api.source_now(kernel)
    if now is not None and now != "".join(kernel.raw_src):
        return [
            f"{name!r} was redefined after this trace was recorded; the lines shown are those that "
            "ran."
        ]
    return steps.changed_sources(sources)


def _buffers(call: BoundCall) -> dict[str, Buffer]:
    return {
        name: Buffer(name, tensor.detach(), array_of(tensor[:0] if tensor.ndim else tensor).dtype)
        for name, tensor in tensors_in(call.values)
    }


@takes_launch
def trace(
    launch: BoundLaunch,
    *,
    programs: str | int | Sequence[Any] = (0, 0, 0),
    operations: bool = False,
    in_place: bool = False,
    exact_bytes: int = LARGEST_EXACT,
    target: str | Target | None = None,
    expect: Reference | None = None,
) -> Trace:
    """Run a launch on the interpreter and record every step of the chosen programs: the line, the
    variables that it changed, and the memory that it accessed.

    The whole grid runs, in the order that `order` and `seed` select. Chosen programs run line by
    line, the others in batches between them. A fault ends the run, and the trace holds every step
    before it. Tensors on a GPU, up to 1 GiB, are copied to the CPU; a notice of the trace says so.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch. Of an
            autotuned kernel, the first config is used. With `completion="late"`,
            `Trace.in_flight` lists the asynchronous operations of a step; a Triton kernel is then
            followed as TTGIR, without its variables.
        programs: the programs to trace: one as a tuple `(x, y, z)`, `(x, y)` or a number, several
            as a list, or "all"; at most 100,000.
        operations: record one step for each operation of the IR instead of each line.
        in_place: whether the run changes the arguments. By default it works on copies.
        exact_bytes: the largest value of a variable, in bytes, that is kept exactly. Of a larger
            value a summary is kept, and the kernel runs again when its elements are requested.
            Arguments and the values stored to them are kept up to 256 MiB in total.
        target: the GPU to emulate, such as "sm_90"; None for the one that a launch would emulate.
        expect: the right results, as for `kernellab.check`. If an element differs, the program that
            wrote it is traced too, a notice names the step, and the stepper opens there.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Returns:
        The Trace.

    Raises:
        ArgumentError: the arguments do not fit, or more than 1 GiB of them are on a GPU.
        OptionError: a program is outside the grid, or traces do not have an option.
        GridError, CompileError, UnsupportedOperation: as `kernellab.run`.
    """
    __tracebackhide__ = True
    check_flags(operations=operations, in_place=in_place)
    check_whole("exact_bytes", exact_bytes)
    prepared = prepare_bound(launch, target, _TRACE)
    plain, call, emulated = prepared.kernel, prepared.call, prepared.target
    check_fits(plain, call, emulated)
    sizes = prepared.sizes()
    wanted = chosen_programs(programs, sizes, "programs")
    with ProgressBar(f"trace {plain.__name__}", None, "programs", UNTOUCHED):
        late = prepared.options.completes_late
        code = stepping_code(
            plain, call, emulated, traced=True, traces_operations=operations, is_late=late
        )
        notes = prepared.notes
        if late and not plain.is_gluon():
            if not is_asynchronous(code.batch):
                raise OptionError(
                    f"completion={prepared.options.completion!r} is not available: compiled for "
                    f"{emulated}, {plain.__name__} has no asynchronous operations.",
                    advice="Remove completion=.",
                    position=triton_api.definition_of(plain),
                )
            notes = (*notes, _COMPILED)
        traced = TracedLaunch(
            plain, sizes, call, code, wanted, prepared.options, str(emulated), notes
        )
        expected = expected_results(expect, prepared, code.batch)
        trace = traced.traced(in_place, exact_bytes, operations, expected)
        if in_place:
            prepared.copy_to_originals()
    trace.launch = replace(launch, target=emulated, expect=expect)
    return trace


_COMPILED = (
    "The steps are those of the compiled kernel (TTGIR). Its variables, and the steps of groups "
    "of warps in warp-specialized code, are not recorded."
)

_TRACE = EntryPoint(
    "trace",
    {"stage": "a trace follows the source's lines, which only TTIR from the front end still has"},
    keeps_assertions=True,
    steps=True,
)
