"""What cards are made of: tables of text, as HTML and as plain text of the same content."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from html import escape

from kernellab.viz.kit.data import CardData, Link, TableData


@dataclass(frozen=True)
class Table:
    """Rows of text under column names; a table without column names lists facts, one a row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    """Columns of numbers, counted from 0: they are aligned right, each on one line."""
    is_listing: bool = False
    """Whether the first column is code whose spaces mean something; it has the whole width."""
    links: Sequence[Link] = ()
    """Where rows lead in a live view."""
    code: Collection[int] = ()
    """Columns of code, counted from 0; of a table without column names, rows whose fact is code."""
    is_wide: bool = False
    """Whether it has the whole width, though it could be beside another table."""


@dataclass(frozen=True)
class Card:
    """A few tables about one thing. `html` and `text` say the same. Words between backticks are
    code, which `text` does not distinguish.
    """

    title: str
    subtitle: str = ""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default=())

    def html(self) -> str:
        """Self-contained HTML: no script, no style sheet;
        readable where styles are stripped, in light and in dark.
        """
        tables = "\n".join(_table_html(table, is_wide) for table, is_wide in self._drawn())
        notes = "\n".join(f'<div style="{_NOTE}">{_words(note)}</div>' for note in self.notes)
        heading = f'<b style="font-size:1.1em">{escape(self.title)}</b>'
        subtitle = f'<span style="opacity:.75">{escape(self.subtitle)}</span>'
        if not tables and not notes:
            return f"<div>{heading} {subtitle}</div>"
        return (
            f'<div style="{_BOX}">\n<div>{heading} {subtitle}</div>\n{notes}\n'
            f'<div style="{_SIDE_BY_SIDE}">\n{tables}\n</div>\n</div>'
        )

    def text(self) -> str:
        """The card for a terminal."""
        lines = [f"{self.title}  {self.subtitle}".rstrip(), *(f"  {note}" for note in self.notes)]
        for table in self.tables:
            if table.rows:
                lines += _table_text(table)
        return _MARKED.sub(r"\1", "\n".join(lines))

    def data(self) -> CardData:
        """What the live card draws."""
        tables = tuple(
            TableData(
                table.title,
                tuple(table.columns),
                tuple(map(tuple, table.rows)),
                tuple(sorted(table.numbers)),
                table.is_listing,
                tuple(table.links),
                tuple(sorted(table.code)),
                is_wide,
            )
            for table, is_wide in self._drawn()
        )
        return CardData("card", self.title, self.subtitle, tuple(self.notes), tables)

    def _drawn(self) -> Sequence[tuple[Table, bool]]:
        """The tables with rows, and whether each has the whole width, as one does that has no other
        beside it.
        """
        tables = [table for table in self.tables if table.rows]
        wide = [table.is_wide or table.is_listing or _is_broad(table) for table in tables]
        is_alone = wide.count(False) == 1
        return [(table, is_wide or is_alone) for table, is_wide in zip(tables, wide)]

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()


@singledispatch
def card_of(record: object) -> Card | None:
    """The card of a record, by its class; None where it has none."""
    del record
    return None


_LINE = "1px solid rgba(128,128,128,.35)"


_BOX = (
    f"border:{_LINE};border-radius:6px;padding:8px 12px;margin:4px 0;max-width:72em;overflow-x:auto"
)


_NOTE = "margin-top:4px"


_SIDE_BY_SIDE = "columns:2 28em;column-gap:40px"


_TOGETHER = "break-inside:avoid"


_ACROSS = "column-span:all"


_MOST_BESIDE = 4
"""Columns of the widest table shown beside another; wider tables have the whole width."""


_LONGEST_BESIDE = 40
"""Letters of the longest name in a table shown beside another."""


_MOST_ROOMY = 9
"""Columns of the widest table of ordinary size;
one with more is set tighter, so that a page of a notebook holds it."""


_ROOM, _LITTLE_ROOM = "padding:1px 14px 1px 0", "padding:1px 8px 1px 0"


# Notebook pages style all tables, and pages without a doctype give tables no inherited color.
_TABLE = "border-collapse:collapse;border:0;margin:2px 0;font:inherit;color:inherit"


_CELL = f"text-align:left;{_ROOM};border:0;vertical-align:top;background:none"


_HEAD = f"{_CELL};font-weight:normal;opacity:.65"


_NUMBER = f"{_CELL};text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"


_LABEL = f"{_CELL};white-space:nowrap"


_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"


_CODE = f"{_CELL};{_MONO}"


_FACT = f"{_CODE};white-space:pre-wrap;overflow-wrap:anywhere"


_MARKED = re.compile(r"`([^`\n]+)`")


def _words(text: str) -> str:
    """A text as HTML; what is between backticks is code."""
    return _MARKED.sub(rf'<code style="{_MONO};background:none;padding:0">\1</code>', escape(text))


def _table_html(table: Table, across: bool) -> str:
    """A table as HTML; `across` says whether it has the whole width."""
    title = ""
    if table.title:
        title = f'<div style="padding-top:8px;font-weight:600">{escape(table.title)}</div>\n'
    head = ""
    if any(table.columns):
        heads = [
            f"{_HEAD};text-align:right" if n in table.numbers else _HEAD
            for n in range(len(table.columns))
        ]
        names = "".join(
            f'<th style="{style}">{escape(name)}</th>' for style, name in zip(heads, table.columns)
        )
        head = f"<thead><tr>{names}</tr></thead>\n"
    dense = len(table.columns) > _MOST_ROOMY
    table_style = f"{_TABLE};font-size:.88em" if dense else _TABLE
    first_style = f"{_CODE}{';white-space:nowrap' if across else ''}" if head else _LABEL
    rows = []
    for number, row in enumerate(table.rows):
        first, *rest = (_words(cell) for cell in row)
        if table.is_listing:  # where styles are stripped, spaces would become one
            first = first.replace("  ", "&nbsp; ").replace("  ", " &nbsp;")
        if table.is_listing and not any(rest):
            rest = []
        styles = [_style(table, number, column) for column in range(1, len(row))]
        cells = "".join(f'<td style="{style}">{cell}</td>' for style, cell in zip(styles, rest))
        rows.append(
            f'<tr style="background:none"><td style="{first_style}">{first}</td>{cells}</tr>'
        )
    body = "\n".join(rows)
    if dense:
        head, body = (part.replace(_ROOM, _LITTLE_ROOM) for part in (head, body))
    return (
        f'<div style="{_ACROSS if across else _TOGETHER}">{title}<table style="{table_style}">\n'
        f"{head}<tbody>\n"
        f"{body}\n"
        "</tbody></table></div>"
    )


def _style(table: Table, row: int, column: int) -> str:
    """The style of a cell after the first."""
    if column in table.numbers:
        return _NUMBER
    if any(table.columns):
        return f"{_CODE};white-space:pre" if column in table.code else _CELL
    return _FACT if row in table.code else _CELL


def _is_broad(table: Table) -> bool:
    """Whether there are many columns, or names that do not wrap would reach into a table beside
    this one.
    """
    return len(table.columns) > _MOST_BESIDE or (
        any(table.columns) and any(len(row[0]) > _LONGEST_BESIDE for row in table.rows)
    )


def _table_text(table: Table) -> list[str]:
    shown = [*([table.columns] if any(table.columns) else []), *table.rows]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    lines = [f"  {table.title}"] if table.title else []
    for row in shown:
        cells = (
            cell.rjust(width) if n in table.numbers else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f"    {'  '.join(cells)}".rstrip())
    return lines
