"""How layouts travel through a module: which values hand theirs on to which,
and which operations settle one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from xdsl.dialects import builtin
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.modules.structure import (
    arguments_toward,
    blocks_of,
    kind,
    name_of,
)
from kernellab.ir.locations import locate
from kernellab.ir.operations import DotLike, has, touches_memory
from kernellab.ir.types import MemDescType
from kernellab.triton_api.layouts import TileType

_LOOPS = ("scf.for", "scf.while")
_ENDS = ("scf.yield", "scf.condition", "ttg.warp_yield", "ttg.warp_return", "cf.br", "cf.cond_br")
_PLUMBING = (*_LOOPS, *_ENDS, "scf.if", "ttg.warp_specialize", "ttg.warp_specialize.partitions")
"""Operations that hand values to blocks and out of them, and look at none."""
_FREE = ("arith.constant", "tt.make_range", "tt.splat", "tt.expand_dims", "tt.broadcast")
"""Operations that make any layout alike, or follow from another."""
_REARRANGING = ("tt.reduce", "tt.scan", "tt.gather", "tt.histogram", "tt.reshape")
"""Operations that bring elements to other places."""


@cache
def tile_type(type: Attribute) -> TileType | None:
    """A type as a question for Triton; None for one without a layout."""
    if isinstance(type, MemDescType):
        whole = MemDescType(
            type.allocation,
            type.element_type,
            type.encoding,
            type.memory_space,
            builtin.IntAttr(0),
            type.allocation,
        )
        return TileType(str(whole), str(type.encoding), type.allocated_shape)
    if isinstance(type, builtin.TensorType) and not isinstance(type.encoding, builtin.NoneAttr):
        return TileType(str(type), str(type.encoding), type.get_shape())
    return None


class Flow:
    """The tiles of a module, and which hands its layout on to which."""

    def __init__(self, module: Operation) -> None:
        self._sources: dict[SSAValue, Sequence[SSAValue]] = {}
        """Backwards, and not through operations that would take any layout."""
        self._heirs: dict[SSAValue, list[SSAValue]] = {}
        for value in _tiles(module):
            sources = _sources(value)
            if not (isinstance(value, OpResult) and kind(value.op) in _FREE):
                self._sources[value] = sources
            for source in sources:
                self._heirs.setdefault(source, []).append(value)

    def makers(self, value: SSAValue) -> list[Operation]:
        """The operations that settle a value's layout, backwards;
        free ones only where nothing else does.
        """
        ends = [end for end in _reached(value, self._sources) if not self._sources.get(end)]
        made = [end.op for end in ends if isinstance(end, OpResult)]
        return [op for op in made if kind(op) not in _FREE] or made

    def users(self, value: SSAValue) -> list[Operation]:
        """The operations that need a value's layout, forwards."""
        return [
            use.operation
            for reached in _reached(value, self._heirs)
            for use in reached.uses
            if kind(use.operation) not in _PLUMBING
            and not set(use.operation.results).intersection(self._heirs.get(reached, ()))
        ]


def _reached(start: SSAValue, onward: Mapping[SSAValue, Iterable[SSAValue]]) -> list[SSAValue]:
    """All values that follow from a value, itself first."""
    reached, waiting = {start: None}, [start]
    while waiting:
        for next_value in onward.get(waiting.pop(), ()):
            if next_value not in reached:
                reached[next_value] = None
                waiting.append(next_value)
    return list(reached)


def _tiles(module: Operation) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from (result for result in op.results if tile_type(result.type))
    for block in blocks_of(module):
        yield from (argument for argument in block.args if tile_type(argument.type))


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """The values whose layout a value has because it is handed on to it."""
    if isinstance(value, BlockArgument):
        return entering(value)
    assert isinstance(value, OpResult)
    op = value.op
    if kind(op) in _PLUMBING:
        return leaving(value)
    if waited := _waited_for(value):
        return waited
    if isinstance(value.type, MemDescType):
        # Other views of the same bytes.
        return [op.operands[0]] if kind(op).startswith("ttg.memdesc_") else ()
    if kind(op) == "tt.expand_dims":  # its operand has a slice of its layout
        return op.operands
    if _settles(op):
        return ()
    return [operand for operand in op.operands if _same_encoding(operand.type, value.type)]


def _settles(op: Operation) -> bool:
    """Whether an operation determines a layout, even where its operands and results have
    the same layout.
    """
    return touches_memory(op) or has(op, DotLike) or kind(op) in _REARRANGING


def _same_encoding(left: Attribute, right: Attribute) -> bool:
    mine, theirs = tile_type(left), tile_type(right)
    return mine is not None and theirs is not None and mine.encoding == theirs.encoding


# Through blocks


def entering(argument: BlockArgument) -> list[SSAValue]:
    """What each way into a block hands to one of its arguments;
    to a loop's also what comes round.
    """
    place = argument.index
    loop = argument.block.parent_op()
    if (
        loop is not None
        and kind(loop) == "scf.while"
        and argument.block.parent is not loop.regions[0]
    ):
        return _ended(loop, 0, place + 1)
    handed = [
        values[place] for _, values in arguments_toward(argument.block) if place < len(values)
    ]
    if loop is None or kind(loop) not in _LOOPS:
        return handed
    return handed + _ended(loop, -1, place - (1 if kind(loop) == "scf.for" else 0))


def leaving(result: OpResult) -> list[SSAValue]:
    """What the regions of an operation hand to one of its results."""
    op = result.op
    if kind(op) == "scf.while":
        return _ended(op, 0, result.index + 1)
    return [
        value for region in range(len(op.regions)) for value in _ended(op, region, result.index)
    ]


def _ended(op: Operation, region: int, place: int) -> list[SSAValue]:
    """What the end of a region hands on at a place, if it does."""
    blocks = op.regions[region].blocks
    end = blocks[-1].last_op if blocks else None
    if end is None or kind(end) not in _ENDS or not 0 <= place < len(end.operands):
        return []
    return [end.operands[place]]


# Names


def value_name(value: SSAValue) -> str:
    """The kernel's own name for a value; of a loop's variable, where it has none,
    that of what goes in or comes round.
    """
    for candidate in (value, *_handed(value)):
        if name := _own_name(candidate):
            return name
    return ""


def _handed(value: SSAValue) -> list[SSAValue]:
    """What a block's argument, or one of an operation's several results,
    was before it was handed on, one and two steps back.
    """
    if isinstance(value, BlockArgument):
        before = entering(value)
    else:
        assert isinstance(value, OpResult)
        before = [*leaving(value), *_waited_for(value)]
        if kind(value.op) == "scf.for":
            before.append(value.op.operands[value.index + 3])
    return [
        *before,
        *(
            operand
            for source in before
            if isinstance(source, OpResult)
            for operand in _waited_for(source)
        ),
    ]


def _waited_for(result: OpResult) -> list[SSAValue]:
    """The operand that a wait hands on, one for one, as this result."""
    op = result.op
    one_for_one = kind(op).endswith("_wait") and len(op.results) == len(op.operands)
    return [op.operands[result.index]] if one_for_one else []


def _own_name(value: SSAValue) -> str:
    """The name that a value's own location says;
    the location of an operation with several results names none of them.
    """
    if isinstance(value, BlockArgument):
        return locate(value.location).name or ""
    assert isinstance(value, OpResult)
    return name_of(value.op) if len(value.op.results) == 1 else ""
