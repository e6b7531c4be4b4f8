"""Rules for tiles whose shapes do not fit."""

from __future__ import annotations

import ast
import re
from typing import Any

import triton

from kernellab.triton_api.fixes.rules import Fix, Refusal, is_tile, kind_of, rule, shape_of


@rule(r"(lhs|rhs)_scale must be a tensor of shape \[\.\.\., (\d+), (\d+)\]\. Got \[(.*)\]")
def _scales(_: Refusal, match: re.Match[str]) -> Fix:
    """The scales of `tl.dot_scaled`: how many numbers one of them stands for."""
    rows, groups = int(match[2]), int(match[3])
    given = [int(size) for size in re.findall(r"\d+", match[4])][-2:]
    reason = (
        "A scale stands for 32 numbers along K if it is uint8 (e8m0), and for 16 if it is "
        f"float8e4nv. For these operands, {match[1]}_scale needs the shape [{rows}, {groups}]."
    )
    if given == [rows, 2 * groups]:
        reason += " Its shape is right for float8e4nv, and its type is uint8."
    elif given == [groups, rows]:
        reason += " Its rows and columns are swapped."
    elif 2 * given[-1] == groups:
        reason += " Its shape is right for uint8, and its type is float8e4nv."
    return Fix(reason, "", replaces=False)


@rule(r"incompatible dimensions at index (\d+): (\d+) and (\d+)")
def _incompatible(refused: Refusal, match: re.Match[str]) -> Fix:
    shapes = _shapes(refused)
    listed = " and ".join(shapes) if shapes else f"{match[2]} and {match[3]}"
    return Fix(
        f"the tiles do not fit: {listed} (axis {match[1]} has {match[2]} and {match[3]} elements).",
        "Axes fit where they are alike, or one is 1. x[:, None] makes of a tile a column, "
        "x[None, :] a row.",
    )


def _shapes(refused: Refusal) -> list[str]:
    """The tiles that a refused expression names, with their shapes."""
    held = [(name, refused.scope.get(name)) for name in refused.names()]
    return [f"{name} is {kind_of(value)}" for name, value in held if is_tile(value)][:3]


@rule(r"Cannot broadcast, rank mismatch|Cannot broadcast, the expanded size of the tensor")
def _broadcast(refused: Refusal, _: re.Match[str]) -> Fix:
    source, wanted = refused.known("src_shape"), refused.known("shape")
    return Fix(
        f"a tile of {_sizes(source)} does not become one of {_sizes(wanted)}.",
        "Only axes of 1 element grow: add them with x[:, None] (a column) or x[None, :] (a row).",
    )


def _sizes(shape: Any) -> str:
    return " x ".join(str(getattr(size, "value", size)) for size in shape or ()) or "no axes"


@rule(r"permute dims must have the same length as input shape(?:, got (\d+) and (\d+))?")
def _permuted(refused: Refusal, match: re.Match[str]) -> Fix:
    if match[1]:
        axes, named = int(match[1]), int(match[2])
    else:  # Triton 3.6 does not say how many
        axes, named = len(refused.known("input").shape), len(refused.known("dims"))
    name = next(iter(refused.names()), "x")
    return Fix(
        f"it names {named} axes of a tile that has {axes} {'axis' if axes == 1 else 'axes'}.",
        f"Name each once. A tile of one axis has nothing to swap: {name}[:, None] makes a column "
        f"of it, {name}[None, :] a row.",
    )


@rule(r"reshape\(\) cannot change total number of elements")
def _reshape(refused: Refusal, _: re.Match[str]) -> Fix:
    tile = refused.known("input")
    wanted = refused.known("dst_shape") or refused.known("shape")
    return Fix(
        f"{kind_of(tile)} does not fill the shape {_sizes(wanted)}.",
        "The sizes of both shapes have to have the same product.",
    )


@rule(r"invalid axis (-?\d+)\. Expected -?\d+ <= axis < (\d+)")
@rule(r"^invalid axis (-?\d+)()$")
def _axis(_: Refusal, match: re.Match[str]) -> Fix:
    count = int(match[2]) if match[2] else None
    axes = "the axis 0" if count == 1 else f"the axes 0 to {(count or 2) - 1}"
    held = f"the tile has {axes}" if count else "the tile has fewer axes"
    return Fix(f"{held}, and axis is {match[1]}.", f"Write axis={(count or 1) - 1}.")


@rule(r"input and other must have equal reduction dimensions|First input shape \(")
def _dot_shapes(refused: Refusal, _: re.Match[str]) -> Fix:
    a, b = _operands(refused)
    if len(shape_of(a)) < 2 or len(shape_of(b)) < 2:
        return Fix("the tiles of tl.dot do not fit.", _DOT_ADVICE)
    left, right = shape_of(a), shape_of(b)
    advice = _DOT_ADVICE
    if left[-1] == right[-1]:
        advice = f"Turn the second: tl.dot(a, tl.trans(b)) gives {left[-2]} x {right[-2]}."
    return Fix(
        f"tl.dot of {_sizes(left)} and {_sizes(right)}: the first has {left[-1]} columns, the "
        f"second {right[-2]} rows.",
        advice,
    )


_DOT_ADVICE = "tl.dot takes tiles of M x K and K x N: as many columns as the other has rows."


def _operands(refused: Refusal) -> tuple[Any, Any]:
    """What `tl.dot` was given."""
    first = next((refused.known(n) for n in ("lhs", "input") if refused.known(n) is not None), None)
    second = next((refused.known(n) for n in ("rhs", "other") if refused.known(n) is not None), 0)
    return first, second


@rule(r"input and other must have equal ranks >= 2|Both inputs must be either 2D or 3D")
def _dot_ranks(refused: Refusal, _: re.Match[str]) -> Fix:
    a, b = _operands(refused)
    flat = len(shape_of(a)) == len(shape_of(b)) == 1
    return Fix(
        f"tl.dot takes two tiles of two axes each, and was given {kind_of(a)} and {kind_of(b)}.",
        "Write tl.sum(a * b, axis=0) for the product of two rows."
        if flat
        else "Load rows and columns: ptr + rows[:, None] * stride + columns[None, :].",
    )


@rule(r"Input shapes should have M >= (\d+), N >= (\d+) and K >= (\d+)")
def _dot_small(refused: Refusal, match: re.Match[str]) -> Fix:
    a, b = _operands(refused)
    return Fix(
        f"tl.dot takes tiles of at least {match[1]} x {match[3]} and {match[3]} x {match[2]} here, "
        f"and was given {_sizes(shape_of(a))} and {_sizes(shape_of(b))}.",
        "Load larger tiles with a mask and other=0.0, or multiply and add: "
        "tl.sum(a[:, :, None] * b[None, :, :], axis=1).",
    )


@rule(r"unsupported tensor index: (.+)")
def _index(refused: Refusal, _: re.Match[str]) -> Fix:
    written, indexed = "the tile", None
    if isinstance(refused.node, ast.Subscript):
        written = refused.text(refused.node.value, 24) or written
        indexed = refused.scope.get(written)
    if indexed is not None and not is_tile(indexed):
        return Fix(
            f"{written} is {kind_of(indexed)}, and [] does not load.",
            f"Write tl.load({written} + offset).",
        )
    return element_of_tile(written)


def element_of_tile(written: str) -> Fix:
    """What to write instead of `x[k]` of a tile."""
    return Fix(
        f"elements of {written} cannot be taken by [ ]: a tile lives in registers of many "
        "threads. [:, None] and [None, :] add axes.",
        f"Load the part that is needed by its address, or pick one element by "
        f"tl.sum(tl.where(offsets == k, {written if written.isidentifier() else 'x'}, 0), axis=0).",
    )


@rule(r"Shape element (\d+) must be a power of 2")
def _size_of_axis(refused: Refusal, match: re.Match[str]) -> Fix | None:
    shape = refused.known("shape")
    sizes = [getattr(size, "value", size) for size in shape or ()]
    if len(sizes) <= int(match[1]) or not isinstance(sizes[int(match[1])], int):
        return None
    size = sizes[int(match[1])]
    return Fix(
        f"axis {match[1]} has {size} elements.",
        f"Take {triton.next_power_of_2(size)}, and leave out what lies beyond by a mask.",
    )
