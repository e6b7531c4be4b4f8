"""Two reports of torch.compile, compared kernel by kernel."""

from pathlib import Path

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError
from tests.support.messages import Raised

X, W = torch.rand(64, 128), torch.rand(128, 200, requires_grad=True)


def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1).square().mean()


def edited(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x @ w, -1)
    return y.square().mean() + y.cumsum(0).amax()


def opened(function: object = loss, **options: object) -> kernellab.GraphReport:
    return kernellab.graph(function, X, W, levels=False, **options)  # type: ignore[arg-type]


def test_kernels_before_and_after_an_edit(raised: Raised) -> None:
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
def test_estimated_times_of_two_gpus(tmp_path: Path) -> None:
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
