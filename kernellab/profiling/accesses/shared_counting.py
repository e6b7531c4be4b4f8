"""What the accesses of a run to shared memory cost:
what operations cost each time, times how often they ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue

from kernellab.compiler.modules.layout_flow import tile_type, value_name
from kernellab.compiler.modules.pointers import underlying_argument
from kernellab.compiler.modules.structure import kind, loops_around, position_of
from kernellab.ir import tt, ttg
from kernellab.ir.types import element_type, is_pointer, shape
from kernellab.profiling.accesses.phases import phases_of
from kernellab.profiling.accesses.shared_costs import SharedCost
from kernellab.profiling.accesses.shared_records import SharedAccess

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
    phases = phases_of(dict.fromkeys(one.operation for one in costs))
    return tuple(
        replace(
            _access(one, entered(one.block), entered(one.per)), phase=phases.get(one.operation, "")
        )
        for one in costs
    )


def _access(one: SharedCost, executions: int, times: int) -> SharedAccess:
    op, cost = one.operation, one.cost
    taken, given = _sides(op)
    tile = next(
        (one for one in (taken, given) if one and not is_pointer(element_type(one.type))), None
    )
    return SharedAccess(
        operation=kind(op),
        action=_ACTIONS.get(kind(op), kind(op).split(".")[-1].replace("_", " ")),
        kind=one.kind,
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
        assumed=one.assumed,
        occurrence=one.occurrence,
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
