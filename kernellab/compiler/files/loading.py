"""Compilations from files: one that was saved, or what others left on disk."""

from __future__ import annotations

import os
from pathlib import Path

from kernellab.common.saved_files import (
    BadFile,
    NotText,
    file_bytes,
    gunzipped,
    json_in,
    saved_path,
    text_in,
)
from kernellab.compiler.files.importers import read_cache_folder, read_dump
from kernellab.compiler.files.restore import from_json
from kernellab.errors import ArchiveError
from kernellab.records import Compilation


def load(path: str | os.PathLike[str]) -> Compilation:
    """Read a compilation from a file, or from what others left on disk.

    Args:
        path: a file that `compilation.save` wrote; a folder of Triton's cache
            (~/.triton/cache/<hash>), or the .json in it; or the text that `MLIR_ENABLE_DUMP=1`
            prints. A record from elsewhere has what is there: a cache folder holds no passes, a
            dump no machine code, neither holds remarks.

    Raises:
        ArchiveError: there is no such file, it is none of these, it is damaged, or of
            another version.
    """
    file = saved_path(path, ArchiveError)
    if os.path.isdir(file):
        return read_cache_folder(file)
    return compilation_in(file_bytes(file, ArchiveError), file)


def compilation_in(content: bytes, file: Path) -> Compilation:
    """The compilation that the bytes of a file hold; raises as `load`."""
    _refuse_stub(content, file)
    try:
        text = text_in(gunzipped(content) if content.startswith(_GZIP) else content)
    except NotText as error:
        raise ArchiveError(
            f"The file {str(file)!r} is not a saved compilation: it is neither gzip nor text.",
            advice=_WHAT_LOAD_READS,
        ) from error
    except BadFile as error:
        raise ArchiveError(f"{str(file)!r} {error}.", advice=_WHAT_LOAD_READS) from error
    if "// -----// IR Dump " in text:
        return read_dump(text, file)
    try:
        data = json_in(text, len(content))
    except BadFile as error:
        problem = str(error) if text.lstrip()[:1] == "{" else "is not a saved compilation"
        raise ArchiveError(f"The file {str(file)!r} {problem}.", advice=_WHAT_LOAD_READS) from error
    if isinstance(data, dict) and "format" not in data and "triton_version" in data:
        return read_cache_folder(file.parent, file)
    return from_json(data, str(file))


_GZIP = b"\x1f\x8b"

_BEGINNINGS = (_GZIP, b"PK\x03\x04")
"""Of a saved compilation (gzip) and of a saved trace (zip)."""

_WHAT_LOAD_READS = (
    "kernellab.load reads what compilation.save, trace.save or tuning.save wrote, a folder of "
    "Triton's cache, or a dump of MLIR_ENABLE_DUMP=1."
)


def _refuse_stub(content: bytes, file: Path) -> None:
    """A file that ends before it says what it is has lost the rest."""
    if not content:
        raise ArchiveError(f"{str(file)!r} is empty.", advice=_WHAT_LOAD_READS)
    if any(len(content) < len(begin) and begin.startswith(content) for begin in _BEGINNINGS):
        count = f"{len(content)} byte{'s' if len(content) > 1 else ''}"
        raise ArchiveError(f"{str(file)!r} is cut off after {count}.", advice=_WHAT_LOAD_READS)
