"""Work in a copy of this process, beside it: what this process holds need not be sent, and an abort
takes only the copy along.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

from kernellab.errors import WorkerError

T = TypeVar("T")

AVAILABLE = hasattr(os, "fork")


class Forked(Generic[T]):
    """A function's result, which a copy of this process computes from now on.

    The copy has one thread, so that the function may wait for no other; it ends with this process,
    however that ends.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        """Begin; the result is pickled."""
        reading, writing = os.pipe()
        # Nothing is ever written to it: it is closed when this process ends.
        alive, held = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(reading)
            os.close(held)
            _answer(function, writing, alive)
        os.close(writing)
        os.close(alive)
        self._reading, self._held = reading, held
        self._done: tuple[bool, object] | None = None

    def wait(self) -> tuple[bool, object]:
        """Until it has ended: whether it worked, and what came of it."""
        if self._done is None:
            with os.fdopen(self._reading, "rb") as pipe:
                content = pipe.read()
            os.close(self._held)
            _, status = os.waitpid(self._process, 0)
            self._done = pickle.loads(content) if content else (False, _ending(status))
        return self._done

    def result(self) -> T:
        """What the function gives, once it has ended.

        Raises:
            WorkerError: it raised an error, or the copy died.
        """
        worked, answer = self.wait()
        if not worked:
            raise WorkerError(str(answer))
        return answer  # type: ignore[return-value]


def _answer(function: Callable[[], T], writing: int, alive: int) -> NoReturn:
    """In the copy: call, write the answer, end."""
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()
    gc.freeze()  # what is there is not looked through, which would copy it
    try:
        answer: tuple[bool, object] = (True, function())
        content = pickle.dumps(answer)
    except BaseException as error:  # whatever happens, the copy must not return
        content = pickle.dumps((False, f"{type(error).__name__}: {error}"))
    with suppress(OSError), os.fdopen(writing, "wb") as pipe:
        pipe.write(content)
    os._exit(0)


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)
    os._exit(0)


def _ending(status: int) -> str:
    """How a copy ended that gave no answer."""
    code = os.waitstatus_to_exitcode(status)
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return f"the process that it was done in ended ({how})"
