"""`report.compare()`: the first node whose compiled value is not eager's."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.nn import functional as F  # noqa: N812 - as everyone writes it
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

import kernellab
from kernellab.errors import ArgumentError, NotRecorded, OptionError
from kernellab.graphs import backend  # noqa: F401 - after which Dynamo skips kernellab's functions
from kernellab.graphs.report import GraphReport

HERE = Path(__file__)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(32), nn.Linear(32, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(self.norm(x))
        z = F.gelu(y)
        return torch.mul(z, 2)


@pytest.fixture(scope="module")
def report() -> GraphReport:
    torch.manual_seed(0)
    x = torch.randn(16, 32, requires_grad=True)
    return kernellab.graph(Small(), x, backward=True, levels=False)


def _line(text: str) -> int:
    lines = HERE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


@pytest.mark.slow
def test_right_code_has_no_difference(report: GraphReport, raised) -> None:
    found = report.compare()
    assert not found.error
    assert not found.differences, found
    assert found.first is None
    forward, backward = found.graphs
    assert (forward.direction, backward.direction) == ("forward", "backward")
    for one in found.graphs:
        assert not one.obstacle
        assert one.fx >= 3
        assert one.buffers >= 3
    assert "No value differs" in str(found)
    raised(NotRecorded, found.trace)


def wrong_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    del approximate
    return x * torch.sigmoid(1.702 * x)


@pytest.mark.slow
def test_a_wrong_decomposition_is_found_on_its_node(report: GraphReport) -> None:
    found = report.compare("aten", decompositions={"aten.gelu.default": wrong_gelu})
    first: Any = found.first
    assert (first.level, first.node, first.is_gradient) == ("fx", "z", False)
    assert first.direction == "forward"
    assert first.position.line == _line("z = F.gelu(y)")
    assert len(found.differences) == 1, "others are given eager's values"
    assert first.kernel in {one.name for one in report.kernels}
    assert "gelu" in str(found)


def wrong_gelu_backward(
    gradient: torch.Tensor, x: torch.Tensor, approximate: str = "none"
) -> torch.Tensor:
    del approximate
    return gradient * (x > 0)


@pytest.mark.slow
def test_a_wrong_gradient_is_found_on_the_node_that_it_belongs_to(report: GraphReport) -> None:
    wrong: Any = torch.ops.aten.gelu_backward.default
    found: Any = report.compare("aten", decompositions={wrong: wrong_gelu_backward})
    assert found.first.direction == "backward"
    assert found.first.is_gradient
    assert found.first.node == "y"
    assert len(found.differences) == 1


@pytest.mark.slow
def test_a_wrong_kernel_is_found_on_its_line_and_stepped_through(report: GraphReport) -> None:
    kernel = next(one for one in report.kernels if "libdevice.erf" in one.source)
    line = next(one for one in kernel.source.splitlines() if "libdevice.erf" in one)
    source = kernel.source.replace(line, f"{line} * 1.01")
    found = report.compare(kernels={kernel.name: source})
    first: Any = found.first
    assert (first.level, first.kernel) == ("kernel", kernel.name)
    assert first.position.line in (_line("z = F.gelu(y)"), _line("return torch.mul(z, 2)"))
    assert first.line is not None
    assert "tl.store" in source.splitlines()[first.line - 1]
    assert first.line_text == source.splitlines()[first.line - 1]
    assert {one.kernel for one in found.differences} == {kernel.name}
    trace = found.trace()
    assert any("tl.store" in str(notice) or "expected" in str(notice) for notice in trace.notices)


@pytest.mark.slow
def test_random_numbers_are_drawn_as_eager_torch_draws_them() -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x.sin(), 0.25) * 2

    report = kernellab.graph(dropped, torch.rand(400), levels=False)
    found = report.compare()
    assert not found.differences, found
    assert found.graphs[0].fx == 3
    name = report.kernels[0].name
    with pytest.raises(ArgumentError, match="other kernels"):
        report.compare(kernels={name: report.kernels[0].source})


@pytest.mark.slow
@pytest.mark.thinned(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("first", "second"), [(0.2, 0.1), (0.0, 0.2), (0.3, 0.0)])
def test_attention_drops_what_eager_attention_drops(dtype, first, second) -> None:
    """Gradients too, and what is dropped after it."""

    def attended(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        y = F.scaled_dot_product_attention(q, k, k, dropout_p=first)
        y = F.scaled_dot_product_attention(y.relu(), k, k, is_causal=True, dropout_p=second)
        return F.dropout(y, 0.3).sum()

    q, k = (torch.randn(2, 2, n, 8, dtype=dtype, requires_grad=True) for n in (16, 24))
    found = kernellab.graph(attended, q, k, backward=True, levels=False).compare()
    assert found.error == ""
    assert not found.differences, found
    assert [graph.direction for graph in found.graphs] == ["forward", "backward"]


def test_what_did_not_run_says_why() -> None:
    def failing(x: torch.Tensor) -> torch.Tensor:
        return x.view(7, 7)

    found = kernellab.graph(failing, torch.rand(6), levels=False).compare()
    assert "shape '[7, 7]' is invalid" in found.error
    assert "Nothing was compiled" in str(found)


def test_a_comparison_refuses_bad_input(report: GraphReport, raised) -> None:
    with pytest.raises(OptionError, match="run"):
        report.compare("cuda")
    name = report.kernels[0].name
    with pytest.raises(ArgumentError, match="no kernel") as caught:
        report.compare(kernels={name + "x": ""})
    error = caught.value
    assert name in str(error)
    wrong: Any = {name: 5}
    raised(ArgumentError, report.compare, kernels=wrong)
    unknown = {"aten.gelux.default": wrong_gelu}
    with pytest.raises(ArgumentError, match="no operation"):
        report.compare(decompositions=unknown)
    raised(NotRecorded, GraphReport(report.capture).compare)


def _attend(q: torch.Tensor, dropout: float = 0.0) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, q, q, dropout_p=dropout)


def _attend_and_drop(q: torch.Tensor) -> torch.Tensor:
    return F.dropout(_attend(q, 0.2), 0.3)


def _filtered(x: torch.Tensor) -> torch.Tensor:
    """Its gradients are conjugated, and one is written to in place before it is used."""
    made: torch.Tensor = torch.fft.irfft2(torch.fft.rfft2(x) * torch.fft.rfft2(x.flip(0)))
    return made


SHARED = nn.Linear(32, 32)
HIDDEN = torch.ones(40, 40, dtype=torch.bool).tril()


def _stepped_in_place(x: torch.Tensor) -> torch.Tensor:
    torch._foreach_add_([x], 1)  # as an optimizer counts its steps
    return x * 2


def _layer_in_two_graphs(x: torch.Tensor) -> torch.Tensor:
    x = SHARED(x).relu()
    torch._dynamo.graph_break()
    result: torch.Tensor = SHARED(x)
    return result


@pytest.mark.thinned(2)
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("function", "dtype", "graphs"),
    [
        (lambda q: F.scaled_dot_product_attention(q[0], q[0], q[0], HIDDEN), torch.float32, 1),
        (_stepped_in_place, torch.float32, 1),
        (lambda q: associative_scan(torch.add, q[0, 0], 0), torch.float32, 1),
        (lambda q: _attend(_attend(q)), torch.float32, 1),
        (lambda q: _attend(q[0], 0.2), torch.float32, 2),
        (lambda q: _attend(_attend(q)), torch.bfloat16, 2),
        (_filtered, torch.float32, 2),
        (
            lambda q: F.scaled_dot_product_attention(
                q, q[:, :1], q[:, :1], is_causal=True, enable_gqa=True
            ),
            torch.bfloat16,
            2,
        ),
        (
            lambda q: F.scaled_dot_product_attention(q, q, torch.cat([q, q], -1)),
            torch.bfloat16,
            2,
        ),
        (lambda q: checkpoint(_attend_and_drop, q, use_reentrant=False), torch.float32, 2),
        (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2).square(), torch.float32, 2),
        (_layer_in_two_graphs, torch.float32, 4),
    ],
)
def test_a_call_is_compared_whole(function: Any, dtype: torch.dtype, graphs: int) -> None:
    q = torch.randn(1, 2, 40, 32, dtype=dtype, requires_grad=graphs > 1)
    report = kernellab.graph(function, q, backward=graphs > 1, levels=False)
    assert report.error == ""
    found = report.compare()
    assert [one.obstacle for one in found.graphs] == [""] * graphs
    assert not found.differences


def test_attention_is_the_operation_that_a_gpu_runs() -> None:
    """The rules are in torch's sdp_utils.cpp."""
    attend = F.scaled_dot_product_attention

    def several(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):
            other = attend(q, q, q)
        return (
            attend(q, q, q),
            attend(q, k[:, :2], k[:, :2], enable_gqa=True),
            attend(q.float(), q.float(), q.float()),
            attend(q, k, k, is_causal=True),
            other,
        )

    q, k = (torch.randn(1, 4, length, 32, dtype=torch.bfloat16) for length in (16, 24))
    (graph,) = kernellab.graph(several, q, k, levels=False).graphs
    nodes = [node for node in graph.aten.nodes if "attention" in node.target]
    kinds = {node.position.line: "flash" in node.target for node in nodes if node.position}
    assert [kinds[line] for line in sorted(kinds)] == [False, True, True, False, False]
    assert graph.aten.text.count("scale = 0.1767") == 2, "torch gives flash attention its scale"


@pytest.mark.slow
def test_gradients_of_flex_attention_are_captured() -> None:
    q = torch.randn(1, 1, 128, 16, requires_grad=True)
    report = kernellab.graph(lambda q: flex_attention(q, q, q), q, backward=True, levels=False)
    assert report.error == ""
    assert not report.breaks
    assert [len(graph.kernels) > 1 for graph in report.graphs] == [True, True]


class Averaging(nn.Module):
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        return x * 2


@pytest.mark.slow
def test_a_wrong_store_to_a_buffer_of_the_module_is_found() -> None:
    model, x = Averaging(), torch.randn(4, 16)
    report = kernellab.graph(model, x, levels=False)
    right = report.compare()
    assert [one.buffers for one in right.graphs] == [2]
    assert not right.differences
    kernel = next(kernel for kernel in report.kernels if "0.9" in kernel.source)
    found = report.compare(kernels={kernel.name: kernel.source.replace("0.9", "9.0")})
    (difference,) = found.differences
    assert (difference.level, difference.kernel) == ("kernel", kernel.name)
    assert difference.count == 16
    assert torch.equal(model.mean, torch.ones(16))


@torch.no_grad()
def _averaged(kept: float) -> None:
    SHARED.weight.mul_(kept)


class _Optimizer:
    """As people write one of their own: a plain object that keeps tensors."""

    def __init__(self) -> None:
        self.weight, self.momenta = torch.ones(4), {"first": [torch.zeros(4)]}

    def step(self, rate: float) -> None:
        for momentum in self.momenta["first"]:
            self.weight.sub_(momentum.mul_(0.9).add_(1), alpha=rate)


@pytest.mark.slow
@pytest.mark.parametrize("function", [_averaged, _Optimizer().step])
def test_what_a_function_writes_to_is_restored(function: Any) -> None:
    assert not kernellab.graph(function, 0.5, levels=False).compare().differences


@pytest.mark.slow
def test_a_convolution_of_channels_last_tensors_is_compared_whole() -> None:
    model = nn.Conv2d(3, 8, 3)
    model.weight.data = model.weight.data.to(memory_format=torch.channels_last)
    images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    report = kernellab.graph(model, images, backward=True, levels=False)
    assert len(report.graphs[0].kernels) == 1, "cuDNN's convolution needs no other layout"
    comparison = report.compare()
    assert [graph.obstacle for graph in comparison.graphs] == ["", ""]
    assert not comparison.differences
