"""How values, places and sizes are written."""

from __future__ import annotations

import pytest

from kernellab.common.text import element_text, format_bytes, index_text, scaled, time_text


@pytest.mark.parametrize(
    ("microseconds", "digits", "text"),
    [
        (15.23, 3, "15.2 us"),
        (999.4, 3, "999 us"),
        (999.6, 3, "1 ms"),
        (999.96, 4, "1 ms"),
        (5842.0, 3, "5.84 ms"),
        (1.234e6, 4, "1.234 s"),
        (0.0, 3, "0 us"),
    ],
)
def test_a_time_has_the_unit_that_fits(microseconds: float, digits: int, text: str) -> None:
    assert time_text(microseconds, digits) == text


def test_an_amount_has_a_decimal_multiple_of_its_unit() -> None:
    assert [scaled(number, "B") for number in (5, 264_000, 1.5e9)] == ["5 B", "264 kB", "1.5 GB"]
    assert [format_bytes(number) for number in (512, 12_600_000)] == ["512 bytes", "12.6 MB"]


def test_an_element_has_its_argument_and_its_index() -> None:
    assert element_text("z_ptr", (3, 7)) == "z_ptr[3, 7]"
    assert element_text("", [3]) == "memory[3]"
    assert element_text("scalar", ()) == "scalar"
    assert index_text(("s0", 7)) == "[s0, 7]"
