"""Views in JupyterLab and Notebook 7: run, clicked, in another theme, without their kernel."""

import os
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.viz.browser import Watched
from tests.viz.explorer_page import click_the_store
from tests.viz.jupyter import Jupyter, show_cell
from tests.viz.view_cells import CELLS

pytestmark = pytest.mark.slow

KINDS = {"ir": 2, "layout": 3, "steps": 4}
"""Kinds of views, and the numbers of their cells."""
CELL_COUNT = "jupyterapp.shell.currentWidget.content.model.cells.length"
RESTART = "jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
GONE = "The kernel that made this view is gone."


@pytest.fixture(scope="module", params=["JupyterLab", "Notebook 7"])
def shown(request: pytest.FixtureRequest, chromium: Browser, server: Jupyter) -> Iterator[Watched]:
    """The notebook, run, with its three views."""
    with server.run_watched(chromium, *CELLS, front_end=request.param) as watched:
        for kind in KINDS:
            expect(root(watched.page, kind)).to_be_visible(timeout=60_000)
        yield watched


def root(page: Page, kind: str) -> Locator:
    """A view, scrolled to."""
    return show_cell(page, KINDS[kind]).locator(f".kl-{kind}[data-ready]")


def test_only_the_widgets_show(page: Page) -> None:
    """The stills before them are there for who saves the notebook."""
    for kind in KINDS:
        expect(root(page, kind)).to_be_visible()
        still = show_cell(page, KINDS[kind]).locator(".kl-still")
        expect(still).to_be_attached()
        expect(still).to_be_hidden()
    assert page.evaluate("kernellabViews.size") == 1
    expect(page.locator("style[id^=kernellab-]")).to_have_count(1)


def test_linked_lines(page: Page) -> None:
    view = root(page, "ir")
    panes = click_the_store(view)

    # The front end's own rules for editors do not reach into the panes.
    assert panes.nth(0).evaluate("pane => pane.scrollHeight <= pane.clientHeight + 1")
    scroller = panes.nth(2).locator(".cm-scroller")
    assert scroller.evaluate("one => one.scrollHeight > one.clientHeight")


def test_keys_are_the_views(page: Page) -> None:
    """ "d d" in a notebook's command mode would delete the cell."""
    view = root(page, "ir")
    view.press("1")
    view.locator(".kl-passes").press("d")
    view.locator(".kl-passes").press("d")
    assert page.evaluate(CELL_COUNT) == len(CELLS)


def test_an_element_that_is_pointed_at_names_its_holder(page: Page) -> None:
    view = root(page, "layout")
    picture = view.locator(".kl-grid-box canvas:last-child").first
    picture.hover(position={"x": 40, "y": 30})
    expect(view.locator(".kl-status")).to_contain_text("element (")
    expect(view.locator(".kl-status")).to_contain_text("lane")
    picture.press("Home")


def test_steps_go_both_ways(page: Page) -> None:
    view = root(page, "steps")
    current = view.locator(".kl-source-line[aria-current]")
    words = view.locator('.kl-vars tr[data-name="x"] .kl-value-words')
    view.press("Home")
    expect(current).to_contain_text("i = tl.program_id(0)")
    view.press("ArrowRight")
    expect(current).to_contain_text("x = tl.load")
    expect(words).to_have_text("128 .. 255")
    view.press("End")
    expect(view.locator('figure[data-name="z_ptr"]')).to_contain_text("0 .. 510")
    view.press("ArrowLeft")
    expect(current).to_contain_text("y = tl.load")
    view.press("Home")
    expect(words).to_have_text("from step 1")  # its slot stays


def test_the_theme_is_the_front_ends(page: Page) -> None:
    for theme, name in (("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")):
        page.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{theme: '{theme}'}})")
        for kind in KINDS:
            expect(root(page, kind)).to_have_attribute("data-theme", name)
        # JupyterLab's curtain, which it takes away twice, with an error,
        # where the next theme comes before it is gone.
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)


def test_a_kernel_that_does_not_answer_can_be_asked_again(page: Page, server: Jupyter) -> None:
    view = root(page, "ir")
    kernel = int((server.folder / "kernel").read_text())
    page.evaluate(
        "const slow = setTimeout; window.setTimeout = (call, ms, ...rest) => slow(call, ms === "
        "20_000 ? 500 : ms, ...rest)"
    )
    view.press("1")
    os.kill(kernel, signal.SIGSTOP)
    try:
        view.locator(".kl-pass", has_text="to_llvmir").first.click()
        message = view.locator(".kl-wait")
        expect(message).to_contain_text("too large to send along")
        expect(message).to_contain_text("the kernel did not answer")
    finally:
        os.kill(kernel, signal.SIGCONT)
    message.get_by_role("button", name="Try again").click()
    expect(view.locator(".kl-pane").nth(1)).to_contain_text("after llir.to_llvmir, ")


def test_views_live_on_when_the_kernel_is_another_one(page: Page) -> None:
    for kind in KINDS:
        expect(root(page, kind).locator(".kl-orphan")).to_be_hidden()
    page.evaluate(RESTART)
    for kind in KINDS:
        expect(root(page, kind).locator(".kl-orphan")).to_contain_text(GONE)

    steps = root(page, "steps")
    steps.press("End")
    expect(steps.locator('figure[data-name="z_ptr"]')).to_contain_text("0 .. 510")
    view = root(page, "ir")
    view.press("3")
    panes = view.locator(".kl-pane")
    panes.nth(0).locator(".cm-line", has_text="tl.load").first.click(position={"x": 60, "y": 6})
    expect(panes.nth(2).locator(".kl-lit", has_text="LDG").first).to_be_visible()

    # A text that stayed with the old kernel: what happened is said,
    # and said again when asked again.
    view.press("1")
    view.locator(".kl-pass", has_text="nvgpu_to_llvm").first.click()
    again = view.get_by_role("button", name="Try again")
    for _ in range(2):
        expect(view.locator(".kl-wait")).to_contain_text("the kernel that made this view is gone")
        again.click()


@pytest.mark.parametrize("shown", ["JupyterLab"], indirect=True)
def test_cells_that_are_run_again_have_views_of_the_new_kernel(page: Page) -> None:
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    view = show_cell(page, KINDS["ir"]).locator(".kl-ir[data-ready]:has(.kl-orphan[hidden])")
    expect(view).to_be_visible(timeout=60_000)
    view.locator(".kl-pass", has_text="to_llvmir").first.click()
    expect(view.locator(".kl-pane").nth(1)).to_contain_text("after llir.to_llvmir, ")
    assert page.evaluate("kernellabViews.size") == 1  # nothing was imported a second time


@pytest.mark.parametrize("shown", ["JupyterLab"], indirect=True)
def test_a_kernel_that_died_and_was_started_again_is_noticed(page: Page, server: Jupyter) -> None:
    """No one asks it anything meanwhile."""
    for kind in KINDS:
        expect(root(page, kind).locator(".kl-orphan")).to_be_hidden()
    os.kill(int((server.folder / "kernel").read_text()), signal.SIGKILL)
    for kind in KINDS:
        expect(root(page, kind).locator(".kl-orphan")).to_contain_text(GONE, timeout=60_000)
