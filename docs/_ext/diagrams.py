"""Mermaid's flowcharts, as far as our pages use them, drawn as SVG: what GitHub draws by a script
from elsewhere needs none here.
"""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise

from docutils import nodes
from sphinx.application import Sphinx

HEIGHT, GAP, LETTER = 30, 34, 8
"""Of a box, between rows, and of a letter's width, in pixels."""


def edges_of(text: str) -> list[tuple[str, str]]:
    """The arrows of "a & b --> c & d"."""
    arrows = []
    for line in text.strip().split("\n")[1:]:
        ends = [re.split(r"\s*&\s*", side.strip()) for side in line.split("-->")]
        arrows += [(tail, head) for a, b in pairwise(ends) for tail in a for head in b]
    return arrows


def rows_of(edges: list[tuple[str, str]]) -> list[list[str]]:
    """The boxes, each below all that lead to it."""
    depth: dict[str, int] = {name: 0 for edge in edges for name in edge}
    for _ in depth:
        for above, below in edges:
            depth[below] = max(depth[below], depth[above] + 1)
    return [
        [name for name in depth if depth[name] == row] for row in range(max(depth.values()) + 1)
    ]


def drawn(text: str) -> str:
    """A flowchart as SVG."""
    edges = edges_of(text)
    rows = rows_of(edges)
    widths = {name: LETTER * len(name) + 24 for row in rows for name in row}
    total = max(sum(widths[name] + 16 for name in row) for row in rows)
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        x = (total - sum(widths[name] + 16 for name in row)) / 2 + 8
        for name in row:
            places[name] = (x + widths[name] / 2, number * (HEIGHT + GAP) + 2)
            x += widths[name] + 16
    lines = [
        f'<path d="M{places[a][0]:.0f} {places[a][1] + HEIGHT} '
        f'L{places[b][0]:.0f} {places[b][1]}"/>'
        for a, b in edges
        if places[b][1] - places[a][1] == HEIGHT + GAP
    ]
    boxes = [
        f'<rect x="{x - widths[name] / 2:.0f}" y="{y}" width="{widths[name]}" height="{HEIGHT}" '
        f'rx="5"/><text x="{x:.0f}" y="{y + 20}">{escape(name)}</text>'
        for name, (x, y) in places.items()
    ]
    height = len(rows) * (HEIGHT + GAP) - GAP + 4
    title = escape("; ".join(f"{a} uses {b}" for a, b in edges))
    return (
        f'<svg class="flowchart" viewBox="0 0 {total:.0f} {height}" width="{total:.0f}" role="img">'
        f"<title>{title}</title>{''.join(lines)}{''.join(boxes)}</svg>"
    )


def draw(_app: Sphinx, doctree: nodes.document) -> None:
    """Draw the blocks that are Mermaid's."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", drawn(block.astext()), format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
