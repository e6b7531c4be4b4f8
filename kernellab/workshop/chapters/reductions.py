"""Reductions: sums of rows and columns, running sums, atomics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from kernellab.launch.differences import Within
from kernellab.workshop.exercise import Budget, Case, Draw, Exercise, exact, moments, unrounded

CHAPTER = "Reductions"


def _rows(draw: Draw, rows: int, columns: int, block: int, **outputs: torch.Tensor) -> Case:
    """Return a launch with one program per row of a table whose numbers are mostly negative, in the
    first row all of them. The maximum is at the end of the first row, at the start of the second,
    and twice in the last one.
    """
    x = draw.normal(rows, columns) - 3
    x[0] = -1 - x[0].abs()
    x[0, -1] = -0.5
    x[1:2, 0] = 4
    if columns > 1:
        x[-1, (int(x[-1].argmax()) + draw.size(1, columns - 1)) % columns] = x[-1].max()
    return Case(
        (rows,),
        {"x_ptr": x, **outputs, "columns": columns},
        tuple(outputs),
        {"BLOCK": block},
    )


def _short_rows(outputs: Callable[[int, int], dict[str, torch.Tensor]]) -> Any:
    """Return a function that yields launches with rows that fit in one block."""

    def cases(draw: Draw) -> Iterator[Case]:
        for rows, columns, block in (
            (4, 128, 128),
            (draw.size(3, 9), draw.size(65, 127), 128),
            (draw.size(1, 5), draw.size(2, 30), 64),
            (draw.size(2, 6), draw.size(513, 1000), 1024),
            (draw.size(10, 30), draw.size(1, 16), draw.of((16, 32))),
            (draw.size(30, 60), draw.size(1025, 2048), 2048),
        ):
            yield _rows(draw, rows, columns, block, **outputs(rows, columns))

    return cases


def _long_rows(outputs: Callable[[int, int], dict[str, torch.Tensor]]) -> Any:
    """Return a function that yields launches with rows longer than a block."""

    def cases(draw: Draw) -> Iterator[Case]:
        for rows, columns, block in (
            (4, 512, 128),
            (draw.size(3, 6), draw.uneven(513, 900, 128), 128),
            (draw.size(1, 4), draw.size(5, 40), 64),
            (draw.size(2, 4), 256 * draw.size(6, 9) + 1, 256),
            (draw.size(5, 20), draw.uneven(50, 200, 8), draw.of((8, 16, 32))),
            (draw.size(1, 8), draw.large(5000, 20_000), draw.of((512, 2048))),
        ):
            yield _rows(draw, rows, columns, block, **outputs(rows, columns))

    return cases


def _scalars(rows: int, columns: int) -> dict[str, torch.Tensor]:
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


def _sums(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": exact(x_ptr).sum(1).within()}


def _largest(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(x_ptr.max(1).values)}


def _argmax(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    columns = x_ptr.shape[1]
    is_largest = x_ptr == x_ptr.max(1, keepdim=True).values
    return {
        "z_ptr": unrounded(torch.where(is_largest, torch.arange(columns), columns).amin(1).int())
    }


def _moments(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    x = exact(x_ptr)
    mean, variance = moments(x)
    return {
        "mean_ptr": mean.chosen(lambda column: column[:, 0]).within(),
        "variance_ptr": variance.chosen(lambda column: column[:, 0]).within(),
    }


def _running(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": exact(x_ptr).cumsum(1).within()}


def _column_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in (
        (64, 128, 16, 64),
        (draw.uneven(33, 70, 16), draw.size(131, 180), 16, 64),
        (draw.size(1, 5), draw.size(2, 20), 8, 32),
        (32 * draw.size(2, 4) + 1, draw.uneven(100, 200, 32), 32, 32),
        (draw.uneven(10, 40, 2), draw.uneven(10, 40, 4), draw.of((2, 4)), draw.of((4, 8, 16))),
        (
            draw.uneven(200, 500, 64),
            draw.uneven(200, 500, 16),
            draw.of((64, 128)),
            draw.of((16, 128)),
        ),
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


def _column_sums(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": exact(x_ptr).sum(0).within()}


def _dot_cases(draw: Draw) -> Iterator[Case]:
    for n, block in (
        (512, 128),
        (draw.uneven(513, 1000, 128), 128),
        (draw.size(1, 50), 64),
        (8 * draw.size(8, 40) + 1, draw.of((8, 16, 32))),
        (draw.large(20_000, 100_000), draw.of((512, 2048))),
    ):
        yield Case(
            (-(-n // block),),
            {
                "x_ptr": draw.normal(n), "y_ptr": draw.normal(n), "z_ptr": torch.zeros(1), "n": n,
            },
            (),
            {"BLOCK": block},
        )  # fmt: skip


def _dot(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": (exact(x_ptr) * exact(y_ptr)).sum(0, keepdim=True).within()}


def _histogram_cases(draw: Draw) -> Iterator[Case]:
    for n, block, bins in (
        (512, 128, 16),
        (draw.uneven(513, 1000, 128), 128, draw.size(3, 20)),
        (draw.size(1, 50), 64, 8),
        (8 * draw.size(8, 40) + 1, draw.of((8, 16, 32)), draw.size(30, 200)),
        (draw.large(10_000, 30_000), draw.of((512, 2048)), draw.size(3, 400)),
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


def _histogram(x_ptr: torch.Tensor, z_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(torch.bincount(x_ptr.long(), minlength=len(z_ptr)).to(torch.int32))}


_STUB = """@triton.jit
def {name}(x_ptr, {outputs}, columns, BLOCK: tl.constexpr):
    ...
"""
_ROW = "`x` is contiguous and has one row of `columns` elements for each program."
_FITS = f"{_ROW} A row fits in a block: `columns <= BLOCK`."
_LONG = f"{_ROW} A row may be longer than a block."

EXERCISES = (
    Exercise(
        "sum_rows",
        "Sums of rows",
        CHAPTER,
        f"`z[i] = sum(x[i, :])`. {_FITS}",
        _STUB.format(name="sum_rows", outputs="z_ptr"),
        _short_rows(_scalars),
        _sums,
        (
            "The row of program `p` starts at `x_ptr + p * columns`.",
            "`tl.sum(tile, axis=0)` is a single number, which you can store directly.",
            "Elements beyond the row must add 0: pass `other=0.0` to the load.",
        ),
        "If rows are short, a program that loads several of them as a 2D tile uses a "
        "multiprocessor better.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "max_rows",
        "The maximum of each row",
        CHAPTER,
        f"`z[i] = max(x[i, :])`. {_FITS}",
        _STUB.format(name="max_rows", outputs="z_ptr"),
        _short_rows(_scalars),
        _largest,
        (
            "`tl.max(tile, axis=0)`.",
            "Which value must elements beyond the row have, so that they are never the maximum? "
            "Zero is wrong if a whole row is negative.",
        ),
        "`other=-float('inf')` in the load does not cost anything.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "argmax_rows",
        "The position of the maximum",
        CHAPTER,
        "`z[i]` is the index of the largest element of row `i`, in int32; of several largest ones, "
        f"it is the first index. {_FITS}",
        _STUB.format(name="argmax_rows", outputs="z_ptr"),
        _short_rows(_index),
        _argmax,
        ("`tl.argmax(tile, axis=0)`.", "Elements beyond the row must never be the maximum."),
        "`tl.max(tile, axis=0, return_indices=True)` gives both in one reduction.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "sum_long_rows",
        "Sums of long rows",
        CHAPTER,
        f"`z[i] = sum(x[i, :])`. {_LONG}",
        _STUB.format(name="sum_long_rows", outputs="z_ptr"),
        _long_rows(_scalars),
        _sums,
        (
            "Keep a tile of `BLOCK` partial sums: `tl.zeros((BLOCK,), tl.float32)`.",
            "Add one block of the row in each iteration of `for start in range(0, columns, "
            "BLOCK):`.",
            "Reduce the tile once, after the loop.",
        ),
        "A reduction in every iteration gives the same result, but exchanges values between "
        "threads each time.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "moments",
        "Mean and variance",
        CHAPTER,
        "`mean[i]` and `variance[i]` are those of row `i`; the variance is the mean of `(x - "
        f"mean) ** 2`. {_FITS}",
        _STUB.format(name="moments", outputs="mean_ptr, variance_ptr"),
        _short_rows(_two),
        _moments,
        (
            "The mean is `tl.sum(x, axis=0) / columns`.",
            "Elements beyond the row are 0, but `0 - mean` is not 0: replace them with `tl.where` "
            "before you sum the squares.",
        ),
        "`E[x * x] - mean * mean` needs only one pass, but it loses digits if the mean is large.",
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
            "Carry the sum of the earlier blocks from iteration to iteration.",
            "The sum of a block is `tl.sum(tile, axis=0)`.",
        ),
        "With one program for each block of a row, a program needs the sum of the blocks before "
        "its own. This takes a second kernel, or a decoupled look-back.",
        Budget(traffic=1.3),
    ),
    Exercise(
        "sum_columns",
        "Sums of columns",
        CHAPTER,
        "`z[j] = sum(x[:, j])`, where `x` has `rows` rows of `columns` elements. Program `p` "
        "computes `COLUMNS` columns, starting at `p * COLUMNS`, and loads `ROWS` rows at a time.",
        """@triton.jit
def sum_columns(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    ...
""",
        _column_cases,
        _column_sums,
        (
            "Load a tile of `ROWS` by `COLUMNS` elements in each iteration, and accumulate the "
            "tiles element by element.",
            "After the loop, `tl.sum(tile, axis=0)` sums each column.",
            "The mask of each load checks both the rows and the columns.",
        ),
        "A table with few columns has few programs. Several programs can share the same columns "
        "and add their sums with `tl.atomic_add`.",
        Budget(traffic=1.4),
    ),
    Exercise(
        "dot_product",
        "A sum over all programs",
        CHAPTER,
        "`z[0] = sum(x[i] * y[i])` over `n` elements, of which each program adds `BLOCK`. `z[0]` "
        "is 0 before the launch.",
        """@triton.jit
def dot_product(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        _dot_cases,
        _dot,
        (
            "Each program has one number to add to `z[0]`.",
            "A load, an addition and a store would be a race: two programs may load the same "
            "value.",
            "`tl.atomic_add(z_ptr, number)` does all three in one step.",
        ),
        "All programs add to the same element, so they wait for each other. If each program stores "
        "its own sum and a second kernel adds these up, the order is also the same in each run.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "histogram",
        "A histogram",
        CHAPTER,
        "`z[k]` is the number of elements of `x` that are equal to `k`. `x` has `n` elements, and "
        "all of `z` is 0 before the launch.",
        """@triton.jit
def histogram(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        _histogram_cases,
        _histogram,
        (
            "`z_ptr + x` is a tile of pointers, some of which may be equal.",
            "`tl.atomic_add(z_ptr + x, 1, mask=mask)` counts each element.",
        ),
        "`tl.histogram` counts within the program first, so that it needs one atomic for each bin "
        "and not for each element.",
    ),
)
