"""The explorer's colours, in both themes: every text can be read on everything that it stands on,
and every mark be seen.

Ratios as WCAG 2.2 defines them: 4.5 for text (success criterion 1.4.3), 3 for marks and outlines
(1.4.11). What differs by its colour also differs by its shape (the marks of passes, the two sides
of a difference), so that no reader needs to tell colours apart.
"""

from __future__ import annotations

import re

import pytest

from tests.support.source_files import ROOT

STYLE = (ROOT / "js/src/style.css").read_text()
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


THEMES = {
    "light": (".kl-root",),
    "dark": (".kl-root", '.kl-root[data-theme="dark"]'),
    "light, more contrast": (".kl-root", '.kl-root[data-contrast="more"]'),
    "dark, more contrast": (
        ".kl-root",
        '.kl-root[data-theme="dark"]',
        '.kl-root[data-contrast="more"]',
        '.kl-root[data-contrast="more"][data-theme="dark"]',
    ),
}
"""The selectors that a theme's variables stand at, each of which changes those before it."""


def colours(theme: str) -> dict[str, str]:
    """The variables of a theme."""
    found: dict[str, str] = {}
    for selector in THEMES[theme]:
        for body in re.findall(re.escape(selector) + r"\s*\{([^}]*)\}", STYLE):
            found.update(re.findall(r"--kl-([\w-]+):\s*(#[0-9a-f]{6})\b", body))
    return found


def luminance(colour: str) -> float:
    """The relative luminance of WCAG: from sRGB, 0 for black to 1 for white."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def too_faint(
    theme: str, front: tuple[str, ...], behind: tuple[str, ...], least: float
) -> list[str]:
    known = colours(theme)
    return [
        f"{one} on {other}: {ratio:.2f}"
        for one in front
        for other in behind
        if (ratio := contrast(known[one], known[other])) < least
    ]


def test_the_ratio_is_wcags() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # the usual example


@pytest.mark.parametrize("theme", THEMES)
def test_texts_can_be_read(theme: str) -> None:
    assert not too_faint(theme, CODE, BEHIND_CODE, 4.5)
    assert not too_faint(theme, WORDS, BEHIND_WORDS, 4.5)
    assert not too_faint(theme, ("paper",), ("changed",), 4.5), "the chosen mode"


@pytest.mark.parametrize("theme", THEMES)
def test_marks_can_be_seen(theme: str) -> None:
    assert not too_faint(theme, MARKS, BEHIND_MARKS, 3)


@pytest.mark.parametrize("theme", THEMES)
def test_chosen_lines_stand_out_from_lit_ones(theme: str) -> None:
    known = colours(theme)
    assert contrast(known["lit"], known["paper"]) > 1.1
    assert contrast(known["chosen"], known["lit"]) > 1.1


@pytest.mark.parametrize("theme", ["light, more contrast", "dark, more contrast"])
def test_who_wants_more_contrast_gets_it(theme: str) -> None:
    """Ratios of success criterion 1.4.6; lines are seen as well as marks are."""
    assert not too_faint(theme, ("ink", "soft"), ("paper", "shade"), 7)
    assert not too_faint(theme, ("line", "edge"), ("paper", "shade"), 3)
