"""The copy engine (TMA): the messages in which it moves a block between global
and shared memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy
from xdsl.ir import Operation

from kernellab.interpreter.memory.observers import DESCRIPTOR_BYTES
from kernellab.ir import ttng
from kernellab.ir.types import MemDescType, NvmmaSharedEncoding, TensorDescType
from kernellab.records.layouts import Numbers

_MOST = 256
"""Elements of a message along each dimension (PTX ISA, boxDim of a tensor map)."""
_ROWS_TOGETHER = 4
"""Rows that one message gathers or scatters (PTX ISA, cp.async.bulk.tensor,
.tile::gather4 and .tile::scatter4)."""

OfBlocks = (
    ttng.AsyncTmaCopyGlobalToLocalOp
    | ttng.AsyncTmaGatherOp
    | ttng.AsyncTmaScatterOp
    | ttng.TmaStore
)
"""Operations that move a block."""


@dataclass(frozen=True)
class Messages:
    """How a block is moved.

    Attributes:
        elements: for each message the numbers of its elements, int64 of shape (messages, elements);
            the last dimension counts fastest.
    """

    elements: Numbers


def messages_of(op: Operation) -> Messages:
    """How an operation moves its block; a descriptor that a kernel writes goes at once."""
    if not isinstance(op, OfBlocks):
        return Messages(numpy.arange(DESCRIPTOR_BYTES)[None])
    block = cast(TensorDescType, op.operands[0].type).block
    shape = block.get_shape()
    if isinstance(op, ttng.AsyncTmaGatherOp | ttng.AsyncTmaScatterOp):
        rows = cast(MemDescType, op.memory.type).shape[-2]
        box = _box((rows, shape[-1]), op)
        shape, box = (rows, shape[-1]), (_ROWS_TOGETHER, box[-1])
    else:
        box = _box(shape, op)
    return Messages(_cut(shape, box))


def _box(shape: tuple[int, ...], op: OfBlocks) -> tuple[int, ...]:
    """The largest part of a block that one message moves: Triton's getTMABlockShape."""
    box = [min(extent, _MOST) for extent in shape]
    encoding = cast(MemDescType, op.memory.type).encoding
    if isinstance(encoding, NvmmaSharedEncoding) and encoding.swizzling_byte_width:
        across = 8 * encoding.swizzling_byte_width // encoding.element_bit_width
        inner = 0 if encoding.transposed else len(shape) - 1
        box[inner] = min(shape[inner], across // 2 if encoding.fp4_padded else across)
    return tuple(box)


def _cut(shape: tuple[int, ...], box: tuple[int, ...]) -> Numbers:
    """The numbers of a block's elements, box by box: shape (boxes, elements of a box)."""
    parts = [size for extent, part in zip(shape, box) for size in (extent // part, part)]
    numbers = numpy.arange(math.prod(shape)).reshape(parts)
    order = [*range(0, len(parts), 2), *range(1, len(parts), 2)]
    return numbers.transpose(order).reshape(-1, math.prod(box))
