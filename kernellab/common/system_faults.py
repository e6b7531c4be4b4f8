"""What the operating system refuses, as this machine's fault: space on disks, folders, memory,
processes, open files.
"""

from __future__ import annotations

import errno
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from kernellab.errors import MachineError

MEMORY_ADVICE = "Look at this machine's memory, and at its limits (ulimit -a, or the container's)."
DISK_ADVICE = (
    "Free disk space, or set TRITON_CACHE_DIR (the compiler's cache) and TMPDIR (its temporary "
    "files) to writable folders with free space; ulimit -f limits the size of files."
)
LIMITS_ADVICE = "Look at this process's limits of open files and of processes: ulimit -a."

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FOLDERS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST)
_NO_THREAD = "can't start new thread"
"""Python's words of a RuntimeError."""


_NO_MEMORY = re.compile(r"failed to map segment|[Cc]annot allocate memory")
"""The dynamic loader's of an ImportError."""


def system_fault(error: BaseException, lead: str) -> MachineError | None:
    """What an error of Python's says of this machine; None where it may be anything else.

    Args:
        lead: what cannot be done: "The compiler cannot run".
    """
    if isinstance(error, MemoryError):
        return MachineError(f"{lead}: memory is exhausted.", advice=MEMORY_ADVICE)
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return MachineError(f"{lead}: no thread can be started.", advice=LIMITS_ADVICE)
    if isinstance(error, ImportError) and _NO_MEMORY.search(str(error)):
        return MachineError(f"{lead}: {error}.", advice=MEMORY_ADVICE)
    if isinstance(error, OSError) and error.errno is not None:
        return _refused(error, lead)
    return None


@contextmanager
def translated_system_faults(lead: str) -> Iterator[None]:
    """Turn what the system refuses to our own work into a MachineError; all else goes on."""
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
    """What the system refuses, with the file, and what to do about it."""
    words = error.strerror or str(error)
    named = f" ({error.filename})" if error.filename else ""
    advice = ""
    if error.errno == errno.ENOMEM:
        advice = MEMORY_ADVICE
    elif error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN):
        advice = LIMITS_ADVICE
    elif is_full(error):
        advice = DISK_ADVICE
    elif error.errno in _FOLDERS:
        advice = (
            "Let TRITON_CACHE_DIR (the compiler's cache) and TMPDIR (what it writes for a moment, "
            f"now {temporary_place()}) name folders that can be written."
        )
    return MachineError(f"{lead}: {words}{named}.", advice=advice)


def temporary_place() -> str:
    """The folder for temporary files, in words where there is none that can be written."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return "none that can be written"
