"""Two expressions of the same tensors, as kernels or functions, compared for all inputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import kernellab
from kernellab.equality.records import Equality
from tests.support.imported import imported

KERNEL = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    y = tl.load(y_ptr + at, mask=at < n, other=0)
    ones, place = tl.full([BLOCK], 1.0, tl.float32), tl.arange(0, BLOCK)
    tl.store(out_ptr + at, {}, mask=at < n)
"""
SIZE = 64
INTEGERS = {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
OUTPUTS = {"f32": torch.float32, **INTEGERS}

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def compared(
    kind: str, first: str, second: str | Function, folder: Path, **options: Any
) -> Equality:
    """Compare two expressions of x and y, of small positive numbers, for which most pairs agree."""
    given, _, stored = kind.partition(" ")
    generator = torch.Generator().manual_seed(0)
    if given == "f32":
        x, y = (torch.rand(SIZE, generator=generator) + 0.5 for _ in range(2))
    else:
        drawn = [torch.randint(1, 8, (SIZE,), generator=generator) for _ in range(2)]
        x, y = (each.to(INTEGERS[given]) for each in drawn)
    out = torch.zeros(SIZE, dtype=OUTPUTS[stored or given])

    def bound(name: str, expression: str) -> Any:
        kernel = imported(folder / f"{name}.py", KERNEL.format(expression)).kernel
        return kernellab.bind(kernel, (1,), x, y, out, SIZE, BLOCK=SIZE)

    other = bound("second", second) if isinstance(second, str) else lambda: second(x, y)
    return kernellab.equal(bound("first", first), other, **options)


HARDSWISH = "tl.where(x <= -3.0, 0.0, tl.where(x >= 3.0, x, x * (x + 3.0) / 6.0))"

EQUAL: list[tuple[str, str, str | Function]] = [
    ("f32", "tl.where(x > y, x, y) + tl.where(x > y, y, x)", "x + y"),
    ("f32", "1 - 1 / (1 + tl.exp(-x))", "1 / (1 + tl.exp(x))"),
    ("f32", "2 * tl.sigmoid(2 * x) - 1", "libdevice.tanh(x)"),
    ("f32", "tl.exp(libdevice.tanh(x)) * tl.exp(y)", "tl.exp(y + 1 - 2 / (tl.exp(2 * x) + 1))"),
    ("f32", "tl.cumsum(x, 0)", "tl.sum(tl.where(place <= place[:, None], x, 0.0), 1)"),
    ("f32", "tl.sum(tl.cumsum(x, 0), 0) * ones", "tl.sum(x * (64 - place), 0) * ones"),
    ("f32", "tl.maximum(x, -x)", "tl.abs(x)"),
    ("f32", "tl.where((x > y) | (x != x), x, y)", torch.maximum),  # as Inductor writes it
    ("f32", "tl.where((y > x) | (x != x), x, y)", torch.minimum),
    ("f32", "tl.minimum(x, y)", torch.fmin),
    ("f32", "tl.maximum(x, 0.0)", lambda x, y: torch.fmax(x, torch.zeros(SIZE))),
    ("f32", "tl.log(tl.abs(x * y))", "tl.log(tl.abs(x)) + tl.log(tl.abs(y))"),
    ("f32", "tl.where(x < 0, -1.0, 1.0) * tl.abs(x)", "x"),
    ("f32", "tl.softmax(x)", "tl.softmax(x + 3.0)"),
    ("f32", "tl.softmax(x)", lambda x, y: (x - x.logsumexp(0)).exp()),
    ("f32", "tl.join(x, y).sum(1)", "x + y"),
    ("f32", "tl.load(tl.where(place < 9, x_ptr, y_ptr) + at)", "tl.where(place < 9, x, y)"),
    ("f32", "tl.log2(x) * 0.6931472", "tl.log(x)"),
    ("f32", "tl.sum(tl.load(x_ptr + (at // 2 * 2)[:, None] + tl.arange(0, 2)), 1) / 2",
     lambda x, y: functional.avg_pool1d(x[None], 2)[0].repeat_interleave(2)),
    # what is multiplied by 0, which NaN shows
    ("f32", "tl.sum(tl.where(place > 5, x, 0.0)) * ones", lambda x, y: x[6:].sum().expand(SIZE)),
    ("f32", "tl.sum(x * (place > 5)) * ones", "(tl.sum(x) - tl.sum(x * (place < 6))) * ones"),
    ("f32", "tl.sum(x * (place > 5) * (place < 60)) * ones",
     "tl.sum(x * ((place > 5) & (place < 60))) * ones"),
    ("f32", "tl.sum(x * y + 0.0 * x) * ones", "tl.sum(y * x) * ones"),
    # a factor through a maximum; constants that Python folds; the sign of a logarithm
    ("f32", "tl.maximum(0.5 * x, 0.0)", lambda x, y: 0.5 * torch.fmax(x, torch.zeros(SIZE))),
    ("f32", "x * (2.0 / 3.0)", lambda x, y: x * 2 / 3),
    ("f32", "x * (1 / 48**0.5)", lambda x, y: x / 48**0.5),
    ("f32", "tl.exp(x - tl.log(tl.sum(tl.exp(x))))", lambda x, y: x.softmax(0)),
    ("i32", "(x ^ y) + 2 * (x & y)", "x + y"),
    ("i32", "x // 7 * 7 + x % 7", "x"),
    ("i32", "tl.where(x > 0, x, 0)", "x & ~(x >> 31)"),
    ("i32", "(x < 0).to(tl.int32)", "(x.to(tl.uint32) >> 31).to(tl.int32)"),
    ("i32", "(x | y) - (x & y)", "x ^ y"),
    ("i32", "x // y", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    ("i8", "(x.to(tl.int32) + y).to(tl.int8)", "x + y"),
]  # fmt: skip

FINITE: list[tuple[str, str, str | Function]] = [
    # pieces of functions: of torch, of two kernels
    ("f32", HARDSWISH, lambda x, y: functional.hardswish(x)),
    ("f32", HARDSWISH, "x * tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) / 6.0"),
    ("f32", "tl.minimum(tl.maximum(x / 6 + 0.5, 0.0), 1.0)", "tl.clamp(x + 3.0, 0.0, 6.0) / 6.0"),
    ("f32", "tl.maximum(tl.minimum(x, 6.0), 0.0)", "tl.minimum(tl.maximum(x, 0.0), 6.0)"),
    ("f32", "tl.where(x < 0.0, 0.0, tl.where(x > 6.0, 6.0, x))", lambda x, y: x.clamp(0, 6)),
    ("f32", "tl.maximum(x, 0.01 * x)", lambda x, y: functional.leaky_relu(x)),
    ("f32", "tl.maximum(x, 0.0) + tl.minimum(tl.exp(x) - 1, 0.0)", lambda x, y: functional.elu(x)),
    ("f32", "tl.maximum(x - 0.5, 0.0) - tl.maximum(-x - 0.5, 0.0)",
     lambda x, y: functional.softshrink(x)),
    ("f32", "tl.where(tl.abs(x) > 0.5, x, 0.0)", lambda x, y: functional.hardshrink(x)),
    ("f32", "tl.where(tl.abs(x - y) < 1.0, 0.5 * (x - y) * (x - y), tl.abs(x - y) - 0.5)",
     lambda x, y: functional.smooth_l1_loss(x, y, reduction="none")),
    ("f32", "(x > 0).to(tl.float32) - (x < 0).to(tl.float32)", lambda x, y: x.sign()),
    ("f32", "tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))", "tl.log(1 + tl.exp(x))"),
    ("f32", "tl.maximum(x, y) + tl.log(1 + tl.exp(-tl.abs(x - y)))", torch.logaddexp),
    ("f32", "tl.where(x >= 0, 1 / (1 + tl.exp(-x)), tl.exp(x) / (1 + tl.exp(x)))",
     "tl.sigmoid(x)"),
    ("f32", "x * tl.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))",
     lambda x, y: functional.gelu(x, approximate="tanh")),
    ("f32", "x * libdevice.tanh(tl.log(1 + tl.exp(x)))",
     "x * ((1 + tl.exp(x)) * (1 + tl.exp(x)) - 1) / ((1 + tl.exp(x)) * (1 + tl.exp(x)) + 1)"),
    ("f32", "tl.maximum(x, 0.0) - x * y + tl.log(1 + tl.exp(-tl.abs(x)))",
     lambda x, y: functional.binary_cross_entropy_with_logits(x, y, reduction="none")),
    # a variance by squares, one largest, the mean under a mask, 8-bit integers
    ("f32", "(x - tl.sum(x) / 64) * tl.rsqrt(tl.sum(x * x) / 64 - tl.sum(x) / 64 * "
     "(tl.sum(x) / 64) + 1e-5)", lambda x, y: functional.layer_norm(x, (64,))),
    ("f32", "tl.sum(tl.where(place == tl.argmax(x, 0), x, 0.0)) * ones",
     lambda x, y: x.topk(1).values.expand(SIZE)),
    ("f32", "tl.sum(tl.where(place < 40, x, 0.0)) / 40 * ones",
     lambda x, y: x[:40].mean().expand(SIZE)),
    ("f32", "libdevice.rint(tl.clamp(x * 10.0, -128.0, 127.0)).to(tl.int8).to(tl.float32) * 0.1",
     lambda x, y: (x * 10.0).clamp(-128, 127).round().to(torch.int8).float() * 0.1),
    ("f32", "tl.minimum(tl.maximum(x, -5e9), 5e9)", "tl.clamp(x, -5e9, 5e9)"),
    # a product with a condition; complex numbers
    ("f32", "tl.where(y > 0, x, 0.0)", lambda x, y: x * (y > 0)),
    ("f32", "(x * x - y * y) * 3 - 2 * x * y",
     lambda x, y: (torch.complex(x, y) * torch.complex(x, y) * (3 + 1j)).real),
]  # fmt: skip
"""Equal where no input is NaN or infinite."""
