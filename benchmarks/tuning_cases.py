"""The five kernels whose tuning is recorded on a GPU:
launches, spaces, right results, torch's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton

from benchmarks.kernels import attention, softmax_rows
from kernellab.cli.demo.kernels import layer_norm, matmul, vector_add


@dataclass(frozen=True)
class TuningCase:
    """One launch, and the configs that are tried for it."""

    name: str
    kernel: Any
    grid: Any
    arguments: Mapping[str, Any]
    fixed: Mapping[str, Any]
    """Constants that every config has."""
    space: Mapping[str, Sequence[Any]]
    reference: Mapping[str, torch.Tensor]
    torch_way: Callable[[], Any]
    prune: Callable[[dict[str, Any]], bool] | None = None
    flops: float | None = None
    """Operations of a launch, where the lab cannot count them:
    loops whose length depends on the program."""
    rtol: float | None = None

    @property
    def configs(self) -> list[triton.Config]:
        """The same configs as Triton's own autotuner takes them."""
        found = []
        for values in _combinations(self.space):
            if self.prune is None or not self.prune({**self.fixed, **values}):
                options = {name: values.pop(name) for name in _OPTIONS if name in values}
                found.append(triton.Config(values, **options))
        return found


_OPTIONS = ("num_warps", "num_stages")


def _combinations(space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for name, values in space.items():
        found = [{**one, name: value} for one in found for value in values]
    return found


@dataclass(frozen=True)
class Sizes:
    """How large the launches are."""

    vector: int
    rows: int
    columns: int
    matrix: int
    norm_rows: int
    norm_columns: int
    heads: int
    tokens: int


FULL = Sizes(1 << 24, 32768, 1024, 4096, 4096, 8192, 32, 4096)
SMALL = Sizes(1 << 12, 64, 128, 128, 16, 1024, 2, 128)
"""For a trial that takes seconds."""


def vector_add_case(size: int, device: str) -> TuningCase:
    """z = x + y, fp32."""
    x, y = (torch.rand(size, device=device) for _ in range(2))
    return TuningCase(
        name="vector_add",
        kernel=vector_add,
        grid=lambda meta: (triton.cdiv(size, meta["BLOCK"]),),
        arguments={"x_ptr": x, "y_ptr": y, "out_ptr": torch.empty_like(x), "n": size},
        fixed={},
        space={"BLOCK": [64 << power for power in range(8)], "num_warps": [1, 2, 4, 8, 16]},
        reference={"out_ptr": x + y},
        torch_way=lambda: x + y,
    )


def softmax_case(rows: int, columns: int, device: str) -> TuningCase:
    """Softmax of fp32 rows, by programs that stay."""
    x = torch.randn(rows, columns, device=device)
    return TuningCase(
        name="softmax",
        kernel=softmax_rows,
        grid=(528,),  # four programs for each multiprocessor of an H200
        arguments={
            "x_ptr": x,
            "out_ptr": torch.empty_like(x),
            "n_rows": rows,
            "n_columns": columns,
        },
        fixed={"BLOCK": triton.next_power_of_2(columns)},
        space={"ROWS": [1, 2, 4, 8], "num_warps": [2, 4, 8, 16], "num_stages": [1, 2, 3]},
        reference={"out_ptr": torch.softmax(x, dim=1)},
        torch_way=lambda: torch.softmax(x, dim=1),
    )


def matmul_case(size: int, device: str) -> TuningCase:
    """A square fp16 product, accumulated in fp32."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    strides = dict.fromkeys(("stride_am", "stride_bk", "stride_cm"), size)
    strides |= dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)
    return TuningCase(
        name="matmul",
        kernel=matmul,
        grid=lambda meta: (
            triton.cdiv(size, meta["BLOCK_M"]) * triton.cdiv(size, meta["BLOCK_N"]),
        ),
        arguments={"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": size, "N": size, "K": size, **strides},
        fixed={"GROUP_M": 8, "PRECISION": "tf32"},
        space={
            "BLOCK_M": [64, 128],
            "BLOCK_N": [64, 128, 256],
            "BLOCK_K": [32, 64],
            "num_warps": [4, 8],
            "num_stages": [3, 4],
        },
        reference={"c_ptr": a @ b},
        torch_way=lambda: a @ b,
    )


def layer_norm_case(rows: int, columns: int, device: str) -> TuningCase:
    """Layer normalization of fp16 rows."""
    x = torch.randn(rows, columns, device=device, dtype=torch.float16)
    weight, bias = (torch.rand(columns, device=device, dtype=torch.float16) for _ in range(2))
    right = torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5)
    means = {name: torch.empty(rows, device=device) for name in ("mean_ptr", "rstd_ptr")}
    tensors = {"x_ptr": x, "weight_ptr": weight, "bias_ptr": bias, "out_ptr": torch.empty_like(x)}
    return TuningCase(
        name="layer_norm",
        kernel=layer_norm,
        grid=(rows,),
        arguments={
            **tensors,
            **means,
            "row_stride": columns,
            "n_columns": columns,
            "epsilon": 1e-5,
        },
        fixed={},
        space={
            "BLOCK": [1024, 2048, 4096, 8192],
            "num_warps": [2, 4, 8, 16],
            "num_stages": [1, 2, 3],
        },
        reference={"out_ptr": right},
        torch_way=lambda: torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5),
    )


def attention_case(heads: int, tokens: int, device: str) -> TuningCase:
    """Causal attention, forward, of fp16 heads of 64."""
    head = 64
    q, k, v = (
        torch.randn(heads, tokens, head, device=device, dtype=torch.float16) for _ in range(3)
    )

    def torch_way() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            q[None], k[None], v[None], is_causal=True
        )[0]

    log2e = 1.4426950408889634
    return TuningCase(
        name="attention",
        kernel=attention,
        grid=lambda meta: (triton.cdiv(tokens, meta["BLOCK_M"]), heads),
        arguments={
            "q_ptr": q,
            "k_ptr": k,
            "v_ptr": v,
            "out_ptr": torch.empty_like(q),
            "scale": log2e / head**0.5,
            "stride_head": tokens * head,
            "stride_token": head,
        },
        fixed={"HEAD": head},
        space={
            "BLOCK_M": [32, 64, 128],
            "BLOCK_N": [16, 32, 64, 128],
            "num_warps": [4, 8],
            "num_stages": [2, 3, 4],
        },
        reference={"out_ptr": torch_way()},
        torch_way=torch_way,
        prune=lambda one: one["BLOCK_N"] > one["BLOCK_M"] or one["BLOCK_M"] > 6 * one["BLOCK_N"],
        flops=2 * 2 * heads * tokens * tokens * head / 2,
        rtol=1e-2,
    )


def all_cases(sizes: Sizes, device: str) -> dict[str, Callable[[], TuningCase]]:
    """Each case by name; made when called, since together they fill a small GPU."""
    return {
        "vector_add": lambda: vector_add_case(sizes.vector, device),
        "softmax": lambda: softmax_case(sizes.rows, sizes.columns, device),
        "matmul": lambda: matmul_case(sizes.matrix, device),
        "layer_norm": lambda: layer_norm_case(sizes.norm_rows, sizes.norm_columns, device),
        "attention": lambda: attention_case(sizes.heads, sizes.tokens, device),
    }
