"""Compilations from files: one that was saved, or what others left on disk."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any

from kernellab.common.saved_json import why_unreadable
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
    file = Path(path)
    if not file.exists():
        raise ArchiveError(f"There is no file {str(path)!r}.")
    if file.is_dir():
        return read_cache_folder(file)
    text = _text_of(file)
    if "// -----// IR Dump " in text:
        return read_dump(text, file)
    data = _parsed(text, file)
    if isinstance(data, dict) and "format" not in data and "triton_version" in data:
        return read_cache_folder(file.parent, file)
    return from_json(data, str(file))


def _text_of(file: Path) -> str:
    try:
        content = file.read_bytes()
        _refuse_stub(content, file)
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        return content.decode()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ArchiveError(f"{str(file)!r} is cut off or damaged: {error}.") from error
    except OSError as error:
        raise ArchiveError(why_unreadable(file, error)) from error
    except UnicodeDecodeError as error:
        raise ArchiveError(
            f"{str(file)!r} is no saved compilation: it holds neither gzip nor text.",
            advice=_WHAT_LOAD_READS,
        ) from error


_BEGINNINGS = (b"\x1f\x8b", b"PK\x03\x04")
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


def _parsed(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        looks_like_json = text.lstrip()[:1] == "{"
        problem = "is cut off or damaged" if looks_like_json else "is no saved compilation"
        raise ArchiveError(
            f"{str(file)!r} {problem}: {error}."
            if looks_like_json
            else f"{str(file)!r} {problem}.",
            advice=_WHAT_LOAD_READS,
        ) from error
