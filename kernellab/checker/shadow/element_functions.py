"""Find the operations that compute NaN or infinity inside the functions of `tl.reduce`,
`tl.associative_scan` and `tl.map_elementwise`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.shadow.values import Array
from kernellab.compiler.modules.structure import users_line
from kernellab.errors import SourcePosition
from kernellab.ir import tt
from kernellab.ir.locations import locate
from kernellab.ir.types import shape

_MOST_KEPT = 256
"""So many events of one run of a function are kept."""


def _is_users(op: Operation) -> bool:
    """Return whether an operation is on a line of the user's code."""
    frames = locate(op.location).frames
    return bool(frames) and users_line(frames) == frames[0]


def calls_of_combiner(op: Operation) -> tuple[SourcePosition, ...] | None:
    """Return the position of the combining function of a reduction or a scan, the kernel's own line
    first; None if it is Triton's own, or has more than one operation.
    """
    if not isinstance(op, tt.ReduceOp | tt.ScanOp):
        return None
    combiner, *rest = op.combine.block.ops
    if len(rest) != 1 or not _is_users(combiner):
        return None
    return locate(combiner.location).frames[::-1]


@dataclasses.dataclass(frozen=True, eq=False)
class ElementEvent:
    """An operation of such a function made something of its operands that they were not.

    Attributes:
        computed: the operation; its values have one entry for each element.
        lanes: of the elements, in which it happened.
    """

    kind: str
    computed: Computed
    lanes: Array


class ElementEvents:
    """The events of the functions that run, until the results are there."""

    def __init__(self, fresh: Callable[[Computed, Array], Sequence[tuple[str, Array]]]) -> None:
        """`fresh` says what an operation made itself: (kind, lanes)."""
        self._fresh = fresh
        self._seen: dict[Operation, list[ElementEvent]] = {}

    def follow(self, outer: Operation, computed: Computed) -> None:
        """An operation of the function of `outer` has computed its results."""
        seen = self._seen.setdefault(outer, [])
        if len(seen) >= _MOST_KEPT or not _is_users(computed.operation):
            return
        given = (*computed.operands, *computed.results)
        values = [numpy.ravel(array) for array in numpy.broadcast_arrays(*given)]
        count = len(computed.operands)
        by_element = dataclasses.replace(
            computed, active=None, operands=values[:count], results=values[count:]
        )
        for kind, lanes in self._fresh(by_element, values[-1]):
            seen.append(ElementEvent(kind, by_element, lanes))

    def taken(self, outer: Operation) -> tuple[ElementEvent, ...]:
        """Those of the last run of the function of `outer`."""
        return tuple(self._seen.pop(outer, ()))


def behind(
    events: Sequence[ElementEvent], outer: Computed, kind: str, lane: tuple[int, ...]
) -> tuple[ElementEvent, int] | None:
    """Return the event, and its element, that a result was computed from: the first of the kind in
    the row of the result, or else the first of any kind; None if there is none.

    Args:
        lane: the place of the result, program first.
    """
    column, columns = _column(outer, lane)
    matches = []
    for event in events:
        here = event.lanes & (numpy.arange(len(event.lanes)) % columns == column)
        if len(event.lanes) % columns == 0 and here.any():
            matches.append((event, int(numpy.argmax(here))))
    same = [match for match in matches if match[0].kind == kind]
    return next(iter([*same, *matches]), None)


def _column(outer: Computed, lane: tuple[int, ...]) -> tuple[int, int]:
    """Return the column of a result's elements, and the number of columns, if the rows of all
    active programs are side by side.
    """
    op, result = outer.operation, numpy.asarray(outer.results[0])
    extents, (program, *place) = tuple(shape(op.results[0].type)), lane
    programs = len(result) if result.ndim > len(extents) else 1
    if programs == 1:
        program = 0
    elif outer.active is not None:
        program, programs = int(outer.active[:program].sum()), int(outer.active.sum())
    if isinstance(op, tt.ScanOp):
        axis = op.axis.value.data
        extents, place = extents[:axis] + extents[axis + 1 :], place[:axis] + place[axis + 1 :]
    row = int(numpy.ravel_multi_index(tuple(place), extents)) if extents else 0
    together = int(op.pack.value.data) if isinstance(op, tt.MapElementwiseOp) else 1
    rows = math.prod(extents)
    return (program * rows + row) // together, programs * rows // together
