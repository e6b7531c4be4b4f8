"""Cases of operations that only the latest version of Triton has."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.cases.case import Case, normal, whole
from tests.kernels.interp import recent
from tests.support import versions


def handed_over() -> Case:
    programs, n, size = 3, 5, 8

    def make() -> dict[str, Any]:
        return dict(
            x_ptr=whole(size),
            out_ptr=torch.full((programs, 2, size), 99, dtype=torch.int32),
            n=n,
            N=size,
        )

    def reference(x_ptr: Any, out_ptr: Any, **_: Any) -> dict[str, Any]:
        for p in range(programs):
            out_ptr[p, 0, : n - p] = 2 * x_ptr[: n - p]
            out_ptr[p, 1] = x_ptr[p] + torch.arange(size)
        return {"out_ptr": out_ptr}

    return Case("handed_over", recent.handed_over, (programs,), make, reference)


def divided() -> Case:
    """Where a GPU may be off by two units in the last place."""

    def make() -> dict[str, Any]:
        return dict(x_ptr=normal(64), y_ptr=normal(64, seed=1), out_ptr=torch.zeros(64), N=64)

    def reference(x_ptr: Any, y_ptr: Any, **_: Any) -> dict[str, Any]:
        return {"out_ptr": x_ptr.double() / y_ptr.double()}

    return Case("divided", recent.divided, (1,), make, reference)


def polled() -> Case:
    programs = 9

    def make() -> dict[str, Any]:
        flags, out = (torch.zeros(programs, dtype=torch.int32) for _ in range(2))
        return dict(flag_ptr=flags, out_ptr=out)

    def reference(**_: Any) -> dict[str, Any]:
        return {"flag_ptr": [1] * programs, "out_ptr": range(100 + programs - 1, 99, -1)}

    return Case("polled", recent.polled, (programs,), make, reference)


def all_polled() -> Case:
    size = 4

    def make() -> dict[str, Any]:
        flags, out = (torch.zeros(size, dtype=torch.int32) for _ in range(2))
        return dict(flag_ptr=flags, out_ptr=out, N=size)

    def reference(**_: Any) -> dict[str, Any]:
        return {"flag_ptr": [0] * size, "out_ptr": [1] * size}

    return Case("all_polled", recent.all_polled, (size + 1,), make, reference)


def spinning() -> Case:
    def make() -> dict[str, Any]:
        flag, out = (torch.zeros(1, dtype=torch.int32) for _ in range(2))
        return dict(flag_ptr=flag, out_ptr=out)

    def reference(**_: Any) -> dict[str, Any]:
        return {"flag_ptr": [1], "out_ptr": [7]}

    return Case("spinning", recent.spinning, (3,), make, reference)


def recent_cases() -> Iterator[Case]:
    if versions.HAS_ATOMIC_LOADS:
        yield from (handed_over(), divided(), polled(), all_polled(), spinning())
