"""The order of the programs: what it is, that every program runs once in each,
and that a kernel which depends on it is found.
"""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

import kernellab
from kernellab.interpreter.execution import grid
from kernellab.interpreter.execution.grid import batches
from kernellab.records.launches import ORDERS
from tests.kernels.interp import order

GRID = (5, 3, 2)


def tickets(grid: tuple[int, ...], **options: Any) -> list[int]:
    """Which place each program of the grid had in the order, by linear id."""
    programs = int(np.prod(grid))
    count, ticket = np.zeros(1, np.int32), np.full(programs, -1, np.int32)
    kernellab.run(order.tickets, grid, count, ticket, **options)
    assert sorted(ticket) == list(range(programs))
    return ticket.tolist()


def test_programs_run_by_their_linear_id_unless_told_otherwise() -> None:
    assert tickets(GRID) == tickets(GRID, order="sequential") == list(range(30))
    assert tickets(GRID, order="reversed") == list(range(29, -1, -1))


def test_a_seed_chooses_the_order() -> None:
    first = tickets(GRID, order="shuffled")
    assert first == tickets(GRID, order="shuffled", seed=0) != list(range(30))
    assert len({tuple(tickets(GRID, order="shuffled", seed=seed)) for seed in range(8)}) == 8


@pytest.mark.parametrize("size", [1, 4, 7, 1000])
@pytest.mark.parametrize("order", ORDERS)
def test_every_program_is_in_one_batch(order: str, size: int) -> None:
    seen: list[tuple[int, int, int]] = []
    for programs in batches(GRID, size, order, seed=3):
        assert 1 <= programs.count <= size
        seen += [programs.id(position) for position in range(programs.count)]
    everyone = [(x, y, z) for z in range(2) for y in range(3) for x in range(5)]
    expected = {"sequential": everyone, "reversed": everyone[::-1], "shuffled": None}[order]
    assert sorted(seen) == sorted(everyone)
    assert expected is None or seen == expected


def test_shuffled_batches_have_all_sizes() -> None:
    sizes = {p.count for seed in range(20) for p in batches((30, 1, 1), 4, "shuffled", seed)}
    assert sizes == {1, 2, 3, 4}


def test_the_last_writer_is_the_last_of_the_order() -> None:
    out = np.zeros(8, np.int32)
    kernellab.run(order.last_writer, (6,), out, N=8)
    assert set(out) == {5}
    kernellab.run(order.last_writer, (6,), out, N=8, order="reversed")
    assert set(out) == {0}
    shuffled = [p for batch in batches((6, 1, 1), 6, "shuffled", 1) for p in batch.linear.tolist()]
    kernellab.run(order.last_writer, (6,), out, N=8, order="shuffled", seed=1)
    assert set(out) == {shuffled[-1]}


def test_a_million_programs() -> None:
    """In order and out of it."""
    n = 4 * 10**6 - 3
    x = torch.arange(n, dtype=torch.float32) % 1000
    for order_of_programs in ORDERS:
        out = torch.zeros(n)
        kernellab.run(order.square, (10**6,), x, out, n, BLOCK=4, order=order_of_programs)
        assert torch.equal(out, x * x)


def outcomes(kernel: Any, programs: int, make: Any, **constants: Any) -> set[bytes]:
    """What a kernel leaves in its last tensor, over several orders."""
    found = set()
    for seed in range(10):
        tensors = make()
        kernellab.run(kernel, (programs,), *tensors, **constants, order="shuffled", seed=seed)
        found.add(tensors[-1].numpy().tobytes())
    return found


def test_orders_find_a_race() -> None:
    """Though all its programs fit into one batch, where they would run in step."""
    racy = outcomes(order.takes_from_its_neighbor, 8, lambda: [torch.zeros(8)])
    assert len(racy) > 3


def test_a_kernel_without_races_is_the_same_in_every_order() -> None:
    x = torch.arange(1000.0)
    results = outcomes(order.square, 16, lambda: [x, torch.zeros(1000)], n=1000, BLOCK=64)
    assert results == {(x * x).numpy().tobytes()}


@pytest.mark.slow
@pytest.mark.parametrize("total", [11, 4097, 100_001])
def test_an_order_too_long_to_be_kept_is_computed_and_holds_each_program_once(
    monkeypatch: pytest.MonkeyPatch, total: int
) -> None:
    monkeypatch.setattr(grid, "_MOST_SHUFFLED", 10)
    ids = [
        number
        for programs in grid.batches((total, 1, 1), 64, "shuffled", seed=5)
        for number in programs.linear.tolist()
    ]
    assert sorted(ids) == list(range(total))
    assert ids != sorted(ids)
    again = [one.linear[0] for one in grid.batches((total, 1, 1), 64, "shuffled", seed=6)]
    assert again[:5] != ids[:5]


def test_a_shuffled_grid_of_a_thousand_million_programs_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        several = itertools.islice(grid.batches((10**9, 1, 1), 256, "shuffled"), 100)
        assert len({int(one.linear[0]) for one in several}) == 100
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
