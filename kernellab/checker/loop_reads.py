"""What `while` loops read of memory: a search that has read all there is to it finds nothing new.

A loop whose condition asks for what it loads, and for no count of its own, goes on as long as it
finds the same. Where it has not read one new element for twice as many turns as it takes to read
all that it has, and for some thousands, it is taken to be endless; so is one that leaves its
tensors, or whose lanes are all off. Where other programs may end a loop, it is no such one
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
"""So many turns without anything new are nothing to speak of; as in `scheduler.STRAY_ROUNDS`."""


@dataclass
class LoopReads:
    """The elements that a loop has read.

    Attributes:
        stale_turns: so many turns ago it read one that it had not read before.
    """

    stale_turns: int = 0
    _seen: dict[tuple[int, int], numpy.ndarray] = field(default_factory=dict)
    _turns: float = 0

    def note(self, access: Access) -> None:
        """The loop has read elements."""
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
        """Whether the loop turns back, and finds nothing new any more."""
        self.stale_turns += 1
        return self.stale_turns > max(_TURNS, 2 * self._turns)


def asks_memory_alone(loop: scf.WhileOp) -> bool:
    """Whether nothing but what a loop has loaded decides, turn by turn, whether it goes on:
    what it carries itself says only where it looks.
    """
    ended = yielded(loop.after.block)
    pending, asked = _sources(yielded(loop.before.block)[0], loop)
    order: dict[int, set[int]] = {}
    queue = set(pending)
    while queue:
        number = queue.pop()
        if number not in order:
            found, loads = _sources(ended[number], loop)
            order[number] = set() if _hands_itself_on(number, loop) else found
            asked = asked or loads
            queue |= order[number]
    if not asked:
        return False
    while order:  # no value may be made of an earlier one of its own
        first = [number for number, found in order.items() if not found & order.keys()]
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
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if isinstance(one, BlockArgument):
            if one.block is loop.before.block:
                numbers.add(one.index)
            elif one.block is loop.after.block:
                pending.append(passed[one.index])
        elif isinstance(one, OpResult) and loop.is_ancestor(one.op):
            if not one.op.regions and global_effect(one.op) == "load":
                loads = True
                continue
            if any(map(touches_memory, one.op.walk())):
                numbers.update(range(len(loop.before.block.args)))  # anything may decide
            pending += [operand for op in one.op.walk() for operand in op.operands]
    return numbers, loads


def _hands_itself_on(number: int, loop: scf.WhileOp) -> bool:
    """Whether no turn changes a carried value."""
    value: SSAValue = yielded(loop.after.block)[number]
    if isinstance(value, BlockArgument) and value.block is loop.after.block:
        value = yielded(loop.before.block)[1:][value.index]
    return value is loop.before.block.args[number]
