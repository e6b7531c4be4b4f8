"""Compilations that several test files look at, made once."""

import dataclasses
import functools
import linecache
import re
from typing import Any

import pytest

import kernellab
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import record_passes
from kernellab.errors import SourcePosition
from kernellab.records import PassRun, StoredText
from tests.corpus.loader import compile_entry, entry


@functools.cache
def of_corpus(name: str, target: str, record: str = "passes") -> Compilation:
    """An entry of the corpus; if not told otherwise, every pass is recorded."""
    return compile_entry(entry(name), target, record)


def compiled(kernel: Any, *args: Any, target: Any = "sm_90", **keywords: Any) -> Compilation:
    """One kernel for one target; its arguments are types or values."""
    compilation = kernellab.compile(kernel, *args, target=target, **keywords)
    assert isinstance(compilation, Compilation)
    return compilation


def source_line(position: SourcePosition | None) -> str:
    assert position is not None
    return linecache.getline(position.file, position.line).strip()


def plant(
    monkeypatch: pytest.MonkeyPatch, user: str, label: str, pattern: str, replacement: str
) -> None:
    """Give a module that records passes other records: from a pass on, one operation is wrong."""

    def with_mistake(*arguments: Any, **keywords: Any) -> tuple[PassRun, ...]:
        passes = record_passes(*arguments, **keywords)
        wrong = [one.label for one in passes].index(label)
        return (*passes[:wrong], *map(made_wrong, passes[wrong:]))

    def made_wrong(one: PassRun) -> PassRun:
        text, count = re.subn(pattern, replacement, one.text.read(), count=1)
        assert count == 1, f"nothing to plant in {one.label}"
        return dataclasses.replace(one, text=StoredText(text))

    monkeypatch.setattr(f"{user}.record_passes", with_mistake)
