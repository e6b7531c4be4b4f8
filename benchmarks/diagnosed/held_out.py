"""Pairs that are left out of every fit. Their gains were predicted by their author, before any GPU
timed them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.diagnosed import held_out_kernels as kernels
from benchmarks.diagnosed.pairs import Pair, Tensor, Variant
from benchmarks.diagnosed.product_kernels import matmul

_MANY = 1 << 24


def _zeros(type: str, *shape: int) -> Tensor:
    return Tensor(type, shape, "zeros")


_ROTATED: dict[str, Any] = {
    "x": Tensor("fp32", (16384, 1024)), "angle": Tensor("fp32", (16384, 512)),
    "out": _zeros("fp32", 16384, 1024), "HALF": 512,
}  # fmt: skip
_BAGS: dict[str, Any] = {
    "index": Tensor("i32", (32, 16384), "below 100000"), "table": Tensor("fp32", (100_000, 128)),
    "out": _zeros("fp32", 16384, 128), "BAGS": 16384,
}  # fmt: skip
_GATED: dict[str, Any] = {
    "gate": Tensor("fp16", (_MANY,)), "up": Tensor("fp16", (_MANY,)), "out": _zeros("fp16", _MANY),
    "n": _MANY,
}  # fmt: skip
_CLASSES: dict[str, Any] = {
    "x": Tensor("fp32", (1 << 17, 64)), "out": _zeros("fp32", 1 << 17, 64),
}  # fmt: skip
_VECTORS: dict[str, Any] = {
    "x": Tensor("fp32", (_MANY,)), "y": Tensor("fp32", (_MANY,)), "out": _zeros("fp32", 1),
    "n": _MANY,
}  # fmt: skip
_BODIES: dict[str, Any] = {"x": Tensor("fp32", (33792,)), "out": _zeros("fp32", 33792)}
_LONG: dict[str, Any] = {"x": Tensor("fp32", (2048, 16384)), "out": _zeros("fp32", 2048, 16384)}
_SCORES: dict[str, Any] = {
    "q": Tensor("fp16", (32, 1024, 64)), "k": Tensor("fp16", (32, 1024, 64)),
    "out": _zeros("fp32", 32, 1024, 1024), "N": 1024,
}  # fmt: skip
_LINEAR: dict[str, Any] = {
    "x": Tensor("bf16", (4096, 2048)), "weight": Tensor("bf16", (4096, 2048)),
    "bias": Tensor("fp32", (4096,)), "out": _zeros("bf16", 4096, 4096), "M": 4096, "N": 4096,
    "K": 2048,
}  # fmt: skip
_ROWS: dict[str, Any] = {
    "x": Tensor("fp32", (2112, 1 << 15)), "out": _zeros("fp32", 2112, 1 << 15), "COLUMNS": 1 << 15,
}  # fmt: skip
_COUNTED: dict[str, Any] = {"x": Tensor("i32", (_MANY,), "below 64"), "out": _zeros("i32", 64)}
_SOLVED: dict[str, Any] = {
    "x": Tensor("fp32", (_MANY,)), "out": _zeros("fp32", _MANY), "kind": 2,
}  # fmt: skip
_IMAGES: dict[str, Any] = {
    "x": Tensor("fp32", (160, 112, 1000)), "shift": Tensor("fp32", (112,)),
    "scale": Tensor("fp32", (1000,)), "out": _zeros("fp32", 160, 112, 1000),
    "n": 160 * 112 * 1000, "CHANNELS": 112, "WIDTH": 1000,
}  # fmt: skip
_SUMMED: dict[str, Any] = {
    "x": Tensor("fp32", (4096, 16384)), "out": _zeros("fp32", 4096), "COLUMNS": 16384,
}  # fmt: skip
_BAND: dict[str, Any] = {
    "a": Tensor("fp16", (4096, 4096)), "b": Tensor("fp16", (4096, 4096)),
    "c": _zeros("fp16", 4096, 4096), "M": 4096, "N": 4096, "K": 4096,
}  # fmt: skip
_TILE = {"BM": 128, "BN": 128, "BK": 64}
_POINTS: dict[str, Any] = {
    "x": Tensor("fp32", (1 << 22, 16)), "centers": Tensor("fp32", (8, 16)),
    "out": _zeros("fp32", 8, 1 << 22), "POINTS": 1 << 22,
}  # fmt: skip


def _blend(offset: int) -> Variant:
    first = Tensor("u8", (4 * _MANY,), "below 200", offset)
    arguments = {
        "a": first, "b": Tensor("u8", (4 * _MANY,), "below 200"), "out": _zeros("u8", 4 * _MANY),
    }  # fmt: skip
    return Variant(kernels.blended, arguments, (_MANY // 1024,), {"BLOCK": 4096})


_FIRST = (
    Pair(
        "rotary-by-token", "strided-access",
        Variant(kernels.rotated_by_token, _ROTATED, (64, 512), {"BLOCK": 256}),
        Variant(kernels.rotated_by_feature, _ROTATED, (16384,), {"BLOCK": 512}),
        "lanes along the features", ("out",), predicted=6.0,
    ),
    Pair(
        "bags-by-lane", "scattered-access",
        Variant(kernels.bags_by_lane, {**_BAGS, "WIDTH": 128, "SIZE": 32}, (64, 128),
                {"BLOCK": 256}),
        Variant(kernels.bags_by_feature, {**_BAGS, "SIZE": 32}, (16384,), {"WIDTH": 128},
                {"num_warps": 1}),
        "lanes along the features", ("out",), predicted=5.0,
    ),
    Pair(
        "blend-of-a-view", "narrow-access", _blend(3), _blend(0),
        "a separate tensor instead of a view that starts in the middle", ("out",), predicted=1.3,
    ),
    Pair(
        "gates-in-small-blocks", "small-tile",
        Variant(kernels.gated, _GATED, (_MANY // 128,), {"BLOCK": 128}),
        Variant(kernels.gated, _GATED, (_MANY // 2048,), {"BLOCK": 2048}),
        "BLOCK=2048", ("out",), predicted=2.8,
    ),
    Pair(
        "few-classes", "idle-threads",
        Variant(kernels.log_softmax, _CLASSES, (1 << 17,), {"CLASSES": 64}, {"num_warps": 4}),
        Variant(kernels.log_softmax, _CLASSES, (1 << 17,), {"CLASSES": 64}, {"num_warps": 1}),
        "num_warps=1", ("out",), predicted=1.4,
        also=("small-tile",),  # as many programs as of norm-row-by-row, each of as little
    ),
    Pair(
        "dot-by-sixteen", "few-programs",
        Variant(kernels.dot_of_vectors, _VECTORS, (16,), {"BLOCK": 2048}),
        Variant(kernels.dot_of_vectors, _VECTORS, (528,), {"BLOCK": 2048}),
        "grid=(528,)", ("out",), tolerance=2e-2, predicted=6.0,
    ),
    Pair(
        "forces-in-bands", "uneven-programs",
        Variant(kernels.forces_in_bands, _BODIES, (132,), {"BLOCK": 256, "WIDE": 32},
                {"num_warps": 8}),
        Variant(kernels.forces_from_both_ends, _BODIES, (132,), {"BLOCK": 256, "WIDE": 32},
                {"num_warps": 8}),
        "each program takes bodies of both ends", ("out",), predicted=1.9,
        also=("loop-not-pipelined",),  # two warps a scheduler, each iteration loads from L2
    ),
    Pair(
        "long-rows-two-warps", "spills",
        Variant(kernels.standardized, _LONG, (2048,), {"COLUMNS": 16384}, {"num_warps": 2}),
        Variant(kernels.standardized, _LONG, (2048,), {"COLUMNS": 16384}, {"num_warps": 16}),
        "num_warps=16", ("out",), predicted=3.0,
    ),
    Pair(
        "scores-by-sums", "no-tensor-cores",
        Variant(kernels.scores_by_sums, _SCORES, (64, 64, 32),
                {"BM": 16, "BN": 16, "WIDTH": 64}),
        Variant(kernels.scores_by_dot, _SCORES, (16, 16, 32),
                {"BM": 64, "BN": 64, "WIDTH": 64}),
        "tl.dot", ("out",), tolerance=1e-2, predicted=8.0,
    ),
    Pair(
        "linear-of-fp32", "widened-product",
        Variant(kernels.linear, _LINEAR, (32, 32), {**_TILE, "BK": 32, "WIDE": True},
                {"num_warps": 8}),
        Variant(kernels.linear, _LINEAR, (32, 32), {**_TILE, "WIDE": False}, {"num_warps": 8}),
        "operands as they are", ("out",), tolerance=2e-2, predicted=6.0,
    ),
    Pair(
        "norm-in-three-passes", "loaded-again",
        Variant(kernels.norm_in_three_passes, _ROWS, (2112,), {"BLOCK": 4096}),
        Variant(kernels.norm_in_two_passes, _ROWS, (2112,), {"BLOCK": 4096}),
        "both sums in one loop", ("out",), tolerance=1e-2, predicted=1.3,
    ),
    Pair(
        "bins-by-element", "atomic-contention",
        Variant(kernels.bins_by_element, _COUNTED, (_MANY // 4096,), {"BLOCK": 4096}),
        Variant(kernels.bins_by_program, _COUNTED, (_MANY // 4096,), {"BLOCK": 4096}),
        "tl.histogram first", ("out",), predicted=20.0,
    ),
    Pair(
        "activation-by-where", "both-sides",
        Variant(kernels.activated_by_where, _SOLVED, (_MANY // 1024,), {"BLOCK": 1024}),
        Variant(kernels.activated_by_if, _SOLVED, (_MANY // 1024,), {"BLOCK": 1024}),
        "if instead of tl.where", ("out",), predicted=6.0,
    ),
    Pair(
        "channels-by-division", "integer-division",
        Variant(kernels.shifted_by_shape, _IMAGES, (17500,), {"BLOCK": 1024}),
        Variant(kernels.shifted_by_grid, _IMAGES, (112, 160), {"BLOCK": 1024}),
        "an axis of the grid for channels", ("out",), predicted=1.2,
    ),
    Pair(
        "log-sums-block-by-block", "reduction-across-warps",
        Variant(kernels.log_sums_block_by_block, _SUMMED, (4096,), {"BLOCK": 1024},
                {"num_warps": 8}),
        Variant(kernels.log_sums_lane_by_lane, _SUMMED, (4096,), {"BLOCK": 1024},
                {"num_warps": 8}),
        "combined after the loop", ("out",), predicted=1.3,
    ),
    Pair(
        "band-times-all-blocks", "masked-blocks",
        Variant(kernels.band_times, _BAND, (32, 32), {**_TILE, "REACH": 256, "SKIPS": False},
                {"num_warps": 8}),
        Variant(kernels.band_times, _BAND, (32, 32), {**_TILE, "REACH": 256, "SKIPS": True},
                {"num_warps": 8}),
        "a loop from the band's beginning to its end", ("c",), tolerance=5e-3, predicted=6.0,
    ),
    Pair(
        "centers-one-by-one", "program-order",
        Variant(kernels.distances_to_centers, _POINTS, (1 << 15, 8),
                {"CENTERS_FIRST": False, "BLOCK": 128, "WIDTH": 16}),
        Variant(kernels.distances_to_centers, _POINTS, (8, 1 << 15),
                {"CENTERS_FIRST": True, "BLOCK": 128, "WIDTH": 16}),
        "programs of the same points next to each other", ("out",), predicted=2.0,
    ),
)  # fmt: skip


def _fp16(*shape: int) -> Tensor:
    return Tensor("fp16", shape)


def _fp32(*shape: int) -> Tensor:
    return Tensor("fp32", shape)


def _launch(
    kernel: Any, arguments: dict[str, Any], grid: tuple[int, ...], constants: dict[str, Any],
    num_warps: int,
) -> Variant:  # fmt: skip
    """A launch with those of the arguments that the kernel has."""
    named = {
        name: one
        for name, one in arguments.items()
        if name in kernel.arg_names and name not in constants
    }
    return Variant(kernel, named, grid, constants, {"num_warps": num_warps})


def _heads(heads: int, rows: int, width: int) -> dict[str, Any]:
    shape = (heads, rows, width)
    return {
        "q": _fp16(*shape), "k": _fp16(*shape), "v": _fp16(*shape), "out": _zeros("fp16", *shape),
        "N": rows,
    }  # fmt: skip


_FLAT = {"BM": 64, "BN": 64, "WIDTH": 64, "CAUSAL": False, "WIDE": False, "LONG_FIRST": False}
_UNEVEN = {"M": 2176, "N": 2048, "K": 4096}

_ALSO = {
    # 80 us where DRAM needs 31, and 34 GFLOP in 338 us: these two could be faster.
    "norm-gradients-by-row": ("loop-not-pipelined",),
    "packed-widened": ("repeated-loads", "bank-conflict"),
    "four-tiles-more": ("tail-wave",),  # 272 programs, of which the busiest SM has 3
    "exact-covariance": ("bank-conflict",),  # it is slower than the slow kernel
}


def _pair(
    name: str, kind: str, kernel: Any, arguments: dict[str, Any], slow: tuple[Any, ...],
    good: tuple[Any, ...], edit: str, outputs: tuple[str, ...], line: str, predicted: float,
    tolerance: float,
) -> Pair:  # fmt: skip
    """A pair of two launches, each of a kernel (None: of `kernel`), grid, constants and warps."""
    first, second = (_launch(each[0] or kernel, arguments, *each[1:]) for each in (slow, good))
    return Pair(
        name, kind, first, second, edit, outputs, line=line, predicted=predicted,
        tolerance=tolerance, also=_ALSO.get(name, ()),
    )  # fmt: skip


BLIND = (
    _pair(
        "channels-last-by-pixel", "strided-access", None,
        {"x": _fp16(64, 256, 3136), "out": _zeros("fp16", 64, 3136, 256), "PIXELS": 3136,
         "CHANNELS": 256},
        (kernels.channels_last_by_pixel, (3136, 64), {"CHANNELS": 256}, 4),
        (kernels.channels_last_by_tile, (49, 64, 4), {"TALL": 64, "WIDE": 64}, 4),
        "tiles of pixels and channels", ("out",), "tl.load(x", 4.0, 1e-3,
    ),
    _pair(
        "complex-by-part", "strided-access", None,
        {"z": _fp32(_MANY, 2), "w": _fp32(_MANY, 2), "out": _zeros("fp32", _MANY, 2)},
        (kernels.complex_by_part, (_MANY // 1024,), {"BLOCK": 1024}, 4),
        (kernels.complex_by_number, (_MANY // 1024,), {"BLOCK": 1024}, 4),
        "both parts in one tile, then tl.split", ("out",), "tl.", 1.2, 1e-3,
    ),
    _pair(
        "paged-by-token", "scattered-access", None,
        {"q": _fp16(256, 128), "keys": _fp16(16384, 16, 128), "PAGES": 128,
         "table": Tensor("i32", (256, 128), "below 16384"), "out": _zeros("fp32", 256, 2048),
         "WIDTH": 128},
        (kernels.paged_by_token, (16, 256), {"BLOCK": 128}, 4),
        (kernels.paged_by_row, (32, 256), {"BLOCK": 64, "WIDTH": 128}, 4),
        "lanes along the rows", ("out",), "tl.load(keys", 3.0, 1e-3,
    ),
    _pair(
        "padding-by-argument", "narrow-access", None,
        {"x": _fp16(8192, 4096), "out": _zeros("fp16", 8192, 4112), "COLUMNS": 4096,
         "STRIDE": 4112, "PAD": 8},
        (kernels.padded, (2, 8192), {"BLOCK": 2048}, 4),
        (kernels.padded_by_constant, (2, 8192), {"BLOCK": 2048, "PAD": 8}, 4),
        "PAD as tl.constexpr", ("out",), "tl.store(out", 1.25, 1e-3,
    ),
    _pair(
        "norm-row-by-row", "small-tile", kernels.rms_norm,
        {"x": _fp16(1 << 17, 256), "weight": _fp32(256), "out": _zeros("fp16", 1 << 17, 256)},
        (None, (1 << 17,), {"ROWS": 1, "COLUMNS": 256}, 4),
        (None, (1 << 13,), {"ROWS": 16, "COLUMNS": 256}, 4),
        "16 rows a program", ("out",), "tl.load(x", 3.0, 5e-3,
    ),
    _pair(
        "experts-token-by-token", "idle-threads", kernels.experts_of_tokens,
        {"logits": _fp32(1 << 17, 8), "gate": _zeros("fp32", 1 << 17),
         "expert": _zeros("i32", 1 << 17)},
        (None, (1 << 17,), {"TOKENS": 1, "EXPERTS": 8}, 4),
        (None, (1 << 10,), {"TOKENS": 128, "EXPERTS": 8}, 4),
        "128 tokens a program", ("gate", "expert"), "", 15.0, 1e-3,
    ),
    _pair(
        "running-sums-one-by-one", "scalar-work", None,
        {"x": _fp32(1 << 14, 1024), "out": _zeros("fp32", 1 << 14, 1024), "COLUMNS": 1024},
        (kernels.running_sums_one_by_one, (1 << 14,), {}, 4),
        (kernels.running_sums, (1 << 14,), {"COLUMNS": 1024}, 4),
        "tl.cumsum", ("out",), "", 15.0, 1e-3,
    ),
    _pair(
        "statistics-of-32-groups", "few-programs", kernels.group_statistics,
        {"x": _fp32(32, 1 << 20), "out": _zeros("fp32", 32, 2), "COUNT": 1 << 20},
        (None, (32, 1), {"BLOCK": 2048}, 4), (None, (32, 32), {"BLOCK": 2048}, 4),
        "an axis of the grid for parts of a group", ("out",), "", 6.0, 1e-2,
    ),
    _pair(
        "four-tiles-more", "tail-wave", matmul,
        {**_UNEVEN, "a": _fp16(2176, 4096), "b": _fp16(4096, 2048),
         "c": _zeros("fp16", 2176, 2048)},
        (None, (17, 8), {"BM": 128, "BN": 256, "BK": 64}, 8),
        (None, (17, 16), {"BM": 128, "BN": 128, "BK": 64}, 8),
        "tiles of 128 x 128", ("c",), "", 1.25, 5e-3,
    ),
    _pair(
        "vector-in-a-plain-loop", "loop-not-pipelined", kernels.matrix_by_vector,
        {"a": _fp16(8192, 16384), "x": _fp16(16384), "out": _zeros("fp32", 8192),
         "COLUMNS": 16384},
        (None, (512,), {"BM": 16, "BK": 128, "STAGES": 1}, 4),
        (None, (512,), {"BM": 16, "BK": 128, "STAGES": 4}, 4),
        "tl.range(..., num_stages=4)", ("out",), "", 1.5, 5e-3,
    ),
    _pair(
        "points-for-each-center", "loop-invariant-load", None,
        {"x": _fp32(1 << 18, 16), "centers": _fp32(64, 16), "POINTS": 1 << 18, "CENTERS": 64,
         "out": _zeros("fp32", 64, 1 << 18)},
        (kernels.distances_loading_points, (2048,), {"BLOCK": 128, "WIDTH": 16}, 4),
        (kernels.distances_keeping_points, (2048,), {"BLOCK": 128, "WIDTH": 16}, 4),
        "the points loaded in front of the loop", ("out",), "here = tl.load(x", 1.8, 1e-3,
    ),
    _pair(
        "two-wide-accumulators", "spills", kernels.gated_products,
        {"x": _fp16(4096, 2048), "gate": _fp16(2048, 4096), "up": _fp16(2048, 4096),
         "out": _zeros("fp16", 4096, 4096), "M": 4096, "N": 4096, "K": 2048},
        (None, (32, 16), {"BM": 128, "BN": 256, "BK": 32}, 4),
        (None, (32, 32), {"BM": 128, "BN": 128, "BK": 64}, 8),
        "tiles of 128 x 128 on 8 warps", ("out",), "", 8.0, 5e-3,
    ),
    _pair(
        "exact-covariance", "no-tensor-cores", kernels.covariance,
        {"x": _fp32(8192, 1024), "out": _zeros("fp32", 1024, 1024), "ROWS": 8192,
         "COLUMNS": 1024},
        (None, (16, 16), {"BN": 64, "BK": 32, "PRECISION": "ieee"}, 4),
        (None, (16, 16), {"BN": 64, "BK": 32, "PRECISION": "tf32"}, 4),
        'input_precision="tf32"', ("out",), "tl.dot(", 8.0, 1e-2,
    ),
    _pair(
        "state-token-by-token", "no-tensor-cores", None, _heads(512, 2048, 64),
        (kernels.linear_attention_by_token, (512,), {"WIDTH": 64}, 4),
        (kernels.linear_attention_by_chunk, (512,), {"WIDTH": 64, "CHUNK": 64}, 4),
        "chunks of tokens and tl.dot", ("out",), "state +=", 8.0, 2e-2,
    ),
    _pair(
        "attention-of-fp32", "widened-product", kernels.attention, _heads(64, 2048, 64),
        (None, (64, 32), {**_FLAT, "WIDE": True}, 4), (None, (64, 32), _FLAT, 4),
        "operands as they are", ("out",), "tl.dot(", 2.5, 1e-2,
    ),
    _pair(
        "shared-keys-far-apart", "program-order", kernels.grouped_scores,
        {"q": _fp16(512, 4, 128), "keys": _fp16(512, 2048, 128), "TOKENS": 2048, "HEADS": 512,
         "out": _zeros("fp32", 512, 4, 2048)},
        (None, (32, 512, 4),
         {"GROUP_FIRST": False, "GROUP": 4, "BLOCK": 64, "WIDTH": 128}, 4),
        (None, (4, 32, 512), {"GROUP_FIRST": True, "GROUP": 4, "BLOCK": 64, "WIDTH": 128}, 4),
        "the heads of a group next to each other", ("out",), "tl.load(keys", 2.5, 1e-3,
    ),
    _pair(
        "segments-by-element", "atomic-contention", None,
        {"x": _fp32(_MANY), "out": _zeros("fp32", _MANY // 256)},
        (kernels.segments_by_element, (_MANY // 1024,), {"BLOCK": 1024}, 4),
        (kernels.segments_by_row, (_MANY // 1024,), {"ROWS": 4}, 4),
        "each segment added up first", ("out",), "tl.atomic_add", 20.0, 1e-2,
    ),
    _pair(
        "softmax-in-three-passes", "loaded-again", None,
        {"x": _fp32(8192, 8192), "out": _zeros("fp32", 8192, 8192), "COLUMNS": 8192},
        (kernels.softmax_in_three_passes, (8192,), {"BLOCK": 2048}, 8),
        (kernels.softmax_of_a_tile, (8192,), {"COLUMNS": 8192}, 8),
        "the row as one tile", ("out",), "tl.exp(tl.load(x", 1.25, 1e-3,
    ),
    _pair(
        "sinkhorn-on-eight-warps", "reduction-across-warps", kernels.sinkhorn,
        {"x": _fp32(8192, 32, 64), "out": _zeros("fp32", 8192, 32, 64), "TURNS": 32},
        (None, (8192,), {"ROWS": 32, "COLUMNS": 64}, 8),
        (None, (8192,), {"ROWS": 32, "COLUMNS": 64}, 1),
        "num_warps=1", ("out",), "tl.sum(value, 0)", 2.0, 1e-3,
    ),
    _pair(
        "convolution-by-division", "integer-division", None,
        {"x": _fp16(128, 34, 34, 64), "weight": _fp16(576, 128), "SIDE": 34, "OUTPUTS": 128,
         "out": _zeros("fp16", 131072, 128), "CHANNELS": 64, "TAPS": 3, "DEPTH": 576},
        (kernels.convolution, (1024, 1), {"BM": 128, "BN": 128, "BK": 64}, 8),
        (kernels.convolution_by_tap, (1024, 1),
         {"CHANNELS": 64, "TAPS": 3, "BM": 128, "BN": 128}, 8),
        "an iteration for each tap", ("out",), "depth", 2.5, 5e-3,
    ),
    _pair(
        "density-by-division", "float-division", None,
        {"x": _fp32(1 << 16), "samples": _fp32(8192), "out": _zeros("fp32", 1 << 16),
         "COUNT": 8192, "width": 0.1},
        (kernels.density_by_division, (512,), {"BLOCK": 128, "WIDE": 32}, 4),
        (kernels.density_by_product, (512,), {"BLOCK": 128, "WIDE": 32}, 4),
        "the reciprocal in front of the loop", ("out",), "apart / width", 1.8, 1e-3,
    ),
    _pair(
        "gelu-by-pow", "costly-function", kernels.gelu,
        {"x": _fp16(2 * _MANY), "out": _zeros("fp16", 2 * _MANY)},
        (None, (2 * _MANY // 1024,), {"POWER": True, "BLOCK": 1024}, 4),
        (None, (2 * _MANY // 1024,), {"POWER": False, "BLOCK": 1024}, 4),
        "products instead of pow", ("out",), "libdevice.pow", 2.5, 5e-3,
    ),
    _pair(
        "rows-to-the-longest", "masked-blocks", kernels.sums_of_exponentials,
        {"x": _fp16(1 << 16, 4096), "lengths": Tensor("i32", (1 << 16,), "below 1024"),
         "out": _zeros("fp32", 1 << 16), "STRIDE": 4096},
        (None, (1 << 16,), {"SKIPS": False, "BLOCK": 512}, 4),
        (None, (1 << 16,), {"SKIPS": True, "BLOCK": 512}, 4),
        "a loop that ends with the row", ("out",), "", 2.5, 1e-3,
    ),
    _pair(
        "causal-short-first", "uneven-programs", kernels.attention, _heads(16, 4096, 64),
        (None, (16, 64), {**_FLAT, "CAUSAL": True}, 4),
        (None, (16, 64), {**_FLAT, "CAUSAL": True, "LONG_FIRST": True}, 4),
        "the longest programs first", ("out",), "", 1.25, 1e-2,
    ),
    _pair(
        "best-two-by-sort", "full-sort", None,
        {"x": _fp32(1 << 16, 256), "out": _zeros("fp32", 1 << 16)},
        (kernels.best_two_by_sort, (1 << 16,), {"WIDTH": 256}, 1),
        (kernels.best_two_by_max, (1 << 16,), {"WIDTH": 256}, 1),
        "two maxima", ("out",), "tl.sort", 3.0, 1e-3,
    ),
    _pair(
        "blur-past-l1", "bypassed-cache", kernels.blurred,
        {"x": _fp32(4100, 4112), "out": _zeros("fp32", 4096, 4096), "STRIDE": 4112,
         "WIDTH": 4096},
        (None, (4, 4096), {"CACHE": ".cg", "BLOCK": 1024}, 4),
        (None, (4, 4096), {"CACHE": "", "BLOCK": 1024}, 4),
        "loads through L1", ("out",), "cache_modifier", 1.5, 1e-3,
    ),
)  # fmt: skip
"""Kinds that kernel authors meet, the last two without a rule. Their author had not read the rules
when they were committed; some rules were changed after their times were known, by what they showed.
"""

LATEST = (
    _pair(
        "norm-gradients-by-row", "atomic-contention", None,
        {"x": Tensor("bf16", (32768, 1024)), "slope": Tensor("bf16", (32768, 1024)),
         "scale": _zeros("fp32", 1024), "shift": _zeros("fp32", 1024), "ROWS": 32768},
        (kernels.norm_gradients_by_row, (32768,), {"COLUMNS": 1024}, 4),
        (kernels.norm_gradients_by_program, (528,), {"COLUMNS": 1024}, 4),
        "a program adds up its rows first", ("scale", "shift"), "tl.atomic_add", 2.5, 2e-2,
    ),
    _pair(
        "softmax-loading-twice", "loaded-again", None,
        {"x": _fp32(4096, 16384), "out": _zeros("fp32", 4096, 16384), "COLUMNS": 16384},
        (kernels.softmax_loading_twice, (4096,), {"BLOCK": 2048}, 8),
        (kernels.softmax_of_a_tile, (4096,), {"COLUMNS": 16384}, 16),
        "the row as one tile", ("out",), "tl.load(x + row + first)", 1.3, 1e-3,
    ),
    _pair(
        "transposed-in-narrow-tiles", "strided-access", kernels.transposed,
        {"x": _fp32(8192, 4096), "out": _zeros("fp32", 4096, 8192), "ROWS": 8192, "COLUMNS": 4096},
        (None, (16, 2048), {"TALL": 4, "WIDE": 256}, 4),
        (None, (64, 128), {"TALL": 64, "WIDE": 64}, 4),
        "square tiles", ("out",), "tl.store(out", 2.0, 1e-3,
    ),
    _pair(
        "embedded-by-token", "scattered-access", None,
        {"ids": Tensor("i32", (1 << 17,), "below 200000"), "table": _fp16(200_000, 256),
         "out": _zeros("fp16", 1 << 17, 256), "WIDTH": 256},
        (kernels.embedded_by_token, (1024,), {"BLOCK": 128}, 4),
        (kernels.embedded_by_row, (1 << 14,), {"WIDTH": 256, "BLOCK": 8}, 4),
        "lanes along the features", ("out",), "tl.load(table", 5.0, 1e-3,
    ),
    _pair(
        "best-eight-by-argmax", "reduction-across-warps", kernels.best_by_argmax,
        {"x": _fp32(1 << 16, 512), "out": _zeros("fp32", 1 << 16, 8), "COUNT": 8},
        (None, (1 << 16,), {"WIDTH": 512}, 8), (None, (1 << 16,), {"WIDTH": 512}, 1),
        "num_warps=1", ("out",), "tl.max(", 2.5, 1e-6,
    ),
    _pair(
        "own-bins-by-element", "atomic-contention", None,
        {"x": Tensor("u8", (1 << 24,), "below 256"), "out": _zeros("i32", 4096, 256)},
        (kernels.own_bins_by_element, (4096,), {"BINS": 256, "BLOCK": 4096}, 4),
        (kernels.own_bins_by_tile, (4096,), {"BINS": 256, "BLOCK": 4096}, 4),
        "tl.histogram", ("out",), "tl.atomic_add", 6.0, 1e-3,
    ),
    _pair(
        "convolved-in-small-tiles", "repeated-loads", kernels.convolved_in_time,
        {"x": _fp16(32776, 256), "weight": _fp16(1280, 256), "out": _zeros("fp16", 32768, 256),
         "INPUTS": 256, "OUTPUTS": 256, "TAPS": 5},
        (None, (512, 4), {"BM": 64, "BN": 64, "BK": 64}, 4),
        (None, (256, 1), {"BM": 128, "BN": 256, "BK": 64}, 8),
        "tiles of 128 x 256", ("out",), "", 1.6, 5e-3,
    ),
    _pair(
        "packed-widened", "widened-product", kernels.times_packed,
        {"x": _fp16(1024, 4096), "packed": Tensor("i32", (512, 4096), "below 2000000000"),
         "scale": _fp16(4096), "out": _zeros("fp16", 1024, 4096), "N": 4096, "K": 4096},
        (None, (16, 32), {"BM": 64, "BN": 128, "BK": 64, "WIDE": True}, 4),
        (None, (16, 32), {"BM": 64, "BN": 128, "BK": 64, "WIDE": False}, 4),
        "operands in fp16", ("out",), "tl.dot(", 1.8, 2e-2,
    ),
    _pair(
        "turned-by-partner", "narrow-access", None,
        {"x": _fp16(1 << 18, 128), "cosine": _fp32(1 << 18, 64), "sine": _fp32(1 << 18, 64),
         "out": _zeros("fp16", 1 << 18, 128)},
        (kernels.turned_by_partner, (1 << 15,), {"WIDTH": 128, "BLOCK": 1024}, 4),
        (kernels.turned_by_pair, (1 << 15,), {"BLOCK": 1024}, 4),
        "pairs loaded at once, then tl.split", ("out",), "at ^ 1", 1.25, 5e-3,
    ),
    _pair(
        "losses-in-small-blocks", "small-tile", kernels.cross_entropy,
        {"logits": _fp16(2048, 32768), "label": Tensor("i32", (2048,), "below 32768"),
         "out": _zeros("fp32", 2048), "COLUMNS": 32768},
        (None, (2048,), {"BLOCK": 128}, 4), (None, (2048,), {"BLOCK": 4096}, 4),
        "BLOCK=4096", ("out",), "tl.load(logits + row + first", 3.0, 1e-3,
    ),
    _pair(
        "persistent-rows-first", "program-order", kernels.persistent_matmul,
        {"a": _fp16(16384, 4096), "b": _fp16(4096, 2048), "c": _zeros("fp16", 16384, 2048),
         "M": 16384, "N": 2048, "K": 4096},
        (None, (132,), {"ROWS_FIRST": True, "BM": 128, "BN": 128, "BK": 64}, 8),
        (None, (132,), {"ROWS_FIRST": False, "BM": 128, "BN": 128, "BK": 64}, 8),
        "the tiles of a row next to each other", ("c",), "tl.load(a", 1.25, 5e-3,
    ),
    _pair(
        "depth-in-64-parts", "atomic-contention", kernels.split_matmul,
        {"a": _fp16(1024, 8192), "b": _fp16(8192, 1024), "c": _zeros("fp32", 1024, 1024),
         "N": 1024, "K": 8192},
        (None, (8, 8, 64), {"BM": 128, "BN": 128, "BK": 64}, 8),
        (None, (8, 8, 2), {"BM": 128, "BN": 128, "BK": 64}, 8),
        "two parts", ("c",), "tl.atomic_add", 4.0, 1e-2,
    ),
    _pair(
        "groups-one-by-one", "strided-access", None,
        {"x": _fp16(64, 4096, 256), "out": _zeros("fp32", 64, 32, 2), "PIXELS": 4096,
         "CHANNELS": 256},
        (kernels.groups_one_by_one, (32, 64), {"EACH": 8, "BLOCK": 256}, 4),
        (kernels.groups_side_by_side, (32, 64), {"CHANNELS": 256, "EACH": 8, "BLOCK": 16}, 4),
        "all channels in a program", ("out",), "tl.load(x", 2.0, 2e-2,
    ),
    _pair(
        "depthwise-by-image", "masked-off", None,
        {"x": _fp32(16384, 40, 40), "weight": _fp32(16384, 9),
         "out": _zeros("fp32", 16384, 40, 40)},
        (kernels.depthwise_by_image, (16384,), {"SIDE": 40, "BLOCK": 64}, 8),
        (kernels.depthwise_by_pixel, (16384, 4), {"SIDE": 40, "BLOCK": 512}, 4),
        "tiles of pixels in a row", ("out",), "", 1.5, 1e-3,
    ),
    _pair(
        "columns-one-by-one", "strided-access", None,
        {"x": _fp32(8192, 4096), "out": _zeros("fp32", 4096), "ROWS": 8192, "COLUMNS": 4096},
        (kernels.columns_one_by_one, (4096,), {"BLOCK": 1024}, 4),
        (kernels.columns_side_by_side, (64, 16), {"BLOCK": 16, "WIDE": 64}, 4),
        "lanes along the columns", ("out",), "tl.load(x", 6.0, 1e-2,
    ),
)  # fmt: skip
"""Defects of kernels that people publish. Their kinds and gains were written down before they were
diagnosed or timed; five rules were changed after their times were known, by what they showed.
"""

HELD_OUT = (*_FIRST, *BLIND, *LATEST)
