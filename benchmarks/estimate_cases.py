"""Launches whose sweeps are recorded, to hold the estimate of time against a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton

from benchmarks import estimate_kernels as kernels
from benchmarks.tuning_cases import TuningCase

Make = Callable[["Launch"], TuningCase]


@dataclass(frozen=True)
class Launch:
    """How large a case is, and where its tensors are.

    Attributes:
        part: sizes are those of the recording divided by this, for a trial that takes seconds.
        device: of the tensors; "meta" gives their shapes alone, and no right results.
    """

    part: int = 1
    device: str = "cuda"

    def random(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A tensor of normal numbers, or of whole ones."""
        if self.device == "meta":
            return torch.empty(shape, dtype=dtype, device="meta")
        if dtype.is_floating_point:
            return torch.randn(shape, device=self.device).to(dtype)
        lowest = -8 if dtype.is_signed else 0
        return torch.randint(lowest, 120, shape, device=self.device).to(dtype)

    def numbers(self, count: int, below: int) -> torch.Tensor:
        """Whole numbers, as labels and indices are; they have values on any device."""
        chance = torch.Generator("cpu").manual_seed(0)
        found = torch.randint(below, (count,), generator=chance, dtype=torch.int32)
        return found if self.device == "meta" else found.to(self.device)

    def right(self, results: Callable[[], dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Right results, where tensors have values."""
        return {} if self.device == "meta" else results()


def _case(
    name: str, kernel: Any, grid: Any, arguments: Any, space: Any, reference: Any, **more: Any
) -> TuningCase:
    return TuningCase(
        name=name,
        kernel=kernel,
        grid=grid,
        arguments=arguments,
        fixed=more.pop("fixed", {}),
        space=space,
        reference=reference,
        torch_way=lambda: None,
        **more,
    )


def transposed(launch: Launch) -> TuningCase:
    """4096 x 4096 fp32."""
    size = 4096 // launch.part
    x = launch.random(size, size)
    return _case(
        "transposed",
        kernels.transposed,
        lambda meta: (triton.cdiv(size, meta["ROWS"]), triton.cdiv(size, meta["COLUMNS"])),
        {"x_ptr": x, "out_ptr": torch.empty_like(x), "rows": size, "columns": size},
        {"ROWS": [16, 32, 64, 128], "COLUMNS": [16, 32, 64, 128], "num_warps": [2, 4]},
        launch.right(lambda: {"out_ptr": x.T.contiguous()}),
    )


def column_sums(launch: Launch) -> TuningCase:
    """Of 16384 x 4096 fp32, 512 rows a program."""
    rows, columns, part = 16384 // launch.part, 4096 // launch.part, 512
    x = launch.random(rows, columns)
    out = torch.zeros(columns, device=launch.device)
    return _case(
        "column_sums",
        kernels.column_sums,
        lambda meta: (triton.cdiv(columns, meta["COLUMNS"]), triton.cdiv(rows, part)),
        {"x_ptr": x, "out_ptr": out, "rows": rows, "columns": columns},
        {"ROWS": [4, 16, 64], "COLUMNS": [16, 32, 64, 128], "num_warps": [1, 2, 4]},
        launch.right(lambda: {"out_ptr": x.sum(0)}),
        fixed={"PART": part},
        rtol=2e-3,
    )


def rms_norm(launch: Launch) -> TuningCase:
    """8192 rows of 4096 bf16."""
    rows, columns = 8192 // launch.part, 4096
    x, weight = (launch.random(*one, dtype=torch.bfloat16) for one in ((rows, columns), (columns,)))

    def right() -> dict[str, torch.Tensor]:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-5)
        return {"out_ptr": (wide * scale * weight.float()).to(x.dtype)}

    out = torch.empty_like(x)
    tensors = {"x_ptr": x, "weight_ptr": weight, "out_ptr": out}
    return _case(
        "rms_norm",
        kernels.rms_norm,
        (rows,),
        {**tensors, "columns": columns, "epsilon": 1e-5},
        {"BLOCK": [256, 512, 1024, 2048, 4096], "num_warps": [1, 2, 4, 8, 16, 32]},
        launch.right(right),
    )


def cross_entropy(launch: Launch) -> TuningCase:
    """4096 rows of 32000 bf16."""
    rows, words = 4096 // launch.part, 32000
    logits, labels = launch.random(rows, words, dtype=torch.bfloat16), launch.numbers(rows, words)

    def right() -> dict[str, torch.Tensor]:
        found = torch.nn.functional.cross_entropy(logits.float(), labels.long(), reduction="none")
        return {"loss_ptr": found}

    loss = torch.empty(rows, device=launch.device)
    return _case(
        "cross_entropy",
        kernels.cross_entropy,
        (rows,),
        {"logits_ptr": logits, "labels_ptr": labels, "loss_ptr": loss, "words": words},
        {"BLOCK": [512, 1024, 2048, 4096, 8192], "num_warps": [1, 2, 4, 8, 16, 32]},
        launch.right(right),
        rtol=2e-3,
    )


def int8_product(launch: Launch) -> TuningCase:
    """4096 x 4096 x 4096, int8."""
    size = 4096 // launch.part
    a, b = (launch.random(size, size, dtype=torch.int8) for _ in range(2))
    c = torch.empty(size, size, dtype=torch.int32, device=launch.device)
    return _case(
        "int8_product",
        kernels.int8_product,
        lambda meta: (triton.cdiv(size, meta["BLOCK_M"]), triton.cdiv(size, meta["BLOCK_N"])),
        {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": size, "N": size, "K": size},
        {
            "BLOCK_M": [64, 128],
            "BLOCK_N": [64, 128, 256],
            "BLOCK_K": [64, 128],
            "num_warps": [4, 8],
            "num_stages": [2, 4],
        },
        launch.right(lambda: {"c_ptr": (a.double() @ b.double().T).to(torch.int32)}),
        prune=lambda one: one["BLOCK_N"] == 256 and one["BLOCK_M"] == 64,
    )


def split_product(launch: Launch) -> TuningCase:
    """256 x 1024 x 16384 in fp16, split over K."""
    M, N, K = 256, 1024, 16384 // launch.part
    a, b = launch.random(M, K, dtype=torch.float16), launch.random(K, N, dtype=torch.float16)
    c = torch.zeros(M, N, device=launch.device)
    return _case(
        "split_product",
        kernels.split_product,
        lambda meta: (
            triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),
            meta["PARTS"],
        ),
        {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": M, "N": N, "K": K},
        {
            "PARTS": [1, 2, 4, 8, 16],
            "BLOCK_M": [64, 128],
            "BLOCK_N": [64, 128],
            "BLOCK_K": [64],
            "num_warps": [4, 8],
        },
        launch.right(lambda: {"c_ptr": a.float() @ b.float()}),
        rtol=1e-2,
    )


def batched_product(launch: Launch) -> TuningCase:
    """96 times 512 x 512 x 256 in bf16."""
    many, M, N, K = 96 // launch.part, 512, 512, 256
    a = launch.random(many, M, K, dtype=torch.bfloat16)
    b = launch.random(many, K, N, dtype=torch.bfloat16)
    c = torch.empty(many, M, N, dtype=torch.bfloat16, device=launch.device)
    return _case(
        "batched_product",
        kernels.batched_product,
        lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]), many),
        {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": M, "N": N, "K": K},
        {
            "BLOCK_M": [32, 64, 128],
            "BLOCK_N": [64, 128],
            "BLOCK_K": [32, 64],
            "num_warps": [4, 8],
            "num_stages": [2, 4],
        },
        launch.right(lambda: {"c_ptr": a @ b}),
        rtol=4e-2,
    )


def convolution(launch: Launch) -> TuningCase:
    """32 images of 56 x 56, 128 channels to 128 filters, 3 x 3, fp16."""
    images, height, width, channels, filters = 32 // launch.part, 56, 56, 128, 128
    x = launch.random(images, height, width, channels, dtype=torch.float16)
    weight = launch.random(3, 3, channels, filters, dtype=torch.float16)
    out = torch.empty(images, height, width, filters, dtype=torch.float16, device=launch.device)

    def right() -> dict[str, torch.Tensor]:
        nchw, oihw = x.float().permute(0, 3, 1, 2), weight.float().permute(3, 2, 0, 1)
        found = torch.nn.functional.conv2d(nchw, oihw, padding=1).permute(0, 2, 3, 1)
        return {"out_ptr": found.contiguous().half()}

    return _case(
        "convolution",
        kernels.convolution,
        lambda meta: (
            triton.cdiv(images * height * width, meta["BLOCK_M"]),
            triton.cdiv(filters, meta["BLOCK_N"]),
        ),
        {"x_ptr": x, "weight_ptr": weight, "out_ptr": out, "images": images},
        {
            "BLOCK_M": [32, 64, 128],
            "BLOCK_N": [32, 64, 128],
            "BLOCK_K": [32, 64],
            "num_warps": [4, 8],
            "num_stages": [3],
        },
        launch.right(right),
        fixed={"HEIGHT": height, "WIDTH": width, "CHANNELS": channels, "FILTERS": filters},
        rtol=1e-2,
    )


def embedded(launch: Launch) -> TuningCase:
    """65536 words of a table of 32000 x 1024 fp16."""
    words, rows, width = 65536 // launch.part, 32000, 1024
    table, which = launch.random(rows, width, dtype=torch.float16), launch.numbers(words, rows)
    out = torch.empty(words, width, dtype=torch.float16, device=launch.device)
    return _case(
        "embedded",
        kernels.embedded,
        lambda meta: (triton.cdiv(words, meta["WORDS"]),),
        {"table_ptr": table, "words_ptr": which, "out_ptr": out, "words": words},
        {"WORDS": [1, 4, 16, 64], "BLOCK": [64, 128, 256, 1024], "num_warps": [1, 4, 8]},
        launch.right(lambda: {"out_ptr": table[which.long()]}),
        fixed={"WIDTH": width},
        prune=lambda one: one["WORDS"] * one["BLOCK"] > 16384,
    )


def histogram(launch: Launch) -> TuningCase:
    """16 Mi numbers, 256 bins."""
    count = (1 << 24) // launch.part
    x = launch.numbers(count, 256)
    counts = torch.zeros(256, dtype=torch.int32, device=launch.device)

    def right() -> dict[str, torch.Tensor]:
        return {"counts_ptr": torch.bincount(x.long(), minlength=256).int()}

    return _case(
        "histogram",
        kernels.histogram,
        lambda meta: (triton.cdiv(count, meta["BLOCK"] * meta["TURNS"]),),
        {"x_ptr": x, "counts_ptr": counts, "n": count},
        {"TURNS": [1, 4, 16], "BLOCK": [512, 1024, 2048, 4096], "num_warps": [2, 4, 8]},
        launch.right(right),
        fixed={"BINS": 256},
    )


def gated(launch: Launch) -> TuningCase:
    """2048 x 4096 x 2048 twice, fp16."""
    M, N, K = 2048 // launch.part, 4096 // launch.part, 2048 // launch.part
    x = launch.random(M, K, dtype=torch.float16)
    gate, up = (launch.random(K, N, dtype=torch.float16) * K**-0.5 for _ in range(2))
    out = torch.empty(M, N, dtype=torch.float16, device=launch.device)

    def right() -> dict[str, torch.Tensor]:
        one, two = x.float() @ gate.float(), x.float() @ up.float()
        return {"out_ptr": (torch.nn.functional.silu(one) * two).half()}

    return _case(
        "gated",
        kernels.gated,
        lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"])),
        {"x_ptr": x, "gate_ptr": gate, "up_ptr": up, "out_ptr": out, "M": M, "N": N, "K": K},
        {
            "BLOCK_M": [64, 128],
            "BLOCK_N": [32, 64, 128],
            "BLOCK_K": [32, 64],
            "num_warps": [4, 8],
            "num_stages": [2, 3],
        },
        launch.right(right),
        rtol=2e-2,
    )


def rotary(launch: Launch) -> TuningCase:
    """16384 tokens of 16 heads of 128, bf16."""
    tokens, heads, half = 16384 // launch.part, 16, 64
    x = launch.random(tokens, heads, 2 * half, dtype=torch.bfloat16)
    cos, sin = launch.random(tokens, half), launch.random(tokens, half)

    def right() -> dict[str, torch.Tensor]:
        first, second = x[..., :half].float(), x[..., half:].float()
        c, s = cos[:, None], sin[:, None]
        return {
            "out_ptr": torch.cat((first * c - second * s, second * c + first * s), 2).bfloat16()
        }

    tensors = {"x_ptr": x, "cos_ptr": cos, "sin_ptr": sin, "out_ptr": torch.empty_like(x)}
    return _case(
        "rotary",
        kernels.rotary,
        lambda meta: (triton.cdiv(tokens, meta["TOKENS"]),),
        {**tensors, "tokens": tokens, "heads": heads},
        {
            "TOKENS": [1, 4, 16, 32, 64],
            "num_warps": [1, 2, 4, 8],
            "num_stages": [1, 3],
        },
        launch.right(right),
        fixed={"HALF": half},
        rtol=4e-2,
    )


def running_sums(launch: Launch) -> TuningCase:
    """Of 16384 rows of 2048 fp32."""
    rows, columns = 16384 // launch.part, 2048
    x = launch.random(rows, columns)
    return _case(
        "running_sums",
        kernels.running_sums,
        lambda meta: (triton.cdiv(rows, meta["ROWS"]),),
        {"x_ptr": x, "out_ptr": torch.empty_like(x), "rows": rows},
        {"ROWS": [1, 2, 4, 8], "num_warps": [1, 2, 4, 8, 16]},
        launch.right(lambda: {"out_ptr": x.cumsum(1)}),
        fixed={"COLUMNS": columns},
        rtol=1e-2,
    )


def five_points(launch: Launch) -> TuningCase:
    """8192 x 4096 fp32."""
    height, width = 8192 // launch.part, 4096 // launch.part
    x = launch.random(height, width)
    out = torch.zeros_like(x)

    def right() -> dict[str, torch.Tensor]:
        found = torch.zeros_like(x)
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        found[1:-1, 1:-1] = (x[1:-1, 1:-1] + around) * 0.2
        return {"out_ptr": found}

    return _case(
        "five_points",
        kernels.five_points,
        lambda meta: (triton.cdiv(width, meta["COLUMNS"]), triton.cdiv(height, meta["ROWS"])),
        {"x_ptr": x, "out_ptr": out, "height": height, "width": width},
        {"ROWS": [1, 4, 16, 64], "COLUMNS": [32, 128, 512], "num_warps": [1, 2, 4, 8]},
        launch.right(right),
        prune=lambda one: not 128 <= one["ROWS"] * one["COLUMNS"] <= 16384,
    )


def decoded(launch: Launch) -> TuningCase:
    """One token's 16 heads in each of 32 groups, 8192 keys of 128, fp16, 16 parts."""
    groups, heads, tokens, head, parts = 32 // launch.part, 16, 8192, 128, 16
    q = launch.random(groups * heads, head, dtype=torch.float16)
    k, v = (launch.random(groups, tokens, head, dtype=torch.float16) for _ in range(2))
    scale = 1.4426950408889634 / head**0.5
    out = torch.empty(parts, groups * heads, head, device=launch.device)
    most = torch.empty(parts, groups * heads, device=launch.device)

    def right() -> dict[str, torch.Tensor]:
        wide = q.view(groups, heads, 1, head).permute(0, 2, 1, 3).float()
        keys, values = (one.view(groups, parts, tokens // parts, head).float() for one in (k, v))
        scores = wide @ keys.transpose(2, 3) * scale
        found = torch.softmax(scores * 0.6931471805599453, 3) @ values
        return {"out_ptr": found.permute(1, 0, 2, 3).reshape(out.shape).contiguous()}

    tensors = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "out_ptr": out, "most_ptr": most}
    return _case(
        "decoded",
        kernels.decoded,
        (groups, parts),
        {**tensors, "tokens": tokens, "scale": scale},
        {"BLOCK": [16, 32, 64, 128], "num_warps": [1, 2, 4, 8], "num_stages": [1, 2, 4]},
        launch.right(right),
        fixed={"PART": tokens // parts, "HEADS": heads, "HEAD": head},
        rtol=2e-2,
    )


def gelu(launch: Launch) -> TuningCase:
    """32 Mi bf16."""
    count = (1 << 25) // launch.part
    x = launch.random(count, dtype=torch.bfloat16)

    def right() -> dict[str, torch.Tensor]:
        return {"out_ptr": torch.nn.functional.gelu(x.float(), approximate="tanh").bfloat16()}

    return _case(
        "gelu",
        kernels.gelu,
        lambda meta: (triton.cdiv(count, meta["BLOCK"]),),
        {"x_ptr": x, "out_ptr": torch.empty_like(x), "n": count},
        {"BLOCK": [128, 256, 512, 1024, 2048, 8192], "num_warps": [1, 2, 4, 8, 16]},
        launch.right(right),
        rtol=4e-2,
    )


def int4_product(launch: Launch) -> TuningCase:
    """64 x 8192 x 8192, weights of 4 bits."""
    M, N, K = 64, 8192 // launch.part, 8192 // launch.part
    x = launch.random(M, K, dtype=torch.float16)
    packed = launch.random(K // 2, N, dtype=torch.uint8)
    scale = launch.random(N)
    out = torch.empty(M, N, dtype=torch.float16, device=launch.device)

    def right() -> dict[str, torch.Tensor]:
        weights = torch.cat((packed & 15, packed >> 4)).float() - 8
        return {"out_ptr": (x.float() @ weights * scale).half()}

    return _case(
        "int4_product",
        kernels.int4_product,
        lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"])),
        {
            "x_ptr": x, "packed_ptr": packed, "scale_ptr": scale, "out_ptr": out,
            "M": M, "N": N, "K": K,
        },
        {
            "BLOCK_M": [16, 32, 64],
            "BLOCK_N": [32, 64, 128],
            "BLOCK_K": [32, 64],
            "num_warps": [4, 8],
            "num_stages": [3],
        },
        launch.right(right),
        rtol=2e-2,
    )  # fmt: skip


CASES: dict[str, Make] = {
    one.__name__: one
    for one in (
        transposed, column_sums, rms_norm, cross_entropy, int8_product, split_product,
        batched_product, convolution, embedded, histogram, gated, rotary, running_sums,
        five_points, decoded, gelu, int4_product,
    )
}  # fmt: skip
"""Each case by name."""
