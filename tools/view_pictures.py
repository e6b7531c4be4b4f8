"""Take the pictures of docs/widgets.md: views of the test corpus, as pages in headless Chromium.

python -m tools.view_pictures
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import kernellab
from benchmarks.fidelity_outputs import DATA
from benchmarks.profile_on_gpu import file_name
from kernellab.cli.demo.kernels import matmul as swept
from kernellab.records.display import show
from kernellab.records.layouts import Layout
from kernellab.viz.kit.view import View
from tests.kernels.basic import matmul as product
from tests.support.compiled import of_corpus
from tests.viz import annotation_cases as thinned
from tests.viz.browser import browser, opened

ROOT = Path(__file__).resolve().parent.parent
SWEEP = ROOT / "notebooks/recorded/tuning_h200_matmul.json"
IMAGES = ROOT / "docs/images"


def stages(page: Any) -> None:
    """The explorer's stages, with the product's line chosen."""
    page.locator(".kl-root").press("3")
    line = page.locator(".kl-pane").first.locator(".cm-line", has_text="tl.dot(")
    line.click(position={"x": 60, "y": 6})
    page.locator(".kl-pane").nth(2).locator(".kl-lit").first.wait_for()


def change(page: Any) -> None:
    """What one pass changed, in the dark."""
    page.locator(".kl-pass", has_text="accelerate_matmul").first.click()
    page.get_by_role("radio", name="Before | after").click()
    page.locator(".cm-merge-b .cm-changedLine").first.wait_for()
    page.locator(".kl-root").press("n")


def finding(page: Any) -> None:
    """The stages, with the first finding's line chosen and all findings listed."""
    page.locator(".kl-root").press("3")
    page.locator(".kl-note-list summary").click()
    page.locator(".kl-root").press("m")
    page.locator(".kl-pane").nth(1).locator(".kl-lit").first.wait_for()


def measured(page: Any) -> None:
    """The stages, with the line of the maximum chosen."""
    page.locator(".kl-root").press("3")
    line = page.locator(".kl-pane").first.locator(".cm-line", has_text="tl.max(")
    line.click(position={"x": 60, "y": 6})
    page.locator(".kl-pane").nth(2).locator(".kl-lit").first.wait_for()


def profiled(name: str) -> View:
    """A recorded compilation with its profile."""
    compilation = kernellab.load(DATA / file_name(name, "kernellab"))
    profile = kernellab.read_ncu(DATA / file_name(name, "csv"), gpu="NVIDIA H200")
    return show(compilation, profile)  # type: ignore[no-any-return]


def element(page: Any) -> None:
    """One element pointed at."""
    page.locator(".kl-grid-box canvas:last-child").first.hover(position={"x": 165, "y": 113})


def element_of_a_step(page: Any) -> None:
    """A watched element, a breakpoint, and an element of a tensor pointed at."""
    page.get_by_label("Watch a variable").fill("acc[0, 3]")
    page.get_by_label("Watch a variable").press("Enter")
    page.locator(".kl-source-line .kl-stop").nth(-2).click()
    page.locator('figure[data-name="b_ptr"] canvas').hover(position={"x": 20, "y": 100})


def config(page: Any) -> None:
    """A config of a sweep pointed at, in the plot and so in the table."""
    page.locator(".kl-plot .kl-point").nth(1).hover()
    page.locator(".kl-tip").wait_for()


def two_configs(page: Any) -> None:
    """The fastest and the slowest config beside each other, in the dark."""
    page.locator("tbody tr").first.click()
    page.get_by_label("Compare with").select_option(index=2)
    page.get_by_role("radio", name="Stages").click()
    page.locator(".kl-pane").nth(1).locator(".cm-line").first.wait_for()


def sweep_of_a_product() -> Any:
    """The sweep recorded on an H200, with the IR of the fastest config, of one in a tie with it,
    and of the slowest.
    """
    tuning = kernellab.Tuning.load(SWEEP, kernel=swept)
    chosen = (*tuning.ranked[:2], tuning.ranked[-1])
    return tuning.show(compilations=[one.number for one in chosen])


def product_in_steps() -> Any:
    """The trace of two programs of a product, in its third turn."""
    wave = torch.arange(64) / 8
    a, b = torch.outer(wave.sin(), wave.cos()), torch.outer(wave.cos(), wave)
    c = torch.zeros(64, 64)
    traced = kernellab.trace(
        product,
        (4, 4),
        a,
        b,
        c,
        64,
        64,
        64,
        64,
        1,
        64,
        1,
        64,
        1,
        BLOCK_M=16,
        BLOCK_N=16,
        BLOCK_K=16,
        programs=[(1, 1), (2, 1)],
    )
    loads = [step for step in traced if step.accesses and "b" in step.changed_numbers]
    return traced.show(loads[2])


def main() -> None:
    """Write every picture."""
    matmul = of_corpus("matmul", "sm_90")
    mma = Layout.nvidia_mma(
        shape=(16, 8), version=2, warps_per_cta=[1, 1], instruction_shape=[16, 8]
    )
    swizzled = Layout.swizzled_shared(
        shape=(16, 32), vector=8, per_phase=2, max_phase=4, order=[1, 0]
    )
    pictures: list[tuple[str, Any, Callable[[Any], None], bool]] = [
        ("explorer", matmul, stages, False),
        ("explorer_dark", matmul, change, True),
        (
            "explorer_evidence",
            show(thinned.compilation(), thinned.checked(), thinned.counted()),
            finding,
            False,
        ),
        ("explorer_profile", profiled("softmax"), measured, False),
        ("layout", mma, element, False),
        ("layout_shared", swizzled, element, False),
        ("tuning_view", sweep_of_a_product(), config, False),
        ("tuning_view_compared", sweep_of_a_product(), two_configs, True),
        ("stepper_live", product_in_steps(), element_of_a_step, False),
    ]
    with tempfile.TemporaryDirectory() as folder, browser() as started:
        for name, record, act, dark in pictures:
            view = record if isinstance(record, View) else show(record)
            file = view.to_html(Path(folder, f"{name}.html"))
            height = 760 if name.startswith("explorer") else 900
            with opened(started, file.as_uri(), width=1360, height=height, dark=dark) as page:
                page.wait_for_selector("[data-ready]")
                act(page)
                page.wait_for_timeout(300)  # fonts and scrolling settle
                page.locator(".kl-root").screenshot(path=str(IMAGES / f"{name}.png"))
                print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
