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
from kernellab.viz.pages import grades_page
from kernellab.workshop.course import exercises
from kernellab.workshop.exercise import EXERCISES
from kernellab.workshop.grader import Grade, Grades

RACE = Finding.of(
    "race", "two programs write y_ptr[0]", "Use an atomic.", SourcePosition("k.py", 3),
    argument="y_ptr", index=(0,), rivals=(((0, 0, 0), "writes 1"), ((1, 0, 0), "writes 2")),
)  # fmt: skip


def test_cards_fit_and_show_their_parts(open_page) -> None:
    check = Findings("k", "sm_90", (2, 1, 1), (RACE,))
    for record, part, number in (
        (check, ".kl-strip-cell", 3),
        (exercises(), ".kl-tile", 1 + len(EXERCISES)),
    ):
        card = registry.card(record)
        assert card is not None
        page = open_page(CardView(card), dark=number == 3)
        for width in (420, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            expect(page.locator(part)).to_have_count(number)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_table_of_numbers_and_its_code_need_no_scrolling_at_700_pixels(open_page) -> None:
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


def test_what_a_caret_points_to_is_marked_in_its_line(open_page) -> None:
    x = torch.ones(1000)
    found = kernellab.check(unmasked, (8,), x, x.clone(), BLOCK=128)
    card = registry.card(found)
    assert card is not None
    page = open_page(CardView(card), width=420)
    expect(page.locator(".kl-caret").first).to_have_text("x_ptr")
    expect(page.get_by_text("^", exact=True)).to_have_count(0)


ADD = ("add", "First kernels", "1.ipynb", "compiles", "out-of-bounds")
MISTAKES = Grades((
    Grade("/c/ann", *ADD, "this load reads x_ptr[128]", 5, "x = tl.load(x_ptr + offsets)"),
    Grade("/c/bob", *ADD, "this load reads x_ptr[97]", 6, "x = tl.load(x_ptr + i)"),
    Grade("/c/eve", *ADD, "this store writes z_ptr[97]", 7, "tl.store(z_ptr + <i>, x)"),
    Grade("/c/ann", "add_one", "First kernels", "1.ipynb", "within budget"),
))  # fmt: skip


def test_the_page_of_a_class_groups_equal_mistakes_with_the_students_lines(
    open_page, tmp_path
) -> None:
    file = tmp_path / "class.html"
    file.write_text(grades_page(MISTAKES))
    page = open_page(file)
    for width in (400, 1300):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        groups = page.locator(".mistake")
        expect(groups).to_have_count(2)
        expect(groups.first).to_contain_text("out-of-bounds: this load reads x_ptr[128]")
        expect(groups.first.locator("pre")).to_have_text(
            ["x = tl.load(x_ptr + offsets)", "x = tl.load(x_ptr + i)"]
        )
        expect(groups.first).to_contain_text("bob, line 6")
        expect(groups.last).to_contain_text("tl.store(z_ptr + <i>, x)")
