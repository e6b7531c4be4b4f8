"""PTX on its way through ptxas: as that reads it, in a folder that goes, and whole on its return.

Before release 13, which Triton uses up to sm_90, it takes ASCII only, even in comments; into these
go the names of the kernel's files and what inline assembly says.
"""

from __future__ import annotations

import re
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from kernellab.common.system_faults import DISK_ADVICE
from kernellab.common.temporary import temporary_folder
from kernellab.errors import MachineError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def with_ascii_comments(ptx: str) -> str:
    """The text with escapes for what is not ASCII in its comments; all else stays as it is."""
    if ptx.isascii():
        return ptx
    return _COMMENT.sub(lambda one: one[0].encode("ascii", "backslashreplace").decode(), ptx)


@contextmanager
def careful_assembler(backend: Any) -> Iterator[None]:
    """While active, the backend hands its PTX to ptxas with comments in ASCII; what is written
    meanwhile goes afterwards, however that ends; and half a cubin, which a full disk leaves without
    a word, is a MachineError.

    The stage "ptx" itself, and keys of Triton's cache, stay what they are.
    """
    kind = type(backend)
    if not hasattr(kind, "make_cubin"):
        yield
        return
    with _lock:
        original = _inside.setdefault(kind, (0, kind.make_cubin))[1]
        _inside[kind] = _inside[kind][0] + 1, original

        def make_cubin(self: Any, source: str, *more: Any, **keywords: Any) -> Any:
            return _assembled(original, self, with_ascii_comments(source), *more, **keywords)

        kind.make_cubin = make_cubin
    try:
        yield
    finally:
        with _lock:
            _inside[kind] = _inside[kind][0] - 1, original
            if not _inside[kind][0]:
                del _inside[kind]
                kind.make_cubin = original


def _assembled(make_cubin: Any, *arguments: Any, **keywords: Any) -> bytes:
    """What a backend's method makes of PTX, whole."""
    with temporary_folder() as folder:
        try:
            cubin: bytes = _with_files_in(folder, make_cubin)(*arguments, **keywords)
        except FileNotFoundError as error:
            if not str(error.filename).startswith(folder):
                raise
            cubin = b""
    if not cubin:
        raise MachineError(
            "The compiler cannot run: the program that is run as ptxas wrote nothing.",
            advice="Is TRITON_PTXAS_PATH set to a program that is no ptxas? Without it, Triton's "
            f"own is used. {DISK_ADVICE}",
        )
    if not _is_whole(cubin):
        raise MachineError(
            "The compiler cannot run: ptxas wrote a part of its output only.", advice=DISK_ADVICE
        )
    return cubin


def _with_files_in(folder: str, function: Any) -> Any:
    """A backend's function whose temporary files are made in a folder: Triton leaves them where
    its assembler fails.
    """
    if not isinstance(function, FunctionType) or function.__globals__.get("tempfile") != tempfile:
        return function  # of a version, or a tool, that nobody has seen yet
    names = {**function.__globals__, "tempfile": _TemporaryFiles(folder)}
    code, defaults, cells = function.__code__, function.__defaults__, function.__closure__
    copied = FunctionType(code, names, function.__name__, defaults, cells)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


class _TemporaryFiles:
    """The module `tempfile`, for files in one folder."""

    def __init__(self, folder: str) -> None:
        self.NamedTemporaryFile = partial(tempfile.NamedTemporaryFile, dir=folder)

    def __getattr__(self, name: str) -> Any:
        return getattr(tempfile, name)


_HEADER = struct.Struct("<16s16x2Q6x4H")
"""Of an ELF file of 64 bits: its first bytes; where its two tables begin; how long their rows are,
and how many."""


def _is_whole(binary: bytes) -> bool:
    """Whether the tables that a cubin ends with are there."""
    if len(binary) < 64:
        return False
    magic: bytes
    magic, programs, sections, *rows = _HEADER.unpack_from(binary)
    end: int = max(programs + rows[0] * rows[1], sections + rows[2] * rows[3])
    return magic.startswith(b"\x7fELF") and end <= len(binary)


_lock = threading.Lock()
_inside: dict[type, tuple[int, Any]] = {}
"""A backend's class -> how many are inside, and its own method."""
