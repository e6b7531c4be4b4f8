"""What operations of a kernel cost in shared memory each time they run, from the addresses in its
PTX, and in a whole launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, OpResult, SSAValue

from kernellab.compiler.modules.layout_flow import tile_type, value_name
from kernellab.compiler.modules.pointers import underlying_argument
from kernellab.compiler.modules.structure import (
    enclosing,
    integer,
    kind,
    loops_around,
    parents,
    position_of,
)
from kernellab.compiler.passes.snapshots import LoweredText
from kernellab.interpreter.ptx_threads import functions
from kernellab.ir import tt, ttg
from kernellab.ir.types import element_type, is_pointer, shape
from kernellab.profiling.accesses.occurrences import occurrences, operations_by_line, phases_of
from kernellab.profiling.accesses.shared_instructions import (
    SharedInstruction,
    Wavefronts,
    shared_instructions,
    together,
)
from kernellab.profiling.accesses.shared_records import SharedAccess, SharedKind


@dataclass(frozen=True)
class SharedCost:
    """The instructions of one kind that one operation became.

    Attributes:
        operation: of the TTGIR.
        kind: of the instructions.
        cost: of one execution of these instructions by a whole program.
        block: that the operation runs with.
        per: these instructions run once for each time that a program enters this block: the
            same, or where the compiler unrolled the loop around the operation, the block
            around the loop.
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
    operations = operations_by_line(numbers, text.ttgir)
    warps = integer(module, "ttg.num-warps") or 1
    instructions: dict[tuple[Operation, SharedKind], list[SharedInstruction]] = {}
    for function in functions(text.ptx):
        last: Operation | None = None
        for instruction in shared_instructions(
            function, lambda line: _warps_of(operations.get(line), warps)
        ):
            last = _accessing(operations.get(instruction.line)) or last
            if last is not None and function.is_entry:
                instructions.setdefault((last, instruction.kind), []).append(instruction)
    order = {op: place for place, op in enumerate(module.walk())}
    return tuple(
        _cost(op, kind, instructions[op, kind], numbers.get(op, 0))
        for op, kind in sorted(instructions, key=lambda key: order[key[0]])
    )


def _accessing(at: Operation | None) -> Operation | None:
    """The operation that accesses shared memory, of an instruction located there.

    LLVM moves loads to where their values are used: then it is one that made the values,
    the nearest. None where LLVM has taken the line from what it moved.
    """
    waiting = [] if at is None else [at]
    for op in waiting:
        if kind(op).startswith((*_MAY_SHARE, *_AROUND)):
            return op
        made = (operand.op for operand in op.operands if isinstance(operand, OpResult))
        waiting += [value for value in made if value not in waiting]
    return None


def _cost(
    op: Operation, kind: SharedKind, parts: Sequence[SharedInstruction], occurrence: int
) -> SharedCost:
    """Copies of an operation beside a loop are its first or last rounds;
    where no loop is left, all its rounds.
    """
    around = loops_around(op)
    left = min(max(part.loops for part in parts), len(around))
    inside = op if left == len(around) else around[len(around) - left - 1]
    parts = [part for part in parts if part.loops >= left]
    assumed = next((part.assumed for part in parts if part.assumed), "")
    cost = together([part.cost for part in parts])
    return SharedCost(op, kind, cost, _block_of(op), _block_of(inside), assumed, occurrence)


def _block_of(op: Operation) -> Block:
    """The block that an operation runs with; a function runs with its first."""
    block = op.body.blocks.first if isinstance(op, tt.FuncOp) else op.parent
    assert block is not None
    return block


def _warps_of(op: Operation | None, default: int) -> range:
    """The numbers of the warps that execute an operation: all of the default group, or those of
    its partition.
    """
    if op is None:
        return range(default)
    for parent in parents(op):
        if isinstance(parent, ttg.WarpSpecializePartitionsOp):
            specialized = parent.parent_op()
            assert isinstance(specialized, ttg.WarpSpecializeOp)
            inside = [enclosing(op, region) is not None for region in parent.regions]
            return _partitions(specialized, default)[inside.index(True)]
    return range(default)


def _partitions(op: ttg.WarpSpecializeOp, default: int) -> list[range]:
    """Triton numbers the warps of larger partitions first (AllocateWarpGroups)."""
    sizes = [int(size) for size in op.partition_num_warps.get_values()]
    ranges = [range(0)] * len(sizes)
    start = default
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        ranges[index] = range(start, start + sizes[index])
        start += sizes[index]
    return ranges


_ACTIONS = {
    "ttg.convert_layout": "conversion",
    "ttg.local_alloc": "local store",
    "ttg.local_store": "local store",
    "ttg.local_load": "local load",
    "ttg.async_copy_global_to_local": "async copy",
    "tt.reduce": "reduction",
    "tt.scan": "scan",
    "tt.gather": "gather",
    "tt.histogram": "histogram",
    "tt.dot": "product",
    "ttng.warp_group_dot": "product",
    "ttng.tensormap_create": "tensor map",
    "ttg.warp_specialize": "start of warp groups",
    "tt.func": "start of the kernel",
    "tt.return": "end of the kernel",
}
_TILE_AND_BUFFER = ("ttg.local_store", "ttg.async_copy_global_to_local")
"""Operations whose second operand is the buffer that the first, or what it points to, goes to."""


def shared_accesses(
    costs: Iterable[SharedCost], entries: Mapping[Block, int], programs: int
) -> tuple[SharedAccess, ...]:
    """What operations cost in a run.

    Args:
        costs: of one execution each.
        entries: how often programs entered each block but the kernel's first, which
            each enters once.
        programs: of the launch.
    """

    def entered(block: Block) -> int:
        """How often programs did."""
        function = block.parent_op()
        is_first = isinstance(function, tt.FuncOp) and function.body.blocks.first is block
        return programs if is_first else entries.get(block, 0)

    costs = tuple(costs)
    phases = phases_of(dict.fromkeys(cost.operation for cost in costs))
    return tuple(
        replace(
            _access(cost, entered(cost.block), entered(cost.per)),
            phase=phases.get(cost.operation, ""),
        )
        for cost in costs
    )


def _access(cost_of_op: SharedCost, executions: int, times: int) -> SharedAccess:
    op, cost = cost_of_op.operation, cost_of_op.cost
    taken, given = _sides(op)
    tile = next(
        (value for value in (taken, given) if value and not is_pointer(element_type(value.type))),
        None,
    )
    return SharedAccess(
        operation=kind(op),
        action=_ACTIONS.get(kind(op), kind(op).split(".")[-1].replace("_", " ")),
        kind=cost_of_op.kind,
        name=_name(op),
        position=position_of(op),
        shape=shape(tile.type) if tile is not None else (),
        element=str(element_type(tile.type)) if tile is not None else "",
        source=_encoding(taken),
        destination=_encoding(given),
        in_loop=bool(loops_around(op)),
        executions=executions,
        instructions=cost.instructions * times,
        wavefronts=cost.wavefronts * times,
        best_wavefronts=cost.best * times,
        ways=cost.ways,
        bytes=cost.bytes * times,
        assumed=cost_of_op.assumed,
        occurrence=cost_of_op.occurrence,
    )


def _name(op: Operation) -> str:
    """The kernel's name of what an operation gives;
    an asynchronous copy gives none, and is named after the parameter that it reads.
    """
    if isinstance(op, ttg.AsyncCopyGlobalToLocalOp):
        return underlying_argument(op.pointer)
    return value_name(op.results[0]) if op.results else ""


def _sides(op: Operation) -> tuple[SSAValue | None, SSAValue | None]:
    """The tile that an operation takes, and what becomes of it."""
    given = op.operands[1] if kind(op) in _TILE_AND_BUFFER else next(iter(op.results), None)
    return next(iter(op.operands), None), given


def _encoding(tile: SSAValue | None) -> str:
    known = tile_type(tile.type) if tile is not None else None
    return known.encoding if known is not None else ""
