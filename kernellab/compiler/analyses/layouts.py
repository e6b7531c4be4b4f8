"""The layout of every tile of a module, by Triton's own answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, SSAValue

from kernellab.compiler.modules import absence
from kernellab.compiler.modules.analyst import answers
from kernellab.compiler.modules.layout_flow import tile_type, value_name
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.compiler.modules.structure import kind, numbered, position_of
from kernellab.errors import ArgumentError, LayoutError
from kernellab.ir.types import MemDescType
from kernellab.records.layouts import Layout
from kernellab.records.tile_layouts import Layouts, TileLayout
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


def has_tiles(module: builtin.ModuleOp) -> bool:
    """Whether any value of a module is a tile, with a layout or without."""
    return any(
        isinstance(value.type, builtin.TensorType | MemDescType) for value, _, _ in _values(module)
    )


def types_by_name(module: builtin.ModuleOp) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and element type of the last tile that has each of the kernel's names,
    in a module of TTIR.

    What an expression computes on its way has the name too;
    the value that the name gets comes last.
    """
    return {
        value_name(value): (value.type.get_shape(), str(value.type.element_type))
        for value, _, _ in _values(module)
        if isinstance(value.type, builtin.TensorType)
    }


def layouts_by_type(
    types: Iterable[Attribute], ask: AskLayouts
) -> Mapping[Attribute, Layout | LayoutError]:
    """The layout of each type that has one, each asked for once."""
    asked = {type: tile for type in types if (tile := tile_type(type)) is not None}
    return dict(zip(asked, ask(list(asked.values()))))


def _values(module: builtin.ModuleOp) -> Iterator[tuple[SSAValue, Operation, int]]:
    """Every value, with the operation that makes it or whose region it enters,
    in the order of the text.
    """
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


@answers("layouts")
def layouts_of_tiles(opened: OpenedModules, snapshot: str) -> Layouts:
    """The layouts of the tiles of one module."""
    compilation = opened.compilation
    found = layouts(opened.snapshot(snapshot), opened.layouts_of, snapshot)
    if not found.tiles and not has_tiles(opened.snapshot(opened.first_stage)):
        raise ArgumentError(
            f"{compilation.kernel!r} has no tiles: it computes with single numbers, which "
            "have no layout."
        )
    if not found.tiles:
        raise ArgumentError(
            f"The tiles of {snapshot!r} have no layouts.",
            advice=(
                "They get them on the way to TTGIR: ask for 'ttgir', or for a pass after "
                "'ttgir.convert_to_ttgpuir'."
            ),
        )
    types = functools.cache(
        lambda: types_by_name(opened.snapshot("ttir")) if "ttir" in compilation.stages else {}
    )
    return replace(
        found,
        explain_absence=lambda name: absence.explain(compilation, snapshot, name, found),
        type_in_kernel=lambda name: types().get(name),
    )
