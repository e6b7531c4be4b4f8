"""Looking changes nothing: no guard is added, and no random number drawn."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

import kernellab
from kernellab.graphs.backend import kernellab_backend


@pytest.mark.slow
def test_symbolic_sizes_stay_symbolic() -> None:
    x = torch.rand(6, 8)
    torch._dynamo.mark_dynamic(x, 0)
    report = kernellab.graph(nn.Linear(8, 8), x, backward=True, levels=False)
    assert report.error == ""
    assert report.graphs[0].lowered.saved[-1].bytes == 6 * 8 * 4

    torch.compiler.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    compiled = torch.compile(model, backend=kernellab_backend, dynamic=True)
    for rows in (4, 5, 7, 9):
        compiled(torch.rand(rows, 8)).sum().backward()
    report = kernellab.last_report()
    assert [graph.direction for graph in report.graphs] == ["forward", "backward"]
    assert not report.recompilations


def test_attention_without_dropout_draws_nothing() -> None:
    torch.compiler.reset()
    query = torch.rand(1, 2, 16, 8)
    compiled = torch.compile(F.scaled_dot_product_attention, backend=kernellab_backend)
    before = torch.get_rng_state()
    compiled(query, query, query)
    assert torch.equal(torch.get_rng_state(), before)
