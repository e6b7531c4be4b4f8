"""The operating system's services to this process, and their limits: temporary files, the
folder of caches, files to write, cores, standard streams, Ctrl-C, time limits; and which debugger a
session uses.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import functools
import gc
import io
import os
import pdb  # noqa: T100 - no one debugs this file
import re
import secrets
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, BinaryIO, cast

from kernellab.common.text import shown
from kernellab.errors import KernelLabError, MachineError

MEMORY_ADVICE = "Check this machine's memory and its limits (ulimit -a, or the container's)."
DISK_ADVICE = (
    "Free disk space, or set TRITON_CACHE_DIR (the compiler's cache) and TMPDIR (its temporary "
    "files) to writable folders with free space."
)
LIMITS_ADVICE = "Raise the limits of open files (ulimit -n) and of processes (ulimit -u)."

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FOLDERS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST)
_NO_THREAD = "can't start new thread"
"""The message of Python's RuntimeError."""


_NO_MEMORY = re.compile(r"failed to map segment|[Cc]annot allocate memory")
"""The dynamic loader's message of an ImportError."""


def system_fault(error: BaseException, lead: str) -> MachineError | None:
    """The fault of this machine that a Python error reports; None if it may be another. `lead`:
    what cannot be done: "The compiler cannot run".
    """
    if isinstance(error, MemoryError):
        return MachineError(f"{lead}: memory is exhausted.", advice=MEMORY_ADVICE)
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return MachineError(f"{lead}: no thread can be started.", advice=LIMITS_ADVICE)
    if isinstance(error, ImportError | OSError) and _NO_MEMORY.search(str(error)):
        return MachineError(f"{lead}: {error}.", advice=MEMORY_ADVICE)
    if isinstance(error, OSError) and error.errno is not None:
        return _refused(error, lead)
    return None


@contextmanager
def translated_system_faults(lead: str) -> Iterator[None]:
    """Turn what the system refuses to our own work into a MachineError; all else propagates."""
    try:
        yield
    except (OSError, RuntimeError, MemoryError, ImportError) as error:
        fault = system_fault(error, lead)
        if fault is None:
            raise
        raise fault from error


def is_full(error: OSError) -> bool:
    """Return whether there is no space for what was to be written."""
    return error.errno in _FULL


def _refused(error: OSError, lead: str) -> MachineError:
    words = error.strerror or str(error)
    named = f" ({error.filename})" if error.filename else ""
    advice = ""
    if error.errno == errno.ENOMEM:
        advice = MEMORY_ADVICE
    elif error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN):
        advice = LIMITS_ADVICE
    elif is_full(error):
        is_limit = error.errno == errno.EFBIG
        advice = "Raise this process's limit on file sizes: ulimit -f." if is_limit else DISK_ADVICE
    elif error.errno in _FOLDERS:
        advice = (
            "Set TRITON_CACHE_DIR (the compiler's cache) and TMPDIR (its temporary files, now "
            f"{temporary_place()}) to writable folders."
        )
    return MachineError(f"{lead}: {words}{named}.", advice=advice)


def temporary_place() -> str:
    """The folder for temporary files, in words if there is none that can be written."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return "none that can be written"


# What CUDA says about a kernel that died: from then on the process cannot use the GPU.

_DEAD_CONTEXT = re.compile(
    r"illegal memory access|illegal instruction|misaligned address|unspecified launch failure|"
    r"device-side assert|hardware stack error|invalid program counter|CUDA_ERROR_(?:LAUNCH|ILLEGAL|"
    r"ASSERT|MISALIGNED)",
    re.IGNORECASE,
)


def gpu_fault(error: BaseException) -> str | None:
    """The reason in CUDA's words why a launch failed on the GPU; None for another error."""
    match = _DEAD_CONTEXT.search(str(error))
    return None if match is None else match[0].lower()


# Files and folders for a while, of which nothing stays, however the process ends.
#
# Files that other processes of this machine read have no name: their memory goes when the last
# process that has them open does. Folders have one, since compilers want paths; what a process
# that was killed left of them is removed when the next one makes its first.

_PREFIX = "kernellab-tmp-"
_FOLDER = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
"""The names that `tempfile` makes of the prefix: no folder of anybody else's."""
_YOUNG = 10.0
"""Seconds within which a folder without a lock may be one that is just being made."""


def nameless_file(size: int, buffering: int = -1) -> BinaryIO:
    """An empty file without a name for some bytes: in memory if four times that is free, else
    in the usual place for temporary files. `path_of` names it to other processes. Raises
    MachineError: none can be made.
    """
    remove_leftovers()
    with translated_system_faults("No temporary file can be made"):
        if _free_memory() > 4 * size:
            made = os.memfd_create(_PREFIX + "arguments")
            return open(made, "w+b", buffering)
        return cast(BinaryIO, tempfile.TemporaryFile(buffering=buffering, prefix=_PREFIX))


def path_of(file: BinaryIO) -> str:
    """The path by which this user's processes open a nameless file, while this one holds it."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _free_memory() -> int:
    """In bytes; 0 if the system does not say."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return 0


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder that is removed with the context; a later process removes a killed one's. Raises
    MachineError: no folder for temporary files can be written, or the system refuses.
    """
    remove_leftovers()
    with translated_system_faults("No temporary folder can be made"):
        made = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    with made as folder, _own_faults_translated(folder):
        lock = os.open(folder, os.O_RDONLY)
        try:
            # Whoever removes leftovers asks for this lock, which ends with the process.
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield folder
        finally:
            os.close(lock)


@contextlib.contextmanager
def _own_faults_translated(folder: str) -> Iterator[None]:
    """Turn an OSError about a file of this folder into a MachineError; let others pass."""
    try:
        yield
    except OSError as error:
        if not is_full(error) and not str(error.filename).startswith(folder):
            raise
        with translated_system_faults("Temporary files cannot be written"):
            raise


@functools.cache
def remove_leftovers() -> None:
    """Remove this user's folders whose process has ended, once per process."""
    with contextlib.suppress(OSError):
        for entry in Path(tempfile.gettempdir()).iterdir():
            if _FOLDER.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_left(entry)


def _remove_if_left(folder: Path) -> None:
    status = folder.lstat()
    is_ours = status.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
    if not is_ours or time.time() - status.st_mtime < _YOUNG:
        return
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: somebody works there
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def cache_folder(name: str) -> Path:
    """Return the folder for a kind of cached data, below KERNELLAB_CACHE_DIR or the caches. Raises
    RuntimeError: the user has no home folder.
    """
    given = os.environ.get("KERNELLAB_CACHE_DIR")
    if given:
        return Path(given, name)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "kernellab", name)


# Folders and files that every user of the machine can name in advance, as those in the folder for
# temporary files: another user may have made them, to have this one run or overwrite something.


def own_folder(path: str | os.PathLike[str]) -> Path:
    """Return a folder that only this user can write in, made with mode 0700 if need be. Raises
    MachineError: it cannot be made, is a link, or others own it or can write in it.
    """
    folder = Path(path)
    with translated_system_faults("A folder of this user's cannot be made"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
        _check_owner(folder, status, stat.S_ISDIR, "a folder")
        if status.st_mode & stat.S_IWGRP:  # made under a umask of 002, with a group for each user
            os.chmod(folder, stat.S_IMODE(status.st_mode) & ~stat.S_IWGRP)
    return folder


def lock_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file that this user's processes lock, made if need be, unchanged otherwise. Raises
    MachineError: as for `own_folder`.
    """
    with translated_system_faults("A lock cannot be opened"):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            opened = open(os.open(path, flags, 0o600), "r+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EACCES, errno.ENXIO, errno.EISDIR):
                raise
            _check_owner(Path(path), os.lstat(path), stat.S_ISREG, "a file")
            raise
        try:
            _check_owner(Path(path), os.fstat(opened.fileno()), stat.S_ISREG, "a file")
        except MachineError:
            opened.close()
            raise
        return opened


def _check_owner(
    path: Path, status: os.stat_result, is_kind: Callable[[int], bool], kind: str
) -> None:
    if not is_kind(status.st_mode):
        what = f"is not {kind}"
    elif status.st_uid != os.getuid():
        what = f"belongs to another user (number {status.st_uid})"
    elif status.st_mode & stat.S_IWOTH:
        what = f"can be written by other users (mode {stat.S_IMODE(status.st_mode):o})"
    else:
        return
    raise MachineError(
        f"{str(path)!r} {what}, so it is not used.",
        advice="Remove it, or set TMPDIR to a folder of yours.",
    )


_NAME_BYTES = 200


def write_whole(path: str | os.PathLike[str], content: bytes, *, is_named: bool = True) -> Path:
    """Write a file whole or not at all, in place of an earlier one. Returns the path. `is_named`:
    whether the user named it, not only its folder. What a link leads to is then replaced, not the
    link; a pipe or a device, which nothing can replace, is written to. Otherwise a link or a pipe
    may be someone else's, and is replaced itself. Raises OSError: it cannot be written.
    """
    file = Path(path)
    if is_named and file.exists() and not file.is_file():
        file.write_bytes(content)
        return file
    target = file.resolve() if is_named else file
    # Its name is no longer than a file's may be, whatever the target's is.
    name = os.fsdecode(os.fsencode(target.name)[:_NAME_BYTES])
    unfinished = target.with_name(f"{name}.{secrets.token_hex(8)}.part")
    # In a folder that others can write in, a link of that name could be anyone's.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(unfinished, flags, 0o666), "wb") as opened:
            opened.write(content)
        unfinished.replace(target)
    except BaseException:  # Ctrl-C too: no half of a file stays
        unfinished.unlink(missing_ok=True)
        raise
    return file


_PATH = "Pass the path of a file as a string."


def saved_path(path: Any, refused: type[KernelLabError]) -> Path:
    """Return a path that a user gave. Raises KernelLabError: of class `refused`: not a path; a
    number would be an open file.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise refused(f"path must be a str or a pathlib.Path, got {shown(path)}.", advice=_PATH)
    if not text:
        raise refused("path must name a file, got an empty string.", advice=_PATH)
    if "\0" in text:
        raise refused(f"path must have no null character, got {shown(text)}.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise refused(f"path must be valid Unicode, got {shown(text)}: {error.reason}.") from error
    return Path(text)


def save_whole(
    path: str | os.PathLike[str],
    content: bytes,
    refused: type[KernelLabError] = KernelLabError,
    *,
    is_named: bool = True,
) -> Path:
    """`write_whole`, with errors that say what cannot be written; returns the path. Raises
    KernelLabError: of the class `refused`: it cannot be written.
    """
    check_place(path, refused)
    try:
        return write_whole(path, content, is_named=is_named)
    except OSError as error:
        raise refused(f"{str(path)!r} cannot be written: {_reason(error)}.") from error


def check_place(
    path: str | os.PathLike[str], refused: type[KernelLabError] = KernelLabError
) -> None:
    """Raise `refused` if no file can be at a path: before the work, for a user who named it."""
    file = saved_path(path, refused)
    if os.path.isdir(file):
        raise refused(f"{file} is a folder.", advice="Name a file in it.")
    try:
        folder = file.absolute().parent
    except OSError as error:  # of os.getcwd()
        raise refused(
            f"{shown(str(file))} is a relative path, and the current folder no longer exists.",
            advice="Use an absolute path, or change to another folder (os.chdir).",
        ) from error
    if not os.path.isdir(folder):
        raise refused(
            f"{file.name!r} cannot be written: the folder {folder} does not exist.",
            advice="Create the folder first.",
        )


def why_unreadable(path: str | os.PathLike[str], error: OSError) -> str:
    """A sentence: why a file that the user named cannot be read."""
    if isinstance(error, FileNotFoundError):
        return f"There is no file {str(path)!r}."
    if isinstance(error, IsADirectoryError):
        return f"{str(path)!r} is a folder, not a file. Name a file in it."
    return f"{str(path)!r} cannot be read: {_reason(error)}."


def _reason(error: OSError) -> str:
    if error.errno == errno.ENAMETOOLONG:
        return "the path is longer than the file system allows. Use a shorter one"
    return error.strerror or str(error)


def usable_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def without_collections() -> Iterator[None]:
    """While active, Python's garbage collector does not run. Work that makes many objects would
    have it look through all that torch and Triton loaded, again and again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


# A process's standard streams, which may be closed, full, cut off, or of a narrow encoding.


def hold_standard_descriptors() -> None:
    """Open the null device for closed ones of the descriptors 0, 1 and 2: otherwise the next opened
    file would get the number, and the output of compilers and other processes.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that opens.
            os.open(os.devnull, os.O_RDWR)


def flush_errors() -> None:
    """Flush stderr, if that is possible."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()


def print_as_far_as_possible(text: str) -> None:
    """Print the part of a text that the encoding has, or nothing if nothing can be written."""
    stream = sys.stdout
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def escape_unknown_letters() -> None:
    """Write letters that a stream's encoding does not have as escapes, without an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> None:
    """Let Python end without an error although its output cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def interrupted_afterwards() -> Iterator[None]:
    """Deliver a Ctrl-C within the block at its end."""
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
"""Seconds after which half-done work is probably done."""


class InterruptsBetween:
    """While active, a Ctrl-C takes effect as soon as no function runs that must not be interrupted.

    Python calls a signal's handler between two instructions of any function, including one that
    restores something. The handler here examines the frames: if one of these functions runs, it
    sends the signal again a moment later.

    Args:
        modules: modules with only such functions, unless they call others; "name." is a package.
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
        """End it, and deliver a Ctrl-C that waited; a handler set meanwhile stays."""
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
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)

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


_AGAIN = 10.0
"""Seconds until work that caught the error and continued is stopped again."""

_SOON = 1e-3
"""Seconds until work is stopped again if the error was lost: Python prints the errors of
finalizers, of callbacks of weak references and of the collector's callbacks, and continues.
"""


class OutOfTime(Exception):
    """Work took longer than it may."""


class StoppedForGood(BaseException):
    """The same for work that catches every Exception, of which this is not one."""


@contextmanager
def limited(
    seconds: float | None, stopped_by: type[OutOfTime | StoppedForGood] = OutOfTime
) -> Iterator[None]:
    """While active, Python code of the main thread that takes longer is stopped: `stopped_by` is
    raised wherever it is. In other threads, and with None, nothing is. A clock that was set before
    continues afterwards.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not in_main:
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise stopped_by(f"it took longer than {seconds:g} seconds, and was stopped here")

    def unraisable(error: sys.UnraisableHookArgs) -> None:
        if isinstance(error.exc_value, stopped_by):
            signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
        else:
            hook_before(error)

    begun = time.monotonic()
    hook_before, sys.unraisablehook = sys.unraisablehook, unraisable
    before = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook_before
        if left:
            rest = left - (time.monotonic() - begun)
            signal.setitimer(signal.ITIMER_REAL, max(rest, 1e-3), interval)


# The debugger class that sessions of `kernellab.debug` use. It is kept here because the notebook
# extension sets it when it is loaded, and may import nothing heavy.


def python_debugger() -> type[pdb.Pdb]:
    """Return Python's own debugger, the default outside of IPython."""
    return pdb.Pdb


current_debugger: Callable[[], type[pdb.Pdb]] = python_debugger
"""Returns the class; the notebook extension replaces it with one that returns IPython's."""
