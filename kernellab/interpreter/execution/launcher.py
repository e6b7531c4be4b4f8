"""A launch on the CPU: arguments to buffers, then batch after batch of programs."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.common.progress import ProgressBar
from kernellab.compiler.arguments import FormattedArguments
from kernellab.compiler.binding import BoundCall
from kernellab.errors import ArgumentError
from kernellab.interpreter.codegen.emitter import AfterOperation
from kernellab.interpreter.execution.faults import (
    FAULTS,
    CollectedFaults,
    FaultObserver,
    explain,
    first_in_order,
)
from kernellab.interpreter.execution.grid import (
    Grid,
    GridSizes,
    Programs,
    batches,
    chosen_batches,
    grid_to_run,
    linear_ids,
    set_apart,
)
from kernellab.interpreter.execution.inspection import AttachedDebugger
from kernellab.interpreter.execution.program import ProgramCode, program_code, program_of_text
from kernellab.interpreter.execution.scheduler import (
    Preemption,
    Residency,
    Step,
    idle_variables,
    take_turns,
)
from kernellab.interpreter.execution.stepping_code import SteppingCode, stepping_code
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import memory_behind
from kernellab.interpreter.memory.asynchrony import Issued, late_modules
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.descriptors import Descriptor
from kernellab.interpreter.memory.observers import RunObserver
from kernellab.records import Launch, Run, Target
from kernellab.records.launches import DEFAULT, RunOptions
from kernellab.triton_api import definition_of


@dataclass(frozen=True)
class Instrument:
    """How a launch is observed while it runs in place.

    Attributes:
        after: adds the calls of the observer to the code.
        observer: is notified of it, and of every access.
    """

    after: AfterOperation
    observer: RunObserver


def launch(
    kernel: Any,
    grid: Sequence[int] | Callable[[Mapping[str, Any]], Any],
    call: BoundCall,
    target: Target,
    code: ProgramCode,
    options: RunOptions = DEFAULT,
    debugger: AttachedDebugger | None = None,
    instrument: Instrument | None = None,
    faults: CollectedFaults | None = None,
) -> Run:
    """Run a kernel on CPU tensors, in place, as the target would.

    Programs run in the order that `options` requests; programs of one batch run in lockstep, and
    see each other's stores only from the next operation on, as they may on a GPU. Programs that
    wait for each other take turns (`scheduler.py`). With a size of 0 there is no program, and
    nothing runs.

    A debugger that is attached to the process sees the programs that it asks for as code
    for stepping, and no others. With `faults`, the run continues after an access out of bounds,
    which is collected there, and debuggers see no program.

    Args:
        code: the code for this call, at the stage that `options` ask for.

    Raises:
        GridError: a grid that no GPU would accept.
        CompileError: the kernel does not compile.
        UnsupportedOperation: the interpreter does not know one of its operations.
        OutOfBounds: an access outside the storage behind its tensor, or outside the tensor where
            `options` ask for that; nothing was written there.
        Deadlock: programs wait for each other forever.
        KernelFault: a failed device_assert, a gather from beyond its tile, or a store into
            read-only memory.
    """
    __tracebackhide__ = True
    start = time.perf_counter()
    sizes = grid_to_run(grid, call.values, may_be_empty=True)
    if instrument is not None and 0 not in sizes:
        after, is_late = instrument.after, options.completes_late
        code = program_code(kernel, call, target, options.stage, after, is_late)
        _run(kernel, sizes, call, options, code, instrument.observer)
    elif faults is not None:
        collector = FaultObserver(
            kernel.__name__,
            code,
            faults,
            lambda fault, programs: explain(fault, programs, sizes, code, call),
        )
        _run(kernel, sizes, call, options, code, collector)
    elif debugger is None or 0 in sizes:
        _run(kernel, sizes, call, options, code)
    else:
        with debugger.stepping_over():
            stepped = stepping_code(kernel, call, target, is_late=options.completes_late)
            files = {function.source.file for function in stepped.functions.values()}
            programs = debugger.programs(files, sizes)
            stepping = Stepping(stepped, programs, stop=debugger.stop, hides_others=True)
            launch_stepped(kernel, sizes, call, stepping, options)
    launch = Launch(
        kernel=kernel.__name__,
        grid=sizes,
        specialization=call.specialization,
        arguments=FormattedArguments(call.values),
        options={**call.options, **({} if options is DEFAULT else options.changed())},
    )
    return Run(launch, "interpreter", target, time.perf_counter() - start)


def launch_text(kernel: Any, grid: Any, call: BoundCall, text: str) -> None:
    """Run a module in MLIR's generic form that `kernel` became, in place; see `launch`."""
    __tracebackhide__ = True
    _run(kernel, grid_to_run(grid, call.values), call, DEFAULT, program_of_text(text, kernel))


def launch_observed(
    kernel: Any,
    grid: Any,
    call: BoundCall,
    code: ProgramCode,
    observer: RunObserver | None,
    options: RunOptions = DEFAULT,
    preemption: Preemption | Residency | None = None,
    explains: bool = True,
) -> None:
    """Run a kernel's code in place; the observer is notified of every access. Raises as `launch`.

    Args:
        preemption: how programs are preempted, of code that has switch points, or how many are
            alive at a time.
        explains: False if errors are not read: a fault is raised as it is, because its explanation
            takes longer than the run of a small launch.
    """
    __tracebackhide__ = True
    sizes = grid_to_run(grid, call.values, may_be_empty=True)
    _run(kernel, sizes, call, options, code, observer, preemption, explains=explains)


def launch_sampled(
    kernel: Any,
    sizes: Grid,
    call: BoundCall,
    code: ProgramCode,
    observer: RunObserver,
    linear: Sequence[int],
) -> None:
    """Run a few programs of a grid in place, by their linear ids, and none of the others; the
    observer is notified of every access. Raises as `launch`.
    """
    __tracebackhide__ = True
    several = chosen_batches(sizes, code.batch, linear)
    _run(kernel, sizes, call, DEFAULT, code, observer, several=several)


@dataclass(frozen=True)
class Stepping:
    """How chosen programs of a launch are stepped through.

    Attributes:
        code: the code that they run as.
        programs: their ids.
        hook: what traced code calls, see `SteppingCode.prepared`.
        observer: is notified of every access that they make.
        around: makes a context in which a chosen program runs, or each turn of one if programs wait
            for each other.
        stop: what each `breakpoint()` calls.
        seen_as: the globals of the source as frames show them, see
            `SteppingCode.prepared`.
        hides_others: whether debuggers shall not see the code that the other programs run as.
        issued: is notified of the asynchronous operations of chosen programs, if they complete
            late.
    """

    code: SteppingCode
    programs: Collection[tuple[int, int, int]]
    hook: Any = None
    observer: RunObserver | None = None
    around: Callable[[Programs], AbstractContextManager[Any]] = nullcontext
    stop: Callable[[], None] | None = None
    seen_as: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    hides_others: bool = False
    issued: Issued | None = None


def launch_stepped(
    kernel: Any, grid: Any, call: BoundCall, stepping: Stepping, options: RunOptions = DEFAULT
) -> None:
    """Run a whole launch in place, its chosen programs alone and as code for stepping, all others
    in batches before and after them. Raises OptionError: a chosen program is not in the grid.
    """
    __tracebackhide__ = True
    code = stepping.code
    sizes = grid_to_run(grid, call.values)
    chosen = linear_ids(stepping.programs, sizes)
    arguments = _runtime_arguments(kernel, call, code.batch, options.bounds)
    with numpy.errstate(all="ignore"):
        batch = code.batch.hidden() if stepping.hides_others else code.batch
        program = dataclasses.replace(code.program, codes=code.program.codes | batch.codes)
        grid_sizes = GridSizes(*map(numpy.int32, sizes))
        run_batch = batch.prepare_with(_late(options))(*arguments, grid_sizes)
        step = code.prepared(
            arguments,
            grid_sizes,
            stepping.hook,
            stepping.observer,
            stepping.stop,
            stepping.seen_as,
            _late(options, stepping.issued),
        )
        all_batches = batches(sizes, code.batch.batch, options.order, options.seed)
        apart = set_apart(all_batches, chosen, sizes)

        def start(programs: Programs) -> Any:
            return (step if int(programs.linear[0]) in chosen else run_batch)(programs)

        if stepping.observer is not None:
            stepping.observer.operations = code.program.operations
        with _work(kernel, sizes, code.batch) as work:
            for programs, run in _steps(code.batch, start, apart):
                is_chosen = int(programs.linear[0]) in chosen
                around = stepping.around if is_chosen else nullcontext
                if stepping.observer is not None:
                    stepping.observer.programs = programs
                with around(programs):
                    explained = None
                    try:
                        run()
                    except FAULTS as fault:
                        first_fault = first_in_order(
                            fault, programs, run_batch, code=code.batch, arguments=arguments
                        )
                        explained = explain(*first_fault, sizes, program, call)
                    _raise_if(explained)
                work.advance(programs.count)


def _run(
    kernel: Any,
    sizes: Grid,
    call: BoundCall,
    options: RunOptions,
    code: ProgramCode,
    observer: RunObserver | None = None,
    preemption: Preemption | Residency | None = None,
    several: Iterator[Programs] | None = None,
    explains: bool = True,
) -> None:
    """Run the programs in `several`, or those of the whole grid if it is None."""
    __tracebackhide__ = True
    arguments = _runtime_arguments(kernel, call, code, options.bounds)
    prepare = code.prepare
    modules = _late(options)
    if observer is not None:
        observer.operations = code.operations
        modules |= observer.modules(code.watched or global_memory)
    if modules:
        prepare = code.prepare_with(modules)
    with numpy.errstate(all="ignore"):
        run_batch = prepare(*arguments, GridSizes(*map(numpy.int32, sizes)))
        all_batches = several or batches(sizes, code.batch, options.order, options.seed)
        with _work(kernel, sizes, code) as work:
            for programs, run in _steps(code, run_batch, all_batches, preemption):
                if observer is not None:
                    observer.programs = programs
                explained = None
                try:
                    run()
                except FAULTS as fault:
                    if not explains:
                        raise
                    first_fault = (fault, programs)
                    if observer is None:
                        first_fault = first_in_order(
                            fault, programs, run_batch, code=code, arguments=arguments
                        )
                    explained = explain(*first_fault, sizes, code, call)
                _raise_if(explained)
                work.advance(programs.count)


def _late(options: RunOptions, issued: Issued | None = None) -> dict[str, Any]:
    """The objects that generated code calls instead if asynchronous operations complete late."""
    if not options.completes_late:
        return {}
    return late_modules(options.completion, options.seed, issued)


def _raise_if(error: BaseException | None) -> None:
    """Raise an error, if there is one.

    Inside of the `except` block the fault would become the error's context. Dask pickles the
    context too, and a fault has code objects, which cannot be pickled.
    """
    __tracebackhide__ = True
    if error is not None:
        try:
            raise error
        finally:
            del error  # breaks the reference cycle with its traceback


def _work(kernel: Any, sizes: Grid, code: ProgramCode) -> ProgressBar:
    """The run's progress bar; the number of turns that waiting programs take is not known."""
    waiting = code.watched is not None
    return ProgressBar(
        kernel.__name__,
        None if waiting else math.prod(sizes),
        "turns" if waiting else "programs",
        "What its programs stored until then is in the arguments.",
    )


def _steps(
    code: ProgramCode,
    run_batch: Callable[[Programs], Any],
    all_batches: Iterator[Programs],
    preemption: Preemption | Residency | None = None,
) -> Iterator[Step]:
    """The steps to run in order: whole batches, or turns of waiting or preempted programs."""
    if code.watched is not None:
        idle = idle_variables(code.source)
        return take_turns(all_batches, run_batch, code.watched, idle, preemption)
    return ((programs, functools.partial(run_batch, programs)) for programs in all_batches)


def _runtime_arguments(kernel: Any, call: BoundCall, code: ProgramCode, bounds: str) -> list[Any]:
    """The arguments of the code: Buffers, Descriptors, and a NumPy scalar for each number."""
    arguments: list[Any] = []
    values = _runtime_values(call, code.takes_descriptors_apart)
    for (name, value), expected in zip(values, code.arguments, strict=True):
        if expected.role == "number":
            arguments.append(_scalar(value, expected.dtype))
            continue
        buffer = _buffer(name, value, expected.dtype, call, kernel, bounds)
        is_pointer = expected.role == "pointer"
        arguments.append(buffer if is_pointer else _descriptor(value, buffer))
    return arguments


def argument_names(call: BoundCall, code: ProgramCode) -> list[str]:
    """The names of the arguments that the code takes, in order: "x_ptr", "shape[0]" of a tuple."""
    return [name for name, _ in _runtime_values(call, code.takes_descriptors_apart)]


def _runtime_values(call: BoundCall, taken_apart: bool) -> Iterator[tuple[str, Any]]:
    """(name, value) of every argument that is not compiled in, taken apart."""
    signature, values = call.specialization.signature, call.values
    return _leaves([(name, values[name], type) for name, type in signature.items()], taken_apart)


def _leaves(
    arguments: Iterable[tuple[str, Any, Any]], taken_apart: bool
) -> Iterator[tuple[str, Any]]:
    for name, value, type in arguments:
        if isinstance(type, tuple):
            items = zip(value, type)
            inside = [(f"{name}[{i}]", item, of_item) for i, (item, of_item) in enumerate(items)]
            yield from _leaves(inside, taken_apart)
        elif type != "constexpr":
            yield name, value
            if type.startswith("tensordesc"):
                yield from _numbers_of_descriptor(name, value, taken_apart)


def _numbers_of_descriptor(name: str, value: Any, taken_apart: bool) -> Iterator[tuple[str, Any]]:
    """The numbers that follow a descriptor: sizes and strides; if the compiler has split it into
    parts, they and its flags come before it too.
    """
    numbers = [(f"{name}.shape", size) for size in value.shape]
    numbers += [(f"{name}.strides", stride) for stride in value.strides]
    if taken_apart:
        yield from numbers
        yield f"{name}.padding", value.padding == "nan"
        if hasattr(value, "round_f32_to_tf32"):  # from Triton 3.7 on
            yield f"{name}.round_f32_to_tf32", value.round_f32_to_tf32
    yield from numbers


def _buffer(
    name: str, value: Any, kind: numpy.dtype, call: BoundCall, kernel: Any, bounds: str
) -> Buffer:
    tensor = memory_behind(value)
    if tensor is None:
        raise ArgumentError(
            f"argument {name!r} of {kernel.__name__!r} is a {value.__class__.__name__}, and only "
            "its type is known.",
            advice="To run a kernel, pass a torch tensor or a NumPy array.",
            position=definition_of(kernel),
        )
    if tensor.requires_grad:
        tensor = tensor.detach()
    return Buffer(name, tensor, kind, name not in call.readonly, bounds)


def _descriptor(value: Any, buffer: Buffer) -> Descriptor:
    return Descriptor(
        buffer,
        buffer.elements.dtype,
        0,
        tuple(value.shape),
        tuple(value.strides),
        value.padding == "nan",
        getattr(value, "round_f32_to_tf32", False),  # from Triton 3.7 on
    )


def _scalar(value: Any, kind: numpy.dtype) -> Any:
    """A number as the kernel sees it: integers wrap, floats are rounded to the parameter's type."""
    if kind.kind == "i":
        try:
            return kind.type(value)
        except OverflowError:
            bits = int(value) & ((1 << (8 * kind.itemsize)) - 1)
            return numpy.array(bits, f"u{kind.itemsize}").view(kind)[()]
    return numpy.asarray(value, kind)[()]
