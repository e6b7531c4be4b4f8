"""The work of a sweep's processes: compile a config, run it, compare its results, and time it.

Everything here is called by name with plain data, so a config that hangs or crashes ends only the
process that runs it.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from kernellab import triton_api
from kernellab.common.gpu_faults import gpu_fault
from kernellab.common.time_limits import OutOfTime
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.compiler.targets import local_target
from kernellab.errors import CompileError, KernelLabError, MachineError, UnsupportedOperation
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.differences import Contents, differences_between, tolerance
from kernellab.launch.dispatch import interpret
from kernellab.records import Compilation, Target
from kernellab.records.bisections import Difference
from kernellab.records.run_options import RunOptions
from kernellab.triton_api.shipping import unpack
from kernellab.tuning.pool.arguments import Arguments
from kernellab.tuning.pool.assignments import (
    Job,
    Setup,
    Task,
    TrialOptions,
)
from kernellab.tuning.pool.gpus import installed_triton, this_machine
from kernellab.tuning.pool.measuring import measure
from kernellab.tuning.results.records import (
    Compiled,
    Dropped,
    Machine,
    Outcome,
    Reason,
)

# --------------------------------------------------------------------------------------------------
# Compiling
# --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _job(packed: bytes) -> Job:
    job: Job = unpack(packed)
    here = installed_triton()
    if job.triton not in ("", here):
        raise KernelLabError(
            f"this process has Triton {here}, but the sweep needs Triton {job.triton}",
            advice="Install the same version for all processes of a sweep.",
        )
    return job


def compile_config(packed_job: bytes, packed_task: bytes) -> Outcome:
    """Compile a config, which puts it into Triton's cache; return what the compiler reports."""
    job, task = _job(packed_job), unpack(packed_task)
    call = BoundCall(task.specialization, {}, task.options)
    started = time.perf_counter()
    try:
        estimates = task.tensors is not None
        for_launch = task.is_timed or not estimates
        compilation = compile_bound(
            job.kernel, call, job.target, ttgir_lines=not for_launch, for_launch=for_launch
        )
        compiled = _summary(compilation, time.perf_counter() - started)
        if not estimates:
            return Outcome(compiled=compiled)
        if for_launch:  # an estimate needs machine code whose lines are those of the TTGIR
            compilation = compile_bound(job.kernel, call, job.target, ttgir_lines=True)
        return _with_estimate(compiled, compilation, job, task)
    except CompileError as error:
        limits = isinstance(error.__cause__, triton_api.OutOfResources)
        return _dropped("out of resources" if limits else "compile error", str(error))
    except MachineError as error:  # which may not happen again, and is not the config's fault
        return _lost(error)
    except KernelLabError as error:
        return _dropped("compile error", str(error))
    except Exception as error:
        if triton_api.is_machines_fault(error):
            return _lost(error)
        raise


def _with_estimate(compiled: Compiled, compilation: Compilation, job: Job, task: Task) -> Outcome:
    """Return what the compiler reports, with an estimate of the time if possible."""
    from kernellab.tuning.pool.estimating import estimated  # needs the interpreter

    try:
        microseconds = estimated(compilation, job.kernel, task)
    except OutOfTime:
        return Outcome(compiled=compiled, lasts=task.is_timed)
    return Outcome(compiled=replace(compiled, estimated=microseconds))


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
_AMD_MATRIX = re.compile(r"^\s*(v_mfma\w*|v_smfmac\w*|v_wmma\w*|v_swmmac\w*)", re.M)
_MODIFIERS = re.compile(r"\.(?:sync|aligned|row|col)\b")


def _matrix_instruction(compilation: Compilation) -> str:
    """Return the most frequent matrix instruction in the PTX or in AMD's assembly, since
    disassembling SASS takes longer than compiling.
    """
    if "ptx" in compilation.stages:
        instructions = Counter(_PTX_MATRIX.findall(compilation.stages["ptx"].text))
        names = [_MODIFIERS.sub("", name) for name, _ in instructions.most_common(1)]
    else:
        text = compilation.stages["amdgcn"].text if "amdgcn" in compilation.stages else ""
        names = [name for name, _ in Counter(_AMD_MATRIX.findall(text)).most_common(1)]
    return names[0] if names else ""


def _dropped(reason: Reason, why: str, *, lasts: bool = True) -> Outcome:
    return Outcome(dropped=Dropped(reason, why), lasts=lasts)


def _lost(error: Exception) -> Outcome:
    words = str(error) if isinstance(error, KernelLabError) else f"{type(error).__name__}: {error}"
    return _dropped("lost", words, lasts=False)


# --------------------------------------------------------------------------------------------------
# Running
# --------------------------------------------------------------------------------------------------


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
                    f"this process has a different GPU, {here}, but the sweep runs on {setup.gpu}"
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
        """Return a function that launches a config on the working arguments, without waiting for
        the GPU.
        """
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

    def set_standard(self, packed_task: bytes, results: Contents | None = None) -> None:
        """Take this config's results as the expected ones; None for `results` runs the config."""
        results = self.run(unpack(packed_task)) if results is None else results
        self.expected = {name: tensor.clone() for name, tensor in results.items()}
        self.compared_with, self.standard = "the first config", packed_task


_ready: dict[str, Any] = {}
"""The arguments of one sweep at a time, since they may fill much of a GPU."""


def prepare(setup: Setup) -> None:
    """Load the arguments and the expected results unless they are loaded. This may take as long as
    importing torch, starting the GPU and copying.
    """
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


def process_is_spoilt(outcome: Outcome) -> bool:
    """Whether a GPU error made the process unusable: CUDA repeats the error for all later calls."""
    dropped = outcome.dropped
    return dropped is not None and dropped.reason == "crash"


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
    except MachineError as error:
        return _dropped("lost", str(error))
    except UnsupportedOperation as error:
        # A limit of the interpreter does not make the config invalid.
        return Outcome(unchecked=error.problem)
    except KernelLabError as error:
        if triton_api.is_machines_fault(error):
            return _lost(error)
        return _dropped("fault", str(error))
    except Exception as error:
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
    results = stage.run(unpack(packed_task))
    if stage.expected is None:
        stage.set_standard(packed_task, results)
        return stage.compared_with
    job = stage.job
    check_results(results, stage.expected, stage.compared_with, job.rtol, job.atol)
    return stage.compared_with


def machine_here(own_gpu: bool) -> tuple[Machine, Target | None]:
    """Return this process's machine and target, with its first GPU if requested and present."""
    gpu = 0 if own_gpu and torch.cuda.is_available() else None
    return this_machine(gpu), local_target() if gpu is not None else None


def with_compiled(outcome: Outcome, compiled: Compiled | None) -> Outcome:
    """Return the outcome of a run with what the compiler reported before."""
    return replace(outcome, compiled=outcome.compiled or compiled)


class WrongResult(Exception):
    """The results differ from those expected."""


def check_results(
    results: Contents,
    expected: Contents,
    compared_with: str,
    rtol: float | None,
    atol: float | None,
) -> None:
    """Compare tensors with the expected ones, by name.

    Args:
        results, expected: tensors by parameter.
        compared_with: where the expected tensors come from, for the message.
        rtol, atol: the tolerances; None takes those of the dtype.

    Raises:
        WrongResult: a tensor differs by more than the tolerance.
    """
    for name, want in expected.items():
        allowed = tolerance(want, rtol, atol)
        for difference in differences_between({name: want}, {name: results[name]}, *allowed):
            raise WrongResult(_format_difference(difference, compared_with))


def _format_difference(difference: Difference, compared_with: str) -> str:
    place = f"[{', '.join(map(str, difference.index))}]" if difference.index else ""
    share = f"{difference.elements:,} of {difference.size:,} elements"
    return (
        f"{difference.argument} differs from that of {compared_with} in {share}; most at "
        f"{difference.argument}{place}: {difference.actual:g} where {difference.expected:g} is "
        "expected"
    )
