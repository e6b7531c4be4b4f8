"""Reading in the IR explorer without a mouse, in a narrow place, with a reader of the screen."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import kernellab
from kernellab.errors import CompileError
from kernellab.records.display import show
from tests.kernels import basic
from tests.support.compiled import compiled, of_corpus
from tests.viz.browser import OpenPage, box_of
from tests.viz.explorer_page import NAMELESS, line_with, pane, shown_numbers, soon, stops_of_tab

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An explorer of one compilation, of two, and of one that failed."""
    folder = tmp_path_factory.mktemp("pages")
    matmul = of_corpus("matmul", "sm_90")
    two = kernellab.compare(of_corpus("softmax", "sm_80"), of_corpus("softmax", "sm_90"))
    with pytest.raises(CompileError) as caught:
        compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024, skip="convert_to_ttgpuir")
    shown = {"one": matmul, "two": two, "failed": caught.value}
    return {name: show(record).to_html(folder / f"{name}.html") for name, record in shown.items()}


def with_the_product_chosen(page: Page) -> None:
    page.locator(".kl-root").press("3")
    line_with(pane(page, 0), "tl.dot(").click(position={"x": 120, "y": 6})
    expect(pane(page, 2).locator(".kl-lit").first).to_be_visible()


def test_the_bottom_says_in_words_what_is_lit(open_page: OpenPage, pages: dict[str, Path]) -> None:
    source_map = of_corpus("matmul", "sm_90").source_map
    page = open_page(pages["one"])
    with_the_product_chosen(page)
    status = page.locator(".kl-status")
    (line,) = map(int, re.findall(r"^source line (\d+)", status.inner_text()))
    for stage, name in (("ttgir", "TTGIR"), ("sass", "SASS")):
        count = len(source_map.lines("source", stage, line))
        expect(status).to_contain_text(f"{count} lines of {name}")
    line_with(pane(page, 0), "tl.store(").click(position={"x": 120, "y": 6})
    expect(status).to_contain_text("note: ttg.convert_layout")
    pane(page, 2).locator(".kl-lit").first.click(position={"x": 30, "y": 6})
    expect(status).to_contain_text("the warp's next instruction follows after")


def test_keys_go_to_lit_lines_that_are_off_the_screen(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    page = open_page(pages["one"])
    page.locator(".kl-root").press("3")
    line_with(pane(page, 0), "tl.load(a_ptrs").click(position={"x": 120, "y": 6})
    expect(pane(page, 2).locator(".kl-ruler path")).to_have_attribute("d", re.compile("M0 "))
    seen = [shown_numbers(pane(page, 2))]
    for _ in range(3):
        page.keyboard.press(".")
        page.wait_for_timeout(100)
        seen.append(shown_numbers(pane(page, 2)))
        expect(pane(page, 2).locator(".kl-lit").first).to_be_visible()
    assert len({frozenset(one) for one in seen}) > 1
    page.keyboard.press(",")
    page.keyboard.press(",")
    page.keyboard.press(",")
    page.wait_for_timeout(100)
    assert seen[0] & shown_numbers(pane(page, 2))
    strip = pane(page, 2).locator(".kl-ruler")
    tall = box_of(strip)
    strip.click(position={"x": 4, "y": tall["height"] - 2})
    last = pane(page, 2).locator(".cm-line").last
    expect(last).to_be_in_viewport()
    assert max(shown_numbers(pane(page, 2))) > max(seen[0]), "its bottom is the text's end"


def test_a_name_is_explained_and_followed_by_keys(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    page = open_page(pages["one"])
    with_the_product_chosen(page)
    product = pane(page, 1).locator(".kl-lit", has_text="warp_group_dot").first
    product.locator(".kl-value").nth(1).click()  # its first operand
    name = product.locator(".kl-value").nth(1).inner_text()
    page.keyboard.press("i")
    told = page.locator(".kl-name[role=status]")  # not the tip of the mouse
    expect(told.locator("b")).to_have_text(name)
    expect(told).to_contain_text("used on line")
    page.keyboard.press("Escape")
    expect(told).to_have_count(0)
    page.keyboard.press("d")
    expect(pane(page, 1).locator(".kl-chosen")).to_contain_text(
        re.compile(rf"^\s*{re.escape(name)} = ")
    )


def test_one_of_several_results_has_its_own_type_and_layout(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    """The accumulator is the first of three results:
    a tile of the product's layout, not the buffer that the third is.
    """
    page = open_page(pages["one"])
    with_the_product_chosen(page)
    waiting = pane(page, 1).locator(".cm-line", has_text="= ttng.warp_group_dot_wait").first
    waiting.locator(".kl-value").first.click()
    page.keyboard.press("i")
    told = page.locator(".kl-name[role=status] .kl-name-type")
    expect(told).to_have_count(3)
    expect(told.first).to_have_text(re.compile(r"^#0: tensor<128x128xf32, #mma>$"))
    expect(told.last).to_have_text(re.compile(r"^#2: !ttg\.memdesc<64x128xf16, "))


def test_long_lines_wrap_where_differences_are_looked_for(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    page = open_page(pages["one"])
    page.locator(".kl-pass", has_text="accelerate_matmul").first.click()
    expect(page.locator(".cm-lineWrapping")).to_have_count(0)
    page.get_by_role("radio", name="Before | after").click()
    expect(page.locator(".kl-diff .cm-lineWrapping")).to_have_count(2)
    scroller = page.locator(".cm-merge-b .cm-scroller")
    wide = "one => one.scrollWidth > one.clientWidth + 1"
    assert not scroller.evaluate(wide)
    page.keyboard.press("w")
    expect(page.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "false")
    # The comparison is drawn anew, after a moment.
    assert soon(lambda: bool(scroller.evaluate(wide)))


def test_values_that_were_only_renumbered_are_not_marked(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    page = open_page(pages["one"])
    page.locator(".kl-pass", has_text="pipeline").first.click()
    page.get_by_role("radio", name="Before | after").click()
    expect(page.locator(".kl-changes")).to_have_text(re.compile(r"^[2-9] changes$"))
    marked = page.locator(".cm-merge-b .cm-changedLine").all_inner_texts()
    assert any("arith.constant" in one for one in marked), "the constants that the pipeline needs"
    assert not any("tiles_m" in one for one in marked), "they only got other numbers"


OUTSIDE = """root => {
  const tab_id = root.getBoundingClientRect();
  return [...root.querySelectorAll(".kl-tools > *, .kl-pane, .kl-diff-box, .kl-diff-head > *, .kl-pane-head > *, .kl-general, .kl-status")]
    .filter((one) => !one.closest("[hidden]"))
    .filter((one) => { const box = one.getBoundingClientRect(); return box.left < tab_id.left || box.right > tab_id.right || box.bottom > tab_id.bottom || one.scrollWidth > one.clientWidth + 1; })
    .map((one) => `${one.className} ${one.textContent.slice(0, 30)}`);
}"""
"""What the frame of the view cuts, and whose words do not fit."""


def test_panes_of_a_narrow_place_stand_below_each_other(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    page = open_page(pages["one"], width=400)
    expect(page.locator(".kl-root")).to_have_class(re.compile("kl-narrow"))
    first, second = box_of(pane(page, 0)), box_of(pane(page, 1))
    assert second["y"] >= first["y"] + first["height"] - 1
    assert min(first["height"], second["height"]) >= 260
    assert first["width"] > 300
    for mode in ("Before | after", "Stages"):
        page.get_by_role("radio", name=mode).click()
        expect(page.locator(".cm-line").first).to_be_visible()
        outside = page.locator(".kl-root").evaluate(OUTSIDE)
        assert outside == [], mode
    page.set_viewport_size({"width": 1200, "height": 900})
    expect(page.locator(".kl-root")).not_to_have_class(re.compile("kl-narrow"))


CUT_ROWS = """list => {
  const inside = list.getBoundingClientRect();
  const headings = [...list.querySelectorAll(".kl-stage")].map((one) => one.getBoundingClientRect());
  const edge = Math.max(...headings.filter((one) => one.top <= inside.top + 2).map((one) => one.bottom));
  const rows = [...list.querySelectorAll(".kl-pass")].map((one) => ({ words: one.title, box: one.getBoundingClientRect(), chosen: one.ariaSelected === "true" }));
  const cut = rows.filter(({ box }) => box.top < edge - 1 && box.bottom > edge + 1);
  const unseen = rows.filter(({ box, chosen }) => chosen && (box.top < edge - 1 || box.bottom > inside.bottom + 1));
  return [...cut, ...unseen].map((one) => one.words);
}"""
"""The rows that the heading at the top of the list cuts, and the chosen one
if it is not in view."""


def test_no_row_of_the_list_of_passes_is_cut_by_its_heading(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    page = open_page(pages["one"])
    passes = page.locator(".kl-passes")
    assert passes.evaluate("list => list.scrollHeight > 2 * list.clientHeight"), "it is scrolled"
    assert passes.evaluate(CUT_ROWS) == [], "at first"
    for key, times in (("Home", 1), ("ArrowDown", 24), ("End", 1), ("ArrowUp", 24), ("Home", 1)):
        for _ in range(times):
            passes.press(key)
            assert passes.evaluate(CUT_ROWS) == [], key


@pytest.mark.parametrize("name", ["one", "two", "failed"])
def test_everything_has_a_name_and_a_place_for_readers_of_the_screen(
    open_page: OpenPage, pages: dict[str, Path], name: str
) -> None:
    page = open_page(pages[name])
    for mode in page.get_by_role("radio").all():
        mode.click()
        expect(mode).to_have_attribute("aria-checked", "true")
        assert page.locator(".kl-root").evaluate(NAMELESS) == []


def test_tab_reaches_everything_and_shows_where_it_is(
    open_page: OpenPage, pages: dict[str, Path]
) -> None:
    page = open_page(pages["one"])
    stops = stops_of_tab(page)
    assert all(visible for _, visible in stops), [what for what, visible in stops if not visible]
    reached = " | ".join(what for what, _ in stops)
    for part in (
        "After a pass",
        "Bars beside",
        "Find",
        "Keys",
        "Search passes",
        "Passes",
        "Width of the list",
        "Text of pane 1",
        "Text of pane 2",
        "source",
        "after ttgir",
    ):
        assert part in reached, part
    chosen = page.get_by_role("radio", name="After a pass")
    chosen.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Before | after")).to_be_focused()
    expect(page.locator(".kl-diff")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_be_focused()
