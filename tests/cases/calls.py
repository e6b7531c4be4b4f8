"""Cases of functions that are called, and of functions of single elements."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from collections.abc import Iterator

import numpy as np
import torch

from tests.cases.case import Case, case, random, whole
from tests.kernels.interp import calls


@case("kept_apart", calls.kept_apart, (6,))
def kept_apart():
    programs, limit = 6, 7

    def checked(out, at, value):
        if value <= limit:
            out[at] = value
        return int(value <= limit)

    out_ptr = torch.full((programs, 8), -77, dtype=torch.int32)
    count_ptr = torch.zeros(programs, dtype=torch.int32)
    yield dict(out_ptr=out_ptr, count_ptr=count_ptr, limit=limit)
    for p, out in enumerate(out_ptr):
        for step in range(3):
            if (p + step) % 2 == 0:
                first = checked(out, 2 * step, p + step)
                count_ptr[p] += first + 10 * checked(out, 2 * step + 1, 2 * (p + step))
            else:
                count_ptr[p] += 100 * checked(out, 2 * step, -step)
    yield {"out_ptr": out_ptr, "count_ptr": count_ptr}


@case("returns_in_loops", calls.returns_in_loops, (4,))
def returns_in_loops():
    programs, n = 4, 40
    out_ptr = torch.full((programs, 16), 5, dtype=torch.int32)
    yield dict(out_ptr=out_ptr, n=n)
    for p, out in enumerate(out_ptr):
        total = 0
        for number in range(p * 3, n + p):
            written = np.base_repr(number, 2 + p)
            total += len(written) * 100 + sum(int(digit) for digit in written)
            if number % 3 == 0:
                out[number % 16] = 0
        out[15] = total
    yield {"out_ptr": out_ptr}


@case("greatest_common_divisors", calls.greatest_common_divisors, (3,))
def greatest_common_divisors():
    programs, m, n = 3, 4, 8
    x = whole(programs, m, n, low=0, high=40) * torch.tensor([6, 10, 15, 7])[:, None]
    out = torch.zeros(programs, m * n + m + n, dtype=torch.int64)
    yield dict(x_ptr=x, out_ptr=out, M=m, N=n)
    x = x.numpy()
    parts = [np.gcd.accumulate(x, 2), np.gcd.reduce(x, 2), np.gcd.reduce(x, 1)]
    yield {"out_ptr": np.concatenate([part.reshape(programs, -1) for part in parts], 1)}


@case("longest-{}", calls.longest, (2,))
def longest(dtype):
    programs, n = 2, 16
    x = whole(n, low=0, high=5, seed=4).to(dtype)
    value, index = (torch.zeros(programs, dtype=kind) for kind in (dtype, torch.int32))
    where = torch.zeros(programs, n, dtype=torch.int32)
    yield dict(x_ptr=x, value_ptr=value, index_ptr=index, where_ptr=where, N=n)
    x = x.float().numpy()
    running = [lane + int(np.argmax(x[lane:])) for lane in range(n)]
    yield {
        "value_ptr": [x.max()] * programs,
        "index_ptr": [int(np.argmax(x))] * programs,
        "where_ptr": [running] * programs,
    }


@case("mapped", calls.mapped, (3,))
def mapped():
    programs, n = 3, 16
    x_ptr = torch.from_numpy(random(5).integers(-9, 9, programs * n).astype(np.float32))
    y_ptr = torch.from_numpy(random(6).integers(-9, 9, n).astype(np.float32))
    yield dict(x_ptr=x_ptr, y_ptr=y_ptr, out_ptr=torch.zeros(4, programs * n), N=n)

    def steps(number):
        count = 0
        while number != 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            count += 1
        return count

    x = x_ptr.numpy().reshape(-1, 2)
    y = np.tile(y_ptr.numpy(), programs).reshape(-1, 2)
    ordered = np.sort(x, axis=1)
    first = y[:, 0] + np.where(ordered[:, 0] < 0, 2 * y[:, 1], 0)
    second = np.stack([first, y[:, 0] * y[:, 1]], 1)
    counts = [steps(number) if number >= n else 0 for number in range(programs * n)]
    rows = (ordered, second, np.sign(x - y))
    yield {"out_ptr": [counts, *(row.reshape(-1) for row in rows)]}


@case("searched", calls.searched, (2,))
def searched():
    table = whole(50, low=-99, high=100).sort().values
    keys = whole(32, low=-120, high=120, seed=1)
    yield dict(table_ptr=table, key_ptr=keys, out_ptr=torch.zeros_like(keys), n=50, N=16)
    yield {"out_ptr": torch.searchsorted(table, keys)}


def call_cases() -> Iterator[Case]:
    yield from (kept_apart(), returns_in_loops(), greatest_common_divisors(), mapped(), searched())
    yield from map(longest, (torch.int32, torch.float16, torch.bfloat16))
