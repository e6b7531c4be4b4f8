"""The backend for torch.compile that notebook 12 writes."""

import linecache
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
import torch

import kernellab
from tests.support.source_files import ROOT

FILE = str(ROOT / "notebooks/own_backend.py")
IMPORTS = """\
import linecache, operator
import kernellab, torch, triton
import triton.language as tl
"""


def example() -> str:
    notebook = nbformat.read(ROOT / "notebooks/12_torch_compile.ipynb", as_version=4)
    (cell,) = (cell.source for cell in notebook.cells if cell.source.startswith("WRITTEN = {"))
    return f"{IMPORTS}{cell}"


@pytest.fixture
def space() -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {"__name__": "own_backend"}
    source = example()
    linecache.cache[FILE] = len(source), None, source.splitlines(keepends=True), FILE
    exec(compile(source, FILE, "exec"), found)  # noqa: S102
    torch._dynamo.reset()
    yield found
    torch._dynamo.reset()


def test_it_has_at_most_60_lines() -> None:
    assert len(example().removeprefix(IMPORTS).splitlines()) <= 60


def test_a_chain_is_one_kernel_that_gives_what_torch_gives(space: dict[str, Any]) -> None:
    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.sigmoid(x * 2 + y) * x - 0.25) / (torch.exp(-y) + 1)

    x, y = torch.randn(3, 700), torch.randn(3, 700)
    result = torch.compile(chain, backend=space["pointwise"])(x, y)
    torch.testing.assert_close(result, chain(x, y))
    (source,) = space["sources"]
    assert "tl.sigmoid(add)" in source
    kernel = space["made"](source)
    compilation: Any = kernellab.compile(
        kernel, x, y, torch.empty_like(x), 2100, BLOCK=1024, target="sm_90"
    )
    assert "MUFU" in compilation.stages["sass"].text


def test_what_it_cannot_write_is_left_to_torch(space: dict[str, Any]) -> None:
    def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x + y, -1)

    def broadcast(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    x, y = torch.randn(4, 8), torch.randn(8)
    for function in (other, broadcast):
        torch._dynamo.reset()
        result = torch.compile(function, backend=space["pointwise"])(x, y)
        torch.testing.assert_close(result, function(x, y))
    assert space["sources"] == []
