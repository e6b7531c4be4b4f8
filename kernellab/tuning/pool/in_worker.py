"""What a sweep does in processes beside the notebook's:
compile a config, run it, compare its results, time it.

Everything here is called by name, with plain data:
a config that hangs or crashes takes its process along and nothing else.
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
from kernellab.launch.differences import Contents
from kernellab.launch.dispatch import interpret
from kernellab.records import Compilation, Target
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
from kernellab.tuning.sweep.comparing import WrongResult, check_results

# --------------------------------------------------------------------------------------------------
# Compiling
# --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _job(packed: bytes) -> Job:
    job: Job = unpack(packed)
    here = installed_triton()
    if job.triton not in ("", here):
        raise KernelLabError(
            f"this process has Triton {here}, and the sweep is of Triton {job.triton}",
            advice="All of a sweep's processes need the same.",
        )
    return job


def compile_config(packed_job: bytes, packed_task: bytes) -> Outcome:
    """Compile a config, so that a launch finds it in Triton's cache;
    what the compiler says of it.
    """
    job, task = _job(packed_job), unpack(packed_task)
    call = BoundCall(task.specialization, {}, task.options)
    started = time.perf_counter()
    try:
        estimates = task.tensors is not None
        compilation = compile_bound(
            job.kernel, call, job.target, ttgir_lines=estimates, for_launch=not estimates
        )
        said = _said_of(compilation, time.perf_counter() - started)
        return _estimated(said, compilation, job, task) if estimates else Outcome(compiled=said)
    except CompileError as error:
        limits = isinstance(error.__cause__, triton_api.OutOfResources)
        return _dropped("out of resources" if limits else "compile error", str(error))
    except MachineError as error:  # of this moment, and of no config
        return _lost(error)
    except KernelLabError as error:
        return _dropped("compile error", str(error))
    except Exception as error:
        if triton_api.is_machines_fault(error):
            return _lost(error)
        raise


def _estimated(said: Compiled, compilation: Compilation, job: Job, task: Task) -> Outcome:
    """What the compiler says, with an estimate where there is one."""
    from kernellab.tuning.pool.estimating import estimated  # needs the interpreter

    try:
        found = estimated(compilation, job.kernel, task)
    except OutOfTime:
        return Outcome(compiled=said, lasts=False)
    return Outcome(compiled=replace(said, estimated=found))


def _said_of(compilation: Compilation, seconds: float) -> Compiled:
    occupancy, limited_by = math.nan, ""
    if compilation.can_answer("occupancy"):
        found = compilation.occupancy()
        occupancy, limited_by = found.fraction, ", ".join(found.limited_by)
    return Compiled(
        resources=compilation.resources,
        occupancy=occupancy,
        limited_by=limited_by,
        matrix=_matrix_instruction(compilation),
        seconds=seconds,
    )


_PTX_MATRIX = re.compile(r"\b((?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)[\w.:]*)")
_AMD_MATRIX = re.compile(r"^\s*(v_mfma\w*|v_smfmac\w*|v_wmma\w*|v_swmmac\w*)", re.M)
_MODIFIERS = re.compile(r"\.(?:sync|aligned|row|col)\b")


def _matrix_instruction(compilation: Compilation) -> str:
    """The matrix instruction that stands most often in the PTX, or in AMD's assembly;
    disassembling SASS takes longer than compiling.
    """
    if "ptx" in compilation.stages:
        found = Counter(_PTX_MATRIX.findall(compilation.stages["ptx"].text))
        names = [_MODIFIERS.sub("", name) for name, _ in found.most_common(1)]
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
    """Arguments on a device, and what a right run leaves in them."""

    def __init__(self, setup: Setup) -> None:
        self.job = _job(setup.job)
        self.on_gpu = setup.device is not None
        self.device = torch.device("cpu")
        if setup.device is not None:
            torch.cuda.set_device(setup.device)
            _check_gpu(setup.gpu, torch.cuda.get_device_name(setup.device))
            self.device = torch.device("cuda", setup.device)
        else:
            importlib.import_module("kernellab.interpreter")  # a second or two, and no config's
        self.arguments = Arguments(setup.arguments.open(), self.device)
        self.expected: Contents | None = None
        self.compared_with = ""
        self.standard: bytes | None = None
        """The config, packed, whose results are taken for right."""
        if setup.reference is not None:
            self.expected = Arguments(setup.reference.open(), self.device).values
            self.compared_with = "the reference"

    def launcher(self, task: Task) -> Callable[[], None]:
        """A function that launches a config on the working arguments,
        and does not wait for a GPU.
        """
        values = {**self.arguments.values, **task.values}
        kernel = self.job.kernel
        values = {name: values[name] for name in kernel.arg_names if name in values}
        if not self.on_gpu:
            call = BoundCall(task.specialization, values, task.options)
            return lambda: _interpreted(kernel, task, call, self.job.target)
        keywords = {**values, **task.options}
        return lambda: kernel.run(grid=task.grid, warmup=False, **keywords)

    def run(self, task: Task) -> Contents:
        """One run on the arguments as they were given;
        what it leaves in their tensors (not copied).
        """
        self.arguments.restore()
        launch = self.launcher(task)
        launch()
        if self.on_gpu:
            torch.cuda.synchronize()
        return dict(tensors_in(self.arguments.values))

    def set_standard(self, packed_task: bytes, found: Contents | None = None) -> None:
        """Take what this config computes for right; `found` is what a run of it has left."""
        found = self.run(unpack(packed_task)) if found is None else found
        self.expected = {name: tensor.clone() for name, tensor in found.items()}
        self.compared_with, self.standard = "the first config", packed_task


def _check_gpu(wanted: str, found: str) -> None:
    if wanted and found != wanted:
        raise KernelLabError(
            f"this process has a GPU of another kind, {found}: the sweep is on {wanted}"
        )


def _interpreted(kernel: Any, task: Task, call: BoundCall, target: Target) -> None:
    interpret(kernel, task.grid, call, target, RunOptions())


_ready: dict[str, Any] = {}
"""What this process has at hand: the arguments of one sweep at a time,
which may fill much of a GPU."""


def prepare(setup: Setup) -> None:
    """Have arguments and right results at hand; nothing to do where they are.
    May take as long as torch, a GPU and a copy take.
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
    """Let go of a sweep's arguments."""
    _ready.clear()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def process_is_spoilt(outcome: Outcome) -> bool:
    """Whether a GPU's error ended all work in the process that met it:
    CUDA answers every later call with the same error.
    """
    dropped = outcome.dropped
    return dropped is not None and dropped.reason == "crash"


def run_config(setup: Setup, packed_task: bytes, trial_options: TrialOptions) -> Outcome:
    """Run a config: compare what it computes, and time it. `prepare` comes first."""
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
        # The interpreter's own limit says nothing against the config.
        return Outcome(unchecked=error.problem)
    except KernelLabError as error:
        if triton_api.is_machines_fault(error):
            return _lost(error)
        return _dropped("fault", str(error))
    except Exception as error:
        return _of_exception(error)
    return Outcome(checked=checked, timing=timing, check_seconds=seconds)


_NO_MEMORY = re.compile(r"out of memory|ALLOC_FAILED", re.IGNORECASE)
"""What CUDA and its libraries say where others hold the memory."""


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
    """Run once and compare; gives what it was compared with."""
    found = stage.run(unpack(packed_task))
    if stage.expected is None:
        stage.set_standard(packed_task, found)
        return stage.compared_with
    job = stage.job
    check_results(found, stage.expected, stage.compared_with, job.rtol, job.atol)
    return stage.compared_with


def machine_here(own_gpu: bool) -> tuple[Machine, Target | None]:
    """What this process runs on; its first GPU, where one is wanted and there."""
    gpu = 0 if own_gpu and torch.cuda.is_available() else None
    return this_machine(gpu), local_target() if gpu is not None else None


def with_compiled(outcome: Outcome, compiled: Compiled | None) -> Outcome:
    """The outcome of a run, with what the compiler said before."""
    return replace(outcome, compiled=outcome.compiled or compiled)
