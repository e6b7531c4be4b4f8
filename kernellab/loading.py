"""`kernellab.load`: whatever was saved, a compilation, a trace or a sweep."""

from __future__ import annotations

import os
from typing import Any

_ZIP_BEGINNING = b"PK\x03\x04"
"""The signature of a zip file's first entry."""


def load(path: str | os.PathLike[str]) -> Any:
    """Read a compilation, a trace or sweeps from a file, or a compilation
    from what others left on disk.

    Args:
        path: a file that `compilation.save`, `trace.save` or `tuning.save` wrote; a folder of
            Triton's cache (~/.triton/cache/<hash>), or the .json in it; or the text that
            `MLIR_ENABLE_DUMP=1` prints. A record from elsewhere has what is there: a cache folder
            holds no passes, a dump no machine code, neither holds remarks.

    Returns:
        A `Compilation`, a `Trace`, a `Tuning`, or `Tunings` where a file holds several sweeps.

    Raises:
        ArchiveError: there is no such file, it is none of these, it is damaged, or of
            another version.
    """
    if _begins_as_zip(path):
        from kernellab.tracing.files.reading import load_trace

        return load_trace(path)
    if _begins_as_sweeps(path):
        from kernellab.tuning.results.tunings import Tunings

        found = Tunings.load(path)
        return found[0] if len(found) == 1 else found
    from kernellab.compiler.files.loading import load as load_compilation

    return load_compilation(path)


_BEGINNING = 200
"""Bytes of a file of sweeps, from its first, in which it says what it is."""


def _begins_as_sweeps(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it holds sweeps, complete or not."""
    try:
        with open(path, "rb") as file:
            start = file.read(_BEGINNING)
    except OSError:
        return False
    return start.lstrip().startswith(b"{") and b'"kernellab.tuning"' in start


def _begins_as_zip(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a zip file does, complete or not."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_ZIP_BEGINNING)) == _ZIP_BEGINNING
    except OSError:
        return False
