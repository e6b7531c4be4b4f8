"""`kernellab.graph`: every level of a call under torch.compile, for a GPU that is not there."""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch
from torch import nn

import kernellab
from kernellab.errors import ArchiveError, ArgumentError, OptionError, TargetError
from kernellab.graphs.captures import gpu_named
from kernellab.graphs.report import GraphReport, ReportGraph
from kernellab.launch.tile_kernel import TileKernel
from kernellab.torch_api.capture import Backend, Captured
from kernellab.torch_api.capture import capture as capture_call

HERE = Path(__file__)


def branching(x: torch.Tensor) -> torch.Tensor:
    """Two graphs, because of a branch on a value."""
    y = torch.sin(x) + 1
    if y.sum() > 0:
        y = y * 2
    return y.relu().softmax(-1)


def _line(text: str) -> int:
    lines = HERE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


@pytest.fixture(scope="module")
def report() -> GraphReport:
    torch.manual_seed(0)
    x = torch.rand(64, 1000, requires_grad=True)
    return kernellab.graph(branching, x, gpu="h200", backward=True)


def _graph(report: GraphReport, direction: str, number: int) -> ReportGraph:
    wanted = direction, number
    (found,) = (one for one in report.graphs if (one.direction, one.lowered.number) == wanted)
    return found


@pytest.mark.slow
def test_every_graph_has_every_level(report: GraphReport) -> None:
    assert not report.error
    directions = [one.direction for one in report.graphs]
    assert directions == ["forward", "forward", "backward", "backward"]
    for one in report.graphs:
        assert not one.error
        assert one.fx.nodes
        assert one.joint is not None
        assert one.aten.counts()
        assert all(name.startswith(("prims.", "_operator", "aten.")) for name in one.prims.counts())
        assert "ops.load" in one.loop_ir
        assert one.kernels
        assert one.passes
        assert "def call" in one.wrapper


@pytest.mark.slow
def test_levels_are_those_of_torch(report: GraphReport) -> None:
    first = _graph(report, "forward", 0)
    called = [node.target for node in first.fx.nodes if node.opcode == "call_function"]
    assert "sin" in called[0]
    assert first.aten.counts()["aten.sin.default"] == 1
    assert first.prims.counts()["prims.sin.default"] == 1
    assert "prims.sin" in first.aten.diff(first.prims)
    second = _graph(report, "forward", 1)
    changed = [one for one in second.passes if one.changed]
    assert any("softmax" in one.diff() for one in changed)
    saved = second.lowered.saved
    assert [one.dtype for one in saved].count("float32") >= 1
    assert all(one.bytes for one in saved)


def test_nodes_say_where_they_come_from(report: GraphReport) -> None:
    first = _graph(report, "forward", 0)
    (sine,) = [node for node in first.prims.nodes if node.target == "prims.sin.default"]
    assert "sin" in sine.origins
    assert sine.position is not None
    assert sine.position.line == _line("y = torch.sin(x) + 1")
    (added,) = [node for node in first.aten.nodes if node.target == "aten.add.Tensor"]
    assert added.inputs == ("sin",)
    given = first.aten.nodes[0]
    assert (given.name, given.target, given.origins) == ("primals_1", "x", ("l_x_",))
    assert report.capture.sources == {str(HERE): HERE.read_text()}


def test_a_break_has_its_line_and_what_to_change(report: GraphReport) -> None:
    (one,) = report.breaks
    assert one.reason == "Data-dependent branching"
    assert one.position is not None
    assert (Path(one.position.file), one.position.line) == (HERE, _line("if y.sum() > 0:"))
    assert one.hints
    resumed = [code for code in report.bytecode if "resume_in" in code.function]
    assert len(resumed) == 1
    assert "LOAD" in resumed[0].original
    assert resumed[0].original != resumed[0].rewritten


def test_guards_are_a_table(report: GraphReport) -> None:
    table = report.guards.table()
    assert {"frame", "kind", "condition", "source", "failed"} <= set(table.columns)
    tensors = table[table.kind == "TENSOR_MATCH"]
    assert any("1000" in condition for condition in tensors.condition)
    assert "L['x']" in set(tensors.source)


def test_fusions_say_what_they_save_and_why_not(report: GraphReport) -> None:
    first = _graph(report, "forward", 0)
    assert isinstance(first.fusions, pandas.DataFrame)
    pairs = pandas.DataFrame([vars(pair) for one in report.graphs for pair in one.lowered.fusions])
    assert all(pairs[~pairs.fused].reason.str.len() > 0)
    assert any(pairs[pairs.fused].saved_bytes >= 64 * 1000 * 4)
    together = first.fusions[first.fusions.fused]
    kernels = [set(one.code.operations) for one in first.kernels]
    for row in together.itertuples():
        assert any({*row.first.split("_"), *row.second.split("_")} <= one for one in kernels)


def _around_a_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    wave = x.sin()
    return wave + (wave @ w).exp().sum(-1, keepdim=True)


@pytest.mark.slow
def test_operations_between_a_pair_have_names() -> None:
    report = kernellab.graph(_around_a_product, torch.rand(64, 64), torch.rand(64, 64))
    refused = [pair for pair in report.graphs[0].lowered.fusions if pair.saved_bytes == 16384]
    assert {pair.reason.partition(": ")[2] for pair in refused} == {"op1 (mm), op2 (exp)"}
    assert "op0 (sin), op2_op3 (exp, add)" in str(report)


@pytest.mark.slow
def test_kernels_that_read_a_tensor_in_two_orders_share_it() -> None:
    x = torch.rand(512, 512)
    report = kernellab.graph(lambda x: x.amax(0) - x.softmax(1), x, levels=False)
    pairs = [pair for pair in report.graphs[0].lowered.fusions if "arg0_1" in pair.reason]
    assert {pair.saved_bytes for pair in pairs} == {x.nbytes}
    assert str(report).count(f"{x.nbytes:,}") == 1, "of pairs within others, only the last"


def test_a_kernel_leads_to_the_lines_of_the_model(report: GraphReport) -> None:
    graph = _graph(report, "backward", 0)
    (kernel,) = graph.kernels
    (position,) = graph.positions(kernel)
    assert position.line == _line("y = torch.sin(x) + 1")
    assert kernel.origins


def test_kernels_are_kernels_of_the_lab(report: GraphReport) -> None:
    graph = _graph(report, "backward", 0)
    (kernel,) = graph.kernels
    assert isinstance(kernel.kernel, TileKernel)
    assert kernel.compilation.target.name == "sm_90"
    assert "cos" in kernel.source
    assert "FFMA" in kernel.compilation.stages["sass"].text
    gradient, x = torch.randn(64, 1000), torch.rand(64, 1000)
    result = torch.empty(64, 1000)
    kernellab.run(kernel.tuner, None, gradient, x, result, 64_000)
    torch.testing.assert_close(result, gradient * x.cos())


def test_a_report_shows_itself(report: GraphReport) -> None:
    text = str(report)
    assert "branching" in text
    assert "Data-dependent branching" in text
    assert report.kernels[0].name in text
    html = report._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert "Data-dependent branching" in html


def test_a_saved_report_is_the_report(report: GraphReport, tmp_path: Path) -> None:
    file = report.save(tmp_path / "report.klgraph")
    again = kernellab.load(file)
    assert again.capture == report.capture
    assert str(again) == str(report)


def test_damaged_reports_are_refused(report: GraphReport, tmp_path: Path) -> None:
    whole = report.save(tmp_path / "report.klgraph").read_bytes()
    data = json.loads(gzip.decompress(whole))
    damaged = tmp_path / "damaged.klgraph"

    def refused(content: bytes, match: str) -> None:
        damaged.write_bytes(content)
        with pytest.raises(ArchiveError, match=match):
            kernellab.load(damaged)

    older = {name: value for name, value in data["capture"].items() if name != "sources"}
    damaged.write_bytes(gzip.compress(json.dumps({**data, "capture": older}).encode()))
    assert kernellab.load(damaged).capture.sources == {}  # as written before there were any

    refused(whole[: len(whole) // 2], "cut off|damaged")
    refused(gzip.compress(json.dumps({**data, "version": 99}).encode()), "version")
    data["capture"]["lowered"][0]["kernels"][0]["source"] = 5
    refused(gzip.compress(json.dumps(data).encode()), r"lowered\[0\]\.kernels\[0\]\.source")


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.parts = nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, x: torch.Tensor) -> Any:
        return self.parts[0](x * self.weight).tanh()


def test_a_module_is_captured_with_its_parameters() -> None:
    report = kernellab.graph(Scaled(), torch.randn(4, 8), gpu="a100", backward=True)
    assert report.capture.target == "sm_80"
    assert [one.direction for one in report.graphs] == ["forward", "backward"]
    for graph in report.graphs:  # the product's gradient too stands in the part
        (place,) = {node.modules for node in graph.aten.nodes if node.modules}
        assert [(one.path, one.kind) for one in place] == [("parts.0", "Linear")]


@pytest.mark.slow
def test_options_are_inductors() -> None:
    def two(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 2).sum(-1).cos()

    x = torch.rand(32, 64)
    whole = kernellab.graph(two, x, levels=False)
    parted = kernellab.graph(two, x, levels=False, options={"max_fusion_size": 1})
    assert len(whole.kernels) < len(parted.kernels)


@pytest.mark.slow
def test_what_cannot_be_captured_says_how_far_it_came(messages) -> None:
    def failing(x: torch.Tensor) -> torch.Tensor:
        return x.view(7, 7)

    report = kernellab.graph(failing, torch.rand(6))
    assert "shape '[7, 7]' is invalid" in report.error
    assert report.graphs == ()
    assert "stopped" in str(report)

    whole = kernellab.graph(branching, torch.rand(4, 4), fullgraph=True, levels=False)
    assert "Data-dependent" in whole.error

    flat = kernellab.graph(torch.add, torch.rand(4), torch.rand(4), backward=True, levels=False)
    assert flat.error == messages


def test_bad_input_is_named(messages, raised) -> None:
    x = torch.rand(4)
    with pytest.raises(TargetError, match="h201"):
        kernellab.graph(torch.sin, x, gpu="h201")
    raised(ArgumentError, kernellab.graph, torch.sin, x, gpu=90)
    with pytest.raises(ArgumentError) as refused:
        kernellab.graph(5, x)  # type: ignore[arg-type]
    assert refused.value == messages
    with pytest.raises(OptionError, match="fastest"):
        kernellab.graph(torch.sin, x, mode="fastest")


def test_the_callers_process_is_left_as_it_was(report: GraphReport) -> None:
    del report
    assert not torch.cuda.is_available() or torch.cuda.get_device_name(0) != "NVIDIA H200 (virtual)"
    with pytest.raises((RuntimeError, AssertionError)):
        torch.zeros(1, device="cuda:7")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("gpu", "target"), [("mi300x", "gfx942"), ("b200", "sm_100"), ("l40s", "sm_89")]
)
def test_more_gpus(gpu: str, target: str) -> None:
    report = kernellab.graph(lambda x: x * 3, torch.rand(1000), gpu=gpu, levels=False)
    (kernel,) = report.kernels
    assert not report.graphs[0].error
    assert report.capture.target == target
    assert kernel.compilation.target.name == target


def _repeated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Two hundred operations, and a product that a GPU machine would try padded."""
    x = (x * x) * x
    for _ in range(60):
        x = (x + 1).sin() * 2
    product: torch.Tensor = x @ weight
    return product.sum()


@pytest.fixture(scope="module")
def captures() -> dict[bool, Captured]:
    """A large graph lowered beside this process, and in it."""
    x, weight = torch.rand(4, 9), torch.rand(9, 5, requires_grad=True)
    found = {}
    for beside in (True, False):
        backend = Backend(gpu_named("h200").answering, beside=beside)
        found[beside] = capture_call(
            _repeated, (x, weight), {}, backend, backward=True, dynamic=False, fullgraph=True
        )
    return found


@pytest.mark.slow
def test_large_graphs_are_lowered_beside_the_call(captures: dict[bool, Captured]) -> None:
    beside, here = captures[True].lowered, captures[False].lowered
    assert [one.direction for one in beside] == ["forward", "backward"]
    assert [one.error for one in (*beside, *here)] == [""] * 4
    for one, other in zip(beside, here, strict=True):
        assert (one.kernels, one.fusions) == (other.kernels, other.fusions)
        assert one.prims == other.prims
        assert [named.name for named in one.passes] == [named.name for named in other.passes]
        assert [named.diff() for named in one.passes] == [named.diff() for named in other.passes]


@pytest.mark.slow
def test_what_is_written_out_is_what_torch_writes_out(captures: dict[bool, Captured]) -> None:
    """Operations are written out one by one, equal ones once."""
    forward = captures[False].lowered[0]
    counts = forward.prims.counts()
    assert (counts["prims.mul.default"], counts["prims.sin.default"]) == (62, 60)
    squared, cubed, *_ = (n for n in forward.prims.nodes if n.target == "prims.mul.default")
    assert len(squared.inputs) == 1
    assert cubed.inputs == (squared.name, *squared.inputs)
    sine = next(node for node in forward.prims.nodes if node.target == "prims.sin.default")
    assert sine.origins[0] == "sin"
    assert sine.position is not None


def test_a_product_is_not_timed(captures: dict[bool, Captured]) -> None:
    (product,) = [one for one in captures[False].lowered[0].launches if not one.is_generated]
    assert "mm" in product.name


@pytest.mark.slow
def test_what_takes_too_long_is_a_report_of_what_there_is() -> None:
    # Work that swallows the first alarm meets the second one, ten seconds later.
    def slow(x: torch.Tensor) -> torch.Tensor:
        for _ in range(1_000_000):
            x = x.sin() + 1
        return x

    backend = Backend(gpu_named("h200").answering, levels=False)
    found = capture_call(
        slow, [torch.rand(4)], {}, backend, backward=False, dynamic=False, fullgraph=True, seconds=1
    )
    assert "it took longer than 1 seconds" in found.error + "".join(
        one.error for one in found.lowered
    )
