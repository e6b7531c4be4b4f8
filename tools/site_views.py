"""Write the views that are alive in the pages of the docs site.

python -m tools.site_views FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import kernellab
from kernellab.cli.demo.kernels import matmul, softmax

ROOT = Path(__file__).resolve().parent.parent
SWEEP = "tuning_h200_matmul.json"
STRIDES = ("i32:16", "i32", "i32:16", "i32", "i32:16", "i32")
BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "PRECISION": "tf32"}


def explorer() -> Any:
    """The passes and stages of a matrix product in fp16."""
    types = ("*fp16:16",) * 3 + ("i32:16",) * 3 + STRIDES
    made = kernellab.compile(matmul, *types, **BLOCKS, num_warps=8, target="sm_90")
    assert isinstance(made, kernellab.Compilation)
    return made.explore()


def stepper() -> Any:
    """A softmax of six short rows, two of them traced."""
    x = torch.sin(torch.arange(6 * 48.0)).reshape(6, 48)
    out = torch.zeros_like(x)
    trace = kernellab.trace(softmax, (6,), x, out, 48, 48, BLOCK=64, programs=[1, 4])
    return trace.show(5)


def layout() -> Any:
    """The result of mma.m16n8k16."""
    shape = {"shape": (16, 8), "warps_per_cta": [1, 1], "instruction_shape": [16, 8]}
    return kernellab.Layout.nvidia_mma(version=2, **shape).show()


def sweep() -> Any:
    """A sweep that was recorded on an H200, with the IR of its fastest config."""
    (file,) = (*ROOT.glob(f"benchmarks/data/{SWEEP}"), *ROOT.glob(f"notebooks/recorded/{SWEEP}"))
    tuning = kernellab.Tuning.load(file, kernel=matmul)
    return tuning.show(compilations=[tuning.ranked[0].number])


VIEWS: tuple[Callable[[], Any], ...] = (explorer, stepper, layout, sweep)


def write_views(folder: Path) -> Iterator[Path]:
    """Write each view's page, named as its function is."""
    for make in VIEWS:
        yield Path(make().to_html(folder / f"{make.__name__}.html"))


if __name__ == "__main__":
    for file in write_views(Path(sys.argv[1])):
        print(file)
