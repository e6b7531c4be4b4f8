"""Views with VS Code's widget manager: drawn, clicked, answered, restyled, restarted."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.source_files import ROOT
from tests.viz.browser import Watched
from tests.viz.explorer_page import click_the_store
from tests.viz.view_cells import CELLS
from tests.viz.vscode import choose_theme, needs_manager, restart, run, vscode_outputs

pytestmark = [needs_manager, pytest.mark.slow]

SWEEP = (
    "import kernellab\n"
    f"kernellab.load({str(ROOT / 'notebooks/recorded/tuning_h200_vector_add.json')!r}).show()"
)
KINDS = ("ir", "layout", "steps", "tuning")
THEMES = {
    "vscode-dark": ("dark", "usual"),
    "vscode-high-contrast": ("dark", "more"),
    "vscode-high-contrast-light": ("light", "more"),
    "vscode-light": ("light", "usual"),
}
"""VS Code's kinds of themes, and what a view makes of them: its theme and its contrast."""


@pytest.fixture(scope="module")
def shown(chromium: Browser, server) -> Iterator[Watched]:
    """The outputs of a notebook with one view of each kind."""
    with vscode_outputs(chromium, server) as watched:
        for cell in (*CELLS, SWEEP):
            run(watched.page, cell)
        yield watched


def root(page: Page, kind: str) -> Locator:
    return page.locator(f".kl-{kind}[data-ready]")


def test_only_the_widgets_show(page: Page) -> None:
    for kind in KINDS:
        expect(root(page, kind)).to_be_visible()
    stills = page.locator(".kl-still")
    expect(stills).to_have_count(len(KINDS))
    for still in stills.all():
        expect(still).to_be_hidden()
    assert page.evaluate("kernellabViews.size") == 1
    expect(page.locator("style[id^=kernellab-]")).to_have_count(1)


def test_a_click_lights_lines_and_the_kernel_sends_texts(page: Page) -> None:
    view = root(page, "ir")
    click_the_store(view)

    view.press("1")  # CELLS leave all texts of passes in the kernel
    view.locator(".kl-pass", has_text="to_llvmir").first.click()
    expect(view.locator(".kl-pane").nth(1)).to_contain_text("after llir.to_llvmir")
    expect(
        view.locator(".kl-pane").nth(1).locator(".cm-line", has_text="llvm.").first
    ).to_be_visible()


def test_steps_layouts_and_sweeps_answer(page: Page) -> None:
    steps = root(page, "steps")
    steps.press("Home")
    steps.press("ArrowRight")
    expect(steps.locator('.kl-vars tr[data-name="x"] .kl-value-words')).to_have_text("128 .. 255")
    layout = root(page, "layout")
    layout.locator(".kl-grid-box canvas:last-child").first.hover(position={"x": 40, "y": 30})
    expect(layout.locator(".kl-status")).to_contain_text("element (")
    sweep = root(page, "tuning")
    sweep.locator("tbody tr").first.hover()
    expect(sweep.locator(".kl-plot .kl-point.kl-pointed")).to_have_count(1)


def test_the_theme_is_vs_codes(page: Page) -> None:
    for kind, (theme, contrast) in THEMES.items():
        choose_theme(page, kind)
        for view in KINDS:
            expect(root(page, view)).to_have_attribute("data-theme", theme)
            expect(root(page, view)).to_have_attribute("data-contrast", contrast)


def test_views_stand_on_their_own_paper_and_other_widgets_on_white(page: Page) -> None:
    run(page, "import ipywidgets; ipywidgets.Label('a widget of ipywidgets')")
    behind = page.locator(".output.cell-output-ipywidget-background")
    expect(behind).to_have_count(len(KINDS) + 1)
    for output in behind.filter(has=page.locator(".kl-root")).all():
        expect(output).to_have_css("background-color", "rgba(0, 0, 0, 0)")
        expect(output.locator(".cell-output-ipywidget-background")).to_have_css(
            "background-color", "rgba(0, 0, 0, 0)"
        )
    expect(behind.filter(has_text="a widget of ipywidgets")).to_have_css(
        "background-color", "rgb(255, 255, 255)"
    )


def test_a_restarted_kernel_is_found_gone_and_the_rest_works(page: Page) -> None:
    """The last of these tests: VS Code tells no model of it, so a view knows when it first asks."""
    restart(page)
    view = root(page, "ir")
    view.press("1")
    view.locator(".kl-pass", has_text="allocate_shared_memory").first.click()
    expect(view.locator(".kl-wait")).to_contain_text("the kernel that made this view is gone")
    for kind in KINDS:
        expect(root(page, kind).locator(".kl-orphan")).to_contain_text("is gone")
    view.press("3")
    expect(view.locator(".kl-pane").nth(2)).to_contain_text("FADD")
