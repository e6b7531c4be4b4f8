"""The colors of the views' style sheet."""

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
