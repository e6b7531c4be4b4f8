"""Cards and views. A card consists of tables of text, as HTML and as plain text of the same
content. A view is one object with every representation, of which the front end shows the best that
it can.

A live notebook gets the widget, a saved one the still, which consists of cards, a terminal the
text; `to_html` writes a page that needs no kernel and no network.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, singledispatch
from html import escape
from pathlib import Path
from typing import Any

from kernellab.common.progress import in_notebook
from kernellab.common.system import check_place, save_whole
from kernellab.errors import ArgumentError, visible
from kernellab.records.display import described
from kernellab.viz.kit import palette
from kernellab.viz.kit.data import (
    Answer,
    Bar,
    BarKind,
    CardData,
    Handler,
    Link,
    Strip,
    TabGroup,
    TableData,
    Tile,
    Tone,
    ViewData,
    packed,
)

MARKS: Mapping[Tone, str] = {"": "", "pass": "✓", "warn": "!", "fail": "✗"}
"""The mark of each tone, for readers who do not see its color."""

_COLORS: Mapping[Tone, str] = {
    "": palette.INK,
    "pass": palette.PASS,
    "warn": palette.WARN,
    "fail": palette.FAIL,
}
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
    """Tiles side by side, which wrap if there is little space."""
    drawn = "\n".join(map(_tile_html, tiles))
    if not drawn:
        return ""
    columns = "repeat(auto-fit,minmax(min(10em,calc(50% - 4px)),1fr))"
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
    flow = "display:flex;flex-wrap:wrap;align-items:baseline;row-gap:2px"
    title = ""
    if strip.title:
        title = f'<span style="{_MONO};padding-right:9px">{escape(strip.title)}</span> '
    return f'<div style="{flow};margin:4px 0;padding-left:1px">{title}{cells}</div>\n'


def strip_text(strip: Strip) -> str:
    """The same as one line."""
    cells = [_marked(cell.words, cell.tone) for cell in strip.cells]
    return "    " + "  ".join(filter(None, [strip.title, *cells]))


def _marked(words: str, tone: Tone) -> str:
    return f"{MARKS[tone]} {words}".lstrip()


def diff_style(line: str) -> str:
    """The style of a line of a change: removed ones begin with "- ", added ones with "+ "."""
    color = {"- ": palette.FAIL, "+ ": palette.PASS}.get(line[:2])
    return "" if color is None else f";background:{color}22"


@dataclass(frozen=True)
class Table(TableData):
    """Rows of text under column names; a table without column names lists facts, one a row."""

    in_text: str | None = None
    """The line that `text` has in place of its rows; "" for none."""


@dataclass(frozen=True)
class Card:
    """Tiles and tables about one thing, the same in `html` and `text`; backticks mark code."""

    title: str
    subtitle: str = ""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    tone: Tone = ""
    """Whether its subject is in order: the title is a band in that color."""
    tiles: Sequence[Tile] = ()
    """The answers, above all else."""
    lead: str = ""
    """One sentence below the tiles: what to do first."""
    lead_links: Sequence[Link] = ()
    """Its links in a live view."""
    footnotes: Sequence[str] = ()
    """The notes below the tables: how the numbers were found."""
    legend: Sequence[tuple[BarKind, str]] = ()
    """The meanings of the parts of bars, in words."""

    def html(self) -> str:
        """Self-contained HTML without scripts or style sheets, in light and in dark."""
        tables = "\n".join(_table_html(table, is_wide) for table, is_wide in self._drawn())
        said = (*([self.lead] if self.lead else []), *self.notes)
        notes, footnotes = (
            "\n".join(f'<div style="{style}">{_words(note)}</div>' for note in some)
            for some, style in ((said, _NOTE), (self.footnotes, _FOOTNOTE))
        )
        heading = f'<b style="font-size:1.1em">{escape(self._heading)}</b>'
        subtitle = f'<span style="opacity:.75">{escape(self.subtitle)}</span>'
        legend = " ".join(map(_legend_html, self.legend))
        if legend:
            footnotes = f'<div style="{_FOOTNOTE}">{legend}</div>\n{footnotes}'
        if not tables and not notes and not footnotes and not self.tiles:
            return f"<div>{heading} {subtitle}</div>"
        return (
            f'<div style="{_BOX}">\n{band_html(f"{heading} {subtitle}", self.tone)}\n'
            f"{tiles_html(self.tiles)}{notes}\n"
            f'<div style="{_SIDE_BY_SIDE}">\n{tables}\n</div>\n{footnotes}</div>'
        )

    @property
    def _heading(self) -> str:
        return f"{MARKS[self.tone]} {self.title}".lstrip()

    def text(self) -> str:
        """The card for a terminal."""
        said = (*([self.lead] if self.lead else []), *self.notes)
        first = f"{self._heading}  {self.subtitle}".rstrip().replace("\n", " ")
        lines = [first, *tiles_text(self.tiles)]
        lines += [f"  {note}" for note in said]
        for table in self.tables:
            if table.in_text is not None:
                lines += [f"  {table.in_text}"] if table.in_text else []
            elif table.rows or table.tiles:
                lines += _table_text(table)
        entries = [f"{_DRAWN[kind][0]} {words}" for kind, words in self.legend]
        lines += [f"  {note}" for note in (*filter(None, [", ".join(entries)]), *self.footnotes)]
        return visible(_MARKED.sub(r"\1", "\n".join(lines)))

    def data(self, later: Sequence[str] = ()) -> CardData:
        """The data of the live card; `later` is as in `CardData`."""
        tables = [_as(TableData, table, is_wide=is_wide) for table, is_wide in self._drawn()]
        made: CardData = _as(CardData, self, kind="card", tables=tuple(tables), later=tuple(later))
        return made

    def _drawn(self) -> Sequence[tuple[Table, bool]]:
        """The tables with rows, and whether each has the whole width."""
        tables = [table for table in self.tables if table.rows or table.tiles]
        wide = [
            table.is_wide or bool(table.tiles) or table.is_listing or _is_broad(table)
            for table in tables
        ]
        is_alone = wide.count(False) == 1
        return [(table, is_wide or is_alone) for table, is_wide in zip(tables, wide)]

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()


def _as(kind: type[Any], record: Table | Card, /, **stated: Any) -> Any:
    """A record as the data class `kind`: the fields of the same names, sequences as tuples."""
    names = {field.name for field in fields(kind)} - set(stated)
    taken = {name: getattr(record, name) for name in names}
    is_list = {name: isinstance(value, list | range) for name, value in taken.items()}
    return kind(**{n: tuple(v) if is_list[n] else v for n, v in taken.items()}, **stated)


@singledispatch
def card_of(record: object) -> Card | None:
    """The card of a record, by its class; None if it has none."""
    del record
    return None


_LINE = "1px solid rgba(128,128,128,.35)"
_BOX = (
    f"border:{_LINE};border-radius:6px;padding:8px 12px;margin:4px 0;max-width:72em;overflow-x:auto"
)
_NOTE = "margin-top:4px"
_FOOTNOTE = f"{_NOTE};opacity:.75;font-size:.9em"
_SIDE_BY_SIDE = "columns:2 28em;column-gap:40px"
_TOGETHER = "break-inside:avoid"
_ACROSS = "column-span:all"
_MOST_BESIDE = 4
"""Columns of the widest table shown beside another; wider tables have the whole width."""

_LONGEST_BESIDE = 40
"""Letters of the longest name in a table shown beside another."""

_MOST_ROOMY = 9
"""Columns of the widest table of ordinary size; wider ones are set tighter."""

_ROOM, _LITTLE_ROOM = "padding:1px 14px 1px 0", "padding:1px 8px 1px 0"

# Notebook pages style all tables, and pages without a doctype give tables no inherited color.
_TABLE = "border-collapse:collapse;border:0;margin:2px 0;font:inherit;color:inherit"
_CELL = f"text-align:left;{_ROOM};border:0;vertical-align:top;background:none"
_HEAD = f"{_CELL};font-weight:normal;opacity:.65"
_NUMBER = f"{_CELL};text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_LABEL = f"{_CELL};white-space:nowrap"
_CODE = f"{_CELL};{_MONO}"
_FACT = f"{_CODE};white-space:pre-wrap;overflow-wrap:anywhere"
_FOLD = "border:0;margin:4px 0 0;padding:0;background:none"
_MARKED = re.compile(r"`([^`\n]+)`")


def _words(text: str) -> str:
    """A text as HTML; what is between backticks is code."""
    return _MARKED.sub(rf'<code style="{_MONO};background:none;padding:0">\1</code>', escape(text))


def _table_html(table: Table, across: bool) -> str:
    """A table as HTML; `across` says whether it has the whole width."""
    title = ""
    if table.title and not table.is_folded:
        bar = _bar_html(table.title_bar) if table.title_bar else ""
        title = f'<div style="padding-top:8px;font-weight:600">{bar}{escape(table.title)}</div>\n'
    if table.strip is not None:
        title += strip_html(table.strip)
    if table.tiles:
        return f'<div style="{_ACROSS}">{title}{tiles_html(table.tiles)}</div>'
    head = ""
    if any(table.columns):
        names = "".join(
            f'<th style="{_HEAD}{";text-align:right" if n in table.numbers else ""}">'
            f"{escape(name)}</th>"
            for n, name in enumerate(table.columns)
        )
        head = f"<thead><tr>{names}</tr></thead>\n"
    dense = len(table.columns) > _MOST_ROOMY
    table_style = f"{_TABLE};font-size:.88em" if dense else _TABLE
    first_style = f"{_CODE}{';white-space:nowrap' if across else ''}" if head else _LABEL
    if 0 in table.numbers:
        first_style += ";text-align:right"
    rows = []
    for number, row in enumerate(table.rows):
        first, *rest = (
            _bar_html(table.bars[column][number]) if column in table.bars else _words(cell)
            for column, cell in enumerate(row)
        )
        if table.is_listing:  # where styles are stripped, spaces would become one
            first = first.replace("  ", "&nbsp; ").replace("  ", " &nbsp;")
        if table.is_listing and not any(rest):
            rest = []
        cells = "".join(
            f'<td style="{_style(table, number, column)}">{cell}</td>'
            for column, cell in enumerate(rest, 1)
        )
        rows.append(
            f'<tr style="background:none"><td style="{first_style}">{first}</td>{cells}</tr>'
        )
    body = "\n".join(rows)
    if dense:
        head, body = (part.replace(_ROOM, _LITTLE_ROOM) for part in (head, body))
    whole = f'{title}<table style="{table_style}">\n{head}<tbody>\n{body}\n</tbody></table>'
    if table.is_folded:
        summary = f"<summary>{escape(table.title)}</summary>"
        whole = f'<details style="{_FOLD}">{summary}{whole}</details>'
    return f'<div style="{striped(_ACROSS if across else _TOGETHER, table.tone)}">{whole}</div>'


def _style(table: Table, row: int, column: int) -> str:
    if column in table.numbers:
        return _NUMBER
    if any(table.columns) and table.bars and table.code:  # the code would take the whole width
        return f"{_CODE if column in table.code else _CELL};white-space:pre"
    if any(table.columns):
        return f"{_CODE};white-space:pre" if column in table.code else _CELL
    if row not in table.code:
        return _CELL
    return f"{_FACT}{diff_style(table.rows[row][column])}" if table.edits else _FACT


_DRAWN: Mapping[BarKind, tuple[str, str]] = {
    "wait": ("░", palette.ORANGE), "copy": ("▒", palette.SKY), "dot": ("█", palette.GREEN), "other": ("·", palette.GRAY),
    "used": ("█", palette.BLUE), "lost": ("▒", palette.VERMILION),
}  # fmt: skip
"""The character and the color of a part of a bar."""

BAR_LETTERS = 20
"""Characters of a full bar in a text."""


def _bar_html(bar: Bar) -> str:
    stops, end = [], 0.0
    for part in bar:
        color = _DRAWN[part.stands_for][1]
        start, end = end, end + 100 * part.share
        stops.append(f"{color} {start:.1f}% {end:.1f}%")
    stops.append(f"transparent {end:.1f}%")
    gradient = f"linear-gradient(90deg,{','.join(stops)})"
    return f'<div style="width:9em;height:.75em;margin-top:.35em;background:{gradient}"></div>'


def _legend_html(entry: tuple[BarKind, str]) -> str:
    kind, words = entry
    swatch = f"display:inline-block;width:.8em;height:.8em;background:{_DRAWN[kind][1]}"
    return f'<span style="white-space:nowrap"><i style="{swatch}"></i> {escape(words)}</span>'


def _bar_text(bar: Bar) -> str:
    """A bar as characters; a part that would have none of them has one."""
    parts = (
        _DRAWN[part.stands_for][0] * max(1, round(part.share * BAR_LETTERS))
        for part in bar
        if part.share > 0
    )
    return "".join(parts)[:BAR_LETTERS]


def _is_broad(table: Table) -> bool:
    """Whether many columns, or unbreakable names, would reach into a table beside it."""
    return len(table.columns) > _MOST_BESIDE or (
        any(table.columns) and any(len(row[0]) > _LONGEST_BESIDE for row in table.rows)
    )


def _table_text(table: Table) -> list[str]:
    if table.tiles:
        return [f"  {table.title}", *tiles_text(table.tiles)]
    rows = [
        [
            _bar_text(table.bars[column][number]) if column in table.bars else cell
            for column, cell in enumerate(row)
        ]
        for number, row in enumerate(table.rows)
    ]
    if any(table.columns):  # a name with a line break does not begin a row
        rows = [[cell.replace("\n", " ") for cell in row] for row in (table.columns, *rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    bar = f"{_bar_text(table.title_bar).ljust(BAR_LETTERS)} " if table.title_bar else ""
    lines = [f"  {bar}{table.title}"] if table.title else []
    if table.strip is not None:
        lines.append(strip_text(table.strip))
    for row in rows:
        cells = (
            cell.rjust(width) if n in table.numbers else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f"    {'  '.join(cells)}".rstrip())
    return lines


_SENT_AT_ONCE = 1_000_000
"""The most bytes of packed data that a widget sends; larger texts are sent on request."""

_numbers = itertools.count()


class View:
    """Something to look at, made of data that the widget, the page and the still share."""

    def __init__(
        self, title: str, make_data: Callable[[], ViewData], still: Callable[[], Sequence[Card]]
    ) -> None:
        """
        Args:
            make_data: makes what is drawn: a `ViewData`.
            still: makes the cards that stand for the view if nothing can be drawn.
        """
        self.title = title
        self._make_data = make_data
        self._make_still = still
        self._widget: Any = None
        self.number = next(_numbers)
        self.tab_id = ""
        """The name of this view in other views of the same launch."""
        self.tab_group: TabGroup | None = None
        """Those views, if there are any."""

    @cached_property
    def data(self) -> Any:
        """The data to draw: a `ViewData`."""
        return self._make_data()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The functions that answer the requests of the live view, by their kinds."""
        return {}

    @property
    def all_handlers(self) -> Mapping[str, Handler]:
        """The functions that answer the requests of any live view, and those of this kind."""
        return {"page": self._page_answer, **self.handlers}

    def _page_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "page": the file that `to_html` writes."""
        del request
        return Answer({}, [self._page(None)])

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data as a widget sends it: the part beyond that many bytes is left out."""
        del most_bytes  # most views are small
        return packed(self.data)

    @cached_property
    def still(self) -> tuple[Card, ...]:
        """The view as cards: tables and text."""
        return tuple(self._make_still())

    @property
    def widget(self) -> Any:
        """The live view, an anywidget that works without the kernel; the same until closed."""
        from kernellab.viz.kit.widget import ViewWidget, is_closed

        if self._widget is None or is_closed(self._widget):
            self._widget = ViewWidget(
                self.sent(), self.all_handlers, self.tab_id, self.number, self.tab_group
            )
        return self._widget

    def sent(self) -> bytes:
        """The packed data, as a widget sends it."""
        return self.lightened(_SENT_AT_ONCE)

    def to_html(self, path: str | os.PathLike[str], tabs: Sequence[str] | None = None) -> Path:
        """Write the view as one HTML file: no network, every interaction alive, every text in it.

        Args:
            tabs: the views of the same launch that are below it and are linked with it, as
                their bar names them: "ir", "steps", ... None for those that were opened.

        Returns the file's path.

        Raises:
            KernelLabError: the file cannot be written, or there is no such view.
        """
        check_place(path)  # before the work of making it
        return save_whole(path, self._page(tabs))

    def _page(self, tabs: Sequence[str] | None) -> bytes:
        from kernellab.viz.kit import page  # with pandas, which takes a while

        others = [] if self.tab_group is None else self.tab_group.chosen(tabs)
        sections = [page.Section("", self, ())]
        sections += [page.Section(tab.words, view, ()) for tab, view in others if view is not self]
        return page.page_of_views(self.title, sections).encode()

    def still_html(self) -> str:
        """The still as HTML: tables and `pre`, no script."""
        return "\n".join(card.html() for card in self.still)

    def packed_data(self) -> bytes:
        """All data as a page embeds it."""
        return packed(self.data)

    def _ipython_display_(self) -> None:
        """Send a notebook two outputs: the still, and the widget,
        whose style sheet hides the still before it.

        One output with both types would be saved with the widget's type on top,
        and a front end without its model shows an error instead of the still.
        """
        if not in_notebook():
            raise NotImplementedError  # IPython then calls `_repr_mimebundle_`
        from IPython.display import publish_display_data

        live = self.widget._repr_mimebundle_()
        data, metadata = live if isinstance(live, tuple) else (live, {})
        hint = "Run the cell for the live view."
        publish_display_data({"text/plain": repr(self), "text/html": _STILL % self.still_html()})
        publish_display_data({**data, "text/plain": hint}, metadata)

    def _display_(self) -> Any:
        """The form that marimo shows: a widget."""
        return self.widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude  # IPython picks from what is given
        return {"text/plain": repr(self), "text/html": self.still_html()}

    def __repr__(self) -> str:
        return "\n\n".join(card.text() for card in self.still)


class CardView(View):
    """A card that is alive: its rows lead to other views."""

    def __init__(self, card: Card) -> None:
        super().__init__(card.title, card.data, lambda: (card,))


@singledispatch
def view_of(record: object) -> View | Card:
    """Return the view of a record, by its class; the card of a record that has no view.

    Functions that are registered here may take more: annotations, and options by name.

    Raises:
        ArgumentError: it has neither a view nor a card.
    """
    card = card_of(record)
    if card is not None:
        return card
    if hasattr(record, "fn") and hasattr(record, "arg_names"):
        name = getattr(record, "__name__", "kernel")
        raise ArgumentError(
            f"{name!r} is a kernel that has not been compiled or launched, so there is nothing to "
            "show.",
            advice=f"To view its compilation, call kernellab.compile({name}, ...).explore(), or use "
            f"%tileir {name} in a notebook. To view its steps, call kernellab.trace({name}, grid, "
            "...).",
        )
    raise ArgumentError(f"There is no view of {described(record)}.", advice=_SHOWN)


_SHOWN = (
    "Pass a layout, the error of a failed compilation, or what kernellab.compile, compare, trace, "
    "check, accesses, bisect, tune or load returns."
)

_STILL = """<div class="kl-still"><style>
.jp-OutputArea-child:has(.kl-still) + .jp-OutputArea-child:not(:has(.kl-root, [data-mime-type])) { display: none; }
.jp-NotebookPanel .kl-still { animation: kl-still-waits 0.4s; }
@keyframes kl-still-waits { from, to { visibility: hidden; } }
</style>
%s
</div>"""
"""The still as a notebook saves it. Of the widget after it, which Jupyter has no model for, "model
not found" need not be read; and before a widget that does come, the still need not flash up. Where
styles are stripped nothing else changes."""
