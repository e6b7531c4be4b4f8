"""Colors that stand for something can be told apart with any color vision, and texts be read."""

import itertools
import re
from typing import Any

import numpy
import pytest

from kernellab.viz.kit import palette
from kernellab.viz.kit.palette import contrast
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

PALETTE_TS = (ROOT / "js/src/palette.ts").read_text()
STEPPER_STYLE = (ROOT / "js/src/stepper.css").read_text()

Color = tuple[int, ...]

VISION = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""Linear RGB as it is seen: Machado, Oliveira and Fernandes (2009), severity 1."""

CLEARLY = 15.0
"""A difference (CIE76) that no one overlooks; 2.3 can just be noticed."""


def colors(theme: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for selector in THEMES[theme]:
        for body in re.findall(re.escape(selector) + r"\s*\{([^}]*)\}", STYLE):
            found.update(re.findall(r"--kl-([\w-]+):\s*(#[0-9a-f]{6})\b", body))
    return found


def linear(given: object) -> numpy.ndarray:
    share = numpy.asarray(given, numpy.float64) / 255
    return numpy.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(given: object, vision: str) -> numpy.ndarray:
    """CIE L*a*b* (D65) of sRGB colors as somebody with that vision sees them."""
    seen = numpy.clip(linear(given) @ numpy.array(VISION[vision]).T, 0, 1)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    xyz = seen @ numpy.array(to_xyz).T / (0.95047, 1, 1.08883)
    root = numpy.where(xyz > 0.008856, numpy.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = root[..., 0], root[..., 1], root[..., 2]
    return numpy.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def difference(one: object, other: object) -> float:
    """The smallest difference of a color of each list, in the vision where that is smallest."""
    return min(
        float(
            numpy.linalg.norm(lab(one, vision)[:, None] - lab(other, vision)[None], axis=-1).min()
        )
        for vision in VISION
    )


def of_hex(text: str) -> Color:
    return tuple(int(text[at : at + 2], 16) for at in (1, 3, 5))


def named(name: str) -> Color:
    """A color of the TypeScript."""
    found: Any = re.search(rf"const {name}: Color = \[(\d+), (\d+), (\d+)\]", PALETTE_TS)
    return tuple(int(channel) for channel in found.groups())


def kinds() -> list[Color]:
    found: Any = re.search(r"BLIND_SAFE: readonly string\[\] = \[([^\]]+)\]", PALETTE_TS)
    return [of_hex(text) for text in re.findall(r"#[0-9a-f]{6}", found[1])]


def test_the_legend_of_the_stepper_has_the_colors_of_its_pictures() -> None:
    for name, mark in (
        ("zero", "ZERO"),
        ("nan", "NAN"),
        ("infinite", "INFINITE"),
        ("read", "READ"),
        ("written", "WRITTEN"),
    ):
        assert f".kl-touch-{name} {{ background: rgb{named(mark)}; }}" in STEPPER_STYLE


def test_lines_of_figures_and_of_the_browser_have_the_same_colors() -> None:
    lines: Any = re.search(r"LINES: readonly string\[\] = \[([^\]]+)\]", PALETTE_TS)
    ordered: Any = re.search(r"ORDERED: readonly Color\[\] = \[(.+?)\n\];", PALETTE_TS, re.DOTALL)
    assert tuple(re.findall(r"#[0-9a-f]{6}", lines[1])) == palette.LINES
    found = re.findall(r"\[(\d+), (\d+), (\d+)\]", ordered[1])
    assert [tuple(map(int, one)) for one in found] == [of_hex(one) for one in palette.ORDERED]


def test_lines_can_be_told_apart_with_any_color_vision_and_are_seen_on_any_page() -> None:
    for one, other in itertools.combinations(palette.LINES, 2):
        assert difference([of_hex(one)], [of_hex(other)]) > CLEARLY, (one, other)
    between = [
        tuple(low + (high - low) * step // 10 for low, high in zip(of_hex(one), of_hex(other)))
        for one, other in itertools.pairwise(palette.ORDERED)
        for step in range(11)
    ]
    for line in (*map(of_hex, palette.LINES), *between):
        for theme in ("light", "dark"):
            written = "#" + "".join(f"{channel:02x}" for channel in line)
            assert contrast(written, colors(theme)["paper"]) >= 3, (written, theme)
    low, middle, high = ([of_hex(one)] for one in palette.ORDERED)
    assert min(difference(low, middle), difference(middle, high)) > CLEARLY


def test_kinds_can_be_told_apart_with_any_color_vision() -> None:
    found = kinds()
    assert len(found) == 8
    for one, other in itertools.combinations(found, 2):
        assert difference([one], [other]) > CLEARLY, (one, other)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_of_the_stepper_can_be_told_apart_with_any_color_vision(theme: str) -> None:
    scale = numpy.array([of_hex(palette.sequential(share / 50)) for share in range(51)])
    paper = numpy.array(of_hex(colors(theme)["paper"]))
    untouched = scale / 3 + paper * 2 / 3  # as `paintNumbers` has it, 0x55 of 0xff
    marks = {name: [named(name)] for name in ("ZERO", "NAN", "INFINITE", "READ", "WRITTEN")}
    for (one, first), (other, second) in itertools.combinations(marks.items(), 2):
        assert difference(first, second) > CLEARLY, (one, other)
    for name, mark in marks.items():
        assert difference(mark, scale) > CLEARLY, name
    for name in ("READ", "WRITTEN"):
        assert difference(marks[name], untouched) > CLEARLY, name


def test_labels_have_contrast_on_every_color() -> None:
    # `inkOn` takes black or white, whichever has more.
    scale = [of_hex(palette.sequential(share / 249)) for share in range(250)]
    for color in (*kinds(), *scale):
        text = "#" + "".join(f"{channel:02x}" for channel in color)
        assert max(contrast(text, ink) for ink in ("#000000", "#ffffff")) >= 4.5, color


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
