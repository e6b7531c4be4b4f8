"""What the course's kernels compute, as functions of torch, by the name of the exercise."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import kernellab
from kernellab.records import BoundLaunch
from kernellab.workshop.exercise import exercise_named
from kernellab.workshop.launches import Draw
from tests.cases.case import rotated
from tests.workshop import solutions


def _causal(scores: Tensor) -> Tensor:
    future = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -float("inf"))


def _scores(q: Tensor, k: Tensor, scale: float) -> Tensor:
    return q @ k.T * scale


def _backward(x: Tensor, dy: Tensor) -> Tensor:
    """dx of a softmax whose result is y, by torch's own derivative."""
    result: Tensor = torch.ops.aten._softmax_backward_data(dy, x, 1, torch.float32)
    return result


REFERENCES: Mapping[str, Callable[..., Any]] = {
    "add_one": lambda x: x + 1,
    "add": lambda x, y: torch.add(x, y),
    "scale_and_shift": lambda x, a, b: x * a + b,
    "clamp": lambda x, low, high: x.clamp(low, high),
    "reverse": lambda x: x.flip(0),
    "every_other": lambda x: x[::2],
    "few_programs": lambda x: x + x,
    "silu_gate": lambda x, y: functional.silu(x) * y,
    "outer_add": lambda x, y: x[:, None] + y,
    "scale_rows": lambda x, scale: scale.diag() @ x,
    "transpose": lambda x: x.T,
    "causal_mask": lambda x: _causal(x),
    "pad": lambda x: functional.pad(x, (1, 1, 1, 1)),
    "gather_rows": lambda ids, table: functional.embedding(ids, table),
    "sum_rows": lambda x: x.sum(1),
    "max_rows": lambda x: x.max(1).values,
    "argmax_rows": lambda x: x.argmax(1).int(),
    "sum_long_rows": lambda x: x @ torch.ones(x.shape[1]),
    "moments": lambda x: (x.mean(1), (x * x).mean(1) - x.mean(1) ** 2),
    "running_sum": lambda x: x.cumsum(1),
    "sum_columns": lambda x: x.sum(0),
    "dot_product": lambda x, y, z: z + x.dot(y),
    "histogram": lambda x, z: z + torch.bincount(x.long(), minlength=len(z)).int(),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x - x.logsumexp(1, keepdim=True),
    "online_softmax": lambda x: x.exp() / x.exp().sum(1, keepdim=True),
    "softmax_backward": lambda y, dy: _backward(y, dy),
    "cross_entropy": lambda x, target: functional.cross_entropy(x, target.long(), reduction="none"),
    "rms_norm": lambda x, weight, eps: functional.rms_norm(x, weight.shape, weight, eps),
    "layer_norm": lambda x, weight, bias, eps: functional.layer_norm(
        x, weight.shape, weight, bias, eps
    ),
    "rope": lambda x, cos, sin: rotated(x, cos, sin),
    "matvec": lambda a, x: torch.mv(a, x),
    "dot_of_tiles": lambda a, b: a.float() @ b.float(),
    "matmul": lambda a, b: torch.mm(a, b),
    "linear_relu": lambda a, b, bias: (a.float() @ b.float() + bias).relu(),
    "batched_matmul": lambda a, b: torch.bmm(a, b),
    "quantized_matmul": lambda a, b, scale: (a.float() @ b.float()) * scale,
    "convolution": lambda x, w: functional.pad(x, (w.numel() - 1, 0)).unfold(0, w.numel(), 1) @ w,
    "weight_gradient": lambda x, dy, dw: dw + (x * dy).sum(0),
    "attention": lambda q, k, v, scale: _scores(q, k, scale).softmax(1) @ v,
    "flash_attention": lambda q, k, v, scale: functional.scaled_dot_product_attention(
        q[None, None], k[None, None], v[None, None], scale=scale
    )[0, 0],
    "causal_attention": lambda q, k, v, scale: _causal(_scores(q, k, scale)).softmax(1) @ v,
    "sort_rows": lambda x: x.sort(1).values,
    "turn_vectors": lambda x: x.T,
    "three_stages": lambda x: 2 * x,
    "in_place": lambda x: 2 * x.base,
    "two_groups": lambda x: 2 * x.base,
}
"""Their parameters are the kernel's, without "_ptr"."""

DECIDED = {"argmax_rows": 4, "sort_rows": 1}
"""Hidden launches with rows short enough that each element is tried, and rows that do not leave
half of a sort's block empty.
"""


def bound(kernel: Any, exercise: str, number: int = -1) -> BoundLaunch:
    """A hidden launch of an exercise, the last by default, with a kernel."""
    case = list(exercise_named(exercise).cases(Draw(1)))[number]
    return kernellab.bind(kernel, case.grid, **case.keywords)


def solution(exercise: str) -> Any:
    return getattr(solutions, exercise)
