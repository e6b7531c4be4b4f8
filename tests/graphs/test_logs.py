"""Logs of torch.compile from elsewhere: `TORCH_TRACE`."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArchiveError, OptionError
from kernellab.graphs import torch_texts
from kernellab.graphs.report import GraphReport
from kernellab.graphs.torch_texts import kernels_in, launches_in
from kernellab.launch.tile_kernel import TileKernel
from kernellab.records.graphs import GraphNode, Level
from tests.support.graph_corpus import CASES
from tests.support.messages import Raised
from tests.support.torch_logs import FILE, entry

HERE = Path(__file__).parent
LOG = HERE / "trace_of_cpu.log"
H200 = HERE / "kernels_of_h200.json"


@pytest.fixture(scope="module")
def report() -> GraphReport:
    found = kernellab.load(LOG)
    assert isinstance(found, GraphReport)
    return found


def test_a_log_is_the_report_of_its_run(report: GraphReport) -> None:
    assert report.error == ""
    assert (report.capture.name, report.capture.gpu) == ("branching", "CPU")
    assert report.capture.torch_version == "2.13.0+cpu"
    directions = [(one.direction, one.lowered.number) for one in report.graphs]
    assert directions[:4] == [("forward", 0), ("backward", 0), ("forward", 1), ("backward", 1)]
    for one in report.graphs:
        assert one.error == ""
        assert one.fx.nodes
        assert one.joint is not None
        assert "tangents_1" in [node.name for node in one.joint.nodes]
        assert one.aten.counts()
        assert "def call" in one.wrapper
        assert [run.stage for run in one.passes] == ["pre_grad", "post_grad"]


def test_levels_of_a_log_have_shapes_lines_and_origins(report: GraphReport) -> None:
    first = report.graphs[0]
    sin = next(node for node in first.fx.nodes if node.name == "sin")
    assert (sin.target, sin.args, sin.inputs) == ("torch.sin", "(matmul,)", ("matmul",))
    assert (sin.shape, sin.dtype) == ((16, 48), "float32")
    assert str(sin.position) == f"{FILE}:6"
    assert first.aten.counts()["aten.mm.default"] == 1
    assert {"matmul"} == {*next(n for n in first.post_grad.nodes if n.name == "mm").origins}
    saved = {one.name: one.bytes for one in first.lowered.saved}
    assert saved["mm"] == 16 * 48 * 4
    dynamic = report.graphs[4].lowered.saved
    assert any("s" in str(one.shape) and one.bytes == 24 * 48 * 4 for one in dynamic)


def test_a_log_has_breaks_guards_recompilations_and_bytecode(report: GraphReport) -> None:
    (broken,) = report.breaks
    assert broken.reason == "Data-dependent branching"
    assert str(broken.position) == f"{FILE}:7"
    assert broken.hints
    table = report.guards.table()
    failed = table[(table.frame == "0/0") & (table.failed != "")]
    assert list(failed.source) == ["L['x']"]
    assert report.recompilations[0].function == "branching"
    assert report.recompilations[0].failures[0].frame == "0/0"
    assert all("LOAD" in code.original and "resume_in" in code.function for code in report.bytecode)


def test_kernels_of_a_cpu_are_text(report: GraphReport, raised: Raised) -> None:
    graph = report.graphs[0]
    (kernel,) = graph.kernels
    assert 'extern "C"' in kernel.source
    assert {position.line for position in graph.positions(kernel)} == {6, 7}
    assert list(graph.launches.name) == ["extern_kernels.mm", kernel.name]
    raised(OptionError, lambda: kernel.tuner, match="CPU")


def test_a_log_shows_itself_and_is_saved_as_a_report(report: GraphReport, tmp_path: Path) -> None:
    text = str(report)
    assert "torch.compile for CPU, torch 2.13.0+cpu" in text
    assert "Data-dependent branching" in text
    assert report.kernels[0].name in text
    again = kernellab.load(report.save(tmp_path / "log.klgraph"))
    assert again.capture == report.capture


@pytest.mark.slow
def test_what_an_h200_logged_opens_down_to_its_kernels() -> None:
    """The log of torch 2.11 on an H200, as `tests.support.torch_logs` made it."""
    log = kernellab.load(HERE / "trace_of_h200.log", trust=True)
    assert isinstance(log, GraphReport)
    assert log.error == ""
    assert (log.capture.gpu, log.capture.torch_version) == ("NVIDIA H200", "2.11.0+cu130")
    assert [one.direction for one in log.graphs] == ["forward", "backward"] * 4
    first = log.graphs[0].kernels[0]
    assert first.name == "triton_per_fused_add_gt_sin_sum_0"
    assert {position.line for position in log.graphs[0].positions(first)} == {6, 7}
    assert isinstance(first.kernel, TileKernel)
    assert first.compilation.target.name == "sm_90"
    assert "sass" in first.compilation.stages


def test_kernels_of_a_gpus_log_are_kernels_of_the_lab(tmp_path: Path) -> None:
    """The kernels are those that an H200 recorded."""
    sources: dict[str, str] = json.loads(H200.read_text())["graphs"]["softmax"]
    code = ["# AOT ID: ['0_inference']"]
    code += [
        f"{name} = async_compile.triton('{name}', '''{source}''', device_str='cuda')"
        for name, source in sources.items()
    ]
    code += ["class Runner:", "    def call(self, args):", "        buf0 = args[0]"]
    code += [f"        {name}.run(arg0_1, buf0, 64, stream=stream0)" for name in sources]
    frame = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    file = tmp_path / "any name"
    file.write_text(
        entry({"str": ["/m.py", 3]})
        + entry({"dynamo_start": {"stack": [{"line": 9, "name": "f", "filename": 3}]}, **frame})
        + entry(
            {"artifact": {"name": "fx_graph_runnable", "encoding": "string"}, **frame},
            "# torch version: 2.11.0+cu130\n# GPU Hardware Info: \n# NVIDIA H200 : 1 \n",
        )
        + entry({"inductor_output_code": {"filename": "/tmp/c.py"}, **frame}, "\n".join(code))
    )
    report = kernellab.load(file, trust=True)
    made = report.capture
    assert (made.name, made.gpu, made.target) == ("f", "NVIDIA H200", "sm_90")
    assert [one.source for one in report.kernels] == list(sources.values())
    assert list(report.graphs[0].launches.name) == list(sources)
    kernel = report.kernels[0]
    assert isinstance(kernel.kernel, TileKernel)
    assert "sass" in kernel.compilation.stages


def test_a_folder_of_logs_is_that_of_the_process_that_compiled(
    tmp_path: Path, raised: Raised
) -> None:
    name = "dedicated_log_torch_trace_{}.log"
    (tmp_path / name.format("a")).write_bytes(LOG.read_bytes())
    quiet = {"artifact": {"name": "torch_version", "encoding": "json"}}
    (tmp_path / name.format("b")).write_text(entry(quiet, '{"pytorch_version": "2.11.0"}'))
    assert kernellab.load(tmp_path).capture.name == "branching"
    raised(ArchiveError, kernellab.load, tmp_path / name.format("b"))
    (tmp_path / name.format("c")).write_bytes(LOG.read_bytes())
    with pytest.raises(ArchiveError, match="2 processes") as caught:
        kernellab.load(tmp_path)
    refused = caught.value
    assert name.format("c") in str(refused)


@pytest.mark.parametrize("end", [0.2, 0.5, 0.9])
def test_a_log_that_breaks_off_is_a_report_of_what_is_there(end: float, tmp_path: Path) -> None:
    content = LOG.read_bytes()
    file = tmp_path / "cut.log"
    file.write_bytes(content[: int(end * len(content))])
    report = kernellab.load(file)
    assert 0 < len(report.capture.frames) <= 4
    assert "damaged or cut off" in report.error
    assert "it ends in the middle of line" in report.error
    assert "stopped" in str(report)


DAMAGES = {
    "a word of a text": (b"torch.sin", b"torch.son", "does not match its checksum"),
    "JSON": (b'{"dynamo_output_graph": {', b'{"dynamo_output_graph": {{',
        "line 73: it is cut off or damaged: Expecting property name", ),
    "depth": (b'{"aot_joint_graph": {}', b'{"aot_joint_graph": ' + b"[" * 200_000,
        "line [0-9]+: it is damaged: its lists and objects are nested", ),
}  # fmt: skip
"""What is damaged -> its text in the log, what is put there, and what is said of it."""


@pytest.mark.parametrize("what", list(DAMAGES))
def test_damage_is_told_with_its_place(what: str, tmp_path: Path) -> None:
    (old, new, words), content = DAMAGES[what], LOG.read_bytes()
    assert old in content
    (tmp_path / "log").write_bytes(content.replace(old, new))
    report = kernellab.load(tmp_path / "log")
    assert report.graphs
    assert re.search(words, report.error)


def test_nothing_of_a_log_is_executed(tmp_path: Path) -> None:
    code = "import sys; sys.executed = True\n"
    kernel = f"k = async_compile.triton('k', '''{code}@triton.jit\ndef k(): pass''')\n"
    (tmp_path / "log").write_text(
        entry({"inductor_output_code": {}, "frame_id": 0}, f"{code}{kernel}def call(args):\n")
    )
    report = kernellab.load(tmp_path / "log")
    assert str(report)
    assert report.kernels[0].source.startswith(code)
    assert not hasattr(sys, "executed")


def test_texts_of_a_log_are_escaped(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    said = {"dynamo_start": {"stack": [{"line": 1, "name": bad, "filename": 0}]}, "frame_id": 0}
    graph = f'def forward(self, x: "f32[1]"):\n    y = torch.sin(x)  # {bad}\n    return y'
    (tmp_path / "log").write_text(
        entry({"str": ["/m.py", 0]})
        + entry(said)
        + entry({"dynamo_output_graph": {}, "frame_id": 0}, graph)
    )
    html = kernellab.load(tmp_path / "log")._repr_mimebundle_()["text/html"]
    assert "alert(1)" in html
    assert "<script" not in html


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["attention_causal_bf16", "embedding", "reduction_dynamic"])
def test_graphs_and_code_read_as_what_they_were_printed_from(name: str) -> None:
    from kernellab.graphs.captures import gpu_named
    from kernellab.torch_api.capture import Backend, capture

    torch._dynamo.reset()
    case = CASES[name]
    function, args = case.make("cpu")
    backend = Backend(gpu_named("h200").answering, levels=False)
    made = capture(
        function, args, {}, backend, backward=case.backward, dynamic=case.dynamic, fullgraph=False
    )
    torch._dynamo.reset()
    levels = [frame.fx for frame in made.frames]
    levels += [level for one in made.lowered for level in (one.aten, one.post_grad)]
    for level in levels:
        read = torch_texts.level_in(level.name, level.text)
        assert [_comparable(node) for node in read.nodes] == list(map(_comparable, level.nodes))
    for one in made.lowered:
        kernels = kernels_in(one.wrapper, {})
        assert [code.source for code in kernels] == [code.source for code in one.kernels]
        assert [set(code.origins) for code in kernels] == [set(c.origins) for c in one.kernels]
        names = [call.name for call in launches_in(one.wrapper, kernels)]
        assert names == [call.name for call in one.launches]


def _comparable(node: GraphNode) -> GraphNode:
    """What both know of a node: a text has no origins, strides and sources of inputs, and names
    functions in full.
    """
    is_input = node.opcode == "placeholder"
    return replace(
        node,
        target="" if is_input else node.target.rpartition(".")[2].strip("_"),
        position=None if is_input else node.position,
        inputs=tuple(sorted(node.inputs)),
        origins=(),
        modules=(),
        strides=None,
    )


@pytest.mark.parametrize(
    ("text", "target", "args"),
    [
        ('y: "f32[2][1]cpu" = -x;  x = None', "operator.neg", "(x,)"),
        ("x[(0, slice(None))] = 1;  y = x", "operator.setitem", "(x, (0, slice(None)), 1)"),
        ("x += 1;  y = x", "operator.iadd", "(x, 1)"),
        ('y = x[(1, "a, b")]', "operator.getitem", '(x, (1, "a, b"))'),
        ("y = x.shape", "getattr", "(x, 'shape')"),
        ("y = self.layers.weight", "layers.weight", "()"),
        ("y = x @ x", "operator.matmul", "(x, x)"),
    ],
)
def test_what_a_line_does(text: str, target: str, args: str) -> None:
    level: Level = torch_texts.level_in("fx", f"def forward(self, x):\n    {text}\n    return y")
    found: dict[str, Any] = {node.name: node for node in level.nodes}
    assert (found["y"].target, found["y"].args) == (target, args)
    assert list(found) == ["x", "y", "output"]
    assert found["y"].strides == ((1,) if "[2][1]" in text else None)
