"""Work in a copy of this process: what this process holds need not be sent, and an abort
takes only the copy along. A process that forks while its threads work leaves its child no lock for
ever.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Generic, NoReturn, TypeVar

from kernellab.errors import KernelLabError, WorkerError, WorkerLost

T = TypeVar("T")

AVAILABLE = hasattr(os, "fork")


class Forked(Generic[T]):
    """A function's result, which a copy of this process computes from now on.

    The copy has one thread, so that the function may wait for no other; it ends with this process,
    however that ends. What it prints is kept, and not shown.
    """

    def __init__(self, function: Callable[[], T], who: str = "The function") -> None:
        """Begin; the result is pickled. `who` is what errors say ended its process."""
        self._who = who
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it has ended
        reading, writing = os.pipe()
        # Nothing is ever written to it: it is closed when this process ends.
        alive, held = os.pipe()
        with warnings.catch_warnings():  # Python's, of forks beside threads
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if self._process == 0:
            os.close(reading)
            os.close(held)
            _answer(function, writing, alive, self._printed)
        os.close(writing)
        os.close(alive)
        self._reading, self._held = reading, held
        self._done: tuple[bool, object] | None = None

    def wait(self, seconds: float | None = None) -> tuple[bool, object]:
        """Until it has ended: whether it worked, and what came of it. After `seconds`, or if the
        wait is interrupted, the copy is ended.
        """
        if self._done is None:
            try:
                content = self._read(seconds)
            except BaseException:
                os.kill(self._process, signal.SIGKILL)
                raise
            finally:
                os.close(self._held)
                os.close(self._reading)
                _, status = os.waitpid(self._process, 0)
                words = self._last_words()
            self._done = pickle.loads(content) if content else (False, self._death(status, words))
        return self._done

    def result(self, seconds: float | None = None) -> T:
        """What the function gives, once it has ended.

        Raises:
            WorkerError: it raised an error, the copy died, or it took longer than `seconds`.
            KernelLabError: the function raised it.
        """
        worked, answer = self.wait(seconds)
        if worked:
            return answer  # type: ignore[return-value]
        if isinstance(answer, KernelLabError):
            raise answer
        raise WorkerError(str(answer))

    def _read(self, seconds: float | None) -> bytes:
        chunks: list[bytes] = []
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._reading], [], [], left)[0]:
                raise WorkerError(
                    f"{self._who} did not answer within {seconds:g} seconds, and was stopped.",
                    timed_out=True,
                )
            chunk = os.read(self._reading, 1 << 20)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)

    def _last_words(self) -> str:
        with self._printed as printed:
            size = printed.seek(0, os.SEEK_END)
            printed.seek(max(0, size - _MOST_WORDS))
            lines = printed.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-12:])

    def _death(self, status: int, words: str) -> WorkerError:
        """What is said of a copy that gave no answer."""
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        ended = f"{self._who} ended its process ({how})."
        kind = WorkerLost if code == -signal.SIGKILL else WorkerError
        said = f"{ended} Its last words:\n{words}" if words else f"{ended} It printed nothing."
        return kind(said, last_words=words, died=True, ending=how)


_MOST_WORDS = 8_000


def _answer(function: Callable[[], T], writing: int, alive: int, printed: IO[bytes]) -> NoReturn:
    """In the copy: call, write the answer, end."""
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # this process ends its copies
    for place in (1, 2):
        os.dup2(printed.fileno(), place)
    sys.stdout = sys.stderr = os.fdopen(os.dup(1), "w", 1, encoding="utf-8", errors="replace")
    if faulthandler.is_enabled():
        faulthandler.enable(sys.stderr)
    gc.freeze()  # what is there is not looked through, which would copy it
    try:
        answer: tuple[bool, object] = (True, function())
        content = pickle.dumps(answer)
    except KernelLabError as error:
        error.__cause__ = error.__context__ = None
        content = pickle.dumps((False, error))
    except BaseException as error:  # whatever happens, the copy must not return
        traceback.print_exc()
        content = pickle.dumps((False, f"{type(error).__name__}: {error}"))
    with suppress(OSError), os.fdopen(writing, "wb") as pipe:
        pipe.write(content)
    os._exit(0)


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)
    os._exit(0)


# Forks beside threads that work

_MOST_SECONDS = 5.0
"""How long a fork waits for a thread that may be waiting for the fork in its turn."""


def hold_while_forking(lock: threading.RLock) -> None:
    """Let a fork wait until no other thread holds the lock, so that the child finds it free, and
    what it guards whole.
    """
    held: list[bool] = []

    def hold() -> None:
        held.append(lock.acquire(timeout=_MOST_SECONDS))

    def let_go() -> None:
        if held.pop():
            lock.release()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=let_go)
