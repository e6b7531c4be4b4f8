"""Ctrl-C at a moment when it would leave something half done: it counts when that is done."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any


@contextmanager
def interrupted_afterwards() -> Iterator[None]:
    """Let a Ctrl-C within the block count at its end."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    noted: list[Any] = []
    signal.signal(signal.SIGINT, lambda number, frame: noted.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if noted:
            before(*noted[0])


_A_MOMENT = 1e-3
"""Seconds in which what is half done is likely done."""


class InterruptsBetween:
    """While active, a Ctrl-C counts as soon as no function runs that must not be left half done.

    Python calls a signal's handler between two instructions of any function, also of one that puts
    something back. The handler here looks at the frames: if one of these functions runs, it has the
    signal sent again a moment later.

    Args:
        whole: these functions, with all that they call.
        modules: modules all of whose functions are such, while they do not call others. A name
            with a dot at its end stands for all modules of a package.
    """

    def __init__(self, whole: tuple[CodeType, ...], modules: tuple[str, ...]) -> None:
        self._whole = frozenset(whole)
        self._modules = modules
        self._before: Any = None
        self._entered = 0
        self._waiting = False

    def begin(self) -> bool:
        """Begin, on the main thread, which alone gets signals; return whether an `end` is due."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if not self._entered:
            before = signal.getsignal(signal.SIGINT)
            if not callable(before):  # it ends the process, or does nothing
                return False
            self._before = before
            signal.signal(signal.SIGINT, self._handle)
        self._entered += 1
        return True

    def end(self) -> None:
        """End it, and let a Ctrl-C count that has waited; a handler that others have set meanwhile
        stays.
        """
        self._entered -= 1
        if not self._entered and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._before)
            if self._waiting:
                self._waiting = False
                self._before(signal.SIGINT, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_half_done(frame):
            self._before(number, frame)
        elif not self._waiting:
            self._waiting = True
            _thread.start_new_thread(self._send_again, ())

    def _send_again(self) -> None:
        time.sleep(_A_MOMENT)
        if not self._waiting:
            return
        self._waiting = False
        main = threading.main_thread().ident
        if hasattr(signal, "pthread_kill") and main is not None:
            signal.pthread_kill(main, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def _is_half_done(self, frame: FrameType | None) -> bool:
        module = str(frame.f_globals.get("__name__")) if frame is not None else ""
        if any(
            module.startswith(name) if name.endswith(".") else module == name
            for name in self._modules
        ):
            return True
        while frame is not None:
            if frame.f_code in self._whole:
                return True
            frame = frame.f_back
        return False
