"""What operations of a kernel cost in shared memory each time they run:
from the addresses in its PTX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, OpResult, Region

from kernellab.compiler.modules.structure import (
    integer,
    kind,
    lines_of_operations,
    loops_around,
    parents,
)
from kernellab.compiler.passes.snapshots import LoweredText
from kernellab.interpreter.ptx.functions import functions
from kernellab.ir import tt, ttg
from kernellab.profiling.accesses.banks import Wavefronts, together
from kernellab.profiling.accesses.occurrences import occurrences
from kernellab.profiling.accesses.shared_instructions import SharedInstruction, shared_instructions
from kernellab.profiling.accesses.shared_records import SharedKind


@dataclass(frozen=True)
class SharedCost:
    """The instructions of one kind that one operation became.

    Attributes:
        operation: of the TTGIR.
        kind: of the instructions.
        cost: of one execution of these instructions by a whole program.
        block: that the operation runs with.
        per: these instructions run once for each time that a program enters this block: the
            same, or where the compiler unrolled the loop around the operation, the one that
            the loop stands in.
        assumed, occurrence: as in `SharedAccess`.
    """

    operation: Operation
    kind: SharedKind
    cost: Wavefronts
    block: Block
    per: Block
    assumed: str
    occurrence: int


_MAY_SHARE = (
    "ttg.convert_layout", "ttg.local_", "ttg.async_copy", "ttg.warp_specialize", "ttng.",
    "tt.reduce", "tt.scan", "tt.gather", "tt.histogram", "tt.atomic", "tt.dot",
)  # fmt: skip
"""How the names of operations begin that may access shared memory."""
_AROUND = ("tt.func", "tt.return")
"""Where groups of warps, and users of tensor memory, find each other."""


def may_share(module: builtin.ModuleOp) -> bool:
    """Whether a module may access shared memory;
    where it does not, there is no need for its PTX.
    """
    return any(kind(op).startswith(_MAY_SHARE) for op in module.walk())


def shared_costs(module: builtin.ModuleOp, text: LoweredText) -> tuple[SharedCost, ...]:
    """What the operations of a kernel cost, in the order of the module.

    Args:
        module: TTGIR, in which calls may be inlined; what functions that the text still
            calls do is left out.
        text: the same TTGIR, and its PTX.
    """
    numbers = occurrences(module)
    operations = _operations_by_line(numbers, text.ttgir)
    warps = _Warps(integer(module, "ttg.num-warps") or 1)
    found: dict[tuple[Operation, SharedKind], list[SharedInstruction]] = {}
    for function in functions(text.ptx):
        last: Operation | None = None
        for one in shared_instructions(function, lambda line: warps.of(operations.get(line))):
            last = _accessing(operations.get(one.line)) or last
            if last is not None and function.is_entry:
                found.setdefault((last, one.kind), []).append(one)
    order = {op: place for place, op in enumerate(module.walk())}
    return tuple(
        _cost(op, kind, found[op, kind], numbers.get(op, 0))
        for op, kind in sorted(found, key=lambda key: order[key[0]])
    )


def _accessing(at: Operation | None) -> Operation | None:
    """The operation that accesses shared memory, of an instruction that stands at one.

    LLVM moves loads to where their values are used: then it is one that made the values,
    the nearest. None where LLVM has taken the line from what it moved.
    """
    waiting = [] if at is None else [at]
    for op in waiting:
        if kind(op).startswith((*_MAY_SHARE, *_AROUND)):
            return op
        made = (operand.op for operand in op.operands if isinstance(operand, OpResult))
        waiting += [one for one in made if one not in waiting]
    return None


def _cost(
    op: Operation, kind: SharedKind, parts: Sequence[SharedInstruction], occurrence: int
) -> SharedCost:
    """Copies of an operation beside a loop are its first or last rounds;
    where no loop is left, all its rounds.
    """
    around = loops_around(op)
    left = min(max(one.loops for one in parts), len(around))
    inside = op if left == len(around) else around[len(around) - left - 1]
    parts = [one for one in parts if one.loops >= left]
    assumed = next((one.assumed for one in parts if one.assumed), "")
    cost = together([one.cost for one in parts])
    return SharedCost(op, kind, cost, _block_of(op), _block_of(inside), assumed, occurrence)


def _block_of(op: Operation) -> Block:
    """The block that an operation runs with; a function runs with its first."""
    block = op.body.blocks.first if isinstance(op, tt.FuncOp) else op.parent
    assert block is not None
    return block


def _operations_by_line(numbers: Mapping[Operation, int], text: str) -> Mapping[int, Operation]:
    """The operation on each line of a module's text:
    the n-th of a name there is the n-th of the module.
    """
    lines = lines_of_operations(text)
    found = {}
    for op, number in numbers.items():
        of_its_name = lines.get(kind(op), ())
        if number <= len(of_its_name):
            found[of_its_name[number - 1]] = op
    return found


class _Warps:
    """Which warps execute an operation: all of the default group,
    or those of the partition that it stands in.
    """

    def __init__(self, default: int) -> None:
        self._default = default

    def of(self, op: Operation | None) -> range:
        """The numbers of the warps."""
        inside = op
        for parent in parents(op) if op is not None else ():
            if isinstance(parent, ttg.WarpSpecializePartitionsOp):
                specialized = parent.parent_op()
                assert isinstance(specialized, ttg.WarpSpecializeOp)
                regions = list(parent.regions)
                which = next(n for n, region in enumerate(regions) if _is_in(inside, region))
                return self._partitions(specialized)[which]
            inside = parent
        return range(self._default)

    def _partitions(self, op: ttg.WarpSpecializeOp) -> list[range]:
        """Triton numbers the warps of larger partitions first (AllocateWarpGroups)."""
        sizes = [int(size) for size in op.partition_num_warps.get_values()]
        ranges = [range(0)] * len(sizes)
        start = self._default
        for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
            ranges[index] = range(start, start + sizes[index])
            start += sizes[index]
        return ranges


def _is_in(op: Operation | None, region: Region) -> bool:
    """Whether an operation stands directly in a region."""
    return op is not None and op.parent_region() is region
