"""Take every picture of docs/images but marimo's: cells in JupyterLab, views of the test corpus and
of recorded data, figures. With a folder, take pictures of every view instead, at four widths, light
and dark:

    python -m tools.pictures
    python -m tools.pictures --every FOLDER

Cells are in docs/images/NAME.txt, those of every view in tools/every_view.txt, each after a line
that begins with `# %%`.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import torch
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

import kernellab
from benchmarks.fidelity_outputs import DATA
from benchmarks.profile_on_gpu import file_name
from kernellab.cli.demo import small_cases
from kernellab.cli.demo.kernels import matmul as swept
from kernellab.cli.demo.report import demo_report, run_case
from kernellab.records.display import show
from kernellab.records.layouts import Layout
from kernellab.viz.kit.figure import FigurePicture
from kernellab.viz.kit.view import View
from kernellab.viz.pages import grades_page
from tests.kernels.basic import matmul as product
from tests.support.compiled import of_corpus
from tests.viz import annotation_cases as thinned
from tests.viz.browser import browser, opened
from tests.viz.jupyter import jupyterlab, show_cell
from tests.viz.test_card_page import MISTAKES
from tools import tuning_page

ROOT = Path(__file__).resolve().parent.parent
SWEEP = ROOT / "notebooks/recorded/tuning_h200_matmul.json"
PROFILE = SWEEP.parent / "profile_h200_lines.klprofile"
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
    page.locator('figure[data-name="b_ptr"] canvas').hover(position={"x": 20, "y": 40})


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


MMA = Layout.nvidia_mma(shape=(16, 8), version=2, warps_per_cta=[1, 1], instruction_shape=[16, 8])
SWIZZLED = Layout.swizzled_shared(shape=(16, 32), vector=8, per_phase=2, max_phase=4, order=[1, 0])


def figures() -> dict[str, FigurePicture]:
    """File name -> figure."""
    return {
        "layout_figure": MMA.plot(),
        "layout_figure_shared": SWIZZLED.plot(),
        "shared_memory_matmul": of_corpus("matmul", "sm_90").shared_memory().plot(),
        "tensor_memory_attention": of_corpus("attention_forward", "sm_100").tensor_memory().plot(),
        "shared_memory_attention": of_corpus("attention_forward", "sm_90").shared_memory().plot(),
    }


WIDTHS, HEIGHT = (420, 700, 1000, 1400), 1200
_HAVE_RUN = """() => {
  const { content, sessionContext } = jupyterapp.shell.currentWidget;
  const isIdle = sessionContext.session.kernel.status === "idle";
  return isIdle && content.widgets.every((cell) => cell.model.executionCount);
}"""
_SHOW_OUTPUT = "output => output.scrollIntoView({ block: 'start' })"


def pictures_of_every_view(folder: Path, started: Browser) -> None:
    """Write NAME_WIDTH_THEME.png of each cell of every_view.txt, as JupyterLab shows its output,
    and of the pages.
    """
    parts = re.split(
        r"^# %% (.+)\n", Path(__file__).with_name("every_view.txt").read_text(), flags=re.M
    )
    names, cells = parts[1::2], parts[2::2]
    cells[0] += f"recorded = {str(SWEEP.parent)!r}"
    goes_on = {"tags": ["raises-exception"]}
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell.strip(), metadata=goes_on) for cell in cells]
    )
    with (
        tempfile.TemporaryDirectory() as served,
        jupyterlab(Path(served)) as server,
        server.opened(started, server.save(made, trusted=False)) as shown,
    ):
        page = shown.page
        page.evaluate("jupyterapp.shell.collapseLeft()")
        page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
        page.wait_for_function(_HAVE_RUN, timeout=1_200_000)
        for dark in (False, True):
            theme = {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}
            page.evaluate(
                "theme => jupyterapp.commands.execute('apputils:change-theme', theme)", theme
            )
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.wait_for_timeout(1000)
                for number, name in enumerate(names[1:], 1):
                    show_cell(page, number).locator(".jp-OutputArea").evaluate(_SHOW_OUTPUT)
                    page.wait_for_timeout(700)  # a view that comes into sight is drawn
                    save(page, folder, name, width, dark)


def pictures_of_pages(folder: Path, started: Browser) -> None:
    """Write those of the pages of files: the demo and a class."""
    demo = demo_report([run_case(case, repeats=1) for case in small_cases()])
    for name, text in {"page of the demo": demo, "page of a class": grades_page(MISTAKES)}.items():
        file = folder / f"{name}.html"
        file.write_text(text)
        for dark in (False, True):
            for width in WIDTHS:
                with opened(started, file.as_uri(), width=width, height=HEIGHT, dark=dark) as page:
                    save(page, folder, name, width, dark)
        file.unlink()


def save(page: Page, folder: Path, name: str, width: int, dark: bool) -> None:
    """Save what a page shows."""
    file = f"{name.replace(' ', '_')}_{width}_{'dark' if dark else 'light'}.png"
    page.screenshot(path=str(folder / file))
    print(folder / file)


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=Path, metavar="FOLDER")
    folder = parser.parse_args().every
    with browser() as started:
        if folder is None:
            pictures_of_views(started)
            pictures_of_notebooks(started)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            pictures_of_pages(folder, started)
            pictures_of_every_view(folder, started)
    if folder is None:
        for name, figure in figures().items():
            print(figure.save(IMAGES / f"{name}.png"))
        tuning_page.main()
        for file in IMAGES.glob("*.png"):
            if file.stat().st_size > MOST_BYTES:
                shrink(file)


NOTEBOOKS = {
    "notebook": ("#jp-main-content-panel", 1000, 770),
    "checking": ("#jp-main-content-panel", 1000, 1010),
    "exercise_answer": (".kl-container", 1000, 1010),
}
"""Name -> what is taken of the page, and the size of the window in CSS pixels."""


def pictures_of_notebooks(started: Browser) -> None:
    """Run the cells of docs/images in JupyterLab, and write what it shows."""
    with tempfile.TemporaryDirectory() as served, jupyterlab(Path(served)) as server:
        for name, (part, width, height) in NOTEBOOKS.items():
            cells = re.split(r"^# %%.*\n", (IMAGES / f"{name}.txt").read_text(), flags=re.M)
            stripped = [cell.strip() for cell in cells if cell.strip()]
            with server.run(started, *stripped) as page:
                page.set_viewport_size({"width": width, "height": height})
                page.evaluate("jupyterapp.shell.collapseLeft()")
                page.wait_for_function(_HAVE_RUN, timeout=120_000)
                page.wait_for_timeout(8000)  # a card is completed after its cell
                save_small(page.locator(part).last, name)


MOST_BYTES = 100_000


def save_small(part: Locator, name: str) -> None:
    """Save a picture of a part of a page."""
    file = IMAGES / f"{name}.png"
    part.screenshot(path=str(file))
    shrink(file)


def shrink(file: Path) -> None:
    """Leave 128 colors of a picture."""
    with Image.open(file) as taken:
        white = Image.new("RGBA", taken.size, "white")
        opaque = Image.alpha_composite(white, taken.convert("RGBA")).convert("RGB")
    few = opaque.quantize(128, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
    print(file, file.stat().st_size)


def pictures_of_views(started: Browser) -> None:
    """Write the pictures of docs/widgets.md."""
    matmul = of_corpus("matmul", "sm_90")
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
        ("layout", MMA, element, False),
        ("layout_shared", SWIZZLED, element, False),
        ("tuning_view", sweep_of_a_product(), config, False),
        ("tuning_view_compared", sweep_of_a_product(), two_configs, True),
        ("stepper_live", product_in_steps(), element_of_a_step, False),
        ("profile_view", kernellab.load(PROFILE), Page.bring_to_front, True),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, record, act, dark in pictures:
            view = record if isinstance(record, View) else show(record)
            file = view.to_html(Path(folder, f"{name}.html"))
            height = 760 if name.startswith("explorer") else 900
            with opened(started, file.as_uri(), width=1360, height=height, dark=dark) as page:
                page.wait_for_selector("[data-ready]")
                act(page)
                page.wait_for_timeout(300)  # fonts and scrolling settle
                save_small(page.locator(".kl-root"), name)


if __name__ == "__main__":
    main()
