"""Compilations that several test files look at, made once."""

from __future__ import annotations

import functools
import linecache
from typing import Any

import kernellab
from kernellab.compiler.compilations import Compilation
from kernellab.errors import SourcePosition
from tests.corpus.loader import compile_entry, entry


@functools.cache
def of_corpus(name: str, target: str) -> Compilation:
    """An entry of the corpus, every pass recorded."""
    return compile_entry(entry(name), target)


def compiled(kernel: Any, *types: str, target: str = "sm_90", **keywords: Any) -> Compilation:
    """One kernel for one target."""
    compilation = kernellab.compile(kernel, *types, target=target, **keywords)
    assert isinstance(compilation, Compilation)
    return compilation


def source_line(position: SourcePosition | None) -> str:
    """The text of the line that a position names."""
    assert position is not None
    return linecache.getline(position.file, position.line).strip()
