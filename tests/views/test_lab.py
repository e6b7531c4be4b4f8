"""Views in a real JupyterLab: a notebook is run, lines are clicked, the theme changes, the kernel goes away."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.views.browser import browser, needs_browser
from tests.views.jupyter import jupyterlab

pytestmark = needs_browser

SETUP = """\
%load_ext kernellab
import torch, triton, triton.language as tl"""

KERNEL = """\
%%tilekernel --no-compile
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(z_ptr + i, x + y, mask=i < n)
x = torch.rand(1000)
add[(8,)](x, x, torch.zeros(1000), 1000, BLOCK=128)"""

LEAVE_TEXTS_OUT = """\
import kernellab.viz.views
kernellab.viz.views._SENT_AT_ONCE = 20_000"""


def test_the_explorer_in_jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("lab")
    cells = [SETUP, KERNEL, LEAVE_TEXTS_OUT, "%tileir add"]
    with (
        browser() as started,
        jupyterlab(folder) as lab,
        lab.run(started, *cells) as page,
    ):
        root = page.locator(".kl-root[data-ready]")
        expect(root).to_be_visible(timeout=60_000)
        count = page.locator(".jp-Cell").count()

        # Linked lines: the addition's line, and FADD in the machine code.
        root.press("3")
        panes = page.locator(".kl-pane")
        expect(panes).to_have_count(3)
        panes.nth(0).locator(".cm-line", has_text="tl.store").click(position={"x": 60, "y": 6})
        expect(panes.nth(2).locator(".kl-lit", has_text="FADD").first).to_be_visible()

        # The front end's own rules for editors do not reach into the panes.
        assert panes.nth(0).evaluate("pane => pane.scrollHeight <= pane.clientHeight + 1")
        assert (
            panes.nth(2)
            .locator(".cm-scroller")
            .evaluate("one => one.scrollHeight > one.clientHeight")
        )

        # A text that was not sent comes from the kernel.
        root.press("1")
        page.locator(".kl-pass", has_text="to_llvmir").first.click()
        expect(page.locator(".kl-pane").nth(1)).to_contain_text("llvm.fadd")

        # Keys are the view's: "d d" in a notebook's command mode would delete the cell.
        page.locator(".kl-passes").press("d")
        page.locator(".kl-passes").press("d")
        assert page.locator(".jp-Cell").count() == count

        # The theme follows JupyterLab's.
        expect(root).to_have_attribute("data-theme", "light")
        page.evaluate(
            "jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
        )
        expect(root).to_have_attribute("data-theme", "dark")

        # Without the kernel everything that was sent is still there.
        page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        root.press("3")
        panes.nth(0).locator(".cm-line", has_text="tl.load").first.click(position={"x": 60, "y": 6})
        expect(panes.nth(2).locator(".kl-lit", has_text="LDG").first).to_be_visible()


def test_the_stepper_in_jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("steps")
    launch = "%tilestep --program 1 add[(8,)](x, x, torch.zeros(1000), 1000, BLOCK=128)"
    with (
        browser() as started,
        jupyterlab(folder) as lab,
        lab.run(started, SETUP, KERNEL, "x = torch.arange(1000.0)\n" + launch) as page,
    ):
        root = page.locator(".kl-root[data-ready]")
        expect(root).to_be_visible(timeout=60_000)
        current = page.locator(".kl-source-line[aria-current]")
        expect(current).to_contain_text("i = tl.program_id(0)")
        page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        words = page.locator('.kl-vars tr[data-name="x"] .kl-value-words')
        root.press("ArrowRight")
        expect(current).to_contain_text("x = tl.load")
        expect(words).to_have_text("128 .. 255")
        root.press("End")
        expect(page.locator('figure[data-name="z_ptr"]')).to_contain_text("0 .. 510")
        root.press("Home")
        expect(words).to_have_count(0)
        expect(page.locator('figure[data-name="z_ptr"] figcaption')).to_contain_text("0 .. 254")
