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


TIMED_SWEEP = """\
from dataclasses import replace
from kernellab.tuning.records import Timing
import kernellab
x = torch.rand(1000)
swept = kernellab.tune(add, (8,), x, x, torch.zeros(1000), 1000, space={"BLOCK": [128, 256], "num_warps": [2, 4, 8]}, check=False, cache=False, progress=False)
def timed(trial):
    times = [(1 + trial.number + part / 50) / 100 for part in range(10)]  # as a GPU would have given
    return replace(trial, outcome=replace(trial.outcome, timing=Timing.of(times, "events")))
tuning = replace(swept, trials=tuple(timed(one) for one in swept.trials))
tuning.show()"""


def test_a_click_on_a_point_opens_its_ir_in_jupyterlab(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    with (
        browser() as started,
        jupyterlab(folder) as lab,
        lab.run(started, SETUP, KERNEL, TIMED_SWEEP) as page,
    ):
        root = page.locator(".kl-tuning[data-ready]")
        expect(root).to_be_visible(timeout=90_000)
        points = page.locator(".kl-plot .kl-point circle")
        expect(points).to_have_count(6)
        cells = page.locator(".jp-Cell").count()

        # The kernel compiles config 0, and its explorer comes in place of the plot.
        points.first.click()
        explorer = page.locator(".kl-nested")
        expect(explorer.locator(".kl-head")).to_contain_text("add for sm_90", timeout=30_000)
        expect(page.locator(".kl-opened-name")).to_contain_text(
            "0: BLOCK=128, num_warps=2, 10.9 us"
        )
        explorer.press("3")
        expect(explorer.locator(".kl-pane").nth(2)).to_contain_text("FADD")
        explorer.press("d")
        explorer.press("d")
        page.keyboard.press("Escape")
        expect(points.first).to_be_visible()
        assert page.locator(".jp-Cell").count() == cells

        # A second one is compared with it.
        points.nth(5).click(modifiers=["Shift"])
        head = explorer.locator(".kl-head")
        expect(head).to_contain_text("config 0 and config 5", timeout=30_000)
        expect(head).to_contain_text("config 5: warps 8")
        page.keyboard.press("Escape")

        # What was opened stays when the kernel goes; the others say so.
        page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        expect(page.locator(".kl-orphan")).to_contain_text("is gone")
        points.first.click()
        expect(explorer.locator(".kl-head")).to_contain_text("add for sm_90")
        page.keyboard.press("Escape")
        points.nth(2).click()
        expect(page.locator(".kl-problem")).to_contain_text(
            "the kernel that made this view is gone"
        )
