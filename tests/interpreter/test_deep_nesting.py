"""Kernels whose statements nest more deeply than can be read: an error in words."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import CompileError, UnsupportedOperation

REFUSED = (UnsupportedOperation, CompileError)
"""By the reader that meets it first: of the kernel's names, Triton's, or that of MLIR."""

HEAD = """
import triton, triton.language as tl

@triton.jit
def choose(x_ptr, n):
    value = 0.0
    if n == 0:
        value = 1.0
"""


@pytest.fixture(autouse=True)
def python_s_own_limit() -> Iterator[None]:
    """Libraries raise it for good: torch's compiler to 2,000."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def chain(folder: Path, length: int) -> Any:
    """A kernel with so many elifs."""
    arms = [f"    elif n == {one + 1}:\n        value = {one}.0\n" for one in range(length)]
    file = folder / f"chain_{length}.py"
    file.write_text(HEAD + "".join(arms) + "    tl.store(x_ptr, value)\n")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.choose


@pytest.mark.parametrize("length", [150, 250, 700])
def test_too_long_a_chain_of_elif_is_told_on_its_line(tmp_path: Path, length: int) -> None:
    kernel, x = chain(tmp_path, length), torch.zeros(1)
    for function in (kernellab.run, kernellab.check, kernellab.trace):
        with pytest.raises(REFUSED, match=r"nests its statements too deeply|recursion") as told:
            function(kernel, (1,), x, 3)
        assert told.value.position is not None
        assert told.value.position.line in (4, 5, 7)


def test_a_chain_of_thirty_runs(tmp_path: Path) -> None:
    x = torch.zeros(1)
    kernellab.run(chain(tmp_path, 30), (1,), x, 30)
    assert x.item() == 29.0
