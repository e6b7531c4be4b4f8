"""liger-kernel: layers and losses for training, beside plain torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from benchmarks.foreign.samples import Pair, Samples, both_ways, drawn, later, normal

liger = importlib.import_module("liger_kernel.transformers.functional")
ops = importlib.import_module("liger_kernel.ops")
experimental = importlib.import_module("liger_kernel.ops.experimental.embedding")

SAMPLES = Samples()
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
EPS = 1e-6


def rms_norm(x: torch.Tensor, w: torch.Tensor, offset: float = 0.0) -> torch.Tensor:
    return (_normed(x.float()) * (offset + w.float())).to(x.dtype)


def _normed(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of halves, as in transformers."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def angles(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, the two halves of the last dimension alike."""
    half = torch.randn(*shape[:-1], shape[-1] // 2)
    whole = torch.cat([half, half], -1)
    return whole.cos(), whole.sin()


def poly_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = x.float()
    return (w[0] * _normed(y**3) + w[1] * _normed(y**2) + w[2] * _normed(y) + b).to(x.dtype)


def sparsemax(x: torch.Tensor) -> torch.Tensor:
    """Martins and Astudillo, 2016."""
    z = x.sort(-1, descending=True).values
    sums, ranks = z.cumsum(-1) - 1, torch.arange(1, x.shape[-1] + 1)
    size = (z * ranks > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, size - 1) / size).clamp_min(0)


def jsd(student: torch.Tensor, teacher: torch.Tensor, beta: float) -> torch.Tensor:
    """Of log-probabilities; forward and backward divergence at 0 and 1."""
    if beta == 0:
        return F.kl_div(student, teacher, log_target=True, reduction="batchmean")
    if beta == 1:
        return F.kl_div(teacher, student, log_target=True, reduction="batchmean")
    p, q = student.exp(), teacher.exp()
    mixed = (beta * q + (1 - beta) * p).log()
    parts = beta * q * (teacher - mixed) + (1 - beta) * p * (student - mixed)
    return parts.sum() / student.shape[0]


def attn_res(v: torch.Tensor, query: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    scores = (_normed(v) * weight * query).sum(-1)
    return (scores.softmax(0)[..., None] * v).sum(0)


def group_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.group_norm(x.view(x.shape[0], 6, -1), 3, w, b, EPS).view_as(x)


def neighborhood(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of each place to the 5 around it, fewer at the ends."""
    places = torch.arange(q.shape[2])
    near = (places[:, None] - places[None, :]).abs() <= 2
    return F.scaled_dot_product_attention(q, k, v, attn_mask=near)


def llama4_rope(q: torch.Tensor, k: torch.Tensor, freqs: torch.Tensor) -> list[torch.Tensor]:
    def turned(x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * freqs[None, :, None]
        return torch.view_as_real(pairs).flatten(3)

    return [turned(q), turned(k)]


def distribution(
    rows: int, columns: int, dtype: torch.dtype, logarithms: bool = False
) -> torch.Tensor:
    x = drawn(rows, columns, dtype=dtype)
    return x.log_softmax(-1) if logarithms else x.softmax(-1)


def turns(*shape: int) -> torch.Tensor:
    """Complex numbers of length 1."""
    return torch.polar(torch.ones(*shape), torch.randn(*shape))


def named(
    note: str, what: str, theirs: Any, reference: Any, inputs: Sequence[Any], **more: Any
) -> None:
    SAMPLES.both_ways(f"{what} {note}", theirs, reference, inputs, **more)


for name, dtype in DTYPES.items():
    for columns in (40, 130):
        rows = partial(normal, 3, 5, columns, dtype=dtype)
        weight = partial(normal, columns, dtype=dtype)
        classes = partial(normal, 9, columns, dtype=dtype)
        some, fixed = later(normal, dtype=dtype), later(drawn, dtype=dtype)
        shares = partial(distribution, 9, columns, dtype)
        logarithms = partial(distribution, 9, columns, dtype, logarithms=True)
        labels = partial(torch.randint, columns, (9,))
        rounded: dict[str, Any] = {"tolerance": 0.1} if dtype == torch.bfloat16 else {}
        add = partial(named, f"{name} {columns}")

        for in_place in (True, False):
            for mode, offset in (("llama", 0.0), ("gemma", 1.0)):
                add(
                    f"rms_norm {mode}{' in place' if in_place else ''}",
                    lambda x, w, m=mode, o=offset, p=in_place: liger.liger_rms_norm(
                        x, w, EPS, o, m, p
                    ),
                    lambda x, w, o=offset: rms_norm(x, w, o),
                    (rows, weight),
                )
        add(
            "layer_norm",
            lambda x, w, b: liger.liger_layer_norm(x, w, b, EPS),
            lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS),
            (rows, weight, weight),
        )
        add(
            "fused_add_rms_norm",
            lambda x, r, w: liger.liger_fused_add_rms_norm(x, r, w, EPS),
            lambda x, r, w: (rms_norm(x + r, w), x + r),
            (rows, rows, weight),
        )
        add(
            "modulated_rms_norm",
            lambda x, w, s, t: liger.liger_modulated_rms_norm(x, w, s, t, EPS),
            lambda x, w, s, t: (
                rms_norm(x, w).float() * (1 + s.float()[:, None]) + t.float()[:, None]
            ).to(x.dtype),
            (rows, weight, fixed(3, columns), fixed(3, columns)),
        )
        add(
            "softmax",
            liger.liger_softmax,
            lambda x: x.softmax(-1),
            (rows,),
        )
        if dtype == torch.float32:  # their gradients jump where rounding moves a threshold
            add("sparsemax", liger.liger_sparsemax, sparsemax, (rows,))
            add(
                "tvd",
                lambda x, y: liger.liger_tvd(x.softmax(-1), y, None, "batchmean"),
                lambda x, y: 0.5 * (x.softmax(-1) - y).abs().sum() / x.shape[0],
                (some(9, columns), shares),
            )
        add("relu_squared", liger.liger_relu_squared, lambda x: x.relu() ** 2, (rows,))
        add("swiglu", liger.liger_swiglu, lambda a, b: F.silu(a) * b, (rows, rows))
        add(
            "geglu",
            liger.liger_geglu,
            lambda a, b: F.gelu(a, approximate="tanh") * b,
            (rows, rows),
        )
        add(
            "poly_norm",
            lambda x, w, b: liger.liger_poly_norm(x, w, b, EPS),
            poly_norm,
            (rows, some(3), some()),
            **rounded,
        )
        add(
            "dyt",
            liger.liger_dyt,
            lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x) + beta,
            (rows, some(1), weight, weight),
        )
        add(
            "attn_res",
            liger.liger_attn_res,
            attn_res,
            (some(4, 2, 3, columns), weight, weight),
        )
        for reduction in ("mean", "sum", "none"):
            add(
                f"cross_entropy {reduction}",
                lambda x, t, r=reduction: liger.liger_cross_entropy(
                    x, t, ignore_index=3, reduction=r, label_smoothing=0.1
                ),
                lambda x, t, r=reduction: F.cross_entropy(
                    x, t, ignore_index=3, reduction=r, label_smoothing=0.1
                ),
                (some(9, columns), labels),
            )
        add(
            "fused_linear_cross_entropy",
            lambda x, w, t, b: liger.liger_fused_linear_cross_entropy(x, w, t, b),
            lambda x, w, t, b: F.cross_entropy(F.linear(x, w, b).float(), t),
            (some(9, 32), some(columns, 32), labels, weight),
            **rounded,
        )
        for beta in (0.0, 0.3, 1.0):
            add(
                f"jsd {beta}",
                lambda x, y, b=beta: liger.liger_jsd(x.log_softmax(-1), y, None, b),
                lambda x, y, b=beta: jsd(x.log_softmax(-1), y, b),
                (some(9, columns), logarithms),
                **rounded,
            )
        for reduction in ("batchmean", "sum", "mean", "none"):
            add(
                f"kl_div {reduction}",
                lambda x, y, r=reduction: liger.liger_kl_div(x.log_softmax(-1), y, reduction=r),
                lambda x, y, r=reduction: F.kl_div(x.log_softmax(-1), y, reduction=r),
                (some(9, columns), shares),
                **rounded,
            )
        add(
            "group_norm",
            lambda x, w, b: liger.liger_group_norm(x, w, b, 6, 3, EPS),
            group_norm,
            (some(2, 6, columns), some(6), some(6)),
            **rounded,
        )
        add(
            "embedding",
            experimental.LigerEmbeddingFunction.apply,
            lambda w, i: F.embedding(i, w),
            (some(20, columns), partial(torch.randint, 20, (4, 7))),
        )

some = later(normal)
for head in (16, 64):
    SAMPLES.both_ways(
        f"rope {head}",
        lambda q, k, c, s: liger.liger_rope(q.clone(), k.clone(), c, s),
        lambda q, k, c, s: (rotated(q, c[:, None], s[:, None]), rotated(k, c[:, None], s[:, None])),
        (some(2, 4, 9, head), some(2, 2, 9, head), *angles(1, 9, head)),
    )
    SAMPLES.both_ways(
        f"llama4_rope {head}",
        ops.LigerLlama4RopeFunction.apply,
        llama4_rope,
        (some(2, 9, 4, head), some(2, 9, 2, head), partial(turns, 9, head // 2)),
    )
    SAMPLES.both_ways(
        f"neighborhood attention {head}",
        lambda q, k, v: liger.liger_fused_neighborhood_attention(q, k, v, 5),
        neighborhood,
        (some(1, 2, 37, head), some(1, 2, 37, head), some(1, 2, 37, head)),
        tolerance=0.01,
    )


@SAMPLES
def mrope() -> Iterator[Pair]:
    cos, sin = angles(3, 2, 9, 32)
    section = [4, 6, 6]
    parts = [
        torch.cat([one[n % 3] for n, one in enumerate(torch.split(whole, section * 2, -1))], -1)[
            :, None
        ]
        for whole in (cos, sin)
    ]
    return both_ways(
        lambda q, k: liger.liger_qwen2vl_mrope(q.clone(), k.clone(), cos, sin, section),
        lambda q, k: (rotated(q, *parts), rotated(k, *parts)),
        normal(2, 4, 9, 32),
        normal(2, 2, 9, 32),
    )


@SAMPLES
def multi_token_attention() -> Iterator[Pair]:
    later = torch.ones(12, 12).triu(1).bool()

    def reference(scores: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        shares = scores.masked_fill(later, float("-inf")).softmax(-1)
        return F.conv2d(shares, weight, bias, padding=1).masked_fill(later, 0.0)

    return both_ways(
        lambda s, w, b: liger.liger_multi_token_attention(s, w, b, padding=1),
        reference,
        normal(2, 3, 12, 12),
        normal(4, 3, 3, 3),
        normal(4),
    )


@SAMPLES
def fused_linear_jsd() -> Iterator[Pair]:
    return both_ways(
        lambda x, w, y, v: liger.liger_fused_linear_jsd(x, w, y, v, None, 0.4),
        lambda x, w, y, v: jsd(F.linear(x, w).log_softmax(-1), F.linear(y, v).log_softmax(-1), 0.4),
        normal(9, 32),
        normal(50, 32),
        drawn(9, 24),
        drawn(50, 24),
    )


@SAMPLES
def fused_linear_kl_div() -> Iterator[Pair]:
    return both_ways(
        lambda x, w, y: liger.liger_fused_linear_kl_div(x, w, y),
        lambda x, w, y: F.kl_div(F.linear(x, w).log_softmax(-1), y, reduction="batchmean"),
        normal(9, 32),
        normal(50, 32),
        drawn(9, 50).softmax(-1),
    )


@SAMPLES
def fused_ce_tvd() -> Iterator[Pair]:
    def reference(x: torch.Tensor, y: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        apart = 0.5 * (x.softmax(-1) - y.softmax(-1)).abs().sum(-1)
        return F.cross_entropy(x, t, reduction="none"), apart

    return both_ways(
        ops.LigerFusedCETVDFunction.apply,
        reference,
        normal(9, 130),
        drawn(9, 130),
        torch.randint(130, (9,)),
    )


@SAMPLES
def fused_moe() -> Iterator[Pair]:
    def reference(
        x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, which: Any, share: torch.Tensor
    ) -> torch.Tensor:
        gates, ups = torch.einsum("th,ekh->tek", x, up).chunk(2, -1)
        each = torch.einsum("tei,ehi->teh", F.silu(gates) * ups, down)
        chosen = each.gather(1, which.long()[..., None].expand(-1, -1, x.shape[1]))
        return (chosen * share[..., None]).sum(1)

    return both_ways(
        ops.LigerFusedMoEFunction.apply,
        reference,
        normal(12, 32),
        normal(4, 2 * 48, 32),
        normal(4, 32, 48),
        torch.rand(12, 4).topk(2, -1).indices.int(),
        torch.rand(12, 2).requires_grad_(),
        tolerance=0.01,
    )


@SAMPLES
def manifold_hyper_connections() -> Iterator[Pair]:
    """Of `x` the mix of its 4 streams before a layer, and after it."""

    def before(x: torch.Tensor, pre: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bthc,bth->btc", x, pre)

    def after(x: torch.Tensor, f: torch.Tensor, post: torch.Tensor, mix: Any) -> torch.Tensor:
        return torch.einsum("btij,btjc->btic", mix, x) + post[..., None] * f[:, :, None]

    x, pre, post, mix = normal(2, 3, 4, 40), normal(2, 3, 4), normal(2, 3, 4), normal(2, 3, 4, 4)
    yield from both_ways(liger.liger_mhc_pre, before, x, pre)
    yield from both_ways(liger.liger_mhc_post_res, after, x, normal(2, 3, 40), post, mix)
