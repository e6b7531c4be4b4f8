"""What Nsight Compute watches: a launch that another process packed, made twice.

`python -m kernellab.profiling.nsight.in_child FILE`: the first launch compiles the kernel and loads
it, the second is the one that is counted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import triton

from kernellab.interpreter.memory.address_space import memory_behind
from kernellab.triton_api.shipping import unpack


def main(file: str) -> None:
    """Launch what the file holds: kernel, grid, arguments by name."""
    kernel, grid, values = unpack(Path(file).read_bytes())
    triton.set_allocator(
        lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda")
    )
    for _ in range(2):
        kernel[grid](**{name: _on_gpu(value) for name, value in values.items()})
    torch.cuda.synchronize()


def _on_gpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, tuple):
        return tuple(map(_on_gpu, value))
    if memory_behind(value) is not None:  # a tensor descriptor
        value.base = value.base.cuda()
    return value


if __name__ == "__main__":
    main(sys.argv[1])
