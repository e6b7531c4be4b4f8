"""The explorer's colors, in both themes: every text can be read on everything that it stands on,
and every mark be seen.

Ratios as WCAG 2.2 defines them: 4.5 for text (success criterion 1.4.3), 3 for marks and outlines
(1.4.11). What differs by its color also differs by its shape (the marks of passes, the two sides
of a difference), so that no reader needs to tell colors apart.
"""

import pytest

from kernellab.viz.kit.palette import contrast
from tests.viz.contrast import THEMES, colors

CODE = (
    "t-comment", "t-string", "t-value", "t-symbol", "t-attribute", "t-type", "t-keyword",
    "t-number", "ink",
)  # fmt: skip
BEHIND_CODE = (
    "paper", "lit", "chosen", "match", "selection", "gone", "gone-word", "came", "came-word",
)  # fmt: skip
WORDS = ("ink", "soft", "bad", "warn")
BEHIND_WORDS = ("paper", "shade", "hover", "selection", "button")
MARKS = ("changed", "left", "right", "bad", "warn", "focus", "bar", "edge", "soft", "mark")
BEHIND_MARKS = ("paper", "shade", "selection")


def too_faint(
    theme: str, front: tuple[str, ...], behind: tuple[str, ...], least: float
) -> list[str]:
    known = colors(theme)
    return [
        f"{one} on {other}: {ratio:.2f}"
        for one in front
        for other in behind
        if (ratio := contrast(known[one], known[other])) < least
    ]


@pytest.mark.parametrize("theme", THEMES)
def test_texts_can_be_read(theme: str) -> None:
    assert not too_faint(theme, CODE, BEHIND_CODE, 4.5)
    assert not too_faint(theme, WORDS, BEHIND_WORDS, 4.5)
    assert not too_faint(theme, ("ink", "soft"), ("lit",), 4.5), "a variable that changed"
    assert not too_faint(theme, ("paper",), ("changed",), 4.5), "the chosen mode"


@pytest.mark.parametrize("theme", THEMES)
def test_marks_can_be_seen(theme: str) -> None:
    assert not too_faint(theme, MARKS, BEHIND_MARKS, 3)


@pytest.mark.parametrize("theme", THEMES)
def test_chosen_lines_stand_out_from_lit_ones(theme: str) -> None:
    known = colors(theme)
    assert contrast(known["lit"], known["paper"]) > 1.1
    assert contrast(known["chosen"], known["lit"]) > 1.1


@pytest.mark.parametrize("theme", ["light, more contrast", "dark, more contrast"])
def test_who_wants_more_contrast_gets_it(theme: str) -> None:
    """Ratios of success criterion 1.4.6; lines are seen as well as marks are."""
    assert not too_faint(theme, ("ink", "soft"), ("paper", "shade"), 7)
    assert not too_faint(theme, ("line", "edge"), ("paper", "shade"), 3)
