"""The gallery's problems: kernels, the tensors they are given, and the configs a hand would try."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from benchmarks import gallery_kernels as kernels
from kernellab.cli.demo.kernels import matmul, softmax, vector_add


@dataclass(frozen=True)
class Sizes:
    """How large the problems are."""

    vectors: Sequence[int]
    elements: int
    """Of a softmax's matrix: as many rows as make these."""
    columns: Sequence[int]
    matrix: int
    attention: Sequence[tuple[int, int, int]]
    """Batch, heads, tokens."""


FULL = Sizes(
    [1 << power for power in (20, 22, 24, 26, 28)],
    1 << 26,
    [781, 1024, 2048, 4096, 8192, 12288, 16384],
    8192,
    [(4, 16, 4096), (1, 16, 16384)],
)
SMALL = Sizes([1 << 12], 1 << 13, [781, 1024], 512, [(1, 2, 256)])


@dataclass(frozen=True)
class Way:
    """One kernel with one config on one problem's tensors."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    config: Mapping[str, Any]
    """Constants that a hand may choose, num_warps and num_stages."""
    fixed: Mapping[str, Any]

    def __call__(self) -> None:
        self.kernel[self.grid](*self.arguments, **self.config, **self.fixed)

    def compile(self) -> None:
        """Put it into Triton's cache."""
        self.kernel.warmup(*self.arguments, grid=self.grid, **self.config, **self.fixed)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.kernel.fn.__name__)

    @property
    def label(self) -> str:
        """Kernel and config in one line."""
        return f"{self.name} {' '.join(f'{key}={value}' for key, value in self.config.items())}"


# Vector add and softmax


def vector_ways(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> list[Way]:
    """The tutorial's kernel with blocks of several sizes."""
    choices = [(512, 1), (1024, 2), (1024, 4), (2048, 4), (4096, 8), (4096, 4)]
    return [
        Way(
            vector_add,
            (triton.cdiv(x.numel(), block),),
            (x, y, out, x.numel()),
            {"BLOCK": block, "num_warps": warps},
            {},
        )
        for block, warps in choices
    ]


def softmax_ways(x: torch.Tensor, out: torch.Tensor) -> list[Way]:
    """One row a program, with as many warps as may fit."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    return [
        Way(
            softmax,
            (rows,),
            (x, out, columns, columns),
            {"num_warps": warps},
            {"BLOCK": block},
        )
        for warps in (1, 2, 4, 8, 16, 32)
        if 128 <= block // warps <= 4096
    ]


# Matrix product


def described(tensor: torch.Tensor, *block: int) -> TensorDescriptor:
    """A tensor's descriptor for blocks of that shape."""
    return TensorDescriptor.from_tensor(tensor, list(block))


def described_for_gluon(tensor: torch.Tensor, *block: int) -> GluonDescriptor:
    """The same with the layout of shared memory, which Gluon wants to be told."""
    layout = gl.NVMMASharedLayout.get_default_for(list(block), gl.float16)
    return GluonDescriptor.from_tensor(tensor, list(block), layout)


def multiprocessors() -> int:
    """How many programs run at once where each takes a whole one."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(0).multi_processor_count
    return 4


SHORT = [
    {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": group, "num_warps": 8, "num_stages": stages}
    for m, n, k, group, stages in (
        (128, 256, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (128, 256, 64, 16, 3),
        (128, 256, 64, 16, 4),
        (128, 256, 64, 4, 4),
        (256, 128, 64, 8, 3),
        (256, 128, 64, 8, 4),
        (256, 128, 64, 16, 4),
        (128, 256, 128, 8, 2),
        (128, 128, 64, 8, 4),
    )
]
"""The hand's list for the short kernel."""

POINTERS = [
    {"GROUP_M": one["GROUP"], **{name: one[name] for name in one if name != "GROUP"}}
    for one in SHORT[:2]
]

PERSISTENT = [
    {**one, "FLATTEN": flatten, "SPECIALIZE": False}
    for one in SHORT
    if one["num_stages"] == 3
    for flatten in (False, True)
] + [{**SHORT[0], "FLATTEN": False, "SPECIALIZE": True}]
"""With four stages the block of c that is written finds no tab_id."""

HALVES = [{"STAGES": stages, "GROUP": group} for stages in (3, 4) for group in (4, 8, 16, 32)]
"""For the kernel in Gluon; with four stages only half a block of c finds tab_id."""


def matmul_ways(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[Way]:
    """The short kernel, the persistent one, and the one in Gluon, each with its list."""
    M, K = a.shape
    N = b.shape[1]
    found = []
    for config in POINTERS:
        blocks = triton.cdiv(M, config["BLOCK_M"]) * triton.cdiv(N, config["BLOCK_N"])
        strides = (*a.stride(), *b.stride(), *c.stride())
        found.append(
            Way(matmul, (blocks,), (a, b, c, M, N, K, *strides), config, {"PRECISION": "ieee"})
        )
    for config in (*SHORT, *PERSISTENT):
        m, n, k = (config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
        blocks = triton.cdiv(M, m) * triton.cdiv(N, n)
        is_persistent = "FLATTEN" in config
        found.append(
            Way(
                kernels.persistent_matmul if is_persistent else kernels.short_matmul,
                (min(blocks, multiprocessors()) if is_persistent else blocks,),
                (described(a, m, k), described(b, k, n), described(c, m, n), M, N, K),
                config,
                {},
            )
        )
    return found + gluon_ways(a, b, c)


def gluon_ways(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[Way]:
    """The kernel in Gluon with its list."""
    M, K = a.shape
    N = b.shape[1]
    grid = (min(triton.cdiv(M, 128) * triton.cdiv(N, 256), multiprocessors()),)
    found = []
    for config in HALVES:
        descriptors = (
            described_for_gluon(a, 64, 64),
            described_for_gluon(b, 64, 256),
            described_for_gluon(c, 64, 256 if config["STAGES"] == 3 else 128),
        )
        arguments = (*descriptors, M, N, K)
        found.append(Way(kernels.halves_matmul, grid, arguments, config, {"num_warps": 4}))
    return found


def matmul_tensors(size: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two random factors and tab_id for the product, fp16."""
    a, b, c = (torch.randn(size, size, device=device).half() for _ in range(3))
    return a, b, c


# Attention


@dataclass(frozen=True)
class Attention:
    """One problem's tensors: (batch, heads, tokens, head), fp16, and what ours writes."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    grad: torch.Tensor
    out: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor
    sums: torch.Tensor
    deltas: torch.Tensor
    is_causal: bool

    @staticmethod
    def of(shape: tuple[int, int, int, int], is_causal: bool, device: str) -> Attention:
        """Random inputs."""
        q, k, v, grad, *outputs = (torch.randn(shape, device=device).half() for _ in range(8))
        out, dq, dk, dv = outputs
        sums, deltas = (torch.empty(shape[:3], device=device) for _ in range(2))
        return Attention(q, k, v, grad, out, dq, dk, dv, sums, deltas, is_causal)

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return float(self.q.shape[-1] ** -0.5)

    @property
    def forward_flops(self) -> float:
        """Two products; half of each where causal."""
        batch, heads, tokens, head = self.q.shape
        return 4.0 * batch * heads * tokens**2 * head / (2 if self.is_causal else 1)

    def ways(
        self, kernel: Any, blocked: int, tensors: str, rows: str, *choices: Mapping[str, Any]
    ) -> list[Way]:
        """A kernel on these tensors, one letter each; each comes in blocks of BLOCK_M (m) or
        BLOCK_N (n) tokens, as `rows` says. `blocked` is which of the two a program has one of.
        """
        batch, heads, tokens, head = self.q.shape
        known = {"o": self.out, "g": self.grad, "Q": self.dq, "K": self.dk, "V": self.dv}
        known |= {"q": self.q, "k": self.k, "v": self.v}
        is_forward = kernel is kernels.attention_forward
        vectors = (self.sums,) if is_forward else (self.sums, self.deltas)
        found = []
        for config in choices:
            sizes = {"m": config["BLOCK_M"], "n": config["BLOCK_N"]}
            if tokens % max(sizes.values()):
                continue
            descriptors = [
                described(known[letter].view(-1, head), sizes[block], head)
                for letter, block in zip(tensors, rows)
            ]
            found.append(
                Way(
                    kernel,
                    (tokens // list(sizes.values())[blocked], batch * heads),
                    (*descriptors, *vectors, self.scale, tokens),
                    config,
                    {"HEAD": head, "CAUSAL": self.is_causal},
                )
            )
        return found


def attention_configs(*choices: tuple[int, int, int, int]) -> list[dict[str, Any]]:
    """BLOCK_M, BLOCK_N, num_warps, num_stages."""
    names = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
    return [dict(zip(names, one)) for one in choices]


FORWARD = {
    64: attention_configs(
        (128, 128, 8, 2), (128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3),
        (64, 128, 4, 2), (64, 128, 4, 3),
    ),
    128: attention_configs(
        (128, 128, 8, 2), (128, 64, 8, 2), (128, 64, 8, 3), (128, 64, 8, 4), (64, 64, 4, 2),
        (64, 64, 4, 3), (64, 128, 4, 2),
    ),
}  # fmt: skip
KEYS = {
    64: attention_configs(
        (64, 128, 8, 2), (64, 128, 8, 3), (128, 128, 8, 2), (64, 64, 4, 2), (64, 64, 4, 3),
        (32, 128, 4, 3), (32, 128, 8, 3),
    ),
    128: attention_configs(
        (64, 128, 8, 2), (64, 128, 8, 3), (32, 128, 8, 3), (64, 64, 4, 2), (32, 64, 4, 3),
    ),
}  # fmt: skip
QUERIES = {
    64: attention_configs(
        (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 2), (64, 64, 4, 3),
        (128, 64, 4, 2), (128, 32, 4, 3),
    ),
    128: attention_configs(
        (128, 64, 8, 2), (128, 64, 8, 3), (128, 32, 8, 3), (64, 64, 4, 2), (64, 32, 4, 3),
        (128, 128, 8, 2),
    ),
}  # fmt: skip


def forward_ways(problem: Attention) -> list[Way]:
    """The way forward with its list."""
    head = problem.q.shape[-1]
    return problem.ways(kernels.attention_forward, 0, "qkvo", "mnnm", *FORWARD[head])


def delta_way(problem: Attention) -> Way:
    """What comes before both kernels of the way back."""
    head = problem.q.shape[-1]
    rows = [described(one.view(-1, head), 64, head) for one in (problem.out, problem.grad)]
    grid = (problem.deltas.numel() // 64,)
    return Way(
        kernels.attention_deltas, grid, (*rows, problem.deltas), {"ROWS": 64, "num_warps": 4}, {}
    )


def backward_ways(problem: Attention) -> tuple[list[Way], list[Way]]:
    """The two kernels of the way back with their lists."""
    head = problem.q.shape[-1]
    return (
        problem.ways(kernels.attention_keys, 1, "qkvgKV", "mnnmnn", *KEYS[head]),
        problem.ways(kernels.attention_queries, 0, "qkvgQ", "mnnmm", *QUERIES[head]),
    )


def to_compile(device: str) -> list[Way]:
    """Everything that FULL needs, on small tensors: Triton's cache does not know the difference."""
    found = matmul_ways(*matmul_tensors(512, device))
    for head, is_causal in itertools.product((128, 64), (True, False)):
        problem = Attention.of((1, 1, 256, head), is_causal, device)
        keys, queries = backward_ways(problem)
        found += [*forward_ways(problem), *keys, *queries, delta_way(problem)]
    for columns in FULL.columns:
        x = torch.empty(16, columns, device=device)
        found += softmax_ways(x, torch.empty_like(x))
    x = torch.empty(1 << 12, device=device)
    return found + vector_ways(x, x, x)
