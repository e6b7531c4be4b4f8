"""The data of a view, and how it reaches the front end.

The classes of each view are in its file, or in its file `NAME_data.py`: the contract between Python
and the TypeScript in `js/`. `tools/view_types.py` writes `js/src/data.ts` from them; a test
compares the two. The widget, the self-contained page and the still of a saved notebook are made
from the same object. Below the classes are the bundle that draws them, the requests of live views,
and their tabs.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from kernellab.common.arguments import listed
from kernellab.common.text import shown
from kernellab.errors import KernelLabError, OptionError, suggestion

if TYPE_CHECKING:
    from kernellab.viz.kit.view import View


class ViewData:
    """What a live view draws: a frozen data class that js/src/main.ts knows by its `kind`."""

    compression: ClassVar[int] = 6
    """The compression level of zlib."""

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """Return the data that is sent as JSON, and the parts that are sent beside it."""
        return self, []


At = Mapping[str, int | str | tuple[int, ...]]
"""The place that a view is to show: {"stage": "ptx"}, {"line": 8}, {"program": (3, 0, 0)}, ..."""


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
    """Whether the bar shows the tab. If there are many, links within views lead to them."""
    why_not: str = ""
    """Why there is nothing to open: the tab is then disabled."""


Tone = Literal["", "pass", "warn", "fail"]
"""How good or bad something is: it has a color and a mark; "" if nothing is said about it."""


@dataclass(frozen=True)
class Tile:
    """One answer of a card: a few of them are side by side at its top."""

    name: str
    """Its subject: "registers"."""
    value: str
    """The answer: "58 / 255"."""
    detail: str = ""
    """The words beside it: "nothing is spilled"."""
    tone: Tone = ""
    share: float | None = None
    """The length of a bar, from 0 to 1; None for no bar."""
    link: Link | None = None
    """The view that has the rest."""
    cell: str = ""
    """The text of a cell that a click on the tile inserts below the card, and runs."""


@dataclass(frozen=True)
class StripCell:
    """One element, or several at once, of a strip."""

    words: str
    tone: Tone = ""


@dataclass(frozen=True)
class Strip:
    """A picture of a few elements in a row, with those at fault in red."""

    title: str
    cells: tuple[StripCell, ...]


@dataclass(frozen=True)
class Edit:
    """A change of a source that was tried: `kernellab.errors.Change`."""

    line: int
    old: str
    new: str


BarKind = Literal["wait", "copy", "dot", "other", "used", "lost"]
"""The meaning of a bar's part: what warps do, or whether a resource is used or lost."""


@dataclass(frozen=True)
class BarPart:
    """A part of a bar."""

    stands_for: BarKind
    share: float
    """Of the length of a full bar, 0 to 1."""


Bar = tuple[BarPart, ...]
"""The parts of a bar, from the left."""


@dataclass(frozen=True)
class TableData:
    """A table of a card."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """Columns of numbers, counted from 0: they are aligned right, each on one line."""
    is_listing: bool = False
    """Whether the first column is code whose spaces mean something; it has the whole width."""
    links: Sequence[Link] = ()
    """Where rows lead in a live view."""
    code: Sequence[int] = ()
    """Columns of code, counted from 0; of a table without column names, rows whose fact is code."""
    is_wide: bool = False
    """Whether it has the whole width, though it could be beside another table."""
    tone: Tone = ""
    """How bad what it says is: the color of the stripe at its left."""
    strip: Strip | None = None
    """A picture of what it says, below its title."""
    edits: Sequence[Edit] = ()
    """The change that its last rows show line by line; a live view can write it into the cell."""
    is_folded: bool = False
    """Whether its rows are hidden until a click on its title."""
    tiles: Sequence[Tile] = ()
    """Tiles below its title, instead of rows."""
    bars: Mapping[int, Sequence[Bar]] = field(default_factory=dict)
    """Column -> the bar of each row, which is drawn in place of the cell's text."""
    title_bar: Bar = ()
    """A bar before the title: what a finding costs."""


@dataclass(frozen=True)
class CardData(ViewData):
    """A card whose rows lead elsewhere."""

    kind: Literal["card"]
    title: str
    subtitle: str
    notes: tuple[str, ...]
    tables: tuple[TableData, ...]
    tone: Tone
    tiles: tuple[Tile, ...]
    lead: str
    lead_links: tuple[Link, ...]
    later: tuple[str, ...]
    """Slow parts, which the live view requests one by one after the card of the known ones."""
    footnotes: tuple[str, ...]
    legend: tuple[tuple[BarKind, str], ...]


def as_json(data: Any) -> Any:
    """Data classes as plain objects, tuples as lists, without bytes; plain values unchanged."""
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
    """The names of a data class's fields, cached because reading them takes long."""
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


# What `make js` builds from js/: the bundle that draws views, its style sheet, and the loader
# that finds the bundle in a notebook.

_STATIC = files("kernellab.viz") / "static"

SCRIPT = (_STATIC / "views.js").read_text(encoding="utf-8")
"""The bundle: an ES module."""
STYLE = (_STATIC / "views.css").read_text(encoding="utf-8")
"""Its style sheet."""
LOADER = (_STATIC / "loader.js").read_text(encoding="utf-8")
"""The small ES module that every widget brings along for anywidget."""
GRAPH_SCRIPT = (_STATIC / "graph.js").read_text(encoding="utf-8")
"""A further ES module, which draws graphs: their views bring it along."""
DIGEST = hashlib.sha256(f"{SCRIPT}\0{STYLE}".encode()).hexdigest()[:16]
"""Names this bundle among those of other versions in one page."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request: plain data, and bytes."""

    content: Mapping[str, Any]
    buffers: Sequence[bytes] = ()


Handler = Callable[[Mapping[str, Any]], Answer]
"""Answers one kind of request; it receives the options by name."""


def answer(handlers: Mapping[str, Handler], request: Any) -> Answer | None:
    """Return the answer to a message, or its "problem"; None for an unknown request."""
    handler = handlers.get(str(request.get("kind"))) if isinstance(request, dict) else None
    if handler is None:
        return None
    try:
        return handler(request)
    except KernelLabError as error:
        return Answer({"problem": str(error)})
    except KeyboardInterrupt:
        return Answer({"problem": "the kernel was interrupted, and opened nothing"})
    except Exception as error:  # the reader of a view sees no traceback of the kernel's
        return Answer({"problem": f"{type(error).__name__}: {error}"})


# The tabs above a view: they lead to the other views of the same launch.
#
# A live view sends {"kind": "open", "tab": "ir", "at": {"stage": "ptx"}}. The reply holds the
# data of that tab's view and the place to show in it, because a place may have to be looked up
# first: the step of a finding, for example. Later requests of the view arrive as {"kind":
# "within", "tab": "ir", "inner": {...}} and go to the handlers of that view.

V = TypeVar("V", bound="View")


class TabGroup:
    """The views of one launch, linked with each other. A subclass defines which there are."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}
        self._opened: dict[str, View] = {}

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs, in the order in which the bar shows them."""
        raise NotImplementedError

    def add(self, tab_id: str, view: V) -> V:
        """Let a view be that of a tab."""
        view.tab_id, view.tab_group = tab_id, self
        self._views[tab_id] = view
        return view

    def enter(self, tab_id: str, at: At) -> tuple[View, At]:
        """Return the view of a tab and the place in it that `at` refers to.

        The view is the same object as before, unless `at` needs more than it has.

        Raises:
            KernelLabError: there is no such view, or it cannot be made.
        """
        raise NotImplementedError

    def chosen(self, tab_ids: Sequence[str] | None) -> list[tuple[Tab, View]]:
        """Return tabs with their views, in the order of the bar.

        Args:
            tab_ids: which tabs; None for those that were opened.

        Raises:
            OptionError: a tab does not exist.
            KernelLabError: a view cannot be made.
        """
        known = [tab.id for tab in self.tabs]
        names = self._opened if tab_ids is None else listed("tabs", tab_ids)
        for name in names:
            if name not in known:
                raise OptionError(
                    f"This view has no tab {shown(name)}.",
                    advice=suggestion(name, known, "Tabs:"),
                )
        return [(tab, self.enter(tab.id, {})[0]) for tab in self.tabs if tab.id in names]

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The functions that answer requests for other tabs, by kind."""
        return {"open": self._open, "within": self._within}

    def _open(self, request: Mapping[str, Any]) -> Answer:
        tab_id = str(request.get("tab"))
        if tab_id not in {tab.id for tab in self.tabs}:
            raise KernelLabError(f"This view has no tab {tab_id!r}.")
        view, place = self.enter(tab_id, _plain(request.get("at")))
        self._opened[tab_id] = view
        buffers = [] if request.get("shown") == view.number else [view.sent()]
        return Answer({"view": view.number, "at": as_json(place)}, buffers)

    def _within(self, request: Mapping[str, Any]) -> Answer:
        view = self._opened.get(str(request.get("tab")))
        reply = None if view is None else answer(view.all_handlers, request.get("inner"))
        if reply is None:
            raise KernelLabError(
                "The view that this request is for is not open.",
                advice="Run the cell of the view again.",
            )
        return reply


def _plain(at: Any) -> At:
    """Return a place that a front end sent with tuples for lists, and without invalid values."""
    if not isinstance(at, dict):
        return {}
    place: dict[str, int | str | tuple[int, ...]] = {}
    for name, value in at.items():
        if isinstance(value, list) and all(type(number) is int for number in value):
            place[str(name)] = tuple(value)
        elif type(value) in (int, str):
            place[str(name)] = value
    return place
