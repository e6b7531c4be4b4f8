"""What max-autotune would choose from, for a GPU that is not there."""

from dataclasses import replace

import pytest
import torch

import kernellab
from kernellab.graphs.report import GraphReport


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b)


@pytest.fixture(scope="module")
def report() -> GraphReport:
    a, b = (torch.randn(256, 256, dtype=torch.bfloat16) for _ in range(2))
    return kernellab.graph(product, a, b, mode="max-autotune-no-cudagraphs", levels=False)


def test_a_products_templates_are_compiled_and_the_first_is_taken(report, tmp_path) -> None:
    assert kernellab.load(report.save(tmp_path / "report.klgraph")).capture == report.capture
    (graph,) = report.graphs
    assert not graph.error
    candidates = graph.lowered.candidates
    templates = [one for one in candidates if one.is_template]
    assert len(templates) >= 10
    assert len({one.config for one in templates}) == len(templates)
    assert [one.is_taken for one in templates] == [True] + [False] * (len(templates) - 1)
    (kernel,) = report.kernels
    assert "triton_tem_fused" in kernel.name
    words = str(report)
    assert f"{len(candidates)} candidates" in words
    assert "nothing is timed" in words

    # All are compiled when they are asked for: here the first two.
    few = replace(
        graph,
        lowered=replace(graph.lowered, candidates=candidates[:3]),
        candidate_kernels=graph.candidate_kernels[:2],
    )
    table = few.candidates
    assert list(table.is_template) == [False, True, True]
    assert not any(table.error[1:])
    assert all(table.registers[1:] > 16)
    assert all((table.occupancy[1:] > 0) & (table.occupancy[1:] <= 1))
    resources = graph.candidate_kernels[0].compilation.resources
    assert resources is not None
    assert table.shared_bytes[1] == resources.shared_bytes


def test_without_max_autotune_there_is_nothing_to_choose_from() -> None:
    plain = kernellab.graph(torch.sin, torch.rand(8), levels=False)
    assert plain.graphs[0].candidates.empty
