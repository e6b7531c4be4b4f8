"""`report.speedup()`: times, eager and compiled; `report.ablation()`: what optimizations bring."""

from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError, MachineError, NotRecorded, OptionError
from kernellab.graphs.jobs import EAGER, WAYS, Way, speedups
from kernellab.graphs.report import GraphReport
from kernellab.records.display import text_of


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
    assert (table.kernels["all"], table.kernels["no fusion"]) == (1, 2)
    assert (table.kernels["no inlining"], table.kernels["neither"]) == (1, 5)
    assert list(table.launches) == list(table.kernels)
    x, rows = 32 * 64 * 4, 32 * 4
    assert table.moved_bytes["all"] == x + 2 * rows
    assert table.moved_bytes["neither"] == 5 * x + 6 * rows
    assert not any(table.error)
    if not torch.cuda.is_available():
        assert table.milliseconds.isna().all()
        assert "no GPU" in text_of(found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_no_time_is_made_up(report: GraphReport, raised) -> None:
    raised(MachineError, report.speedup, match="GPU")


def test_a_measure_refuses_bad_input(report: GraphReport, raised) -> None:
    raised(OptionError, report.speedup, rounds=0)
    raised(NotRecorded, GraphReport(report.capture).speedup)
    raised(NotRecorded, GraphReport(report.capture).ablation)


X, W = torch.rand(64, 128), torch.rand(128, 200, requires_grad=True)


def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1).square().mean()


def edited(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x @ w, -1)
    return y.square().mean() + y.cumsum(0).amax()


def opened(function: object = loss, **options: object) -> kernellab.GraphReport:
    return kernellab.graph(function, X, W, levels=False, **options)  # type: ignore[arg-type]


def test_kernels_before_and_after_an_edit(raised) -> None:
    before, after = opened(), opened(edited)
    found = before.diff(after)
    changes = {row.change for row in found.kernels}
    assert {"added", "same"} <= changes
    assert all(row.before == "" for row in found.kernels if row.change == "added")
    assert found.total("launches_after") == sum(len(graph.launches) for graph in after.graphs)
    moved = [launch.moved_bytes for graph in after.graphs for launch in graph.lowered.launches]
    assert found.total("bytes_after") == sum(filter(None, moved))
    back = [row.change for row in after.diff(before).kernels]
    assert back.count("gone") == [row.change for row in found.kernels].count("added")
    assert {row.change for row in before.diff(before).kernels} == {"same"}
    assert "bytes moved" in str(found)
    raised(ArgumentError, before.diff, 3, match="other")


@pytest.mark.slow
def test_the_kernel_of_an_edited_operation_has_changed() -> None:
    functions = (lambda x, w: (x @ w).relu().sum(-1)), (lambda x, w: (x @ w).tanh().sum(-1))
    before, after = (kernellab.graph(each, X, W, levels=False) for each in functions)
    (row,) = (row for row in before.diff(after).kernels if row.change != "same")
    assert row.change == "changed"
    assert "relu" in row.before
    assert "tanh" in row.after


@pytest.mark.slow
def test_estimated_times_of_two_gpus(tmp_path) -> None:
    before, after = opened(backward=True), opened(backward=True, gpu="a100")
    found = before.diff(after, times=True)
    assert {row.change for row in found.kernels} == {"same"}
    assert not found.notes
    first, second = found.total("microseconds_before"), found.total("microseconds_after")
    assert first is not None
    assert second is not None
    assert 1 < first < second < 100
    assert "estimated us" in str(found)
    loaded = kernellab.load(before.save(tmp_path / "before.klgraph"))
    from_file = loaded.diff(after, times=True)
    assert from_file.total("microseconds_before") is None
    assert from_file.total("microseconds_after") == second
    assert "file" in from_file.notes[0]
