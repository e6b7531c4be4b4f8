"""Two dimensions: rows, columns, tiles, indices that come from memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.workshop.exercise import Budget, Case, Draw, Exercise

CHAPTER = "Two dimensions"


def _grid(rows: int, columns: int, tile_rows: int, tile_columns: int) -> tuple[int, int]:
    return -(-rows // tile_rows), -(-columns // tile_columns)


def _sizes(draw: Draw) -> Iterator[tuple[int, int, int, int]]:
    """Rows, columns and a tile's: whole tiles, remainders, one row, other tiles."""
    yield 64, 128, 32, 64
    yield draw.size(33, 60), draw.size(65, 120), 32, 64
    yield 1, draw.size(2, 30), 16, 16
    yield draw.size(40, 70), draw.size(40, 70), 16, 32


def _table_cases(draw: Draw, make: Any) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in _sizes(draw):
        arguments = make(draw, rows, columns)
        yield Case(
            _grid(rows, columns, tile_rows, tile_columns),
            {**arguments, "rows": rows, "columns": columns},
            ("z_ptr",),
            {"ROWS": tile_rows, "COLUMNS": tile_columns},
        )


def _outer(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {
        "x_ptr": draw.normal(rows), "y_ptr": draw.normal(columns),
        "z_ptr": torch.zeros(rows, columns),
    }  # fmt: skip


def _outer_add(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr[:, None] + y_ptr[None, :]}


def _scaled(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {
        "x_ptr": draw.normal(rows, columns), "scale_ptr": draw.normal(rows),
        "z_ptr": torch.zeros(rows, columns),
    }  # fmt: skip


def _scale_rows(x_ptr: torch.Tensor, scale_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr * scale_ptr[:, None]}


def _turned(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {"x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(columns, rows)}


def _transpose(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.T.contiguous()}


def _transpose_priced(draw: Draw) -> Case:
    return Case(
        (4, 4),
        {**_turned(draw, 256, 256), "rows": 256, "columns": 256},
        ("z_ptr",),
        {"ROWS": 64, "COLUMNS": 64},
    )


def _square(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {"x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(rows, columns)}


def _causal(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    future = torch.ones(x_ptr.shape, dtype=torch.bool).triu(1)
    return {"z_ptr": x_ptr.masked_fill(future, -float("inf"))}


def _padded(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {"x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(rows + 2, columns + 2)}


def _pad_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in _sizes(draw):
        yield Case(
            _grid(rows + 2, columns + 2, tile_rows, tile_columns),
            {**_padded(draw, rows, columns), "rows": rows, "columns": columns},
            ("z_ptr",),
            {"ROWS": tile_rows, "COLUMNS": tile_columns},
        )


def _pad(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": torch.nn.functional.pad(x_ptr, (1, 1, 1, 1))}


def _gather_cases(draw: Draw) -> Iterator[Case]:
    for count, vocabulary, width, block in (
        (8, 16, 64, 64),
        (draw.size(5, 20), draw.size(20, 90), draw.size(33, 63), 64),
        (draw.size(20, 40), draw.size(5, 9), draw.size(65, 120), 128),
    ):
        yield Case(
            (count,),
            {
                "ids_ptr": draw.whole(0, vocabulary, count),
                "table_ptr": draw.normal(vocabulary, width),
                "z_ptr": torch.zeros(count, width),
                "width": width,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )


def _gather(ids_ptr: torch.Tensor, table_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": table_ptr[ids_ptr.long()]}


_STUB = """@triton.jit
def {name}({arguments}, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    ...
"""
_TILES = (
    "Program `(p, q)` does the tile of `ROWS` by `COLUMNS` elements from row `p * ROWS` and column "
    "`q * COLUMNS`."
)
_TWO = "Rows are `r[:, None]`, columns `c[None, :]`; together they give two dimensions."

EXERCISES = (
    Exercise(
        "outer_add",
        "Every pair",
        CHAPTER,
        f"`z[i, j] = x[i] + y[j]`; `z` is contiguous, row after row. {_TILES}",
        _STUB.format(name="outer_add", arguments="x_ptr, y_ptr, z_ptr"),
        lambda draw: _table_cases(draw, _outer),
        _outer_add,
        (
            _TWO,
            "Element `(i, j)` of `z` is at `z_ptr + i * columns + j`.",
            "The mask of the store needs both: `(r < rows)[:, None] & (c < columns)[None, :]`.",
        ),
        "`x` and `y` are loaded once a tile, not once an element: broadcasting costs no memory.",
        Budget(traffic=1.3),
    ),
    Exercise(
        "scale_rows",
        "A factor for each row",
        CHAPTER,
        f"`z[i, j] = x[i, j] * scale[i]`. {_TILES}",
        _STUB.format(name="scale_rows", arguments="x_ptr, scale_ptr, z_ptr"),
        lambda draw: _table_cases(draw, _scaled),
        _scale_rows,
        (_TWO, "Load `scale` as a tile of one dimension, and give it a second by `[:, None]`."),
        "Tiles that are wide rather than tall make longer runs of neighbouring elements.",
        Budget(traffic=1.3),
    ),
    Exercise(
        "transpose",
        "Transpose",
        CHAPTER,
        f"`z[j, i] = x[i, j]`: `z` has `columns` rows of `rows` elements. {_TILES}",
        _STUB.format(name="transpose", arguments="x_ptr, z_ptr"),
        lambda draw: _table_cases(draw, _turned),
        _transpose,
        (
            "Load the tile as it lies in `x`.",
            "Element `(i, j)` of the tile goes to `z_ptr + j * rows + i`.",
            "Storing `tl.trans(tile)` with pointers of its own lets the compiler turn the tile "
            "within shared memory, so that loads and stores both run along rows.",
        ),
        "The conversion in the middle goes through shared memory; `compile(...).explore()` shows "
        "it as `ttg.convert_layout`.",
        Budget(traffic=1.6),
        _transpose_priced,
    ),
    Exercise(
        "causal_mask",
        "No look into the future",
        CHAPTER,
        f"`z[i, j]` is `x[i, j]` where `j <= i`, else minus infinity. {_TILES}",
        _STUB.format(name="causal_mask", arguments="x_ptr, z_ptr"),
        lambda draw: _table_cases(draw, _square),
        _causal,
        (
            "Compare the tile of rows with the tile of columns: `c[None, :] <= r[:, None]`.",
            '`tl.where(condition, x, -float("inf"))`.',
        ),
        "Whole tiles above the diagonal need no load at all: their program can leave it out.",
        Budget(traffic=1.3),
    ),
    Exercise(
        "pad",
        "A border of zeros",
        CHAPTER,
        "`z` is `x` with one row or column of zeros on each side: `rows + 2` by `columns + 2`. "
        f"{_TILES} The grid covers `z`.",
        _STUB.format(name="pad", arguments="x_ptr, z_ptr"),
        _pad_cases,
        _pad,
        (
            "Element `(i, j)` of `z` is element `(i - 1, j - 1)` of `x`, where there is one.",
            "`tl.load(pointers, mask=inside, other=0.0)` gives 0 where the mask is off.",
            "Two masks: one for what lies in `x`, one for what lies in `z`.",
        ),
        "The zeros come from the load itself: no branch, no second store.",
        Budget(traffic=2.0),
    ),
    Exercise(
        "gather_rows",
        "An embedding",
        CHAPTER,
        "`z[i, :] = table[ids[i], :]`; rows have `width` elements, at most `BLOCK`. Program `p` "
        "does row `p` of `z`.",
        """@triton.jit
def gather_rows(ids_ptr, table_ptr, z_ptr, width, BLOCK: tl.constexpr):
    ...
""",
        _gather_cases,
        _gather,
        (
            "`tl.load(ids_ptr + tl.program_id(0))` is a single number.",
            "The row begins at `table_ptr + id * width`.",
        ),
        "With ids in int32 and a large table `id * width` leaves int32: `kernellab.check` tells "
        "it as index-overflow; `id.to(tl.int64)` mends it.",
        Budget(traffic=2.5),
    ),
)
