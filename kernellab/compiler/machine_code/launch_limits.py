"""Kernels that no launch could ever start: they need more than a program may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernellab import triton_api
from kernellab.compiler.modules.buffers import buffer_report
from kernellab.compiler.targets import shared_limit
from kernellab.errors import CompileError
from kernellab.records import PassRun, Target

_MOST_THREADS = 1024
"""Threads in one program, on every GPU here. CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability"; HIP's device property maxThreadsPerBlock."""


def check_launchable(
    kernel: Any,
    compiled: triton_api.CompiledKernel,
    target: Target,
    passes: tuple[PassRun, ...] = (),
) -> None:
    """Raise for a kernel that no launch could ever start; Triton itself finds out at the launch."""
    if "shared" not in compiled.metadata:
        return  # Stopped before that was known.
    shared = int(compiled.metadata["shared"])
    threads = int(compiled.metadata["num_warps"]) * triton_api.gpu_target(target).warp_size
    try:
        check_needs(kernel, target, threads, shared, lambda: buffer_report(kernel, compiled))
    except CompileError as error:
        error.passes = passes
        raise


def check_needs(
    kernel: Any,
    target: Target,
    threads: int,
    shared: int,
    report: Callable[[], str] = lambda: "",
) -> None:
    """Raise for a kernel whose programs have more threads, or bytes of shared memory, than the GPU.

    Args:
        report: says which buffers the memory goes into.

    Raises:
        CompileError: from the OutOfResources that Triton raises at a launch.
    """
    limits = [
        (shared, shared_limit(target), "bytes of shared memory", "shared memory"),
        (threads, _MOST_THREADS, "threads", "threads"),
    ]
    for needed, limit, what, resource in limits:
        if limit is not None and needed > limit:
            words = triton_api.OutOfResources(needed, limit, resource)
            error = CompileError(
                f"{kernel.__name__!r} needs {needed:,} {what} per program, and {target} has "
                f"{limit:,}. At a launch Triton says: {words}",
                advice=report() if resource == "shared memory" else "",
                position=triton_api.definition_of(kernel),
                kernel=kernel.__name__,
                target=str(target),
            )
            raise error from words
