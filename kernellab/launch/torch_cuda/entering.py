"""The entry point: a context in which torch answers for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from kernellab import triton_api
from kernellab.launch.torch_cuda.joining import joined_by_this_thread
from kernellab.launch.torch_cuda.patches import patched
from kernellab.launch.torch_cuda.sessions import Session, session_is
from kernellab.records import Target
from kernellab.torch_api.gpu_answers import let_operations_be_traced


@contextmanager
def torch_answers_for(target: Target, emulation: triton_api.Emulation) -> Iterator[None]:
    """While active, torch answers in this thread, and in those that it starts, as if that GPU
    were there.

    Args:
        target: the GPU.
        emulation: where this thread's launches go already; those of its threads go there too.
    """
    let_operations_be_traced()
    session = Session(target, emulation)
    with patched():
        try:
            with joined_by_this_thread(session):
                yield
        finally:
            session.is_open = False


def torch_answers_itself() -> AbstractContextManager[None]:
    """While active, torch answers in this thread what it does by itself."""
    return session_is(None)
