"""Five kernels at real sizes, their references, and what `kernellab demo` makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kernellab.cli.demo import kernels
from kernellab.launch.results import Tolerances, is_equal

# Philox4x32-10 in NumPy, written from its paper: the dropout kernel's mask, known without
# Triton.
#
# Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The
# constants are the paper's; the test checks the known answers that Random123, its authors'
# library, publishes.

Words = NDArray[np.uint32]

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY_INCREMENTS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
LOW_32 = np.uint64(0xFFFFFFFF)


def philox4x32(
    counter: tuple[Words, Words, Words, Words], key: tuple[int, int]
) -> tuple[Words, Words, Words, Words]:
    """Ten rounds of Philox on four words of counter (uint32 arrays) with two of key."""
    c0, c1, c2, c3 = (word.astype(np.uint64) for word in counter)
    k0, k1 = (np.uint64(word) for word in key)
    for _ in range(ROUNDS):
        product_0 = MULTIPLIERS[0] * c0
        product_1 = MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product_1 >> np.uint64(32)) ^ c1 ^ k0,
            product_1 & LOW_32,
            (product_0 >> np.uint64(32)) ^ c3 ^ k1,
            product_0 & LOW_32,
        )
        k0 = (k0 + KEY_INCREMENTS[0]) & LOW_32
        k1 = (k1 + KEY_INCREMENTS[1]) & LOW_32
    w0, w1, w2, w3 = (word.astype(np.uint32) for word in (c0, c1, c2, c3))
    return w0, w1, w2, w3


def uniform(seed: int, offsets: NDArray[np.int32]) -> NDArray[np.float32]:
    """What Triton documents for `tl.rand(seed, offsets)`:
    fp32 in [0, 1), of the shape of `offsets`.

    The offset is the counter's first word and the seed is the key. The first word that Philox
    gives, taken as a signed integer, is folded to a non-negative one (-1 to 0, -2 to 1, ...) and
    scaled by just under 2**-31, so that the largest stays below 1.
    """
    zero = np.zeros_like(offsets, dtype=np.uint32)
    counter = (offsets.view(np.uint32), zero, zero, zero)
    word = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))[0].view(np.int32)
    folded = np.where(word < 0, ~word, word)
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)


# The demo's cases: which kernel, on which arguments, and what it must give.
#
# A case knows nothing of KernelLab: the benchmarks run the same cases on Triton's own interpreter.

Arguments = dict[str, Any]
"""Parameter name -> value, constexprs left out."""
Grid = tuple[int, ...]

SEED = 7
DROPOUT_SEED = 1234


EXACT = Tolerances(0.0, 0.0)


@dataclass(frozen=True)
class Case:
    """One kernel at one size."""

    name: str
    size: str
    """The size as a person would say it: "1823x781 fp32"."""
    kernel: Any
    """The `triton.jit` kernel (under TRITON_INTERPRET=1, Triton's interpreted one)."""
    grid: Grid
    constants: Mapping[str, Any]
    """Constexpr arguments by name."""
    make_arguments: Callable[[], Arguments]
    """New arguments, the same values every time; tensors on the CPU."""
    reference: Callable[[Arguments], dict[str, torch.Tensor]]
    """The parameters that the kernel writes -> their expected values."""
    torch_twin: Callable[[Arguments], Any]
    """The same job as a torch user would write it: the kernel is timed against it."""
    tolerance: Mapping[str, Tolerances]
    """One for every parameter that the kernel writes."""
    why_tolerance: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Launch options: num_warps, num_stages."""
    remark: Callable[[Arguments], str] = lambda _arguments: ""
    """What else can be said about a finished launch's arguments."""


def all_cases() -> list[Case]:
    """The demo, in the order in which it is shown."""
    return [
        vector_add_case(98_432), softmax_case(1823, 781), matmul_case(torch.float16),
        matmul_case(torch.bfloat16), matmul_case(torch.float32), layer_norm_case(1151, 8192),
        dropout_case(1 << 20, 0.5),
    ]  # fmt: skip


def small_cases() -> list[Case]:
    """Each kernel of the demo once, on so little that every step of a program can be looked at."""
    return [
        vector_add_case(3000),
        softmax_case(6, 781),
        matmul_case(torch.float16, 128),
        layer_norm_case(4, 3000),
        dropout_case(3000, 0.5),
    ]


def random_normal(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = SEED
) -> torch.Tensor:
    """Normal deviates of this shape and dtype, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


_DTYPES = {
    torch.float16: ("fp16", 2.0**-10),
    torch.bfloat16: ("bf16", 2.0**-7),
    torch.float32: ("fp32", 2.0**-23),
}
"""Triton's word for a floating dtype, and a unit in the last place of 1.0."""


def vector_add_case(n: int) -> Case:
    """z = x + y for two fp32 vectors of n elements."""
    block = 1024

    def make_arguments() -> Arguments:
        x, y = random_normal(n), random_normal(n, seed=SEED + 1)
        return {"x_ptr": x, "y_ptr": y, "out_ptr": torch.empty_like(x), "n": n}

    def add(arguments: Arguments) -> torch.Tensor:
        return torch.add(arguments["x_ptr"], arguments["y_ptr"])

    return Case(
        name="vector add",
        size=f"{n:,} fp32",
        kernel=kernels.vector_add,
        grid=(-(-n // block),),
        constants={"BLOCK": block},
        make_arguments=make_arguments,
        reference=lambda arguments: {"out_ptr": add(arguments)},
        torch_twin=add,
        tolerance={"out_ptr": EXACT},
        why_tolerance="one fp32 addition rounds one way only",
    )


def softmax_case(rows: int, columns: int) -> Case:
    """Softmax of each row of an fp32 matrix."""

    def make_arguments() -> Arguments:
        x = random_normal(rows, columns)
        return {
            "x_ptr": x,
            "out_ptr": torch.empty_like(x),
            "row_stride": x.stride(0),
            "n_columns": columns,
        }

    def softmax(arguments: Arguments) -> torch.Tensor:
        return torch.softmax(arguments["x_ptr"], dim=1)

    return Case(
        name="softmax",
        size=f"{rows}x{columns} fp32",
        kernel=kernels.softmax,
        grid=(rows,),
        constants={"BLOCK": 1 << (columns - 1).bit_length()},
        make_arguments=make_arguments,
        reference=lambda arguments: {"out_ptr": softmax(arguments)},
        torch_twin=softmax,
        tolerance={"out_ptr": Tolerances(rtol=2e-6)},
        why_tolerance=(
            "two libraries' exp and the order of an fp32 sum: a few units in the last place"
        ),
    )


def matmul_case(dtype: torch.dtype, size: int = 512) -> Case:
    """C = A @ B for square matrices of one dtype, tiles of 64x64 in groups of 8 rows of tiles."""
    block_m, block_n, block_k, group_m = 64, 64, 32, 8

    def make_arguments() -> Arguments:
        a = random_normal(size, size, dtype=dtype)
        b = random_normal(size, size, dtype=dtype, seed=SEED + 1)
        c = torch.empty(size, size, dtype=dtype)
        return {
            "a_ptr": a, "b_ptr": b, "c_ptr": c, "M": size, "N": size, "K": size,
            "stride_am": a.stride(0), "stride_ak": a.stride(1),
            "stride_bk": b.stride(0), "stride_bn": b.stride(1),
            "stride_cm": c.stride(0), "stride_cn": c.stride(1),
        }  # fmt: skip

    def reference(arguments: Arguments) -> dict[str, torch.Tensor]:
        product = arguments["a_ptr"].double() @ arguments["b_ptr"].double()
        return {"c_ptr": product.to(dtype)}

    # An fp32 sum of `size` products of normal deviates is off by about sqrt(size) units of 2**-24,
    # times 4 for the largest of many.
    summed = 4 * size**0.5 * 2.0**-24 * size**0.5
    kind, one_unit = _DTYPES[dtype]
    return Case(
        name=f"matmul {kind}",
        size=f"{size}x{size}x{size}",
        kernel=kernels.matmul,
        grid=(-(-size // block_m) * -(-size // block_n),),
        constants={
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
            "GROUP_M": group_m,
            # tf32, the default on an NVIDIA GPU, would round fp32 inputs to 11 bits;
            # other dtypes ignore it.
            "PRECISION": "ieee",
        },
        make_arguments=make_arguments,
        reference=reference,
        torch_twin=lambda arguments: torch.matmul(arguments["a_ptr"], arguments["b_ptr"]),
        tolerance={"c_ptr": Tolerances(atol=summed, rtol=one_unit)},
        why_tolerance=f"an fp32 sum of {size} products, then one rounding to {kind}",
        options={"num_warps": 4, "num_stages": 3},
    )


def layer_norm_case(rows: int, columns: int) -> Case:
    """Layer normalization of each row of an fp16 matrix, with weight and bias."""
    dtype, epsilon = torch.float16, 1e-5

    def make_arguments() -> Arguments:
        x = random_normal(rows, columns, dtype=dtype) * 2.3 - 0.5
        return {
            "x_ptr": x,
            "weight_ptr": random_normal(columns, dtype=dtype, seed=SEED + 1),
            "bias_ptr": random_normal(columns, dtype=dtype, seed=SEED + 2),
            "out_ptr": torch.empty_like(x),
            "mean_ptr": torch.empty(rows),
            "rstd_ptr": torch.empty(rows),
            "row_stride": x.stride(0),
            "n_columns": columns,
            "epsilon": epsilon,
        }

    def reference(arguments: Arguments) -> dict[str, torch.Tensor]:
        x, weight, bias = (arguments[name].float() for name in ("x_ptr", "weight_ptr", "bias_ptr"))
        out, mean, rstd = torch.native_layer_norm(x, (columns,), weight, bias, epsilon)
        return {"out_ptr": out.to(dtype), "mean_ptr": mean[:, 0], "rstd_ptr": rstd[:, 0]}

    def layer_norm(arguments: Arguments) -> torch.Tensor:
        x, weight, bias = (arguments[name] for name in ("x_ptr", "weight_ptr", "bias_ptr"))
        return torch.nn.functional.layer_norm(x, (columns,), weight, bias, epsilon)

    return Case(
        name="layer norm",
        size=f"{rows}x{columns} fp16",
        kernel=kernels.layer_norm,
        grid=(rows,),
        constants={"BLOCK": 1024},
        make_arguments=make_arguments,
        reference=reference,
        torch_twin=layer_norm,
        tolerance={
            "out_ptr": Tolerances(atol=1e-5, rtol=2.0**-10),
            "mean_ptr": Tolerances(atol=2e-6),
            "rstd_ptr": Tolerances(rtol=2e-6),
        },
        why_tolerance="fp32 sums in another order, then one rounding to fp16",
        options={"num_warps": 8},
    )


def dropout_case(n: int, p: float) -> Case:
    """Zero each of n fp32 elements with probability p and scale the rest."""
    block = 1024

    def make_arguments() -> Arguments:
        x = random_normal(n)
        return {
            "x_ptr": x, "out_ptr": torch.empty_like(x), "n": n, "p": p, "seed": DROPOUT_SEED,
        }  # fmt: skip

    def reference(arguments: Arguments) -> dict[str, torch.Tensor]:
        offsets = torch.arange(n, dtype=torch.int32).numpy()
        keep = torch.from_numpy(uniform(DROPOUT_SEED, offsets)) > p
        return {"out_ptr": torch.where(keep, arguments["x_ptr"] / (1 - p), 0.0)}

    def kept(arguments: Arguments) -> str:
        rate = torch.count_nonzero(arguments["out_ptr"]).item() / n
        return f"kept {rate:.3%} of the elements; {1 - p:.0%} is what p = {p} asks for"

    return Case(
        name="dropout",
        size=f"{n:,} fp32",
        kernel=kernels.dropout,
        grid=(-(-n // block),),
        constants={"BLOCK": block},
        make_arguments=make_arguments,
        reference=reference,
        torch_twin=lambda arguments: torch.nn.functional.dropout(arguments["x_ptr"], p),
        tolerance={"out_ptr": EXACT},
        why_tolerance="the mask is Philox's, bit for bit; dividing by 1 - p = 0.5 is exact",
        remark=kept,
    )


# Is what a kernel wrote what it should have written?


@dataclass(frozen=True)
class OutputCheck:
    """One output of a kernel, compared with its reference."""

    parameter: str
    passed: bool
    max_error: float
    """The largest |result - expected|, in fp64; infinity for an unexpected NaN or infinity."""
    tolerance: Tolerances


def check_outputs(case: Case, arguments: Arguments) -> list[OutputCheck]:
    """Compare every tensor that the case's kernel wrote with the reference."""
    return [
        compare(name, arguments[name], expected, case.tolerance[name])
        for name, expected in case.reference(arguments).items()
    ]


def compare(
    name: str, result: torch.Tensor, expected: torch.Tensor, tolerance: Tolerances
) -> OutputCheck:
    """Compare two tensors of one shape and dtype, element by element, in fp64."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        kinds = (f"{tuple(each.shape)} {each.dtype}" for each in (result, expected))
        raise ValueError(f"{name}: {' and '.join(kinds)}")
    error = (result.double() - expected.double()).abs()
    # An infinity less itself is NaN, though nothing is wrong;
    # any other NaN is an error without bound.
    error[result == expected] = 0.0
    error = error.nan_to_num(nan=float("inf"), posinf=float("inf"))
    passed = is_equal(result, expected, tolerance)
    return OutputCheck(name, passed, float(error.max()), tolerance)
