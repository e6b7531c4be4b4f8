"""Record what `while` loops read, to recognize a search that never ends.

A loop whose condition depends only on loaded values, and not on a counter, continues as long as it
loads the same values. If it reads no new element for some thousand iterations, and for twice as
many as it needs to read all that it has read, it counts as endless. So does a loop that leaves its
tensors, or whose elements are all masked off. Loops that other programs may end are different
(`spin_loops.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy
from xdsl.ir import BlockArgument, OpResult, SSAValue

from kernellab.checker.checked_run import Access
from kernellab.common.distinct import distinct
from kernellab.common.sparse import sparse_zeros
from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.ir import scf
from kernellab.ir.traits import global_effect, touches_memory

_TURNS = 2_000
"""The least number of iterations without a new element; as in `scheduler.STRAY_ROUNDS`."""


@dataclass
class LoopReads:
    """The elements that a loop has read.

    Attributes:
        stale_turns: the number of iterations since it last read a new element.
    """

    stale_turns: int = 0
    _seen: dict[tuple[int, int], numpy.ndarray] = field(default_factory=dict)
    _turns: float = 0

    def note(self, access: Access) -> None:
        """Record the elements of a load."""
        elements = access.buffer.elements
        key = elements.__array_interface__["data"][0], elements.itemsize
        if key not in self._seen:
            self._seen[key] = sparse_zeros(len(elements), numpy.bool_)
        index = access.index
        if access.on is not None:
            index, on = numpy.broadcast_arrays(index, access.on)
            index = index[on]
        seen = self._seen[key]
        fresh = distinct(index[~seen[index]])
        if fresh.size:
            seen[fresh] = True
            lanes = math.prod(access.index.shape[access.index.ndim - access.rank :])
            self._turns += fresh.size / max(1, lanes)
            self.stale_turns = 0

    def is_exhausted(self) -> bool:
        """Count an iteration, and return whether the loop no longer reads anything new."""
        self.stale_turns += 1
        return self.stale_turns > max(_TURNS, 2 * self._turns)


def asks_memory_alone(loop: scf.WhileOp) -> bool:
    """Return whether only loaded values decide, in each iteration, whether a loop continues; the
    values that it carries decide only where it reads.
    """
    ended = yielded(loop.after.block)
    pending, loads_decide = _sources(yielded(loop.before.block)[0], loop)
    order: dict[int, set[int]] = {}
    queue = set(pending)
    while queue:
        number = queue.pop()
        if number not in order:
            sources, loads = _sources(ended[number], loop)
            order[number] = set() if _hands_itself_on(number, loop) else sources
            loads_decide = loads_decide or loads
            queue |= order[number]
    if not loads_decide:
        return False
    while order:  # no value may depend on its own earlier values
        first = [number for number, sources in order.items() if not sources & order.keys()]
        if not first:
            return False
        for number in first:
            del order[number]
    return True


def _sources(value: SSAValue, loop: scf.WhileOp) -> tuple[set[int], bool]:
    """Numbers of the carried values that a value is computed from within a turn, not by
    loads; and whether it is computed from what was loaded.
    """
    passed = yielded(loop.before.block)[1:]
    numbers, seen, loads = set[int](), set[SSAValue](), False
    pending = [value]
    while pending:
        source = pending.pop()
        if source in seen:
            continue
        seen.add(source)
        if isinstance(source, BlockArgument):
            if source.block is loop.before.block:
                numbers.add(source.index)
            elif source.block is loop.after.block:
                pending.append(passed[source.index])
        elif isinstance(source, OpResult) and loop.is_ancestor(source.op):
            if not source.op.regions and global_effect(source.op) == "load":
                loads = True
                continue
            if any(map(touches_memory, source.op.walk())):
                numbers.update(range(len(loop.before.block.args)))  # anything may decide
            pending += [operand for op in source.op.walk() for operand in op.operands]
    return numbers, loads


def _hands_itself_on(number: int, loop: scf.WhileOp) -> bool:
    """Whether no turn changes a carried value."""
    value: SSAValue = yielded(loop.after.block)[number]
    if isinstance(value, BlockArgument) and value.block is loop.after.block:
        value = yielded(loop.before.block)[1:][value.index]
    return value is loop.before.block.args[number]
