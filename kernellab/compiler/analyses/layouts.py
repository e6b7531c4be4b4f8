"""The layout of every tile of a module, by Triton's own answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, SSAValue

from kernellab.compiler.modules.analyst import answers
from kernellab.compiler.modules.layout_flow import tile_type, value_name
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.compiler.modules.structure import kind, numbered, position_of
from kernellab.errors import ArgumentError, LayoutError, nearest, suggestion
from kernellab.ir.types import MemDescType
from kernellab.records import Compilation, PassRun
from kernellab.records.compilations import LAYOUTS
from kernellab.records.layouts import Layout
from kernellab.records.tile_layouts import Layouts, TileLayout
from kernellab.triton_api.layouts import TileType

QueryLayouts = Callable[[Sequence[TileType]], Sequence[Layout | LayoutError]]
"""Returns Triton's layouts of several types, with an error for each type without a layout."""


def layouts(module: builtin.ModuleOp, query: QueryLayouts, read_from: str) -> Layouts:
    """The layouts of all tiles of a module that have one.

    Args:
        module: TTGIR.
        query: queries Triton.
        read_from: the stage or pass that made the module.
    """
    tiles = [(value, op, number) for value, op, number in _values(module) if tile_type(value.type)]
    known = layouts_by_type((value.type for value, _, _ in tiles), query)
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
    types: Iterable[Attribute], query: QueryLayouts
) -> Mapping[Attribute, Layout | LayoutError]:
    """The layout of each type that has one; each type is queried once."""
    tiles = {type: tile for type in types if (tile := tile_type(type)) is not None}
    return dict(zip(tiles, query(list(tiles.values()))))


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
    tile = tile_type(value.type)
    assert tile is not None
    assert isinstance(value.type, builtin.TensorType | MemDescType)
    shape = value.type.shape if isinstance(value.type, MemDescType) else value.type.get_shape()
    return TileLayout(
        name=value_name(value),
        operation=kind(op),
        number=number,
        position=position_of(op),
        shape=shape,
        element=str(value.type.element_type),
        encoding=tile.encoding,
        layout=None if isinstance(layout, LayoutError) else layout,
        why_unknown=layout.problem if isinstance(layout, LayoutError) else "",
    )


@answers(LAYOUTS)
def layouts_of_tiles(opened: OpenedModules, snapshot: str) -> Layouts:
    """The layouts of the tiles of one module."""
    compilation = opened.compilation
    tiles = layouts(opened.snapshot(snapshot), opened.layouts_of, snapshot)
    if not tiles.tiles and not has_tiles(opened.snapshot(opened.first_stage)):
        raise ArgumentError(
            f"{compilation.kernel!r} has no tiles: it computes with single numbers, which "
            "have no layout."
        )
    if not tiles.tiles:
        raise ArgumentError(
            f"The tiles of {snapshot!r} have no layouts.",
            advice=(
                "Tiles get layouts on the way to TTGIR: use 'ttgir', or a pass after "
                "'ttgir.convert_to_ttgpuir'."
            ),
        )
    types = functools.cache(
        lambda: types_by_name(opened.snapshot("ttir")) if "ttir" in compilation.stages else {}
    )
    return replace(
        tiles,
        explain_absence=lambda name: explain_absence(compilation, snapshot, name, tiles),
        type_in_kernel=lambda name: types().get(name),
    )


# Where a name of the kernel has gone that no tile of a module has any more

_WITHOUT_LAYOUTS = ("source", "ttir")


def explain_absence(compilation: Compilation, snapshot: str, name: str, tiles: Layouts) -> str:
    """Why no tile of a snapshot is called `name`:
    it is not a tile, a pass removed it, or the kernel has no such name.
    """
    if not isinstance(name, str):
        return f"Name a tile as the kernel does: {', '.join(tiles.names)}."
    if compilation.specialization.signature.get(name) == "constexpr":
        return f"{name!r} is a constant of this compilation, and no tile."
    guess = nearest(name, tiles.names)
    runs = _runs_up_to(compilation, snapshot)
    if not runs:
        advice = 'A record with record="passes" can show which pass removed a name.'
        return f"{guess} {advice}".strip()
    holding = [number for number, run in enumerate(runs) if f'"{name}"(' in run.text.read()]
    if not holding:
        return suggestion(name, tiles.names, "The tiles are called")
    last = holding[-1]
    if last == len(runs) - 1:
        return f"{name!r} is not a tile: it is a number, or an operation without a result."
    gone = f"{name!r} was there until {runs[last + 1].label} removed it"
    if runs[last].stage in _WITHOUT_LAYOUTS:
        return f"{gone}, before tiles have layouts."
    return f"{gone}: look at .layouts({runs[last].label!r})."


def _runs_up_to(compilation: Compilation, snapshot: str) -> list[PassRun]:
    """The passes that led to a snapshot: a stage's, or one pass's module."""
    runs = [run for run in compilation.passes if run.op_counts_after]
    ends = [number for number, run in enumerate(runs) if snapshot in (run.label, run.stage)]
    return runs[: ends[-1] + 1] if ends else []
