"""Which lanes of which instructions of a warp access which elements of a tile in global memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, SSAValue

from kernellab.compiler.analyses.axis_info import (
    blocked_run,
    power_of_two_up_to,
    vector_widths,
)
from kernellab.compiler.analyses.layouts import QueryLayouts, layouts_by_type
from kernellab.compiler.modules.pointers import element_bytes, pointers_of
from kernellab.compiler.modules.structure import integer
from kernellab.errors import LayoutError
from kernellab.ir import tt, ttg
from kernellab.ir.operations import Atomic, PointerAccess, has
from kernellab.ir.types import element_type
from kernellab.records import Target
from kernellab.records.layouts import (
    Layout,
    Numbers,
    RegisterLayout,
    SharedLayout,
)

NO_ONE = -1
"""In the place of an element, for a lane that does not take part."""

_VECTOR_ATOMICS_FROM = 90
"""The compute capability that adds several floats in one atomic:
PTX has .v2, .v4 and .v8 from sm_90 on."""
_FLOATS_TO_ADD = ("f16", "bf16", "f32")
_WIDEST_BITS = 128


@dataclass(frozen=True)
class WarpAccess:
    """How one operation accesses a tile.

    Attributes:
        first: for each instruction of a warp and each of its lanes the number of the first element
            that it accesses, or NO_ONE: int64 of shape (instructions, lanes). Elements are numbered
            with the last dimension fastest.
        width: elements that follow it in the same access, itself included.
        size: of an element, in bytes.
        held: neighbors along `dimension` that a thread holds, as many as one access could take.
        dimension: the one along which a thread's neighbors lie, or the neighboring lanes'
            elements; None for a single element.
    """

    first: Numbers
    width: int
    size: int
    held: int
    dimension: int | None


class WarpAccesses:
    """The accesses of a module whose addresses are tiles of pointers or single ones,
    by their operations.

    Args:
        module: TTGIR.
        query: queries Triton for layouts.
        target: the GPU; what atomics take at once is said of NVIDIA's.
    """

    def __init__(self, module: builtin.ModuleOp, query: QueryLayouts, target: Target) -> None:
        self._capability = int(target.arch) if target.backend == "cuda" else 0
        self._warps = integer(module, "ttg.num-warps") or 1
        self._lanes = integer(module, "ttg.threads-per-warp") or 32
        types = [
            value.type for op in module.walk() if has(op, PointerAccess) for value in op.operands
        ]
        self._layouts: Mapping[Attribute, Layout | LayoutError] = layouts_by_type(types, query)
        self._widths = vector_widths(module, self._run)

    def __getitem__(self, op: Operation) -> WarpAccess:
        """How an operation accesses its tile.

        Raises:
            LayoutError: Triton does not say who holds the tile.
        """
        pointers = pointers_of(op)
        width = self._width(op)
        first = self._holders(pointers)
        if not isinstance(op, tt.LoadOp):
            first = _once(first, self._layouts.get(pointers.type))
        starts = first[..., ::width].transpose(0, 2, 1).reshape(-1, first.shape[1])
        used = starts[(starts != NO_ONE).any(axis=1)]
        size = element_bytes(pointers)
        layout = self._layouts.get(pointers.type)
        if not isinstance(layout, RegisterLayout) or not layout.shape:
            return WarpAccess(used, width, size, 1, None)
        held = {dim: run for dim, run in enumerate(layout.contiguous) if run > 1}
        dimension = max(held, key=held.__getitem__, default=_along(layout))
        return WarpAccess(
            used, width, size, min(held.get(dimension, 1), _WIDEST_BITS // (8 * size)), dimension
        )

    def _holders(self, pointers: SSAValue) -> Numbers:
        """The element of every register: shape (blocks and warps, lanes, registers).
        All threads hold a scalar.
        """
        layout = self._layouts.get(pointers.type)
        if layout is None:
            return numpy.zeros((self._warps, self._lanes, 1), numpy.int64)
        if isinstance(layout, LayoutError):
            raise layout
        assert isinstance(layout, RegisterLayout), "pointers are held in registers"
        return layout.all_numbers().reshape(-1, layout.lanes, layout.registers_per_thread)

    def _run(self, tile: SSAValue) -> tuple[int, int] | None:
        known = blocked_run(tile)
        layout = self._layouts.get(tile.type)
        if known is not None or not isinstance(layout, RegisterLayout):
            return known
        dimension = layout.order[0]
        return layout.contiguous[dimension], dimension

    def _width(self, op: Operation) -> int:
        """Elements of one thread's access."""
        width = self._widths[op]
        match op:
            case tt.AtomicRMWOp():
                return min(width, self._most_in_one_atomic(op))
            case _ if has(op, Atomic):
                return 1
            case ttg.AsyncCopyGlobalToLocalOp():
                return min(width, self._run_in_shared(op))
            case _:
                return width

    def _most_in_one_atomic(self, op: tt.AtomicRMWOp) -> int:
        """Triton's rule (AtomicRMWOpConversion): several floats are added at once,
        other atomics take one element.
        """
        element = str(element_type(op.value.type))
        if tt.ATOMIC_OPERATIONS[op.operation.value.data] != "fadd":
            return 1
        if self._capability >= _VECTOR_ATOMICS_FROM and element in _FLOATS_TO_ADD:
            return _WIDEST_BITS // (8 * element_bytes(op.pointer))
        return 2 if element == "f16" else 1

    def _run_in_shared(self, op: ttg.AsyncCopyGlobalToLocalOp) -> int:
        """Elements of a thread's registers that follow each other in shared memory too."""
        source, destination = (self._layouts.get(v.type) for v in (op.pointer, op.memory))
        if not isinstance(source, RegisterLayout) or not isinstance(destination, SharedLayout):
            return _WIDEST_BITS
        held = source.all_numbers().reshape(-1, source.registers_per_thread)
        whole = destination.shape[len(destination.shape) - len(source.shape) :]
        assert whole == source.shape, "a copy fills its buffer"
        places = destination.offsets().reshape(-1, source.element_count)[0][held]
        run = 1
        while 2 * run <= places.shape[1]:
            groups = places.reshape(len(places), -1, 2 * run)
            if (groups != groups[..., :1] + numpy.arange(2 * run)).any():
                break
            run *= 2
        return power_of_two_up_to(run)


def _along(layout: RegisterLayout) -> int:
    """The dimension along which neighboring lanes lie."""
    steps = [dim for vector in layout.lane for dim, step in enumerate(vector) if step]
    return steps[0] if steps else layout.order[0]


def _once(holders: Numbers, layout: Layout | LayoutError | None) -> Numbers:
    """The holders, of those that hold the same only the first:
    what changes memory, and any atomic, is done by one thread.
    """
    if layout is None:
        kept = numpy.full_like(holders, NO_ONE)
        kept[0, 0] = holders[0, 0]
        return kept
    assert isinstance(layout, RegisterLayout)
    lanes, warps = _firsts(layout.lane), _firsts((*layout.warp, *layout.block))
    return numpy.where(warps[:, None, None] & lanes[None, :, None], holders, NO_ONE)


def _firsts(vectors: tuple[tuple[int, ...], ...]) -> numpy.ndarray:
    """Of the numbers of an input, which have no bit set that leads nowhere."""
    numbers = numpy.arange(1 << len(vectors))
    free = sum(1 << bit for bit, vector in enumerate(vectors) if not any(vector))
    is_first: numpy.ndarray = numbers & free == 0
    return is_first
