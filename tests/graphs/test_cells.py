"""Functions of a notebook's cells, whose lines stand in no file."""

import linecache
from typing import Any

import pytest
import torch

import kernellab

CELL = """
import torch


def squared(x):
    y = torch.sin(x)
    return y * y
"""


@pytest.mark.slow
def test_lines_of_a_cell_go_along() -> None:
    file, space = "/tmp/ipykernel_7/12.py", {"__name__": "__main__"}
    linecache.cache[file] = len(CELL), None, CELL.splitlines(keepends=True), file
    exec(compile(CELL, file, "exec"), space)  # noqa: S102
    function: Any = space["squared"]
    report = kernellab.graph(function, torch.rand(4), levels=False)
    assert "code: y = torch.sin(x)" in report.graphs[0].fx.text
    assert [str(node.position) for node in report.graphs[0].fx.nodes if node.name == "y"]
    found = kernellab.tracers(function, torch.rand(4)).set_index("tracer")
    assert found.outcome["jit.script"] == "whole"
