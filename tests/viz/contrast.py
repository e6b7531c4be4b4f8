"""The colors of the views' style sheet, and contrast as WCAG 2.2 defines it."""

from __future__ import annotations

import re

from tests.support.source_files import ROOT

STYLE = (ROOT / "js/src/style.css").read_text()


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


def colors(theme: str) -> dict[str, str]:
    """The variables of a theme."""
    found: dict[str, str] = {}
    for selector in THEMES[theme]:
        for body in re.findall(re.escape(selector) + r"\s*\{([^}]*)\}", STYLE):
            found.update(re.findall(r"--kl-([\w-]+):\s*(#[0-9a-f]{6})\b", body))
    return found


def luminance(color: str) -> float:
    """The relative luminance of WCAG: from sRGB, 0 for black to 1 for white."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
