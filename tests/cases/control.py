"""Cases of loops, branches, returns and helpers, against the same programs in Python."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from collections.abc import Iterator

import numpy as np
import torch

from tests.cases.case import Case, case, iota, whole
from tests.kernels.interp import control, names


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32)


@case(lambda grid: f"where_am_i-{'x'.join(map(str, grid))}", control.where_am_i, lambda grid: grid)
def where_am_i(grid):
    nx, ny, nz = (*grid, 1, 1)[:3]
    yield dict(out_ptr=zeros(nx * ny * nz))
    order = [(x, y, z) for z in range(nz) for y in range(ny) for x in range(nx)]
    yield {"out_ptr": [x + 100 * y + 10000 * z + 1000000 * nz for x, y, z in order]}


@case("collatz", control.collatz, (30,))
def collatz():
    def steps(value):
        return 0 if value == 1 else 1 + steps(value // 2 if value % 2 == 0 else 3 * value + 1)

    yield dict(out_ptr=zeros(30), N=1)
    yield {"out_ptr": [steps(program + 1) for program in range(30)]}


@case("triangular", control.triangular, (6,))
def triangular():
    block, programs = 4, 6
    x_ptr = whole(12 * block, dtype=torch.float32)
    yield dict(x_ptr=x_ptr, out_ptr=torch.zeros(programs, block + 2), BLOCK=block)
    x = x_ptr.view(-1, block)
    rows = []
    for program in range(programs):
        total, a, b, last = torch.zeros(block), 0, 1, -1
        for i in range(program // 2, program * 2, 1 + program % 2):
            total = total + x[i]
            a, b = b, a + b
            last = i
        rows.append([*total.tolist(), a, last])
    yield {"out_ptr": np.array(rows)}


@case("nested-{}", control.nested, (6,))
def nested(n):
    block, programs = 4, 6
    x_ptr = whole(block)
    yield dict(
        n_ptr=torch.tensor([n], dtype=torch.int32),
        x_ptr=x_ptr,
        out_ptr=zeros(programs, block + 1),
        BLOCK=block,
    )
    x = x_ptr.numpy()
    rows = []
    for program in range(programs):
        total, count = np.zeros(block, int), 0
        for outer in range(3):
            if program > outer:
                if n > 2:
                    total += sum(inner * x for inner in range(n))
                for inner in range(program):
                    if inner % 2 == outer % 2:
                        count += 1
                        total += np.arange(block) < inner
                    elif inner == 3:
                        count += 100
            else:
                total -= 1
        rows.append([*total.tolist(), count])
    yield {"out_ptr": np.array(rows)}


@case("early_returns-{}", control.early_returns, (6,))
def early_returns(n):
    programs, width = 6, 8
    x = iota(width) + 1
    out = torch.zeros(programs, width)
    yield dict(x_ptr=x, out_ptr=out, n=n, N=width)
    for program in range(programs):
        if program > n:
            continue
        if program == 1:
            out[program] = x * 10
            continue
        even = program % 2 == 0
        if even and n > 1000:
            continue
        out[program] = x * 3 + (1 if even else 0)
    yield {"out_ptr": out}


@case("returning_helper", control.returning_helper, (7,))
def returning_helper():
    def helper(x, limit):
        return x - limit if x > limit else x * 2

    yield dict(out_ptr=zeros(7), limit=3)
    yield {"out_ptr": [helper(p, 3) + helper(3, p) for p in range(7)]}


@case("uniform_branches-{}-{}-{}", control.uniform_branches, (2,))
def uniform_branches(flag, n, first):
    x = whole(8, dtype=torch.float32)
    x[0] = first
    yield dict(x_ptr=x, out_ptr=torch.zeros(2, 8), flag=flag, n=n, BLOCK=8)
    x = x + (1 if flag else -1)
    if first > 0:
        x = x * 2
    x = x + sum(range(n))
    if n > 5 and first > 0:
        x = x + 1000
    yield {"out_ptr": x.expand(2, 8)}


@case("binary_search", control.binary_search, (20,))
def binary_search():
    x = whole(37, low=0, high=99).sort().values
    key = whole(20, low=-5, high=105, seed=1)
    yield dict(x_ptr=x, key_ptr=key, out_ptr=zeros(20), n=37)
    yield {"out_ptr": np.searchsorted(x.numpy(), key.numpy())}


@case("conditional_atomics", control.conditional_atomics, (7,))
def conditional_atomics():
    yield dict(count_ptr=zeros(9), out_ptr=zeros(7))
    count, out = [0] * 9, []
    for program in range(7):
        for i in range(program):
            if i % 3 == 0:
                count[i] += 1
        out.append(count[8] if program > 1 else -1)
        if program > 1:
            count[8] += program
    yield {"count_ptr": count, "out_ptr": out}


@case("unrolled", control.unrolled, options={"debug": True})
def unrolled():
    yield dict(x_ptr=iota(4) + 2, out_ptr=torch.zeros(1), n=3, N=4)
    yield {"out_ptr": [2.0 + 4 * 3 + 5 * 4 - 3]}


@case("tuples", control.tuples)
def tuples():
    yield dict(pointers=(iota(8), iota(8) + 10), sizes=(5, 8, 3), out_ptr=torch.zeros(8), BLOCK=8)
    i = np.arange(8)
    yield {"out_ptr": (np.where(i < 5, i, 0) + i + 10) * 3}


@case("named-range", names.range, (3,))
def named_range():
    x = iota(8)
    yield {"x_ptr": x, "range": 0.5, "out_ptr": torch.zeros(3, 8), "N": 8}
    yield {"out_ptr": torch.stack([x + 0.5 * p for p in range(3)])}


@case("named-offsets", names.offsets, (2,))
def named_offsets():
    yield dict(x_ptr=iota(16), out_ptr=torch.zeros(2, 8), N=8)
    yield {"out_ptr": np.tile(np.arange(8) * 4.0, (2, 1))}


@case("loop_results-{}", control.loop_results)
def loop_results(n):
    x = whole(8, dtype=torch.float32)
    yield dict(x_ptr=x, out_ptr=torch.zeros(3, 8), n=n, BLOCK=8)
    a, b, c = x, x + 1, x * 0
    for _i in range(n):
        c = a
        a, b = b, a
    for i in range(n):
        for _j in range(i):
            a = a + b
        b = c + i
    yield {"out_ptr": torch.stack([a, b, c])}


@case("chosen_bounds", control.chosen_bounds, (6,))
def chosen_bounds():
    yield dict(n_ptr=torch.tensor([4], dtype=torch.int32), out_ptr=zeros(6), limit=3)
    counts = []
    for program in range(6):
        n = 2 if program <= 1 else 4
        count = n * (n + 1) // 2
        if program >= 3:  # its steps meet the limit
            count = -(count + 100)
        count += 10000 if program > 0 else 0
        count += 1000000 * len(range(program, 6)) + 100000000 * len(range(0, 6, program + 1))
        counts.append(count)
    yield {"out_ptr": counts}


def control_cases() -> Iterator[Case]:
    yield from map(where_am_i, ((5,), (2, 3), (3, 1, 2)))
    yield from (collatz(), triangular(), nested(0), nested(4), returning_helper())
    yield from map(early_returns, (3, 0, 2000))
    yield from (
        uniform_branches(*given) for given in ((True, 0, 2.0), (False, 7, 2.0), (True, 6, -1.0))
    )
    yield from (chosen_bounds(), binary_search(), conditional_atomics(), unrolled(), tuples())
    yield from (named_range(), named_offsets())
    yield from map(loop_results, (0, 3))
