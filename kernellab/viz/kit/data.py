"""What a view draws, as plain data, and how it travels.

The classes of each view are in its folder's `data.py`: the contract between Python and the
TypeScript in `js/`. `tools/view_types.py` writes `js/src/data.ts` from them; a test holds the two
together. The widget, the self-contained page and the still of a saved notebook are made from the
same object.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self


class ViewData:
    """What a live view draws: a frozen data class of plain values. js/src/main.ts knows it by its
    `kind`.
    """

    compression: ClassVar[int] = 6
    """How hard zlib tries."""

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """Return the data that is sent as JSON, and the parts that are sent beside it."""
        return self, []


At = Mapping[str, int | str | tuple[int, ...]]
"""What of a view is to be seen: {"stage": "ptx"}, {"line": 8}, {"program": (3, 0, 0)}, ...
Each view knows some of the names."""


@dataclass(frozen=True)
class Link:
    """Leads from a row of a table to a place in another view of the same launch."""

    row: int
    """From 0; -1 for the table's title."""
    words: str
    title: str
    tab_id: str
    """The tab that holds the place."""
    at: At


@dataclass(frozen=True)
class Tab:
    """A tab of a view's bar: it leads to another view of the same launch."""

    id: str
    words: str
    """The label."""
    title: str
    """The tooltip."""
    is_listed: bool = True
    """Whether the bar shows the tab. Where there are many, links within views lead to them."""
    why_not: str = ""
    """Why there is nothing to open: the tab is then disabled."""


@dataclass(frozen=True)
class TableData:
    """A table of a card."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    is_listing: bool
    links: tuple[Link, ...]
    code: tuple[int, ...]
    """As those of `kernellab.viz.kit.card.Table`."""
    is_wide: bool


@dataclass(frozen=True)
class CardData(ViewData):
    """A card whose rows lead elsewhere."""

    kind: Literal["card"]
    title: str
    subtitle: str
    notes: tuple[str, ...]
    tables: tuple[TableData, ...]


def as_json(data: Any) -> Any:
    """Data classes as plain objects, tuples as lists, bytes left out;
    what is plain already stays as it is.
    """
    kind = type(data)
    if kind in (int, str, float, bool, type(None)):  # most of it, and quick to check
        return data
    if kind is bytes:
        return None
    if dataclasses.is_dataclass(data):
        return {name: as_json(getattr(data, name)) for name in _fields(kind)}
    if isinstance(data, Mapping):
        return {str(key): as_json(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return [as_json(value) for value in data]
    return data


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type) -> tuple[str, ...]:
    """The names of a data class's fields, which take long to ask for."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return _FIELDS[kind]


def packed(data: ViewData) -> bytes:
    """The data as the widget sends it and a page embeds it; the same data gives the same bytes.

    Parts, each gzipped: the first is the data as JSON, the others are what `ViewData.in_parts`
    gives: long texts, a stepper's elements, the explorers that a sweep's view holds. Before them
    are the number of parts and the length of each, as little-endian 32-bit numbers.
    """
    head, others = data.in_parts()
    text = json.dumps(as_json(head), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    contents = [text.encode("utf-8", "surrogatepass"), *others]
    parts = [gzip.compress(content, data.compression, mtime=0) for content in contents]
    sizes = [len(parts), *(len(part) for part in parts)]
    return b"".join([*(size.to_bytes(4, "little") for size in sizes), *parts])
