"""The report that tests of the view of graphs read: two blocks of a GPT, forward and backward, for
an H200. Tests read its file: capturing it takes longer than all of them.

python -m tests.viz.graph_report    writes the file anew
"""

import gzip
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import kernellab
from kernellab.graphs.report import GraphReport

FILE = Path(__file__).with_name("two_blocks.klgraph")


class Block(nn.Module):
    """Attention with one head, and two products around a GELU."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.up = nn.Linear(size, 4 * size)
        self.down = nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + functional.softmax(q @ k.transpose(1, 2) / 8, -1) @ v
        down: torch.Tensor = self.down(functional.gelu(self.up(x)))
        return x + down


class Blocks(nn.Module):
    """Blocks, and a mean."""

    def __init__(self, count: int, size: int = 64) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for one in self.blocks:
            x = one(x)
        return x.square().mean()


def main() -> None:
    """Capture, and write with no path of this machine."""
    torch.manual_seed(0)
    report = kernellab.graph(Blocks(2), torch.randn(4, 32, 64), gpu="h200", backward=True)
    capture = report.capture
    lowered = tuple(replace(one, passes=()) for one in capture.lowered)  # no view shows them
    frames = tuple(replace(one, joint=None) for one in capture.frames)
    GraphReport(replace(capture, lowered=lowered, frames=frames)).save(FILE)
    text = gzip.decompress(FILE.read_bytes()).decode().replace(__file__, "model.py")
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
