"""Files and folders for a while, of which nothing stays, however the process ends.

Files that other processes of this machine read have no name: their memory goes when the last
process that has them open does. Folders have one, since compilers want paths; what a process that
was killed left of them is removed when the next one makes its first.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from kernellab.common.system_faults import is_full, translated_system_faults

_PREFIX = "kernellab-tmp-"
_FOLDER = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
"""The names that `tempfile` makes of the prefix: no folder of anybody else's."""
_YOUNG = 10.0
"""Seconds within which a folder without a lock may be one that is just being made."""


def nameless_file(size: int, buffering: int = -1) -> BinaryIO:
    """An empty file without a name for so many bytes: in memory where four times that is free,
    else in the usual place for temporary files. `path_of` names it to other processes.

    Raises:
        MachineError: none can be made.
    """
    remove_leftovers()
    with translated_system_faults("No temporary file can be made"):
        if hasattr(os, "memfd_create") and _free_memory() > 4 * size:
            made = os.memfd_create(_PREFIX + "arguments")
            return open(made, "w+b", buffering)
        return cast(BinaryIO, tempfile.TemporaryFile(buffering=buffering, prefix=_PREFIX))


def path_of(file: BinaryIO) -> str:
    """Where processes of the same user open a nameless file, as long as this one holds it."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _free_memory() -> int:
    """In bytes; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return 0


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder that goes with the context; a later process removes what a killed one left.

    Raises:
        MachineError: no folder for temporary files can be written, or the system refuses what
            is done in it.
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
    """Turn what the system refuses to a folder's files into a MachineError; what it says of other
    files, and of programs that cannot be started, goes on.
    """
    try:
        yield
    except OSError as error:
        if not is_full(error) and not str(error.filename).startswith(folder):
            raise
        with translated_system_faults("Temporary files cannot be written"):
            raise


@functools.cache
def remove_leftovers() -> None:
    """Remove this user's folders whose process has gone, once in a process."""
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
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: somebody works there
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
