"""A separate process for calls that may abort, and a copy of this process."""

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
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from typing import IO, Any, Generic, NoReturn, TypeVar

from kernellab.common.system import nameless_file
from kernellab.common.text import error_text
from kernellab.errors import KernelLabError, MachineError, WorkerError, WorkerLost

T = TypeVar("T")

# A process that forks while its threads work leaves its child no lock for ever.

_MOST_SECONDS = 5.0
"""How long a fork waits for a thread that may be waiting for the fork in its turn."""


def hold_while_forking(lock: threading.RLock) -> None:
    """Let a fork wait for the lock, so that the child finds it free, and its data whole."""
    held: list[bool] = []

    def hold() -> None:
        held.append(lock.acquire(timeout=_MOST_SECONDS))

    def let_go() -> None:
        if held.pop():
            lock.release()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=let_go)


# A process, and what it answers.
#
# A separate process serves call after call: edited IR and edited pipelines can take the whole
# compiler down. A copy of this process makes one call: what this process holds need not be sent.
# Where one dies, the call raises WorkerError with the process's last words. Each ends with the
# process that started it, however that ends.

SECONDS = 300.0
"""How long a call may take by default."""

MOST_ANSWERED = 16 << 20
"""Bytes of an answer that is not trusted. Of a kernel with 10,000 operations it has about 5 MB."""

_FORWARDED = ("TRITON_", "MLIR_", "LLVM_", "AMDGCN_", "PTXAS_")
"""Environment variables that the compiler reads: each call sends the current values."""

_MOST_WORDS = 20_000
"""The bytes of a process's output that are read when it has died."""

_MOST_SAID = 500
"""Bytes of an error's words that are not trusted."""

_WATCHED = 0.2
"""Seconds between two checks of a watched process."""

_ENDING = 10.0
"""Seconds until a process that has closed its pipe, or whose pipe is closed, is killed."""

_BEGUN, _NOT_BEGUN, _PICKLE, _BYTES, _ERROR, _WORDS = b"b", b"n", b"p", b"=", b"e", b"w"
"""The first byte of an answer: loaded or not; result pickled or raw; error pickled or text."""

_processes: weakref.WeakSet[_Process] = weakref.WeakSet()


class _Process:
    """A process that works for this one, and answers through a pipe."""

    _exit_advice = ""
    """The advice if the process exited during a call."""

    def __init__(self, who: str, *, guarded: bool, watch: Callable[[], None] | None = None) -> None:
        self._who = who
        self._guarded = guarded
        self._watch = watch
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | _Copy | None = None
        self._pipes: tuple[IO[bytes], ...] = ()
        """From the process, and to it."""
        self._owner = 0
        self._printed: IO[bytes] | None = None
        self._printed_before = 0
        _processes.add(self)

    def kill(self) -> None:
        process = self._process
        if process is not None and not self._guarded and self._owner == os.getpid():
            process.kill()
        if self._lock.acquire(blocking=False):  # else the call that continues does that
            try:
                self._end()
            finally:
                self._lock.release()

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def _exchange(self, request: bytes, seconds: float | None) -> Any:
        """Send a request and return its answer or a `_Raised`; if it fails, end the process."""
        assert self._printed is not None
        # The process shares this file's offset, and is idle now.
        self._printed_before = self._printed.seek(0, os.SEEK_END)
        deadline = None if seconds is None else time.monotonic() + seconds
        begun = not request
        try:
            self._write(request, deadline)
            kind = self._read(1, deadline)
            if kind == _BEGUN:
                begun = True
                kind = self._read(1, deadline)
            size = int.from_bytes(self._read(8, deadline), "big")
            if self._guarded and size > MOST_ANSWERED:
                raise WorkerError(f"{self._who} answered more than {MOST_ANSWERED:,} bytes.")
            return self._read_as(kind, self._read(size, deadline))
        except BaseException as error:
            # Ctrl-C too: an answer that nothing waits for must not reach the next call.
            try:
                if isinstance(error, BrokenPipeError | EOFError):
                    raise self._death(begun) from None
                if isinstance(error, TimeoutError):
                    raise WorkerError(
                        f"{self._who} did not answer within {seconds:g} seconds, and was stopped.",
                        timed_out=True,
                    ) from None
                raise
            finally:
                self._end()

    def _read_as(self, kind: bytes, content: bytes) -> Any:
        if kind == _BYTES:
            return content
        if kind == _WORDS:
            said = content[:_MOST_SAID] if self._guarded else content
            return _Raised(WorkerError(said.decode("utf-8", "replace")))
        if kind == _PICKLE and not self._guarded:
            return pickle.loads(content)
        if kind == _ERROR and not self._guarded:
            return _Raised(pickle.loads(content))
        if kind == _NOT_BEGUN:
            raise WorkerLost(
                "The worker process cannot load what it is to run:\n"
                f"{_told(content.decode('utf-8', 'replace'))}.",
                advice=_NOT_STARTED,
            )
        raise WorkerError(f"{self._who}'s answer is not valid.")

    def _write(self, content: bytes, deadline: float | None) -> None:
        rest = memoryview(content)
        while rest:
            pipe = self._pipes[1].fileno()
            self._wait([], [pipe], deadline)
            # A pipe that is ready takes so much without waiting.
            rest = rest[os.write(pipe, rest[: select.PIPE_BUF]) :]

    def _read(self, size: int, deadline: float | None) -> bytes:
        pipe = self._pipes[0].fileno()
        chunks: list[bytes] = []
        while size > 0:
            self._wait([pipe], [], deadline)
            chunk = os.read(pipe, min(size, 1 << 20))
            if not chunk:
                raise EOFError
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def _wait(self, read: list[int], written: list[int], deadline: float | None) -> None:
        assert self._process is not None
        step = 1.0 if self._watch is None else _WATCHED
        suspended = 0.0
        while True:
            left = step + 1 if deadline is None else max(0.0, deadline - time.monotonic())
            if self._watch is not None:
                self._watch()
            if left and any(select.select(read, written, [], min(left, step))):
                return
            is_suspended = _status(self._process.pid)[:1] == ["T"]  # by SIGSTOP; a debugger has "t"
            suspended = suspended + step if is_suspended else 0.0
            if suspended > _PATIENCE or (suspended and left <= step):
                raise WorkerLost(
                    f"{self._who}'s process was suspended by another process (signal SIGSTOP) "
                    "and did not resume, so it was ended.",
                    advice=_SUSPENDED,
                )
            if left <= step:
                raise TimeoutError

    def _death(self, begun: bool) -> WorkerError:
        """The error of a process that ended before or after it began the call."""
        assert self._process is not None
        assert self._printed is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING)
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
        advice = _NOT_STARTED
        if begun:
            advice = self._exit_advice if code is not None and code >= 0 else ""
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
                if self._guarded:  # it first ends what it started
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_ENDING)
                process.kill()
                process.wait()
            else:
                process.returncode = 0  # Not this process's to wait for.
        if printed is not None:
            printed.close()

    def forget(self) -> None:
        """After a fork: the process, and what was sent to it, belong to the parent."""
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


class _Raised:
    """An answer that is an error."""

    def __init__(self, error: KernelLabError) -> None:
        self.error = error


def _forget_after_fork() -> None:
    for process in list(_processes):
        process.forget()


os.register_at_fork(after_in_child=_forget_after_fork)


class Worker(_Process):
    """A separate process, and the calls made in it, one at a time."""

    def __init__(self, who: str = "The compiler", *, guarded: bool = False) -> None:
        """Describe a process that starts with the first call. If it is `guarded`, because it works
        on other people's files, its results are bytes, its output is dropped, and a process above
        it, which Linux makes the parent of its orphans, ends what it started.
        """
        super().__init__(who, guarded=guarded)

    def call(self, function: str, *arguments: Any, seconds: float = SECONDS) -> Any:
        """Call "module:function" with these arguments in the process, and return its result.

        Arguments and result are plain data: they are pickled.

        Raises:
            WorkerLost: no process could be started, or somebody killed it.
            WorkerError: the process died, took longer than `seconds`, or its answer is not valid.
            KernelLabError: the function raised it.
        """
        with self._lock:
            self._start()
            settings = {
                name: value for name, value in os.environ.items() if name.startswith(_FORWARDED)
            }
            request = pickle.dumps((function, arguments, settings))
            answer = self._exchange(len(request).to_bytes(8, "big") + request, seconds)
        if isinstance(answer, _Raised):
            raise answer.error
        return answer

    def close(self) -> None:
        """End the process; a later call starts another."""
        with self._lock:
            self._end()

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
            f"from kernellab.common.processes import serve; serve({self._guarded})"
        )
        try:
            self._printed = nameless_file(0, buffering=0)
            process = subprocess.Popen(
                # -P: no module of the current folder's (random.py, json.py) instead of Python's.
                # -X utf8: libraries read their own files in the locale's encoding, ASCII in "C".
                [sys.executable, "-P", "-X", "utf8", "-c", program, json.dumps(_module_path())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if self._guarded else self._printed,
                # Ctrl-C goes to the foreground's process group:
                # it is the caller's business, not the worker's.
                start_new_session=True,
                cwd=_present_folder(),
                # Threads that wait for work give the processor to the other processes.
                env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
                # A buffer has a lock: one that a thread holds while another forks stays locked.
                bufsize=0,
            )
        except (OSError, ValueError, MachineError) as error:
            raise WorkerLost(
                f"The worker process could not be started: {error}", advice=_NOT_STARTED
            ) from error
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._owner = process, os.getpid()
        self._pipes = process.stdout, process.stdin


class Forked(_Process, Generic[T]):
    """A function's result, computed by a copy of this process with one thread."""

    _exit_advice = "Remove calls that end the process, such as os._exit(), and return a value."

    def __init__(
        self,
        function: Callable[[], T],
        who: str = "",
        *,
        guarded: bool = False,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """Begin.

        Args:
            function: what to call; its result is pickled, or is bytes.
            guarded: whether it runs others' code: no terminal, session or open file; bytes result.
            watch: called repeatedly during a wait; its error ends the copy.
        """
        who = who or f"The function {getattr(function, '__name__', repr(function))!r}"
        super().__init__(who, guarded=guarded, watch=watch)
        printed = nameless_file(0, buffering=0)
        reading, writing = os.pipe()
        # Nothing is ever written to it: it is closed when this process ends.
        alive, held = os.pipe()
        with warnings.catch_warnings():  # Python's, of forks beside threads
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if process == 0:
            os.close(reading)
            os.close(held)
            _answer_in_copy(function, guarded, writing, alive, printed)
        os.close(writing)
        os.close(alive)
        self._process, self._owner, self._printed = _Copy(process), os.getpid(), printed
        self._pipes = os.fdopen(reading, "rb", 0), os.fdopen(held, "wb", 0)
        self._answer: Any = _Raised(WorkerError(f"{who} was stopped."))

    def wait(self, seconds: float | None = None) -> None:
        """Wait for its end. After `seconds`, or if the wait is interrupted, the copy is ended."""
        with self._lock:
            if self._process is not None:
                try:
                    self._answer = self._exchange(b"", seconds)
                except WorkerError as error:
                    self._answer = _Raised(error)
                self._end()

    def result(self, seconds: float | None = None) -> T:
        """The function's result, once it has ended. Raises WorkerError: it raised an error, the
        copy died, or it took longer than `seconds`; KernelLabError: the function raised it.
        """
        self.wait(seconds)
        if isinstance(self._answer, _Raised):
            raise self._answer.error
        answer: T = self._answer
        return answer


class _Copy:
    """A copy of this process, with the used part of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, _seconds: float | None = None) -> int:
        """End it if it has only closed its pipe; one that ends already keeps its own status."""
        if self.returncode is None:
            self.kill()
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


_PATIENCE = 10
"""Seconds that a process may be suspended before it counts as lost: it is checked each second, so
that a time for which this process was suspended too does not count."""

_SUSPENDED = "A user or a batch system sent the signal. The next call starts a new process."

_NOT_STARTED = "The cause is this machine, not the kernel: check its memory, limits and disks."


def _present_folder() -> str | None:
    """The folder of a new process: another if this was removed, where oneMKL would end it."""
    try:
        os.getcwd()
    except OSError:
        return os.sep
    return None


_KILLED = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGXCPU})
"""Endings that a process does not cause itself."""

_OUT_OF_MEMORY = (
    "The system kills a process when memory runs out (see dmesg or the container's limit), "
    "or someone killed it. The next call starts a new process."
)


def _told(words: str) -> str:
    """The relevant part of a process's first output: of a traceback in our code, the error."""
    lines = words.splitlines()
    return lines[-1] if "Traceback (most recent call last):" in lines else "\n".join(lines[-12:])


def _format_ending(code: int | None) -> str:
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
    """Return sys.path with Python's folders first, so that a notebook's random.py hides nothing."""
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
    for process in list(_processes):
        process.kill()


call, close = _shared.call, _shared.close
"""`Worker.call` and `Worker.close` of the process that all callers share."""


# In the process


def serve(guarded: bool) -> None:
    """Answer requests until the other end of the pipe is closed."""
    if guarded:
        _end_with_all_that_it_starts()
    requests, answers = os.dup(0), os.dup(1)
    # What a call prints must not land between the answers.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    incoming: list[bytes] = []
    arrived = threading.Semaphore(0)
    threading.Thread(target=_receive, args=(requests, incoming, arrived), daemon=True).start()
    while True:
        arrived.acquire()
        _answer(incoming.pop(0), answers, guarded)


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


def _answer(request: bytes, answers: int, guarded: bool) -> None:
    """Write that the function could be loaded, and then its result or its error."""
    try:
        name, arguments, environment = pickle.loads(request)
        for stale in [key for key in os.environ if key.startswith(_FORWARDED)]:
            if stale not in environment:
                del os.environ[stale]
        os.environ.update(environment)
        module, _, function = name.partition(":")
        called: Callable[..., Any] = getattr(importlib.import_module(module), function)
        if not gc.isenabled():  # imports before the first call only make objects that stay
            gc.freeze()
            gc.enable()
    except BaseException:  # whatever the module's import raises is the answer
        _send(answers, _NOT_BEGUN, traceback.format_exc().encode("utf-8", "replace"))
        return
    os.write(answers, _BEGUN)

    def words(error: BaseException) -> str:
        if guarded:
            return error_text(error)
        return f"{name} failed in the worker process:\n{traceback.format_exc()}"

    _send(answers, *_called(lambda: called(*arguments), guarded, words))


def _answer_in_copy(
    function: Callable[[], object], guarded: bool, answers: int, alive: int, printed: IO[bytes]
) -> NoReturn:
    """In a copy: call, write the answer, end."""

    def words(error: BaseException) -> str:
        traceback.print_exc()
        return error_text(error)

    try:
        if guarded:
            answers = _without_what_is_open(answers)
        else:
            threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the parent ends its copies
            for place in (1, 2):
                os.dup2(printed.fileno(), place)
            output = os.fdopen(os.dup(1), "w", 1, encoding="utf-8", errors="replace")
            sys.stdout = sys.stderr = output
            if faulthandler.is_enabled():
                faulthandler.enable(sys.stderr)
        gc.freeze()  # what is there is not looked through, which would copy it
        _send(answers, *_called(function, guarded, words))
    finally:  # whatever happens, the copy must not return
        os._exit(0)


def _called(
    function: Callable[[], object], guarded: bool, words: Callable[[BaseException], str]
) -> tuple[bytes, bytes]:
    """The kind and the content of the answer: the function's result, or its error."""
    try:
        result = function()
        return (_BYTES, result) if type(result) is bytes else (_PICKLE, pickle.dumps(result))
    except BaseException as error:  # whatever the function raises is the answer
        said = words(error).encode("utf-8", "replace")
        if isinstance(error, KernelLabError) and not guarded:
            error.__cause__ = error.__context__ = None
            with contextlib.suppress(Exception):  # of what the error holds
                return _ERROR, pickle.dumps(error)
        return _WORDS, said


def _send(pipe: int, kind: bytes, content: bytes) -> None:
    rest = memoryview(kind + len(content).to_bytes(8, "big") + content)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)
    os._exit(0)


def _without_what_is_open(answers: int) -> int:
    """Give up the terminal, the session and every open file but the pipe of the answer."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    answers = os.dup2(answers, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    return answers


def _end_with_all_that_it_starts() -> None:
    """Continue in a copy. When that or the caller has ended, this process ends what it started."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    copy = os.fork()
    if copy:
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # the pipe of the answers is the copy's
        os._exit(_ended_with_all(copy))
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()  # a signal to its group is not one to the process above


_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _ended_with_all(process: int) -> int:
    """Wait for a child or the end of stdin; end all children and orphans; return the status."""
    ended, status = 0, 0
    caller = select.poll()
    caller.register(0, 0)
    while not ended and not caller.poll(20):
        ended, status = os.waitpid(process, os.WNOHANG)
    with contextlib.suppress(ChildProcessError):  # there are no more
        while True:
            for child in _children():
                os.kill(child, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
    code = os.waitstatus_to_exitcode(status) if ended else -signal.SIGKILL
    return code if code >= 0 else 128 - code


def _children() -> list[int]:
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if _status(number)[1:2] == [str(os.getpid())]]


def _status(process: int) -> list[str]:
    """The fields of a process in /proc, from its state and its parent on; empty if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat", encoding="latin-1") as file:
        return file.read().rpartition(")")[2].split()
    return []
