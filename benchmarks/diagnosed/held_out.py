"""Pairs of known kinds that are left out of every fit and rule: their gain was predicted, by their
author and by `kernellab.diagnose`, before any GPU timed them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.diagnosed import held_out_kernels as kernels
from benchmarks.diagnosed.pairs import Pair, Tensor, Variant

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


HELD_OUT = (
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
