"""PTX on its way through ptxas: as that reads it, in a folder that goes, and whole on its return.

Before release 13, which Triton uses up to sm_90, it takes ASCII only, even in comments; into these
go the names of the kernel's files and what inline assembly says.
"""

from __future__ import annotations

import re
import struct
import tempfile
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from types import FunctionType
from typing import Any

from kernellab.common.patches import WhileAnyThread, replaced
from kernellab.common.system import DISK_ADVICE, temporary_folder
from kernellab.errors import MachineError
from kernellab.triton_api.machine_faults import OWN_ASSEMBLER

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def with_ascii_comments(ptx: str) -> str:
    """The text with escapes for what is not ASCII in its comments; all else stays as it is."""
    if ptx.isascii():
        return ptx
    return _COMMENT.sub(
        lambda comment: comment[0].encode("ascii", "backslashreplace").decode(), ptx
    )


def careful_assembler(backend: Any) -> AbstractContextManager[None]:
    """While active, the backend hands its PTX to ptxas with comments in ASCII; what is written
    meanwhile goes afterwards, however that ends; and half a cubin, which a full disk leaves without
    a word, is a MachineError.

    The stage "ptx" itself, and keys of Triton's cache, stay what they are.
    """
    kind: Any = type(backend)
    return _careful_in(kind) if hasattr(kind, "make_cubin") else nullcontext()


@cache
def _careful_in(kind: Any) -> WhileAnyThread:
    """A class of backends with a careful assembler in place of the usual one."""

    def begin() -> AbstractContextManager[None]:
        original = kind.make_cubin

        def make_cubin(self: Any, source: str, *more: Any, **keywords: Any) -> Any:
            return _assembled(original, self, with_ascii_comments(source), *more, **keywords)

        return replaced(kind, make_cubin=make_cubin)

    return WhileAnyThread(begin)


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
            "The compiler cannot run: the ptxas program wrote nothing.",
            advice=f"{OWN_ASSEMBLER} {DISK_ADVICE}",
        )
    if not is_whole(cubin):
        raise MachineError(
            "The compiler cannot run: ptxas wrote a part of its output only.", advice=DISK_ADVICE
        )
    return cubin


def _with_files_in(folder: str, function: Any) -> Any:
    """A backend's function whose temporary files are made in a folder: Triton leaves them where
    its assembler fails.
    """
    if not isinstance(function, FunctionType) or function.__globals__.get("tempfile") != tempfile:
        return function  # of a version, or a tool, that no one has seen yet
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


def is_whole(binary: bytes) -> bool:
    """Whether a cubin or an hsaco is as long as the tables say that it ends with."""
    if len(binary) < 64:
        return False
    magic: bytes
    magic, programs, sections, *rows = _HEADER.unpack_from(binary)
    end: int = max(programs + rows[0] * rows[1], sections + rows[2] * rows[3])
    return magic.startswith(b"\x7fELF") and end <= len(binary)
