"""Whether a program fits on the emulated GPU: checked before a kernel's first launch, as a GPU's
driver does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from kernellab import triton_api
from kernellab.compiler.machine_code.launch_limits import check_needs
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.compiler.targets import shared_limit
from kernellab.errors import CompileError, KernelLabError
from kernellab.interpreter.execution import program
from kernellab.interpreter.execution.program import key_of, program_code
from kernellab.records import Target
from kernellab.triton_api import JITFunction
from kernellab.triton_api.mlir_stages import shared_bytes

_kept: weakref.WeakKeyDictionary[triton_api.MadeOf, dict[Hashable, CompileError | None]] = (
    weakref.WeakKeyDictionary()
)
"""The results, by the kernel's contents and by specialization; None for a kernel that fits."""


def check_fits(kernel: JITFunction, call: BoundCall, target: Target) -> None:
    """Check once per specialization that one program fits on the GPU.

    Raises:
        CompileError: it needs more threads or shared memory than the GPU has; the cause is Triton's
            own OutOfResources.
    """
    results = _kept.setdefault(triton_api.check_globals(kernel), {})
    key = key_of(kernel, call, target)
    if key is None or key not in results:
        results[key] = _misfit(kernel, call, target)
    misfit = results.pop(key) if key is None else results[key]
    if misfit is not None:
        raise misfit from misfit.__cause__


def _misfit(kernel: JITFunction, call: BoundCall, target: Target) -> CompileError | None:
    options = {**triton_api.backend_options(target), **call.options}
    threads = int(options["num_warps"]) * triton_api.gpu_target(target).warp_size
    try:
        check_needs(kernel, target, threads, _shared_bytes(kernel, call, target, options))
    except CompileError as error:
        return error.with_traceback(None)
    return None


def _shared_bytes(kernel: JITFunction, call: BoundCall, target: Target, options: Any) -> int:
    """Return the shared memory of one program; 0 if even a generous estimate is below the limit."""
    limit = shared_limit(target)
    if limit is None:
        return 0
    if not kernel.is_gluon():
        sizes = program_code(kernel, call, target).tile_bytes
        if sizes.most_shared(int(options.get("num_stages") or 1)) <= limit:
            return 0
    try:
        return program.kept_number(
            program.stored_file(kernel, call, target),
            "shared",
            lambda: shared_bytes(kernel, call.specialization, target, call.options),
        )
    except KernelLabError:
        return 0  # compiling it reports the error


# Trying configs


class Fits(Exception):
    """Ends a trial: the kernel fits."""


class _Trials(threading.local):
    is_trial = False
    settled: weakref.WeakSet[Any]

    def __init__(self) -> None:
        self.settled = weakref.WeakSet()


_trials = _Trials()


@contextmanager
def trial() -> Iterator[None]:
    """While active, a launch of this thread on the interpreter runs nothing, and raises Fits or the
    error.
    """
    before, _trials.is_trial = _trials.is_trial, True
    try:
        yield
    finally:
        _trials.is_trial = before


def end_trial(kernel: JITFunction, call: BoundCall, target: Target) -> None:
    """End a trial before the launch would run; without a trial, do nothing.

    Raises:
        Fits: it is a trial, and the kernel fits.
        CompileError: it is a trial, and the kernel does not fit.
    """
    if _trials.is_trial:
        check_fits(kernel, call, target)
        raise Fits
    _trials.settled.clear()


def is_settled(tuner: Any) -> bool:
    """Return whether a config of a tuner was found to fit since the last launch that ran."""
    return tuner in _trials.settled


def settle(tuner: Any) -> None:
    """Record that a config of a tuner fits."""
    _trials.settled.add(tuner)
