"""Cases of tiles: reductions, scans, shapes."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from tests.cases.arithmetic import wrap
from tests.cases.case import Case, as_numpy, case, iota, normal, random, whole
from tests.kernels.interp import tiles
from tests.support import versions

M, N = 4, 16


def row_values(how: str, dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        x = whole(M, N, low=-50, dtype=torch.float64, seed=3).div(4).to(dtype)
        x[1, 5] = x[1, 9] = 20.0  # ties: the first counts
        x[2, 3] = x[2, 8] = -20.0
        return x
    low, high = max(torch.iinfo(dtype).min, -(2**40)), min(torch.iinfo(dtype).max, 2**40)
    x = torch.from_numpy(random(4).integers(low, high, (M, N))).to(dtype)
    if how.startswith("arg"):
        x[1, 7] = x[1, 3]
    return x


REDUCTIONS = {
    "sum": lambda x: x.sum(1), "max": lambda x: x.max(1), "min": lambda x: x.min(1),
    "argmax": lambda x: x.argmax(1), "argmin": lambda x: x.argmin(1),
    "xor": lambda x: np.bitwise_xor.reduce(x, 1), "or": lambda x: np.bitwise_or.reduce(x, 1),
}  # fmt: skip


@case("reduced_rows-{}-{}", tiles.reduced_rows)
def reduced_rows(how, dtype):
    """Sums of integers have 32 bits at least, as in Triton; those here are exact as floats."""
    result = dtype
    if how.startswith("arg"):
        result = torch.int32
    elif how == "sum" and not dtype.is_floating_point and torch.iinfo(dtype).bits < 32:
        result = torch.int32 if torch.iinfo(dtype).min < 0 else torch.uint32
    x = row_values(how, dtype)
    yield dict(x_ptr=x, out_ptr=torch.zeros(M, dtype=result), M=M, N=N, HOW=how)
    x = as_numpy(x)
    if dtype.is_floating_point:
        yield {"out_ptr": REDUCTIONS[how](x.astype(np.float64))}
    else:
        values = REDUCTIONS[how](x.astype(object) if how == "sum" else x).tolist()
        kind = as_numpy(torch.zeros(1, dtype=result)).dtype
        yield {"out_ptr": np.array([wrap(v, result) for v in values], dtype=kind)}


@case("reduced_with_nan-{}", tiles.reduced_rows)
def reduced_with_nan(how):
    """max and min pass over NaN, as PTX's do; a row of nothing else stays NaN."""
    x = row_values(how, torch.float32)
    x[0, 3] = x[1, 0] = x[2, 15] = float("nan")
    x[3] = float("nan")
    yield dict(x_ptr=x, out_ptr=torch.zeros(M), M=M, N=N, HOW=how)
    ufunc = {"max": np.fmax, "min": np.fmin, "sum": np.add}[how]
    yield {"out_ptr": ufunc.reduce(x.numpy().astype(np.float64), 1)}


@case("reduced_columns", tiles.reduced_columns)
def reduced_columns():
    x_ptr = whole(8, N, low=-3, high=4, dtype=torch.float32)
    yield dict(x_ptr=x_ptr, out_ptr=torch.zeros(6, N), M=8, N=N)
    x = x_ptr.numpy().astype(np.float64)
    rows = [
        x.max(0), (x - x.max(0)).sum(0), x.min(0), x.argmin(0), x.max(0),
        x.sum() + np.arange(N),
    ]  # fmt: skip
    yield {"out_ptr": np.array(rows)}


@case("reduced_3d-{}", tiles.reduced_3d)
def reduced_3d(axis):
    shape = (2, 4, 8)
    size = 64 // shape[axis]
    x = whole(*shape, dtype=torch.float32)
    yield dict(x_ptr=x, out_ptr=torch.zeros(size), A=2, B=4, C=8, AXIS=axis)
    yield {"out_ptr": x.sum(axis)}


@case("custom_reductions", tiles.custom_reductions)
def custom_reductions():
    x = whole(M, N, low=-2, high=3, dtype=torch.float32, seed=8) + 0.5
    counts = torch.zeros(M, dtype=torch.int32)
    yield dict(x_ptr=x, out_ptr=torch.zeros(2, M), count_ptr=counts, M=M, N=N)
    x = x.numpy().astype(np.float64)
    larger = np.abs(x).max(1)
    yield {"out_ptr": np.array([larger, x.prod(1)]), "count_ptr": (x > 0).sum(1)}


@case("scanned-{}", tiles.scanned)
def scanned(direction):
    reverse = direction == "reverse"
    a_ptr = whole(M, 8, low=-2, high=3, dtype=torch.float32) / 2
    x_ptr = whole(M, 8, low=-4, high=5, dtype=torch.float32, seed=9)
    out_ptr = torch.zeros(3, M, 8)
    yield dict(a_ptr=a_ptr, x_ptr=x_ptr, out_ptr=out_ptr, M=M, N=8, REVERSE=reverse)
    a, x = a_ptr.numpy().astype(np.float64), x_ptr.numpy().astype(np.float64)
    order = slice(None, None, -1) if reverse else slice(None)
    h, state = np.zeros_like(x), np.zeros(M)
    for j in range(8)[order]:
        state = a[:, j] * state + x[:, j]
        h[:, j] = state
    sums = np.cumsum(x[:, order], 1)[:, order]
    yield {"out_ptr": np.array([sums, np.cumprod(x[order], 0)[order], h])}


ROUNDED_EACH_TIME = {torch.float16}
if not versions.WIDENS_RUNNING_BFLOAT16:
    ROUNDED_EACH_TIME.add(torch.bfloat16)


def tolerance_of_scan(dtype: torch.dtype) -> float:
    rough = {torch.bfloat16: 2e-2, torch.float32: 1e-5}
    return 0 if dtype in ROUNDED_EACH_TIME else rough.get(dtype, 0)


@case("scanned-{}", tiles.scanned_whatever, rtol=tolerance_of_scan, atol=tolerance_of_scan)
def scanned_whatever(dtype):
    """Integers wrap in 32 bits at least; 16-bit floats are rounded each time (bf16 from 3.9)."""
    is_float = dtype.is_floating_point
    result = dtype if is_float or torch.iinfo(dtype).bits >= 32 else torch.int32
    x = normal(64, dtype=dtype) if is_float else whole(64, low=0, high=100, dtype=dtype)
    yield dict(x_ptr=x, out_ptr=torch.zeros(64, dtype=result), N=64)
    x = as_numpy(x)
    if dtype in ROUNDED_EACH_TIME:
        yield {"out_ptr": list(itertools.accumulate(x, lambda a, b: x.dtype.type(a + b)))}
    else:
        yield {"out_ptr": np.cumsum(x.astype(np.float64))}


@case("shaped", tiles.shaped)
def shaped():
    x_ptr = iota(32)
    yield dict(x_ptr=x_ptr, out_ptr=torch.zeros(10, 32))
    x = x_ptr.view(4, 8)
    flat = x_ptr
    even, odd = flat[::2], flat[1::2]
    wide = torch.arange(4.0)[:, None].expand(4, 8)
    rows = [
        flat, x.T.reshape(-1), x.view(2, 2, 8).permute(2, 0, 1).reshape(-1), flat + 100,
        torch.cat([even, odd]), torch.stack([even, odd + 0.5], -1).reshape(-1),
        torch.cat([even, odd]), flat.flip(0), wide.reshape(-1), wide.T.reshape(-1),
    ]  # fmt: skip
    yield {"out_ptr": torch.stack(rows)}


@case("scalar_of_tile", tiles.scalar_of_tile, (3,))
def scalar_of_tile():
    yield dict(x_ptr=iota(3), out_ptr=torch.zeros(3))
    yield {"out_ptr": iota(3) * 2}


@case("one_wide", tiles.one_wide, (3,))
def one_wide():
    yield dict(x_ptr=iota(16), out_ptr=torch.zeros(3, 8), ONE=1, N=8)
    yield {"out_ptr": np.arange(3)[:, None] + np.arange(8)}


@case("ordered-{}", tiles.ordered)
def ordered(dtype):
    x = whole(2, 8, low=0, high=20, dtype=dtype)
    yield dict(x_ptr=x, out_ptr=torch.zeros(2, 2, 8, dtype=dtype), M=2, N=8)
    x = np.sort(as_numpy(x), 1)
    yield {"out_ptr": np.array([x, x[:, ::-1]])}


@case("gathered-{}", tiles.gathered, (3,))
def gathered(axis):
    index = whole(3, 4, 8, low=0, high=(4, 8)[axis])
    x = normal(4, 8)
    yield dict(x_ptr=x, index_ptr=index, out_ptr=torch.zeros(3, 4, 8), M=4, N=8, AXIS=axis)
    yield {"out_ptr": torch.stack([x.gather(axis, i.long()) for i in index])}


@case("counted", tiles.counted, (3,))
def counted():
    counts = torch.zeros(3, 2, 8, dtype=torch.int32)
    x = whole(3, 64, low=0, high=8)
    yield dict(x_ptr=x, out_ptr=counts, n=50, N=64, BINS=8)
    counts = [[torch.bincount(r, minlength=8), torch.bincount(r[:50], minlength=8)] for r in x]
    yield {"out_ptr": torch.stack([torch.stack(pair) for pair in counts]).int()}


def tile_cases() -> Iterator[Case]:
    for how in ("sum", "max", "min"):
        for dtype in (
            torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8,
            torch.int32, torch.uint32, torch.int64, torch.uint64,
        ):  # fmt: skip
            yield reduced_rows(how, dtype)
        yield reduced_with_nan(how)
    for how in ("argmax", "argmin"):
        for dtype in (torch.float16, torch.float32, torch.int32, torch.uint32):
            yield reduced_rows(how, dtype)
    for how in ("xor", "or"):
        yield from (reduced_rows(how, dtype) for dtype in (torch.int32, torch.int64))
    yield reduced_columns()
    yield from map(reduced_3d, range(3))
    yield custom_reductions()
    yield from map(scanned, ("forward", "reverse"))
    for dtype in (
        torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int32, torch.int64,
    ):  # fmt: skip
        yield scanned_whatever(dtype)
    yield shaped()
    yield scalar_of_tile()
    yield one_wide()
    yield from map(ordered, (torch.float32, torch.int32, torch.uint8))
    yield from map(gathered, (0, 1))
    yield counted()
