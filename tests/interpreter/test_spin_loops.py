"""Programs that wait for each other end where a GPU's would; a deadlock is told."""

import pickle
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import kernellab
from kernellab import triton_api
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import Deadlock, OutOfBounds, UnsupportedOperation
from kernellab.interpreter.execution import scheduler
from kernellab.interpreter.execution.program import make_program
from kernellab.records.launches import ORDERS
from tests.kernels.interp import memory, order, recent, waiting
from tests.support import versions
from tests.support.source_lines import marked_line, position_of

every_order = pytest.mark.parametrize("order", ORDERS)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32)


@every_order
@pytest.mark.parametrize("programs", [1, 2, 37])
def test_a_grid_barrier(programs, order) -> None:
    x, out = torch.arange(programs), torch.zeros(2 * programs, dtype=torch.int64)
    expected = x.numpy().copy()
    for _ in range(4):
        expected = np.roll(expected, 1) + np.roll(expected, -1)
    kernellab.run(waiting.grid_barrier, (programs,), zeros(2), x, out, PHASES=4, order=order)
    assert x.tolist() == expected.tolist()


@every_order
@pytest.mark.parametrize("plain", [False, True])
def test_waiting_for_a_later_program(plain, order) -> None:
    """By volatile loads, and by plain ones from an address that stays the same."""
    out = zeros(20)
    kernellab.run(waiting.flags, (20,), zeros(20), out, PLAIN=plain, order=order)
    assert out.tolist() == list(range(119, 99, -1))


@every_order
def test_a_ticket_lock(order) -> None:
    lock, log = zeros(3), zeros(12)
    kernellab.run(waiting.ticket_lock, (4,), lock, log, TURNS=3, order=order)
    assert lock.tolist() == [12, 12, 12]
    assert sorted(log.tolist()) == sorted([0, 1, 2, 3] * 3)
    if order == "sequential":
        assert log.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@every_order
def test_a_producer_and_a_consumer(order) -> None:
    out = zeros(10)
    kernellab.run(waiting.producer_consumer, (2,), zeros(1), zeros(1), out, ITEMS=10, order=order)
    assert out.tolist() == [item * item for item in range(10)]


@pytest.mark.sampled(9)
@every_order
@pytest.mark.parametrize("share", [1, 3, 4, 7, 12])
def test_stream_k(share, order) -> None:
    block, tiles, per_tile = 16, 3, 4
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(tiles * block, per_tile * block, generator=generator)
    b = torch.randn(per_tile * block, block, generator=generator)
    programs = -(-tiles * per_tile // share)
    c = torch.zeros(tiles * block, block)
    partial, lock = torch.zeros(programs + 1, block, block), zeros(programs + 1)
    arguments = a, b, c, partial, lock, tiles * per_tile
    sizes = {"K": per_tile * block, "PER_TILE": per_tile, "SHARE": share, "BLOCK": block}
    kernellab.run(waiting.stream_k, (programs,), *arguments, **sizes, order=order)
    torch.testing.assert_close(c, (a.double() @ b.double()).float())


@every_order
def test_a_scan_that_looks_back(order) -> None:
    x = torch.arange(1, 33 * 8 + 1, dtype=torch.int32)
    out = zeros(33 * 8)
    kernellab.run(waiting.look_back, (33,), x, out, zeros(33), zeros(66), N=8, order=order)
    assert out.tolist() == x.cumsum(0).tolist()


@every_order
def test_waiting_in_a_function_that_is_not_inlined(order) -> None:
    entered = zeros(9)
    kernellab.run(waiting.locked_out_of_line, (9,), zeros(1), entered, zeros(1), order=order)
    assert entered.tolist() == list(range(8, -1, -1))


def test_a_lock_at_an_address() -> None:
    locks, total = [zeros(1), zeros(1)], zeros(2)
    addresses = torch.tensor([lock.data_ptr() for lock in locks])
    kernellab.run(waiting.locked_by_address, (7,), addresses, total, RELEASES=True)
    assert total.tolist() == [4, 3]


@pytest.mark.slow
def test_a_program_that_counts_in_memory_as_it_waits() -> None:
    flag, tries = zeros(1), zeros(1)
    kernellab.run(waiting.counts_its_waiting, (10,), flag, tries)
    assert flag.tolist() == [1]
    assert scheduler.PATIENCE <= int(tries[0]) < 100 * scheduler.PATIENCE


def test_a_program_that_counts_its_tries_may_give_up() -> None:
    tries = zeros(3)
    kernellab.run(waiting.gives_up, (3,), zeros(1), tries, 5000)
    assert tries.tolist() == [5000] * 3


def coroutines_of(kernel: Any, *arguments: Any, **constants: Any) -> bool:
    call = bind(kernel, arguments, constants, DEFAULT_TARGET)
    return make_program(triton_api.JITFunction(kernel.fn), call, DEFAULT_TARGET).watched is not None


def test_only_kernels_that_wait_become_coroutines() -> None:
    assert coroutines_of(waiting.flags, zeros(1), zeros(1), PLAIN=True)
    assert coroutines_of(waiting.flags, zeros(1), zeros(1), PLAIN=False)
    assert coroutines_of(memory.locked, *(zeros(1) for _ in range(4)), N=8)
    assert not coroutines_of(waiting.follows_links, zeros(1), zeros(1))
    assert not coroutines_of(order.square, zeros(1), zeros(1), 1, BLOCK=16)
    links = torch.tensor([3, -1, 1, 2], dtype=torch.int32)
    out = zeros(4)
    kernellab.run(waiting.follows_links, (4,), links, out)
    assert out.tolist() == [4, 1, 2, 3]


@pytest.mark.slow
def test_programs_that_find_their_locks_free_run_one_after_the_other(monkeypatch) -> None:
    """However large the grid, one is alive at a time; waiting ones are joined by as many more."""
    rounds: list[int] = []
    started = ended = 0

    class Counted(scheduler.RunningProgram):
        def __init__(self, *arguments: Any) -> None:
            nonlocal started
            super().__init__(*arguments)
            started += 1
            rounds.append(started - ended)

        def turn(self, watched: Any) -> None:
            nonlocal ended
            super().turn(watched)
            ended += self.ended

    monkeypatch.setattr(scheduler, "RunningProgram", Counted)
    x, total = torch.ones(100 * 8), torch.zeros(8)
    kernellab.run(memory.locked, (100,), zeros(1), zeros(1), x, total, N=8)
    assert total.tolist() == [100.0] * 8
    assert max(rounds) == 1
    rounds.clear()
    started = ended = 0
    kernellab.run(waiting.counts_its_waiting, (10,), zeros(1), zeros(1))
    assert max(rounds) <= 4


@pytest.mark.skipif(not versions.HAS_ATOMIC_LOADS, reason="this Triton has no tl.atomic_poll")
def test_a_poll_that_nobody_answers() -> None:
    flags, out = torch.tensor([1, 0, 3, 1], dtype=torch.int32), zeros(4)
    with pytest.raises(Deadlock) as caught:
        kernellab.run(recent.never_set, (4,), flags, out)
    assert position_of(caught.value).line == marked_line(recent, "WAITS: never_set")
    assert "2 of 4 programs wait forever" in str(caught.value)
    assert "flag_ptr[2] is 3" in str(caught.value)
    assert out.tolist() == [1, 0, 0, 1]


@pytest.mark.skipif(not versions.HAS_ATOMIC_LOADS, reason="this Triton has no tl.atomic_poll")
def test_a_poll_with_a_timeout(raised) -> None:
    """Time is not the GPU's here, so nothing can be promised."""
    launch = recent.timed, (2,), zeros(1), zeros(1)
    caught = raised(UnsupportedOperation, kernellab.run, *launch, match="timeout_ns")
    assert position_of(caught).line == marked_line(recent, "UNSUPPORTED: timed")


def deadlock(kernel: Any, grid: tuple[int, ...], *arguments: Any) -> Deadlock:
    """Run a kernel that has to stop; its error must end on its marked line."""
    with pytest.raises(Deadlock) as caught:
        kernellab.run(kernel, grid, *arguments)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    line = marked_line(waiting, f"WAITS: {kernel.__name__}")
    assert (last.filename, last.lineno) == (waiting.__file__, line)
    assert position_of(caught.value).line == line
    return caught.value


def test_a_deadlock_as_words_and_as_data(messages) -> None:
    """Program 2 keeps the lock; those after it wait forever: who, where, and what each read."""
    x = zeros(1)
    error = deadlock(waiting.never_released, (5,), zeros(1), x)
    assert x.tolist() == [3]
    assert error == messages
    line = marked_line(waiting, "WAITS: never_released")
    source = "    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # WAITS: never_released"
    column = source.index("while") + 1
    assert f"at {waiting.__file__}:{line}:{column}" in str(error)
    assert f"{line:>5} | {source}\n{' ' * (7 + column)}^" in str(error)

    assert error.programs == ((3, 0, 0), (4, 0, 0))
    assert [one.program for one in error.waiting] == list(error.programs)
    assert {one.position for one in error.waiting} == {error.position}
    assert [one.reading for one in error.waiting] == ["lock_ptr[0] is 1"] * 2
    assert (error.grid, error.proven) == ((5, 1, 1), True)
    assert error.diagnostic.kind == "deadlock"
    assert error.diagnostic.facts["waiting"][1]["program"] == [4, 0, 0]
    assert error.__context__ is None  # Dask pickles it too.
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.waiting) == (str(error), error.waiting)


def test_two_locks_in_two_orders() -> None:
    """In a helper function: the position is the helper's, as the traceback's last line."""
    with pytest.raises(Deadlock) as caught:
        kernellab.run(waiting.two_locks, (4,), zeros(2), zeros(1))
    error = caught.value
    first, second = error.problem.splitlines()[1:]
    line = marked_line(waiting, "WAITS: in acquire")
    assert f"program (0, 0, 0) waits at {waiting.__file__}:{line}" in first
    assert first.endswith("lock_ptr[1] is 1")
    assert "program (1, 0, 0) waits" in second
    assert second.endswith("lock_ptr[0] is 1")
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__)[-2:]]
    assert lines == [marked_line(waiting, "WAITS: two_locks"), line]


def test_a_flag_that_nobody_sets_where_variables_go_in_circles() -> None:
    error = deadlock(waiting.goes_in_circles, (20,), zeros(1))
    lines = error.problem.splitlines()
    assert lines[0].startswith("deadlock: 20 of 20 programs wait forever; no program")
    assert lines[-1] == "  and 12 more"
    assert len(lines) == 10
    alone = deadlock(waiting.goes_in_circles, (1,), zeros(1))
    assert alone.problem.startswith("deadlock: the program waits forever")


@pytest.mark.parametrize(
    ("kernel", "reads"),
    [(waiting.counts_for_ever, "flag_ptr[1] is 0"), (waiting.gives_up, "flag_ptr[0] is 0")],
)
def test_programs_that_count_their_tries_are_stopped_in_the_end(
    kernel, reads, monkeypatch, messages
) -> None:
    """Those that only count go in circles; of others that they may give up, and are given time."""
    monkeypatch.setattr(scheduler, "SILENT_ROUNDS", 300)
    counts = kernel is waiting.counts_for_ever
    arguments = (zeros(2), zeros(1)) if counts else (zeros(1), zeros(2), 1000)
    error = deadlock(kernel, (2,), *arguments)
    assert error.problem == messages
    assert reads in error.problem.splitlines()[2]


def test_a_lock_at_an_address_that_is_not_released(messages) -> None:
    locks = [zeros(1), zeros(1)]
    addresses = torch.tensor([lock.data_ptr() for lock in locks])
    with pytest.raises(Deadlock) as caught:
        kernellab.run(waiting.locked_by_address, (3,), addresses, zeros(2), RELEASES=False)
    assert "1 of 3 programs waits" in caught.value.problem
    assert caught.value.problem == messages


def test_a_fault_names_the_program_that_was_taking_its_turn() -> None:
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(waiting.faults_while_waiting, (2,), zeros(3), 5)
    assert "flag_ptr[3]" in caught.value.problem
    assert "program (1, 0, 0) of grid (2, 1, 1)" in caught.value.problem
    assert position_of(caught.value).line == marked_line(waiting, "FAULT: faults_while_waiting")


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# SIGALRM is this test's own: its time limit is kept by a thread.
@pytest.mark.timeout(method="thread")
def test_waiting_can_be_interrupted(monkeypatch) -> None:
    monkeypatch.setattr(scheduler, "SILENT_ROUNDS", 10**9)
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.5):
        kernellab.run(waiting.gives_up, (2,), zeros(1), zeros(2), 2**31 - 1)
    tries = zeros(3)
    kernellab.run(waiting.gives_up, (3,), zeros(1), tries, 10)
    assert tries.tolist() == [10] * 3
