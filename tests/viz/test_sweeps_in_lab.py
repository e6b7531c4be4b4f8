"""The view of a sweep in JupyterLab: a click on a point has the kernel compile its config."""

import pytest
from playwright.sync_api import Browser, expect

from tests.support.notebook_session import ADD

SETUP = """\
%load_ext kernellab
import torch, triton, triton.language as tl"""

KERNEL = f"""\
%%tilekernel --no-compile
{ADD}\
x = torch.rand(1000)
add[(8,)](x, x, torch.zeros(1000), 1000, BLOCK=128)"""

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


@pytest.mark.slow
def test_a_click_on_a_point_opens_its_ir_in_jupyterlab(chromium: Browser, server) -> None:
    with server.run(chromium, SETUP, KERNEL, TIMED_SWEEP) as page:
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
        sass = explorer.locator(".kl-pane").nth(2)
        expect(sass).to_contain_text("S2R")
        # The addition is farther down, and lines off the screen need not be drawn.
        sass.locator(".cm-scroller").evaluate("one => { one.scrollTop = one.scrollHeight / 2; }")
        expect(sass).to_contain_text("FADD")
        explorer.press("d")
        explorer.press("d")
        page.keyboard.press("Escape")
        expect(points.first).to_be_visible()
        assert page.locator(".jp-Cell").count() == cells

        # A second one is compared with it.
        points.nth(5).click(modifiers=["Shift"])
        head = explorer.locator(".kl-head")
        expect(head).to_contain_text("config 0 and config 5", timeout=30_000)
        expect(head).to_contain_text("warps 2 to 8")
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
