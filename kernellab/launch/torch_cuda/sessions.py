"""Who is inside: for which threads and tasks torch answers as a GPU's would, and for which GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from kernellab import triton_api
from kernellab.records import Target


@dataclass(eq=False)
class Session:
    """One context in which torch answers for a GPU.

    Attributes:
        target: the GPU.
        emulation: where launches go meanwhile.
        is_open: False once the context was left: threads that it started may live longer.
        streams: the current stream of each thread, where it is not the default one.
        generator: the GPU's default generator, once somebody asked for it.
    """

    target: Target
    emulation: triton_api.Emulation
    is_open: bool = True
    streams: threading.local = field(default_factory=threading.local)
    generator: Any = None


_session: ContextVar[Session | None] = ContextVar("kernellab_torch_cuda", default=None)


def current_session() -> Session | None:
    """The session that this thread (or asyncio task) is inside of; None where torch answers itself.

    Where Triton is asked for the real GPU, there is no emulation, and no session either.
    """
    session = _session.get()
    if session is None or not session.is_open or triton_api.current_emulation() is None:
        return None
    return session


@contextmanager
def session_is(session: Session | None) -> Iterator[None]:
    """While active, that is this thread's session."""
    token = _session.set(session)
    try:
        yield
    finally:
        _session.reset(token)
