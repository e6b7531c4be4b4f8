"""The colors of every picture, those of the front end among them (`js/src/palette.ts`; a test
compares the two).

Readers with any color vision can distinguish them. Figures are transparent, so that the page shows
through, light or dark: what they draw must be visible on both.
"""

from __future__ import annotations

from itertools import pairwise

BLIND_SAFE = (
    "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#555555",
)  # fmt: skip
"""Okabe and Ito (2008), for up to eight kinds; dark gray replaces black, for dark pages."""

SKY, ORANGE, GREEN, YELLOW, BLUE, VERMILION, PURPLE, GRAY = BLIND_SAFE

LINES = (BLUE, VERMILION, GREEN, PURPLE, "#8a3ffc", "#a0522d")
"""For lines and points, the clearest first. Violet and brown stand for what thin lines of Okabe
and Ito's other colors are not: seen on white and on a dark page, with a contrast of 3."""

BEST, OTHER, BASELINE = VERMILION, BLUE, GREEN
"""Of configs: the fastest, all others, and what they are compared with."""

ORDERED = ("#b07d12", GREEN, "#4a7fe0")
"""From low to high for thin lines, even in lightness, for white and dark pages."""

VIRIDIS = (
    (68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142),
    (31, 158, 137), (53, 183, 121), (109, 205, 89), (180, 222, 44), (253, 231, 37),
)  # fmt: skip
"""Red, green, blue at equal steps from smallest to largest, with growing lightness."""

PASS, WARN, FAIL = "#1f9d4d", "#b7791f", "#d64545"
"""Of what is in order, what may be meant, and what is wrong: stripes, bars and the edges of bands,
with a contrast of 3 on white and on a dark page; a mark beside them says the same."""

INK = "#767d84"
"""Of axes and words: as far from white as from the paper of a dark page."""

LIGHT_PAPER, DARK_PAPER = "#ffffff", "#14181d"
"""The background of the front end's pages (`--kl-paper` in `js/src/style.css`)."""


def luminance(color: str) -> float:
    """Relative luminance of "#rrggbb", from 0 to 1 (WCAG 2.2)."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(color: str, other: str) -> float:
    """Contrast of two colors, from 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((luminance(color), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def ink_on(color: str) -> str:
    """Black or white, whichever has more contrast on a color."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, color))


def sequential(share: float) -> str:
    """Viridis at a number from 0 to 1, as "#rrggbb"."""
    place = min(max(share, 0.0), 1.0) * (len(VIRIDIS) - 1)
    for number, (low, high) in enumerate(pairwise(VIRIDIS)):
        if place <= number + 1:
            part = place - number
            mixed = (round(a + (b - a) * part) for a, b in zip(low, high))
            return "#" + "".join(f"{channel:02x}" for channel in mixed)
    return sequential(0.0)  # a share that is NaN
