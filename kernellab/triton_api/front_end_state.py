"""What the IR of Triton's front end depends on in addition to the kernel, for keys of caches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars

_PARTS = "_C", "backends", "compiler", "experimental", "language", "runtime"
"""Folders of Triton's package with files that decide what IR a kernel becomes."""


def environment_of_front_end() -> tuple[tuple[str, str], ...]:
    """The environment variables that Triton's compiler reads, with their values."""
    return tuple(sorted(get_cache_invalidating_env_vars().items()))


def files_of_front_end() -> Iterator[Path]:
    """The files of Triton that decide what IR a kernel becomes."""
    folder = Path(triton.__file__).parent
    for part in _PARTS:
        for file in sorted((folder / part).rglob("*")):
            if file.suffix == ".py" or file.name.startswith("libtriton"):
                yield file


def always_compiles() -> bool:
    """Whether nothing is to be taken from a cache: TRITON_ALWAYS_COMPILE."""
    return bool(knobs.compilation.always_compile)


def is_dtype(value: Any) -> bool:
    """Whether a value is one of Triton's types of elements: tl.float32."""
    return isinstance(value, tl.dtype)
