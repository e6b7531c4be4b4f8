"""fla-core: linear attention and its kin, beside the naive forms that it ships."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from benchmarks.foreign.samples import Pair, Run, Samples, both_ways, drawn, later, normal

for package in ("fla.ops", "fla.modules"):  # here, so that no sample has to
    importlib.import_module(package)

SAMPLES = Samples()
B, T, H, K, V = 2, 70, 2, 32, 48

Maker = Callable[[], Any]


def ops(path: str) -> Callable[..., Any]:
    """A function of fla's, "ops.gla.chunk_gla"; looked for when it is called."""
    module, _, name = f"fla.{path}".rpartition(".")

    def function(*given: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*given, **named)

    return function


def gate(*shape: int) -> torch.Tensor:
    """Logarithms of what is kept at each step."""
    return F.logsigmoid(torch.randn(*shape)).requires_grad_()


def part(*shape: int) -> torch.Tensor:
    return torch.rand(*shape).requires_grad_()


def unit(*shape: int) -> torch.Tensor:
    return F.normalize(torch.randn(*shape), dim=-1).requires_grad_()


QKV: dict[str, Maker] = {
    "q": lambda: normal(B, T, H, K),
    "k": lambda: unit(B, T, H, K),
    "v": lambda: normal(B, T, H, V),
}
STATE: dict[str, Maker] = {"initial_state": lambda: normal(B, H, K, V)}
HEAD_GATE: dict[str, Maker] = {"g": lambda: gate(B, T, H)}
KEY_GATE: dict[str, Maker] = {"g": lambda: gate(B, T, H, K)}
BETA: dict[str, Maker] = {"beta": lambda: part(B, T, H)}


def add(
    name: str,
    theirs: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Mapping[str, Maker],
    *,
    dtype: torch.dtype = torch.float32,
    tolerance: float | None = None,
    backward: bool = True,
    precise: Sequence[str] = ("initial_state",),
    **options: Any,
) -> None:
    """A sample that gives the same inputs by name to both, with `options` for both;
    inputs named in `precise` stay fp32.
    """

    def run() -> Iterator[Pair]:
        values = []
        for name, make in inputs.items():
            value = make().detach()
            value = value if name in precise else value.to(dtype)
            values.append(value.requires_grad_(backward))
        return both_ways(
            lambda *given: theirs(**dict(zip(inputs, given)), **options),
            lambda *given: reference(**dict(zip(inputs, given)), **options),
            *values,
            tolerance=tolerance,
        )

    SAMPLES[name] = run


def heads_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that takes and gives (B, H, T, ...)."""

    def turned(**named: Any) -> Any:
        kept = {"initial_state", "u"}
        given = {
            name: value.transpose(1, 2)
            if isinstance(value, torch.Tensor) and name not in kept
            else value
            for name, value in named.items()
        }
        output = function(**given)
        if isinstance(output, tuple):
            return (output[0].transpose(1, 2), *output[1:])
        return output.transpose(1, 2)

    return turned


def named(function: Callable[..., Any], **names: str) -> Callable[..., Any]:
    """The function under other names of its parameters: named(f, g="gk") takes g for f's gk."""
    return lambda **given: function(**{names.get(name, name): given[name] for name in given})


def first(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: function(**given)[0]


def beside(note: str, what: str, theirs: Any, reference: Any, inputs: Sequence[Any]) -> None:
    """A sample of a layer."""
    tolerance = 0.06 if note == "bf16" else None
    SAMPLES.both_ways(f"{what} {note}", theirs, reference, inputs, tolerance=tolerance)


for dtype in (torch.float32, torch.bfloat16):
    for stated in (False, True):
        note = ("fp32" if dtype == torch.float32 else "bf16") + (" from a state" if stated else "")
        state = STATE if stated else {}
        more: dict[str, Any] = {"dtype": dtype, "output_final_state": True}
        more["tolerance"] = 0.02 if dtype == torch.float32 else 0.1

        simple = ops("ops.simple_gla.naive.naive_recurrent_simple_gla")
        for form in ("chunk", "fused_chunk", "fused_recurrent"):
            theirs = ops(f"ops.simple_gla.{form}_simple_gla")
            add(f"simple_gla {form} {note}", theirs, simple, QKV | HEAD_GATE | state, **more)
        linear = ops("ops.linear_attn.naive.naive_recurrent_linear_attn")
        for form in ("chunk", "fused_chunk", "fused_recurrent"):
            theirs = ops(f"ops.linear_attn.{form}_linear_attn")
            add(f"linear_attn {form} {note}", theirs, linear, QKV | state, normalize=False, **more)
        gla = named(ops("ops.gla.naive.naive_recurrent_gla"), g="gk")
        add(f"gla chunk {note}", ops("ops.gla.chunk_gla"), gla, QKV | KEY_GATE | state, **more)
        add(
            f"gla recurrent {note}",
            named(ops("ops.gla.fused_recurrent_gla"), g="gk"),
            gla,
            QKV | KEY_GATE | state,
            **more,
        )
        delta = heads_first(ops("ops.delta_rule.naive.delta_rule_recurrence"))
        for form in ("chunk", "fused_recurrent"):
            if form == "chunk" and dtype == torch.float32:
                continue  # it wants bf16
            theirs = ops(f"ops.delta_rule.{form}_delta_rule")
            add(f"delta_rule {form} {note}", theirs, delta, QKV | BETA | state, **more)
        gated = ops("ops.gated_delta_rule.naive.naive_recurrent_gated_delta_rule")
        add(
            f"gated_delta_rule chunk {note}",
            ops("ops.gated_delta_rule.chunk_gated_delta_rule"),
            gated,
            QKV | HEAD_GATE | BETA | state,
            **more,
        )
        add(
            f"comba chunk {note}",
            ops("ops.comba.chunk_comba"),
            ops("ops.comba.naive.naive_chunk_comba"),
            QKV | {"p": lambda: unit(B, T, H, K)} | HEAD_GATE | BETA | state,
            **more,
        )
        add(
            f"kda chunk {note}",
            ops("ops.kda.chunk_kda"),
            ops("ops.kda.naive.naive_recurrent_kda"),
            QKV | KEY_GATE | BETA | state,
            **more,
        )
        add(
            f"hgrn {note}",
            ops("ops.hgrn.fused_recurrent_hgrn"),
            ops("ops.hgrn.naive.naive_recurrent_hgrn"),
            {"x": lambda: normal(B, T, 40), "g": lambda: gate(B, T, 40)}
            | ({"initial_state": lambda: normal(B, 40)} if stated else {}),
            **more,
        )
        rwkv6 = heads_first(ops("ops.rwkv6.recurrent_naive.naive_recurrent_rwkv6"))
        for form in ("chunk", "fused_recurrent"):
            add(
                f"rwkv6 {form} {note}",
                named(ops(f"ops.rwkv6.{form}_rwkv6"), q="r"),
                rwkv6,
                QKV | {"w": lambda: gate(B, T, H, K), "u": lambda: normal(H, K)} | state,
                **more,
            )
        directions: dict[str, Maker] = {
            "a": lambda: unit(B, T, H, K),
            "b": lambda: (-0.5 * unit(B, T, H, K)).detach().requires_grad_(),
        }
        iplr = named(
            heads_first(ops("ops.generalized_delta_rule.iplr.naive.iplr_recurrence")),
            a="alpha",
            b="beta",
        )
        for form in ("chunk", "fused_recurrent"):
            theirs = ops(f"ops.generalized_delta_rule.{form}_iplr_delta_rule")
            add(
                f"iplr_delta_rule {form} {note}",
                theirs,
                iplr,
                QKV | directions | state,
                backward=form != "chunk",  # it has none
                **more,
            )
        dplr = named(
            heads_first(ops("ops.generalized_delta_rule.dplr.naive.dplr_recurrence")),
            a="alpha",
            b="beta",
        )
        for form in ("chunk", "fused_recurrent"):
            add(
                f"dplr_delta_rule {form} {note}",
                ops(f"ops.generalized_delta_rule.{form}_dplr_delta_rule"),
                dplr,
                QKV | directions | {"gk": lambda: gate(B, T, H, K)} | state,
                backward=form == "chunk",  # the other has none
                **more,
            )
        slots: dict[str, Maker] = {
            "s": lambda: normal(B, T, H, 16),
            "g": lambda: gate(B, T, H, 16),
        }
        for form in ("chunk", "fused_recurrent"):
            if not stated:
                add(
                    f"gsa {form} {note}",
                    first(ops(f"ops.gsa.{form}_gsa")),
                    first(ops("ops.gsa.naive.naive_recurrent_gsa")),
                    QKV | slots,
                    **more,
                )
    name = "fp32" if dtype == torch.float32 else "bf16"
    plain: dict[str, Any] = {"dtype": dtype, "tolerance": 0.02 if dtype == torch.float32 else 0.1}
    for form in ("chunk", "fused_chunk", "fused_recurrent", "parallel"):
        add(
            f"retention {form} {name}",
            first(ops(f"ops.retention.{form}_retention")),
            heads_first(ops("ops.retention.naive.naive_retention")),
            QKV,
            **plain,
        )
    add(
        f"simple_gla parallel {name}",
        first(ops("ops.simple_gla.parallel_simple_gla")),
        first(ops("ops.simple_gla.naive.naive_recurrent_simple_gla")),
        QKV | HEAD_GATE,
        **plain,
    )
    for window in (None, 20):
        add(
            f"attn {window} {name}",
            ops("ops.attn.parallel_attn"),
            first(ops("ops.attn.naive.naive_parallel_attn")),
            QKV | {"q": lambda: normal(B, T, 2 * H, K)},
            window_size=window,
            **plain,
        )
        add(
            f"forgetting_attn {window} {name}",
            ops("ops.forgetting_attn.parallel_forgetting_attn"),
            ops("ops.forgetting_attn.naive.naive_forgetting_attn"),
            QKV | HEAD_GATE,
            window_size=window,
            **plain,
        )
    add(
        f"stickbreaking_attn {name}",
        ops("ops.stickbreaking_attn.parallel_stickbreaking_attn"),
        ops("ops.stickbreaking_attn.naive.naive_stickbreaking_attn"),
        QKV,
        **plain,
    )
    based: dict[str, Maker] = {
        "q": lambda: normal(B, T, H, 16),
        "k": lambda: normal(B, T, H, 16),
        "v": lambda: normal(B, T, H, V),
    }
    for form in ("parallel", "fused_chunk"):
        add(
            f"based {form} {name}",
            ops(f"ops.based.{form}_based"),
            heads_first(ops("ops.based.naive.naive_parallel_based")),
            based,
            **plain,
        )
    add(
        f"rebased {name}",
        ops("ops.rebased.parallel.parallel_rebased"),
        heads_first(ops("ops.rebased.naive.naive_parallel_rebased")),
        based,
        **plain,
    )
    add(
        f"path_attn {name}",
        first(ops("ops.path_attn.parallel_path_attn")),
        ops("ops.path_attn.naive.naive_path_attn"),
        QKV | {"v": lambda: normal(B, T, H, K), "w": lambda: unit(B, T, H, K)} | BETA | HEAD_GATE,
        precise=("w", "beta", "g"),
        scale=K**-0.5,
        **plain,
    )

    n, fixed = later(normal, dtype=dtype), later(drawn, dtype=dtype)
    put = partial(beside, name)

    for norm in ("layer_norm", "rms_norm", "group_norm"):
        extra = {"num_groups": 4} if norm == "group_norm" else {}
        put(
            norm,
            lambda x, w, b, n=norm, e=extra: ops(f"modules.norm.layernorm.{n}")(x, w, b, **e),
            lambda x, w, b, n=norm, e=extra: ops(f"modules.norm.layernorm.{n}_ref")(x, w, b, **e),
            (n(6, 11, 40), n(40), n(40)),
        )
        if norm != "group_norm":
            put(
                f"{norm} after a residual",
                lambda x, w, b, r, n=norm: ops(f"modules.norm.layernorm.{n}")(
                    x, w, b, residual=r, prenorm=True
                ),
                lambda x, w, b, r, n=norm: ops(f"modules.norm.layernorm.{n}_ref")(
                    x, w, b, residual=r, prenorm=True
                ),
                (n(6, 11, 40), n(40), n(40), n(6, 11, 40)),
            )
    put(
        "rms_norm_gated",
        lambda x, g, w: ops("modules.norm.fused_norm_gate.rms_norm_gated")(x, g, w, None),
        lambda x, g, w: F.rms_norm(x, w.shape, w, 1e-5) * F.silu(g),
        (n(6, 11, 40), n(6, 11, 40), n(40)),
    )
    put(
        "l2norm",
        ops("modules.norm.l2norm.l2norm"),
        lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6),
        (n(6, 11, 40),),
    )
    for activation, expected in {
        "swiglu": lambda x, y: F.silu(x) * y,
        "sigmoidglu": lambda x, y: x.sigmoid() * y,
        "swish": F.silu,
        "sigmoid": torch.sigmoid,
        "logsigmoid": F.logsigmoid,
    }.items():
        put(
            activation,
            ops(f"modules.activations.{activation}"),
            expected,
            [n(6, 11, 40)] * (1 + activation.endswith("glu")),
        )
    put(
        "swiglu_linear",
        ops("modules.activations.swiglu_linear"),
        lambda x, y, w, b: F.linear(F.silu(x) * y, w, b),
        (n(6, 11, 40), n(6, 11, 40), n(24, 40), n(24)),
    )
    put(
        "token_shift",
        ops("modules.token_shift.token_shift"),
        ops("modules.token_shift.token_shift_ref"),
        (n(2, 21, 40),),
    )
    put(
        "cross_entropy_loss",
        lambda x, t: ops("modules.fused_cross_entropy.cross_entropy_loss")(x, t)[0].mean(),
        F.cross_entropy,
        (n(9, 130), partial(torch.randint, 130, (9,))),
    )
    put(
        "fused_linear_cross_entropy_loss",
        ops("modules.fused_linear_cross_entropy.fused_linear_cross_entropy_loss"),
        lambda x, t, w, b: F.cross_entropy(F.linear(x, w, b), t),
        (n(30, 32), partial(torch.randint, 130, (30,)), n(130, 32), n(130)),
    )
    put(
        "fused_kl_div_loss",
        ops("modules.fused_kl_div.fused_kl_div_loss"),
        lambda x, y, w, v: F.kl_div(
            F.linear(x, w).log_softmax(-1), F.linear(y, v).softmax(-1), reduction="batchmean"
        ),
        (n(30, 32), fixed(30, 24), n(130, 32), fixed(130, 24)),
    )
    put(
        "causal_conv1d",
        lambda x, w, b: ops("modules.causal_conv1d.causal_conv1d")(x, w, b, activation="silu")[0],
        lambda x, w, b: F.silu(
            F.conv1d(x.transpose(1, 2), w[:, None], b, padding=3, groups=40)[..., :21]
        ).transpose(1, 2),
        (n(2, 21, 40), n(40, 4), n(40)),
    )
    for interleaved in (False, True):
        put(
            f"rotary_embedding{' interleaved' if interleaved else ''}",
            lambda x, c, s, i=interleaved: ops("modules.rotary.ops.rotary_embedding")(
                x, c, s, interleaved=i
            ),
            lambda x, c, s, i=interleaved: ops("modules.rotary.ops.rotary_embedding_ref")(
                x, c, s, interleaved=i
            ),
            (n(2, 21, 3, 32), fixed(21, 16), fixed(21, 16)),
        )


def utilities(name: str, theirs: str, expected: Callable[[torch.Tensor], Any], **more: Any) -> None:
    def run() -> Iterator[Pair]:
        x = drawn(B, T, H, K)
        yield Pair(name, ops(f"ops.utils.{theirs}")(x, **more), expected(x))

    SAMPLES[name] = run


utilities("cumsum", "cumsum.chunk_global_cumsum", lambda x: x.cumsum(1))
utilities("cumsum reversed", "cumsum.chunk_global_cumsum", lambda x: x.flip(1).cumsum(1).flip(1),
          reverse=True)  # fmt: skip
utilities(
    "cumsum of chunks",
    "cumsum.chunk_local_cumsum",
    lambda x: torch.cat([one.cumsum(1) for one in torch.split(x, 16, 1)], 1),
    chunk_size=16,
)
utilities(
    "mean_pooling",
    "pooling.mean_pooling",
    lambda x: torch.stack([one.mean(1) for one in torch.split(x, 16, 1)], 1),
    chunk_size=16,
)


def _sequences(run: Callable[..., Any]) -> Run:
    """Two sequences in one row, beside one after the other."""

    def sample() -> Iterator[Pair]:
        ends = [0, 23, T]
        values = [make()[:1].detach().requires_grad_() for make in (QKV | HEAD_GATE).values()]

        def both(*given: Any) -> Any:
            return run(*given, cu_seqlens=torch.tensor(ends))[0]

        def each(*given: Any) -> Any:
            reference = ops("ops.simple_gla.naive.naive_recurrent_simple_gla")
            parts = pairwise(ends)
            return torch.cat([reference(*[x[:, a:b] for x in given])[0] for a, b in parts], 1)

        return both_ways(both, each, *values, tolerance=0.02)

    return sample


for form in ("chunk", "fused_recurrent"):
    SAMPLES[f"simple_gla {form} of two sequences"] = _sequences(
        ops(f"ops.simple_gla.{form}_simple_gla")
    )
