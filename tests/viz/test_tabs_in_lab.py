"""The views of one launch in JupyterLab: from card to stage, finding to step, map to program."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.notebook_session import ADD
from tests.viz.browser import Watched
from tests.viz.jupyter import Jupyter, show_cell, view

pytestmark = pytest.mark.slow

WRONG = """@triton.jit
def add_one(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes) + 2)
"""

CELLS = [
    "%load_ext kernellab\nimport torch, triton, triton.language as tl, kernellab",
    f"%%tilekernel\n{ADD}x = torch.arange(1000.0); z = torch.zeros(1000)\n"
    "add[(8,)](x, x, z, 1000, BLOCK=128)",
    "%tilecheck add[(8,)](x[:900], x, z, 1000, BLOCK=128)",
    f"%%tileexercise add_one\n{WRONG}",
    "add[(8,)](x, x[:900].clone(), z, 1000, BLOCK=128)",
    "from kernellab.compiler import kept\n"
    "def refuse(*args, **keywords): raise AssertionError('compiled again')\n"
    "kept.compile_bound = refuse",
]
CARD, CHECK, ANSWER, FAULT = 1, 2, 3, 4


@pytest.fixture(scope="module")
def shown(chromium: Browser, server: Jupyter) -> Iterator[Watched]:
    with server.run_watched(chromium, *CELLS) as watched:
        expect(view(watched.page, CHECK, "card")).to_be_visible(timeout=90_000)
        yield watched


def go(page: Page, cell: int, kind: str, tab: str) -> Locator:
    """Through a tab of the view that the cell shows."""
    show_cell(page, cell).locator(".kl-root:not([hidden])").get_by_role(
        "button", name=tab, exact=True
    ).click()
    found = view(page, cell, kind)
    expect(found).to_be_visible(timeout=60_000)
    return found


def test_a_stage_of_a_card_opens_the_explorer_there_and_nothing_is_compiled(page: Page) -> None:
    card = view(page, CARD, "card")
    expect(card.locator(".kl-tile", has_text="checks")).to_contain_text("✓ passed", timeout=60_000)
    expect(card.locator(".kl-tile", has_text="registers")).to_contain_text("/ 255")
    expect(card.locator(".kl-card-lead")).to_contain_text("of the time", timeout=60_000)
    card.get_by_text("Stages", exact=True).click()
    card.get_by_role("button", name="ptx").click()
    explorer = view(page, CARD, "ir")
    expect(explorer).to_be_visible(timeout=60_000)
    expect(explorer.locator(".kl-pane").nth(1)).to_contain_text(".version")
    expect(view(page, CARD, "card")).to_have_count(0)
    go(page, CARD, "card", "Card").get_by_role("button", name="ttir").click()
    expect(explorer.locator(".kl-pane").nth(1)).to_contain_text("tt.func")


def test_the_line_that_is_looked_at_goes_along(page: Page) -> None:
    card = go(page, CARD, "card", "Card")
    stages = card.locator("details", has=page.get_by_text("Stages", exact=True))
    stages.evaluate("one => { one.open = true; }")
    stages.get_by_role("button", name="source").click()
    line = view(page, CARD, "ir").locator(".cm-line", has_text="y = tl.load")
    line.first.click(position={"x": 60, "y": 6})
    steps = go(page, CARD, "steps", "Steps")
    expect(steps.locator(".kl-source-line[aria-current]")).to_contain_text("y = tl.load")
    steps.press("ArrowRight")
    expect(steps.locator(".kl-source-line[aria-current]")).to_contain_text("tl.store")
    explorer = go(page, CARD, "ir", "IR")
    expect(explorer.locator(".kl-chosen", has_text="tl.store")).to_be_visible()
    go(page, CARD, "layout", "Layouts")
    go(page, CARD, "card", "Accesses").locator(".kl-way", has_text="IR").first.click()
    expect(explorer.locator(".kl-chosen", has_text="x = tl.load")).to_be_visible()


def test_a_finding_opens_the_stepper_at_its_step(page: Page) -> None:
    view(page, CHECK, "card").get_by_role("button", name="step", exact=True).first.click()
    steps = view(page, CHECK, "steps")
    expect(steps).to_be_visible(timeout=60_000)
    expect(steps.locator(".kl-source-line[aria-current]")).to_contain_text("x = tl.load")
    expect(steps.locator(".kl-programs")).to_contain_text("(7, 0, 0) of 8")


def test_a_wrong_answer_opens_the_stepper_at_the_step_that_wrote_it(page: Page) -> None:
    card = view(page, ANSWER, "card")
    expect(card).to_contain_text("the first wrong element")
    card.get_by_role("button", name="step", exact=True).first.click()
    steps = view(page, ANSWER, "steps")
    expect(steps).to_be_visible(timeout=60_000)
    expect(steps.locator(".kl-source-line[aria-current]")).to_contain_text("tl.store(z_ptr")


def test_a_click_on_the_map_traces_the_program(page: Page) -> None:
    go(page, CHECK, "card", "Check").get_by_role("button", name="step", exact=True).first.click()
    steps = view(page, CHECK, "steps")
    expect(steps).to_be_visible(timeout=60_000)
    steps.locator(".kl-map canvas").click(position={"x": 2.5 * 16, "y": 4})
    expect(steps.locator(".kl-programs")).to_contain_text("(2, 0, 0) of 8 × 1 × 1, 2 traced")
    expect(steps.locator('.kl-vars tr[data-name="i"] .kl-value-words')).to_have_text("256 .. 383")


def test_a_tab_without_anything_to_open_is_disabled(page: Page) -> None:
    tab = (
        show_cell(page, CHECK).locator(".kl-root:not([hidden])").get_by_role("button", name="Sweep")
    )
    expect(tab).to_be_disabled()
    expect(tab).to_have_attribute("title", re.compile("There is no sweep of add yet"))


def test_a_launch_that_leaves_its_tensors_has_a_card_that_leads_on(page: Page) -> None:
    card = view(page, FAULT, "card")
    expect(card).to_contain_text("add: stopped by a fault")
    card.locator(".kl-way", has_text="step").click()
    steps = view(page, FAULT, "steps")
    expect(steps).to_be_visible(timeout=60_000)
    expect(steps.locator(".kl-source-line[aria-current]")).to_contain_text("y = tl.load")
    card = go(page, FAULT, "card", "Fault")
    card.locator(".kl-way", has_text="IR").click()
    expect(view(page, FAULT, "ir").locator(".kl-chosen", has_text="y = tl.load")).to_be_visible()
    check = go(page, FAULT, "card", "Check")
    expect(check).to_contain_text("out-of-bounds")


SCROLLED = "jupyterapp.shell.currentWidget.content.outerNode.scrollTop"


def test_the_wheel_scrolls_the_notebook_until_the_view_has_the_focus(page: Page) -> None:
    steps = view(page, CHECK, "steps")
    expect(steps).to_be_visible(timeout=60_000)
    page.set_viewport_size({"width": 1400, "height": 700})
    steps.evaluate("one => { one.style.height = '420px'; }")
    right = steps.locator(".kl-values")
    right.scroll_into_view_if_needed()
    page.evaluate("document.activeElement.blur()")
    right.hover(position={"x": 20, "y": 10})
    assert right.evaluate("one => one.scrollHeight > one.clientHeight")
    before = page.evaluate(SCROLLED)
    assert before > 200
    for _ in range(2):
        page.mouse.wheel(0, -50)
    page.wait_for_function(f"before => before - {SCROLLED} >= 99", arg=before)
    assert right.evaluate("one => one.scrollTop") == 0
    right.click(position={"x": 2, "y": 2})
    page.mouse.wheel(0, 40)
    page.wait_for_function("one => one.scrollTop > 0", arg=right.element_handle())


def test_a_view_fills_the_screen(page: Page) -> None:
    steps = view(page, CHECK, "steps")
    steps.get_by_role("button", name="Fill the screen").click()
    page.wait_for_function("document.fullscreenElement?.classList.contains('kl-container')")
    expect(steps).to_be_visible()
    assert steps.evaluate("one => one.clientHeight >= innerHeight - 2")
    steps.get_by_role("button", name="Fill the screen").click()
    page.wait_for_function("document.fullscreenElement === null")


def test_a_view_is_saved_as_a_page(page: Page, tmp_path) -> None:
    go(page, CHECK, "card", "Check")
    card = view(page, CHECK, "card")
    card.get_by_role("button", name="Save", exact=True).click()
    with page.expect_download(timeout=60_000) as download:
        card.get_by_role("button", name="Page", exact=True).click()
    download.value.save_as(tmp_path / "saved.html")
    assert "kernellab-view" in (tmp_path / "saved.html").read_text()
