"""Matmuls: from a matrix and a vector to tiles on the tensor cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from kernellab.launch.differences import Within
from kernellab.workshop.exercise import Budget, Case, Draw, Exercise, exact

CHAPTER = "Matmul"


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def _matvec_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, tile_rows, tile_columns in (
        (32, 128, 16, 64),
        (draw.uneven(17, 40, 16), draw.size(65, 120), 16, 64),
        (draw.size(1, 5), draw.size(2, 30), 8, 32),
        (
            draw.uneven(100, 200, 32),
            draw.uneven(300, 600, 16),
            draw.of((32, 64)),
            draw.of((16, 128)),
        ),
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


def _matvec(a_ptr: torch.Tensor, x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": (exact(a_ptr) @ exact(x_ptr)).within()}


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


def _product(a_ptr: torch.Tensor, b_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"c_ptr": (exact(a_ptr) @ exact(b_ptr)).within()}


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
        _blocks(tile),
    )  # fmt: skip


def _blocks(tile: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile))


def _other_tile(draw: Draw) -> tuple[int, int, int]:
    """Return a tile that is not the usual one of 32 by 32 by 32."""
    return draw.of((16, 64)), draw.of((16, 32, 64)), draw.of((16, 64))


def _uneven_tile(draw: Draw) -> tuple[int, int, int]:
    """Return a tile that is as large along no two axes."""
    m, n, k = draw.of(((16, 32, 64), (16, 64, 32), (32, 16, 64), (32, 64, 16)))
    return m, n, k


def _matmul_cases(draw: Draw, extra: bool = False) -> Iterator[Case]:
    yield _matmul(draw, 64, 64, 64, (32, 32, 32), extra)
    m, n, k = draw.uneven(33, 63, 16), draw.size(65, 95), draw.uneven(34, 62, 16)
    yield _matmul(draw, m, n, k + (k == m), (32, 32, 32), extra)
    yield _matmul(draw, m, n, k + (k == m), (16, 64, 32), extra)
    yield _matmul(
        draw, draw.size(1, 9), draw.uneven(18, 40, 16), draw.size(1, 9), (16, 16, 16), extra
    )
    m, n, k = (draw.uneven(91, 160, 16) for _ in range(3))
    yield _matmul(draw, m, n, k, _other_tile(draw), extra)


def _priced(draw: Draw, extra: bool = False) -> Case:
    return _matmul(draw, 256, 256, 256, (64, 64, 32), extra)


def _bias_relu(
    a_ptr: torch.Tensor, b_ptr: torch.Tensor, bias_ptr: torch.Tensor
) -> Mapping[str, Within]:
    return {"c_ptr": (exact(a_ptr) @ exact(b_ptr) + exact(bias_ptr)).clamp(0.0).within()}


def _batched_cases(draw: Draw) -> Iterator[Case]:
    for (batch, m, n, k), tile in (
        ((2, 32, 32, 32), (32, 32, 32)),
        (
            (draw.size(2, 4), draw.size(33, 60), draw.size(65, 90), draw.size(17, 31)),
            (32, 32, 32),
        ),
        (
            (draw.size(2, 4), *(draw.uneven(65, 99, 16) for _ in range(3))),
            _uneven_tile(draw),
        ),
    ):
        yield Case(
            (_tiles(m, tile[0]), _tiles(n, tile[1]), batch),
            {
                "a_ptr": draw.normal(batch, m, k, dtype=torch.float16),
                "b_ptr": draw.normal(batch, k, n, dtype=torch.float16),
                "c_ptr": torch.zeros(batch, m, n),
                "M": m, "N": n, "K": k,
            },
            ("c_ptr",),
            _blocks(tile),
        )  # fmt: skip


def _quantized_cases(draw: Draw) -> Iterator[Case]:
    for (m, n, k), tile in (
        ((32, 32, 64), (32, 32, 32)),
        ((draw.size(33, 60), draw.size(65, 90), draw.size(17, 31)), (32, 32, 32)),
        (
            (draw.uneven(33, 120, 16), draw.uneven(65, 150, 16), draw.size(1, 150)),
            _uneven_tile(draw),
        ),
    ):
        yield Case(
            (_tiles(m, tile[0]), _tiles(n, tile[1])),
            {
                "a_ptr": draw.normal(m, k, dtype=torch.float16),
                "b_ptr": draw.whole(-127, 128, k, n, dtype=torch.int8),
                "scale_ptr": draw.normal(n).abs() / 64,
                "c_ptr": torch.zeros(m, n),
                "M": m, "N": n, "K": k,
            },
            ("c_ptr",),
            _blocks(tile),
        )  # fmt: skip


def _quantized(
    a_ptr: torch.Tensor, b_ptr: torch.Tensor, scale_ptr: torch.Tensor
) -> Mapping[str, Within]:
    return {"c_ptr": (exact(a_ptr) @ exact(b_ptr) * exact(scale_ptr[None, :])).within()}


_STUB = """@triton.jit
def {name}(
    a_ptr, b_ptr, {more}c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    ...
"""
_TASK = (
    "`a` has shape `(M, K)` and `b` has shape `(K, N)`; both are contiguous, in float16. `c` has "
    "shape `(M, N)`, in float32. Program `(p, q)` computes the tile of `c` that starts at row `p * "
    "BLOCK_M` and column `q * BLOCK_N`."
)

EXERCISES = (
    Exercise(
        "matvec",
        "A matrix times a vector",
        CHAPTER,
        "`z = a @ x`, where `a` has `rows` rows of `columns` elements, in float32. Program `p` "
        "computes `ROWS` rows, and loads `COLUMNS` columns at a time.",
        """@triton.jit
def matvec(a_ptr, x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    ...
""",
        _matvec_cases,
        _matvec,
        (
            "Multiply each tile of `a` by `x[None, :]`, element by element, and accumulate the "
            "products in a loop.",
            "After the loop, `tl.sum(tile, axis=1)` sums each row.",
        ),
        "The kernel reads each element of `a` once and uses it once. It is bound by memory, so "
        "tensor cores cannot help.",
        Budget(traffic=1.6),
    ),
    Exercise(
        "dot_of_tiles",
        "One tile on the tensor cores",
        CHAPTER,
        "`c = a @ b` for matrices of `SIZE` by `SIZE` elements, in a single program. `a` and `b` "
        "are float16, `c` is float32.",
        """@triton.jit
def dot_of_tiles(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    ...
""",
        _one_tile_cases,
        _product,
        (
            "Load both as two-dimensional tiles.",
            "`tl.dot(a, b)` is their product, in float32.",
        ),
        "`compile(...).layouts()` shows which thread holds which elements of each operand.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "matmul",
        "Matmul",
        CHAPTER,
        f"`c = a @ b`. {_TASK}",
        _STUB.format(name="matmul", more=""),
        _matmul_cases,
        _product,
        (
            "Write a loop over `K` in steps of `BLOCK_K`, with two loads and one `tl.dot(a, b, "
            "acc)`.",
            "The accumulator is `tl.zeros((BLOCK_M, BLOCK_N), tl.float32)`.",
            "Elements beyond `K` must be 0 in both operands. Elements beyond `M` and `N` must not "
            "be loaded.",
        ),
        "Larger tiles use each loaded element more often. If neighboring programs compute "
        "neighboring tiles, they find shared elements in the L2 cache.",
        Budget(traffic=7.0, needs_tensor_cores=True),
        _priced,
    ),
    Exercise(
        "linear_relu",
        "A layer in one kernel",
        CHAPTER,
        f"`c = relu(a @ b + bias)`, where `bias` has `N` elements, in float32. {_TASK}",
        _STUB.format(name="linear_relu", more="bias_ptr, "),
        lambda draw: _matmul_cases(draw, True),
        _bias_relu,
        (
            "Finish the matmul first; then add the bias to the accumulator and apply the relu.",
            "`tl.maximum(acc + bias[None, :], 0.0)`.",
        ),
        "In the same kernel, these steps are almost free. A separate kernel would read and write "
        "all of `c` once more.",
        Budget(traffic=7.0, needs_tensor_cores=True),
        lambda draw: _priced(draw, True),
    ),
    Exercise(
        "batched_matmul",
        "Batched matmul",
        CHAPTER,
        "`c[i] = a[i] @ b[i]`, where `i` is the program's id along axis 2. " + _TASK,
        _STUB.format(name="batched_matmul", more=""),
        _batched_cases,
        _product,
        (
            "`tl.program_id(2)` is the number of the matmul.",
            "Matrix `i` of `a` starts at `a_ptr + i * M * K`.",
        ),
        "If the matrices are small, let each program compute several of them.",
        Budget(needs_tensor_cores=True),
    ),
    Exercise(
        "quantized_matmul",
        "8-bit weights",
        CHAPTER,
        "`c = (a @ b) * scale[None, :]`, where `b` is int8 and `scale` has `N` elements. " + _TASK,
        _STUB.format(name="quantized_matmul", more="scale_ptr, "),
        _quantized_cases,
        _quantized,
        (
            "`b.to(tl.float16)` is exact: float16 can represent every 8-bit integer.",
            "The scale does not depend on `K`: multiply once, after the loop.",
        ),
        "int8 weights have half the bytes of float16 weights. A matmul that is bound by memory, as "
        "in decoding token by token, can be twice as fast with them.",
        Budget(needs_tensor_cores=True),
    ),
)
