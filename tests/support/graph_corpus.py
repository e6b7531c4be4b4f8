"""Graphs of many kinds, on any device: functions or modules with arguments, some run backward."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """One graph: `make(device)` gives the function and its arguments."""

    make: Callable[[str], Made]
    backward: bool = True
    dynamic: bool | None = None


CASES: dict[str, Case] = {}

Given = tuple[int, ...] | Callable[[str], torch.Tensor]
"""The sizes of a random tensor that needs a gradient, or what makes another one on a device."""


def _tensor(given: Given, device: str, dtype: torch.dtype) -> torch.Tensor:
    if callable(given):
        return given(device)
    return torch.randn(*given, device=device).to(dtype).requires_grad_()


def _fixed(*sizes: int) -> Given:
    return lambda device: torch.randn(*sizes, device=device)


def _shares(*sizes: int) -> Given:
    return lambda device: torch.rand(*sizes, device=device)


def _indices(most: int, *sizes: int) -> Given:
    return lambda device: torch.randint(0, most, sizes, device=device)


def _simple(
    name: str,
    function: Callable[..., Any],
    *given: Given,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> None:
    """A function of these tensors."""

    def make(device: str) -> Made:
        return function, tuple(_tensor(one, device, dtype) for one in given)

    CASES[name] = Case(make, **options)


def _module(
    name: str,
    made: Callable[[], nn.Module],
    *given: Given,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> None:
    """A module, of these tensors."""

    def make(device: str) -> Made:
        module = made().to(device, dtype)
        return module, tuple(_tensor(one, device, dtype) for one in given)

    CASES[name] = Case(make, **options)


_simple("sin_squared", lambda x, y: F.mse_loss(x.sin() ** 2 + x.cos() ** 2, y), (1000,), (1000,))
_simple("add", lambda x, y: x + y, (4096,), (4096,))
_simple("broadcast_add", lambda x, y: x + y, (64, 128), (128,))
_simple("gelu", F.gelu, (33, 77))
_simple("gelu_bf16", F.gelu, (64, 256), dtype=torch.bfloat16)
_simple("silu_gate", lambda x, y: F.silu(x) * y, (32, 512), (32, 512))
_simple("silu_gate_bf16", lambda x, y: F.silu(x) * y, (32, 512), (32, 512), dtype=torch.bfloat16)
_simple("clamp_where", lambda x: torch.where(x > 0, x.clamp(max=1), x * 0.1), (1023,))
_simple("transpose_add", lambda x, y: x.t() + y, (64, 96), (96, 64))
_simple("polynomial", lambda x: x**3 + 2 * x**2 - x / 3 + 1, (10_000,))
_simple("log_sigmoid", F.logsigmoid, (500,))
_simple("tanh_dynamic", lambda x: torch.tanh(x) * 2, (129, 7), dynamic=True)
_simple("cat", lambda x, y: torch.cat([x.relu(), y.sigmoid()], 1), (16, 20), (16, 30))
_simple("split_swap", lambda x: torch.cat(list(x.chunk(2, -1))[::-1], -1) * 2, (8, 64))
_simple("pad", lambda x: F.pad(x, (1, 2, 3, 4), value=0.5) * 2, (10, 12))
_simple("cumsum", lambda x: torch.cumsum(x, -1), (16, 200))
_simple("roll_flip", lambda x: torch.roll(x, 3, 0) + x.flip(1), (12, 40))
_simple("sum_all", lambda x: x.sum(), (1 << 20,))
_simple("mean_rows", lambda x: x.mean(-1), (64, 1000))
_simple("sum_columns", lambda x: x.sum(0), (512, 300))
_simple("sum_columns_bf16", lambda x: x.sum(0), (512, 300), dtype=torch.bfloat16)
_simple("max_rows", lambda x: x.amax(-1), (50, 700))
_simple("variance", lambda x: x.var(-1), (32, 900))
_simple("norm_2", lambda x: torch.linalg.vector_norm(x, dim=-1), (32, 257))
_simple("logsumexp", lambda x: torch.logsumexp(x, -1), (48, 333))
_simple("softmax", lambda x: x.softmax(-1), (64, 1000))
_simple("softmax_wide", lambda x: x.softmax(-1), (8, 5000))
_simple("softmax_bf16", lambda x: x.softmax(-1), (64, 1000), dtype=torch.bfloat16)
_simple("softmax_dynamic", lambda x: x.softmax(-1), (40, 600), dynamic=True)
_simple("log_softmax", lambda x: F.log_softmax(x, -1), (64, 200))
_simple("reduction_dynamic", lambda x: (x * 2).sum(-1), (70, 300), dynamic=True)
_simple("argmax", lambda x: x.argmax(-1), _fixed(30, 400), backward=False)
_simple("any_all", lambda x: ((x > 2).any(-1), (x > -3).all(0)), _fixed(30, 400), backward=False)
_simple("sort_topk", lambda x: torch.topk(x.abs(), 4, -1), _fixed(16, 100), backward=False)
_simple(
    "rms_norm",
    lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    (16, 512),
    (512,),
)
_simple(
    "rms_norm_bf16", lambda x, w: F.rms_norm(x, (512,), w), (16, 512), (512,), dtype=torch.bfloat16
)
_simple("layer_norm", lambda x, w, b: F.layer_norm(x, (384,), w, b), (20, 384), (384,), (384,))
_simple(
    "layer_norm_residual", lambda x, r, w, b: F.layer_norm(x + r, (768,), w, b), (8, 16, 768),
    (8, 16, 768), (768,), (768,),
)  # fmt: skip
_module("group_norm", lambda: nn.GroupNorm(8, 64), (2, 64, 8, 8))
_module("batch_norm", lambda: nn.BatchNorm2d(16), (4, 16, 10, 10))
_module("batch_norm_eval", lambda: nn.BatchNorm2d(16).eval(), _fixed(4, 16, 10, 10), backward=False)
_module("instance_norm", lambda: nn.InstanceNorm2d(8), (3, 8, 12, 12))
_simple("matmul", lambda a, b: a @ b, (128, 64), (64, 96))
_simple("matmul_bias_relu", lambda a, b, c: torch.relu(a @ b + c), (128, 64), (64, 96), (96,))
_simple(
    "matmul_bias_gelu_bf16", lambda a, b, c: F.gelu(a @ b + c), (128, 64), (64, 96), (96,),
    dtype=torch.bfloat16,
)  # fmt: skip
_simple("batched_matmul", lambda a, b: torch.bmm(a, b).sigmoid(), (4, 32, 48), (4, 48, 16))
_simple("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), (3, 16, 32), (3, 24, 32))
_simple("outer", lambda a, b: torch.outer(a, b).sum(0), (100,), (60,))
_module(
    "mlp",
    lambda: nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)),
    (32, 256),
)
_module("linear_3d", lambda: nn.Linear(64, 128), (4, 10, 64))
_module(
    "convolution",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()),
    (2, 3, 16, 16),
)
_module(
    "convolution_norm",
    lambda: nn.Sequential(nn.Conv2d(8, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
    (2, 8, 14, 14),
)
_module(
    "depthwise_convolution", lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16), (2, 16, 12, 12)
)
_module("convolution_1d", lambda: nn.Conv1d(8, 12, 5, stride=2), (3, 8, 40))
_module("transposed_convolution", lambda: nn.ConvTranspose2d(8, 4, 2, 2), (2, 8, 7, 7))
_simple("max_pool", lambda x: F.max_pool2d(x, 2), (2, 8, 16, 16))
_simple("average_pool", lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 8, 15, 15))
_simple("adaptive_pool", lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), (2, 32, 7, 7))
_simple(
    "upsample_nearest", lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (2, 4, 9, 9)
)
_simple(
    "upsample_bilinear",
    lambda x: F.interpolate(x, size=(20, 20), mode="bilinear", align_corners=False),
    (2, 4, 9, 9),
)
_simple("embedding", lambda w, i: F.embedding(i, w).sum(1), (100, 32), _indices(100, 8, 5))
_simple("gather", lambda x, i: torch.gather(x, 1, i) * 2, (20, 30), _indices(30, 20, 10))
_simple(
    "scatter_add",
    lambda x, i: torch.zeros(50, device=x.device).scatter_add(0, i, x * 3),
    (200,),
    _indices(50, 200),
)
_simple(
    "index_put", lambda x, i, v: x.clone().index_put((i,), v, accumulate=True), (40, 8),
    _indices(40, 12), (12, 8),
)  # fmt: skip
_simple(
    "masked_fill",
    lambda x, m: x.masked_fill(m, -1e9).softmax(-1),
    (16, 64),
    lambda device: torch.rand(16, 64, device=device) > 0.5,
)
_simple(
    "one_hot_loss", lambda x, t: -(F.one_hot(t, 40).float() * x.log_softmax(-1)).sum(-1).mean(),
    (24, 40), _indices(40, 24),
)  # fmt: skip
_simple("cross_entropy", F.cross_entropy, (32, 1000), _indices(1000, 32))
_simple("cross_entropy_bf16", F.cross_entropy, (32, 1000), _indices(1000, 32), dtype=torch.bfloat16)
_simple("binary_cross_entropy", F.binary_cross_entropy_with_logits, (300,), _shares(300))
_simple("smooth_l1", F.smooth_l1_loss, (400,), (400,))
_simple(
    "kl_divergence", lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1)), (20, 30), (20, 30)
)


def _attention(query: Any, key: Any, value: Any) -> Any:
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    length = query.shape[-2]
    mask = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ value


_HEADS = (2, 4, 64, 32)
_simple("attention_written_out", _attention, _HEADS, _HEADS, _HEADS)
_simple("attention", F.scaled_dot_product_attention, _HEADS, _HEADS, _HEADS)
_simple(
    "attention_causal_bf16",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    _HEADS,
    _HEADS,
    _HEADS,
    dtype=torch.bfloat16,
)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 192)
        self.out = nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        made = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.out(made.transpose(1, 2).reshape(batch, length, width))


_module("multi_head_attention", Attention, (2, 32, 64))
_simple("dropout", lambda x: F.dropout(x * 2, 0.3), (64, 128))
_simple("dropout_residual", lambda x, y: y + F.dropout(x.relu(), 0.1), (64, 128), (64, 128))
_simple("random_noise", lambda x: x + torch.randn_like(x) * 0.1, _fixed(300), backward=False)


def _rotary(x: Any, cosine: Any, sine: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


def _angles(device: str) -> torch.Tensor:
    return torch.arange(32.0 * 64, device=device).view(32, 64)


def _experts(x: Any, gate: Any, weights: Any) -> Any:
    chances = (x @ gate).softmax(-1)
    best, which = chances.topk(2, -1)
    best = best / best.sum(-1, keepdim=True)
    return (torch.einsum("nd,nkde->nke", x, weights[which]) * best[..., None]).sum(1)


def _lstm_cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    i, f, g, o = (x @ w + h @ u + b).chunk(4, -1)
    cell = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


_simple("rotary", _rotary, (2, 4, 32, 64), lambda d: _angles(d).cos(), lambda d: _angles(d).sin())
_simple("experts", _experts, (20, 16), (16, 4), (4, 16, 24))
_simple("lstm_cell", _lstm_cell, (8, 32), (8, 48), (8, 48), (32, 192), (48, 192), (192,))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.after = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(self.before(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        made = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(made.transpose(1, 2).reshape(batch, length, width))
        made = self.down(F.gelu(self.up(self.after(x))))
        return torch.add(x, made)


_module("transformer_block", lambda: Block(64, 4), (2, 32, 64))
_module("transformer_block_bf16", lambda: Block(64, 4), (2, 32, 64), dtype=torch.bfloat16)


def _sgd_step(p: Any, g: Any, m: Any) -> Any:
    momentum = m * 0.9 + g
    return p - 0.1 * momentum, momentum


def _adam_step(p: Any, g: Any, m: Any, v: Any) -> Any:
    m = torch.lerp(m, g, 0.1)
    v = v * 0.999 + g * g * 0.001
    return p - 1e-3 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8), m, v


_simple("sgd_step", _sgd_step, *[_fixed(3000)] * 3, backward=False)
_simple("adam_step", _adam_step, *[_shares(5000)] * 4, backward=False)
