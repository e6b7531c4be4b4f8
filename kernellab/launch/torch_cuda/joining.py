"""How a thread gets inside of a session: the one that opened it, and those that it starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from kernellab import triton_api
from kernellab.launch.torch_cuda.functions import FUNCTIONS
from kernellab.launch.torch_cuda.marks import is_on_gpu
from kernellab.launch.torch_cuda.operations import OPERATIONS
from kernellab.launch.torch_cuda.sessions import Session, current_session, session_is
from kernellab.torch_api.autocast_kernels import follow_autocast
from kernellab.torch_api.emulation import push_modes, remove_modes, stated_default_device


class _Depth(threading.local):
    depth = 0


_inside = _Depth()


@contextmanager
def joined_by_this_thread(session: Session) -> Iterator[None]:
    """While active, this thread is inside of the session."""
    stated = stated_default_device()
    _inside.depth += 1
    if _inside.depth == 1:
        push_modes(FUNCTIONS, OPERATIONS)
    try:
        with session_is(session):
            yield
    finally:
        follow_autocast(False, is_on_gpu)
        _inside.depth -= 1
        if _inside.depth == 0:
            remove_modes(FUNCTIONS, OPERATIONS)
        if stated_default_device() != stated:
            torch.set_default_device(stated)


def start_inside(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """`threading.Thread.start`, but that a thread started inside is inside too."""

    def start_thread(thread: threading.Thread) -> None:
        session = current_session()
        if session is not None:
            thread.run = _Inside(thread, session)  # type: ignore[method-assign]
        start(thread)

    return start_thread


class _Inside:
    """A thread's `run`, inside of the session that started it."""

    def __init__(self, thread: threading.Thread, session: Session) -> None:
        self._run: Any = thread.run
        self._session: Session | None = session

    def __call__(self) -> None:
        run, session = self._run, self._session
        self._run = self._session = None  # the thread may be kept for long
        if session is None or not session.is_open:
            run()
            return
        with triton_api.emulation_joined(session.emulation), joined_by_this_thread(session):
            run()
