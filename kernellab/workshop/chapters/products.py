"""Products: from a matrix and a vector to tiles on the tensor cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.workshop.exercise import Budget, Case, Draw, Exercise

CHAPTER = "Matrix products"


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def _matvec_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in (
        (32, 128, 16, 64),
        (draw.size(17, 40), draw.size(65, 120), 16, 64),
        (draw.size(1, 5), draw.size(2, 30), 8, 32),
    ):
        yield Case(
            (_tiles(rows, tile_rows),),
            {
                "a_ptr": draw.normal(rows, columns), "x_ptr": draw.normal(columns),
                "z_ptr": torch.zeros(rows), "rows": rows, "columns": columns,
            },
            ("z_ptr",),
            {"ROWS": tile_rows, "COLUMNS": tile_columns},
        )  # fmt: skip


def _matvec(a_ptr: torch.Tensor, x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": a_ptr @ x_ptr}


def _one_tile_cases(draw: Draw) -> Iterator[Case]:
    for size in (16, 32, draw.of((32, 64))):
        yield Case(
            (1,),
            {
                "a_ptr": draw.normal(size, size, dtype=torch.float16),
                "b_ptr": draw.normal(size, size, dtype=torch.float16),
                "c_ptr": torch.zeros(size, size),
            },
            ("c_ptr",),
            {"SIZE": size},
        )


def _product(a_ptr: torch.Tensor, b_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"c_ptr": a_ptr.float() @ b_ptr.float()}


def _matmul(
    draw: Draw, m: int, n: int, k: int, tile: tuple[int, int, int], extra: bool = False
) -> Case:
    bias = {"bias_ptr": draw.normal(n)} if extra else {}
    return Case(
        (_tiles(m, tile[0]), _tiles(n, tile[1])),
        {
            "a_ptr": draw.normal(m, k, dtype=torch.float16),
            "b_ptr": draw.normal(k, n, dtype=torch.float16),
            **bias,
            "c_ptr": torch.zeros(m, n),
            "M": m, "N": n, "K": k,
        },
        ("c_ptr",),
        dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile)),
    )  # fmt: skip


def _matmul_cases(draw: Draw, extra: bool = False) -> Iterator[Case]:
    yield _matmul(draw, 64, 64, 64, (32, 32, 32), extra)
    m, n, k = (draw.size(33, 90) for _ in range(3))
    yield _matmul(draw, m, n, k, (32, 32, 32), extra)
    yield _matmul(draw, m, n, k, (16, 64, 32), extra)
    yield _matmul(draw, draw.size(1, 9), draw.size(10, 40), draw.size(1, 9), (16, 16, 16), extra)


def _priced(draw: Draw, extra: bool = False) -> Case:
    return _matmul(draw, 256, 256, 256, (64, 64, 32), extra)


def _bias_relu(
    a_ptr: torch.Tensor, b_ptr: torch.Tensor, bias_ptr: torch.Tensor
) -> Mapping[str, Any]:
    return {"c_ptr": torch.relu(a_ptr.float() @ b_ptr.float() + bias_ptr)}


def _batched_cases(draw: Draw) -> Iterator[Case]:
    for batch, m, n, k in (
        (2, 32, 32, 32),
        (draw.size(2, 4), draw.size(17, 60), draw.size(17, 60), draw.size(17, 60)),
    ):
        yield Case(
            (_tiles(m, 32), _tiles(n, 32), batch),
            {
                "a_ptr": draw.normal(batch, m, k, dtype=torch.float16),
                "b_ptr": draw.normal(batch, k, n, dtype=torch.float16),
                "c_ptr": torch.zeros(batch, m, n),
                "M": m, "N": n, "K": k,
            },
            ("c_ptr",),
            {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32},
        )  # fmt: skip


def _quantised_cases(draw: Draw) -> Iterator[Case]:
    for m, n, k in ((32, 32, 64), [draw.size(17, 70) for _ in range(3)]):
        yield Case(
            (_tiles(m, 32), _tiles(n, 32)),
            {
                "a_ptr": draw.normal(m, k, dtype=torch.float16),
                "b_ptr": draw.whole(-127, 128, k, n, dtype=torch.int8),
                "scale_ptr": draw.normal(n).abs() / 64,
                "c_ptr": torch.zeros(m, n),
                "M": m, "N": n, "K": k,
            },
            ("c_ptr",),
            {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32},
        )  # fmt: skip


def _quantised(
    a_ptr: torch.Tensor, b_ptr: torch.Tensor, scale_ptr: torch.Tensor
) -> Mapping[str, Any]:
    return {"c_ptr": (a_ptr.float() @ b_ptr.float()) * scale_ptr[None, :]}


_STUB = """@triton.jit
def {name}(
    a_ptr, b_ptr, {more}c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    ...
"""
_TASK = (
    "`a` is `M` by `K`, `b` is `K` by `N`, both contiguous, float16; `c` is `M` by `N`, float32. "
    "Program `(p, q)` does the tile of `c` from row `p * BLOCK_M` and column `q * BLOCK_N`."
)

EXERCISES = (
    Exercise(
        "matvec",
        "A matrix times a vector",
        CHAPTER,
        "`z = a @ x`, where `a` has `rows` rows of `columns` elements, float32. Program `p` does "
        "`ROWS` rows, `COLUMNS` columns at a time.",
        """@triton.jit
def matvec(a_ptr, x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    ...
""",
        _matvec_cases,
        _matvec,
        (
            "A tile of `a` times `x[None, :]`, lane by lane; add up over the turns.",
            "`tl.sum(tile, axis=1)` after the loop.",
        ),
        "It reads each element of `a` once and uses it once: no tensor core can help, memory is "
        "what it waits for.",
        Budget(traffic=1.6),
    ),
    Exercise(
        "dot_of_tiles",
        "One tile on the tensor cores",
        CHAPTER,
        "`c = a @ b` of `SIZE` by `SIZE` elements, float16 in, float32 out, in a single program.",
        """@triton.jit
def dot_of_tiles(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    ...
""",
        _one_tile_cases,
        _product,
        (
            "Load both as tiles of two dimensions.",
            "`tl.dot(a, b)` is their product, float32.",
        ),
        "`compile(...).layouts()` shows which lane holds which element of each operand.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "matmul",
        "Matrix product",
        CHAPTER,
        f"`c = a @ b`. {_TASK}",
        _STUB.format(name="matmul", more=""),
        _matmul_cases,
        _product,
        (
            "A loop over `K` in steps of `BLOCK_K`: two loads, one `tl.dot(a, b, acc)`.",
            "The accumulator is `tl.zeros((BLOCK_M, BLOCK_N), tl.float32)`.",
            "What lies beyond `K` must be 0 in both operands; beyond `M` and `N` it must not be "
            "loaded.",
        ),
        "Larger tiles use each element more often; neighbouring programs that take neighbouring "
        "tiles find them in the L2 cache.",
        Budget(traffic=7.0, needs_tensor_cores=True),
        _priced,
    ),
    Exercise(
        "linear_relu",
        "A layer in one kernel",
        CHAPTER,
        f"`c = relu(a @ b + bias)`, where `bias` has `N` elements, float32. {_TASK}",
        _STUB.format(name="linear_relu", more="bias_ptr, "),
        lambda draw: _matmul_cases(draw, True),
        _bias_relu,
        (
            "The product first, all of it; then what follows, on the accumulator.",
            "`tl.maximum(acc + bias[None, :], 0.0)`.",
        ),
        "What follows a product costs nothing in the same kernel; in one of its own it reads and "
        "writes all of `c` once more.",
        Budget(traffic=7.0, needs_tensor_cores=True),
        lambda draw: _priced(draw, True),
    ),
    Exercise(
        "batched_matmul",
        "Many products",
        CHAPTER,
        "`c[i] = a[i] @ b[i]`; the third number of a program says which. " + _TASK,
        _STUB.format(name="batched_matmul", more=""),
        _batched_cases,
        _product,
        (
            "`tl.program_id(2)` is the product's number.",
            "Product `i` of `a` begins `i * M * K` elements from its first.",
        ),
        "Where matrices are small, several of them in one program keep it busy.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "quantised_matmul",
        "Weights of 8 bits",
        CHAPTER,
        "`c = (a @ b) * scale[None, :]`, where `b` is int8 and `scale` has `N` elements. " + _TASK,
        _STUB.format(name="quantised_matmul", more="scale_ptr, "),
        _quantised_cases,
        _quantised,
        (
            "`b.to(tl.float16)` is exact: 8 bits fit.",
            "The scale is the same for all of `K`: multiply once, after the loop.",
        ),
        "Half of the bytes of float16 weights: where memory is what a product waits for, as in "
        "decoding token by token, that is up to twice as fast.",
        Budget(needs_tensor_cores=True),
    ),
)
