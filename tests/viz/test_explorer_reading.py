"""Reading in the IR explorer without a mouse, in a narrow place, with a reader of the screen."""

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import triton
from playwright.sync_api import Page, expect

import kernellab
from kernellab.compiler.compilations import Compilation
from kernellab.errors import CompileError
from kernellab.records.display import show
from kernellab.viz.explorer_data import IrSide, IrView, TextData
from kernellab.viz.kit.view import Card, View
from tests.kernels import basic
from tests.support.compiled import compiled, of_corpus
from tests.viz.browser import OpenPage, box_of
from tests.viz.explorer_page import line_with, pane, shown_numbers, soon, stops_of_tab

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


def test_keys_go_to_lit_lines_that_are_off_the_screen(open_page, pages) -> None:
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


def test_a_name_is_explained_and_followed_by_keys(open_page, pages) -> None:
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


def test_one_of_several_results_has_its_own_type_and_layout(open_page, pages) -> None:
    """The accumulator is the first of three results: a tile, not the buffer that the third is."""
    page = open_page(pages["one"])
    with_the_product_chosen(page)
    waiting = pane(page, 1).locator(".cm-line", has_text="= ttng.warp_group_dot_wait").first
    waiting.locator(".kl-value").first.click()
    page.keyboard.press("i")
    told = page.locator(".kl-name[role=status] .kl-name-type")
    expect(told).to_have_count(3)
    expect(told.first).to_have_text(re.compile(r"^#0: tensor<128x128xf32, #mma>$"))
    expect(told.last).to_have_text(re.compile(r"^#2: !ttg\.memdesc<64x128xf16, "))


def test_long_lines_wrap_until_the_reader_says_no(open_page, pages) -> None:
    page = open_page(pages["one"])
    page.locator(".kl-pass", has_text="accelerate_matmul").first.click()
    expect(page.locator(".kl-pane .cm-lineWrapping")).to_have_count(2)
    page.get_by_role("radio", name="Before | after").click()
    expect(page.locator(".kl-diff .cm-lineWrapping")).to_have_count(2)
    scroller = page.locator(".cm-merge-b .cm-scroller")
    wide = "one => one.scrollWidth > one.clientWidth + 1"
    assert not scroller.evaluate(wide)
    page.keyboard.press("w")
    expect(page.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "false")
    # The comparison is drawn anew, after a moment.
    assert soon(lambda: bool(scroller.evaluate(wide)))


def test_values_that_were_only_renumbered_are_not_marked(open_page, pages) -> None:
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


def test_panes_of_a_narrow_place_stand_below_each_other(open_page, pages) -> None:
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


def test_no_row_of_the_list_of_passes_is_cut_by_its_heading(open_page, pages) -> None:
    page = open_page(pages["one"])
    passes = page.locator(".kl-passes")
    assert passes.evaluate("list => list.scrollHeight > 2 * list.clientHeight"), "it is scrolled"
    assert passes.evaluate(CUT_ROWS) == [], "at first"
    for key, times in (("Home", 1), ("ArrowDown", 24), ("End", 1), ("ArrowUp", 24), ("Home", 1)):
        for _ in range(times):
            passes.press(key)
            assert passes.evaluate(CUT_ROWS) == [], key


def test_tab_reaches_everything_and_shows_where_it_is(open_page, pages) -> None:
    page = open_page(pages["one"])
    stops = stops_of_tab(page)
    assert all(visible for _, visible in stops), [what for what, visible in stops if not visible]
    reached = " | ".join(what for what, _ in stops)
    for part in (
        "After a pass", "Bars beside", "Find", "Keys", "Search passes", "Passes",
        "Width of the list", "Text of pane 1", "Text of pane 2", "source", "after ttgir",
    ):  # fmt: skip
        assert part in reached, part
    chosen = page.get_by_role("radio", name="After a pass")
    chosen.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Before | after")).to_be_focused()
    expect(page.locator(".kl-diff")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_be_focused()


NASTY = "<img/src=x/onerror=window.hit=1></script><script>window.hit=1</script>&quot;"
WORDS = {
    "IrView": ("title",), "IrSide": ("name", "kernel", "target", "facts", "failure", "notice"),
    "TextData": ("content",), "PassData": ("label", "name", "arguments", "op_changes"),
    "SourceMapData": ("files",), "MarginNote": ("words", "origin", "advice"),
    "MetricData": ("name", "unit", "origin"), "LayoutWords": ("words",),
    "PassPairData": ("label",),
}  # fmt: skip
"""Fields that hold texts of users or of compilers."""


@pytest.fixture(scope="module")
def addition() -> Compilation:
    return compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024)


def spoilt(value: Any) -> Any:
    """A value whose texts, keys of tables included, all end in something that HTML would run."""
    if isinstance(value, str):
        return value + NASTY
    if isinstance(value, Mapping):
        return {spoilt(key): number for key, number in value.items()}
    return tuple(map(spoilt, value)) if isinstance(value, Sequence) else value


def all_spoilt(data: Any) -> Any:
    if isinstance(data, tuple):
        return tuple(map(all_spoilt, data))
    if not dataclasses.is_dataclass(data) or isinstance(data, type):
        return data
    texts = WORDS.get(type(data).__name__, ())
    made: Callable[[str, Any], Any] = lambda name, one: spoilt(one) if name in texts else all_spoilt(one)  # noqa: E731  # fmt: skip
    fields = {one.name: made(one.name, getattr(data, one.name)) for one in dataclasses.fields(data)}
    return dataclasses.replace(data, **fields)


def view_of(data: IrView) -> View:
    return View(data.title, lambda: data, lambda: [Card(data.title)])


def assert_nothing_ran(page: Page) -> None:
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("sides", [1, 2])
def test_no_text_is_html(open_page: OpenPage, addition: Compilation, sides: int) -> None:
    shown = addition if sides == 1 else kernellab.compare(addition, compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=512))  # fmt: skip
    data = all_spoilt(show(shown).data)
    first = data.sides[0]
    noted = dataclasses.replace(first.notes[0], line=11, severity="warning")
    data = dataclasses.replace(data, sides=(dataclasses.replace(first, notes=(*first.notes, noted)), *data.sides[1:]))  # fmt: skip
    page = open_page(view_of(data))
    expect(page.locator(".kl-head b")).to_contain_text("<img/src=x")
    assert page.title().count("<img") >= 1
    for key in ("1", "2", "3", "?"):
        page.locator(".kl-root").press(key)
        pane_or_diff = page.locator(".cm-content").first
        pane_or_diff.click(position={"x": 60, "y": 30})
        page.locator(".cm-content .kl-value, .cm-content .kl-type").first.hover()
        page.keyboard.press("i")
    page.locator(".kl-general .kl-note-words").first.scroll_into_view_if_needed()
    for summary in page.locator("summary").all():
        if summary.is_visible():
            summary.click()
    assert_nothing_ran(page)


@triton.jit
def nothing() -> None:
    """A kernel that does nothing."""


def test_an_empty_kernel(open_page: OpenPage) -> None:
    view = show(compiled(nothing))
    page = open_page(view)
    page.locator(".kl-root").press("3")
    expect(pane(page, 0)).to_contain_text("def nothing()")
    expect(pane(page, 2)).to_contain_text("EXIT")
    page.locator(".kl-root").press("2")
    expect(page.locator(".kl-changes")).to_have_text(re.compile("change|renumbered"))


def test_one_stage_and_no_pass(open_page: OpenPage, addition: Compilation) -> None:
    data = show(addition).data
    side: IrSide = data.sides[0]
    bare = dataclasses.replace(
        side, stages=side.stages[:1], passes=(), notes=(), controls=(), metrics=(), layouts=()
    )
    page = open_page(view_of(dataclasses.replace(data, sides=(bare,))))
    expect(page.locator(".kl-pane")).to_have_count(1)
    expect(pane(page, 0)).to_contain_text("def add(")
    for key in ("1", "2", "3", "]", "}", "n", ".", "w", "/"):
        page.locator(".kl-root").press(key)
    expect(pane(page, 0)).to_contain_text("def add(")


def after_passes(data: IrView, *contents: str) -> IrView:
    """The view with passes that made these texts, one after the other."""
    side = data.sides[0]
    texts = [TextData("mlir", text, 0, text.count("\n") + 1, ()) for text in contents]
    first = side.passes[0]
    passes = tuple(
        dataclasses.replace(
            first, label=f"llir.huge#{n}", stage="llir", effect="changed",
            text=len(side.texts) + n, place=f"llir.huge#{n}",
        )
        for n in range(len(texts))
    )  # fmt: skip
    huge = dataclasses.replace(side, texts=(*side.texts, *texts), passes=passes)
    return dataclasses.replace(data, sides=(huge,))


LEAVE = """async () => {
  const press = (key) => document.querySelector(".kl-root").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  press("2");
  await new Promise(requestAnimationFrame);
  const words = document.querySelector(".kl-changes").textContent;
  press("1");
  return words;
}"""
"""Ask for a comparison, and for something else before it is there; gives what it said."""


def test_fifty_thousand_lines_are_compared_without_freezing(open_page, addition) -> None:
    # Nearly every line changes: the worst for whoever draws the marks.
    lines = [
        f"    %{n} = llvm.{'add' if n % 3 else 'mul'} %{n // 2}, %{n // 3} : i32"
        for n in range(50_000)
    ]
    other = [line.replace("i32", "i64") if n % 2 else line for n, line in enumerate(lines)]
    other[700:700] = [f"    %new{n} = llvm.mlir.undef : i32" for n in range(40)]
    data = after_passes(show(addition).data, "\n".join(lines), "\n".join(other))
    page = open_page(view_of(data))
    page.locator(".kl-pass").nth(1).click()
    expect(pane(page, 1)).to_contain_text("50,040 lines")
    scrolled = pane(page, 1).locator(".cm-scroller")
    scrolled.evaluate("one => (one.scrollTop = one.scrollHeight)")
    expect(pane(page, 1)).to_contain_text("%49999 =")
    assert pane(page, 1).locator(".cm-line").count() < 300, "only what is on the screen"
    assert page.evaluate(LEAVE) == "comparing …"
    expect(pane(page, 1)).to_contain_text("50,040 lines")
    expect(page.locator(".kl-diff-box")).to_have_count(0)
    page.evaluate(
        """() => {
          window.frames = [];
          const look = () => { window.frames.push(document.querySelector(".kl-changes")?.textContent ?? ""); requestAnimationFrame(look); };
          requestAnimationFrame(look);
        }"""
    )
    page.locator(".kl-root").press("2")
    started = time.monotonic()
    expect(page.locator(".kl-changes")).to_contain_text("more than 4,000 changes", timeout=60_000)
    took = time.monotonic() - started
    assert page.evaluate("window.frames").count("comparing …") > 2, "frames during the work"
    assert page.locator(".cm-line").count() < 600
    # Against the same browser's own speed, since the machine may be busy.
    unit = (
        page.evaluate(
            "() => { const from = performance.now(); let sum = 0; for (let n = 0; n < 2e8; "
            "n++) sum += n % 7; return [performance.now() - from, sum]; }"
        )[0]
        / 1000
    )
    assert took < 20 * max(unit, 0.1), f"{took:.1f} s, and 200 million additions take {unit:.2f} s"
    page.locator(".kl-root").press("1")
    page.locator(".kl-root").press("2")
    expect(page.locator(".kl-changes")).to_contain_text("more than 4,000", timeout=60_000)


def test_lines_of_a_hundred_thousand_characters(open_page: OpenPage, addition: Compilation) -> None:
    line = f"    %a = llvm.mlir.undef : !llvm.struct<({'f32, ' * 20_000}i1)>"
    data = after_passes(show(addition).data, f"{line}\nend", f"{line.replace('i1', 'i8')}\nend")
    page = open_page(view_of(data))
    page.locator(".kl-pass").nth(1).click()
    expect(pane(page, 1)).to_contain_text("%a = llvm.mlir.undef")
    page.locator(".kl-root").press("w")
    expect(pane(page, 1)).to_contain_text("%a = llvm.mlir.undef")
    assert (
        pane(page, 1).locator(".cm-line").first.evaluate("one => one.textContent.length") < 60_000
    )
    page.locator(".kl-root").press("2")
    expect(page.locator(".kl-changes")).to_have_text("1 change")
    page.locator(".cm-merge-b .cm-line").first.click(position={"x": 60, "y": 6})
    page.keyboard.press("i")
    expect(page.locator(".kl-name b").first).to_have_text("%a")
