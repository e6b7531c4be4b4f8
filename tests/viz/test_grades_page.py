"""The page of a class: mistakes with the students' lines, on a phone and on a screen."""

from pathlib import Path

from playwright.sync_api import expect

from kernellab.viz.pages import grades_page
from kernellab.workshop.grader import Grade, Grades
from tests.viz.browser import OpenPage

ADD = ("add", "First kernels", "1.ipynb", "compiles", "out-of-bounds")
MISTAKES = Grades((
    Grade("/c/ann", *ADD, "this load reads x_ptr[128]", 5, "x = tl.load(x_ptr + offsets)"),
    Grade("/c/bob", *ADD, "this load reads x_ptr[97]", 6, "x = tl.load(x_ptr + i)"),
    Grade("/c/eve", *ADD, "this store writes z_ptr[97]", 7, "tl.store(z_ptr + <i>, x)"),
    Grade("/c/ann", "add_one", "First kernels", "1.ipynb", "within budget"),
))  # fmt: skip


def test_the_page_of_a_class_groups_equal_mistakes_with_the_students_lines(
    open_page: OpenPage, tmp_path: Path
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
