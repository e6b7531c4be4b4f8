"""Two dimensions: rows, columns, tiles, and indices that are loaded from memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.launch.differences import Within
from kernellab.workshop.exercise import Budget, Case, Draw, Exercise, exact, unrounded

CHAPTER = "Two dimensions"


def _grid(rows: int, columns: int, tile_rows: int, tile_columns: int) -> tuple[int, int]:
    return -(-rows // tile_rows), -(-columns // tile_columns)


def _sizes(draw: Draw) -> Iterator[tuple[int, int, int, int]]:
    """Yield the sizes of a table and of a tile: whole tiles, remainders, one row, other tiles, a
    large table. The grids of the first two are not square.
    """
    yield 64, 192, 32, 64
    yield draw.size(35, 60), draw.size(131, 180), 32, 64
    yield 1, draw.size(2, 13), 16, 16
    yield draw.uneven(40, 70, 16), draw.uneven(40, 70, 32), 16, 32
    yield draw.uneven(20, 60, 2), draw.uneven(10, 40, 8), draw.of((2, 4, 8)), draw.of((8, 64, 128))
    yield (
        draw.uneven(150, 300, 64),
        draw.uneven(200, 400, 32),
        draw.of((64, 128)),
        draw.of((32, 128)),
    )


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


def _outer_add(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": (exact(x_ptr[:, None]) + exact(y_ptr[None, :])).within()}


def _scaled(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {
        "x_ptr": draw.normal(rows, columns), "scale_ptr": draw.normal(rows),
        "z_ptr": torch.zeros(rows, columns),
    }  # fmt: skip


def _scale_rows(x_ptr: torch.Tensor, scale_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": (exact(x_ptr) * exact(scale_ptr[:, None])).within()}


def _turned(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {"x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(columns, rows)}


def _transpose(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(x_ptr.T.contiguous())}


def _transpose_priced(draw: Draw) -> Case:
    return Case(
        (4, 4),
        {**_turned(draw, 256, 256), "rows": 256, "columns": 256},
        ("z_ptr",),
        {"ROWS": 64, "COLUMNS": 64},
    )


def _square(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {"x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(rows, columns)}


def _causal(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    future = torch.ones(x_ptr.shape, dtype=torch.bool).triu(1)
    return {"z_ptr": unrounded(x_ptr.masked_fill(future, -float("inf")))}


def _padded(draw: Draw, rows: int, columns: int) -> dict[str, Any]:
    return {"x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(rows + 2, columns + 2)}


def _pad_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in _sizes(draw):  # of `z`
        rows, columns = max(rows - 2, 1), max(columns - 2, 1)
        yield Case(
            _grid(rows + 2, columns + 2, tile_rows, tile_columns),
            {**_padded(draw, rows, columns), "rows": rows, "columns": columns},
            ("z_ptr",),
            {"ROWS": tile_rows, "COLUMNS": tile_columns},
        )


def _pad(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(torch.nn.functional.pad(x_ptr, (1, 1, 1, 1)))}


def _gather_cases(draw: Draw) -> Iterator[Case]:
    for count, vocabulary, width, block in (
        (8, 16, 64, 64),
        (draw.size(5, 20), draw.size(20, 90), draw.size(33, 63), 64),
        (draw.size(20, 40), draw.size(5, 9), draw.size(65, 120), 128),
        (draw.size(1, 9), draw.size(2, 9), draw.size(1, 16), draw.of((16, 32))),
        (draw.size(150, 300), draw.size(1000, 3000), draw.size(129, 256), draw.of((256, 512))),
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


def _gather(ids_ptr: torch.Tensor, table_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(table_ptr[ids_ptr.long()])}


_STUB = """@triton.jit
def {name}({arguments}, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    ...
"""
_TILES = (
    "Program `(p, q)` computes the tile of `ROWS` by `COLUMNS` elements that starts at row `p * "
    "ROWS` and column `q * COLUMNS`."
)
_TWO = (
    "With row indices `r[:, None]` and column indices `c[None, :]`, you get a 2D tile of offsets."
)

EXERCISES = (
    Exercise(
        "outer_add",
        "Every pair",
        CHAPTER,
        f"`z[i, j] = x[i] + y[j]`, where `z` is contiguous. {_TILES}",
        _STUB.format(name="outer_add", arguments="x_ptr, y_ptr, z_ptr"),
        lambda draw: _table_cases(draw, _outer),
        _outer_add,
        (
            _TWO,
            "Element `(i, j)` of `z` is at `z_ptr + i * columns + j`.",
            "The mask of the store checks both: `(r < rows)[:, None] & (c < columns)[None, :]`.",
        ),
        "`x` and `y` are loaded once for each tile, not once for each element: broadcasting does "
        "not access memory.",
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
        (_TWO, "Load `scale` as a 1D tile, and add a second dimension with `[:, None]`."),
        "Wide tiles have longer runs of neighboring elements in memory than tall tiles.",
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
            "Load the tile in the layout of `x`.",
            "Element `(i, j)` of the tile goes to `z_ptr + j * rows + i`.",
            "If you store `tl.trans(tile)` with a separate tile of pointers, the compiler can "
            "transpose the tile in shared memory, so that loads and stores both run along rows.",
        ),
        "The layout conversion in the middle goes through shared memory; `compile(...).explore()` "
        "shows it as `ttg.convert_layout`.",
        Budget(traffic=1.6),
        _transpose_priced,
    ),
    Exercise(
        "causal_mask",
        "A causal mask",
        CHAPTER,
        f"`z[i, j]` is `x[i, j]` where `j <= i`, and minus infinity elsewhere. {_TILES}",
        _STUB.format(name="causal_mask", arguments="x_ptr, z_ptr"),
        lambda draw: _table_cases(draw, _square),
        _causal,
        (
            "Compare the column indices with the row indices: `c[None, :] <= r[:, None]`.",
            '`tl.where(condition, x, -float("inf"))`.',
        ),
        "Tiles that are completely above the diagonal do not need to load anything.",
        Budget(traffic=1.3),
    ),
    Exercise(
        "pad",
        "A border of zeros",
        CHAPTER,
        "`z` is `x` with a border of zeros, one element wide: it has `rows + 2` rows of `columns + "
        f"2` elements. {_TILES} The grid covers `z`.",
        _STUB.format(name="pad", arguments="x_ptr, z_ptr"),
        _pad_cases,
        _pad,
        (
            "Element `(i, j)` of `z` is element `(i - 1, j - 1)` of `x`, if `x` has that element.",
            "`tl.load(pointers, mask=inside, other=0.0)` gives 0 where the mask is false.",
            "You need two masks: one for elements inside `x`, and one for elements inside `z`.",
        ),
        "The load itself supplies the zeros, without a branch or a second store.",
        Budget(traffic=2.0),
    ),
    Exercise(
        "gather_rows",
        "An embedding",
        CHAPTER,
        "`z[i, :] = table[ids[i], :]`. Rows have `width` elements, which is at most `BLOCK`. "
        "Program `p` computes row `p` of `z`.",
        """@triton.jit
def gather_rows(ids_ptr, table_ptr, z_ptr, width, BLOCK: tl.constexpr):
    ...
""",
        _gather_cases,
        _gather,
        (
            "`tl.load(ids_ptr + tl.program_id(0))` is a single number.",
            "The row starts at `table_ptr + id * width`.",
        ),
        "With int32 ids and a large table, `id * width` overflows. `kernellab.check` reports this "
        "as index-overflow; `id.to(tl.int64)` fixes it.",
        Budget(traffic=2.5),
    ),
)
