"""The cards of a check and of the exercises as pages, at the width of a phone and of a screen."""

from playwright.sync_api import expect

from kernellab.checker.records import Finding, Findings
from kernellab.errors import SourcePosition
from kernellab.viz import registry
from kernellab.viz.kit.view import CardView
from kernellab.workshop.course import exercises
from tests.viz.browser import OpenPage

RACE = Finding.of(
    "race", "two programs write y_ptr[0]", "Use an atomic.", SourcePosition("k.py", 3),
    argument="y_ptr", index=(0,), rivals=(((0, 0, 0), "writes 1"), ((1, 0, 0), "writes 2")),
)  # fmt: skip


def test_cards_fit_and_show_their_parts(open_page: OpenPage) -> None:
    check = Findings("k", "sm_90", (2, 1, 1), (RACE,))
    for record, part, number in (check, ".kl-strip-cell", 3), (exercises(), ".kl-tile", 43):
        card = registry.card(record)
        assert card is not None
        page = open_page(CardView(card), dark=number == 3)
        for width in (420, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            expect(page.locator(part)).to_have_count(number)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
