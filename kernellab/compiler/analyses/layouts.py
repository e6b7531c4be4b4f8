"""The layout of every tile of a module, by Triton's own answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from xdsl.dialects import builtin
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.analyses.module import kind, name_of, numbered, position_of
from kernellab.errors import LayoutError
from kernellab.findings import Layouts, TileLayout
from kernellab.ir.locations import locate
from kernellab.ir.types import MemDescType
from kernellab.layouts import Layout
from kernellab.triton_api.layouts import TileType

AskLayouts = Callable[[Sequence[TileType]], Sequence[Layout | LayoutError]]
"""Asks Triton for the layouts of several types; an error for one that it does not say."""


def layouts(module: builtin.ModuleOp, ask: AskLayouts, read_from: str) -> Layouts:
    """The layouts of all tiles of a module that have one.

    Args:
        module: TTGIR.
        ask: asks Triton.
        read_from: the stage or pass that made the module.
    """
    tiles = [(value, op, number) for value, op, number in _values(module) if tile_type(value.type)]
    known = layouts_by_type((value.type for value, _, _ in tiles), ask)
    return Layouts(
        tuple(_tile(value, op, number, known[value.type]) for value, op, number in tiles), read_from
    )


def layouts_by_type(
    types: Iterable[Attribute], ask: AskLayouts
) -> Mapping[Attribute, Layout | LayoutError]:
    """The layout of each type that has one, each asked for once."""
    asked = {type: tile for type in types if (tile := tile_type(type)) is not None}
    return dict(zip(asked, ask(list(asked.values()))))


@cache
def tile_type(type: Attribute) -> TileType | None:
    """A type as a question for Triton; None for one without a layout."""
    if isinstance(type, MemDescType):
        whole = MemDescType(
            type.allocation, type.element_type, type.encoding, type.memory_space, builtin.IntAttr(0), type.allocation
        )  # fmt: skip
        return TileType(str(whole), str(type.encoding), type.allocated_shape)
    if isinstance(type, builtin.TensorType) and not isinstance(type.encoding, builtin.NoneAttr):
        return TileType(str(type), str(type.encoding), type.get_shape())
    return None


def _values(module: builtin.ModuleOp) -> Iterator[tuple[SSAValue, Operation, int]]:
    """Every value, with the operation that makes it or whose region it enters, in the order of the text."""
    for op, number in numbered(module).items():
        for result in op.results:
            yield result, op, number
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    yield argument, op, number


def _tile(value: SSAValue, op: Operation, number: int, layout: Layout | LayoutError) -> TileLayout:
    asked = tile_type(value.type)
    assert asked is not None
    assert isinstance(value.type, builtin.TensorType | MemDescType)
    shape = value.type.shape if isinstance(value.type, MemDescType) else value.type.get_shape()
    return TileLayout(
        name=value_name(value),
        operation=kind(op),
        number=number,
        position=position_of(op),
        shape=shape,
        element=str(value.type.element_type),
        encoding=asked.encoding,
        layout=None if isinstance(layout, LayoutError) else layout,
        why_unknown=layout.problem if isinstance(layout, LayoutError) else "",
    )


# Names


def value_name(value: SSAValue) -> str:
    """The kernel's own name for a value; of a loop's variable, where it has none, that of what goes in or comes round."""
    if isinstance(value, BlockArgument):
        return locate(value.location).name or _first_name(entering(value))
    assert isinstance(value, OpResult)
    if len(value.op.results) == 1:
        return name_of(value.op)
    return _first_name([*leaving(value), *_initial(value), *_waited_for(value)])


def _first_name(values: Sequence[SSAValue]) -> str:
    """The first name that one of some values has in its own right, as the one result of an operation or as what such a one waits for."""
    for value in values:
        if not isinstance(value, OpResult):
            continue
        if len(value.op.results) == 1 and (name := name_of(value.op)):
            return name
        if waited := _waited_for(value):
            return _first_name(waited)
    return ""


def entering(argument: BlockArgument) -> list[SSAValue]:
    """What a loop hands to a variable of its body: its start, and what the body yields. Empty for other blocks' arguments."""
    loop = argument.block.parent_op()
    if loop is None or kind(loop) not in ("scf.for", "scf.while"):
        return []
    counters = 1 if kind(loop) == "scf.for" else 0
    place = argument.index - counters
    if place < 0:
        return []
    found: list[SSAValue] = []
    if argument.block.parent is loop.regions[0]:
        found.append(loop.operands[place + 3 * counters])
    end = loop.regions[-1].blocks[-1].last_op
    if end is not None and kind(end) == "scf.yield" and place < len(end.operands):
        found.append(end.operands[place])
    return found


def leaving(result: OpResult) -> list[SSAValue]:
    """What the regions of an scf operation yield for one of its results; empty for other operations."""
    if kind(result.op) not in ("scf.for", "scf.if", "scf.while"):
        return []
    ends = [region.blocks[-1].last_op for region in result.op.regions if region.blocks]
    return [
        end.operands[result.index]
        for end in ends
        if end is not None and kind(end) == "scf.yield" and result.index < len(end.operands)
    ]


def _initial(result: OpResult) -> list[SSAValue]:
    return [result.op.operands[result.index + 3]] if kind(result.op) == "scf.for" else []


def _waited_for(result: OpResult) -> list[SSAValue]:
    """The operand that a wait hands on, one for one, as this result."""
    return [result.op.operands[result.index]] if kind(result.op).endswith("_wait") else []
