"""The cards of a check and of the exercises as pages, at the width of a phone and of a screen."""

import torch
import triton
import triton.language as tl
from playwright.sync_api import expect

import kernellab
from benchmarks import memory_kernels
from kernellab.checker.records import Finding, Findings
from kernellab.errors import SourcePosition
from kernellab.viz import registry
from kernellab.viz.kit.view import CardView
from kernellab.workshop.course import exercises
from kernellab.workshop.exercise import EXERCISES
from tests.viz.browser import OpenPage

RACE = Finding.of(
    "race", "two programs write y_ptr[0]", "Use an atomic.", SourcePosition("k.py", 3),
    argument="y_ptr", index=(0,), rivals=(((0, 0, 0), "writes 1"), ((1, 0, 0), "writes 2")),
)  # fmt: skip


def test_cards_fit_and_show_their_parts(open_page: OpenPage) -> None:
    check = Findings("k", "sm_90", (2, 1, 1), (RACE,))
    for record, part, number in (
        (check, ".kl-strip-cell", 3),
        (exercises(), ".kl-tile", len(EXERCISES)),
    ):
        card = registry.card(record)
        assert card is not None
        page = open_page(CardView(card), dark=number == 3)
        for width in (420, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            expect(page.locator(part)).to_have_count(number)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_table_of_numbers_and_its_code_need_no_scrolling_at_700_pixels(
    open_page: OpenPage,
) -> None:
    copied = (torch.ones(8192), torch.zeros(1024))
    counted = kernellab.accesses(
        memory_kernels.copy_strided, (1,), *copied, STRIDE=8, BLOCK=1024, target="sm_90"
    )
    card = registry.card(counted)
    assert card is not None
    page = open_page(CardView(card), width=700)
    wide = page.locator(".kl-card-wide")
    assert wide.evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
    expect(page.locator("td[colspan]")).to_have_text(
        ["tl.store(out + at, tl.load(x + at * STRIDE))"]
    )


@triton.jit
def unmasked(x_ptr, z_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets))


def test_what_a_caret_points_to_is_marked_in_its_line(open_page: OpenPage) -> None:
    x = torch.ones(1000)
    found = kernellab.check(unmasked, (8,), x, x.clone(), BLOCK=128)
    card = registry.card(found)
    assert card is not None
    page = open_page(CardView(card), width=420)
    expect(page.locator(".kl-caret").first).to_have_text("x_ptr")
    expect(page.get_by_text("^", exact=True)).to_have_count(0)
