"""The view of torch.compile's levels: its links against the record, and reports of every kind."""

import dis
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import kernellab
from kernellab.errors.sources import SourcePosition
from kernellab.graphs.report import GraphReport
from kernellab.records.graphs import CapturedFrame, GraphBreak, GraphCapture, GraphNode, Level
from kernellab.viz.graph_data import GraphChain, GraphLevel, GraphView, LinkedText, bytecode_lines
from kernellab.viz.graph_levels import MOST_BESIDE
from kernellab.viz.graphs import displayed
from tests.support.pages import unpacked
from tests.viz.graph_report import FILE, Blocks

HOSTILE = "<img src=x onerror=alert(1)></script>"


@pytest.fixture(scope="module")
def report() -> Any:
    return kernellab.load(FILE)


@pytest.fixture(scope="module")
def data(report: GraphReport) -> GraphView:
    found: GraphView = report.explore().data
    return found


def of_chain(data: GraphView, chain: GraphChain, name: str) -> GraphLevel:
    (found,) = (data.levels[one] for one in chain.levels if data.levels[one].name == name)
    return found


def texts_of(data: GraphView, level: GraphLevel) -> list[LinkedText]:
    return [one for one in data.texts if data.levels[one.level] is level]


def marked(text: LinkedText) -> Iterator[tuple[str, int]]:
    """Lines that stand for an element, and that element."""
    lines = (text.text.content or "").split("\n")
    for first, last, element in zip(*(text.spans[start::3] for start in range(3)), strict=True):
        yield "\n".join(lines[first - 1 : last]), element


def test_every_graph_goes_from_the_source_to_lines_of_kernels(data: GraphView) -> None:
    assert [one.name for one in data.chains] == ["forward 0", "backward 0"]
    names = [[data.levels[level].name for level in chain.levels] for chain in data.chains]
    assert names[0] == [
        *("source", "bytecode", "breaks", "fx", "aten", "prims", "post_grad"),
        *("loops", "launches", "lines"),
    ]
    assert names[0] == names[1]
    forward, backward = data.chains
    assert forward.levels[:3] == backward.levels[:3]  # both are of one graph of Dynamo's
    for chain in data.chains:
        for number in chain.levels:
            level = data.levels[number]
            known = len(data.levels[level.above].names) if level.above >= 0 else 0
            assert all(0 <= one < known for origins in level.origins for one in origins)


def test_lines_of_texts_are_those_of_their_nodes(data: GraphView) -> None:
    for level in data.levels:
        if level.name not in ("fx", "aten", "prims", "post_grad"):
            continue
        (text,) = texts_of(data, level)
        found = list(marked(text))
        assert len(found) == len(level.names)
        for line, element in found:
            word = "return" if level.labels[element] == "output" else level.names[element]
            assert re.search(rf"\b{word}\b", line)


def test_a_kernels_line_leads_to_the_line_of_the_model(data: GraphView) -> None:
    """What computes an erf is the GELU's; its text is the model's own file."""
    forward = data.chains[0]
    levels = [of_chain(data, forward, name) for name in ("lines", "loops", "post_grad", "aten")]
    starts = {n for n, name in enumerate(levels[0].names) if "libdevice.erf(" in name}
    assert starts
    for level in levels:
        starts = {origin for one in starts for origin in level.origins[one]}
    fx = of_chain(data, forward, "fx")
    (source,) = texts_of(data, data.levels[0])
    lines = {element: line for line, element in marked(source)}
    (gelu,) = {lines[fx.lines[one]].strip() for one in starts if "gelu" in fx.labels[one]}
    assert gelu == "down: torch.Tensor = self.down(functional.gelu(self.up(x)))"


def test_gradients_lead_to_the_forward_operations(data: GraphView) -> None:
    backward = data.chains[1]
    aten, fx = of_chain(data, backward, "aten"), of_chain(data, backward, "fx")
    norms = [n for n, label in enumerate(aten.labels) if label == "rsqrt"]
    assert {fx.labels[origin] for one in norms for origin in aten.origins[one]} <= {
        "torch.nn.functional.layer_norm"
    }
    shown = sum(bool(one) for one in aten.origins)
    called = sum(label not in ("placeholder", "output") for label in aten.labels)
    assert shown >= 0.9 * called


def test_kernels_that_are_launched_again_are_of_each_layer(report, data) -> None:
    """Both blocks use one softmax kernel: its lines are of the buffers of both."""
    graph = report.graphs[0]
    (kernel,) = (one.code for one in graph.kernels if one.code.reused and "softmax" in one.name)
    uses = [kernel.operations, *kernel.reused]
    calls = [one for one in graph.lowered.launches if one.name == kernel.name]
    assert [set(one.operations) for one in calls] == [set(one) for one in uses]
    lines, loops = (of_chain(data, data.chains[0], name) for name in ("lines", "loops"))
    (head,) = (n for n, name in enumerate(lines.names) if name.startswith(f"def {kernel.name}("))
    named = {loops.names[one].partition(":")[0] for one in lines.origins[head]}
    assert named == {operation for use in uses for operation in use}


def test_modules_are_groups(data: GraphView) -> None:
    aten = of_chain(data, data.chains[0], "aten")
    names = [one.name for one in aten.all_groups]
    assert {"blocks.0", "blocks.0.norm", "blocks.1.down"} <= set(names)
    for group in aten.all_groups:
        if "." in group.name.removeprefix("blocks."):
            assert aten.all_groups[group.parent].name == group.name.rpartition(".")[0]
    weights = [n for n, name in enumerate(aten.names) if name == "primals_2"]
    assert [names[aten.groups[one]] for one in weights] == ["blocks.0.norm"]  # who takes it has it


def test_fusions_say_what_they_are_of(report: GraphReport, data: GraphView) -> None:
    for graph, chain in zip(report.graphs, data.chains, strict=True):
        loops = of_chain(data, chain, "loops")
        assert len(chain.fusions) == len(graph.lowered.fusions)
        for row in chain.fusions:
            words = {loops.names[one].partition(":")[0] for one in row.elements}
            assert words == {*row.first.split("_"), *row.second.split("_")}


def test_bytecode_is_read_as_dis_means_it() -> None:
    code = Blocks.forward.__code__
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    shown = text.getvalue().split("\n")
    found = [(shown[at - 1].split(), line) for at, line in bytecode_lines(text.getvalue())]
    line, expected = 0, []
    starts = dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        line = starts.get(one.offset) or line
        expected.append((one.opname, line))
    assert [one for _, one in found] == [one for _, one in expected]
    for (words, _), (name, _) in zip(found, expected, strict=True):
        assert name in words


def test_texts_travel_behind_the_script(report: GraphReport, data: GraphView) -> None:
    view = report.explore()
    head, (script, *texts) = data.in_parts()
    assert b"export" in script
    assert [one.text.part for one in head.texts] == list(range(2, 2 + len(texts)))
    assert [text.decode() for text in texts] == [one.text.content for one in data.texts]
    sent = unpacked(view.packed_data())
    assert {one["text"]["content"] for one in sent["texts"]} == {None}
    assert "Not fused" in repr(view)


def test_the_card_leads_to_the_levels(report: GraphReport) -> None:
    view = displayed(report)
    (link,) = (link for table in view.data.tables for link in table.links)
    assert (link.words, link.tab_id) == ("Explore", "graph")


def capture(**changes: Any) -> GraphCapture:
    empty: tuple[Any, ...] = ()
    nothing = GraphCapture(
        "f", "h200", "sm_90", "2.13", empty, empty, empty, empty, empty, empty, "", 0.0
    )
    return replace(nothing, **changes)


def node(number: int, **changes: Any) -> GraphNode:
    """A call that takes the one before it."""
    name, inputs = f"sin_{number}", (f"sin_{number - 1}",) if number else ()
    made = GraphNode(name, "call_function", "torch.sin", "", "", (2,), "float32", None, (), inputs)
    return replace(made, **changes)


def test_an_empty_report_says_so() -> None:
    empty = GraphReport(capture(error="ValueError: nothing compiles"))
    view = empty.explore()
    assert view.data.chains == ()
    assert any("nothing compiles" in note for note in view.data.notes)
    assert "nothing compiles" in view.still_html()


def test_what_was_captured_and_not_lowered_is_drawn(messages) -> None:
    second = node(1, shape=(2, 3), strides=(1, 2))
    frame = CapturedFrame(0, Level("fx", "", (node(0, strides=(1,)), second)), None)
    found = GraphReport(capture(frames=(frame,))).explore().data
    (chain,) = found.chains
    assert chain.remark == messages
    assert found.levels[chain.levels[-1]].inputs == ((), (0,))
    assert found.levels[chain.levels[-1]].facts == ("f32[2]", "f32[2, 3] strides [1, 2]")


def test_a_failed_level_says_why(report: GraphReport) -> None:
    first, second = report.capture.lowered
    failed = replace(first, prims=Level("prims", "", (), "NotImplementedError: no such"))
    data = GraphReport(replace(report.capture, lowered=(failed, second))).explore().data
    assert of_chain(data, data.chains[0], "prims").remark == "NotImplementedError: no such"


def test_a_flat_graph_of_five_thousand_nodes_is_in_groups_that_can_be_drawn() -> None:
    level = Level("fx", "", tuple(node(number) for number in range(5000)))
    frame = CapturedFrame(0, level, None)
    found = GraphReport(capture(frames=(frame,))).explore().data.levels[-1]
    sizes = [found.groups.count(one) for one in range(len(found.all_groups))]
    assert sum(sizes) == 5000
    assert max(sizes) <= MOST_BESIDE
    assert len(sizes) <= MOST_BESIDE


def test_files_of_a_saved_report_are_not_opened(tmp_path: Any) -> None:
    """A report may come from anywhere: what it names is not read, what it holds is shown."""
    secret = tmp_path / "secret.py"
    secret.write_text("password = 'kept'\n")
    here = SourcePosition(str(secret), 1)
    frame = CapturedFrame(0, Level("fx", "", (node(0, position=here),)), None)
    view = GraphReport(capture(frames=(frame,))).explore()
    assert "kept" not in repr([one.text for one in view.data.texts])
    assert "secret.py" in view.data.levels[0].remark


def test_hostile_names_are_text(report: GraphReport) -> None:
    named = GraphReport(replace(report.capture, name=HOSTILE)).explore()
    assert "<img src=x" not in named.still_html()
    assert "<img src=x" not in named._repr_mimebundle_()["text/html"]


def test_graph_breaks_are_linked_with_their_lines(report: GraphReport) -> None:
    position = next(node.position for node in report.graphs[0].fx.nodes if node.position)
    stop = GraphBreak("print was called", "", ("Remove it.",), position)
    data = GraphReport(replace(report.capture, breaks=(stop,))).explore().data
    level = of_chain(data, data.chains[0], "breaks")
    (text,) = texts_of(data, level)
    words = text.text.content or ""
    assert words.startswith(f"Graph break 0, {position}: print was called\n    Remove it.")
    assert all(guard.condition in words for guard in report.guards)
    ((_, element),) = marked(text)
    source = data.levels[level.above]
    assert [source.names[line] for line in level.origins[element]] == [
        f"{position.file.rpartition('/')[2]}:{position.line}"
    ]
