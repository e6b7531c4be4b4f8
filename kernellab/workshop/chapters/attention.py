"""Attention and other kernels in which several ideas meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.workshop.exercise import Budget, Case, Draw, Exercise

CHAPTER = "Attention and others"


def _attention(draw: Draw, queries: int, keys: int, width: int, **blocks: int) -> Case:
    def some(count: int) -> torch.Tensor:
        return draw.normal(count, width, dtype=torch.float16)

    rows = blocks.get("BLOCK_Q", queries)
    return Case(
        (-(-queries // rows),),
        {
            "q_ptr": some(queries), "k_ptr": some(keys), "v_ptr": some(keys),
            "z_ptr": torch.zeros(queries, width, dtype=torch.float16),
            "queries": queries, "keys": keys, "scale": width**-0.5,
        },
        ("z_ptr",),
        {**blocks, "WIDTH": width},
    )  # fmt: skip


def _one_block_cases(draw: Draw) -> Iterator[Case]:
    yield _attention(draw, 16, 32, 32, BLOCK_Q=16, BLOCK_K=32)
    yield _attention(draw, draw.size(3, 15), draw.size(17, 31), 16, BLOCK_Q=16, BLOCK_K=32)
    yield _attention(draw, draw.size(17, 40), draw.size(33, 63), 64, BLOCK_Q=32, BLOCK_K=64)


def _flash_cases(draw: Draw) -> Iterator[Case]:
    yield _attention(draw, 32, 64, 32, BLOCK_Q=16, BLOCK_K=32)
    keys = draw.size(65, 150)
    yield _attention(draw, draw.size(17, 60), keys, 32, BLOCK_Q=16, BLOCK_K=32)
    yield _attention(draw, draw.size(17, 60), keys, 64, BLOCK_Q=32, BLOCK_K=16)


def _attended(q_ptr: Any, k_ptr: Any, v_ptr: Any, scale: float) -> Mapping[str, Any]:
    weights = (q_ptr.float() @ k_ptr.float().T * scale).softmax(1)
    return {"z_ptr": (weights @ v_ptr.float()).half()}


def _causal_cases(draw: Draw) -> Iterator[Case]:
    for length, width, rows, columns in (
        (64, 32, 16, 32),
        (draw.size(33, 100), 32, 32, 16),
        (draw.size(3, 15), 16, 16, 16),
    ):
        yield _attention(draw, length, length, width, BLOCK_Q=rows, BLOCK_K=columns)


def _causally_attended(q_ptr: Any, k_ptr: Any, v_ptr: Any, scale: float) -> Mapping[str, Any]:
    scores = q_ptr.float() @ k_ptr.float().T * scale
    future = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, -float("inf")).softmax(1)
    return {"z_ptr": (weights @ v_ptr.float()).half()}


def _convolution_cases(draw: Draw) -> Iterator[Case]:
    for n, taps, block in ((256, 4, 64), (draw.size(257, 500), draw.size(3, 9), 64),
                           (draw.size(9, 30), draw.size(2, 8), 128)):  # fmt: skip
        yield Case(
            (-(-n // block),),
            {
                "x_ptr": draw.normal(n), "w_ptr": draw.normal(taps), "z_ptr": torch.zeros(n),
                "n": n, "taps": taps,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )  # fmt: skip


def _convolved(x_ptr: torch.Tensor, w_ptr: torch.Tensor) -> Mapping[str, Any]:
    padded = torch.nn.functional.pad(x_ptr, (w_ptr.numel() - 1, 0))
    taps = padded.unfold(0, w_ptr.numel(), 1)
    return {"z_ptr": taps @ w_ptr}


def _sort_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, block in ((4, 64, 64), (draw.size(2, 6), draw.size(33, 63), 64),
                                 (draw.size(1, 4), draw.size(65, 127), 128)):  # fmt: skip
        yield Case(
            (rows,),
            {
                "x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(rows, columns),
                "columns": columns,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )  # fmt: skip


def _sorted(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.sort(1).values}


def _weight_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in (
        (64, 64, 16, 32),
        (draw.size(33, 90), draw.size(33, 90), 16, 32),
        (draw.size(1, 9), draw.size(2, 20), 16, 16),
    ):
        yield Case(
            (-(-rows // tile_rows), -(-columns // tile_columns)),
            {
                "x_ptr": draw.normal(rows, columns), "dy_ptr": draw.normal(rows, columns),
                "dw_ptr": torch.zeros(columns), "rows": rows, "columns": columns,
            },
            (),
            {"ROWS": tile_rows, "COLUMNS": tile_columns},
        )  # fmt: skip


def _weight_gradient(x_ptr: torch.Tensor, dy_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"dw_ptr": (x_ptr.double() * dy_ptr.double()).sum(0).float()}


_ATTENTION = """@triton.jit
def {name}(
    q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):
    ...
"""
_TASK = (
    "`z = softmax(scale * q @ k.T) @ v`, row by row of `q`. `q` has `queries` rows, `k` and `v` "
    "have `keys`, all of `WIDTH` elements; all four are float16 and contiguous. Program `p` does "
    "`BLOCK_Q` queries."
)

EXERCISES = (
    Exercise(
        "convolution",
        "A convolution",
        CHAPTER,
        "`z[i] = sum(x[i - taps + 1 + t] * w[t])` for `t` from 0 to `taps - 1`; what lies before "
        "`x[0]` is 0.",
        """@triton.jit
def convolution(x_ptr, w_ptr, z_ptr, n, taps, BLOCK: tl.constexpr):
    ...
""",
        _convolution_cases,
        _convolved,
        (
            "A loop over the taps: one load of `w[t]`, one of a block of `x` that begins "
            "elsewhere in each turn.",
            "Mask what lies before the first element, too: `(places >= 0) & (places < n)`.",
        ),
        "The loads of the turns overlap: all but the first are found in the L1 cache.",
    ),
    Exercise(
        "sort_rows",
        "Sorted rows",
        CHAPTER,
        "`z[i, :]` is `x[i, :]` in ascending order; a row fits into a block. One program a row.",
        """@triton.jit
def sort_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    ...
""",
        _sort_cases,
        _sorted,
        ("`tl.sort(tile)`.", "Where should lanes beyond the row go, and which number goes there?"),
        "A bitonic sort exchanges lanes log2(BLOCK)^2 / 2 times: look at the shuffles in the SASS.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "weight_gradient",
        "The gradient of a weight",
        CHAPTER,
        "`dw[j] = sum(x[:, j] * dy[:, j])`; program `(p, q)` has `ROWS` rows of `COLUMNS` columns "
        "and adds its part to `dw`, which is 0 before the launch.",
        """@triton.jit
def weight_gradient(
    x_ptr, dy_ptr, dw_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    ...
""",
        _weight_cases,
        _weight_gradient,
        (
            "Add up within the tile first: `tl.sum(x * dy, axis=0)`.",
            "Then one atomic for each column.",
        ),
        "Atomics of floats add in another order in each run. Layer norm's backward pass in "
        "Triton's tutorial uses locks, so as to keep several partial sums.",
        Budget(traffic=1.8),
    ),
    Exercise(
        "attention",
        "Attention in one block",
        CHAPTER,
        f"{_TASK} All keys fit into a block: `keys <= BLOCK_K`.",
        _ATTENTION.format(name="attention"),
        _one_block_cases,
        _attended,
        (
            "Two products, `tl.dot(q, tl.trans(k))` and `tl.dot(weights, v)`, and a softmax in "
            "between.",
            "Scores of keys that are not there must be minus infinity before the softmax.",
            "The weights go back to float16 for the second product.",
        ),
        "The scores never leave the registers; for 8,192 keys they would not fit.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "flash_attention",
        "Flash attention",
        CHAPTER,
        f"{_TASK} The keys do not fit into a block: take `BLOCK_K` at a time.",
        _ATTENTION.format(name="flash_attention"),
        _flash_cases,
        _attended,
        (
            "Keep three things a query: the largest score so far, the sum of the weights, the "
            "weighted sum of `v`.",
            "When the largest grows from `m` to `n`, the other two are multiplied by "
            "`exp(m - n)`, as in `online_softmax`.",
            "Divide by the sum once, after the loop.",
        ),
        "`exp2` is one instruction where `exp` is two: put `log2(e)` into the scale.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "causal_attention",
        "Causal flash attention",
        CHAPTER,
        f"{_TASK} Query `i` sees the keys up to `i` only, and there are as many keys as queries.",
        _ATTENTION.format(name="causal_attention"),
        _causal_cases,
        _causally_attended,
        (
            "Another condition where scores are masked: `key <= query`.",
            "Blocks of keys beyond the program's last query have nothing for it: the loop may end "
            "there.",
            "A block in which a query sees no key has minus infinity as its largest score: "
            "`exp(-inf - (-inf))` is NaN. Does yours come to such a block before one that it sees?",
        ),
        "Half of all blocks are left out; only those on the diagonal need a mask.",
        Budget(needs_tensor_cores=True),
    ),
)
