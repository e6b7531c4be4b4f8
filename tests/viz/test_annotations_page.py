"""Evidence in Chromium, in a page of `to_html` and in JupyterLab: bars, marks, words, keys."""

from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from kernellab.profiling.profiles.nsight import lines_of
from kernellab.records.display import show
from tests.support import recorded_profiles as recorded
from tests.viz import annotation_cases as case

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    view = show(case.compilation(), case.checked(), case.counted(), case.profiled())
    file: Path = view.to_html(tmp_path_factory.mktemp("page") / "thinned.html")
    return file


def stages(page: Page) -> Locator:
    page.wait_for_selector("[data-ready]")
    page.locator(".kl-root").press("3")
    panes = page.locator(".kl-pane")
    expect(panes).to_have_count(3)
    return panes


def bars(pane: Locator) -> dict[int, str]:
    """Number of a line that is on the screen -> the number on its bar."""
    found: list[list[str]] = pane.evaluate(
        """pane => {
          const rows = (kind) => [...pane.querySelectorAll(`${kind} .cm-gutterElement`)].map((one) => [Math.round(one.getBoundingClientRect().top), one.textContent]);
          const lines = new Map(rows(".cm-lineNumbers"));
          return rows(".kl-bars").filter(([, words]) => words).map(([top, words]) => [lines.get(top), words]);
        }"""
    )
    return {int(line): words for line, words in found if line}


def test_bars_are_chosen_by_where_their_numbers_come_from(open_page, page_file) -> None:
    page = open_page(page_file)
    panes = stages(page)
    choice = page.get_by_label("Bars beside the lines")
    groups = choice.locator("optgroup").evaluate_all("all => all.map((one) => one.label)")
    assert groups == [
        "compiler",
        "machine code",
        "run of the interpreter for sm_90, grid 4x1x1",
        "measured on NVIDIA H200 by Nsight Compute",
    ]
    expect(choice).to_have_value("sectors")
    load, store = case.counted()
    expected = {
        case.line_of("# strided"): load.sectors,
        case.line_of("# the call"): load.sectors,
        case.line_of("# the store"): store.sectors,
    }
    assert bars(panes.nth(0)) == {line: f"{number:,}" for line, number in expected.items()}
    expect(page.locator(".kl-origin")).to_have_text("run of the interpreter for sm_90, grid 4x1x1")

    choice.select_option("stalls: wait")
    expect(page.locator(".kl-origin")).to_have_text("measured on NVIDIA H200 by Nsight Compute")
    measured = {
        one.line: f"{number}"
        for i, one in enumerate(case.compilation().instructions)
        if (number := i % 3) and one.opcode != "NOP"
    }
    shown = bars(panes.nth(2))
    assert shown
    assert shown.items() <= measured.items()
    bar = panes.nth(2).locator(".kl-bar").first
    expect(bar).to_have_attribute(
        "title",
        r"1 samples that found a warp waiting for the cycles that the compiler has set "
        r"(measured on NVIDIA H200 by Nsight Compute)",
    )
    choice.select_option("no bars")
    expect(page.locator(".kl-bar")).to_have_count(0)


def test_a_mark_tells_words_and_advice(open_page, page_file: Path) -> None:
    (finding,) = case.checked()
    page = open_page(page_file)
    panes = stages(page)
    mark = panes.nth(0).locator(".kl-note")
    expect(mark).to_have_count(1)
    expect(mark).to_have_text("✖")
    words = mark.get_attribute("title") or ""
    assert finding.message in words
    assert f"Try: {finding.advice}" in words
    assert "warning: this load is strided" in words
    mark.click()
    expect(page.locator(".kl-status")).to_contain_text(f"Try: {finding.advice}")
    expect(panes.nth(1).locator(".kl-lit", has_text="tt.load").first).to_be_visible()


def test_findings_are_reached_by_keys_and_read_out(open_page, page_file: Path) -> None:
    (finding,) = case.checked()
    page = open_page(page_file)
    panes = stages(page)
    page.locator(".kl-root").press("m")
    status = page.get_by_role("status")
    expect(status).to_contain_text(f"source line {finding.line}")
    expect(status).to_contain_text(finding.message)
    expect(panes.nth(0).locator(".kl-chosen")).to_contain_text("# strided")
    below = page.get_by_role("region", name="Remarks, findings and measurements")
    expect(below).to_contain_text("[measured on NVIDIA H200 by Nsight Compute]")
    summary = below.locator("summary").first
    expect(summary).to_contain_text("2 remarks and findings on one line")
    summary.focus()
    page.keyboard.press("Enter")
    entries = page.get_by_role("list", name="Remarks and findings").get_by_role("button")
    expect(entries).to_have_count(2)
    expect(entries.first).to_contain_text(f"Try: {finding.advice}")
    panes.nth(0).locator(".cm-line", has_text="# the store").click(position={"x": 40, "y": 6})
    expect(status).to_contain_text(f"source line {case.line_of('# the store')}")
    entries.first.focus()
    page.keyboard.press("Enter")
    expect(status).to_contain_text(f"source line {finding.line}")


def test_a_profile_of_a_real_gpu_has_bars(open_page) -> None:
    compilation, profile = recorded.compilation("matmul"), recorded.profile("matmul")
    view = compilation.explore(profile)
    page = open_page(view)
    panes = stages(page)
    expect(page.get_by_label("Bars beside the lines")).to_have_value("stall samples")
    expect(page.locator(".kl-general")).to_contain_text("18,431 samples of 656 instructions")
    by_line = Counter[int]()
    for line, one in lines_of(profile, compilation).items():
        for there in compilation.source_map.lines("sass", "source", line):
            by_line[there] += one.stalls
    shown = bars(panes.nth(0))
    assert {line: f"{by_line[line]:,}" for line in shown} == shown
    assert len(shown) > 10
    (heaviest, samples), *_ = by_line.most_common()
    load = panes.nth(0).locator(".cm-line", has_text="a = tl.load(")
    load.click(position={"x": 60, "y": 6})
    status = page.get_by_role("status")
    expect(status).to_contain_text(f"source line {heaviest}")
    expect(status).to_contain_text(f"{samples:,} samples that found a warp waiting")
    expect(panes.nth(2).locator(".kl-lit").first).to_be_visible()


KERNEL = """\
%%tilekernel --no-compile
@triton.jit
def thinned(x_ptr, y_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * STEP)
    tl.store(y_ptr + i, x, mask=i < n)
y = torch.zeros(512)
thinned[(4,)](torch.zeros(4096), y, 512, STEP=4, BLOCK=128)"""

EVIDENCE = """\
report = kernellab.check(thinned, (4,), torch.zeros(1600), y, 512, STEP=4, BLOCK=128)
costs = kernellab.accesses(thinned, (4,), torch.zeros(4096), y, 512, STEP=4, BLOCK=128)
%tileir thinned --with report,costs"""


def test_evidence_in_jupyterlab(chromium: Browser, server) -> None:
    setup = "%load_ext kernellab\nimport kernellab, torch, triton, triton.language as tl"
    with server.run(chromium, setup, KERNEL, EVIDENCE) as page:
        root = page.locator(".kl-root[data-ready]")
        expect(root).to_be_visible(timeout=60_000)
        root.press("3")
        source = page.locator(".kl-pane").first
        expect(source.locator(".kl-note")).to_have_text("✖")
        assert bars(source) == {5: "256", 6: "64"}
        root.press("m")
        expect(root.locator(".kl-status")).to_contain_text(
            "out-of-bounds: this load reads x_ptr[1600]"
        )
