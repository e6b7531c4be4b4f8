"""Sweeps without a GPU are ranked by estimates of their configs' times."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton

import kernellab
from kernellab.cli.demo.kernels import vector_add
from kernellab.compiler.targets import parse_target
from kernellab.triton_api.kernel_contents import pack
from kernellab.tuning import worker
from kernellab.tuning.assignments import Job
from kernellab.tuning.configs import Calls, PreparedCall
from kernellab.tuning.files import Store
from kernellab.tuning.records import Candidate, by_compiler

SIZE = 1 << 16


@pytest.fixture(scope="module")
def tuning() -> kernellab.Tuning:
    x = torch.ones(SIZE)
    return kernellab.tune(
        vector_add,
        lambda meta: (triton.cdiv(SIZE, meta["BLOCK"]),),
        x,
        x,
        torch.empty(SIZE),
        SIZE,
        space={"BLOCK": [16, 1024], "num_warps": [4]},
        check=False,
        cache=False,
        progress=False,
    )


@pytest.mark.slow
def test_the_estimated_faster_config_is_first(tuning: kernellab.Tuning) -> None:
    slow, fast = tuning.table["us, estimated"]
    assert 0 < fast < slow
    assert [one.number for one in by_compiler(tuning.trials)] == [1, 0]
    assert tuning.candidates(1) == [{"BLOCK": 1024, "num_warps": 4}]
    assert len(tuning.candidates()) == 2
    words = tuning._repr_mimebundle_()["text/plain"]
    assert "estimates, which no one has measured" in words


@pytest.mark.slow
def test_estimates_are_saved(tuning: kernellab.Tuning, tmp_path: Path) -> None:
    loaded = kernellab.Tuning.load(tuning.save(tmp_path / "sweep.json"))
    assert list(loaded.table["us, estimated"]) == list(tuning.table["us, estimated"])


def test_an_estimate_that_a_busy_machine_gave_up_is_not_kept_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sweep tries again: the config is not put on disk without its estimate."""
    monkeypatch.setattr(worker, "_MOST_SECONDS", 1e-4)
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path))
    x, target = torch.ones(SIZE), parse_target("sm_90")
    launches = Calls(vector_add, (64,), (x, x, x, SIZE), {}, target)
    ready = launches.prepare(0, Candidate({"BLOCK": 1024}, {"num_warps": 4}))
    assert isinstance(ready, PreparedCall)
    job = Job(launches.plain, target, None, None)
    outcome = worker.compile_config(pack(job), pack(ready.task))
    assert outcome.compiled is not None
    assert outcome.compiled.estimated is None
    store = Store(["a sweep"])
    store.put(["a config"], outcome)
    assert store.get(["a config"]) is None


def test_of_types_alone_nothing_is_estimated() -> None:
    tuning = kernellab.tune(
        vector_add, None, "*fp32:16", "*fp32:16", "*fp32:16", "i32:16",
        space={"BLOCK": [1024]}, cache=False, progress=False,
    )  # fmt: skip
    assert "us, estimated" not in tuning.table
