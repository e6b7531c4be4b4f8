"""What cards are made of: tables of text, as HTML and as plain text of the same content."""

from __future__ import annotations

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
    """Columns of numbers, counted from 0: they stand to the right, each on one line."""
    is_listing: bool = False
    """Whether the first column is code whose spaces mean something; it has the whole width."""
    links: Sequence[Link] = ()
    """Where rows lead in a live view."""


@dataclass(frozen=True)
class Card:
    """A few tables about one thing. `html` and `text` say the same."""

    title: str
    subtitle: str = ""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default=())

    def html(self) -> str:
        """Self-contained HTML: no script, no style sheet;
        readable where styles are stripped, in light and in dark.
        """
        tables = "\n".join(_table_html(table) for table in self.tables if table.rows)
        notes = "\n".join(f'<div style="{_NOTE}">{escape(note)}</div>' for note in self.notes)
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
        return "\n".join(lines)

    def data(self) -> CardData:
        """What the live card draws."""
        tables = tuple(
            TableData(
                one.title,
                tuple(one.columns),
                tuple(map(tuple, one.rows)),
                tuple(sorted(one.numbers)),
                one.is_listing,
                tuple(one.links),
            )
            for one in self.tables
            if one.rows
        )
        return CardData("card", self.title, self.subtitle, tuple(self.notes), tables)

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
"""Columns of the widest table that stands beside another; one with more has the whole width."""


_LONGEST_BESIDE = 40
"""Letters of the longest name in a table that stands beside another."""


_MOST_ROOMY = 9
"""Columns of the widest table of ordinary size;
one with more is set tighter, so that a page of a notebook holds it."""


_ROOM, _LITTLE_ROOM = "padding:1px 14px 1px 0", "padding:1px 8px 1px 0"


# Notebook pages style tables of their own, and pages without a doctype give tables no
# inherited colour.
_TABLE = "border-collapse:collapse;border:0;margin:2px 0;font:inherit;color:inherit"


_CELL = f"text-align:left;{_ROOM};border:0;vertical-align:top;background:none"


_HEAD = f"{_CELL};font-weight:normal;opacity:.65"


_NUMBER = f"{_CELL};text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"


_CODE = f"{_CELL};font-family:ui-monospace,Menlo,Consolas,monospace"


def _table_html(table: Table) -> str:
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
    across = table.is_listing or len(table.columns) > _MOST_BESIDE or _has_long_names(table)
    dense = len(table.columns) > _MOST_ROOMY
    table_style = f"{_TABLE};font-size:.88em" if dense else _TABLE
    first_style = f"{_CODE}{';white-space:nowrap' if across else ''}" if head else _CELL
    rows = []
    for row in table.rows:
        first, *rest = (escape(cell) for cell in row)
        if table.is_listing:  # where styles are stripped, spaces would become one
            first = first.replace("  ", "&nbsp; ").replace("  ", " &nbsp;")
        if table.is_listing and not any(rest):
            rest = []
        styles = [_NUMBER if n in table.numbers else _CELL for n in range(1, len(row))]
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


def _has_long_names(table: Table) -> bool:
    """Whether names, which do not wrap, would reach into a table beside this one."""
    return any(table.columns) and any(len(row[0]) > _LONGEST_BESIDE for row in table.rows)


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
