"""conch-triton-kernels: inference with caches, quantization, vision; beside its own references."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.foreign.samples import Pair, Samples, drawn, made

SAMPLES = Samples()
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def conch(path: str) -> Callable[..., Any]:
    """A function of conch's, "ops.activation.silu_and_mul.silu_and_mul"."""
    module, _, name = f"conch.{path}".rpartition(".")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def against_reference(name: str, path: str, inputs: tuple[Any, ...]) -> None:
    """A sample that calls `ops.` and `reference.` of one path, each with copies."""

    def run() -> Iterator[Pair]:
        given = made(inputs)
        outputs = []
        for side in ("ops", "reference"):
            copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in given]
            output = conch(f"{side}.{path}")(*copies)
            outputs.append(output if isinstance(output, tuple) else (output,))
        for number, (got, expected) in enumerate(zip(*outputs)):
            yield Pair(f"output {number}", got, expected)

    SAMPLES[name] = run


for name, dtype in DTYPES.items():
    for size in (64, 130):
        rows, weight = partial(drawn, 7, size, dtype=dtype), partial(drawn, size, dtype=dtype)

        for activation in ("silu_and_mul", "gelu_tanh_and_mul"):
            path = f"activation.{activation}.{activation}"
            against_reference(f"{activation} {name} {size}", path, (rows,))
        against_reference(
            f"rms_norm {name} {size}",
            "normalization.rms_norm.rms_norm",
            (rows, weight, 1e-6),
        )
        against_reference(
            f"fused_add_rms_norm {name} {size}",
            "normalization.rms_norm.fused_add_rms_norm",
            (rows, rows, weight, 1e-6),
        )
        for residual in (False, True):
            against_reference(
                f"gemma_rms_norm {name} {size}{' after a residual' if residual else ''}",
                "normalization.gemma_rms_norm.gemma_rms_norm",
                (rows, weight, 1e-6, *([rows] if residual else [])),
            )


def pages(
    lengths: list[int], heads: int, size: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Caches of keys and values in blocks of 16, and which blocks each sequence has."""
    most = max(-(-one // 16) for one in lengths)
    blocks = most * len(lengths)
    table = torch.randperm(blocks).view(len(lengths), most).int()
    return (
        drawn(blocks, 16, heads, size, dtype=dtype),
        drawn(blocks, 16, heads, size, dtype=dtype),
        table,
    )


def attended(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, softcap: float, causal: bool
) -> torch.Tensor:
    """Attention of the last positions (n, heads, size) to keys and values
    (m, fewer heads, size).
    """
    q, keys, values = q.float(), keys.float(), values.float()
    groups = q.shape[1] // keys.shape[1]
    keys, values = (one.repeat_interleave(groups, 1) for one in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", q, keys) * q.shape[-1] ** -0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        later = torch.ones(scores.shape[1:]).triu(1 + keys.shape[0] - q.shape[0]).bool()
        scores = scores.masked_fill(later, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


TOLERANCE = 0.04
"""Of attention, in all types: it keeps its sums in the output's."""


def decode(lengths: list[int], head: int, softcap: float, dtype: torch.dtype) -> Iterator[Pair]:
    """One new token for each sequence."""
    keys, values, table = pages(lengths, 2, head, dtype)
    q = drawn(len(lengths), 4, head, dtype=dtype)
    got = conch("ops.attention.paged_attention.paged_attention")(
        q, keys, values, table, torch.tensor(lengths).int(), softcap=softcap
    )
    for number, length in enumerate(lengths):
        k, v = (one[table[number].long()].flatten(0, 1)[:length] for one in (keys, values))
        expected = attended(q[number, None], k, v, softcap, causal=False)[0]
        yield Pair(f"sequence {number}", got[number], expected, TOLERANCE)


def prefill(lengths: list[int], head: int, softcap: float, dtype: torch.dtype) -> Iterator[Pair]:
    """All tokens of each sequence."""
    keys, values, table = pages(lengths, 2, head, dtype)
    counts = torch.tensor(lengths).int()
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    q = drawn(sum(lengths), 4, head, dtype=dtype)
    most = max(lengths)
    got = conch("ops.attention.varlen_attention.varlen_attention")(
        q, keys, values, ends, most, counts, most, table, causal=True, softcap=softcap
    )
    parts = zip(torch.split(q, lengths), torch.split(got, lengths))
    for number, (own, output) in enumerate(parts):
        k, v = (one[table[number].long()].flatten(0, 1)[: len(own)] for one in (keys, values))
        expected = attended(own, k, v, softcap, causal=True)
        yield Pair(f"sequence {number}", output, expected, TOLERANCE)


for name, dtype in DTYPES.items():
    for softcap in (0.0, 5.0):
        for lengths in ([5, 37], [150, 300, 16]):
            for head in (64, 96):
                note = f"{name} {head} of {len(lengths)}{' softcap' if softcap else ''}"
                given = (lengths, head, softcap, dtype)
                SAMPLES[f"paged_attention {note}"] = partial(decode, *given)
                SAMPLES[f"varlen_attention {note}"] = partial(prefill, *given)

for head, turned in ((64, 64), (64, 32)):

    def rotary(head: int = head, turned: int = turned) -> Iterator[Pair]:
        cache = conch("reference.embedding.rotary_embedding.compute_cos_sin_cache")(1e4, turned, 50)
        where, q, k = torch.randint(50, (9,)), drawn(9, 4 * head), drawn(9, 2 * head)
        got = conch("ops.embedding.rotary_embedding.rotary_embedding")(
            where, q.clone(), k.clone(), head, cache
        )
        expected = conch("reference.embedding.rotary_embedding.rotary_embedding")(
            where, q, k, cache, turned, head
        )
        for number in (0, 1):
            yield Pair("q" if number == 0 else "k", got[number], expected[number])

    SAMPLES[f"rotary_embedding {turned} of {head}"] = rotary

for kind in ("int8", "fp8"):
    for name, dtype in DTYPES.items():

        def quantized(kind: str = kind, dtype: torch.dtype = dtype) -> Iterator[Pair]:
            x, scale = drawn(7, 130, dtype=dtype) * 3, torch.tensor([0.02])
            got, _ = conch(f"ops.quantization.{kind}.scaled_{kind}_quant")(x, scale)
            expected = conch(f"reference.quantization.{kind}.scaled_{kind}_quant")(x, scale)
            yield Pair("quantized", got.float(), expected.float())

        SAMPLES[f"scaled_{kind}_quant {name}"] = quantized


for columns in (48, 128):

    def scaled(eight: torch.dtype, columns: int = columns) -> Iterator[Pair]:
        a, b = ((drawn(*shape) * 9).round().to(eight) for shape in ((33, 64), (64, columns)))
        scales = torch.rand(33, 1), torch.rand(columns, 1)
        got = conch("ops.quantization.gemm.scaled_gemm")(a, b, *scales, torch.float16)
        yield Pair("product", got, (a.float() @ b.float()) * scales[0] * scales[1].T)

    SAMPLES[f"scaled_gemm int8 {columns}"] = partial(scaled, torch.int8)
    SAMPLES[f"scaled_gemm fp8 {columns}"] = partial(scaled, torch.float8_e4m3fn)

    def mixed(width: int, group: int, columns: int = columns) -> Iterator[Pair]:
        """Weights of a few bits, eight or four in one int32, with a scale for each group of
        them.
        """
        x, scales = drawn(33, 128, dtype=torch.float16), torch.rand(128 // group, columns).half()
        weights = torch.randint(2**width, (128, columns))
        bits = torch.arange(32 // width)[None, :, None] * width
        packed = (weights.view(-1, 32 // width, columns) << bits).sum(1)
        bias = 2 ** (width - 1)
        got = conch("ops.quantization.gemm.mixed_precision_gemm")(
            x, packed.to(torch.int32), scales, None, width, bias, group
        )
        plain = (weights - bias) * scales.float().repeat_interleave(group, 0)
        yield Pair("product", got, x.float() @ plain)

    for width in (4, 8):
        for group in (32, 64):
            note = f"{width} bits {columns} group {group}"
            SAMPLES[f"mixed_precision_gemm {note}"] = partial(mixed, width, group)

for kind in ("nf4", "fp4"):
    for name, dtype in DTYPES.items():

        def four_bits(kind: str = kind, dtype: torch.dtype = dtype) -> Iterator[Pair]:
            x = drawn(256, dtype=dtype)
            module = "ops.quantization.bitsandbytes.functional"
            packed, state = conch(f"{module}.quantize_4bit")(x, quant_type=kind)
            out = conch(f"{module}.dequantize_4bit")(packed, state, quant_type=kind)
            expected = torch.empty_like(packed)
            greatest = torch.zeros_like(state.absmax)
            conch(
                "reference.quantization.bitsandbytes.quantize_blockwise.quantize_blockwise_launcher"
            )(x.flatten(), greatest, expected, None, 64, x.numel(), kind)
            yield Pair("packed", packed, expected)
            yield Pair("largest", state.absmax, greatest)
            back = torch.empty_like(x).flatten()
            conch(
                "reference.quantization.bitsandbytes.dequantize_blockwise.dequantize_blockwise_launcher"
            )(expected.flatten(), greatest, back, None, 64, x.numel(), kind)
            yield Pair("and back", out.flatten(), back)

        SAMPLES[f"quantize_4bit {kind} {name}"] = four_bits

for count in (20, 200):

    def nms(count: int = count) -> Iterator[Pair]:
        corners = torch.rand(count, 2) * 20
        boxes = torch.cat([corners, corners + 1 + torch.rand(count, 2) * 8], 1)
        scores = torch.rand(count)
        got = conch("ops.vision.nms.nms")(boxes, scores, 0.3)
        yield Pair("kept", got, conch("reference.vision.nms.nms")(boxes, scores, 0.3))

    SAMPLES[f"nms of {count}"] = nms


@SAMPLES
def bev_pool() -> Iterator[Pair]:
    cells = torch.stack([torch.randint(n, (300,)) for n in (4, 5, 2, 2)], 1)
    ranks = (cells * torch.tensor([20, 4, 2, 1])).sum(1)
    order = ranks.argsort(stable=True)
    cells, ranks = cells[order].int(), ranks[order]
    lengths = torch.unique_consecutive(ranks, return_counts=True)[1].int()
    starts = (lengths.cumsum(0) - lengths).int()
    for channels in (8, 80):
        x = drawn(300, channels)
        given = (cells, starts, lengths)
        got, expected = (
            conch(f"{side}.vision.bev_pool.bev_pool")(x, *given, 2, 2, 4, 5)
            for side in ("ops", "reference")
        )
        yield Pair("pooled", got, expected)
        slope = drawn(*expected.shape)
        got = conch("ops.vision.bev_pool.bev_pool_backward")(slope, *given)
        expected = conch("reference.vision.bev_pool.bev_pool_backward_pytorch")(slope, *given)
        yield Pair("gradient", got, expected)


@SAMPLES
def voxelization() -> Iterator[Pair]:
    """The order of its voxels is free: both are put in order first."""
    parameters = conch("ops.vision.voxelization.VoxelizationParameter")(
        (0.0, 0.0, 0.0), (8.0, 6.0, 2.0), (1.0, 1.0, 1.0), 10
    )
    points = torch.rand(400, 4) * torch.tensor([8.5, 6.5, 2.5, 1.0]) - 0.2
    filled, features, where, counts = conch("ops.vision.voxelization.generate_voxels")(
        points, parameters
    )
    total = int(filled)
    x, y, z = where[:total, :3].long().unbind(1)
    order = ((z * 6 + y) * 8 + x).argsort()
    stable = "reference.vision.voxelization.voxelization_stable"
    numbers, _, _ = conch(stable)(points, parameters, use_triton=False)
    labeled, _, _ = conch(stable)(points, parameters, use_triton=True)
    yield Pair("voxels", total, len(numbers))
    yield Pair("points of each", counts[:total][order], numbers.clamp_max(10))
    yield Pair("labels by the other kernel", labeled, numbers)
    sums = torch.stack([features[v, : counts[v]].sum(0) for v in range(total)])
    yield Pair("all finite", sums.isfinite().all(), True)


@SAMPLES
def copy_blocks() -> Iterator[Pair]:
    keys, values = ([drawn(10, 16 * 2 * 32) for _ in range(3)] for _ in range(2))
    mapping = [(0, 5), (2, 7), (3, 9)]
    expected = [[one.clone() for one in caches] for caches in (keys, values)]
    conch("reference.vllm.copy_blocks.copy_blocks")(*expected, mapping)
    conch("ops.vllm.copy_blocks.copy_blocks")(keys, values, torch.tensor(mapping))
    for got, right in zip(keys + values, expected[0] + expected[1]):
        yield Pair("cache", got, right)


for name, dtype in DTYPES.items():

    def reshape_and_cache(dtype: torch.dtype = dtype) -> Iterator[Pair]:
        key, value = drawn(9, 2, 32, dtype=dtype), drawn(9, 2, 32, dtype=dtype)
        slots, one = torch.randperm(80)[:9], torch.ones(1)
        caches = [torch.zeros(5, 16, 2, 32, dtype=dtype) for _ in range(4)]
        conch("ops.vllm.reshape_and_cache.reshape_and_cache")(key, value, *caches[:2], slots)
        conch("reference.vllm.reshape_and_cache.reshape_and_cache")(
            key, value, *caches[2:], slots, "auto", one, one
        )
        yield Pair("keys", caches[0], caches[2])
        yield Pair("values", caches[1], caches[3])

    SAMPLES[f"reshape_and_cache {name}"] = reshape_and_cache
