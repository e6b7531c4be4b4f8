"""Cases of matrix products."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch

from tests.cases.case import Case, case, normal, whole
from tests.kernels.interp import products
from tests.support import versions

PRODUCT_TOLERANCE = {"ieee": 1e-6, "tf32": 2e-3, "tf32x3": 2e-6, "bf16x3": 2e-5, "bf16x6": 1e-6}


def product_tolerance(_: torch.dtype, result: torch.dtype, precision: str) -> float:
    exact = {torch.int32: 0.0, torch.float16: 1e-3, torch.float64: 1e-13}
    return exact.get(result, PRODUCT_TOLERANCE[precision])


# Sums of 32 products of standard normal numbers: their size is about 6.
@case(
    "product-{}-{}-{}", products.product, (2,), rtol=product_tolerance,
    atol=lambda *given: 12 * product_tolerance(*given),
)  # fmt: skip
def product(dtype, result, precision):
    """Against float64. Two programs, with one b for both."""
    if dtype == torch.int8:
        a, b = (whole(*s, low=-128, high=128, dtype=dtype) for s in ((2, 16, 32), (32, 16)))
        c = whole(2, 16, 16, low=-(2**31), high=2**31 - 2**24, dtype=result)
    else:
        a, b = normal(2, 16, 32, dtype=dtype), normal(32, 16, seed=1, dtype=dtype)
        c = normal(2, 16, 16, seed=2, dtype=result)
    yield dict(a_ptr=a, b_ptr=b, c_ptr=c, M=16, N=16, K=32, PRECISION=precision)
    if dtype == torch.int8:
        yield {"c_ptr": a.int() @ b.int() + c}
    else:
        yield {"c_ptr": (a.double() @ b.double() + c.double()).numpy()}


@case("product_cut_to_tf32", products.product)
def product_cut_to_tf32():
    """Products of numbers that differ beyond tf32's 10 bits: those bits must be gone."""
    a = torch.full((1, 16, 32), 1 + 2.0**-11 + 2.0**-20)
    b = torch.full((32, 16), 1 + 2.0**-10)
    c = torch.zeros(1, 16, 16)
    yield dict(a_ptr=a, b_ptr=b, c_ptr=c, M=16, N=16, K=32, PRECISION="tf32")
    yield {"c_ptr": np.full((1, 16, 16), 32 * (1 + 2.0**-10))}


@case("product_with_infinity-{}", products.product)
def product_with_infinity(precision):
    """Infinity times a number whose small part is 0 is infinity."""
    a, b = torch.ones(1, 16, 32), torch.ones(32, 16)
    a[0, 3, 4], a[0, 5, 6], b[7, 8] = math.inf, math.nan, -math.inf
    yield dict(
        a_ptr=a, b_ptr=b, c_ptr=torch.zeros(1, 16, 16), M=16, N=16, K=32, PRECISION=precision
    )
    yield {"c_ptr": a.double() @ b.double()}


@case("product_of_narrow_parts-{}", products.product)
def product_of_narrow_parts(precision, kept):
    """(1 + 2**-9 + 2**-18) ** 2: how many terms come out shows which products were added up."""
    number = 1 + 2.0**-9 + 2.0**-18
    a, b, c = torch.zeros(1, 16, 32), torch.zeros(32, 16), torch.zeros(1, 16, 16)
    a[0, :, 9], b[9] = number, number
    yield dict(a_ptr=a, b_ptr=b, c_ptr=c, M=16, N=16, K=32, PRECISION=precision)
    yield {"c_ptr": np.full((1, 16, 16), kept, np.float32)}


@case("product_of_eight_bits-{}", products.product_of_eight_bits, (2,), rtol=1e-06, atol=1e-05)
def product_of_eight_bits(dtype):
    """fp8 by fp8, with the limit on imprecise sums that only an H100's accumulators heed."""
    a, b = normal(2, 32, 32, dtype=dtype), normal(32, 32, seed=1, dtype=dtype)
    yield dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(2, 32, 32), SIZE=32)
    yield {"c_ptr": (a.double() @ b.double()).numpy()}


@case("product_of_transposed", products.product_of_transposed)
def product_of_transposed():
    a, b = whole(2, 32, 16, dtype=torch.float16), whole(2, 16, 32, seed=1, dtype=torch.float16)
    yield dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(2, 16, 16), B=2, S=16, K=32)
    yield {"c_ptr": a.float().mT @ b.float().mT}


@case("batched_product", products.batched_product)
def batched_product():
    a, b = whole(2, 16, 16, dtype=torch.float16), whole(2, 16, 16, seed=1, dtype=torch.float16)
    yield dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(2, 16, 16), B=2, M=16, N=16, K=16)
    yield {"c_ptr": a.float() @ b.float()}


@case("product_of_indices", products.product_of_indices, (3,))
def product_of_indices():
    yield dict(c_ptr=torch.zeros(3, 16, 16), SIZE=16)
    m, n = np.arange(16)[:, None], np.arange(16)[None, :]
    results = []
    for program in range(3):
        first = (m + 2 * n) @ (m - n + program) + m * n
        results.append(2 * first + (m + 2 * n) @ (m - n + program) + m * n)
    yield {"c_ptr": np.array(results)}


SCALED_DTYPES = {
    "e2m1": torch.uint8, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
    "bf16": torch.bfloat16, "fp16": torch.float16,
}  # fmt: skip


def scaled_operand(format: str, *shape: int, pack: int, seed: int) -> torch.Tensor:
    """Finite numbers of a format; e2m1 with dimension `pack` half as long."""
    if format != "e2m1":
        return normal(*shape, seed=seed, dtype=SCALED_DTYPES[format])
    halved = [size // 2 if d == pack % len(shape) else size for d, size in enumerate(shape)]
    return whole(*halved, low=0, high=256, seed=seed, dtype=torch.uint8)


def numbers_of(operand: torch.Tensor, format: str, pack: int) -> np.ndarray:
    """What an operand stands for, in float64: ml_dtypes reads e2m1."""
    if format != "e2m1":
        return operand.double().numpy()
    halves = [operand.numpy() & 15, operand.numpy() >> 4]
    numbers = [half.view(ml_dtypes.float4_e2m1fn).astype(np.float64) for half in halves]
    shape = [size * (2 if d == pack % 2 else 1) for d, size in enumerate(operand.shape[-2:])]
    return np.stack(numbers, pack).reshape(*operand.shape[:-2], *shape)


def factors_of(scale: torch.Tensor | None) -> np.ndarray:
    """e8m0 in float64, one for each number along the last axis, as ml_dtypes reads it."""
    if scale is None:
        return np.ones(1)
    factors = scale.numpy().view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    return np.repeat(factors, 32, -1)


def scaled_product(
    a_format: str,
    b_format: str,
    scaled: str,
    *,
    packed: tuple[bool, bool] = (True, True),
    special: int | None = None,
) -> Case:
    """Against float64; `scaled` is "a", "b" or "ab", `special` the exponent of a group."""
    M, N, K = 32, 16, 64
    a_pack, b_pack = -1 if packed[0] else -2, -2 if packed[1] else -1

    def scales(*shape: int, seed: int) -> torch.Tensor:
        exponents = whole(*shape, low=124, high=131, seed=seed, dtype=torch.uint8)
        if special is not None:
            exponents[..., 3, 1] = special
        return exponents

    def make() -> dict[str, Any]:
        return dict(
            a_ptr=scaled_operand(a_format, 2, M, K, pack=a_pack, seed=0),
            a_scale_ptr=scales(2, M, K // 32, seed=1) if "a" in scaled else None,
            b_ptr=scaled_operand(b_format, K, N, pack=b_pack, seed=2),
            b_scale_ptr=scales(N, K // 32, seed=3) if "b" in scaled else None,
            c_ptr=normal(2, M, N, seed=4),
            M=M,
            N=N,
            K=K,
            A_FORMAT=a_format,
            B_FORMAT=b_format,
            A_K_PACK=packed[0],
            B_K_PACK=packed[1],
            FAST=False,
        )

    def reference(
        a_ptr: Any, a_scale_ptr: Any, b_ptr: Any, b_scale_ptr: Any, c_ptr: Any, **_: Any
    ) -> dict[str, Any]:
        a = numbers_of(a_ptr, a_format, a_pack) * factors_of(a_scale_ptr)
        b = numbers_of(b_ptr, b_format, b_pack) * factors_of(b_scale_ptr).T
        return {"c_ptr": a @ b + c_ptr.double().numpy()}

    sizes = "packed" if all(packed) else "packed-otherwise"
    special_name = "" if special is None else f"-{special}"
    name = f"scaled_product-{a_format}-{b_format}-{scaled}-{sizes}{special_name}"
    return Case(name, products.scaled_product, (2,), make, reference, rtol=1e-6, atol=3e-4)


@case("scaled_by_no_number-{}", products.scaled_product)
def scaled_by_no_number(fast):
    """The exponent 0xFF makes NaN; with fast_math it is infinity."""
    scale = torch.full((1, 32, 1), 127, dtype=torch.uint8)
    scale[0, 5] = 255
    yield dict(
        a_ptr=torch.ones(1, 32, 32, dtype=torch.float8_e5m2), a_scale_ptr=scale,
        b_ptr=torch.ones(32, 16, dtype=torch.float16), b_scale_ptr=None,
        c_ptr=torch.zeros(1, 32, 16), M=32, N=16, K=32, A_FORMAT="e5m2", B_FORMAT="fp16",
        A_K_PACK=True, B_K_PACK=True, FAST=fast,
    )  # fmt: skip
    c = np.full((1, 32, 16), 32.0)
    c[0, 5] = math.inf if fast else math.nan
    yield {"c_ptr": c}


@case("scaled_in_sixteen_bits-{}", products.scaled_product)
def scaled_in_sixteen_bits(format):
    """Numbers times scales are rounded: beyond fp16's range is infinite, 2**-140 in bf16 is 0."""
    exponent, factor = {"fp16": (147, math.inf), "bf16": (0, 0.0)}[format]
    yield dict(
        a_ptr=torch.ones(1, 32, 32, dtype=torch.float8_e4m3fn),
        a_scale_ptr=torch.full((1, 32, 1), exponent, dtype=torch.uint8),
        b_ptr=torch.full((32, 16), 2.0, dtype=SCALED_DTYPES[format]),
        b_scale_ptr=None,
        c_ptr=torch.ones(1, 32, 16),
        M=32,
        N=16,
        K=32,
        A_FORMAT="e4m3",
        B_FORMAT=format,
        A_K_PACK=True,
        B_K_PACK=True,
        FAST=False,
    )
    yield {"c_ptr": np.full((1, 32, 16), factor * 64 + 1)}


@case("batched_scaled_product", products.batched_scaled_product, rtol=1e-06, atol=0.0001)
def batched_scaled_product():
    a_ptr = normal(2, 32, 32, dtype=torch.float8_e5m2)
    scale = whole(2, 32, 1, low=125, high=130, dtype=torch.uint8)
    b = normal(2, 32, 32, seed=1, dtype=torch.bfloat16)
    yield dict(a_ptr=a_ptr, scale_ptr=scale, b_ptr=b, c_ptr=torch.zeros(2, 32, 32), B=2, S=32)
    a = a_ptr.double().numpy() * factors_of(scale)
    yield {"c_ptr": a @ b.double().numpy()}


def product_cases() -> Iterator[Case]:
    yield product(torch.float16, torch.float32, "ieee")
    yield product(torch.float16, torch.float16, "tf32")
    yield product(torch.bfloat16, torch.float32, "tf32")
    yield from (product(torch.float32, torch.float32, p) for p in PRODUCT_TOLERANCE)
    yield product(torch.int8, torch.int32, "ieee")
    yield product(torch.float64, torch.float64, "ieee")
    yield product_cut_to_tf32()
    yield from map(product_with_infinity, ("ieee", "tf32x3", "bf16x3", "bf16x6"))
    # The parts in bf16 are 1, 2**-9 and 2**-18; in tf32 they are 1 + 2**-9 and 2**-18.
    yield product_of_narrow_parts("bf16x3", 1 + 2.0**-8)
    yield product_of_narrow_parts("bf16x6", 1 + 2.0**-8 + 2.0**-18 + 2.0**-17)
    yield product_of_narrow_parts("tf32x3", (1 + 2.0**-9) ** 2 + (1 + 2.0**-9) * 2.0**-17)
    yield from map(product_of_eight_bits, (torch.float8_e4m3fn, torch.float8_e5m2))
    yield product_of_transposed()
    yield batched_product()
    yield product_of_indices()
    for narrow in ("e2m1", "e4m3", "e5m2"):
        for other in ("e4m3", "e5m2", "bf16", "fp16"):
            yield scaled_product(narrow, other, "a")
            yield scaled_product(other, narrow, "b")
        yield scaled_product(narrow, "e2m1", "ab")
    yield scaled_product("e4m3", "e5m2", "")
    yield scaled_product("e2m1", "e2m1", "ab", packed=(False, False))
    yield scaled_product("e2m1", "bf16", "a", packed=(False, True))
    yield scaled_product("e2m1", "e4m3", "a", special=255)
    yield from map(scaled_by_no_number, (False, True))
    yield from map(scaled_in_sixteen_bits, ("fp16", "bf16"))
    if versions.HAS_SCALED_BATCHES:
        yield batched_scaled_product()
