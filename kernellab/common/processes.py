"""Other processes that work for this one: a copy of it, which has all that this process has, and a
separate worker process, for calls that may abort.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, Generic, NoReturn, TypeVar

from kernellab.common.system import nameless_file
from kernellab.errors import KernelLabError, MachineError, WorkerError, WorkerLost

# Work in a copy of this process: what this process holds need not be sent, and an abort takes
# only the copy along. A process that forks while its threads work leaves its child no lock for
# ever.

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
            _answer_in_copy(function, writing, alive, self._printed)
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
            except BaseException:  # Ctrl-C too: no process stays
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
            return printed.read().decode(errors="replace").strip()

    def _death(self, status: int, words: str) -> WorkerError:
        """What is said of a copy that gave no answer."""
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        ended = f"{self._who} ended its process ({how})."
        kind = WorkerLost if code == -signal.SIGKILL else WorkerError
        shown = "\n".join(words.splitlines()[-12:])
        said = f"{ended} Its last words:\n{shown}" if shown else f"{ended} It printed nothing."
        return kind(said, last_words=words, died=True, ending=how)


def _answer_in_copy(
    function: Callable[[], T], writing: int, alive: int, printed: IO[bytes]
) -> NoReturn:
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


# A separate process for calls that may abort: edited IR and edited pipelines can take the whole
# compiler down.
#
# The process starts with the first call and serves later ones. When it dies, the call raises
# WorkerError with the process's last words, and the next call starts a fresh one. It ends with
# the process that started it, however that ends.

SECONDS = 300.0
"""How long a call may take, unless it says otherwise."""

_FORWARDED = ("TRITON_", "MLIR_", "LLVM_", "AMDGCN_", "PTXAS_")
"""Environment variables that the compiler reads while it runs:
each call takes today's values along."""

_MOST_WORDS = 20_000
"""How many bytes of what a process printed are read when it has died."""


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """One process, and the calls made in it, one at a time."""

    def __init__(self, who: str = "The compiler") -> None:
        """A process that starts with the first call; `who` runs in it, for messages."""
        self._who = who
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: tuple[IO[bytes], ...] = ()
        """To the process, and from it."""
        self._owner = 0
        self._printed: IO[bytes] | None = None
        self._printed_before = 0
        _workers.add(self)

    def call(self, function: str, *arguments: Any, seconds: float = SECONDS) -> Any:
        """What "module:function" returns for these arguments, called in the process.

        Arguments and result are plain data: they are pickled.

        Raises:
            WorkerLost: no process could be started, or somebody killed it.
            WorkerError: the process died, or took longer than `seconds`.
            KernelLabError: the function raised it.
        """
        with self._lock:
            self._start()
            settings = {
                name: value for name, value in os.environ.items() if name.startswith(_FORWARDED)
            }
            request = pickle.dumps((function, arguments, settings))
            try:
                worked, answer = self._exchange(request, seconds)
            except BaseException:
                # Ctrl-C too: an answer that no one waits for must not reach the next call.
                self._end()
                raise
        if worked:
            return answer
        if isinstance(answer, KernelLabError):
            raise answer
        raise WorkerError(f"{function} failed in the worker process:\n{answer}")

    def close(self) -> None:
        """End the process; a later call starts another."""
        with self._lock:
            self._end()

    def kill(self) -> None:
        """End the process at once, also while another thread waits for a call:
        that call then raises WorkerError.
        """
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
        if self._lock.acquire(blocking=False):  # else the call that goes on does it
            try:
                self._end()
            finally:
                self._lock.release()

    @property
    def process_id(self) -> int | None:
        """The id of the process that runs, or None."""
        return None if self._process is None else self._process.pid

    def _start(self) -> None:
        if (
            self._process is not None
            and self._owner == os.getpid()
            and self._process.poll() is None
        ):
            return
        self._end()
        program = (
            "import gc; gc.disable(); import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
            "from kernellab.common.processes import serve; serve()"
        )
        try:
            self._printed = nameless_file(0, buffering=0)
            self._process = subprocess.Popen(
                # -P: no module of the current folder's (random.py, json.py) instead of Python's.
                # -X utf8: libraries read their own files in the locale's encoding, ASCII in "C".
                [sys.executable, "-P", "-X", "utf8", "-c", program, json.dumps(_module_path())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                # Ctrl-C goes to the foreground's process group:
                # it is the caller's business, not the worker's.
                start_new_session=True,
                cwd=_present_folder(),
                # A buffer has a lock: one that a thread holds while another forks stays locked.
                bufsize=0,
            )
        except (OSError, ValueError, MachineError) as error:
            raise WorkerLost(
                f"no process could be started for the work that may abort: {error}",
                advice=_NOT_STARTED,
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = self._process.stdin, self._process.stdout
        self._owner = os.getpid()

    def _exchange(self, request: bytes, seconds: float) -> tuple[bool, Any]:
        assert self._printed is not None
        # The process shares this file's offset, and is idle now.
        self._printed_before = self._printed.seek(0, os.SEEK_END)
        begun = b""
        deadline = time.monotonic() + seconds
        try:
            self._write(len(request).to_bytes(8, "big") + request, deadline)
            begun = self._read(1, deadline)
            size = int.from_bytes(self._read(8, deadline), "big")
            worked, answer = pickle.loads(self._read(size, deadline))
        except (BrokenPipeError, EOFError):
            raise self._death(bool(begun)) from None
        except TimeoutError:
            raise WorkerError(
                f"{self._who} did not answer within {seconds:g} seconds, and was stopped.",
                timed_out=True,
            ) from None
        if begun != _BEGUN:
            raise WorkerLost(
                f"The worker process cannot load what it is to run:\n{_told(answer)}",
                advice=_NOT_STARTED,
            )
        return worked, answer

    def _write(self, content: bytes, deadline: float) -> None:
        pipe = self._pipes[0].fileno()
        rest = memoryview(content)
        while rest:
            self._wait([], [pipe], deadline)
            # A pipe that is ready takes so much without waiting.
            rest = rest[os.write(pipe, rest[: select.PIPE_BUF]) :]

    def _read(self, size: int, deadline: float) -> bytes:
        pipe = self._pipes[1].fileno()
        chunks: list[bytes] = []
        while size > 0:
            self._wait([pipe], [], deadline)
            chunk = os.read(pipe, min(size, 1 << 20))
            if not chunk:
                raise EOFError
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def _wait(self, read: list[int], written: list[int], deadline: float) -> None:
        """Until a pipe can be read or written; not for a process that somebody has suspended."""
        assert self._process is not None
        suspended = 0
        while True:
            left = max(0.0, deadline - time.monotonic())
            if any(select.select(read, written, [], min(left, 1.0))):
                return
            suspended = suspended + 1 if _is_suspended(self._process.pid) else 0
            if suspended > _PATIENCE or (suspended and left <= 1.0):
                raise WorkerLost(
                    f"{self._who}'s process was suspended from outside (signal SIGSTOP) and did "
                    "not go on; it was ended.",
                    advice=_SUSPENDED,
                )
            if left <= 1.0:
                raise TimeoutError

    def _death(self, begun: bool) -> WorkerError:
        """What is said of a process that ended, before or after it began with the call."""
        assert self._process is not None
        assert self._printed is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        code = self._process.returncode
        how = _format_ending(code)
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(self._printed_before, size - _MOST_WORDS))
        words = self._printed.read().decode(errors="replace").strip()
        shown = _told(words) if not begun else "\n".join(words.splitlines()[-12:])
        ended = f"{self._who} ended its process ({how})."
        if code in _KILLED:
            ended = f"{self._who}'s process was killed from outside ({how})."
        elif not begun:
            ended = f"The worker process ended before it began ({how})."
        advice = "" if begun else _NOT_STARTED
        kind = WorkerLost if code in _KILLED or not begun else WorkerError
        return kind(
            f"{ended} Its last words:\n{shown}" if shown else f"{ended} It printed nothing.",
            advice=_OUT_OF_MEMORY if code == -signal.SIGKILL else advice,
            last_words=words,
            died=begun,
            ending=how,
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        printed, self._printed = self._printed, None
        pipes, self._pipes = self._pipes, ()
        for pipe in pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        if process is not None:
            if self._owner == os.getpid():
                process.kill()
                process.wait()
            else:
                process.returncode = 0  # Not this process's to wait for.
        if printed is not None:
            printed.close()

    def forget(self) -> None:
        """After a fork: the process and what is on its way to it are the parent's."""
        self._lock = threading.Lock()
        process = self._process
        if process is not None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for pipe in self._pipes:
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(nowhere, pipe.fileno())
                    pipe.close()
            os.close(nowhere)
            process.returncode = 0  # Not this process's to wait for.
        if self._printed is not None:
            self._printed.close()


def _forget_after_fork() -> None:
    for worker in list(_workers):
        worker.forget()


os.register_at_fork(after_in_child=_forget_after_fork)


def _is_suspended(process: int) -> bool:
    """Whether somebody has stopped a process, as SIGSTOP does; a debugger that looks into it has
    not.
    """
    return _status(process)[:1] == ["T"]


_PATIENCE = 10
"""Seconds that a process may be suspended before it counts as lost: it is looked at each second, so
that a time for which this process was suspended too does not count."""

_SUSPENDED = "A user or a batch system sent the signal; the next call starts a new process."

_NOT_STARTED = (
    "That is this machine's state, not the kernel's: look at its memory, its limits (ulimit -a) "
    "and its disks."
)

_BEGUN, _NOT_BEGUN = b"b", b"n"
"""The first byte of an answer: whether the function could be loaded."""


def _present_folder() -> str | None:
    """Where a process starts: in another folder where this one's was removed, since libraries
    that it loads (oneMKL) end it there.
    """
    try:
        os.getcwd()
    except OSError:
        return os.sep
    return None


_KILLED = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGXCPU})
"""Endings that no process brings upon itself."""

_OUT_OF_MEMORY = (
    "The system kills a process when memory runs out (see dmesg or the container's limit), "
    "or someone killed it. The next call starts a new process."
)


def _told(words: str) -> str:
    """Of what a process said before it began: of a traceback through our own code, the error."""
    lines = words.splitlines()
    return lines[-1] if "Traceback (most recent call last):" in lines else "\n".join(lines[-12:])


def _format_ending(code: int | None) -> str:
    """ "exit status 3", "signal SIGSEGV"."""
    if code is None or code >= 0:
        return f"exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal, which has none
        name = str(-code)
    likely = ", probably because memory ran out" if code == -signal.SIGKILL else ""
    return f"signal {name}{likely}"


_ZIPPED = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
"""The file that may hold the standard library."""


def _module_path() -> list[str]:
    """Where this process finds modules, with Python's own before all others: what lies beside a
    notebook (random.py, json.py) may be called as a module of the standard library.
    """
    entries: list[Any] = list(sys.path)
    given = [entry for entry in entries if isinstance(entry, str)]
    paths = sysconfig.get_paths()
    standard = {paths["stdlib"], paths["platstdlib"]}
    standard |= {os.path.join(entry, "lib-dynload") for entry in standard}
    own = [entry for entry in given if entry in standard or entry.endswith(_ZIPPED)]
    return [*own, *(entry for entry in given if entry not in own)]


_shared = Worker()


@atexit.register
def _end_all() -> None:
    for worker in list(_workers):
        worker.kill()


def call(function: str, *arguments: Any, seconds: float = SECONDS) -> Any:
    """`Worker.call` in the process that everyone shares."""
    return _shared.call(function, *arguments, seconds=seconds)


def close() -> None:
    """End the process that everyone shares, if it runs."""
    _shared.close()


# In the process


def serve() -> None:
    """Answer requests until the other end of the pipe is closed."""
    requests, answers = os.dup(0), os.dup(1)
    # What a call prints must not land between the answers.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    incoming: list[bytes] = []
    arrived = threading.Semaphore(0)
    threading.Thread(target=_receive, args=(requests, incoming, arrived), daemon=True).start()
    while True:
        arrived.acquire()
        answer = pickle.dumps(_answer(incoming.pop(0), answers))
        with os.fdopen(os.dup(answers), "wb") as pipe:
            pipe.write(len(answer).to_bytes(8, "big") + answer)


def _receive(pipe: int, incoming: list[bytes], arrived: threading.Semaphore) -> None:
    """Take requests; when the caller has gone, end the process, whatever it is doing."""
    with os.fdopen(pipe, "rb") as requests:
        while True:
            size = requests.read(8)
            request = requests.read(int.from_bytes(size, "big")) if len(size) == 8 else b""
            if not request:
                os._exit(0)
            incoming.append(request)
            arrived.release()


def _collect_garbage() -> None:
    """From the first call on. Until then modules are imported, none of whose objects go, and
    looking through them again and again takes a tenth of that time.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _answer(request: bytes, answers: int) -> tuple[bool, Any]:
    """The function's result, or its error; whether it could be loaded is written at once."""
    sign = _NOT_BEGUN
    try:
        name, arguments, environment = pickle.loads(request)
        for stale in [key for key in os.environ if key.startswith(_FORWARDED)]:
            if stale not in environment:
                del os.environ[stale]
        os.environ.update(environment)
        module, _, function = name.partition(":")
        called: Callable[..., Any] = getattr(importlib.import_module(module), function)
        _collect_garbage()
        sign = _BEGUN
    except BaseException:  # whatever the module's import raises is the answer
        return False, traceback.format_exc()
    finally:
        os.write(answers, sign)
    try:
        return True, called(*arguments)
    except KernelLabError as error:
        error.__cause__ = error.__context__ = None
        return False, error
    except BaseException:  # whatever the function raises is the answer
        return False, traceback.format_exc()


# A process that does one piece of work on other people's files, and answers through a pipe of its
# own. What it prints is not an answer; nothing that it started stays: a process above it, which
# Linux makes the parent of its orphans, ends them.

MOST_ANSWERED = 16 * 1024 * 1024
"""Bytes of an answer."""

_MOST_SAID = 64 * 1024
"""Bytes of standard error that are kept; the rest is read and forgotten."""

_ENDING = 10.0
"""Seconds until a process that does not end its children is killed."""


def answer_of(function: str, arguments: Sequence[str], seconds: float) -> bytes:
    """Call "module:function" with texts in a new process; return the bytes that it returns.

    Raises:
        WorkerError: it did not end in time, answered too much, or ended without an answer; the
            message has the last line that it printed.
    """
    reading, writing = os.pipe()
    called = "from kernellab.common.processes import answer_once; answer_once()"
    command = [sys.executable, "-P", "-c", called, str(writing), function, *arguments]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(writing,),
            start_new_session=True,
        )
    except BaseException:  # Ctrl-C too: no descriptor stays open
        os.close(reading)
        raise
    finally:
        os.close(writing)
    assert process.stdin is not None
    assert process.stderr is not None
    parts: dict[str, bytes] = {}
    readers = [
        threading.Thread(target=_read_some, args=(file, most, parts, name), daemon=True)
        for name, file, most in (
            ("answer", os.fdopen(reading, "rb", 0), MOST_ANSWERED + 1),
            ("said", process.stderr, _MOST_SAID),
        )
    ]
    for reader in readers:
        reader.start()
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        raise WorkerError(f"it did not end within {seconds:g} s") from error
    finally:
        process.stdin.close()  # what is left ends
        try:
            process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for reader in readers:
            reader.join(_ENDING)
    answer = parts.get("answer", b"")
    if len(answer) > MOST_ANSWERED:
        raise WorkerError(f"it answered more than {MOST_ANSWERED:,} bytes")
    if status != 0 or not answer:
        said = parts.get("said", b"").decode("utf-8", "replace").strip().splitlines()
        words = f": {said[-1][:500]}" if said else ""
        raise WorkerError(f"the process that works on it ended with {status}{words}")
    return answer


def answer_once() -> None:
    """In that process: call the function in a copy, and end with it whatever it started, also if
    the caller closes the pipe or has gone.
    """
    writing, function, *arguments = sys.argv[1:]
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    copy = os.fork()
    if copy:
        os.close(int(writing))
        os._exit(_ended_with_all(copy))
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()  # a signal to its group is not one to the process above
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.set_inheritable(int(writing), False)
    module, _, name = function.partition(":")
    answer = getattr(importlib.import_module(module), name)(*arguments)
    with open(int(writing), "wb") as pipe:
        pipe.write(answer)


_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _ended_with_all(process: int) -> int:
    """Wait for a child, or for the end of standard input; end all children, among them each orphan
    of theirs, in whatever session it is. Returns the child's exit status.
    """
    ended, status = 0, 0
    while not ended and not select.select([0], [], [], 0.02)[0]:
        ended, status = os.waitpid(process, os.WNOHANG)
    with suppress(ChildProcessError):  # there are no more
        while True:
            for child in _children():
                os.kill(child, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
    code = os.waitstatus_to_exitcode(status) if ended else -signal.SIGKILL
    return code if code >= 0 else 128 - code


def _children() -> list[int]:
    """The processes whose parent is this one."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if _status(number)[1:2] == [str(os.getpid())]]


def _status(process: int) -> list[str]:
    """What /proc says of a process, from its state and its parent on; nothing if it has gone."""
    with suppress(OSError), open(f"/proc/{process}/stat", encoding="latin-1") as file:
        return file.read().rpartition(")")[2].split()
    return []


def _read_some(file: Any, most: int, parts: dict[str, bytes], name: str) -> None:
    """Read to the end, and keep the first bytes."""
    kept = bytearray()
    with file, suppress(OSError, ValueError):
        while part := file.read(1 << 16):
            kept += part[: most - len(kept)]
    parts[name] = bytes(kept)
