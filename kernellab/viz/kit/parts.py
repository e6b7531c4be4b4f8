"""The parts of cards beside their tables, as HTML without a style sheet and as plain text: the band
of a title, tiles, stripes and strips. `js/src/parts/` draws the same parts in live views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from kernellab.viz.kit.data import Strip, Tile, Tone
from kernellab.viz.kit.palette import FAIL, INK, PASS, WARN

MARKS: Mapping[Tone, str] = {"": "", "pass": "✓", "warn": "!", "fail": "✗"}
"""The mark of each tone, for readers who do not see its color."""

_COLORS: Mapping[Tone, str] = {"": INK, "pass": PASS, "warn": WARN, "fail": FAIL}
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"


def band_html(heading: str, tone: Tone) -> str:
    """A heading, which is HTML, on a band in the color of its tone."""
    if not tone:
        return f"<div>{heading}</div>"
    color = _COLORS[tone]
    style = f"border-left:4px solid {color};background:{color}22;margin:-8px -12px 6px"
    return f'<div style="{style};padding:6px 10px">{heading}</div>'


def striped(style: str, tone: Tone) -> str:
    """A style, with the stripe of a tone at the left."""
    if not tone:
        return style
    return f"{style};border-left:3px solid {_COLORS[tone]};padding-left:10px;margin:0 0 8px"


def tiles_html(tiles: Iterable[Tile]) -> str:
    """Tiles side by side, which wrap where there is little space."""
    drawn = "\n".join(map(_tile_html, tiles))
    if not drawn:
        return ""
    columns = "repeat(auto-fit,minmax(min(10em,100%),1fr))"
    style = f"display:grid;grid-template-columns:{columns};gap:8px;margin:6px 0"
    return f'<div style="{style}">\n{drawn}\n</div>\n'


def _tile_html(tile: Tile) -> str:
    color = _COLORS[tile.tone]
    edge = f"border:1px solid rgba(128,128,128,.35);border-top:3px solid {color}"
    bar = ""
    if tile.share is not None:
        width = f"width:{100 * min(max(tile.share, 0.0), 1.0):.0f}%"
        bar = (
            '<div style="background:rgba(128,128,128,.25);height:4px;margin:3px 0">'
            f'<div style="{width};height:4px;background:{color}"></div></div>'
        )
    value = f"{MARKS[tile.tone]} {tile.value}".lstrip()
    return (
        f'<div style="min-width:0;{edge};border-radius:4px;padding:4px 9px">'
        f'<div style="opacity:.75">{escape(tile.name)}</div>'
        f'<div style="font-size:1.25em;font-weight:600">{escape(value)}</div>{bar}'
        f'<div style="opacity:.75">{escape(tile.detail)}</div></div>'
    )


def tiles_text(tiles: Iterable[Tile]) -> list[str]:
    """The same, one a line."""
    rows = [(tile.name, f"{MARKS[tile.tone]} {tile.value}".lstrip(), tile.detail) for tile in tiles]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows
    ]


def strip_html(strip: Strip) -> str:
    """Elements side by side, those at fault in red and with a mark."""
    cells = "".join(
        f'<span style="border:1px solid {_COLORS[cell.tone]};margin-left:-1px;padding:1px 7px;'
        f"background:{_COLORS[cell.tone]}{'33' if cell.tone else '11'};{_MONO};"
        f'white-space:nowrap">{escape(_marked(cell.words, cell.tone))}</span>'
        for cell in strip.cells
    )
    style = (
        "display:flex;flex-wrap:wrap;align-items:baseline;row-gap:2px;margin:4px 0;padding-left:1px"
    )
    title = ""
    if strip.title:
        title = f'<span style="{_MONO};padding-right:9px">{escape(strip.title)}</span> '
    return f'<div style="{style}">{title}{cells}</div>\n'


def strip_text(strip: Strip) -> str:
    """The same as one line."""
    cells = [_marked(cell.words, cell.tone) for cell in strip.cells]
    return "    " + "  ".join(filter(None, [strip.title, *cells]))


def _marked(words: str, tone: Tone) -> str:
    return f"{MARKS[tone]} {words}".lstrip()


def diff_style(line: str) -> str:
    """What a line of a change adds to its style: those that go begin with "- ", those that come
    with "+ ".
    """
    color = {"- ": FAIL, "+ ": PASS}.get(line[:2])
    return "" if color is None else f";background:{color}22"
