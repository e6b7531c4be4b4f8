"""axe-core finds nothing in any view, wide and narrow, light and dark."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import kernellab
from benchmarks import memory_kernels as kernels
from kernellab.viz import registry
from kernellab.viz.kit.view import Card, CardView, View
from kernellab.workshop.course import exercises
from tests.kernels.basic import add
from tests.support.source_files import ROOT
from tests.viz.browser import OpenPage
from tests.viz.graph_report import FILE
from tools import site_views

AXE = ROOT / "js/node_modules/axe-core/axe.min.js"
X = torch.ones(4096)
COPY = (torch.ones(8192), torch.zeros(1024))

RECORDS: dict[str, Callable[[], Any]] = {
    "check": lambda: kernellab.check(add, (5,), X, X, torch.zeros(4096), 4100, BLOCK=1024),
    "diagnosis": lambda: kernellab.diagnose(add, X, X, X, 4096, grid=(4,), BLOCK=1024),
    "accesses": lambda: kernellab.accesses(
        kernels.copy_strided, (1,), *COPY, STRIDE=8, BLOCK=1024, target="sm_90"
    ),
    "exercises": exercises,
    "profile": lambda: kernellab.load(ROOT / "notebooks/recorded/profile_h200_lines.klprofile"),
    "session": lambda: kernellab.load(ROOT / "notebooks/recorded/profile_h200_step.klprofile"),
    "graph": lambda: kernellab.load(FILE, trust=True),  # a file of the tests
    **{make.__name__: make for make in site_views.VIEWS},
}

FOUND = """async () => (await axe.run()).violations.flatMap(({ id, nodes }) =>
  nodes.map((node) => `${id}: ${node.html.slice(0, 200)}`))"""


@pytest.mark.slow
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci in js/)")
@pytest.mark.parametrize(
    "name",
    RECORDS,
)
def test_axe_finds_nothing(open_page: OpenPage, name: str) -> None:
    record = RECORDS[name]()
    view = record if isinstance(record, View) else registry.view(record)
    page = open_page(CardView(view) if isinstance(view, Card) else view, dark=True, width=1400)
    page.wait_for_selector("[data-ready], [data-drawn], .kl-card-content")
    page.evaluate(AXE.read_text())
    for width, scheme in ((1400, "dark"), (420, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(200)  # colors and sizes follow
        assert page.evaluate(FOUND) == []
