"""Every view, wide and narrow: axe-core finds nothing in it, and it looks like its picture in the
folder pictures, which `--snapshot-update` writes anew.
"""

from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import get_data_path
from PIL import Image, ImageOps
from playwright.sync_api import Page

import kernellab
from benchmarks import memory_kernels as kernels
from kernellab.viz import registry
from kernellab.viz.kit.view import Card, CardView, View
from kernellab.workshop.course import exercises
from tests.kernels.basic import add
from tests.support.source_files import ROOT
from tests.viz.browser import OpenPage
from tests.viz.explorer_page import stops_of_tab
from tests.viz.graph_report import FILE
from tools import site_views
from tools.pictures import profiled

AXE = ROOT / "js/node_modules/axe-core/axe.min.js"
PICTURES = ROOT / "tests/viz/pictures"
RECORDED = ROOT / "notebooks/recorded"
MATMUL = ROOT / "benchmarks/data/profile_h200_matmul.kernellab"
X = torch.ones(4096)
COPY = (torch.ones(8192), torch.zeros(1024))

VIEWS: dict[str, Callable[[], Any]] = {
    "card": lambda: registry.card(kernellab.load(MATMUL)),
    "check": lambda: kernellab.check(add, (5,), X, X, torch.zeros(4096), 4100, BLOCK=1024),
    "diagnosis": lambda: kernellab.diagnose(add, X, X, X, 4096, grid=(4,), BLOCK=1024),
    "accesses": lambda: kernellab.accesses(
        kernels.copy_strided, (1,), *COPY, STRIDE=8, BLOCK=1024, target="sm_90"
    ),
    "exercises": exercises,
    "profile": lambda: kernellab.load(RECORDED / "profile_h200_lines.klprofile"),
    "session": lambda: kernellab.load(RECORDED / "profile_h200_step.klprofile"),
    "graph": lambda: kernellab.load(FILE, trust=True),  # a file of the tests
    "counters": lambda: profiled("softmax"),
    "sizes": lambda: kernellab.Tunings.load(RECORDED / "tuning_h200_matmul_sizes.json"),
    **{make.__name__: make for make in site_views.VIEWS},
}

FOUND = """async () => (await axe.run()).violations.flatMap(({ id, nodes }) =>
  nodes.map((node) => `${id}: ${node.html.slice(0, 200)}`))"""


def shown(open_page: OpenPage, name: str, **options: Any) -> Page:
    record = VIEWS[name]()
    view = record if isinstance(record, (View, Card)) else registry.view(record)
    page = open_page(CardView(view) if isinstance(view, Card) else view, **options)
    page.wait_for_selector("[data-ready], [data-drawn], .kl-card-content")
    return page


@pytest.mark.slow
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci in js/)")
@pytest.mark.parametrize("name", VIEWS)
def test_axe_finds_nothing(open_page: OpenPage, name: str) -> None:
    page = shown(open_page, name, dark=True, width=1400)
    page.evaluate(AXE.read_text())
    for width, scheme in ((1400, "dark"), (420, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(200)  # colors and sizes follow
        assert page.evaluate(FOUND) == []


CONTROLS = ".kl-root :is(button, select, input, summary, a, [tabindex])"
MISSED = """all => all.filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility()
  && one.dataset.reached === undefined).map((one) => one.outerHTML.slice(0, 200))"""


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_tab_reaches_every_control_and_shows_where_it_is(open_page: OpenPage, name: str) -> None:
    page = shown(open_page, name)
    stops = stops_of_tab(page, 400)
    assert [what for what, is_visible in stops if not is_visible] == []
    assert page.locator(CONTROLS).evaluate_all(MISSED) == []


MOST_DIFFERENT = 12.0
"""The mean difference of a gray, of 255, where either picture is not blank."""

FONTS = {"sans": "DejaVuSans", "mono": "DejaVuSansMono"}
"""Those of Matplotlib: every machine has them."""


def pinned(use: str, name: str) -> str:
    font = b64encode(Path(get_data_path(), "fonts/ttf", f"{name}.ttf").read_bytes()).decode()
    return (
        f"@font-face {{ font-family: {name}; src: url(data:font/ttf;base64,{font}) }}"
        f".kl-root {{ --kl-{use}: {name} !important }}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_it_looks_like_its_picture(open_page, name: str, request) -> None:
    page, file = shown(open_page, name), PICTURES / f"{name}.png"
    page.add_style_tag(content="".join(map(pinned, FONTS, FONTS.values())))
    taken = picture(page)
    if request.config.getoption("update_snapshots"):
        Image.fromarray(taken).quantize(16).save(file, optimize=True)
    known = np.asarray(Image.open(file).convert("L"))
    assert different(taken, known) < MOST_DIFFERENT
    page.evaluate("document.querySelectorAll('style').forEach((one) => one.remove())")
    assert different(picture(page), known) > MOST_DIFFERENT


def picture(page: Page) -> np.ndarray:
    """A fifth of the page at 1,000 and at 420 pixels, in gray, side by side."""
    taken = []
    for width in (1000, 420):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(300)  # sizes follow
        whole = ImageOps.grayscale(Image.open(BytesIO(page.screenshot())))
        taken.append(np.asarray(whole.resize((width // 5, 160), Image.Resampling.BOX)))
    return np.hstack(taken)


def different(one: np.ndarray, other: np.ndarray) -> float:
    isnt_blank = np.minimum(one, other) < 245
    return float(np.abs(one.astype(float) - other)[isnt_blank].mean())
