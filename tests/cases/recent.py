"""Cases of operations that only the latest version of Triton has."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from collections.abc import Iterator

import torch

from tests.cases.case import Case, case, normal, whole
from tests.kernels.interp import recent
from tests.support import versions


@case("handed_over", recent.handed_over, (3,))
def handed_over():
    programs, n, size = 3, 5, 8
    x = whole(size)
    out = torch.full((programs, 2, size), 99, dtype=torch.int32)
    yield dict(x_ptr=x, out_ptr=out, n=n, N=size)
    for p in range(programs):
        out[p, 0, : n - p] = 2 * x[: n - p]
        out[p, 1] = x[p] + torch.arange(size)
    yield {"out_ptr": out}


@case("divided", recent.divided)
def divided():
    """Where a GPU may be off by two units in the last place."""
    x = normal(64)
    y = normal(64, seed=1)
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(64), N=64)
    yield {"out_ptr": x.double() / y.double()}


@case("polled", recent.polled, (9,))
def polled():
    programs = 9
    flags, out = (torch.zeros(programs, dtype=torch.int32) for _ in range(2))
    yield dict(flag_ptr=flags, out_ptr=out)
    yield {"flag_ptr": [1] * programs, "out_ptr": range(100 + programs - 1, 99, -1)}


@case("all_polled", recent.all_polled, (5,))
def all_polled():
    size = 4
    flags, out = (torch.zeros(size, dtype=torch.int32) for _ in range(2))
    yield dict(flag_ptr=flags, out_ptr=out, N=size)
    yield {"flag_ptr": [0] * size, "out_ptr": [1] * size}


@case("spinning", recent.spinning, (3,))
def spinning():
    flag, out = (torch.zeros(1, dtype=torch.int32) for _ in range(2))
    yield dict(flag_ptr=flag, out_ptr=out)
    yield {"flag_ptr": [1], "out_ptr": [7]}


def recent_cases() -> Iterator[Case]:
    if versions.HAS_ATOMIC_LOADS:
        yield from (handed_over(), divided(), polled(), all_polled(), spinning())
