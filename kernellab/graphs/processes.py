"""The processes that capture, trace and time, and how long they may take."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from kernellab.common.forks import AVAILABLE, Forked
from kernellab.common.worker import Worker
from kernellab.errors import WorkerLost

SECONDS = 600.0
"""How long a capture, a comparison or a measurement may take."""

WHO = "torch's compiler"


@functools.cache
def compiler_process() -> Worker:
    """Return the process that captures what cannot be captured in a copy of this one."""
    return Worker(WHO)


@functools.cache
def gpu_process() -> Worker:
    """Return the process that times on this machine's GPU; the capturing process emulates GPUs."""
    return Worker("torch on the GPU")


def can_copy_this_process() -> bool:
    """Whether a copy of this process can call torch. It cannot once CUDA is in use here, nor where
    torch's autograd has begun threads for a GPU, which builds of torch for CUDA do after a
    compilation even if there is none.
    """
    import torch

    if not AVAILABLE or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    is_built = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    return not is_built or Forked(_differentiates).result()


def _differentiates() -> bool:
    import torch

    try:
        torch.ones((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return True


def call_in_copy(function: str, *arguments: Any) -> Any:
    """Call "module:function" in a copy of this process, and return its result.

    The copy has everything that this process has, so that nothing is sent, and whatever the
    function changes is lost with it.
    """
    module, _, name = function.partition(":")
    called: Callable[..., Any] = getattr(importlib.import_module(module), name)
    try:
        return Forked(functools.partial(_alone, called, *arguments), WHO).result(SECONDS)
    except OSError as error:  # the system starts no process
        raise WorkerLost(f"The process that captures could not be started: {error}") from error


def _alone(function: Callable[..., Any], *arguments: Any) -> Any:
    import torch

    from kernellab.torch_api.gpu_answers import let_operations_be_traced

    torch.set_num_threads(1)  # a copy has none of the threads of torch's pool
    let_operations_be_traced(in_copy=True)
    return function(*arguments)
