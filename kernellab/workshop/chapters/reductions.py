"""Many elements to one: sums of rows and columns, running sums, atomics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from kernellab.workshop.exercise import Budget, Case, Draw, Exercise

CHAPTER = "Reductions"


def _rows(draw: Draw, rows: int, columns: int, block: int, **outputs: torch.Tensor) -> Case:
    """One program a row of a contiguous table, most of whose numbers are below zero."""
    return Case(
        (rows,),
        {"x_ptr": draw.normal(rows, columns) - 3, **outputs, "columns": columns},
        tuple(outputs),
        {"BLOCK": block},
    )


def _short_rows(outputs: Callable[[int, int], dict[str, torch.Tensor]]) -> Any:
    """Rows that fit into one block."""

    def cases(draw: Draw) -> Iterator[Case]:
        for rows, columns, block in (
            (4, 128, 128),
            (draw.size(3, 9), draw.size(65, 127), 128),
            (draw.size(1, 5), draw.size(2, 30), 64),
            (draw.size(2, 6), draw.size(513, 1000), 1024),
        ):
            yield _rows(draw, rows, columns, block, **outputs(rows, columns))

    return cases


def _long_rows(outputs: Callable[[int, int], dict[str, torch.Tensor]]) -> Any:
    """Rows longer than a block."""

    def cases(draw: Draw) -> Iterator[Case]:
        for rows, columns, block in (
            (4, 512, 128),
            (draw.size(3, 6), draw.size(513, 900), 128),
            (draw.size(1, 4), draw.size(5, 40), 64),
            (draw.size(2, 4), draw.size(1500, 2500), 256),
        ):
            yield _rows(draw, rows, columns, block, **outputs(rows, columns))

    return cases


def _one(rows: int, columns: int) -> dict[str, torch.Tensor]:
    del columns
    return {"z_ptr": torch.zeros(rows)}


def _index(rows: int, columns: int) -> dict[str, torch.Tensor]:
    del columns
    return {"z_ptr": torch.zeros(rows, dtype=torch.int32)}


def _two(rows: int, columns: int) -> dict[str, torch.Tensor]:
    del columns
    return {"mean_ptr": torch.zeros(rows), "variance_ptr": torch.zeros(rows)}


def _alike(rows: int, columns: int) -> dict[str, torch.Tensor]:
    return {"z_ptr": torch.zeros(rows, columns)}


def _sums(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.sum(1)}


def _largest(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.max(1).values}


def _argmax(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.argmax(1).to(torch.int32)}


def _moments(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"mean_ptr": x_ptr.mean(1), "variance_ptr": x_ptr.var(1, correction=0)}


def _running(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.cumsum(1)}


def _column_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in (
        (64, 128, 16, 64),
        (draw.size(33, 70), draw.size(65, 120), 16, 64),
        (draw.size(1, 5), draw.size(2, 20), 8, 32),
        (draw.size(70, 120), draw.size(100, 200), 32, 32),
    ):
        yield Case(
            (-(-columns // tile_columns),),
            {
                "x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(columns),
                "rows": rows, "columns": columns,
            },
            ("z_ptr",),
            {"ROWS": tile_rows, "COLUMNS": tile_columns},
        )  # fmt: skip


def _column_sums(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.sum(0)}


def _dot_cases(draw: Draw) -> Iterator[Case]:
    for n, block in ((512, 128), (draw.size(513, 1000), 128), (draw.size(1, 50), 64)):
        yield Case(
            (-(-n // block),),
            {
                "x_ptr": draw.normal(n), "y_ptr": draw.normal(n), "z_ptr": torch.zeros(1), "n": n,
            },
            (),
            {"BLOCK": block},
        )  # fmt: skip


def _dot(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": (x_ptr.double() * y_ptr.double()).sum().float().reshape(1)}


def _histogram_cases(draw: Draw) -> Iterator[Case]:
    for n, block, bins in (
        (512, 128, 16),
        (draw.size(513, 1000), 128, draw.size(3, 20)),
        (draw.size(1, 50), 64, 8),
    ):
        yield Case(
            (-(-n // block),),
            {
                "x_ptr": draw.whole(0, bins, n), "z_ptr": torch.zeros(bins, dtype=torch.int32),
                "n": n,
            },
            (),
            {"BLOCK": block},
        )  # fmt: skip


def _histogram(x_ptr: torch.Tensor, z_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": torch.bincount(x_ptr.long(), minlength=z_ptr.numel()).to(torch.int32)}


_STUB = """@triton.jit
def {name}(x_ptr, {outputs}, columns, BLOCK: tl.constexpr):
    ...
"""
_ROW = "`x` has one row of `columns` elements for each program, row after row."
_FITS = f"{_ROW} A row fits into a block: `columns <= BLOCK`."
_LONG = f"{_ROW} A row may be longer than a block."

EXERCISES = (
    Exercise(
        "sum_rows",
        "Sums of rows",
        CHAPTER,
        f"`z[i] = sum(x[i, :])`. {_FITS}",
        _STUB.format(name="sum_rows", outputs="z_ptr"),
        _short_rows(_one),
        _sums,
        (
            "The row of program `p` begins at `x_ptr + p * columns`.",
            "`tl.sum(tile, axis=0)` is one number, which a store takes as it is.",
            "Lanes beyond the row must add 0: `other=0.0` in the load.",
        ),
        "With short rows several of them in one program, as a tile of two dimensions, keep more of "
        "a multiprocessor busy.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "max_rows",
        "The largest of each row",
        CHAPTER,
        f"`z[i] = max(x[i, :])`. {_FITS}",
        _STUB.format(name="max_rows", outputs="z_ptr"),
        _short_rows(_one),
        _largest,
        (
            "`tl.max(tile, axis=0)`.",
            "What must lanes beyond the row hold so that they are never the largest? Zero is wrong "
            "where a whole row is negative.",
        ),
        "`other=-float('inf')` in the load costs nothing.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "argmax_rows",
        "Where the largest is",
        CHAPTER,
        f"`z[i]` is the index of the largest element of row `i`, int32. {_FITS}",
        _STUB.format(name="argmax_rows", outputs="z_ptr"),
        _short_rows(_index),
        _argmax,
        ("`tl.argmax(tile, axis=0)`.", "Lanes beyond the row must not win."),
        "`tl.max(tile, axis=0, return_indices=True)` gives both in one reduction.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "sum_long_rows",
        "Sums of long rows",
        CHAPTER,
        f"`z[i] = sum(x[i, :])`. {_LONG}",
        _STUB.format(name="sum_long_rows", outputs="z_ptr"),
        _long_rows(_one),
        _sums,
        (
            "Keep a tile of `BLOCK` running sums, one a lane: `tl.zeros((BLOCK,), tl.float32)`.",
            "Add a block of the row in each turn of `for start in range(0, columns, BLOCK):`.",
            "Reduce the tile once, after the loop.",
        ),
        "Reducing in every turn gives the same, and exchanges values between lanes each time.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "moments",
        "Mean and variance",
        CHAPTER,
        f"`mean[i]` and `variance[i]` of row `i`; the variance is the mean of `(x - mean) ** 2`. "
        f"{_FITS}",
        _STUB.format(name="moments", outputs="mean_ptr, variance_ptr"),
        _short_rows(_two),
        _moments,
        (
            "The mean is `tl.sum(x, axis=0) / columns`.",
            "Lanes beyond the row hold 0, and `0 - mean` is not 0: switch them off with `tl.where` "
            "before the squares are added.",
        ),
        "`E[x * x] - mean * mean` needs one pass, and loses digits where the mean is large.",
        Budget(traffic=1.6),
    ),
    Exercise(
        "running_sum",
        "Running sums",
        CHAPTER,
        f"`z[i, j] = x[i, 0] + ... + x[i, j]`. {_LONG}",
        _STUB.format(name="running_sum", outputs="z_ptr"),
        _long_rows(_alike),
        _running,
        (
            "`tl.cumsum(tile, axis=0)` is the running sum of one block.",
            "What the blocks before add up to is carried from turn to turn.",
            "The sum of a block is `tl.sum(tile, axis=0)`.",
        ),
        "Programs of their own for each block of a row need what came before: a second kernel, or "
        "a decoupled look-back.",
        Budget(traffic=1.3),
    ),
    Exercise(
        "sum_columns",
        "Sums of columns",
        CHAPTER,
        "`z[j] = sum(x[:, j])`, where `x` has `rows` rows of `columns` elements. Program `p` does "
        "the `COLUMNS` columns from `p * COLUMNS`, `ROWS` rows at a time.",
        """@triton.jit
def sum_columns(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    ...
""",
        _column_cases,
        _column_sums,
        (
            "A tile of `ROWS` by `COLUMNS` in each turn; add the tiles up lane by lane.",
            "`tl.sum(tile, axis=0)` after the loop adds along the rows.",
            "Two masks in each load: rows that are left, columns that there are.",
        ),
        "Few columns make few programs; several programs for the same columns add up with "
        "`tl.atomic_add`.",
        Budget(traffic=1.4),
    ),
    Exercise(
        "dot_product",
        "A sum over all programs",
        CHAPTER,
        "`z[0] = sum(x[i] * y[i])` over `n` elements; each program does `BLOCK` of them. `z[0]` is "
        "0 before the launch.",
        """@triton.jit
def dot_product(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        _dot_cases,
        _dot,
        (
            "Each program has one number to add to `z[0]`.",
            "A load, an addition and a store are a race: two programs may load the same number.",
            "`tl.atomic_add(z_ptr, number)` does the three at once.",
        ),
        "Every program adds to the same place, and they take turns. Sums by program, added up by a "
        "second kernel, are in the same order each time.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "histogram",
        "A histogram",
        CHAPTER,
        "`z[k]` is how many of the `n` numbers of `x` are `k`. All of `z` is 0 before the launch.",
        """@triton.jit
def histogram(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        _histogram_cases,
        _histogram,
        (
            "`z_ptr + x` is a tile of pointers, several of which may be the same.",
            "`tl.atomic_add(z_ptr + x, 1, mask=mask)` counts each lane.",
        ),
        "`tl.histogram` counts within the program first: one atomic for each bin, not for each "
        "element.",
    ),
)
