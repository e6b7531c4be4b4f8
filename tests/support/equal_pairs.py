"""Pairs of equal computations by different algorithms; `mutants` makes wrong kernels of each."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import kernellab
from kernellab.cli.demo import kernels as demo
from kernellab.records import BoundLaunch
from tests.cases.case import normal, rotated, whole
from tests.corpus import attention, matmuls, rows
from tests.kernels import equal as kernels
from tests.kernels import helion
from tests.support.imported import imported
from tests.support.rewrites import Names, rewritten

M, N, K, HEAD = 6, 100, 20, 16


@dataclass(frozen=True)
class Pair:
    """A kernel's launch, and what is equal to it: a function of torch or another kernel."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]
    other: Any
    outputs: tuple[str, ...] = ("out_ptr",)

    def bound(self, kernel: Any = None) -> BoundLaunch:
        """The launch, of a mutant if one is given."""
        given = {**self.arguments, **self.constants}
        return kernellab.bind(kernel or self.kernel, self.grid, **given)

    def second(self) -> Any:
        if not isinstance(self.other, tuple):
            return self.other
        kernel, grid, constants = self.other
        known = {name: self.arguments[name] for name in kernel.arg_names if name in self.arguments}
        return kernellab.bind(kernel, grid, **known, **constants)


def _rows(kernel: Any, other: Any, grid: int = M, **more: Any) -> Pair:
    own = {"x_ptr": normal(M, N), "n": N, "m": M, "out_ptr": torch.zeros(M, N)}
    return _pair(kernel, (grid,), own, more, other)


def _pair(
    kernel: Any, grid: tuple[int, ...], own: dict[str, Any], more: dict[str, Any], other: Any
) -> Pair:
    outputs = more.pop("outputs", None)
    given = {name: value for name, value in {**own, **more}.items() if name in kernel.arg_names}
    constants = {name: given.pop(name) for name in [*given] if name.isupper()}
    written = outputs or tuple(name for name in given if name in ("out_ptr", "c_ptr"))
    return Pair(kernel, grid, given, constants, other, written)


def _flat(kernel: Any, other: Any, **more: Any) -> Pair:
    own = {"x_ptr": normal(N), "y_ptr": normal(N, seed=1), "n": N, "out_ptr": torch.zeros(N)}
    return _pair(kernel, (-(-N // 32),), {**own, "BLOCK": 32}, more, other)


_SIZES = 40, 24, 52
"""M, N and K of products: no block divides all."""


def _product(kernel: Any, other: Any, grid: tuple[int, ...] = (3, 2), **more: Any) -> Pair:
    m, n, k = _SIZES
    a, b, c = normal(m, k), normal(k, n, seed=1), torch.zeros(m, n)
    own = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "m": m, "n": n, "k": k, "BLOCK": 16}
    return _pair(kernel, grid, own, more, other)


_STRIDED = {
    "M": 40, "N": 24, "K": 52, "stride_am": 52, "stride_ak": 1, "stride_bk": 24, "stride_bn": 1,
    "stride_cm": 24, "stride_cn": 1,
}  # fmt: skip
_TILES = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "GROUP_M": 2}


def _tiles(kernel: Any, other: Any, grid: tuple[int, ...] = (6,), **more: Any) -> Pair:
    m, n, k = _SIZES
    a, b, c = normal(m, k), normal(k, n, seed=1), torch.zeros(m, n)
    given = {**dict(zip(kernel.arg_names, (a, b, c))), **_STRIDED}
    names = set(kernel.arg_names)
    arguments = {name: value for name, value in given.items() if name in names}
    constants = {name: value for name, value in {**_TILES, **more}.items() if name in names}
    return Pair(kernel, grid, arguments, constants, other, (kernel.arg_names[2],))


def _attention(kernel: Any, other: Any, **more: Any) -> Pair:
    m, n = 24, 40
    tensors = {
        "q_ptr": normal(m, HEAD), "k_ptr": normal(n, HEAD, seed=1),
        "v_ptr": normal(n, HEAD, seed=2), "do_ptr": normal(m, HEAD, seed=3),
        "sums_ptr": normal(m, seed=4) + 6, "delta_ptr": normal(m, seed=5),
        "out_ptr": torch.zeros(m, HEAD),
        "dq_ptr": torch.zeros(m, HEAD),
    }  # fmt: skip
    own = {**tensors, "m": m, "n": n, "scale": 0.25, "HEAD": HEAD, "BLOCK": 16}
    return _pair(kernel, (2,), own, more, other)


_HEADS, _LENGTH = 2, 40


def _corpus_attention(kernel: Any, other: Any, outputs: tuple[str, ...], **constants: int) -> Pair:
    """Causal attention of the corpus, forward or backward."""
    own: dict[str, Any] = {
        f"{name}_ptr": normal(_HEADS, _LENGTH, HEAD, seed=seed)
        for seed, name in enumerate(("q", "k", "v", "do"))
    }
    own |= {name: torch.zeros(_HEADS, _LENGTH, HEAD) for name in outputs}
    own |= {
        "log_sum_ptr": normal(_HEADS, _LENGTH, seed=4) + 6,
        "delta_ptr": normal(_HEADS, _LENGTH, seed=5),
    }
    if "log_sum_ptr" in outputs:
        own["log_sum_ptr"] = torch.zeros(_HEADS, _LENGTH)
    strides = {"stride_head": _LENGTH * HEAD, "stride_token": HEAD, "length": _LENGTH}
    arguments = {**own, "softmax_scale": 0.25, **strides}
    given = {name: arguments[name] for name in kernel.arg_names if name in arguments}
    return Pair(kernel, (3, _HEADS), given, {"HEAD": HEAD, **constants}, other, outputs)


def _norm(kernel: Any, other: Any, **more: Any) -> Pair:
    own = {"w_ptr": normal(N, seed=1), "b_ptr": normal(N, seed=2), "eps": 1e-5}
    return _rows(kernel, other, **{**own, "BLOCK": 128, **more})


def _hidden(scores: Tensor, over: float = -float("inf")) -> Tensor:
    """Scores with those of later keys hidden."""
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, over)


def _attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v


def _attended_by_pages(q: Tensor, k: Tensor, v: Tensor, pages: Tensor) -> Tensor:
    keys, values = (each[pages.long()].reshape(3, 24, HEAD)[:, :19] for each in (k, v))
    weights = ((keys * q[:, None]).sum(-1) * 0.25).softmax(-1)
    return (weights[:, None] @ values)[:, 0]


def _rotated_as_complex(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    turned = torch.view_as_complex(x.reshape(M, N // 2, 2)) * torch.complex(cos, sin)
    return torch.view_as_real(turned).reshape(M, N)


def _attended_causally(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = _hidden(q @ k.transpose(-1, -2) * 0.25)
    return scores.softmax(-1) @ v, scores.logsumexp(-1) * 1.44269504


def _gradient_of_queries(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, sums: Tensor, delta: Tensor
) -> Tensor:
    weights = (q @ k.T * 0.25 - sums[:, None]).exp()
    return weights * (do @ v.T - delta[:, None]) @ k * 0.25


def _gradients(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, log_sum: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    scores = q @ k.transpose(1, 2) * 0.25 * 1.44269504
    weights = _hidden((scores - log_sum[..., None]).exp2(), 0.0)
    ds = weights * (do @ v.transpose(1, 2) - delta[..., None])
    return ds @ k * 0.25, ds.transpose(1, 2) @ q * 0.25, weights.transpose(1, 2) @ do


def _norm_gradient(x: Tensor, dy: Tensor, w: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    stacked = mean[:, None], rstd[:, None]
    result: Tensor = torch.ops.aten.native_layer_norm_backward(
        dy, x, [N], *stacked, w, None, [True, False, False]
    )[0]
    return result


def _recurrence(a: Tensor, b: Tensor) -> Tensor:
    h, steps = torch.zeros(M), []
    for at in range(K):
        h = a[:, at] * h + b[:, at]
        steps.append(h)
    return torch.stack(steps, 1)


def _gelu(x: Tensor) -> Tensor:
    inner = (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)
    result: Tensor = 0.5 * x * (1 + inner.tanh())
    return result


def _centered(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return functional.layer_norm(x, [N], w, b, 1e-5)


def beside(pair: Pair, kernel: Any, grid: tuple[int, ...], **constants: int) -> Pair:
    """A pair whose kernel is compared with one that takes the same tensors and nothing else."""
    given = (pair.arguments.get(name) for name in pair.kernel.arg_names)
    tensors = (value for value in given if isinstance(value, Tensor))
    return replace(pair, other=kernellab.bind(kernel, grid, *tensors, **constants))


_INPUTS: dict[str, Any] = {"a_ptr": normal(M, K), "b_ptr": normal(M, K, seed=1)}
_BY_STEPS = {**_INPUTS, "n": K, "out_ptr": torch.zeros(M, K)}
_ONE: dict[str, Any] = {"out_ptr": torch.zeros(M)}

PAIRS: Mapping[str, Pair] = {
    "softmax without its maximum": _rows(kernels.softmax_without_maximum,
        lambda x: x.softmax(1), BLOCK=128),
    "softmax online": _rows(kernels.softmax_online, lambda x: x.softmax(1), BLOCK=32),
    "softmax online in other blocks": _rows(kernels.softmax_online,
        (kernels.softmax_online, (M,), {"BLOCK": 64}), BLOCK=16),
    "softmax by Helion": beside(_rows(kernels.softmax_online, None, BLOCK=32),
        helion._helion_softmax, (1,)),
    "softmax persistent": _rows(kernels.softmax_persistent, lambda x: x.softmax(1), grid=4,
        BLOCK=128),
    "softmax persistent and online": _rows(kernels.softmax_persistent,
        (kernels.softmax_online, (M,), {"BLOCK": 32}), grid=4, BLOCK=128),
    "softmax by tiles": _rows(kernels.softmax_tile, lambda x: x.softmax(1), grid=2, ROWS=4,
        BLOCK=128),
    "softmax of the corpus": _rows(rows.softmax_persistent,
        lambda x: x.exp() / x.exp().sum(1, True), grid=2, rows=M, columns=N, row_stride=N,
        BLOCK=128),
    "log of a sum of exponentials": _rows(kernels.log_sum_exp, lambda x: x.logsumexp(1), **_ONE,
        BLOCK=32),
    "log softmax of halves": _rows(kernels.log_softmax_halves, lambda x: x.log_softmax(1), HALF=64),
    "softmax backward": _rows(kernels.softmax_gradient,
        lambda y, dy: torch.ops.aten._softmax_backward_data(dy, y, 1, torch.float32),
        y_ptr=normal(M, N), dy_ptr=normal(M, N, seed=1), dx_ptr=torch.zeros(M, N),
        outputs=("dx_ptr",), BLOCK=128),
    "cross entropy": _rows(kernels.cross_entropy,
        lambda x, target: functional.cross_entropy(x, target.long(), reduction="none"),
        target_ptr=whole(M, low=0, high=N), **_ONE, BLOCK=128),
    "matmul in groups": _tiles(matmuls.matmul, torch.mm),
    "matmul in other groups": _tiles(matmuls.matmul, torch.mm, GROUP_M=3, BLOCK_K=32),
    "matmul of the demo": _tiles(demo.matmul, lambda a, b: (b.T @ a.T).T, PRECISION="ieee"),
    "matmul persistent": _tiles(matmuls.matmul_persistent, torch.mm, grid=(4,), PROGRAMS=4),
    "matmul by descriptors": _tiles(matmuls.matmul_descriptors, torch.mm, grid=(3, 2)),
    "matmul split along k": _product(kernels.matmul_split, torch.mm, (3, 2, 3), SPLIT=3),
    "matmul split and transposed": _product(kernels.matmul_split,
        (kernels.matmul_transposed, (3, 2), {"BLOCK": 16}), (3, 2, 2), SPLIT=2),
    "matmul by sums": _product(kernels.matmul_by_sums, torch.mm, (40, 2)),
    "matmul by sums and by tiles": _product(kernels.matmul_by_sums,
        (kernels.matmul_split, (2, 1, 1), {"BLOCK": 32, "SPLIT": 1}), (40, 2)),
    "matmul transposed": _product(kernels.matmul_transposed, torch.mm),
    "matmul by Helion": beside(_product(kernels.matmul_transposed, None), helion._helion_matmul,
        (6,)),
    "matmul by stream-k": _product(kernels.matmul_stream, torch.mm, (5,), PROGRAMS=5),
    "linear, fused": _product(kernels.linear_fused,
        lambda a, b, bias: (a @ b + bias).relu() * 0.5, bias_ptr=normal(24, seed=2)),
    "layer norm in one pass": _norm(kernels.norm_one_pass, _centered, BLOCK=32),
    "layer norm in one block": _norm(kernels.norm_one_pass, _centered),
    "layer norm of the demo": _rows(demo.layer_norm,
        lambda x, weight, bias: (_centered(x, weight, bias), x.mean(1),
            (x.var(1, unbiased=False) + 1e-5).rsqrt()),
        weight_ptr=normal(N, seed=1), bias_ptr=normal(N, seed=2), row_stride=N, n_columns=N,
        mean_ptr=torch.zeros(M), rstd_ptr=torch.zeros(M), epsilon=1e-5, BLOCK=64,
        outputs=("out_ptr", "mean_ptr", "rstd_ptr")),
    "variance by Welford": _rows(kernels.variance_by_welford, lambda x: x.var(1), **_ONE, BLOCK=32),
    "variance by squares": _rows(kernels.variance_by_welford,
        lambda x: ((x * x).sum(1) - x.sum(1) ** 2 / N) / (N - 1), **_ONE, BLOCK=16),
    "variance by a reduction": _rows(kernels.variance_by_reduce,
        lambda x: x.var(1, unbiased=False), **_ONE, BLOCK=128),
    "root mean square norm": _norm(kernels.rms_norm,
        lambda x, w: functional.rms_norm(x, [N], w, 1e-5)),
    "layer norm backward": _norm(kernels.norm_gradient, _norm_gradient,
        dy_ptr=normal(M, N, seed=3), mean_ptr=normal(M, seed=4), rstd_ptr=normal(M, seed=5),
        dx_ptr=torch.zeros(M, N), outputs=("dx_ptr",)),
    "group norm": Pair(kernels.group_norm, (M, 4),
        {"x_ptr": normal(M, N), "w_ptr": normal(N, seed=1), "out_ptr": torch.zeros(M, N), "n": N,
         "eps": 1e-5},
        {"GROUPS": 4, "BLOCK": 32}, lambda x, w: functional.group_norm(x, 4, w)),
    "attention": _attention(kernels.attention_flash, _attended, CAUSAL=False),
    "attention in other blocks": _attention(kernels.attention_flash,
        (kernels.attention_flash, (1,), {"HEAD": HEAD, "BLOCK": 32, "CAUSAL": False}),
        CAUSAL=False),
    "attention, causal": _attention(kernels.attention_flash,
        lambda q, k, v: _hidden(q @ k.T * 0.25).softmax(1) @ v, CAUSAL=True),
    "attention, its queries' gradient": _attention(kernels.attention_gradient,
        _gradient_of_queries, outputs=("dq_ptr",)),
    "attention of the corpus": _corpus_attention(attention.attention_forward, _attended_causally,
        ("out_ptr", "log_sum_ptr"), BLOCK_M=16, BLOCK_N=16),
    "attention of the corpus, backward": _corpus_attention(attention.attention_backward, _gradients,
        ("dq_ptr", "dk_ptr", "dv_ptr"), BLOCK=16, STEP=16),
    "attention by pages": Pair(kernels.paged_attention, (3,),
        {"q_ptr": normal(3, HEAD), "k_ptr": normal(7, 8, HEAD, seed=1),
         "v_ptr": normal(7, 8, HEAD, seed=2), "pages_ptr": whole(3, 3, low=0, high=7),
         "out_ptr": torch.zeros(3, HEAD), "n": 19, "scale": 0.25},
        {"PAGE": 8, "HEAD": HEAD, "TURNS": 3}, _attended_by_pages),
    "attention with a soft cap": _attention(kernels.attention_softcap,
        lambda q, k, v: (5 * (q @ k.T * 0.05).tanh()).softmax(1) @ v, cap=5.0),
    "gelu": _flat(kernels.gelu, _gelu),
    "swiglu backward": _flat(kernels.swiglu_gradient,
        lambda x, y, dz: (dz * y * x.sigmoid() * (1 + x - x * x.sigmoid()), dz * x * x.sigmoid()),
        dz_ptr=normal(N, seed=2), dx_ptr=torch.zeros(N), dy_ptr=torch.zeros(N),
        outputs=("dx_ptr", "dy_ptr")),
    "swiglu": _flat(kernels.swiglu, lambda x, y: functional.silu(x) * y),
    "polynomial": _flat(kernels.polynomial, lambda x: 0.25 * x**3 - 1.5 * x**2 + 2 * x + 0.1),
    "multiply-add, fused": _flat(kernels.scaled_sum, lambda x, y: x * 0.1 + y, a=0.1),
    "sum by atomics": _flat(kernels.total_by_atomics, lambda x: x.sum().reshape(1),
        out_ptr=torch.zeros(1)),
    "running sum": _rows(kernels.running_sum, lambda x: x.cumsum(1), BLOCK=32),
    "recurrence by a scan": Pair(kernels.recurrence_by_scan, (M,), _BY_STEPS, {"BLOCK": 32},
        (kernels.recurrence_by_steps, (M,), {})),
    "recurrence by steps": Pair(kernels.recurrence_by_steps, (M,), _BY_STEPS, {}, _recurrence),
    "sums of columns": _rows(kernels.column_sums, lambda x: x.sum(0), grid=4,
        out_ptr=torch.zeros(N), ROWS=4, BLOCK=32),
    "largest of rows": _rows(kernels.largest_of_rows, lambda x: x.amax(1), **_ONE, BLOCK=32),
    "cosine": _rows(kernels.cosine,
        lambda x, y: (x * y).sum(1) / ((x * x).sum(1).sqrt() * (y * y).sum(1).sqrt()),
        y_ptr=normal(M, N, seed=1), **_ONE, BLOCK=128),
    "transpose": Pair(kernels.transpose, (1, 4),
        {"x_ptr": normal(M, N), "out_ptr": torch.zeros(N, M), "m": M, "n": N}, {"BLOCK": 32},
        lambda x: x.T),
    "rotary embedding": _rows(kernels.rotary, rotated, cos_ptr=normal(N // 2, seed=1),
        sin_ptr=normal(N // 2, seed=2), HALF=64),
    "rotary embedding by complex numbers": _rows(kernels.rotary_of_pairs, _rotated_as_complex,
        cos_ptr=normal(M, N // 2, seed=1), sin_ptr=normal(M, N // 2, seed=2), HALF=64),
    "convolution": _flat(kernels.convolution,
        lambda x, w: functional.pad(x, (2, 2)).unfold(0, 5, 1) @ w, w_ptr=normal(5, seed=1),
        WIDTH=5),
    "distances": Pair(kernels.distances, (1, 2),
        {"x_ptr": normal(M, K), "y_ptr": normal(24, K, seed=1), "out_ptr": torch.zeros(M, 24),
         "m": M, "n": 24, "k": K},
        {"BLOCK": 16},
        lambda x, y: (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * (x @ y.T)),
}  # fmt: skip
"""By name. Of every size, a block divides none, so that each kernel has masked elements."""


def mutants(pair: Pair, folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Yield wrong kernels of a pair by rule, each with what is wrong, and the same for float64."""
    text = _source(pair.kernel)
    tensors = [name for name, value in pair.arguments.items() if isinstance(value, Tensor)]
    names = Names(
        tuple(name for name in tensors if name not in pair.outputs),
        tuple(name for name in pair.arguments if name not in tensors),
        tuple(pair.constants),
        frozenset(int(axis) for axis in re.findall(r"program_id\((\d)\)", text)),
    )
    for number, (name, wrong) in enumerate(rewritten(text, names)):
        file = folder / f"mutant_{number}.py"
        yield name, _kernel(pair, wrong, file), wide(pair, folder / f"wide_{number}.py", wrong)


def wide(pair: Pair, file: Path, text: str = "") -> Any:
    """A pair's kernel, or what is made of it, with float64 in place of float32."""
    return _kernel(pair, (text or _source(pair.kernel)).replace("float32", "float64"), file)


def _kernel(pair: Pair, text: str, file: Path) -> Any:
    return getattr(imported(file, f"{_IMPORTS}{text}\n"), pair.kernel.__name__)


_IMPORTS = "import triton\nimport triton.language as tl\n\n\n"


def _source(kernel: Any) -> str:
    """A kernel's text below the functions of its module that it calls."""
    text = inspect.getsource(kernel.fn)
    called = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    others = (kernel.fn.__globals__.get(name) for name in sorted(called))
    helpers = (_source(one) for one in others if hasattr(one, "fn") and one is not kernel)
    return ast.unparse(ast.parse("\n\n".join((*helpers, text))))
