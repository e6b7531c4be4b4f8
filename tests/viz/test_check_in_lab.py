"""The card of a check in JupyterLab: its pictures, its links, and a fix written into the cell."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.viz.browser import Watched
from tests.viz.jupyter import Jupyter, show_cell, view

pytestmark = pytest.mark.slow

KERNELS = """\
%%tilekernel --no-compile
@triton.jit
def unmasked(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i), mask=i < n)

@triton.jit
def broken(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(total_ptr, tl.load(total_ptr) + tl.sum(x))
x, y, total = torch.arange(1000.0), torch.zeros(1000), torch.zeros(1)"""
CELLS = [
    "%load_ext kernellab\nimport torch, triton, triton.language as tl, kernellab",
    KERNELS,
    "%tilecheck unmasked[(4,)](x, y, 1000, BLOCK=256)",
    "%tilecheck broken[(4,)](x, total, 1000, BLOCK=256)",
]
DEFINED, UNMASKED, BROKEN = 1, 2, 3


@pytest.fixture(scope="module")
def shown(chromium: Browser, server: Jupyter) -> Iterator[Watched]:
    with server.run_watched(chromium, *CELLS) as watched:
        expect(view(watched.page, BROKEN, "card")).to_be_visible(timeout=90_000)
        yield watched


def test_a_race_shows_its_two_programs_and_its_link_opens_the_race(page: Page) -> None:
    card = view(page, BROKEN, "card")
    expect(card.locator(".kl-banner")).to_contain_text("✗ broken: 2 findings")
    race = card.locator(".kl-striped", has_text="race,")
    expect(race.locator(".kl-strip-cell.kl-tone-fail")).to_have_text("✗ total_ptr[0]")
    expect(race.locator(".kl-strip-cell").first).to_contain_text("(0, 0, 0) writes")
    race.get_by_role("button", name="step", exact=True).click()
    steps = view(page, BROKEN, "steps")
    expect(steps).to_be_visible(timeout=60_000)
    expect(steps.locator(".kl-said")).to_contain_text("both write total_ptr[0]")
    expect(steps.locator(".kl-fault")).to_be_hidden()
    expect(steps.locator(".kl-source-line[aria-current]")).to_contain_text("tl.store(total_ptr")


def test_a_tried_change_is_written_into_its_cell_and_checked_again(page: Page) -> None:
    card = view(page, UNMASKED, "card")
    expect(card.locator(".kl-strip-cell.kl-tone-fail").first).to_have_text("✗ 1000")
    expect(card.locator(".kl-came")).to_contain_text("+ tl.store(")
    card.get_by_role("button", name="Apply and check again").click()
    passed = view(page, UNMASKED, "card").locator(".kl-banner.kl-tone-pass")
    expect(passed).to_contain_text("✓ unmasked: nothing found", timeout=60_000)
    source = show_cell(page, DEFINED).locator(".cm-content")
    expect(source).to_contain_text("tl.load(x_ptr + i, mask=i < n)")
