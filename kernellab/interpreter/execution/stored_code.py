"""Generated code on disk: the first launch of a process takes it from there.

Triton's front end, reading the IR and lowering it take 30 to 60 ms for a usual kernel; loading its
code takes about 1 ms. A file is named by a digest of all that the code depends on, and of the
files of KernelLab and Triton that make it, so that it is never out of date. Whoever can write to
the folder can run code in this process, as with Triton's own cache.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import hashlib
import importlib.metadata
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.common.cache_folders import cache_folder
from kernellab.common.saved_json import write_whole
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.interpreter import foreign_code
from kernellab.interpreter.analyses.tile_bytes import TileBytes
from kernellab.records import Target
from kernellab.triton_api import front_end_state
from kernellab.triton_api.shipping import content_of

MOST_FILES = 4_000
"""When a folder has more, the older half is removed."""

_MAKERS = [Path(__file__).parents[2] / name for name in ("interpreter", "ir", "triton_api")]
"""The packages whose files decide what code a kernel becomes."""

_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class StoredCode:
    """What a file keeps of a kernel's code.

    Attributes:
        text: the module that it was made of, in MLIR's generic form.
        code: the code object of the outer function, marshalled.
        constants: the objects that the code names.
        arguments, batch, tile_bytes, source: as of `ProgramCode`.
        waits: whether programs wait for each other.
    """

    text: str
    code: bytes
    constants: Mapping[str, Any]
    arguments: tuple[Any, ...]
    batch: int
    tile_bytes: TileBytes
    waits: bool
    source: str

    def function(self, modules: Mapping[str, Any]) -> types.FunctionType:
        """The outer function, with `modules` among its globals."""
        scope = {"__builtins__": builtins, **modules, **self.constants}  # pdb reads builtins there
        return types.FunctionType(marshal.loads(self.code), scope)


def file_of(kernel: Any, call: BoundCall, target: Target) -> Path | None:
    """Return the file for the code of a kernel's TTIR; None if the code depends on something that
    has no digest, or is not to be cached.
    """
    # Whatever cannot be described, or has no home folder, is made anew.
    with contextlib.suppress(Exception):
        if front_end_state.always_compiles() or triton_api.is_given(kernel):
            return None  # a given kernel's source is not what it is made of
        if foreign_code.has_registered_functions():
            return None  # a later process may not register them, and has to say what is missing
        options = triton_api.options_of_launch(kernel, call.options)
        constants = call.specialization.constants
        described = (
            content_of(kernel),
            kernel.fn.__code__.co_filename,
            tuple(call.specialization.signature.items()),
            [(path, _text(value)) for path, value in constants.items()],
            sorted(call.specialization.attributes.items()),
            sorted((name, _text(value)) for name, value in options.items()),
            target,
            front_end_state.environment_of_front_end(),
            _makers(),
        )
        digest = hashlib.sha256(repr(described).encode("utf-8", "surrogatepass")).hexdigest()
        return cache_folder("code") / f"{digest}.code"
    return None


def _text(value: Any) -> str:
    """A value as text that no other value has; raises TypeError for one without."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if value is None or type(value) in (bool, int, float, str):
        return f"{type(value).__name__} {value!r}"
    if front_end_state.is_dtype(value):
        return f"dtype {value}"
    raise TypeError(f"{type(value).__name__} has no text")


@functools.cache
def _makers() -> tuple[Any, ...]:
    """The versions of what makes code, and the sizes and times of the files that do."""
    packages = [importlib.metadata.version(name) for name in ("numpy", "ml_dtypes", "xdsl")]
    return sys.version, packages, tuple(_states())


def _states() -> Iterator[tuple[str, int, int]]:
    own = (file for folder in _MAKERS for file in sorted(folder.rglob("*.py")))
    for file in (*own, *front_end_state.files_of_front_end()):
        state = file.stat()
        yield str(file), state.st_size, state.st_mtime_ns


def kept_number(file: Path | None, name: str, make: Callable[[], int]) -> int:
    """Return a number that depends on what a kernel's code depends on, from beside the file of the
    code if it is there; otherwise make it, and keep it.

    Args:
        file: that of `file_of`; with None, nothing is kept.
        name: what the number is, one word.
    """
    if file is None:
        return make()
    own = file.with_suffix(f".{name}")
    with contextlib.suppress(OSError, ValueError):
        return int(own.read_text())
    number = make()
    with contextlib.suppress(OSError):
        own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(own, str(number).encode())
    return number


def load(file: Path) -> StoredCode | None:
    """Return the code in a file; None if there is none, or it is damaged."""
    # A file that cannot be read, whatever it holds, is made anew.
    with contextlib.suppress(Exception):
        content = file.read_bytes()
        digest, pickled = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(pickled).digest() == digest:
            stored = pickle.loads(pickled)
            return stored if isinstance(stored, StoredCode) else None
    return None


def save(file: Path, stored: StoredCode) -> None:
    """Keep code, unless something of it cannot be pickled or the folder cannot be written."""
    with contextlib.suppress(OSError, TypeError, AttributeError, pickle.PicklingError):
        pickled = pickle.dumps(stored, pickle.HIGHEST_PROTOCOL)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_room(file.parent)
        write_whole(file, hashlib.sha256(pickled).digest() + pickled)


def _make_room(folder: Path) -> None:
    with os.scandir(folder) as entries:
        files = list(entries)
    if len(files) > MOST_FILES:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            with contextlib.suppress(OSError):  # another process removed it
                os.unlink(entry.path)
