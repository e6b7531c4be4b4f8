"""Kernels of thousands of lines take as long as they are long, not its square."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.interpreter.codegen import indices

HEAD = """\
import triton
import triton.language as tl

@triton.jit
def long(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.zeros([BLOCK], tl.float32)
"""


def looks(blocks: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Counter[str]:
    """How often a launch of a kernel of so many loads looks at uses and at values behind them."""
    lines = "".join(
        f"    i = i + 1\n    x{k} = tl.load(x_ptr + i % n)\n    y += x{k}\n" for k in range(blocks)
    )
    file = folder / f"long_{blocks}.py"
    file.write_text(HEAD + lines + "    tl.store(y_ptr + tl.arange(0, BLOCK), y)\n")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    counts: Counter[str] = Counter()
    for name in ("_assigns_the_same", "_sources"):
        original = getattr(indices, name)

        def counting(*args: Any, name: str = name, original: Any = original) -> Any:
            counts[name] += 1
            return original(*args)

        monkeypatch.setattr(indices, name, counting)
    x, y = torch.arange(8.0), torch.zeros(4)
    kernellab.run(module.long, (1,), x, y, 8, BLOCK=4)
    places = (torch.arange(1, blocks + 1)[:, None] + torch.arange(4)) % 8
    assert y.tolist() == x[places].sum(0).tolist()
    monkeypatch.undo()
    return counts


def test_what_indices_are_made_of_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few, many = (looks(blocks, monkeypatch, tmp_path) for blocks in (20, 80))
    assert all(few[name] for name in ("_assigns_the_same", "_sources"))
    assert all(many[name] < 6 * few[name] for name in few), (few, many)
