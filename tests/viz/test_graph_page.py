"""torch.compile's levels in Chromium: what a click lights, boxes that open, names that are HTML."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import kernellab
from kernellab.graphs.report import GraphReport
from tests.viz.graph_report import FILE

HOSTILE = "<img src=x onerror=alert(1)></script>"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with the IR of the softmax's kernel, of a model whose names are HTML."""
    report = kernellab.load(FILE, trust=True)  # a file of the tests
    capture = replace(report.capture, name=HOSTILE)
    first, *rest = capture.lowered
    nodes = [
        replace(node, modules=tuple(replace(one, kind=HOSTILE) for one in node.modules))
        for node in first.aten.nodes
    ]
    first = replace(first, aten=replace(first.aten, nodes=tuple(nodes)))
    report = GraphReport(replace(capture, lowered=(first, *rest)))
    kernel = next(one.name for one in report.kernels if "softmax" in one.name)
    view = report.explore()
    file: Path = view.to_html(tmp_path_factory.mktemp("page") / "graph.html", tabs=[kernel])
    return file


@pytest.fixture
def page(open_page, page_file: Path):
    found = open_page(page_file, width=1020)
    found.on("dialog", lambda dialog: pytest.fail(f"the page ran {dialog.message!r}"))
    found.wait_for_selector("[data-drawn]")
    return found


def pane(page: Page, number: int) -> Locator:
    return page.locator(".kl-graph-texts .kl-pane").nth(number)


def items(page: Page) -> int:
    return int(page.locator(".kl-graph-box").get_attribute("data-items") or 0)


def counted(page: Page) -> dict[str, int]:
    """The lit elements of each level, as its button says."""
    found: dict[str, int] = page.locator(".kl-graph .kl-modes .kl-graph-count").evaluate_all(
        "all => Object.fromEntries("
        "all.map((one) => [one.previousSibling.textContent, Number(one.textContent)]))"
    )
    return found


@pytest.mark.slow
def test_a_click_lights_what_belongs_together_on_every_level(page: Page) -> None:
    expect(page.locator(".kl-graph .kl-head b")).to_have_text(HOSTILE)
    line = pane(page, 0).locator(".cm-line", has_text="functional.gelu").first
    line.click()
    expect(pane(page, 1).locator(".cm-line.kl-lit").first).to_be_visible()
    lit = counted(page)
    assert set(lit) >= {"FX", "ATen", "Prims", "After passes", "Loop IR", "Kernels"}
    pane(page, 1).locator("select").select_option("lines/0")
    error = pane(page, 1).locator(".cm-line.kl-lit", has_text="libdevice.erf").first
    error.click()
    assert counted(page)["Kernels"] <= lit["Kernels"]
    expect(pane(page, 0).locator(".cm-line.kl-lit", has_text="functional.gelu")).to_be_visible()
    expect(page.locator(".kl-graph-status")).to_contain_text("model.py:")


BORDER = """canvas => {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const drawn = (x, y) => pixels[4 * (y * width + x) + 3] > 0;
  const edge = [...Array(width).keys()].flatMap((x) => [[x, 0], [x, height - 1]]);
  edge.push(...[...Array(height).keys()].flatMap((y) => [[0, y], [width - 1, y]]));
  return [edge.filter(([x, y]) => drawn(x, y)).length, pixels.some((value) => value > 0)];
}"""
"""How many pixels at the canvas's border are drawn, and whether anything is."""


def test_a_graph_opens_fitted_and_refused_pairs_say_why(open_page) -> None:
    report = kernellab.load(FILE)
    page = open_page(report.explore(), width=1020)
    page.wait_for_selector("[data-drawn]")
    page.get_by_role("radio", name="Loop IR").click()
    box = page.locator(".kl-graph-box")
    expect(box).to_have_attribute("data-signs", re.compile(r"\[\{"))
    canvas = box.locator("canvas")
    assert canvas.evaluate(BORDER) == [0, True], "all of the graph is in sight"
    signs = json.loads(box.get_attribute("data-signs") or "")
    canvas.click(position=signs[0])
    status = page.locator(".kl-graph-status [role=status]")
    expect(status).to_contain_text("Not fused, which would save")
    fusions = report.capture.lowered[0].fusions
    most = max((one for one in fusions if not one.fused), key=lambda one: one.saved_bytes)
    reasons = [one.reason for one in fusions if one.saved_bytes == most.saved_bytes]
    assert any(reason in status.inner_text() for reason in reasons)


def test_bytes_of_values_are_those_of_their_shapes() -> None:
    report = kernellab.load(FILE)
    levels = report.explore().data.levels
    aten = next(level for level in levels if level.name == "aten")
    sizes = dict(zip(aten.facts, aten.bytes))
    assert sizes["f32[4, 32, 64]"] == 4 * 32 * 64 * 4
    assert {size for fact, size in sizes.items() if fact.startswith("b8[4, 32, 1]")} <= {4 * 32}
    launches = next(level for level in levels if level.name == "launches")
    assert all(size > 0 for size in launches.bytes)


@pytest.mark.slow
def test_boxes_open_and_close(page: Page) -> None:
    first = items(page)
    page.get_by_role("button", name="Open all").click()
    page.wait_for_function(
        f"Number(document.querySelector('.kl-graph-box').dataset.items) > {first}"
    )
    whole = items(page)
    canvas = page.locator(".kl-graph-box canvas")
    box = page.locator(".kl-graph-box")
    at = json.loads(box.get_attribute("data-map") or "")  # of all of it, at the bottom right
    before = canvas.screenshot()
    canvas.click(position={"x": at["x"] + 5, "y": at["y"] + 90})
    page.wait_for_timeout(100)
    assert canvas.screenshot() != before, "the graph moved"
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".kl-graph-status")).to_contain_text("ATen: ")
    page.keyboard.press("Enter")
    assert items(page) < whole
    page.get_by_role("button", name="Close all").click()
    assert items(page) <= first
    page.get_by_role("radio", name="Loop IR").click()
    expect(canvas).to_have_attribute("aria-label", "Loop IR of forward 0: 36 nodes")


@pytest.mark.slow
def test_a_search_goes_to_the_nodes_that_match(page: Page) -> None:
    status = page.locator(".kl-graph-status [role=status]")
    page.locator(".kl-graph-box canvas").focus()
    page.keyboard.press("/")
    page.keyboard.type("gelu")  # no ATen node is called that: it is written out
    expect(status).to_contain_text("1 of 2 found. FX: gelu")
    page.keyboard.press("Enter")
    expect(status).to_contain_text("2 of 2 found. FX: gelu_1")
    expect(page.get_by_role("radio", name="FX")).to_have_attribute("aria-checked", "true")
    expect(pane(page, 0).locator(".cm-line.kl-lit")).to_contain_text("functional.gelu")
    page.locator(".kl-graph .kl-head input").fill("<b>")
    expect(status).to_have_text('No node has "<b>" in its name, operation, shape or module.')


@pytest.mark.slow
def test_a_kernel_leads_to_its_ir_and_back(page: Page) -> None:
    pane(page, 1).locator("select").select_option("lines/0")
    pane(page, 0).locator(".cm-line", has_text="functional.softmax").first.click()
    pane(page, 1).locator(".cm-line.kl-lit").first.wait_for()
    pane(page, 1).locator(".cm-line", has_text="tmp6 = ").last.click()
    page.locator(".kl-graph-ways button").click()
    status = page.locator(".kl-ir .kl-status")
    expect(status).to_contain_text("source line")
    page.locator(".kl-ir .cm-line", has_text="tmp5 = ").first.click()
    page.locator(".kl-ir .kl-tab[data-tab=graph]").click()
    expect(page.locator(".kl-graph-status")).to_contain_text("Kernel lines: tmp5 = ")


@pytest.mark.slow
def test_pairs_say_whether_they_were_fused(page: Page) -> None:
    page.get_by_role("radio", name="Fusions").click()
    rows = page.locator(".kl-fusions tbody tr")
    whole = rows.count()
    page.locator(".kl-fusions select").select_option("fused")
    fused = rows.count()
    assert 0 < fused < whole
    rows.first.click()
    expect(rows.first).to_have_attribute("aria-selected", "true")
    assert counted(page)["Kernels"] == 1  # one kernel computes both


@pytest.mark.slow
def test_a_backward_graph_is_one_choice_away(page: Page) -> None:
    page.locator(".kl-graph .kl-tools select").select_option("1")
    expect(pane(page, 1)).to_contain_text("tangents")
    pane(page, 0).locator(".cm-line", has_text="functional.gelu").first.click()
    assert counted(page)["Kernels"] > 0
