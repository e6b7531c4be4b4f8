"""The interpreter's options, the order of programs, and grids of hundreds of millions."""

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

import kernellab
from kernellab.checker.detector import ProgramSet
from kernellab.errors import ArgumentError, GridError, OptionError
from kernellab.interpreter.execution.grid import batches
from kernellab.launch import preparation
from kernellab.launch.tile_kernel import TileKernel
from kernellab.records.launches import DEFAULT, ORDERS, RunOptions, split_keywords
from tests.kernels.interp import order
from tests.kernels.interp.order import seeded, write_program
from tests.kernels.tuned import double
from tests.support.python_processes import run_python


def test_what_is_not_given_is_the_default() -> None:
    assert RunOptions() == RunOptions(stage="ttir", order="sequential", seed=0, bounds="storage")
    assert RunOptions().changed() == {}
    assert RunOptions(order="shuffled", seed=3).changed() == {"order": "shuffled", "seed": 3}
    assert RunOptions(stage="ttgir.coalesce").stage == "ttgir.coalesce"


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"stage": "llir"}, ""), ({"stage": "tgir"}, "'ttgir'"), ({"stage": None}, ""),
        ({"order": "shufled"}, "'shuffled'"), ({"order": 1}, ""), ({"bounds": "views"}, "'view'"),
        ({"seed": -1}, ""), ({"seed": True}, ""), ({"seed": 1.0}, ""),
    ],
)  # fmt: skip
def test_wrong_values_are_refused(wrong, advice) -> None:
    with pytest.raises(OptionError) as caught:
        kernellab.run(write_program, (4,), torch.zeros(4), **{"order": "shuffled", **wrong})
    ((name, value),) = wrong.items()
    assert caught.value.problem.startswith(f"{name} must be ")
    assert f"got {value!r}." in caught.value.problem
    assert advice in caught.value.advice


def test_a_seed_needs_something_to_choose(raised) -> None:
    caught = raised(OptionError, kernellab.run, write_program, (4,), torch.zeros(4), seed=3)
    assert 'order="shuffled"' in caught.advice


def test_keywords_that_say_no_option_stay_as_they_are() -> None:
    keywords = {"n": 3, "num_warps": 4}
    rest, outright, options = split_keywords(keywords, ("x_ptr", "n"))
    assert rest is keywords
    assert outright == {}
    assert options is DEFAULT


def test_a_parameter_goes_before_an_option_of_its_name() -> None:
    out = torch.zeros(4, dtype=torch.int32)
    run = kernellab.run(seeded, (4,), out, seed=7)
    assert out.tolist() == [7, 8, 9, 10]
    assert run.launch.options == {}
    options = {"order": "sequential", "num_warps": 8}
    run = kernellab.run(seeded, (4,), out, seed=9, options=options)
    assert out.tolist() == [9, 10, 11, 12]
    assert run.launch.options == {"num_warps": 8}
    assert options == {"order": "sequential", "num_warps": 8}


def test_options_are_said_once_and_as_a_mapping(raised) -> None:
    launch = write_program, (4,), torch.zeros(4)
    twice: Any = {"order": "reversed", "options": {"order": "reversed"}}
    raised(OptionError, kernellab.run, *launch, **twice, match="order")
    error = raised(OptionError, kernellab.run, *launch, options="reversed")
    assert "options={" in error.advice
    raised(OptionError, kernellab.run, *launch, options={"num_warp": 8}, match="num_warp")
    with pytest.raises(ArgumentError, match="out_ptr"):
        kernellab.run(write_program, (4,), order="sequential")


def test_the_launch_line_takes_them_too() -> None:
    out = np.zeros(4, np.int32)
    run = TileKernel(write_program.fn)[(4,)](out, order="sequential", num_warps=2)
    assert out.tolist() == [0, 1, 2, 3]
    assert run.launch.options == {"num_warps": 2}


def test_a_launch_on_a_gpu_refuses_them(monkeypatch, raised) -> None:
    kernel = TileKernel(write_program.fn)
    monkeypatch.setattr(preparation, "_goes_to_gpu", lambda *_: True)
    raised(OptionError, kernel[(4,)], torch.zeros(4), match="GPU", order="reversed")


# The order of the programs: every program runs once, and a kernel that depends on it is found


GRID = (5, 3, 2)


def tickets(grid: tuple[int, ...], **options: Any) -> list[int]:
    """Which place each program of the grid had in the order, by linear id."""
    programs = int(np.prod(grid))
    count, ticket = np.zeros(1, np.int32), np.full(programs, -1, np.int32)
    kernellab.run(order.tickets, grid, count, ticket, **options)
    assert sorted(ticket) == list(range(programs))
    return ticket.tolist()


def test_orders_and_seeds() -> None:
    """Programs run by their linear id unless another order is given."""
    assert tickets(GRID) == tickets(GRID, order="sequential") == list(range(30))
    assert tickets(GRID, order="reversed") == list(range(29, -1, -1))
    first = tickets(GRID, order="shuffled")
    assert first == tickets(GRID, order="shuffled", seed=0) != list(range(30))
    assert len({tuple(tickets(GRID, order="shuffled", seed=seed)) for seed in range(8)}) == 8


@pytest.mark.parametrize("size", [1, 4, 7, 1000])
@pytest.mark.parametrize("name", ORDERS)
def test_every_program_is_in_one_batch(name, size) -> None:
    seen: list[tuple[int, int, int]] = []
    for programs in batches(GRID, size, name, seed=3):
        assert 1 <= programs.count <= size
        seen += [programs.id(position) for position in range(programs.count)]
    everyone = [(x, y, z) for z in range(2) for y in range(3) for x in range(5)]
    expected = {"sequential": everyone, "reversed": everyone[::-1], "shuffled": None}[name]
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
    monkeypatch, total
) -> None:
    monkeypatch.setattr("kernellab.interpreter.execution.grid._MOST_SHUFFLED", 10)
    found = batches((total, 1, 1), 64, "shuffled", seed=5)
    ids = [number for programs in found for number in programs.linear.tolist()]
    assert sorted(ids) == list(range(total))
    assert ids != sorted(ids)
    again = [one.linear[0] for one in batches((total, 1, 1), 64, "shuffled", seed=6)]
    assert again[:5] != ids[:5]


def test_a_shuffled_grid_of_a_thousand_million_programs_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        several = itertools.islice(batches((10**9, 1, 1), 256, "shuffled"), 100)
        assert len({int(one.linear[0]) for one in several}) == 100
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


LARGE = """
import os, resource, signal, sys, threading, time
import torch
import kernellab
from tests.kernels.huge_grids import {kernel} as kernel

x = torch.ones(64)
call = lambda grid: kernellab.{function}(kernel, (grid,), x, {keywords})
call(2)  # imports, and the compilation
signal.signal(signal.SIGINT, signal.default_int_handler)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def interrupt():
    time.sleep(3)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt, daemon=True).start()
try:
    call(2 * 10**8)
except KeyboardInterrupt as stopped:
    print(*stopped.__notes__)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print("grown by", grown // 1024)
"""


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("function", "kernel", "keywords"),
    [
        ("run", "touches_one", 'order="shuffled"'), ("check", "touches_one", ""),
        ("check", "leaves", ""), ("accesses", "touches_one", ""), ("trace", "touches_one", ""),
    ],
)  # fmt: skip
def test_hundreds_of_millions_of_programs_take_bounded_memory_and_can_be_stopped(
    function, kernel, keywords
) -> None:
    code = LARGE.format(function=function, kernel=kernel, keywords=keywords)
    done = run_python(code, env={"CUDA_VISIBLE_DEVICES": ""})  # because CUDA takes memory too
    # A trace and a run of all these programs may be done in three seconds.
    assert "was interrupted" in done.stdout or function in ("trace", "run"), done.stderr
    grown = int(done.stdout.rsplit(maxsplit=1)[1])
    assert grown < 800, done.stdout  # an int64 for each program would be 1,600


@pytest.mark.parametrize("function", ["run", "check", "trace", "accesses", "bisect"])
def test_more_programs_than_anybody_waits_for_are_refused(function, raised) -> None:
    x, z = torch.ones(64), torch.zeros(64)
    for grid in ((10**9,), (65536, 4096, 2)):
        launch = double, grid, x, z, 64
        raised(GridError, getattr(kernellab, function), *launch, BLOCK=64, match="BLOCK")
    assert not z.any()


def test_more_programs_than_can_be_stepped_through_are_refused(raised) -> None:
    launch = double, (10**9,), torch.ones(64), torch.zeros(64), 64
    for function, given in (
        (kernellab.trace, {"programs": "all"}),
        (kernellab.debug, {"program": "all"}),
        (kernellab.trace, {"programs": range(999_999)}),
    ):
        raised(OptionError, function, *launch, BLOCK=64, **given, match="program")


def test_a_set_of_programs_is_exact_and_small() -> None:
    kept = ProgramSet()
    expected: set[int] = set()
    for batch in ([5, 3, 5], range(60_000, 70_000, 3), range(70_000), [10**12]):
        kept.update(batch)
        expected.update(batch)
        assert len(kept) == len(expected)
        assert kept.first(8) == sorted(expected)[:8]
    joined = ProgramSet()
    joined.update(kept)
    assert joined.first(10**6) == sorted(expected)
