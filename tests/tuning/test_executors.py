"""Sweeps on a Dask cluster, and in processes that hang, crash and come back; what is sent there."""

import linecache
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pandas
import pytest
import torch
import triton
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab import triton_api
from kernellab.common.system import cache_folder
from kernellab.compiler.binding import bind
from kernellab.errors import ArgumentError
from kernellab.launch.tile_kernel import tile_kernels_in
from kernellab.records import Target
from kernellab.triton_api.kernel_contents import pack, unpack
from kernellab.tuning import assignments, tune
from kernellab.tuning import sweep as sweep_module
from kernellab.tuning.records import Outcome
from kernellab.tuning.sweep import LocalPool, SweepProgress
from kernellab.tuning.worker import machine_here, this_machine
from tests.kernels.tuned import double

SPACE = {"BLOCK": [32, 64, 128, 256], "num_warps": [1, 4]}


def swept(executor, n=1000, space=SPACE, **options):
    x, z = torch.arange(n, dtype=torch.float32), torch.zeros(n)
    return kernellab.tune(
        double, lambda meta: (triton.cdiv(n, meta["BLOCK"]),), x, z, n, space=space,
        reference={"z_ptr": 2 * x}, check=True, executor=executor, **options,
    )  # fmt: skip


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_in_the_middle_finishes_the_sweep(monkeypatch) -> None:
    distributed = pytest.importorskip("distributed")

    async def give_slot(dask_worker) -> None:  # here, since workers do not import this file
        await dask_worker.set_resources(GPU=1)

    cluster = distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        pids = client.run(os.getpid)
        *chosen, left_out = pids
        client.run(give_slot, workers=chosen)
        killing = KillsWhenThreeAreDone(pids[chosen[0]])
        with monkeypatch.context() as patch:
            patch.setattr(tune, "SweepProgress", lambda *_: killing)
            sweep = swept(client)
        assert pids[chosen[0]] not in client.run(os.getpid).values()  # it did die
        assert not [
            key for key in client.has_what()[left_out] if "_there" in key
        ]  # pinned by resources
    assert killing.heard == 8  # results stream back
    assert [one.outcome.checked for one in sweep.trials] == ["the reference"] * 8
    again = swept(IdleClient())
    # Stored times of a GPU are rounded to a tenth of a nanosecond.
    pandas.testing.assert_frame_equal(again.table, sweep.table, rtol=1e-3)


def test_a_worker_has_the_reference_on_whichever_gpu_it_gets(monkeypatch) -> None:
    given: list[assignments.Setup] = []

    class Child:
        def run(self, setup: assignments.Setup, *_: Any) -> Outcome:
            given.append(setup)
            return Outcome()

    asked: list[tuple[int, ...]] = []

    @contextmanager
    def next_gpu(*before: int) -> Iterator[int]:
        asked.append(before)
        yield len(asked)

    monkeypatch.setattr(sweep_module, "_children", {"gpu": Child()})
    monkeypatch.setattr(sweep_module, "_gpu_before", [])
    monkeypatch.setattr(sweep_module, "one_gpu_for_me", next_gpu)
    shipped = assignments.ship({"x": torch.ones(3)})
    whole = assignments.Delivery(shipped.digest, shipment=shipped)
    light = assignments.setup_without_bytes(assignments.Setup(b"", whole, whole, None, None))
    for _ in range(2):
        sweep_module.run_there(light, (whole, whole), b"", TRIAL_OPTIONS, 1, True)
    assert [setup.device for setup in given] == [1, 2]
    assert all(setup.reference and setup.reference.open() == shipped for setup in given)
    assert asked == [(), (1,)]  # the one that has the arguments comes first


class KillsWhenThreeAreDone(SweepProgress):
    """Ends a worker's process while most configs are still to be done."""

    def __init__(self, pid: int) -> None:
        super().__init__("k", 8, shown=False)
        self.heard = 0
        self._pid = pid

    def done(self, trial) -> None:
        self.heard += 1
        if self.heard == 3:
            os.kill(self._pid, signal.SIGKILL)


class Scattered(tuple[Any, ...]):
    status = "finished"


class IdleClient(ThreadPoolExecutor):
    """A Dask client of this process that does no work: all is known from the sweep before."""

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {}}

    def get_executor(self, **_: Any) -> "IdleClient":
        return self

    def scatter(self, sent: Any, **_: Any) -> list[Scattered]:
        return [Scattered(one) for one in sent]

    def submit(self, function, /, *args, **keywords):
        if function is sweep_module.start_there:
            return super().submit(bool)
        assert function is sweep_module.machine_there
        return super().submit(machine_here)


class BreakingClient(IdleClient):
    """Breaks with the first config, as a client does that was closed."""

    def submit(self, function, /, *args, **keywords):
        if function not in (sweep_module.machine_there, sweep_module.start_there):
            raise RuntimeError("cannot schedule new futures after shutdown")
        return super().submit(function)


def test_a_client_that_breaks_gives_the_table_with_what_was_lost() -> None:
    sweep = swept(BreakingClient(), space={"BLOCK": [64, 128]})
    assert set(sweep.table["dropped"]) == {"lost"}
    assert "cannot schedule new futures after shutdown" in sweep.table["why"][1]
    assert len(list(cache_folder("tuning").rglob("*.json"))) == 0  # to be tried again the next time


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError


ANSWERS: dict[str, BaseException | None] = {
    "cancelled": None, "it exits": SystemExit(3), "an end of no kind": BaseException(),
    "an error without words": Unreadable(), "an error of odd parts": ValueError(Unreadable()),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ANSWERS))
def test_calls_without_an_outcome_are_lost(name, messages) -> None:
    answer = ANSWERS[name]

    class Answering(IdleClient):
        def submit(self, function, /, *args, **keywords):
            if function in (sweep_module.machine_there, sweep_module.start_there):
                return super().submit(function)
            future: Future[Any] = Future()
            future.cancel() if answer is None else future.set_exception(answer)
            return future

    sweep = swept(Answering(), space={"BLOCK": [64]})
    assert list(sweep.table["dropped"]) == ["lost"]
    assert repr(sweep).endswith("1 dropped, not timed)")
    assert sweep.table["why"][0] == messages


class OtherMachine(IdleClient):
    """Its processes have another Triton than the one that answered for all."""

    def submit(self, function, /, *args, **keywords):
        if function is sweep_module.machine_there:
            there = replace(this_machine(None), triton="3.0.0")
            return ThreadPoolExecutor.submit(self, lambda: (there, None))
        if function is sweep_module.start_there:
            return super().submit(function)
        return ThreadPoolExecutor.submit(self, function, *args)


@pytest.mark.slow
def test_processes_with_another_triton_are_not_mixed_in() -> None:
    with OtherMachine(1) as pool:
        sweep = swept(pool, space={"BLOCK": [64]})
    assert list(sweep.table["dropped"]) == ["lost"]
    assert (
        f"has Triton {triton.__version__}, but the sweep needs Triton 3.0.0"
        in sweep.table["why"][0]
    )


def test_clusters_that_cannot_answer_are_told(monkeypatch, messages, raised) -> None:
    closed = IdleClient(1)
    closed.shutdown()
    raised(ArgumentError, swept, closed)
    monkeypatch.setattr(sweep_module, "SILENCE", 0.05)
    occupied = IdleClient(1)
    release = threading.Event()
    ThreadPoolExecutor.submit(occupied, release.wait)
    told = Releasing(release)
    monkeypatch.setattr(sys, "stderr", told)
    raised(ArgumentError, swept, occupied, space={"BLOCK": []})
    assert told.text == messages


class Releasing:
    """Takes what is written, and lets the executor answer then."""

    def __init__(self, event: threading.Event) -> None:
        self.text = ""
        self._event = event

    def write(self, text: str) -> None:
        self.text += text
        self._event.set()

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return False


SETUP = assignments.Setup(b"", assignments.Delivery("none"), None, None, None)
TRIAL_OPTIONS = assignments.TrialOptions(check=True, measure=True, method=None)


@pytest.fixture
def pool(monkeypatch):
    """One process, in which `tests.tuning.misbehaving` runs."""
    monkeypatch.setattr(sweep_module, "_HERE", "tests.tuning.misbehaving")
    made = LocalPool(1, [])
    yield made
    made.stop()


@pytest.mark.slow
def test_a_config_that_hangs_or_crashes_takes_its_process_along_and_nothing_else(
    pool, messages
) -> None:
    def compiled(task: bytes, seconds: float = 600):
        return pool.compile(b"", task, seconds).result()

    first = compiled(b"fine")
    assert compiled(b"fine") == first  # the same process
    hung = compiled(b"hang", seconds=0.5)
    assert hung.dropped.reason == "time-out"
    assert hung.dropped.why == messages
    second = compiled(b"fine")
    assert second.dropped is None
    assert second != first  # another process
    crashed = compiled(b"abort")
    assert crashed.dropped.reason == "crash"
    assert crashed.dropped.line == messages
    assert compiled(b"fine").dropped is None


@pytest.mark.slow
def test_a_config_whose_process_is_suspended_is_lost_and_not_too_slow(pool, messages) -> None:
    def compiled(task: bytes, seconds: float):
        return pool.compile(b"", task, seconds).result()

    compiled(b"fine", 600)
    (process,) = [one._worker.process_id for one in pool._compilers.workers]
    os.kill(process, signal.SIGSTOP)
    suspended = compiled(b"fine", 1.5)
    assert suspended.dropped.reason == "lost"
    assert "SIGSTOP" in suspended.dropped.why
    assert suspended.dropped.why == messages
    assert compiled(b"fine", 600).dropped is None


@pytest.mark.slow
def test_a_process_whose_gpu_met_an_error_is_replaced(pool) -> None:
    first = pool.run(SETUP, b"fine", TRIAL_OPTIONS, 600).result()
    spoilt = pool.run(SETUP, b"spoil", TRIAL_OPTIONS, 600).result()
    assert spoilt.dropped.reason == "crash"
    after = pool.run(SETUP, b"fine", TRIAL_OPTIONS, 600).result()
    assert after.dropped is None
    assert after != first


@pytest.mark.slow
def test_a_config_that_hangs_on_one_gpu_holds_up_none_of_the_others(monkeypatch) -> None:
    monkeypatch.setattr(sweep_module, "_HERE", "tests.tuning.misbehaving")
    both = LocalPool(1, [0, 1])
    try:
        assert both.runs_at_once == 2
        hanging = both.run(SETUP, b"hang", TRIAL_OPTIONS, 600)
        others = [both.run(SETUP, b"fine", TRIAL_OPTIONS, 600) for _ in range(4)]
        assert all(one.result().dropped is None for one in others)
        assert not hanging.done()
    finally:
        both.stop()


@pytest.mark.slow
def test_stopping_ends_a_call_that_is_under_way(pool) -> None:
    pool.compile(b"", b"fine", 600).result()
    hanging = pool.compile(b"", b"hang", 600)
    pool.stop()
    assert hanging.cancelled() or hanging.result().dropped.reason == "crash"


CELL = """
import triton
import triton.language as tl

FACTOR = tl.constexpr(3)

@triton.jit
def times(x, OTHER: tl.constexpr):
    return x * FACTOR * OTHER

def make(OFFSET: tl.constexpr):
    @triton.jit(do_not_specialize=["n"])
    def shifted(x_ptr, n, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        tl.store(x_ptr + lanes, times(tl.load(x_ptr + lanes), 2) + OFFSET, mask=lanes < n)
    return shifted

kernel = make(tl.constexpr(5))
"""

THERE = """
import sys
from kernellab.triton_api.kernel_contents import unpack
import kernellab
kernel = unpack(sys.stdin.buffer.read())
kept = kernellab.compile(kernel, "*i32:16", "i32", BLOCK=16, record="stages")
print(kernel.cache_key)
print("muli" in kept.stages["ttir"].text or "shli" in kept.stages["ttir"].text)
print([parameter.do_not_specialize for parameter in kernel.params])
print(kept.stages["ttir"].text.count("a cell of mine"))
"""


@pytest.mark.slow
def test_a_kernel_of_a_cell_arrives_with_helpers_captured_values_and_lines() -> None:
    file = "a cell of mine"
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": "__main__"}
    with tile_kernels_in(file, Target("cuda", "90")):
        exec(compile(CELL, file, "exec"), scope)  # noqa: S102
    kernel = scope["kernel"]
    there = subprocess.run(
        [sys.executable, "-c", THERE], input=pack(kernel), capture_output=True, check=True
    )
    key, multiplies, not_specialized, mentions = there.stdout.decode().splitlines()
    assert key == kernel.cache_key  # so Triton's cache has it under the same name
    assert multiplies == "True"
    assert not_specialized == "[False, True, False]"
    assert int(mentions) >= 1


def test_a_kernel_that_comes_back_compiles_to_the_same() -> None:
    again = unpack(pack(double))
    assert again is not double
    assert again.cache_key == double.cache_key
    assert again.fn.__globals__.keys() >= {"tl", "scaled", "SCALE"}


def test_what_is_compiled_for_a_launch_lies_where_a_launch_looks(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    target = Target("cuda", "90")
    types = ("*fp32:16", "*fp32:16", "i32:16")
    call = bind(double, types, {"BLOCK": 64}, target, options={"num_warps": 2})
    triton_api.compile_natively(double, call.specialization, target, call.options, for_launch=True)
    backend, gpu = make_backend(triton_api.gpu_target(target)), triton_api.gpu_target(target)
    # As JITFunction.run compiles: all options, parsed.
    given = {"num_warps": 2, "debug": False, "instrumentation_mode": ""}
    one = call.specialization
    source = ASTSource(double, dict(one.signature), dict(one.constants), dict(one.attributes))
    before = sorted(tmp_path.iterdir())
    triton.compile(source, target=gpu, options=backend.parse_options(given).__dict__)
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_sent_is_said(raised) -> None:
    raised(ArgumentError, pack, {"x": lambda: 1})


def test_arguments_arrive_with_shared_memory_offsets_and_strides() -> None:
    whole = torch.arange(32, dtype=torch.float32).reshape(4, 8)
    view, turned = whole[1:, 2:5], whole.t()
    half = torch.ones(8, dtype=torch.bfloat16)
    described = TensorDescriptor(whole, [4, 8], [8, 1], [2, 2])
    sent = assignments.ship(
        {"view": view, "pair": (turned, 3), "half": half, "d": described, "empty": torch.empty(0)}
    )
    assert len(sent.storages) == 3
    there = assignments.Arguments(sent, torch.device("cpu"))
    values = there.values
    assert torch.equal(values["view"], view)
    assert values["view"].stride() == view.stride()
    assert values["view"].storage_offset() == view.storage_offset()
    assert values["half"].dtype == torch.bfloat16
    values["view"][0, 0] = 100  # one memory behind all three
    assert values["pair"][0][2, 1] == 100
    assert values["d"].base[1, 2] == 100
    assert whole[1, 2] == 10
    changed = there.contents()
    there.restore()
    assert not there.holds(changed)
    assert torch.equal(values["view"], view)


def test_equal_contents_have_equal_digests() -> None:
    x = torch.arange(5.0)
    assert assignments.ship({"x": x}).digest == assignments.ship({"x": x.clone()}).digest
    assert assignments.ship({"x": x}).digest != assignments.ship({"x": x + 1}).digest
