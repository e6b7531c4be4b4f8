"""Launches of the corpus' kernels on the CPU, with arguments that run in a moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.cases.case import normal, whole

HALF = torch.float16


@dataclass(frozen=True)
class CorpusLaunch:
    """One launch of an entry; `make` gives the arguments that are not compiled in, in order."""

    grid: tuple[int, ...]
    make: Callable[[], tuple[Any, ...]]


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def matrices(m: int, n: int, k: int, dtype: torch.dtype = HALF) -> tuple[torch.Tensor, ...]:
    """A, B and room for their product."""
    a, b = normal(m, k).to(dtype), normal(k, n, seed=1).to(dtype)
    return a, b, zeros(m, n, dtype=HALF)


def strided(m: int, n: int, k: int, dtype: torch.dtype = HALF) -> tuple[Any, ...]:
    return (*matrices(m, n, k, dtype), m, n, k, k, 1, n, 1, n, 1)


def described(m: int, n: int, k: int) -> tuple[TensorDescriptor, ...]:
    """A, B transposed and C, in blocks of the corpus' tile."""
    a, b, c = matrices(m, n, k)
    blocks = ([128, 64], [128, 64], [128, 128])
    tensors = (a, b.T.contiguous(), c)
    return tuple(TensorDescriptor.from_tensor(t, block) for t, block in zip(tensors, blocks))


def microscaled(m: int, n: int, k: int, packed: int) -> tuple[Any, ...]:
    """Random bytes, small enough to be numbers of e4m3 that are no NaN; scales near one."""
    a = whole(m, k // packed, low=0, high=120, dtype=torch.uint8)
    b = whole(k // packed, n, low=0, high=120, seed=1, dtype=torch.uint8)
    a_scale = whole(m, k // 32, low=124, high=130, dtype=torch.uint8)
    b_scale = whole(n, k // 32, low=124, high=130, seed=1, dtype=torch.uint8)
    if packed == 1:
        a, b = a.view(torch.float8_e4m3fn), b.view(torch.float8_e4m3fn)
    return a, a_scale, b, b_scale, zeros(m, n), n, k


def attention(heads: int, length: int) -> tuple[Any, ...]:
    q, k, v = (normal(heads, length, 64, seed=seed, dtype=HALF) for seed in range(3))
    return q, k, v, torch.zeros_like(q), zeros(heads, length), 0.125, length * 64, 64, length


def attention_gradients(heads: int, length: int) -> tuple[Any, ...]:
    q, k, v, do = (normal(heads, length, 64, seed=seed, dtype=HALF) for seed in range(4))
    gradients = (torch.zeros_like(q) for _ in range(3))
    sums = normal(heads, length, seed=4) + 6
    delta = normal(heads, length, seed=5)
    return q, k, v, do, *gradients, sums, delta, 0.125, length * 64, 64, length


def layer_norm() -> tuple[Any, ...]:
    rows, columns, groups = 6, 1000, 64
    x, dy = normal(rows, columns, dtype=HALF), normal(rows, columns, seed=1, dtype=HALF)
    w = normal(columns, seed=2, dtype=HALF)
    partial = (zeros(groups, columns, dtype=HALF) for _ in range(2))
    mean, rstd = x.float().mean(1), 1 / x.float().std(1)
    locks = zeros(2 * groups, dtype=torch.int32)
    return torch.zeros_like(x), dy, *partial, x, w, mean, rstd, locks, columns, columns


N = 3000

LAUNCHES: Mapping[str, CorpusLaunch] = {
    "vector_add": CorpusLaunch((3,), lambda: (normal(N), normal(N, seed=1), zeros(N), N)),
    "dropout": CorpusLaunch((3,), lambda: (normal(N), zeros(N), N, 0.3, 7)),
    "swish": CorpusLaunch((6,), lambda: (normal(N).bfloat16(), zeros(N).bfloat16(), N, 1.5)),
    "ragged_scale": CorpusLaunch((3,),
        lambda: (normal(1500), torch.tensor([700, 0, 800]).int(), zeros(1500), 2.0)),
    "collatz": CorpusLaunch((2,), lambda: (whole(500, low=1, high=99), zeros(500).int(), 500)),
    "atomics": CorpusLaunch((3,), lambda: (whole(700, low=0, high=50), zeros(50).int(),
        zeros(1).int(), torch.tensor([-1, -1]).int(), zeros(1), 700)),
    "guarded_copy": CorpusLaunch((3,), lambda: (normal(500), zeros(500), 500)),
    "softmax": CorpusLaunch((5,), lambda: (normal(5, 1000), zeros(5, 1000), 1000, 1000)),
    "softmax_persistent": CorpusLaunch((2,),
        lambda: (normal(5, 1000).half(), zeros(5, 1000).half(), 1000, 5, 1000)),
    "cumsum": CorpusLaunch((1,), lambda: (normal(32, 128), zeros(32, 128))),
    "linear_recurrence": CorpusLaunch((2,),
        lambda: (normal(1024), normal(1024, seed=1), zeros(1024))),
    "sort": CorpusLaunch((1,), lambda: (whole(4, 64), zeros(4, 64).int())),
    "histogram": CorpusLaunch((3,), lambda: (whole(N, low=0, high=256), zeros(256).int(), N)),
    "layer_norm_backward": CorpusLaunch((6,), layer_norm),
    "matmul": CorpusLaunch((6,), lambda: strided(300, 160, 208)),
    "matmul_small": CorpusLaunch((6,), lambda: strided(100, 160, 112)),
    "matmul_fp8": CorpusLaunch((4,), lambda: strided(256, 160, 192, torch.float8_e5m2)),
    "matmul_persistent": CorpusLaunch((132,),
        lambda: (*matrices(300, 160, 208), 300, 160, 208, 208, 160, 160)),
    "matmul_descriptors": CorpusLaunch((3, 2), lambda: (*matrices(304, 160, 208), 304, 160, 208)),
    "matmul_tma": CorpusLaunch((132,), lambda: (*described(304, 160, 208), 304, 160, 208)),
    "matmul_tma_specialized": CorpusLaunch((132,),
        lambda: (*described(304, 160, 208), 304, 160, 208)),
    "matmul_warp_specialized": CorpusLaunch((2, 2), lambda: (*described(256, 160, 208), 208)),
    "matmul_mxfp8": CorpusLaunch((1, 2), lambda: microscaled(128, 256, 256, packed=1)),
    "matmul_mxfp8_small": CorpusLaunch((2, 2), lambda: microscaled(64, 64, 128, packed=1)),
    "matmul_mxfp4": CorpusLaunch((1, 2), lambda: microscaled(128, 256, 256, packed=2)),
    "matmul_mxfp4_small": CorpusLaunch((2, 2), lambda: microscaled(64, 64, 128, packed=2)),
    "attention_forward": CorpusLaunch((2, 2), lambda: attention(2, 200)),
    "attention_backward": CorpusLaunch((3, 2), lambda: attention_gradients(2, 160)),
}  # fmt: skip
"""By the entry's name; Gluon's kernels have launches of their own,
in tests/interpreter/test_gluon.py."""
