"""The work of a sweep's processes: compile a config, run it, compare its results, and time it."""

from __future__ import annotations

import fcntl
import functools
import importlib
import math
import os
import platform
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import torch
import triton
from triton.testing import do_bench, do_bench_cudagraph

from kernellab import triton_api
from kernellab.common.arguments import listed
from kernellab.common.saved_files import kernellab_version
from kernellab.common.system import gpu_fault, lock_file, own_folder
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.instructions import matrix_instructions
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import local_target
from kernellab.errors import (
    ArgumentError,
    CompileError,
    KernelLabError,
    MachineError,
    UnsupportedOperation,
)
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.dispatch import interpret
from kernellab.launch.results import Contents, Tolerances, compare, rounding_of
from kernellab.profiling.estimates.estimate import estimate
from kernellab.records import Target
from kernellab.records.launches import RunOptions
from kernellab.triton_api.kernel_contents import unpack
from kernellab.tuning.assignments import Arguments, Job, Setup, Task, TrialOptions
from kernellab.tuning.records import (
    Compiled,
    Dropped,
    Method,
    Outcome,
    Reason,
    SweepMachine,
    Timing,
)


def chosen_gpus(gpus: str | int | Sequence[int] | None, own: int) -> tuple[int, ...]:
    """Return the numbers of the GPUs to time on, which must be of one kind.

    Args:
        gpus: numbers, "all", or None for the GPU of the arguments.
        own: the number of the GPU of the arguments.

    Raises:
        ArgumentError: there is no such GPU, or the GPUs are of several kinds.
    """
    count = torch.cuda.device_count()
    if gpus is None:
        return (own,)
    if gpus == "all":
        numbers: tuple[int, ...] = tuple(range(count))
    else:
        given = (gpus,) if isinstance(gpus, int) else listed("gpus", gpus, 1000)
        numbers = tuple(dict.fromkeys(int(number) for number in given))
    if not numbers or any(not 0 <= number < count for number in numbers):
        raise ArgumentError(
            f"gpus must name GPUs from 0 to {count - 1}, got {gpus!r}.",
            advice='Pass numbers of this machine\'s GPUs, or "all".',
        )
    names = {torch.cuda.get_device_name(number) for number in numbers}
    if len(names) > 1:
        raise ArgumentError(
            f"The GPUs {', '.join(map(str, numbers))} are of several kinds: "
            f"{', '.join(sorted(names))}.",
            advice="Times of different GPUs are never mixed: run one sweep per kind.",
        )
    return numbers


def this_machine(gpu: int | None) -> SweepMachine:
    """Return what a sweep's times depend on, or without a GPU, what its compilations depend on."""
    return SweepMachine(
        gpu="" if gpu is None else torch.cuda.get_device_name(gpu),
        driver="" if gpu is None else _driver(),
        python=platform.python_version(),
        torch=torch.__version__,
        triton=installed_triton(),
        kernellab=kernellab_version(),
    )


def installed_triton() -> str:
    """Return the version of Triton in this process."""
    return str(triton.__version__)


def _driver() -> str:
    """Return the version of NVIDIA's driver from its kernel module; "" if that is not available."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().splitlines()[0].split()
    except (OSError, IndexError):
        return ""
    return next((word for word in words if word[:1].isdigit() and "." in word), "")


@contextmanager
def one_gpu_for_me(before: int | None = None) -> Iterator[int]:
    """Yield the number of a GPU that no other process times on, `before` if it is free; wait if
    all are in use.

    The lock is a file in a folder of this user's among the temporary files, so that the user's
    processes on one machine share its GPUs.
    """
    files: list[BinaryIO] = []
    try:
        for number in range(torch.cuda.device_count()):
            files.append(lock_file(_lock_file(number)))
        yield _first_free(files, os.getpid() % len(files) if before is None else before)
    finally:
        for file in files:
            file.close()  # which releases the lock


def _first_free(files: Sequence[BinaryIO], wanted: int) -> int:
    others = [number for number in range(len(files)) if number != wanted]
    for number in (wanted, *others):
        try:
            fcntl.flock(files[number], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        return number
    fcntl.flock(files[wanted], fcntl.LOCK_EX)
    return wanted


def _lock_file(number: int) -> Path:
    uuid = torch.cuda.get_device_properties(number).uuid
    folder = own_folder(Path(tempfile.gettempdir(), f"kernellab-{os.getuid()}"))
    return folder / f"gpu-{uuid}.lock"


SHORT = 0.015
"""Milliseconds. Events time shorter kernels with gaps; a CUDA graph is better."""


def measure(launch: Callable[[], Any], arguments: Arguments, method: Method | None) -> Timing:
    """Time a launch on the current GPU.

    Args:
        arguments: the working arguments, restored before timed runs if a run changes the next.
        method: None takes "graph" for a short kernel that may run on its output, else "events".

    Returns:
        The quartiles of the runs' times. With "events", the L2 cache is emptied before each.
    """
    if _depends_on_earlier_runs(launch, arguments):
        return _restored_between(launch, arguments)
    return time_baseline(launch, method)


def time_baseline(run: Callable[[], Any], method: Method | None = None) -> Timing:
    """Time a user's function on this process's GPU; a method of None is chosen as in `measure`."""
    if method != "graph":
        timing = Timing.of(do_bench(run, return_mode="all"), "events")
        if method == "events" or timing.median >= SHORT:
            return timing
    return Timing.of(do_bench_cudagraph(run, return_mode="all"), "graph")


def _restored_between(launch: Callable[[], Any], arguments: Arguments) -> Timing:
    between = _BetweenRuns(arguments)

    def prepared_launch() -> None:
        between.make_sure()
        launch()

    samples = do_bench(prepared_launch, grad_to_none=[between], return_mode="all")
    return Timing.of(samples, "events")


class _BetweenRuns:
    """A stand-in for a tensor in `grad_to_none`, which do_bench clears before each timed run,
    outside the time.

    do_bench has no other hook between runs. It does not clear gradients before warm-up runs, so
    those restore the arguments themselves.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._restored = False

    @property
    def grad(self) -> None:
        """Always None, as of a tensor without a gradient."""

    @grad.setter
    def grad(self, _none: None) -> None:
        self._arguments.restore()
        self._restored = True

    def make_sure(self) -> None:
        """Restore the arguments unless that was done since the last run."""
        if not self._restored:
            self._arguments.restore()
        self._restored = False


def _depends_on_earlier_runs(launch: Callable[[], Any], arguments: Arguments) -> bool:
    """Whether the kernel reads what it writes: a second run computes something else."""
    arguments.restore()
    launch()
    after_one = arguments.contents()
    launch()
    depends = not arguments.holds(after_one)
    arguments.restore()
    return depends


def estimated(compilation: Compilation, task: Task) -> float | None:
    """Return the estimated microseconds of a launch; None if it cannot be estimated."""
    if task.tensors is None:
        return None
    try:
        return estimate(compilation, task.grid, (), {**task.values, **task.tensors}).microseconds
    except Exception:  # an operation, a target or a size is not supported, or nvdisasm cannot run
        return None


# Everything here is called by name with plain data, so a config that hangs or crashes ends only
# the process that runs it.

# Compiling


@functools.lru_cache(maxsize=4)
def _job(packed: bytes) -> Job:
    job: Job = unpack(packed)
    here = installed_triton()
    if job.triton not in ("", here):
        raise KernelLabError(
            f"This process has Triton {here}, but the sweep needs Triton {job.triton}.",
            advice="Install the same version for all processes of a sweep.",
        )
    return job


def compile_config(packed_job: bytes, packed_task: bytes) -> Outcome:
    """Compile a config, which puts it into Triton's cache; return what the compiler reports."""
    job, task = _job(packed_job), unpack(packed_task)
    call = BoundCall(task.specialization, {}, task.options)
    started = time.perf_counter()
    try:
        for_launch = task.is_timed or task.tensors is None
        compilation = compile_bound(
            job.kernel, call, job.target, ttgir_lines=not for_launch, for_launch=for_launch
        )
        compiled = _summary(compilation, time.perf_counter() - started)
        if task.is_timed and task.tensors is not None:
            # An estimate needs machine code whose lines are those of the TTGIR.
            compilation = compile_bound(job.kernel, call, job.target, ttgir_lines=True)
        return Outcome(replace(compiled, estimated=estimated(compilation, task)))
    except CompileError as error:
        limits = isinstance(error.__cause__, triton_api.OutOfResources)
        return _dropped("out of resources" if limits else "compile error", str(error))
    except MachineError as error:  # which may not happen again, and is not the config's fault
        return _lost(error)
    except KernelLabError as error:
        return _dropped("compile error", str(error))
    except Exception as error:  # all but the machine's faults are raised again
        if triton_api.is_machines_fault(error):
            return _lost(error)
        raise


def _summary(compilation: Compilation, seconds: float) -> Compiled:
    fraction, limited_by = math.nan, ""
    if compilation.can_answer("occupancy"):
        occupancy = compilation.occupancy()
        fraction, limited_by = occupancy.fraction, ", ".join(occupancy.limited_by)
    return Compiled(
        resources=compilation.resources,
        occupancy=fraction,
        limited_by=limited_by,
        matrix=_matrix_instruction(compilation),
        seconds=seconds,
    )


_PTX_MATRIX = re.compile(r"\b((?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)[\w.:]*)")
_MODIFIERS = re.compile(r"\.(?:sync|aligned|row|col)\b")


def _matrix_instruction(compilation: Compilation) -> str:
    """Return the most frequent matrix instruction, without the slow disassembly of SASS."""
    if "ptx" in compilation.stages:
        instructions = Counter(_PTX_MATRIX.findall(compilation.stages["ptx"].text))
        names = [_MODIFIERS.sub("", name) for name, _ in instructions.most_common(1)]
    else:
        text = compilation.stages["amdgcn"].text if "amdgcn" in compilation.stages else ""
        names = [name for name, _ in matrix_instructions(text).most_common(1)]
    return names[0] if names else ""


def _dropped(reason: Reason, why: str, *, lasts: bool = True) -> Outcome:
    return Outcome(dropped=Dropped(reason, why), lasts=lasts)


def _lost(error: Exception) -> Outcome:
    words = str(error) if isinstance(error, KernelLabError) else f"{type(error).__name__}: {error}"
    return _dropped("lost", words, lasts=False)


# Running


class _Stage:
    """Arguments on a device, and what a correct run leaves in them."""

    def __init__(self, setup: Setup) -> None:
        self.job = _job(setup.job)
        self.on_gpu = setup.device is not None
        self.device = torch.device("cpu")
        if setup.device is not None:
            torch.cuda.set_device(setup.device)
            here = torch.cuda.get_device_name(setup.device)
            if setup.gpu and here != setup.gpu:
                raise KernelLabError(
                    f"This process has a different GPU, {here}, but the sweep runs on {setup.gpu}."
                )
            self.device = torch.device("cuda", setup.device)
        else:
            importlib.import_module("kernellab.interpreter")  # takes 1 to 2 s, not a config's time
        self.arguments = Arguments(setup.arguments.open(), self.device)
        self.expected: Contents | None = None
        self.compared_with = ""
        self.standard: bytes | None = None
        """The config, packed, whose results are the expected ones."""
        if setup.reference is not None:
            self.expected = Arguments(setup.reference.open(), self.device).values
            self.compared_with = "the reference"

    def launcher(self, task: Task) -> Callable[[], Any]:
        """Return a function that launches a config on the working arguments, asynchronously."""
        values = {**self.arguments.values, **task.values}
        kernel = self.job.kernel
        values = {name: values[name] for name in kernel.arg_names if name in values}
        if not self.on_gpu:
            call = BoundCall(task.specialization, values, task.options)
            return lambda: interpret(kernel, task.grid, call, self.job.target, RunOptions())
        keywords = {**values, **task.options}
        return lambda: kernel.run(grid=task.grid, warmup=False, **keywords)

    def run(self, task: Task) -> Contents:
        """Run once on the arguments as they were given; return their tensors (not copied)."""
        self.arguments.restore()
        launch = self.launcher(task)
        launch()
        if self.on_gpu:
            torch.cuda.synchronize()
        return dict(tensors_in(self.arguments.values))

    def rounding(self, task: Task) -> Mapping[str, float]:
        """Which part of results rounding may change, by argument; {} for GPU-only kernels."""
        from kernellab.interpreter.execution.program import program_code

        values = {**self.arguments.values, **task.values}
        call = BoundCall(task.specialization, values, task.options)
        try:
            return rounding_of(program_code(self.job.kernel, call, self.job.target))
        except UnsupportedOperation:
            return {}

    def set_standard(self, packed_task: bytes, results: Contents | None = None) -> None:
        """Take this config's results as the expected ones; None for `results` runs the config."""
        results = self.run(unpack(packed_task)) if results is None else results
        self.expected = {name: tensor.clone() for name, tensor in results.items()}
        self.compared_with, self.standard = "the first config", packed_task


_ready: dict[str, Any] = {}
"""The arguments of one sweep at a time, since they may fill much of a GPU."""


def prepare(setup: Setup) -> None:
    """Load the arguments and the expected results, unless they are loaded; this may be slow."""
    key = (
        setup.job,
        setup.arguments.digest,
        setup.reference and setup.reference.digest,
        setup.device,
    )
    if _ready.get("key") != key:
        release()
        _ready.update(key=key, stage=_Stage(setup))
    stage: _Stage = _ready["stage"]
    if setup.reference is None and setup.standard not in (None, stage.standard):
        assert setup.standard is not None
        stage.set_standard(setup.standard)


def release() -> None:
    """Free a sweep's arguments."""
    _ready.clear()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def run_config(setup: Setup, packed_task: bytes, trial_options: TrialOptions) -> Outcome:
    """Run a config: compare its results, and time it."""
    prepare(setup)
    stage: _Stage = _ready["stage"]
    task: Task = unpack(packed_task)
    try:
        started = time.perf_counter()
        checked = _check(stage, packed_task) if trial_options.check else ""
        seconds = time.perf_counter() - started
        timing = None
        if trial_options.measure:
            timing = measure(stage.launcher(task), stage.arguments, trial_options.method)
    except WrongResult as wrong:
        return _dropped("wrong result", str(wrong))
    except triton_api.OutOfResources as error:
        return _dropped("out of resources", str(error))
    except torch.OutOfMemoryError as error:
        return _dropped("out of memory", str(error))
    except UnsupportedOperation as error:
        # A limit of the interpreter does not make the config invalid.
        return Outcome(unchecked=error.problem)
    except KernelLabError as error:
        if triton_api.is_machines_fault(error):
            return _lost(error)
        return _dropped("fault", str(error))
    except Exception as error:  # the GPU's driver and the user's functions raise anything
        return _of_exception(error)
    return Outcome(checked=checked, timing=timing, check_seconds=seconds)


_NO_MEMORY = re.compile(r"out of memory|ALLOC_FAILED", re.IGNORECASE)
"""Messages of CUDA and its libraries if other processes use the memory."""


def _of_exception(error: Exception) -> Outcome:
    words = f"{type(error).__name__}: {error}"
    if gpu_fault(error) is not None:
        return _dropped("crash", words)
    if isinstance(error, MemoryError) or _NO_MEMORY.search(words):
        return _dropped("out of memory", words)
    if triton_api.is_machines_fault(error):
        return _lost(error)
    return _dropped("fault", words, lasts=False)


def _check(stage: _Stage, packed_task: bytes) -> str:
    """Run once and compare the results; return what they were compared with."""
    task = unpack(packed_task)
    results = stage.run(task)
    if stage.expected is None:
        stage.set_standard(packed_task, results)
        return stage.compared_with
    parts = functools.partial(stage.rounding, task)
    allowed = Tolerances(stage.job.rtol, stage.job.atol, parts=parts)
    for difference in compare(results, stage.expected, allowed):
        raise WrongResult(f"{difference}, compared with {stage.compared_with}")
    return stage.compared_with


def machine_here() -> tuple[SweepMachine, Target | None]:
    """Return this process's machine and target, with its first GPU if there is one."""
    gpu = 0 if torch.cuda.is_available() else None
    return this_machine(gpu), local_target() if gpu is not None else None


class WrongResult(Exception):
    """The results differ from those expected."""
