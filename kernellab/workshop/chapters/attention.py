"""Attention, and other kernels that combine several ideas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.launch.differences import Within
from kernellab.workshop.exercise import (
    Budget,
    Case,
    Draw,
    Exercise,
    Rounded,
    exact,
    softmax,
    unrounded,
)

CHAPTER = "Attention and others"


def _attention(
    draw: Draw, queries: int, keys: int, width: int, *, large: bool = False, **blocks: int
) -> Case:
    """Return a launch in which all scores of the first query are very negative. With `large`, the
    last two queries have scores whose exponentials overflow: one has its largest score at the last
    key, one at the first.
    """
    q, k, v = (draw.normal(count, width, dtype=torch.float16) for count in (queries, keys, keys))
    q[0] = -2
    k += 1
    if large:
        q[-1], q[-2] = 64 * k[-1], 64 * k[0]
    rows = blocks.get("BLOCK_Q", queries)
    return Case(
        (-(-queries // rows),),
        {
            "q_ptr": q, "k_ptr": k, "v_ptr": v,
            "z_ptr": torch.zeros(queries, width, dtype=torch.float16),
            "queries": queries, "keys": keys, "scale": width**-0.5,
        },
        ("z_ptr",),
        {**blocks, "WIDTH": width},
    )  # fmt: skip


def _one_block_cases(draw: Draw) -> Iterator[Case]:
    yield _attention(draw, 16, 32, 32, BLOCK_Q=16, BLOCK_K=32)
    yield _attention(draw, draw.size(3, 15), draw.size(17, 31), 16, BLOCK_Q=16, BLOCK_K=32)
    queries, keys = draw.size(33, 60), draw.size(33, 63)
    yield _attention(draw, queries, keys, 64, large=True, BLOCK_Q=32, BLOCK_K=64)
    queries, keys = draw.uneven(100, 200, 64), draw.size(65, 127)
    yield _attention(draw, queries, keys, 32, BLOCK_Q=64, BLOCK_K=128)


def _flash_cases(draw: Draw) -> Iterator[Case]:
    yield _attention(draw, 32, 64, 32, BLOCK_Q=16, BLOCK_K=32)
    queries, keys = draw.uneven(17, 60, 16), draw.uneven(65, 150, 16)
    yield _attention(draw, queries, keys, 32, BLOCK_Q=16, BLOCK_K=32)
    yield _attention(draw, queries, keys, 64, large=True, BLOCK_Q=32, BLOCK_K=16)
    queries, keys = draw.uneven(1, 99, 64), draw.uneven(300, 500, 64)
    yield _attention(draw, queries, keys, 16, BLOCK_Q=64, BLOCK_K=64)


def _attended(q_ptr: Any, k_ptr: Any, v_ptr: Any, scale: float) -> Mapping[str, Within]:
    return _weighted(_scores(q_ptr, k_ptr, scale), v_ptr)


def _scores(q_ptr: torch.Tensor, k_ptr: torch.Tensor, scale: float) -> Rounded:
    """Return the scores of a kernel that scales them, or the float16 queries before."""
    scores = exact(q_ptr) @ exact(k_ptr.T) * scale
    scaled = (exact(q_ptr) * scale).rounded_to(torch.float16)
    return scores.or_as(scaled @ exact(k_ptr.T))


def _weighted(scores: Rounded, v_ptr: torch.Tensor) -> Mapping[str, Within]:
    """Return the results of a kernel that rounds the weights to float16, scaled or not."""
    weights = softmax(scores).rounded_to(torch.float16)
    return {"z_ptr": (weights @ exact(v_ptr)).within(torch.float16)}


def _causal_cases(draw: Draw) -> Iterator[Case]:
    for length, width, rows, columns, large in (
        (64, 32, 16, 32, False),
        (draw.uneven(33, 100, 16), 16, 32, 32, False),
        (draw.size(3, 15), 16, 16, 16, False),
        (draw.uneven(133, 180, 32), 64, 128, draw.of((32, 64)), True),
    ):
        yield _attention(draw, length, length, width, large=large, BLOCK_Q=rows, BLOCK_K=columns)


def _causally_attended(q_ptr: Any, k_ptr: Any, v_ptr: Any, scale: float) -> Mapping[str, Within]:
    scores = _scores(q_ptr, k_ptr, scale)
    past = torch.ones(scores.value.shape, dtype=torch.bool).tril()
    return _weighted(scores.where(past, -float("inf")), v_ptr)


def _convolution_cases(draw: Draw) -> Iterator[Case]:
    for n, taps, block in (
        (256, 4, 64),
        (draw.uneven(257, 500, 64), draw.size(3, 9), 64),
        (draw.size(9, 30), draw.size(2, 8), 128),
        (8 * draw.size(8, 25) + 1, 1, draw.of((8, 16, 32))),
        (draw.large(10_000, 50_000), draw.size(10, 20), draw.of((512, 1024))),
    ):
        yield Case(
            (-(-n // block),),
            {
                "x_ptr": draw.normal(n), "w_ptr": draw.normal(taps), "z_ptr": torch.zeros(n),
                "n": n, "taps": taps,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )  # fmt: skip


def _convolved(x_ptr: torch.Tensor, w_ptr: torch.Tensor) -> Mapping[str, Within]:
    padded = torch.nn.functional.pad(x_ptr, (w_ptr.numel() - 1, 0))
    taps = padded.unfold(0, w_ptr.numel(), 1)
    return {"z_ptr": (exact(taps) @ exact(w_ptr)).within()}


def _sort_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, block in (
        (4, 64, 64),
        (draw.size(2, 6), draw.size(33, 63), 64),
        (draw.size(1, 4), draw.size(65, 127), 128),
        (draw.size(9, 40), draw.size(1, 16), draw.of((16, 32))),
    ):
        yield Case(
            (rows,),
            {
                "x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(rows, columns),
                "columns": columns,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )  # fmt: skip


def _sorted(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(x_ptr.sort(1).values)}


def _weight_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in (
        (64, 64, 16, 32),
        (draw.uneven(65, 90, 16), draw.size(33, 60), 16, 32),
        (draw.size(1, 9), draw.size(2, 15), 16, 16),
        (draw.uneven(100, 300, 4), draw.uneven(100, 300, 8), draw.of((4, 64)), draw.of((8, 64))),
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


def _weight_gradient(x_ptr: torch.Tensor, dy_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"dw_ptr": (exact(x_ptr) * exact(dy_ptr)).sum(0).within()}


_ATTENTION = """@triton.jit
def {name}(
    q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):
    ...
"""
_TASK = (
    "`z = softmax(scale * q @ k.T) @ v`, with a softmax over each row. `q` and `z` have `queries` "
    "rows, `k` and `v` have `keys` rows, and all rows have `WIDTH` elements. All four are float16 "
    "and contiguous. Program `p` computes `BLOCK_Q` rows of `z`, starting at `p * BLOCK_Q`."
)

EXERCISES = (
    Exercise(
        "convolution",
        "A convolution",
        CHAPTER,
        "`z[i]` is the sum of `x[i - taps + 1 + t] * w[t]` for `t` from 0 to `taps - 1`. Elements "
        "in front of `x[0]` count as 0. `x` and `z` have `n` elements.",
        """@triton.jit
def convolution(x_ptr, w_ptr, z_ptr, n, taps, BLOCK: tl.constexpr):
    ...
""",
        _convolution_cases,
        _convolved,
        (
            "Write a loop over the taps. Each iteration loads `w[t]`, and a block of `x` that is "
            "shifted by one element.",
            "Mask the elements in front of the first one too: `(offsets >= 0) & (offsets < n)`.",
        ),
        "The blocks of the iterations overlap, so that all but the first are in the L1 cache.",
    ),
    Exercise(
        "sort_rows",
        "Sorted rows",
        CHAPTER,
        "`z[i, :]` is `x[i, :]` in ascending order. There is one program for each row, and a row "
        "of `columns` elements fits in a block.",
        """@triton.jit
def sort_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    ...
""",
        _sort_cases,
        _sorted,
        (
            "`tl.sort(tile)`.",
            "Elements beyond the row should come last: which value do they need?",
        ),
        "A bitonic sort takes about log2(BLOCK)^2 / 2 steps, each of which exchanges elements "
        "between threads: look for the shuffles in the SASS.",
        Budget(traffic=1.5),
    ),
    Exercise(
        "weight_gradient",
        "The gradient of a weight",
        CHAPTER,
        "`dw[j] = sum(x[:, j] * dy[:, j])`, where `x` and `dy` have `rows` rows of `columns` "
        "elements. Program `(p, q)` adds the part of its tile of `ROWS` by `COLUMNS` elements to "
        "`dw`, which is 0 before the launch.",
        """@triton.jit
def weight_gradient(
    x_ptr, dy_ptr, dw_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    ...
""",
        _weight_cases,
        _weight_gradient,
        (
            "Sum within the tile first: `tl.sum(x * dy, axis=0)`.",
            "Then add one number for each column with an atomic.",
        ),
        "Atomics add floats in a different order in each run, so that the last digits vary. "
        "Triton's tutorial on layer norm keeps several partial sums instead, protected by locks.",
        Budget(traffic=1.8),
    ),
    Exercise(
        "attention",
        "Attention in one block",
        CHAPTER,
        f"{_TASK} All keys fit in a block: `keys <= BLOCK_K`.",
        _ATTENTION.format(name="attention"),
        _one_block_cases,
        _attended,
        (
            "You need two matmuls, `tl.dot(q, tl.trans(k))` and `tl.dot(weights, v)`, with a "
            "softmax in between.",
            "The scores of keys beyond `keys` must be minus infinity before the softmax.",
            "Convert the weights to float16 for the second matmul.",
        ),
        "The scores stay in registers. With 8,192 keys they would not fit.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "flash_attention",
        "Flash attention",
        CHAPTER,
        f"{_TASK} The keys do not fit in a block: process `BLOCK_K` keys at a time.",
        _ATTENTION.format(name="flash_attention"),
        _flash_cases,
        _attended,
        (
            "For each query, keep the maximum score so far, the sum of the weights, and the "
            "weighted sum of `v`.",
            "When the maximum grows from `m` to `n`, multiply the other two by `exp(m - n)`, as in "
            "`online_softmax`.",
            "Divide by the sum of the weights once, after the loop.",
        ),
        "`exp2` takes one instruction and `exp` takes two: multiply the scale by `log2(e)` and use "
        "`exp2`.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "causal_attention",
        "Causal flash attention",
        CHAPTER,
        f"{_TASK} Query `i` uses only keys 0 to `i`, and there are as many keys as queries.",
        _ATTENTION.format(name="causal_attention"),
        _causal_cases,
        _causally_attended,
        (
            "Add the condition `key <= query` where you mask the scores.",
            "The loop can end after the block that contains the program's last query, because no "
            "query uses later keys.",
            "If a query uses no key of a block, its maximum score there is minus infinity, and "
            "`exp(-inf - (-inf))` is NaN. Can a query meet such a block before one that it uses?",
        ),
        "About half of all blocks can be skipped, and only those on the diagonal need a mask.",
        Budget(needs_tensor_cores=True),
    ),
)
