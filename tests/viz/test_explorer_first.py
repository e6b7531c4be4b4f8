"""What an explorer answers before a click: what a pass changed, what differs, all in sight."""

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import kernellab
from kernellab.profiling.profiles.nsight import lines_of
from kernellab.records.display import show
from tests.support import recorded_profiles as recorded
from tests.support.compiled import of_corpus
from tests.viz.browser import OpenPage, box_of
from tests.viz.explorer_page import lit_numbers, pane

RECORDS: dict[str, Callable[[], Any]] = {
    "one": lambda: of_corpus("matmul", "sm_90"),
    "two": lambda: kernellab.compare(of_corpus("matmul", "sm_80"), of_corpus("matmul", "sm_90")),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """An explorer of one compilation, or of two."""
    folder = tmp_path_factory.mktemp("pages")
    return functools.cache(lambda name: show(RECORDS[name]()).to_html(folder / f"{name}.html"))


def is_whole_in(one: Locator, around: Locator) -> bool:
    """Whether nothing of an element is cut by another."""
    inner, outer = box_of(one), box_of(around)
    return (
        inner["x"] >= outer["x"]
        and inner["y"] >= outer["y"]
        and inner["x"] + inner["width"] <= outer["x"] + outer["width"]
        and inner["y"] + inner["height"] <= outer["y"] + outer["height"]
    )


def out_and_in(page: Page) -> None:
    """Take the view out of its page and put it back, as JupyterLab does with cells out of sight."""
    page.locator(".kl-root").evaluate(
        "root => { const place = root.parentElement; root.remove(); "
        "setTimeout(() => place.append(root), 100); }"
    )


def test_the_first_changed_operation_is_lit_in_every_pane(open_page, pages) -> None:
    page = open_page(pages("one"))
    chosen = pane(page, 1).locator(".kl-chosen")
    expect(chosen).to_contain_text("ttg.local_alloc")
    expect(chosen).to_be_in_viewport()
    expect(pane(page, 0).locator(".kl-lit")).to_contain_text("a = tl.load(a_ptrs")
    expect(page.locator(".kl-status")).to_contain_text("ttgir.accelerate_matmul line")
    out_and_in(page)
    expect(chosen).to_be_in_viewport()
    # Another pass shows what it changed, until the reader chooses a line.
    page.locator(".kl-root").press("}")
    before = lit_numbers(pane(page, 1))
    page.locator(".kl-pass", has_text="pipeline").first.click()
    expect(chosen).to_be_in_viewport()
    assert lit_numbers(pane(page, 1)) != before
    line = pane(page, 0).locator(".cm-line", has_text="tl.store(")
    line.click(position={"x": 120, "y": 6})
    page.locator(".kl-pass", has_text="accelerate_matmul").first.click()
    expect(pane(page, 0).locator(".kl-chosen")).to_contain_text("tl.store(")


@pytest.mark.slow
def test_a_profile_opens_at_its_hottest_line(open_page: OpenPage) -> None:
    compilation, profile = recorded.compilation("matmul"), recorded.profile("matmul")
    by_line = Counter[int]()
    for line, one in lines_of(profile, compilation).items():
        for there in compilation.source_map.lines("sass", "source", line):
            by_line[there] += one.stalls
    view = compilation.explore(profile)
    page = open_page(view)
    expect(pane(page, 0).locator(".kl-chosen")).to_be_in_viewport()
    assert lit_numbers(pane(page, 0)) == {by_line.most_common()[0][0]}
    expect(pane(page, 1).locator(".kl-lit").first).to_be_in_viewport()


@pytest.mark.slow
def test_names_of_layouts_are_folded_until_they_are_wanted(open_page, pages) -> None:
    page = open_page(pages("one"))
    text = pane(page, 1)
    expect(text.locator(".kl-chosen")).to_be_visible()
    text.locator(".cm-scroller").evaluate("one => { one.scrollTop = 0; }")
    folded = text.get_by_role("button", name="names of layouts")
    expect(folded).to_be_visible()
    expect(text.locator(".cm-line", has_text="#blocked = ")).to_have_count(0)
    folded.click()
    expect(text.locator(".cm-line", has_text="#blocked = ")).to_be_visible()


@pytest.mark.slow
def test_a_comparison_begins_with_its_deltas_at_the_largest_difference(open_page, pages) -> None:
    left, right = of_corpus("matmul", "sm_80").resources, of_corpus("matmul", "sm_90").resources
    page = open_page(pages("two"))
    deltas = page.locator(".kl-deltas")
    expect(deltas).to_contain_text(f"registers {left.registers} to {right.registers}")
    sizes = [f"{one.shared_bytes / 1024:g}" for one in (left, right)]
    if left.shared_bytes != right.shared_bytes:
        expect(deltas).to_contain_text(f"shared memory {sizes[0]} to {sizes[1]} KB")
    expect(page.get_by_role("radio", name="Differences")).to_have_attribute("aria-checked", "true")
    expect(page.locator(".kl-facts b")).to_have_text("ttgir.accelerate_matmul")
    first = page.locator(".cm-merge-b .cm-changedLine", has_text="ttg.local_alloc").first
    expect(first).to_be_in_viewport()
    out_and_in(page)
    expect(first).to_be_in_viewport()


@pytest.mark.slow
@pytest.mark.parametrize("width", [420, 700, 1000])
def test_passes_are_a_strip_of_dots_above_the_panes(open_page, pages, width: int) -> None:
    count = len(of_corpus("matmul", "sm_90").passes)
    page = open_page(pages("one"), width=width, height=1400)
    strip, panes = page.locator(".kl-passes"), page.locator(".kl-panes")
    expect(strip.locator(".kl-pass:visible")).to_have_count(count)
    assert all(is_whole_in(one, strip) for one in strip.locator(".kl-pass").all())
    above, below = box_of(strip), box_of(panes)
    assert above["height"] < 100
    assert above["y"] + above["height"] <= below["y"]
    assert below["width"] > 0.95 * (width - 60)
    strip.locator(".kl-pass").first.click()
    expect(page.locator(".kl-facts b")).to_have_text("source.front_end")
    for place in (page.locator(".kl-status"), page.locator(".kl-general").first):
        assert is_whole_in(place, page.locator(".kl-root"))


@pytest.mark.parametrize(
    "width", [420, *(pytest.param(n, marks=pytest.mark.slow) for n in (1000, 1400))]
)
def test_a_tooltip_is_whole_and_begins_with_the_type(open_page, pages, width: int) -> None:
    page = open_page(pages("one"), width=width, height=1300)
    pane(page, 1).locator(".kl-chosen .kl-value").first.hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("!ttg.memdesc<128x64xf16, #shared, #smem>")
    assert is_whole_in(tip, page.locator(".kl-root"))
    assert tip.evaluate("one => one.scrollHeight <= one.clientHeight + 1")
    second = tip.locator(":scope > *").nth(1)
    expect(second).to_have_class("kl-name-type")
