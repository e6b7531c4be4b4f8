"""How large a kernel's tiles are, which bounds the shared memory that it may need."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from kernellab.ir.traits import DotLike, GlobalRead, has
from kernellab.ir.types import dtype


@dataclass(frozen=True)
class TileBytes:
    """Sizes of tiles in bytes.

    Attributes:
        largest: of the largest tile.
        loaded: of all tiles that are loaded from global memory, together.
        operands: of all operands and results of matmuls, together.
        stages: the most pipeline stages that a loop asks for; 0 if none does.
    """

    largest: int
    loaded: int
    operands: int
    stages: int

    def most_shared(self, stages: int) -> int:
        """Return more bytes of shared memory than the compiler should ever need: buffers of each
        loaded tile for all stages, the operands of matmuls, and scratch for exchanging a tile.

        Without a matmul, Triton pipelines only loops that ask for it (AssignLatencies.cpp).

        Args:
            stages: the launch's num_stages.
        """
        pipelined = self.loaded if self.operands or self.stages else 0
        return (max(stages, self.stages) + 1) * pipelined + 2 * self.operands + 4 * self.largest


def tile_bytes(module: ModuleOp) -> TileBytes:
    """The sizes of the tiles of a module in TTIR."""
    largest = loaded = operands = stages = 0
    for op in module.walk():
        stages = max(stages, _stages_of(op))
        sizes = [_bytes(value) for value in (*op.operands, *op.results)]
        largest = max(largest, *sizes, 0)
        if has(op, GlobalRead):
            loaded += sum(_bytes(value) for value in op.results)
        elif has(op, DotLike):
            operands += sum(sizes)
    return TileBytes(largest, loaded, operands, stages)


def _stages_of(op: Operation) -> int:
    stages = op.attributes.get("tt.num_stages")
    return stages.value.data if isinstance(stages, IntegerAttr) else 0


def _bytes(value: SSAValue) -> int:
    shape = getattr(value.type, "get_shape", None)
    if shape is None:
        return 0
    return int(math.prod(shape())) * dtype(value.type).itemsize
