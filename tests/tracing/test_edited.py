"""A file that is edited after its import: what ran is what is shown, and somebody says so."""

from __future__ import annotations

import importlib
import io
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab

TEXT = """import triton
import triton.language as tl


@triton.jit
def added(x):
    y = x + 1
    return y


@triton.jit
def kernel(x_ptr):
    x = tl.load(x_ptr)
    z = added(x)
    tl.store(x_ptr, z)
"""


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module whose file says something else since its import."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"edited_{tmp_path.name}".replace("-", "_")
    file = tmp_path / f"{name}.py"
    file.write_text(TEXT)
    module = importlib.import_module(name)
    file.write_text(TEXT.replace("x + 1", "x * 100"))
    linecache.checkcache(str(file))
    yield module
    del sys.modules[name]


def test_a_trace_has_the_lines_that_ran(edited: ModuleType, messages: SnapshotAssertion) -> None:
    trace = kernellab.trace(edited.kernel, (1,), torch.zeros(1, dtype=torch.int32))
    lines = [line for source in trace.sources for line in source.lines]
    assert "    y = x + 1" in lines
    assert not any("100" in line for line in lines)
    (notice,) = trace.notices_now()
    assert notice == messages


def test_a_trace_says_that_a_file_was_edited_later(
    edited: ModuleType, messages: SnapshotAssertion
) -> None:
    Path(edited.__file__ or "").write_text(TEXT)
    trace = kernellab.trace(edited.kernel, (1,), torch.zeros(1, dtype=torch.int32))
    assert trace.notices_now() == ()
    Path(edited.__file__ or "").write_text(TEXT.replace("x + 1", "x * 1000"))
    (notice,) = trace.notices_now()
    assert notice == messages


def test_the_debugger_shows_the_lines_that_run(
    edited: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\ns\nn\nl\np y\nc\n"))
    kernellab.debug(edited.kernel, (1,), torch.zeros(1, dtype=torch.int32))
    printed = capsys.readouterr().out
    assert "added has changed in" in printed
    assert "y = x + 1" in printed
    assert "x * 100" not in printed
    # Afterwards Python reads the file again: an import must.
    assert "x * 100" in "".join(linecache.getlines(edited.__file__ or ""))
