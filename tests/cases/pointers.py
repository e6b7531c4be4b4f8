"""Cases of pointers that may point into several arguments, lie in memory, or are numbers."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from collections.abc import Iterator

import torch

from tests.cases.case import Case, case, whole
from tests.kernels.interp import pointers
from tests.support import versions


def integers(*shape: int, seed: int = 0) -> torch.Tensor:
    return whole(*shape, low=-99, high=100, seed=seed)


@case("chosen-{}", pointers.chosen, (4,))
def chosen(flag):
    programs, n = 4, 8
    out = torch.zeros(programs, 7, n, dtype=torch.int32)
    x_ptr = integers(9)
    y_ptr = integers(20, seed=1)
    yield dict(x_ptr=x_ptr, y_ptr=y_ptr, out_ptr=out, flag=flag, N=n)
    x, y, lanes = x_ptr[:n], y_ptr, torch.arange(n, dtype=torch.int32)
    for p, rows in enumerate(out):
        by_lane = torch.where(lanes < p, x, y[: 2 * n : 2])
        rows[0] = y[1 : n + 1] if p % 2 else x
        rows[1] = torch.where(lanes > p, x if flag else y[:n], -1)
        rows[2] = by_lane
        rows[3] = torch.where(lanes % 3 == 0, by_lane, lanes)
        rows[4] = x - y[:n]
        rows[5], rows[6] = x, y[:n]
    yield {"out_ptr": out}


@case("ping_pong-{}", pointers.ping_pong, (4,))
def ping_pong(turns):
    x = integers(4, 8)
    y = integers(4, 8, seed=1)
    yield dict(x_ptr=x, y_ptr=y, n=turns, BLOCK=8)
    for row in range(4):
        source, target = x[row], y[row]
        for turn in range(turns + row):
            target[:] = source + 1 if turn < turns else source * 2
            source, target = target, source
    yield {"x_ptr": x, "y_ptr": y}


@case("returned", pointers.returned, (16,))
def returned():
    x = integers(16)
    y = integers(16, seed=1)
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(16, dtype=torch.int32))
    out = torch.maximum(x, y)
    first = x > y
    yield {"x_ptr": torch.where(first, 0, x), "y_ptr": torch.where(first, y, 0), "out_ptr": out}


@case("kept", pointers.kept, open=frozenset({"table_ptr"}))
def kept():
    n = 8
    x, y = integers(n).float(), integers(n, seed=1).float()
    table, out = torch.zeros(2, dtype=torch.int64), torch.zeros(n + 1)
    yield dict(x_ptr=x, y_ptr=y, table_ptr=table, out_ptr=out, N=n)
    yield {"out_ptr": torch.cat([x + y, torch.tensor([12.0])])}


@case("rounded_down", pointers.rounded_down)
def rounded_down():
    x = integers(8).float()
    yield dict(x_ptr=x, out_ptr=torch.zeros(1))
    yield {"out_ptr": x[2]}


@case("narrowed", pointers.narrowed)
def narrowed():
    n = 32
    x = integers(n).float()
    yield dict(x_ptr=x, out_ptr=torch.zeros(2 * n, dtype=torch.uint8), N=n)
    words = torch.arange(n // 4, dtype=torch.uint8).repeat_interleave(4)
    yield {"out_ptr": torch.cat([x.view(torch.uint8)[:n], words])}


@case("atomics", pointers.atomics, (3,))
def atomics():
    programs, n = 3, 16
    x, y = integers(8), integers(8, seed=1)
    x[4:] = y[4:] = 0
    found = torch.zeros(programs, 2, n, dtype=torch.int32)
    yield dict(x_ptr=x, y_ptr=y, found_ptr=found, N=n)
    memory = x.tolist(), y.tolist()
    for p in range(programs):
        for lane in range(n):
            if lane != p:
                found[p, 0, lane] = memory[lane % 2][lane // 4]
                memory[lane % 2][lane // 4] += lane + p
            flag = memory[lane % 2][4 + lane // 4]
            found[p, 1, lane] = flag
            memory[lane % 2][4 + lane // 4] = flag or p * n + lane + 1
    yield {"x_ptr": memory[0], "y_ptr": memory[1], "found_ptr": found}


def pointer_cases() -> Iterator[Case]:
    yield from (chosen(0), chosen(1))
    yield from map(ping_pong, (0, 1, 4))
    yield from (returned(), rounded_down(), narrowed(), atomics())
    if versions.STORES_POINTERS:
        yield kept()
