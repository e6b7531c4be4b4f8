"""The pairs: a slow kernel, its good twin, and the finding that leads from one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton.language as tl

from benchmarks.diagnosed import arithmetic_kernels as arithmetic
from benchmarks.diagnosed import gluon_kernels as gluon
from benchmarks.diagnosed import memory_kernels as memory
from benchmarks.diagnosed import product_kernels as products
from benchmarks.diagnosed import program_kernels as programs
from benchmarks.diagnosed.pairs import Pair, Tensor, Variant

MANY = 1 << 24
ROWS, COLUMNS = 4096, 4096
MATRIX = Tensor("fp32", (ROWS, COLUMNS))
RESULT = Tensor("fp32", (ROWS, COLUMNS), "zeros")
LONG = Tensor("fp32", (MANY,))
LONG_RESULT = Tensor("fp32", (MANY,), "zeros")
SUMS = Tensor("fp32", (ROWS,), "zeros")
ONE = Tensor("fp32", (1,), "zeros")

_AXES: dict[str, Any] = {"x": MATRIX, "out": RESULT, "ROWS": ROWS, "COLUMNS": COLUMNS}
_ROWS_OF: dict[str, Any] = {"x": MATRIX, "out": SUMS, "COLUMNS": COLUMNS}

_FEW_ROWS: dict[str, Any] = {
    "x": Tensor("fp32", (528, 1 << 15)),
    "out": Tensor("fp32", (528,), "zeros"),
    "COLUMNS": 1 << 15,
}


def _long(type: str, n: int = MANY, offset: int = 0, count: int = MANY) -> dict[str, Any]:
    return {
        "x": Tensor(type, (count,), offset=offset),
        "out": Tensor(type, (count,), "zeros", offset),
        "n": n,
    }


def _product(m: int, n: int, k: int, type: str = "fp16", result: str = "fp16") -> dict[str, Any]:
    return {
        "a": Tensor(type, (m, k)),
        "b": Tensor(type, (k, n)),
        "c": Tensor(result, (m, n), "zeros"),
        "M": m,
        "N": n,
        "K": k,
    }


def _matmul(
    sizes: Mapping[str, Any],
    tile: tuple[int, int, int],
    kernel: Any = products.matmul,
    constants: Mapping[str, Any] | None = None,
    **options: Any,
) -> Variant:
    bm, bn, bk = tile
    own = dict(constants or {})
    grid = (-(-sizes["M"] // bm), -(-sizes["N"] // bn), own.get("PARTS", 1))
    return Variant(kernel, sizes, grid, {"BM": bm, "BN": bn, "BK": bk, **own}, options)


def _turned(sizes: dict[str, Any]) -> dict[str, Any]:
    """The same product with b in memory as its transposed matrix."""
    return {**sizes, "b": Tensor(sizes["b"].type, sizes["b"].shape[::-1])}


_SQUARE = _product(4096, 4096, 4096)
_TALL = _product(4096, 4096, 1024)
_FP32 = _turned(_product(2048, 2048, 2048, "fp32", "fp32"))
_STACKS: dict[str, Any] = {
    "x": Tensor("fp32", (16, 2048, 2048)),
    "y": Tensor("fp32", (16, 2048, 2048)),
    "out": Tensor("fp32", (2048, 2048), "zeros"),
    "N": 2048,
    "COUNT": 16,
}

ACCESSES = (
    Pair(
        "scale-columns", "strided-access",
        Variant(memory.scale_down_columns, _AXES, (COLUMNS, ROWS // 1024), {"BLOCK": 1024}),
        Variant(memory.scale_along_rows, _AXES, (COLUMNS // 1024, ROWS), {"BLOCK": 1024}),
        "lanes along the rows", ("out",),
    ),
    Pair(
        "row-sums-by-lane", "strided-access",
        Variant(
            memory.sums_by_lane,
            {"x": Tensor("fp32", (1 << 16, 512)), "out": Tensor("fp32", (1 << 16,), "zeros"),
             "COLUMNS": 512},
            (512,), {"BLOCK": 128},
        ),
        Variant(
            memory.sums_by_tile,
            {"x": Tensor("fp32", (1 << 16, 512)), "out": Tensor("fp32", (1 << 16,), "zeros"),
             "COLUMNS": 512},
            (1 << 14,), {"ROWS": 4, "BLOCK": 512},
        ),
        "tiles whose lanes run along a row", ("out",),
    ),
    Pair(
        "transpose", "strided-access",
        Variant(memory.transpose_by_rows, _AXES, (COLUMNS // 1024, ROWS), {"BLOCK": 1024}),
        Variant(memory.transpose_by_tiles, _AXES, (COLUMNS // 64, ROWS // 64), {"BLOCK": 64}),
        "a square tile, transposed on the chip", ("out",),
    ),
    Pair(
        "embedding", "scattered-access",
        Variant(
            memory.embed_by_lane,
            {"index": Tensor("i32", (1 << 15,), "below 50000"),
             "table": Tensor("fp32", (50000, 256)),
             "out": Tensor("fp32", (1 << 15, 256), "zeros"), "WIDTH": 256},
            ((1 << 15) // 256, 256), {"BLOCK": 256},
        ),
        Variant(
            memory.embed_by_row,
            {"index": Tensor("i32", (1 << 15,), "below 50000"),
             "table": Tensor("fp32", (50000, 256)),
             "out": Tensor("fp32", (1 << 15, 256), "zeros")},
            (1 << 15,), {"WIDTH": 256}, {"num_warps": 2},
        ),
        "a program for each row", ("out",),
    ),
    Pair(
        "unspecialized-stride", "narrow-access",
        Variant(
            memory.double_by_steps_unspecialized,
            {"x": Tensor("i8", (4 * MANY,)), "out": Tensor("i8", (4 * MANY,), "zeros"), "step": 1},
            (MANY // 1024,), {"BLOCK": 4096},
        ),
        Variant(
            memory.double_by_steps,
            {"x": Tensor("i8", (4 * MANY,)), "out": Tensor("i8", (4 * MANY,), "zeros"), "step": 1},
            (MANY // 1024,), {"BLOCK": 4096},
        ),
        "a stride that may be specialized", ("out",),
    ),
    Pair(
        "unaligned-view", "narrow-access",
        Variant(memory.double, _long("i8", 4 * MANY, 1, 4 * MANY), (MANY // 1024,),
                {"BLOCK": 4096}),
        Variant(memory.double, _long("i8", 4 * MANY, 0, 4 * MANY), (MANY // 1024,),
                {"BLOCK": 4096}),
        "a separate tensor instead of a view that starts in the middle", ("out",),
    ),
    Pair(
        "odd-size", "narrow-access",
        Variant(memory.double, _long("i8", 4 * MANY - 1, 0, 4 * MANY), (MANY // 1024,),
                {"BLOCK": 4096}),
        Variant(memory.double, _long("i8", 4 * MANY, 0, 4 * MANY), (MANY // 1024,),
                {"BLOCK": 4096}),
        "a padded size", ("out",), compared=4 * MANY - 1,
    ),
    Pair(
        "loaded-start", "narrow-access",
        Variant(
            memory.double_from,
            {"x": Tensor("i8", (4 * MANY,)), "out": Tensor("i8", (4 * MANY,), "zeros"),
             "start": Tensor("i32", (1,), "zeros")},
            (MANY // 1024,), {"BLOCK": 4096},
        ),
        Variant(
            memory.double_from_multiple,
            {"x": Tensor("i8", (4 * MANY,)), "out": Tensor("i8", (4 * MANY,), "zeros"),
             "start": Tensor("i32", (1,), "zeros")},
            (MANY // 1024,), {"BLOCK": 4096},
        ),
        "tl.multiple_of of the start", ("out",),
    ),
)  # fmt: skip

THREADS = (
    Pair(
        "small-blocks", "small-tile",
        Variant(memory.double, _long("fp32"), (MANY // 64,), {"BLOCK": 64}, {"num_warps": 2}),
        Variant(memory.double, _long("fp32"), (MANY // 1024,), {"BLOCK": 1024}),
        "BLOCK=1024", ("out",),
    ),
    Pair(
        "small-blocks-in-a-loop", "small-tile",
        Variant(memory.row_sums, _FEW_ROWS, (528,), {"BLOCK": 128}),
        Variant(memory.row_sums, _FEW_ROWS, (528,), {"BLOCK": 4096}),
        "BLOCK=4096", ("out",),
    ),
    Pair(
        "short-rows", "idle-threads",
        Variant(
            memory.softmax,
            {"x": Tensor("fp32", (1 << 16, 128)), "out": Tensor("fp32", (1 << 16, 128), "zeros")},
            (1 << 16,), {"COLUMNS": 128}, {"num_warps": 8},
        ),
        Variant(
            memory.softmax,
            {"x": Tensor("fp32", (1 << 16, 128)), "out": Tensor("fp32", (1 << 16, 128), "zeros")},
            (1 << 16,), {"COLUMNS": 128}, {"num_warps": 1},
        ),
        "num_warps=1", ("out",),
    ),
    Pair(
        "norm-of-short-rows", "idle-threads",
        Variant(
            memory.normalize,
            {"x": Tensor("fp16", (1 << 16, 256)), "weight": Tensor("fp32", (256,)),
             "out": Tensor("fp16", (1 << 16, 256), "zeros")},
            (1 << 16,), {"COLUMNS": 256}, {"num_warps": 16},
        ),
        Variant(
            memory.normalize,
            {"x": Tensor("fp16", (1 << 16, 256)), "weight": Tensor("fp32", (256,)),
             "out": Tensor("fp16", (1 << 16, 256), "zeros")},
            (1 << 16,), {"COLUMNS": 256}, {"num_warps": 1},
        ),
        "num_warps=1", ("out",),
    ),
    Pair(
        "squares-one-by-one", "scalar-work",
        Variant(memory.squares_one_by_one, _ROWS_OF, (ROWS,)),
        Variant(memory.squares, _ROWS_OF, (ROWS,), {"BLOCK": 2048}),
        "a tile an iteration", ("out",),
    ),
    Pair(
        "largest-one-by-one", "scalar-work",
        Variant(memory.largest_one_by_one, _ROWS_OF, (ROWS,)),
        Variant(memory.largest, _ROWS_OF, (ROWS,), {"BLOCK": 2048}),
        "a tile an iteration", ("out",),
    ),
)  # fmt: skip

GRIDS = (
    Pair(
        "copy-by-eight", "few-programs",
        Variant(memory.copy_in_turns, _long("fp32"), (8,), {"BLOCK": 4096}),
        Variant(memory.copy_in_turns, _long("fp32"), (1056,), {"BLOCK": 4096}),
        "grid=(1056,)", ("out",),
    ),
    Pair(
        "column-sums", "few-programs",
        Variant(
            memory.column_sums,
            {"x": Tensor("fp32", (1 << 16, 256)), "out": Tensor("fp32", (256,), "zeros"),
             "ROWS": 1 << 16, "COLUMNS": 256},
            (2, 1), {"TALL": 32, "BLOCK": 128},
        ),
        Variant(
            memory.column_sums,
            {"x": Tensor("fp32", (1 << 16, 256)), "out": Tensor("fp32", (256,), "zeros"),
             "ROWS": 1 << 16, "COLUMNS": 256},
            (2, 256), {"TALL": 32, "BLOCK": 128},
        ),
        "the rows divided among programs", ("out",),
    ),
    Pair(
        "deep-product", "few-programs",
        _matmul(_product(256, 256, 1 << 16, result="fp32"), (128, 128, 64), num_warps=8),
        _matmul(
            _product(256, 256, 1 << 16, result="fp32"), (128, 128, 64),
            constants={"PARTS": 64}, num_warps=8,
        ),
        "split-K", ("c",), tolerance=5e-3,
        also=("narrow-access",),  # the compiler does not know that K // PARTS is a multiple of 16
    ),
    Pair(
        "one-more-than-fits", "tail-wave",
        Variant(
            arithmetic.busy,
            {"x": Tensor("fp32", (136 * 16384,)), "out": Tensor("fp32", (136 * 16384,), "zeros"),
             "TURNS": 3000},
            (136,), {"BLOCK": 16384}, {"num_warps": 16},
        ),
        Variant(
            arithmetic.busy,
            {"x": Tensor("fp32", (136 * 16384,)), "out": Tensor("fp32", (136 * 16384,), "zeros"),
             "TURNS": 3000},
            (136 * 16,), {"BLOCK": 1024}, {"num_warps": 4},
        ),
        "smaller tiles", ("out",),
    ),
)  # fmt: skip

RESOURCES = (
    Pair(
        "many-stages", "too-many-stages",
        _matmul(_TALL, (128, 128, 64), num_stages=6, num_warps=8),
        _matmul(_TALL, (128, 128, 64), num_stages=3, num_warps=8),
        "num_stages=3", ("c",), tolerance=5e-3,
    ),
    Pair(
        "large-tile-few-warps", "spills",
        _matmul(_SQUARE, (256, 256, 32), num_stages=3, num_warps=4),
        _matmul(_SQUARE, (128, 256, 64), num_stages=3, num_warps=8),
        "half the tile, and 8 warps", ("c",), tolerance=5e-3,
    ),
    Pair(
        "long-window-one-warp", "spills",
        Variant(
            arithmetic.window_sums,
            {"x": Tensor("fp32", (2, 1 << 22)), "out": Tensor("fp32", (1 << 22,), "zeros"),
             "n": 1 << 22, "TURNS": 64},
            ((1 << 22) // 4096,), {"BLOCK": 4096}, {"num_warps": 1},
        ),
        Variant(
            arithmetic.window_sums,
            {"x": Tensor("fp32", (2, 1 << 22)), "out": Tensor("fp32", (1 << 22,), "zeros"),
             "n": 1 << 22, "TURNS": 64},
            ((1 << 22) // 4096,), {"BLOCK": 4096}, {"num_warps": 8},
        ),
        "num_warps=8", ("out",),
    ),
    Pair(
        "capped-registers", "spills",
        _matmul(_SQUARE, (128, 128, 64), num_stages=3, num_warps=4, maxnreg=128),
        _matmul(_SQUARE, (128, 128, 64), num_stages=3, num_warps=4),
        "without maxnreg", ("c",), tolerance=5e-3,
    ),
)  # fmt: skip

PRODUCTS = (
    Pair(
        "exact-fp32", "no-tensor-cores",
        _matmul(_FP32, (64, 64, 32), products.matmul_turned, {"PRECISION": "ieee"}),
        _matmul(_FP32, (128, 128, 32), products.matmul_turned, num_warps=8),
        'input_precision="tf32"', ("c",), tolerance=1e-2,
    ),
    Pair(
        "sums-of-products", "no-tensor-cores",
        _matmul(_turned(_product(2048, 2048, 2048)), (16, 16, 32), products.product_by_sums),
        _matmul(_turned(_product(2048, 2048, 2048)), (128, 128, 64), products.matmul_turned),
        "tl.dot", ("c",), tolerance=5e-3,
    ),
    Pair(
        "two-warps", "older-matrix-instruction",
        _matmul(_SQUARE, (128, 64, 64), num_warps=2),
        _matmul(_SQUARE, (128, 128, 64), num_warps=8),
        "num_warps=8 for its tile", ("c",), tolerance=5e-3,
    ),
    Pair(
        "flat-tiles", "older-matrix-instruction",
        _matmul(_SQUARE, (32, 256, 64), num_warps=4),
        _matmul(_SQUARE, (128, 128, 64), num_warps=8),
        "128 rows a tile", ("c",), tolerance=5e-3,
    ),
    Pair(
        "widened-operands", "widened-product",
        _matmul(_SQUARE, (128, 128, 32), products.matmul_widened, num_warps=8),
        _matmul(_SQUARE, (128, 128, 64), num_warps=8),
        "operands as they are", ("c",), tolerance=1e-2,
    ),
    Pair(
        "one-stage", "loop-not-pipelined",
        _matmul(_SQUARE, (128, 128, 64), num_stages=1, num_warps=8),
        _matmul(_SQUARE, (128, 128, 64), num_stages=3, num_warps=8),
        "num_stages=3", ("c",), tolerance=5e-3,
    ),
    Pair(
        "while-loop", "loop-not-pipelined",
        _matmul(_SQUARE, (128, 128, 64), products.matmul_while, num_warps=8),
        _matmul(_SQUARE, (128, 128, 64), num_warps=8),
        "a for loop", ("c",), tolerance=5e-3,
    ),
    Pair(
        "row-sums-plain-loop", "loop-not-pipelined",
        Variant(
            memory.row_sums,
            {"x": Tensor("fp32", (264, 1 << 16)), "out": Tensor("fp32", (264,), "zeros"),
             "COLUMNS": 1 << 16},
            (264,), {"BLOCK": 2048}, {"num_warps": 4},
        ),
        Variant(
            memory.row_sums_ahead,
            {"x": Tensor("fp32", (264, 1 << 16)), "out": Tensor("fp32", (264,), "zeros"),
             "COLUMNS": 1 << 16},
            (264,), {"BLOCK": 2048}, {"num_warps": 4},
        ),
        "tl.range(..., num_stages=4)", ("out",),
    ),
    Pair(
        "two-stages", "too-few-stages",
        _matmul(_product(1024, 2048, 16384), (128, 128, 32), num_stages=2, num_warps=8),
        _matmul(_product(1024, 2048, 16384), (128, 128, 32), num_stages=4, num_warps=8),
        "num_stages=4", ("c",), tolerance=1e-2,
    ),
    Pair(
        "small-product-tiles", "repeated-loads",
        _matmul(_SQUARE, (32, 32, 32), num_warps=4),
        _matmul(_SQUARE, (128, 128, 64), num_warps=8),
        "tiles of 128 by 128", ("c",), tolerance=5e-3,
    ),
    Pair(
        "small-product-tiles-tf32", "repeated-loads",
        _matmul(_FP32, (64, 32, 32), products.matmul_turned, num_warps=4),
        _matmul(_FP32, (128, 128, 32), products.matmul_turned, num_warps=8),
        "tiles of 128 by 128", ("c",), tolerance=1e-2,
    ),
    Pair(
        "turned-each-time", "conversion-in-loop",
        Variant(products.sum_with_turned, _STACKS, (32, 32), {"SIZE": 64}),
        Variant(products.sum_turned_once, _STACKS, (32, 32), {"SIZE": 64}),
        "tiles added up as they are, and turned once", ("out",),
    ),
)  # fmt: skip

ARITHMETIC = (
    Pair(
        "logistic-map", "fp64-arithmetic",
        Variant(arithmetic.iterate, {"x": LONG, "out": LONG_RESULT, "TURNS": 200},
                (MANY // 1024,), {"BLOCK": 1024, "TYPE": tl.float64}),
        Variant(arithmetic.iterate, {"x": LONG, "out": LONG_RESULT, "TURNS": 200},
                (MANY // 1024,), {"BLOCK": 1024, "TYPE": tl.float32}),
        "fp32", ("out",),
    ),
    Pair(
        "lengths", "fp64-arithmetic",
        Variant(arithmetic.distances, _ROWS_OF, (ROWS,), {"BLOCK": 1024, "TYPE": tl.float64}),
        Variant(arithmetic.distances, _ROWS_OF, (ROWS,), {"BLOCK": 1024, "TYPE": tl.float32}),
        "fp32", ("out",),
    ),
    Pair(
        "remainders", "integer-division",
        Variant(
            arithmetic.hash_by_remainder,
            {"x": Tensor("i32", (MANY,), "below 1000"), "out": Tensor("i32", (MANY,), "zeros"),
             "TURNS": 32, "MODULUS": 1 << 16},
            (MANY // 1024,), {"BLOCK": 1024},
        ),
        Variant(
            arithmetic.hash_by_mask,
            {"x": Tensor("i32", (MANY,), "below 1000"), "out": Tensor("i32", (MANY,), "zeros"),
             "TURNS": 32},
            (MANY // 1024,), {"BLOCK": 1024, "MODULUS": 1 << 16},
        ),
        "a power of two that is tl.constexpr", ("out",),
    ),
    Pair(
        "relaxation", "float-division",
        Variant(
            arithmetic.relax_by_division,
            {"x": LONG, "divisor": Tensor("fp32", (MANY,), "below 7"), "out": LONG_RESULT,
             "TURNS": 64},
            (MANY // 1024,), {"BLOCK": 1024},
        ),
        Variant(
            arithmetic.relax_by_product,
            {"x": LONG, "divisor": Tensor("fp32", (MANY,), "below 7"), "out": LONG_RESULT,
             "TURNS": 64},
            (MANY // 1024,), {"BLOCK": 1024},
        ),
        "the reciprocal once", ("out",),
    ),
    Pair(
        "walks", "wide-integers",
        Variant(
            arithmetic.walk,
            {"x": Tensor("i32", (MANY,), "below 1000"), "out": Tensor("i32", (MANY,), "zeros"),
             "TURNS": 200, "LIMIT": 1 << 24},
            (MANY // 1024,), {"BLOCK": 1024, "TYPE": tl.int64},
        ),
        Variant(
            arithmetic.walk,
            {"x": Tensor("i32", (MANY,), "below 1000"), "out": Tensor("i32", (MANY,), "zeros"),
             "TURNS": 200, "LIMIT": 1 << 24},
            (MANY // 1024,), {"BLOCK": 1024, "TYPE": tl.int32},
        ),
        "int32", ("out",),
    ),
)  # fmt: skip

EXCHANGES = (
    Pair(
        "normalized-each-time", "reduction-across-warps",
        Variant(
            arithmetic.normalize_again, {"x": Tensor("fp32", (1 << 15, 512)),
            "out": Tensor("fp32", (1 << 15, 512), "zeros"), "TURNS": 64},
            (1 << 15,), {"BLOCK": 512}, {"num_warps": 8},
        ),
        Variant(
            arithmetic.normalize_again, {"x": Tensor("fp32", (1 << 15, 512)),
            "out": Tensor("fp32", (1 << 15, 512), "zeros"), "TURNS": 64},
            (1 << 15,), {"BLOCK": 512}, {"num_warps": 1},
        ),
        "num_warps=1", ("out",),
    ),
    Pair(
        "peaks-each-time", "reduction-across-warps",
        Variant(
            arithmetic.peaks_each_time,
            {"x": MATRIX, "out": SUMS, "TURNS": 256}, (ROWS,), {"BLOCK": 4096}, {"num_warps": 8},
        ),
        Variant(
            arithmetic.peaks_by_scaling,
            {"x": MATRIX, "out": SUMS, "TURNS": 256}, (ROWS,), {"BLOCK": 4096}, {"num_warps": 8},
        ),
        "one reduction, in front of the loop", ("out",),
    ),
    Pair(
        "unswizzled-transpose", "bank-conflict",
        Variant(
            gluon.transpose, {"x": MATRIX, "out": RESULT, "N": COLUMNS},
            (COLUMNS // 32, ROWS // 32), {"SIZE": 32, "MOST": 1},
        ),
        Variant(
            gluon.transpose, {"x": MATRIX, "out": RESULT, "N": COLUMNS},
            (COLUMNS // 32, ROWS // 32), {"SIZE": 32, "MOST": 32},
        ),
        "a swizzled shared layout", ("out",),
    ),
    Pair(
        "one-total", "atomic-contention",
        Variant(
            memory.total_by_elements, {"x": LONG, "out": ONE}, (MANY // 1024,), {"BLOCK": 1024}
        ),
        Variant(
            memory.total_by_few, {"x": LONG, "out": ONE, "n": MANY}, (1056,), {"BLOCK": 4096}
        ),
        "each program adds up first", ("out",), tolerance=2e-2,
    ),
    Pair(
        "a-total-of-many-programs", "atomic-contention",
        Variant(
            memory.total_by_programs, {"x": LONG, "out": ONE}, (MANY // 256,), {"BLOCK": 256},
            {"num_warps": 1},
        ),
        Variant(
            memory.total_by_few, {"x": LONG, "out": ONE, "n": MANY}, (1056,), {"BLOCK": 4096}
        ),
        "fewer programs that do more each", ("out",), tolerance=2e-2,
    ),
    Pair(
        "column-totals", "atomic-contention",
        Variant(
            memory.column_totals_by_rows,
            {"x": Tensor("fp32", (1 << 16, 256)), "out": Tensor("fp32", (256,), "zeros")},
            (1 << 16,), {"COLUMNS": 256}, {"num_warps": 2},
        ),
        Variant(
            memory.column_sums,
            {
                "x": Tensor("fp32", (1 << 16, 256)),
                "out": Tensor("fp32", (256,), "zeros"),
                "ROWS": 1 << 16,
                "COLUMNS": 256,
            },
            (2, 256),
            {"TALL": 32, "BLOCK": 128},
        ),
        "rows added up first", ("out",), tolerance=1e-2,
    ),
    Pair(
        "bias-each-time", "loop-invariant-load",
        Variant(
            memory.bias_reloaded,
            {"x": Tensor("fp16", (1 << 15, 1024)), "bias": Tensor("fp32", (16, 1024)),
             "out": Tensor("fp16", (1 << 15, 1024), "zeros"), "ROWS": 1 << 15},
            (1056,), {"COLUMNS": 1024, "BIASES": 16},
        ),
        Variant(
            memory.bias_kept,
            {"x": Tensor("fp16", (1 << 15, 1024)), "bias": Tensor("fp32", (16, 1024)),
             "out": Tensor("fp16", (1 << 15, 1024), "zeros"), "ROWS": 1 << 15},
            (1056,), {"COLUMNS": 1024, "BIASES": 16},
        ),
        "loaded once, in front of the loop", ("out",), tolerance=5e-3,
    ),
)  # fmt: skip

_LONG_ROWS: dict[str, Any] = {"x": Tensor("fp32", (2112, 1 << 15)), "COLUMNS": 1 << 15}
_LONG_SUMS = Tensor("fp32", (2112,), "zeros")
_GRAM: dict[str, Any] = {
    "x": Tensor("fp16", (8192, 2048)),
    "out": Tensor("fp32", (2048, 2048), "zeros"),
    "ROWS": 8192,
    "COLUMNS": 2048,
}
_COUNTED: dict[str, Any] = {
    "index": Tensor("i32", (1 << 22,), "below 65536"),
    "out": Tensor("i32", (1 << 16,), "zeros"),
}
_GRADIENTS: dict[str, Any] = {
    "index": Tensor("i32", (1 << 16,), "below 32768"),
    "x": Tensor("fp32", (1 << 16, 256)),
    "out": Tensor("fp32", (1 << 15, 256), "zeros"),
    "COUNT": 1 << 16,
}
_LOCKED: dict[str, Any] = {
    "x": Tensor("fp32", (1 << 16, 1024)),
    "out": Tensor("fp32", (1024,), "zeros"),
    "lock": Tensor("i32", (1,), "zeros"),
    "ROWS": 64,
}
_SCRATCH: dict[str, Any] = {"x": LONG, "scratch": LONG_RESULT, "out": LONG_RESULT, "n": MANY}
_ITERATED: dict[str, Any] = {"x": LONG, "out": LONG_RESULT, "TURNS": 16}

LATER = (
    Pair(
        "product-by-columns", "no-tensor-cores",
        Variant(
            products.product_by_columns, _product(2048, 2048, 2048), (32, 32),
            {"BM": 64, "BN": 64},
        ),
        _matmul(_product(2048, 2048, 2048), (128, 128, 64), num_warps=8),
        "tl.dot instead of products of columns and rows", ("c",), tolerance=1e-2,
    ),
    Pair(
        "gram-by-rows", "no-tensor-cores",
        Variant(products.gram_by_rows, _GRAM, (32, 32), {"BN": 64}),
        Variant(products.gram_by_tiles, _GRAM, (16, 16), {"BN": 128, "BK": 64}, {"num_warps": 8}),
        "tl.dot instead of multiply-adds", ("out",), tolerance=1e-2,
    ),
    Pair(
        "counts-in-order", "ordered-atomic",
        Variant(memory.counts_in_order, _COUNTED, (1 << 12,), {"BLOCK": 1024}),
        Variant(memory.counts_in_any_order, _COUNTED, (1 << 12,), {"BLOCK": 1024}),
        'sem="relaxed"', ("out",),
    ),
    Pair(
        "gradients-in-order", "ordered-atomic",
        Variant(memory.gradients_in_order, _GRADIENTS, (2112,), {"WIDTH": 256}, {"num_warps": 2}),
        Variant(
            memory.gradients_in_any_order, _GRADIENTS, (2112,), {"WIDTH": 256}, {"num_warps": 2}
        ),
        'sem="relaxed"', ("out",),
    ),
    Pair(
        "total-by-lock", "lock",
        Variant(
            memory.total_by_lock,
            {"x": LONG, "out": ONE, "lock": Tensor("i32", (1,), "zeros")},
            (MANY // 1024,), {"BLOCK": 1024},
        ),
        Variant(
            memory.total_by_few, {"x": LONG, "out": ONE, "n": MANY}, (1056,), {"BLOCK": 1024}
        ),
        "atomics of a few programs instead of a lock", ("out",), tolerance=1e-2,
    ),
    Pair(
        "column-totals-by-lock", "lock",
        Variant(memory.column_totals_by_lock, _LOCKED, (1024,), {"COLUMNS": 1024}),
        Variant(memory.column_totals_by_atomics, _LOCKED, (1024,), {"COLUMNS": 1024}),
        "atomics instead of a lock", ("out",), tolerance=1e-2,
    ),
    Pair(
        "variances-in-two-passes", "loaded-again",
        Variant(
            memory.variances_in_two_passes, {**_LONG_ROWS, "out": _LONG_SUMS}, (2112,),
            {"BLOCK": 2048},
        ),
        Variant(
            memory.variances_in_one_pass, {**_LONG_ROWS, "out": _LONG_SUMS}, (2112,),
            {"BLOCK": 2048},
        ),
        "both sums in one loop", ("out",), tolerance=1e-2,
    ),
    Pair(
        "extremes-in-two-passes", "loaded-again",
        Variant(
            memory.extremes_in_two_passes, {**_LONG_ROWS, "low": _LONG_SUMS, "high": _LONG_SUMS},
            (2112,), {"BLOCK": 2048},
        ),
        Variant(
            memory.extremes_in_one_pass, {**_LONG_ROWS, "low": _LONG_SUMS, "high": _LONG_SUMS},
            (2112,), {"BLOCK": 2048},
        ),
        "both in one loop", ("low", "high"),
    ),
    Pair(
        "shifted-through-memory", "loaded-again",
        Variant(memory.shifted_through_memory, _SCRATCH, (MANY // 1024,), {"BLOCK": 1024}),
        Variant(memory.shifted_in_registers, _SCRATCH, (MANY // 1024,), {"BLOCK": 1024}),
        "the tile stays in registers", ("out",),
    ),
    Pair(
        "cubes-by-pow", "costly-function",
        Variant(arithmetic.cubes_by_pow, _ITERATED, (MANY // 1024,), {"BLOCK": 1024}),
        Variant(arithmetic.cubes_by_products, _ITERATED, (MANY // 1024,), {"BLOCK": 1024}),
        "products instead of pow", ("out",),
    ),
    Pair(
        "roots-by-pow", "costly-function",
        Variant(arithmetic.roots_by_pow, _ITERATED, (MANY // 1024,), {"BLOCK": 1024}),
        Variant(arithmetic.roots_by_rsqrt, _ITERATED, (MANY // 1024,), {"BLOCK": 1024}),
        "rsqrt instead of pow", ("out",),
    ),
)  # fmt: skip

_PADDED: dict[str, Any] = {
    "x": Tensor("fp32", (1 << 15, 8192)), "out": Tensor("fp32", (1 << 15,), "zeros"),
    "LENGTH": 1000,
}  # fmt: skip
_IMAGES: dict[str, Any] = {
    "x": Tensor("fp32", (1 << 13, 40, 40)), "out": Tensor("fp32", (1 << 13, 40, 40), "zeros"),
    "TURNS": 64,
}  # fmt: skip
_TRIANGLE: dict[str, Any] = {
    "x": Tensor("fp32", (8192, 8192)), "out": Tensor("fp32", (8192,), "zeros"), "SIZE": 8192,
}  # fmt: skip
_PLACES: dict[str, Any] = {
    "x": Tensor("fp32", (132, 16384)), "out": Tensor("fp32", (132, 16384), "zeros"), "TURNS": 32,
}  # fmt: skip
_TALLEST = _product(32768, 4096, 4096)
_LEVELS: dict[str, Any] = {
    "x": Tensor("fp32", (4096, 16384)), "out": Tensor("i32", (8, 4096), "zeros"), "ROWS": 4096,
    "COLUMNS": 16384,
}  # fmt: skip
_KINDS: dict[str, Any] = {
    "x": LONG, "kinds": Tensor("i32", (MANY // 1024,), "below 3"), "out": LONG_RESULT, "TURNS": 128,
}  # fmt: skip
_MODES: dict[str, Any] = {"x": LONG, "out": LONG_RESULT, "MODE": 0, "TURNS": 32}


def _attention(heads: int, rows: int, width: int, **chosen: Any) -> Variant:
    tensors = {name: Tensor("fp16", (heads, rows, width)) for name in ("q", "k", "v")}
    out = Tensor("fp16", (heads, rows, width), "zeros")
    constants = {"BM": 128, "BN": 64, "WIDTH": width, "CAUSAL": True, "SKIPS": True, **chosen}
    warps = constants.pop("num_warps", 8)
    return Variant(
        programs.attention, {**tensors, "out": out, "N": rows}, (rows // constants["BM"], heads),
        constants, {"num_warps": warps, "num_stages": 2},
    )  # fmt: skip


NEWEST = (
    Pair(
        "padding-to-the-end", "masked-off",
        Variant(programs.sums_of_all_blocks, _PADDED, (1 << 15,), {"STRIDE": 8192, "BLOCK": 512}),
        Variant(programs.sums_of_used_blocks, _PADDED, (1 << 15,), {"STRIDE": 8192, "BLOCK": 512}),
        "a loop that ends with the row", ("out",), predicted=2.8,
    ),
    Pair(
        "images-in-large-tiles", "masked-off",
        Variant(
            programs.steps_of_images, {**_IMAGES, "SIZE": 40}, (1 << 13,), {"SIDE": 64},
            {"num_warps": 8},
        ),
        Variant(
            programs.steps_of_elements, {**_IMAGES, "n": (1 << 13) * 1600},
            ((1 << 13) * 1600 // 1024,), {"BLOCK": 1024},
        ),
        "tiles of elements in a row", ("out",), predicted=2.5,
    ),
    Pair(
        "triangle-in-bands", "uneven-programs",
        Variant(
            programs.triangle_in_bands, _TRIANGLE, (128,), {"BLOCK": 1024}, {"num_warps": 8}
        ),
        Variant(
            programs.triangle_in_turns, _TRIANGLE, (128,), {"BLOCK": 1024}, {"num_warps": 8}
        ),
        "rows in turns", ("out",), predicted=1.8,
    ),
    Pair(
        "steps-by-place", "uneven-programs",
        Variant(programs.steps_by_place, _PLACES, (132,), {"BLOCK": 16384}, {"num_warps": 16}),
        Variant(
            programs.steps_by_opposite_places, _PLACES, (132,), {"BLOCK": 16384},
            {"num_warps": 16},
        ),
        "each program takes a part with many steps and one with few", ("out",), predicted=1.9,
    ),
    Pair(
        "attention-over-all-blocks", "masked-blocks",
        _attention(64, 4096, 64, SKIPS=False),
        _attention(64, 4096, 64),
        "a loop that ends at the diagonal", ("out",), tolerance=1e-2, predicted=1.9,
    ),
    Pair(
        "triangle-times-all-blocks", "masked-blocks",
        _matmul(_SQUARE, (128, 128, 64), programs.triangle_times_all, num_warps=8),
        _matmul(_SQUARE, (128, 128, 64), programs.triangle_times_lower, num_warps=8),
        "a loop that ends at the diagonal", ("c",), tolerance=5e-3, predicted=2.2,
    ),
    Pair(
        "rows-by-where", "both-sides",
        Variant(programs.rows_by_where, _KINDS, (MANY // 1024,), {"BLOCK": 1024}),
        Variant(programs.rows_by_if, _KINDS, (MANY // 1024,), {"BLOCK": 1024}),
        "if instead of tl.where", ("out",), predicted=1.8,
    ),
    Pair(
        "mode-by-where", "both-sides",
        Variant(programs.mode_by_where, _MODES, (MANY // 1024,), {"BLOCK": 1024}),
        Variant(programs.mode_by_if, _MODES, (MANY // 1024,), {"BLOCK": 1024}),
        "if instead of tl.where", ("out",), predicted=4.0,
    ),
    Pair(
        "attention-on-four-warps", "low-occupancy",
        _attention(32, 4096, 128, BN=128, CAUSAL=False, SKIPS=False, num_warps=4),
        _attention(32, 4096, 128, BN=128, CAUSAL=False, SKIPS=False, num_warps=8),
        "num_warps=8", ("out",), tolerance=1e-2, predicted=1.6,
    ),
    Pair(
        "small-blocks-of-four-warps", "small-tile",
        Variant(memory.double, _long("fp32"), (MANY // 64,), {"BLOCK": 64}),
        Variant(memory.double, _long("fp32"), (MANY // 1024,), {"BLOCK": 1024}),
        "BLOCK=1024 rather than num_warps=2", ("out",), predicted=5.5,
    ),
)  # fmt: skip
"""Their gains were predicted before a GPU timed them."""

ORDERS = (
    Pair(
        "tall-product-in-columns", "program-order",
        _matmul(_TALLEST, (128, 128, 64), num_warps=8),
        Variant(
            programs.matmul_in_groups, _TALLEST, (256 * 32,),
            {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8}, {"num_warps": 8},
        ),
        "programs in groups of 8 rows of tiles", ("c",), tolerance=5e-3, predicted=1.3,
    ),
    Pair(
        "levels-one-by-one", "program-order",
        Variant(programs.counts_level_by_level, _LEVELS, (4096, 8), {"BLOCK": 2048}),
        Variant(programs.counts_row_by_row, _LEVELS, (8, 4096), {"BLOCK": 2048}),
        "programs of the same row next to each other", ("out",), predicted=1.3,
    ),
)  # fmt: skip

PAIRS = (
    *ACCESSES, *THREADS, *GRIDS, *RESOURCES, *PRODUCTS, *ARITHMETIC, *EXCHANGES, *LATER, *NEWEST,
    *ORDERS,
)  # fmt: skip
