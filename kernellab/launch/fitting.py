"""Whether a program fits on the emulated GPU: asked before a kernel's first launch, as a GPU's
driver finds out there.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from kernellab import triton_api
from kernellab.compiler.machine_code.launch_limits import check_needs
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.compiler.targets import shared_limit
from kernellab.errors import CompileError, KernelLabError
from kernellab.interpreter.execution.program import key_of, program_code
from kernellab.ir.traits import DotLike, GlobalRead, has
from kernellab.ir.types import dtype
from kernellab.records import Target
from kernellab.triton_api import JITFunction
from kernellab.triton_api.mlir_stages import shared_bytes

_kept: weakref.WeakKeyDictionary[triton_api.MadeOf, dict[Hashable, CompileError | None]] = (
    weakref.WeakKeyDictionary()
)
"""What was found, by what the kernel was made of, and by specialisation."""


def check_fits(kernel: JITFunction, call: BoundCall, target: Target) -> None:
    """Ask once per specialisation whether one program has room on the GPU.

    Raises:
        CompileError: it needs more threads or shared memory than there are; the cause is Triton's
            own OutOfResources.
    """
    found = _kept.setdefault(triton_api.check_globals(kernel), {})
    key = key_of(kernel, call, target)
    if key is None or key not in found:
        found[key] = _lack(kernel, call, target)
    lack = found.pop(key) if key is None else found[key]
    if lack is not None:
        raise lack from lack.__cause__


def _lack(kernel: JITFunction, call: BoundCall, target: Target) -> CompileError | None:
    options = {**triton_api.backend_options(target), **call.options}
    threads = int(options["num_warps"]) * triton_api.gpu_target(target).warp_size
    try:
        check_needs(kernel, target, threads, _shared_bytes(kernel, call, target, options))
    except CompileError as error:
        return error.with_traceback(None)
    return None


def _shared_bytes(kernel: JITFunction, call: BoundCall, target: Target, options: Any) -> int:
    """Shared memory of one program; 0 where even a generous estimate stays below what there is."""
    limit = shared_limit(target)
    if limit is None:
        return 0
    if not kernel.is_gluon():
        module = program_code(kernel, call, target).module
        if _generous_estimate(module, int(options.get("num_stages") or 1)) <= limit:
            return 0
    try:
        return shared_bytes(kernel, call.specialization, target, call.options)
    except KernelLabError:
        return 0  # what the compiler has against it is said by whoever compiles it


def _generous_estimate(module: ModuleOp, stages: int) -> int:
    """More shared memory than the compiler should ever take, in bytes: every loaded tile in as many
    buffers as there are stages, operands of matrix products, and scratch for exchanging a tile.
    """
    largest = operands = loaded = 0
    for op in module.walk():
        stages = max(stages, _stages_of(op))
        sizes = [_bytes(value) for value in (*op.operands, *op.results)]
        largest = max(largest, *sizes, 0)
        if has(op, GlobalRead):
            loaded += sum(_bytes(value) for value in op.results)
        elif has(op, DotLike):
            operands += sum(sizes)
    return (stages + 1) * loaded + 2 * operands + 4 * largest


def _stages_of(op: Operation) -> int:
    stages = op.attributes.get("tt.num_stages")
    return stages.value.data if isinstance(stages, IntegerAttr) else 1


def _bytes(value: SSAValue) -> int:
    shape = getattr(value.type, "get_shape", None)
    if shape is None:
        return 0
    return int(math.prod(shape())) * dtype(value.type).itemsize


# Trying configs


class Fits(Exception):
    """Ends a trial: the launch would be carried out."""


class _Trials(threading.local):
    is_trial = False
    settled: weakref.WeakSet[Any]

    def __init__(self) -> None:
        self.settled = weakref.WeakSet()


_trials = _Trials()


@contextmanager
def trial() -> Iterator[None]:
    """While active, a launch on the interpreter of this thread runs nothing: it raises Fits, or
    what is wrong with it.
    """
    before, _trials.is_trial = _trials.is_trial, True
    try:
        yield
    finally:
        _trials.is_trial = before


def end_trial(kernel: JITFunction, call: BoundCall, target: Target) -> None:
    """Before a launch: nothing where it shall be carried out.

    Raises:
        Fits: it is a trial, and the kernel fits.
        CompileError: it is a trial, and the kernel does not fit.
    """
    if _trials.is_trial:
        check_fits(kernel, call, target)
        raise Fits
    _trials.settled.clear()


def is_settled(tuner: Any) -> bool:
    """Whether a config of a tuner was found to fit, since the last launch was carried out."""
    return tuner in _trials.settled


def settle(tuner: Any) -> None:
    """Note that a config of a tuner fits."""
    _trials.settled.add(tuner)
