"""What many launches, compilations, traces, checks and views leave in one process."""

import functools
import gc
import linecache
import os
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
from ipywidgets.widgets import widget
from xdsl.dialects.builtin import ModuleOp

import kernellab
from benchmarks import levels
from benchmarks.levels import LEVEL, Counts, leaks, slopes

WARM, ROUNDS = 3, 8


@pytest.fixture(scope="module", autouse=True)
def what_was_there() -> Iterator[None]:
    """What other tests left is not walked through, round after round."""
    gc.collect()
    CACHES[:] = caches()
    gc.freeze()
    yield
    gc.unfreeze()
    CACHES.clear()


CACHES: list[Any] = []
"""Those of before, which the collector does not show while they are frozen."""


def caches() -> list[Any]:
    """The package's caches that hold so many entries and no more."""
    return [
        one
        for one in gc.get_objects()
        if type(one) is functools._lru_cache_wrapper
        and one.__module__.startswith("kernellab")
        and one.cache_parameters()["maxsize"] is not None
    ]


def modules_without_caches() -> int:
    """How many modules of IR are alive, without those in caches of a limited size."""
    for one in (*CACHES, *caches()):
        one.cache_clear()
    gc.collect()
    return sum(type(one) is ModuleOp for one in gc.get_objects())


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "name", ["launch_new", "launch_refused", "compile_new", "trace", "check", "stepper", "widget"]
)
def test_a_round_leaves_nothing(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    made: list[weakref.ref[Any]] = []
    new_kernel = levels.new_kernel

    def noted(number: int = 1) -> Any:
        kernel = new_kernel(number)
        made.append(weakref.ref(kernel))
        return kernel

    monkeypatch.setattr(levels, "new_kernel", noted)
    job = levels.JOBS[name]
    for number in range(WARM):
        job(number)
    before = levels.counted()
    modules_before = modules_without_caches()
    widgets_before = len(widget._instances)
    for number in range(WARM, WARM + ROUNDS):
        job(number)
    after = levels.counted()

    gc.collect()
    alive = sum(kernel() is not None for kernel in made)
    assert alive <= 1  # Triton knows the latest of each name
    modules = modules_without_caches()
    assert modules - modules_before <= 2  # nor their IR
    assert len(widget._instances) <= widgets_before
    assert (after.descriptors, after.threads) == (before.descriptors, before.threads)
    assert (after.processes, after.lines) == (before.processes, before.lines)
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.slow
def test_of_a_kernel_the_latest_sweeps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernellab.tuning.tunings._MOST", 2)
    kernel = levels.new_kernel()
    x = torch.ones(256)
    configs = [triton.Config({"BLOCK": 256})]
    for n in (1, 64, 256):
        kernellab.tune(kernel, (1,), x, x, x, n, space=configs, target="sm_90")
    assert [one.arguments["n"] for one in kernellab.tunings(kernel)] == ["64", "256"]


@pytest.mark.slow
def test_each_kind_of_leak_is_seen(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def leaking(number: int) -> None:
        kept.append(bytearray(1 << 20) and [[] for _ in range(50)])
        kept.append(b"1" * (1 << 20))
        kept.append(os.open(os.devnull, os.O_RDONLY))
        linecache.cache[f"<leak {number}>"] = (1, None, ["x\n"], f"<leak {number}>")
        (tmp_path / str(number)).touch()

    slope = levels.measured(leaking, 20)
    for number in range(1, 21):
        linecache.cache.pop(f"<leak {number}>", None)
    for one in kept:
        if isinstance(one, int):
            os.close(one)
    assert set(leaks(slope)) >= {"memory", "objects", "descriptors", "lines", "files"}


def test_what_is_level_is_no_leak() -> None:
    flat = Counts(1000, 1000, 3, 4, 5, 0, 7)
    filling = [Counts(10 * n, n, n, n, n, n, n) for n in range(10)]
    assert leaks(slopes([*filling, *[flat] * 10], range(25, 525, 25))) == {}
    rising = [Counts(1000, 1000, 3, 4 + n, 5, 0, 7) for n in range(20)]
    assert leaks(slopes(rising, range(25, 525, 25))) == {"descriptors": pytest.approx(4)}
    assert LEVEL.descriptors < 1
