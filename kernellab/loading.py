"""`kernellab.load`: whatever was saved, a compilation or a trace."""

from __future__ import annotations

import os
import zipfile
from typing import Any


def load(path: str | os.PathLike[str]) -> Any:
    """Read a compilation or a trace from a file, or a compilation from what others left on disk.

    Args:
        path: a file that `compilation.save` or `trace.save` wrote; a folder of Triton's cache (~/.triton/cache/<hash>), or the
            .json in it; or the text that `MLIR_ENABLE_DUMP=1` prints. A record from elsewhere has what is there: a cache folder
            holds no passes, a dump no machine code, neither holds remarks.

    Returns:
        A `Compilation` or a `Trace`.

    Raises:
        ArchiveError: there is no such file, it is none of these, it is damaged, or of another version.
    """
    if _begins_as_zip(path):
        from kernellab.tracing.files import load_trace

        return load_trace(path)
    from kernellab.compiler.archive import load as load_compilation

    return load_compilation(path)


def _begins_as_zip(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a zip file does, complete or not."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == zipfile.stringFileHeader  # type: ignore[attr-defined, no-any-return]
    except OSError:
        return False
