"""Take the pictures of docs/widgets.md: views of the test corpus, as pages in headless Chromium.

python -m tools.view_pictures
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernellab.layouts import Layout
from kernellab.showing import show
from tests.compiled import of_corpus
from tests.views.browser import browser, opened

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"


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


def element(page: Any) -> None:
    """One element pointed at."""
    page.locator(".kl-grid-box canvas:last-child").first.hover(position={"x": 165, "y": 113})


def main() -> None:
    """Write every picture."""
    matmul = of_corpus("matmul", "sm_90")
    mma = Layout.nvidia_mma(shape=(16, 8), version=2, warps_per_cta=[1, 1], instruction_shape=[16, 8])  # fmt: skip
    swizzled = Layout.swizzled_shared(shape=(16, 32), vector=8, per_phase=2, max_phase=4, order=[1, 0])  # fmt: skip
    pictures: list[tuple[str, Any, Callable[[Any], None], bool]] = [
        ("explorer", matmul, stages, False),
        ("explorer_dark", matmul, change, True),
        ("layout", mma, element, False),
        ("layout_shared", swizzled, element, False),
    ]
    with tempfile.TemporaryDirectory() as folder, browser() as started:
        for name, record, act, dark in pictures:
            file = show(record).to_html(Path(folder, f"{name}.html"))
            height = 760 if name.startswith("explorer") else 900
            with opened(started, file.as_uri(), width=1360, height=height, dark=dark) as page:
                page.wait_for_selector("[data-ready]")
                act(page)
                page.wait_for_timeout(300)  # fonts and scrolling settle
                page.locator(".kl-root").screenshot(path=str(IMAGES / f"{name}.png"))
                print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
