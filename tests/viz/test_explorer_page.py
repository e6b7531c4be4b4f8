"""The IR explorer as a page in Chromium: linked lines, passes, differences, keys, bad input."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import kernellab
from kernellab.errors import CompileError
from kernellab.records.display import show
from tests.kernels import basic, faulty
from tests.support.compiled import compiled, of_corpus
from tests.viz.explorer_page import line_with, lit_numbers, pane, shown_numbers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def matmul_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    view = show(of_corpus("matmul", "sm_90"))
    file: Path = view.to_html(tmp_path_factory.mktemp("page") / "matmul.html")
    return file


def test_a_click_lights_the_related_lines_everywhere(open_page, matmul_page) -> None:
    source_map = of_corpus("matmul", "sm_90").source_map
    page = open_page(matmul_page)
    page.locator(".kl-root").press("3")
    expect(page.locator(".kl-pane")).to_have_count(3)
    dot = line_with(pane(page, 0), "tl.dot(")
    dot.click(position={"x": 120, "y": 6})
    (line,) = lit_numbers(pane(page, 0))
    for number, stage in ((1, "ttgir"), (2, "sass")):
        expected = set(source_map.lines("source", stage, line))
        expect(pane(page, number).locator(".kl-lit").first).to_be_visible()
        seen = shown_numbers(pane(page, number))
        assert lit_numbers(pane(page, number)) == expected & seen
        assert expected & seen, f"{stage} scrolled to a line that is lit"
    # And back: from an instruction to the source.
    pane(page, 2).locator(".kl-lit").last.click(position={"x": 30, "y": 6})
    expect(page.locator(".kl-status")).to_contain_text("SASS line")
    (instruction,) = [
        int(number)
        for number in re.findall(r"SASS line (\d+)", page.locator(".kl-status").inner_text())
    ]
    assert lit_numbers(pane(page, 0)) == set(source_map.lines("sass", "source", instruction))


def test_what_was_chosen_is_remembered(open_page, matmul_page: Path) -> None:
    page = open_page(matmul_page)
    page.locator(".kl-explorer").press("3")
    page.get_by_label("Text of pane 2").select_option(label="PTX")
    panes = page.locator(".kl-pane")
    expect(panes.nth(1)).to_contain_text(".version")
    expect(page.locator(".kl-controls")).to_have_count(0)
    page.get_by_role("button", name="Codes").click()
    expect(page.locator(".kl-controls").first).to_be_visible()
    page.reload()
    expect(panes.nth(1).locator("select")).to_have_value("0 stage:ptx")
    expect(page.locator(".kl-controls").first).to_be_visible()
    expect(page.get_by_role("button", name="Codes")).to_have_attribute("aria-pressed", "true")


def test_every_instruction_is_whole_in_a_narrow_cell(open_page, matmul_page) -> None:
    page = open_page(matmul_page, width=700)
    page.locator(".kl-explorer").press("3")
    sass = page.locator(".kl-pane:has(.cm-content[aria-label^=SASS]) .cm-scroller")
    expect(sass).to_be_attached()
    assert sass.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_passes_are_chosen_filtered_and_searched(open_page, matmul_page: Path) -> None:
    compilation = of_corpus("matmul", "sm_90")
    page = open_page(matmul_page)
    passes = page.locator(".kl-pass:visible")
    expect(passes).to_have_count(len(compilation.passes))
    expect(page.locator(".kl-count")).to_have_text(f"{len(compilation.passes)} passes")
    page.get_by_label("changed only").check()
    shown = page.locator(".kl-pass:visible").count()
    assert 0 < shown < sum(run.changed for run in compilation.passes), (
        "not where locations alone changed"
    )
    page.get_by_role("searchbox").fill("async_copy")
    expect(passes).to_have_count(2)  # one makes them, one lowers them
    passes.first.click()
    expect(page.locator(".kl-facts")).to_contain_text("ttgir.pipeline")
    expect(page.locator(".kl-op-changes")).to_contain_text("ttg.async_copy_global_to_local +6")
    expect(pane(page, 1)).to_contain_text("after ttgir.pipeline")


def test_keys_go_on_working_where_the_list_with_the_focus_is_hidden(open_page, matmul_page) -> None:
    page = open_page(matmul_page)
    page.get_by_role("listbox").press("3")
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(page.locator(".kl-panes")).to_be_focused()
    page.keyboard.press("1")
    expect(page.get_by_role("listbox")).to_be_visible()


def test_keys_step_through_passes_and_changes(open_page, matmul_page: Path) -> None:
    compilation = of_corpus("matmul", "sm_90")
    labels = [run.label for run in compilation.passes]
    page = open_page(matmul_page)
    chosen = page.locator(".kl-facts b")
    page.get_by_role("listbox").press("Home")
    expect(chosen).to_have_text(labels[0])
    page.keyboard.press("]")
    expect(chosen).to_have_text(labels[1])
    page.keyboard.press("[")
    expect(chosen).to_have_text(labels[0])
    page.keyboard.press("}")
    page.keyboard.press("}")
    expect(chosen).to_have_text("ttir.cse")
    page.keyboard.press("2")
    expect(page.locator(".kl-changes")).to_contain_text("change")
    page.keyboard.press("n")
    expect(page.locator(".kl-diff .cm-focused")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.locator(".cm-search")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator(".kl-help")).to_be_visible()


def test_before_and_after_show_what_a_pass_changed(open_page, matmul_page: Path) -> None:
    page = open_page(matmul_page)
    page.locator(".kl-pass", has_text="accelerate_matmul").first.click()
    page.get_by_role("radio", name="Before | after").click()
    expect(page.locator(".cm-merge-a .cm-changedLine", has_text="tt.dot").first).to_be_visible()
    expect(
        page.locator(".cm-merge-b .cm-changedLine", has_text="warp_group_dot").first
    ).to_be_visible()
    line_with(page.locator(".cm-merge-b"), "warp_group_dot").click(position={"x": 150, "y": 6})
    expect(page.locator(".cm-merge-a .kl-lit", has_text="tt.dot").first).to_be_visible()


def test_themes(open_page, matmul_page: Path) -> None:
    page = open_page(matmul_page, dark=True)
    root = page.locator(".kl-root")
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_label("Theme").select_option("light")
    expect(root).to_have_attribute("data-theme", "light")
    expect(root).to_have_css("background-color", "rgb(255, 255, 255)")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    expect(root).to_have_attribute("data-theme", "dark")


def test_the_page_is_small_enough_and_has_a_still(matmul_page: Path) -> None:
    assert matmul_page.stat().st_size <= 1_500_000
    text = matmul_page.read_text()
    assert "<noscript><div" in text
    assert "ttgir.pipeline" in text


def test_a_failed_compilation_shows_up_to_the_failing_pass(open_page) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024, skip="convert_to_ttgpuir")
    page = open_page(kernellab.show(caught.value))
    expect(page.locator(".kl-head b")).to_have_text("add for sm_90: did not compile")
    expect(page.get_by_role("alert")).to_contain_text("failed")
    excerpt = page.locator(".kl-failure .kl-excerpt").inner_text().rstrip().splitlines()
    assert excerpt[-1].index("^") == excerpt[-2].index("x_ptr + offsets")
    expect(page.locator(".kl-pass")).to_have_count(len(caught.value.passes) + 1)
    expect(page.locator(".kl-failed")).to_have_text(re.compile("coalesce"))
    expect(page.locator(".kl-facts b")).to_have_text("ttgir.coalesce")
    expect(pane(page, 0).locator(".kl-note-error").first).to_be_visible()
    expect(pane(page, 0).locator(".kl-lit")).to_contain_text("tl.load(x_ptr")
    expect(pane(page, 1).locator(".kl-lit", has_text="tt.load").first).to_be_visible()


def test_find_says_how_many_places_there_are(open_page, matmul_page: Path) -> None:
    page = open_page(matmul_page)
    root = page.locator(".kl-root")
    root.press("/")
    field = page.get_by_role("textbox", name="Find")
    found = page.locator(".kl-found")
    field.fill("nosuchthing")
    field.press("Enter")
    expect(found).to_have_text("nothing found")
    field.fill("tt.func")
    field.press("Enter")
    expect(found).to_have_text("1 place")
    assert field.evaluate("one => parseFloat(getComputedStyle(one).fontSize)") == 12


def test_find_stays_in_sight_where_two_texts_are_compared(open_page, matmul_page) -> None:
    page = open_page(matmul_page)
    page.locator(".kl-root").press("2")
    expect(page.locator(".kl-changes")).to_contain_text("change")
    box = page.locator(".kl-diff .cm-mergeView")
    page.locator(".kl-root").press("/")
    field = page.get_by_role("textbox", name="Find")
    expect(field).to_be_in_viewport(ratio=1)
    box.evaluate("one => (one.scrollTop = 300)")
    top = "one => one.getBoundingClientRect().top"
    assert box.evaluate("one => one.scrollTop") > 0
    assert field.evaluate(top) >= box.evaluate(top)
    assert field.evaluate(top) < box.evaluate(top) + 60


def test_a_key_and_the_mouse_show_one_tooltip(open_page, matmul_page: Path) -> None:
    page = open_page(matmul_page)
    name = pane(page, 1).locator(".cm-line .kl-value").first
    name.click()
    page.mouse.move(0, 0)
    name.hover()
    expect(page.locator(".kl-name")).to_have_count(1)
    page.keyboard.press("i")
    expect(page.locator(".kl-name[role=status]")).to_be_visible()
    expect(page.locator(".kl-name")).to_have_count(1)


def test_what_the_assembler_refused_is_in_sight(open_page) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(faulty.bad_assembly, "*fp32", BLOCK=16)
    found = re.match(r"Line (\d+) of the PTX is: ", caught.value.advice)
    assert found is not None
    page = open_page(show(caught.value))
    expect(page.locator(".kl-failure")).to_contain_text(caught.value.advice)
    lit = pane(page, 1).locator(".cm-line.kl-chosen")
    expect(lit).to_be_in_viewport()
    expect(lit).to_contain_text("no_such")
    expect(pane(page, 1).get_by_label("Text of pane 2")).to_contain_text("before the failed pass")
    page.locator(".kl-root").press("{")
    expect(pane(page, 1).locator(".kl-pane-head > .kl-soft")).to_contain_text("after ")
    assert "before the failed pass" not in pane(page, 1).locator("option:checked").inner_text()
