"""`report.speedup()`: times of a call, eager and compiled; `report.ablation()`: what Inductor's
optimizations are worth.
"""

from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import MachineError, NotRecorded, OptionError
from kernellab.graphs.jobs import EAGER, WAYS, Way, speedups
from kernellab.graphs.report import GraphReport
from kernellab.records.display import text_of
from tests.support.messages import Raised


def branchless(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((x.sin() * 2).sum(-1) + y).cos()


@pytest.fixture(scope="module")
def report() -> GraphReport:
    x, y = torch.rand(32, 64), torch.rand(32)
    return kernellab.graph(branchless, x, y, levels=False)


def test_ways_of_calling_take_turns_and_one_that_fails_leaves_the_others_their_times() -> None:
    x, y = torch.rand(32, 64, requires_grad=True), torch.rand(32)
    asked = {"eager": EAGER, "aot_eager": WAYS["aot_eager"], "none": Way({"backend": _refusing})}
    found = speedups(
        branchless, (x, y), {}, name="it", backward=True, rounds=3, device="cpu", ways=asked
    )
    torch._dynamo.reset()
    assert found["eager"].speedup == 1
    assert found["aot_eager"].milliseconds is not None
    assert found["aot_eager"].distance is not None
    assert found["aot_eager"].distance < 1e-5
    assert found["none"].milliseconds is None
    assert "refused" in found["none"].error
    assert list(found.table()["mode"]) == list(asked)
    text = text_of(found)
    assert "forward and backward on cpu" in text
    assert "none failed" in text
    assert x.grad is None


def _refusing(_module: Any, _inputs: Any) -> Any:
    raise RuntimeError("refused")


@pytest.mark.slow
def test_without_fusion_and_inlining_there_are_more_kernels_and_bytes(report: GraphReport) -> None:
    found = report.ablation()
    table = found.table().set_index("optimizations")
    assert list(table.index) == ["all", "no fusion", "no inlining", "neither"]
    # sin, times two, the sum, plus y, cos
    assert table.kernels["all"] == 1
    assert table.kernels["no fusion"] == 2
    assert table.kernels["no inlining"] == 1
    assert table.kernels["neither"] == 5
    assert list(table.launches) == list(table.kernels)
    x, rows = 32 * 64 * 4, 32 * 4
    assert table.moved_bytes["all"] == x + 2 * rows
    assert table.moved_bytes["neither"] == 5 * x + 6 * rows
    assert not any(table.error)
    if not torch.cuda.is_available():
        assert table.milliseconds.isna().all()
        assert "no GPU" in text_of(found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_no_time_is_made_up(report: GraphReport, raised: Raised) -> None:
    raised(MachineError, report.speedup, match="GPU")


def test_a_measure_refuses_bad_input(report: GraphReport, raised: Raised) -> None:
    raised(OptionError, report.speedup, rounds=0)
    raised(NotRecorded, GraphReport(report.capture).speedup)
    raised(NotRecorded, GraphReport(report.capture).ablation)
