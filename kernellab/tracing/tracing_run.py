"""`kernellab.trace`: run a launch, and keep what chosen programs did."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.argument_copies import copied, copied_back, tensors_in
from kernellab.compiler.pipeline import unwrap_kernel
from kernellab.compiler.targets import parse_target
from kernellab.errors import KernelFault, OptionError
from kernellab.interpreter.grid import Programs, check_grid, linear_ids
from kernellab.interpreter.launcher import Stepping, argument_names, launch_stepped
from kernellab.interpreter.memory import Buffer
from kernellab.interpreter.stepping.code import SteppingCode, stepping_code
from kernellab.interpreter.written import written_by
from kernellab.interpreting import emulated_for
from kernellab.launching import Grid, bind_launch, innermost, refuse_gpu
from kernellab.records import Target
from kernellab.run_options import DEFAULT, RunOptions, split_keywords
from kernellab.specialize import BoundCall, array_of
from kernellab.tracing.hooks import TracingHook, TracingListener
from kernellab.tracing.recording import MOST_STEPS, Enough, Recorder, SecondRecorder
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Checkpoint, Program, TracedArgument, TracedFault, TraceFacts
from kernellab.tracing.values import LARGEST_EXACT, ValueStore


def trace(
    kernel: Any,
    grid: Grid,
    *args: Any,
    programs: str | int | Sequence[Any] = (0, 0, 0),
    operations: bool = False,
    in_place: bool = False,
    exact_bytes: int = LARGEST_EXACT,
    target: str | Target | None = None,
    **keywords: Any,
) -> Trace:
    """Run a launch on the interpreter and keep every step of chosen programs: the line, what it changed, what it accessed.

    The whole grid runs, in the order that the options ask for: chosen programs one by one, line by line, the others in batches between them. A fault ends the run, and the trace holds every step up to it.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`; of an autotuned kernel, the first config counts.
        programs: which ones are traced: one as a tuple `(x, y, z)`, `(x, y)` or a number, several as a list of such, or "all".
        operations: one step for each operation of the IR, not for each line.
        in_place: let the run change the arguments, once it has come to its end or to a fault; else it works on copies.
        exact_bytes: the largest value that is kept exactly. Of a larger one a summary is kept, and when its elements are asked for, the kernel runs again.
        target: the GPU to emulate, "sm_90", ...; None means the one that a launch would emulate.

        A name that is also a parameter of the kernel is the parameter.

    Returns:
        The Trace.

    Raises:
        ArgumentError: arguments that do not fit, or tensors on a GPU.
        OptionError: a program outside the grid, or an option that traces do not have.
        GridError, CompileError, UnsupportedOperation: as `kernellab.run`.
    """
    __tracebackhide__ = True
    wishes = _Wishes(programs, operations, in_place, exact_bytes, target)
    wishes, of_parameters = _apart(wishes, innermost(kernel).arg_names)
    chosen = emulated_for(kernel) if wishes.target is None else parse_target(wishes.target)
    plain, keywords = unwrap_kernel(kernel, args, {**keywords, **of_parameters}, {})
    keywords, outright, options = split_keywords(keywords, plain.arg_names)
    _refuse_stage(plain, options)
    refuse_gpu(plain, args, keywords, "trace")
    call = bind_launch(plain, args, keywords, outright, chosen)
    sizes = check_grid(grid, call.values)
    wanted = chosen_programs(wishes.programs, sizes)
    code = stepping_code(plain, call, chosen, traced=True, traces_operations=wishes.operations)
    launch = TracedLaunch(plain, sizes, call, code, wanted, options, str(chosen))
    return launch.traced(wishes.in_place, wishes.exact_bytes, wishes.operations)


@dataclass(frozen=True)
class _Wishes:
    """What `trace` itself is told; see there."""

    programs: Any = (0, 0, 0)
    operations: Any = False
    in_place: Any = False
    exact_bytes: Any = LARGEST_EXACT
    target: Any = None


def _apart(wishes: _Wishes, parameters: Sequence[str]) -> tuple[_Wishes, dict[str, Any]]:
    """A name that is a parameter of the kernel is the parameter: the wishes without those, and what is for the kernel."""
    defaults = _Wishes()
    both = [one.name for one in fields(_Wishes) if one.name in parameters]
    given = {name: getattr(wishes, name) for name in both}
    for_kernel = {name: one for name, one in given.items() if one is not getattr(defaults, name)}
    return replace(wishes, **{name: getattr(defaults, name) for name in both}), for_kernel


def chosen_programs(programs: Any, grid: Program) -> tuple[Program, ...]:
    """The programs that are meant, each once, in the order of their linear ids.

    Raises:
        OptionError: one is not in the grid, or is no program.
    """
    if isinstance(programs, str) and programs == "all":
        x, y, z = grid
        return tuple((i, j, k) for k in range(z) for j in range(y) for i in range(x))
    several = [programs] if _is_tuple(programs) or not isinstance(programs, Iterable) else programs
    meant = []
    for one in () if isinstance(programs, str) else several:
        numbers = one if _is_tuple(one) else (one,)
        if len(numbers) > 3 or not all(isinstance(n, int | numpy.integer) for n in numbers):
            raise _no_program(one)
        x, y, z = (*map(int, numbers), 0, 0)[:3]
        meant.append((x, y, z))
    if not meant:
        raise _no_program(programs)
    linear_ids(meant, grid)
    return tuple(sorted(set(meant), key=lambda one: one[::-1]))


def _is_tuple(value: Any) -> bool:
    """Whether it is one program, or would be."""
    return isinstance(value, tuple) and not any(isinstance(one, tuple) for one in value)


def _no_program(value: Any) -> OptionError:
    return OptionError(
        f"programs={value!r} names no program",
        advice='Give one as a tuple, programs=(3, 0, 0), several as a list, programs=[0, 1, 2], or "all".',
    )


def _refuse_stage(kernel: Any, options: RunOptions) -> None:
    if options.stage != DEFAULT.stage:
        raise OptionError(
            f"stage={options.stage!r}: a trace follows the source's lines, which only TTIR from the front end still has",
            advice="Leave the stage out.",
            position=triton_api.definition_of(kernel),
        )


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that can be traced, again and again: `call` holds the arguments as they were given."""

    kernel: Any
    grid: Program
    call: BoundCall
    code: SteppingCode
    programs: tuple[Program, ...]
    options: RunOptions
    target: str

    def traced(self, in_place: bool, exact_bytes: int, operations: bool) -> Trace:
        """Run it and keep the steps."""
        kept = replace(self, call=replace(self.call, values=copied(self.call.values)))
        works_on = replace(self.call, values=kept.to_work_on())
        values = ValueStore(exact_bytes)
        recorder = Recorder(values, MOST_STEPS)
        memory = _Checkpoints(kept.call, works_on, values)
        fault = None
        try:
            self.run(works_on, recorder, memory)
        except KernelFault as error:
            fault = TracedFault(type(error).__name__, str(error), error.position, memory.fault_step)
        memory.end(len(recorder.steps))
        if in_place:
            self._take_over(works_on.values)
        return Trace(
            self._facts(exact_bytes, operations),
            recorder.steps,
            recorder.frames,
            values,
            memory.arguments,
            memory.checkpoints,
            recorder.sources,
            fault,
            _notices(recorder),
            kept.computed_again,
        )

    def to_work_on(self) -> dict[str, Any]:
        """The arguments for one run: copies of those tensors whose memory the kernel may write, the others as they are."""
        values = self.call.values
        written = self._may_be_written()
        storages = {one.untyped_storage().data_ptr() for name, one in tensors_in(values) if name in written}  # fmt: skip
        shared = {
            name
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
            and value.untyped_storage().data_ptr() not in storages
        }
        copies = copied({name: value for name, value in values.items() if name not in shared})
        return {name: copies.get(name, value) for name, value in values.items()}

    def _take_over(self, values: Mapping[str, Any]) -> None:
        """Let the launch's own tensors have what a run left in `values`; arrays that are read-only are as they were."""
        names = values.keys() - self.call.readonly
        ours = self.call.values
        copied_back({name: values[name] for name in names}, {name: ours[name] for name in names})

    def _may_be_written(self) -> set[str]:
        """Names of tensors that the kernel may write; all of them where nobody knows."""
        written = written_by(self.code.batch)
        if written.stored is None or written.updated is None:
            return {name for name, _ in tensors_in(self.call.values)}
        names = argument_names(self.call, self.code.batch)
        return {names[number] for number in written.stored | written.updated}

    def run(self, call: BoundCall, recorder: Recorder, memory: _Checkpoints | None = None) -> None:
        """Run it in place, a recorder listening."""
        hook = TracingHook(recorder, self.code)
        waits = self.code.batch.watched is not None
        chosen = linear_ids(self.programs, self.grid)
        others_ran = False

        def heard(programs: Programs) -> None:
            nonlocal others_ran
            is_chosen = int(programs.linear[0]) in chosen
            if memory is not None and is_chosen and others_ran:
                memory.take(len(recorder.steps))
            others_ran = not is_chosen
            if memory is not None:
                memory.others_ran = others_ran

        @contextmanager
        def around(programs: Programs) -> Iterator[None]:
            with hook.program(programs, ends=not waits):
                yield

        listener = TracingListener(recorder, hook, _buffers(call), heard)
        stepping = Stepping(self.code, self.programs, hook, listener, around)
        try:
            launch_stepped(self.kernel, self.grid, call, stepping, self.options)
            hook.end()
        except KernelFault as fault:
            hook.stopped(fault)
            if memory is not None and not others_ran:
                memory.fault_step = recorder.current_step
            hook.end()
            raise
        finally:
            hook.forget()
            listener.forget()

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


def _notices(recorder: Recorder) -> list[str]:
    if not recorder.left_out:
        return []
    return [
        f"The trace ends after {len(recorder.steps):,} steps; {recorder.left_out:,} more were made. Trace fewer programs."
    ]


def _buffers(call: BoundCall) -> dict[str, Buffer]:
    """The memory of each tensor among the arguments."""
    return {
        name: Buffer(name, tensor.detach(), array_of(tensor[:0] if tensor.ndim else tensor).dtype)
        for name, tensor in tensors_in(call.values)
    }


def _argument(name: str, tensor: torch.Tensor, dtype: str, storages: dict[int, int]) -> TracedArgument:  # fmt: skip
    """The facts of a tensor; `storages` numbers the memory that there is, by its address."""
    number = storages.setdefault(tensor.untyped_storage().data_ptr(), len(storages))
    start = int(tensor.storage_offset()) * tensor.element_size()
    return TracedArgument(name, dtype, tuple(tensor.shape), tuple(tensor.stride()), number, start)


class _Checkpoints:
    """What the arguments hold, kept whenever programs that are not traced may have changed it.

    Attributes:
        arguments: the tensors of the launch.
        checkpoints: what was kept.
        fault_step: number of the step in which the run stopped; None where it did not, or in another program.
        others_ran: whether what ran last is not traced.
    """

    def __init__(self, before: BoundCall, works_on: BoundCall, values: ValueStore) -> None:
        self._tensors = dict(tensors_in(works_on.values))
        self._values = values
        self._latest = {name: array_of(one) for name, one in tensors_in(before.values)}
        self.fault_step: int | None = None
        self.others_ran = False
        storages: dict[int, int] = {}
        self.arguments = {
            name: _argument(name, one, self._latest[name].dtype.name, storages)
            for name, one in self._tensors.items()
        }
        contents = {name: values.add(one, whole=True) for name, one in self._latest.items()}
        self.checkpoints = [Checkpoint(0, contents)]

    def take(self, step: int) -> None:
        """Keep what has changed since the last time; the step is the one that follows."""
        changed = {}
        for name, tensor in self._tensors.items():
            now = array_of(tensor)
            if now.tobytes() != self._latest[name].tobytes():
                self._latest[name] = now.copy()
                changed[name] = self._values.add(self._latest[name], whole=True)
        if changed:
            self.checkpoints.append(Checkpoint(step, changed))

    def end(self, step: int) -> None:
        """The run is over."""
        if self.others_ran:
            self.take(step)
