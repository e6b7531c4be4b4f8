"""Reports: text comes out as it went in, and a page needs nothing from anywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.records import Stage
from kernellab.viz.kit import page as report
from kernellab.viz.pages import stage_details
from tests.support.pages import Reader, assert_self_contained


@given(st.text())
@settings(max_examples=30)
def test_any_text_of_a_stage_comes_out_as_it_went_in(text: str) -> None:
    # What a browser normalizes in any text: line ends, and NUL, which HTML has no way to write.
    text = text.replace("\r", "").replace("\0", "")
    page = report.page("stage", report.escape(""), [stage_details(Stage("ttir", "mlir", text))])
    seen = Reader(page)
    assert seen.preformatted == [text]
    assert_self_contained(page)


def test_titles_and_cells_are_escaped() -> None:
    bad = "<script>alert(1)</script>&\"'"
    page = report.page(bad, report.paragraph(bad), [report.escape(bad)])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#x27;") == 4


def test_a_binary_stage_shows_its_size() -> None:
    assert "1,004 bytes, binary" in stage_details(Stage("cubin", "elf", bytes(1004)))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0.0, "0"),
        (0.0129, "0.0129"),
        (124.97, "125"),
        (12_345.6, "12,346"),
        (7.46e-9, "7.5e-09"),
        (24576, "24,576"),
        (7, "7"),
    ],
)
def test_numbers_as_a_reader_wants_them(number: float, words: str) -> None:
    assert report.format_number(number) == words
