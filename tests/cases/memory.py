"""Cases of loads, stores and atomics."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tests.cases.arithmetic import wrap
from tests.cases.case import Case, as_numpy, case, iota, normal, whole
from tests.kernels.interp import memory
from tests.support import versions


@case("copy_1d-{}", memory.copy_1d, (3,))
def copy_1d(dtype):
    """Every second element of x to every third of out; the last block is cut."""
    x = torch.from_numpy(np.arange(100) % 7).to(dtype)
    out_ptr = torch.zeros(150, dtype=dtype)
    yield dict(x_ptr=x, out_ptr=out_ptr, n=45, x_start=3, x_stride=2, out_stride=3, BLOCK=16)
    out, x = as_numpy(out_ptr), as_numpy(x)
    out[: 45 * 3 : 3] = x[3 : 3 + 90 : 2]
    yield {"out_ptr": out}


@case("copy_2d-{}", memory.copy_2d, (4, 3))
def copy_2d(layout):
    """Blocks that hang over three edges, from and into matrices of several layouts."""
    m, n, lower_m, lower_n = 13, 18, 2, 3
    x = {
        "plain": normal(m, n),
        "transposed": normal(n, m).T,
        "sliced": normal(2 * m + 1, 3 * n)[1::2, ::3],
        "broadcast": normal(1, n).expand(m, n),
    }[layout]
    out = torch.zeros(16, 24) if layout != "transposed" else torch.zeros(24, 16).T
    strides = dict(
        x_row=x.stride(0), x_column=x.stride(1), out_row=out.stride(0), out_column=out.stride(1)
    )
    yield dict(
        x_ptr=x, out_ptr=out, m=m, n=n, **strides, fill=-1.5, BLOCK_M=4, BLOCK_N=8,
        LOWER_M=lower_m, LOWER_N=lower_n,
    )  # fmt: skip
    out = torch.full_like(out, -1.5)
    out[lower_m:m, lower_n:n] = x[lower_m:m, lower_n:n]
    yield {"out_ptr": out}


@case("sum_rows", memory.sum_rows, (9,), rtol=1e-14)
def sum_rows():
    x = normal(37, 9).T
    out = torch.zeros(9, dtype=torch.float64)
    yield dict(x_ptr=x, out_ptr=out, m=9, n=37, row_stride=1, column_stride=9, BLOCK=16)
    yield {"out_ptr": x.double().sum(1)}


@case("masks", memory.masks, (4,))
def masks():
    programs, block, n = 4, 8, 5
    flags = torch.from_numpy(np.random.default_rng(1).integers(0, 2, (programs, block)) == 1)
    x_ptr = iota(8) + 10
    out_ptr = torch.full((programs, 10, block), 99.0)
    yield dict(x_ptr=x_ptr, flag_ptr=flags, out_ptr=out_ptr, n=n, BLOCK=block)
    x, flags, out = x_ptr.numpy(), flags.numpy(), out_ptr.numpy()
    i = np.arange(block)
    for p in range(programs):
        out[p, 0] = np.where(i < n, x, -1)
        out[p, 1] = np.where((i < 2) | (i > 5), x, -2)
        out[p, 2] = np.where(i % 2 == 0, x, -3)
        out[p, 3] = np.where(flags[p], x, -4)
        out[p, 4] = np.where(i < p * 2, x, -p)
        out[p, 5] = -i
        out[p, 6][flags[p]] = x[flags[p]]
        out[p, 7, p + 1 : n + 1] = i[p + 1 : n + 1]
        out[p, 8, :3] = x[2] if p > 1 else 9
        if p % 2 == 1:
            out[p, 9, 0] = x[p]
    out[:, 5, 0] = -0.0 if versions.NEGATES_ZEROS else 0.0
    out[0, 4][out[0, 4] == 0] = -0.0
    yield {"out_ptr": out}


@case("broadcast_stores", memory.broadcast_stores, (3,))
def broadcast_stores():
    programs, m, n = 3, 4, 8
    out_ptr = torch.zeros(programs + 4, m, n)
    yield dict(out_ptr=out_ptr, value=7.5, M=m, N=n)
    out = out_ptr.numpy()
    rows, columns = np.arange(m)[:, None], np.arange(n)[None, :]
    for p in range(programs):
        out[p] = 7.5 + p
        out[programs] = rows + p
        tail = out[programs + 3].reshape(-1)
        tail[p : p + min(n, p + 2)] = p
    out[programs + 1] = columns
    out[programs + 2, 0] = (m - 1) * 10 + np.arange(n)
    yield {"out_ptr": out}


@case("scattered", memory.scattered)
def scattered():
    n = 16
    index = torch.from_numpy(np.random.default_rng(2).permutation(n).astype(np.int32))
    x = normal(n)
    out = torch.zeros(5, n)
    yield dict(x_ptr=x, index_ptr=index, out_ptr=out, N=n)
    index = index.long()
    out[0, index] = x
    out[1] = x[index]
    out[2] = out[3] = x.flip(0)
    out[4] = x[torch.arange(n) ** 2 % n]
    yield {"out_ptr": out}


@case("block_pointers", memory.block_pointers, (3,))
def block_pointers():
    x = normal(10, 11)[:, 1:]
    yield dict(
        x_ptr=x, out_ptr=torch.zeros(10, 10), m=10, n=10, row_stride=11, BLOCK_M=4, BLOCK_N=8
    )
    yield {"out_ptr": x * 2}


@case("descriptors", memory.descriptors, (3,))
def descriptors():
    x = normal(10, 12)
    yield dict(x_ptr=x, out_ptr=torch.zeros(10, 12), m=10, n=12, BLOCK_M=4, BLOCK_N=8)
    yield {"out_ptr": x + 1}


# Atomics: Python's loop over programs and lanes is the reference.

UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "max": max, "min": min, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "xchg": lambda _, b: b,
}  # fmt: skip


def updated(how: str, dtype: torch.dtype, collisions: bool = True) -> Case:
    programs, n = 3, 16

    def make() -> dict[str, Any]:
        index = whole(n, low=0, high=5) if collisions else torch.arange(n).flip(0).int()
        x = torch.arange(n).sub(2).to(dtype)
        return dict(
            x_ptr=x, index_ptr=index, found_ptr=torch.zeros(programs, n, dtype=dtype), HOW=how, N=n
        )

    def reference(x_ptr: Any, index_ptr: Any, found_ptr: Any, **_: Any) -> dict[str, Any]:
        x, found = x_ptr.tolist(), found_ptr.tolist()

        def fits(number: Any) -> Any:
            return number if dtype.is_floating_point else wrap(number, dtype)

        for p in range(programs):
            for lane in range(n):
                if lane == p:
                    continue
                at = int(index_ptr[lane])
                found[p][lane] = x[at]
                value = fits((lane * 7 + p * 3) % 11 - 4)
                x[at] = fits(UPDATES[how](x[at], value))
        kind = as_numpy(x_ptr).dtype
        return {"x_ptr": np.array(x, dtype=kind), "found_ptr": np.array(found, dtype=kind)}

    where = "colliding" if collisions else "apart"
    name = f"updated-{how}-{str(dtype).removeprefix('torch.')}-{where}"
    # Triton makes two atomics on integers of max and min on floats:
    # which lane finds what depends on their order.
    two_turns = dtype.is_floating_point and how in ("max", "min")
    left_open = frozenset({"found_ptr"}) if two_turns else frozenset()
    return Case(name, memory.updated, (programs,), make, reference, open=left_open)


@case("tallied-{}-{}-{}-{}", memory.tallied, (5,))
def tallied(how, dtype, sem, scope):
    programs, n = 5, 64
    values = whole(programs * n, seed=1) if how == "max" else normal(programs * n, seed=1) * 9
    x_ptr = torch.zeros(8, dtype=dtype)
    index = whole(programs * n, low=0, high=8)
    value = values.to(dtype)
    yield dict(x_ptr=x_ptr, index_ptr=index, value_ptr=value, HOW=how, SEM=sem, SCOPE=scope, N=n)
    x, values = as_numpy(x_ptr), as_numpy(value)
    for lane, at in enumerate(index.tolist()):
        if how == "add" and lane % 7 != 3:
            x[at] += values[lane]
        elif how != "add":
            x[at] = max(x[at], values[lane]) if how == "max" else values[lane]
    yield {"x_ptr": x}


@case("counters", memory.counters, (9,))
def counters():
    count, order = torch.zeros(1, dtype=torch.int32), torch.zeros(9, dtype=torch.int32)
    yield dict(count_ptr=count, order_ptr=order, total_ptr=torch.zeros(3), n=4)
    yield {"count_ptr": [9], "order_ptr": np.arange(9), "total_ptr": [1 + 3 + 5 + 7, 7, -8]}


@case("swapped", memory.swapped, (3,))
def swapped():
    programs, n = 3, 8
    x = torch.tensor([0, 0, 1, 0, 1], dtype=torch.int32)
    found_ptr = torch.zeros(programs * (n + 1), dtype=torch.int32)
    yield dict(x_ptr=x, found_ptr=found_ptr, N=n)
    x, found = x.tolist(), found_ptr.tolist()
    for p in range(programs):
        found[p] = x[0]
        x[0] = p + 1 if x[0] == p else x[0]
        for lane in range(n):
            at = 1 + lane // 2
            found[programs + p * n + lane] = x[at]
            if x[at] == lane % 2:
                x[at] = p * n + lane + 2
    yield {"x_ptr": x, "found_ptr": found}


@case("locked", memory.locked, (6,))
def locked():
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    x = whole(6, 8, dtype=torch.float32)
    yield dict(lock_ptr=lock, count_ptr=count, x_ptr=x, total_ptr=torch.full((8,), 99.0), N=8)
    yield {"lock_ptr": [0], "count_ptr": [1], "total_ptr": x.sum(0)}


@case("last_one_sums", memory.last_one_sums, (8,))
def last_one_sums():
    ticket = torch.zeros(1, dtype=torch.int32)
    x = whole(8, 16, dtype=torch.float32)
    yield dict(
        x_ptr=x, partial_ptr=torch.zeros(8), ticket_ptr=ticket, out_ptr=torch.zeros(1), N=16,
        PROGRAMS=8,
    )  # fmt: skip
    yield {"partial_ptr": x.sum(1), "ticket_ptr": [8], "out_ptr": [float(x.sum())]}


@case("reloaded", memory.reloaded)
def reloaded():
    yield dict(
        x_ptr=torch.tensor([3], dtype=torch.int32), out_ptr=torch.zeros(5, dtype=torch.int32), n=5
    )
    value, steps = 3, []
    for _turn in range(5):
        steps.append(value + 1)
        value = 2 * value + 1
    yield {"x_ptr": [value], "out_ptr": steps}


@case("walking_pointers", memory.walking_pointers, (2,))
def walking_pointers():
    x = whole(48, dtype=torch.float32)
    yield dict(x_ptr=x, out_ptr=torch.zeros(8), n=6, BLOCK=8)
    blocks = x.view(6, 8)
    rows = [blocks[s] if s % 2 == 0 else blocks[5 - s] for s in range(6)]
    yield {"out_ptr": sum(row * (s + 1) for s, row in enumerate(rows))}


@case("bits_of", memory.bits_of)
def bits_of():
    x = normal(16)
    yield dict(x_ptr=x, out_ptr=torch.zeros(16, dtype=torch.int32), N=16)
    yield {"out_ptr": x.view(torch.int32) & 0x7F800000}


def memory_cases() -> Iterator[Case]:
    for dtype in (
        torch.bool, torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32,
        torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
        torch.float8_e4m3fn, torch.float8_e5m2,
    ):  # fmt: skip
        yield copy_1d(dtype)
    yield from map(copy_2d, ("plain", "transposed", "sliced", "broadcast"))
    yield from (
        sum_rows(), masks(), broadcast_stores(), scattered(), descriptors(),
    )  # fmt: skip
    if versions.HAS_BLOCK_POINTERS:
        yield block_pointers()
    for how in UPDATES:
        yield updated(how, torch.int32)
        yield updated(how, torch.int64, collisions=False)
    yield updated("max", torch.uint32)
    yield updated("min", torch.uint32, collisions=False)
    yield updated("min", torch.uint64)
    for dtype in (torch.float32, torch.float64, torch.float16):
        yield updated("add", dtype)
    yield updated("add", torch.bfloat16)
    yield updated("add", torch.int64)
    yield updated("xchg", torch.float64)
    yield updated("max", torch.uint64)
    yield updated("max", torch.float64)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        yield tallied("add", dtype, "relaxed", "gpu")
    for dtype in (torch.int32, torch.int64, torch.uint32, torch.uint64):
        yield tallied("add", dtype, "acq_rel", "sys")
    yield tallied("max", torch.float32, "release", "cta")
    yield tallied("max", torch.int64, "acquire", "cta")
    yield tallied("xchg", torch.float32, "acq_rel", "gpu")
    yield updated("max", torch.float32)
    yield updated("min", torch.float32)
    yield updated("xchg", torch.float32, collisions=False)
    yield from (
        counters(), swapped(), locked(), last_one_sums(), reloaded(), walking_pointers(),
        bits_of(),
    )  # fmt: skip
