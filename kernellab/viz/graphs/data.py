"""What the view of torch.compile's levels draws: every level's elements, where they are in texts,
and what each was made of.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, Self

from kernellab.viz.explorer.data import TextData
from kernellab.viz.kit.bundle import GRAPH_SCRIPT
from kernellab.viz.kit.data import ViewData


@dataclass(frozen=True)
class LinkedText:
    """A text, and which elements of its level its lines stand for."""

    level: int
    """Number in `GraphView.levels`."""
    words: str
    """What it is, beside its level's name: "model.py"; "" where that says it all."""
    text: TextData
    spans: tuple[int, ...]
    """First line, last line, element; first line, ... Lines count from 1."""


@dataclass(frozen=True)
class GroupData:
    """Elements that are drawn as one while it is closed: a module's, a kernel's."""

    name: str
    of: str
    """Class of the module; "" for what is none."""
    parent: int
    """Number of the group that it is part of; -1 for none."""


@dataclass(frozen=True)
class GraphLevel:
    """One level: nodes of a graph, buffers, launches, lines. Lists have an entry an element."""

    name: str
    words: str
    remark: str
    """Why there is nothing of it, or how far its provenance reaches; "" where nothing is to say."""
    above: int
    """Number of the level that `origins` are of; -1 for none."""
    is_drawn: bool
    names: tuple[str, ...]
    labels: tuple[str, ...]
    facts: tuple[str, ...]
    """Its shape, what it moves, ..."""
    inputs: tuple[tuple[int, ...], ...]
    origins: tuple[tuple[int, ...], ...]
    lines: tuple[int, ...]
    """Elements of the level of source lines; -1 for none."""
    groups: tuple[int, ...]
    """Numbers in `all_groups`; -1 for none."""
    all_groups: tuple[GroupData, ...]
    tab_ids: tuple[str, ...]
    """Where the IR of the kernel is; "" where there is none. Empty for levels without kernels."""
    places: tuple[int, ...]
    """Of a kernel's line its number in the kernel's module; empty for other levels."""


@dataclass(frozen=True)
class FusionRow:
    """A pair that the scheduler considered."""

    first: str
    second: str
    elements: tuple[int, ...]
    """Of the loop IR's level."""
    fused: bool
    reason: str
    saved_bytes: int


@dataclass(frozen=True)
class GraphChain:
    """One compiled graph, from the source to kernels."""

    name: str
    """ "forward 0"."""
    remark: str
    """Where it stopped, and why; "" where it did not."""
    levels: tuple[int, ...]
    """Numbers in `GraphView.levels`: each level is before the levels made of it."""
    fusions: tuple[FusionRow, ...]


@dataclass(frozen=True)
class GraphView(ViewData):
    """The view's data. The script that draws it travels as its first part, the texts behind it: no
    other view needs a layout of graphs.
    """

    kind: Literal["graph"]
    title: str
    subtitle: str
    notes: tuple[str, ...]
    texts: tuple[LinkedText, ...]
    levels: tuple[GraphLevel, ...]
    chains: tuple[GraphChain, ...]

    def in_parts(self) -> tuple[Self, list[bytes]]:
        contents = [(text.text.content or "").encode("utf-8", "replace") for text in self.texts]
        texts = tuple(
            dataclasses.replace(
                text, text=dataclasses.replace(text.text, content=None, part=number)
            )
            for number, text in enumerate(self.texts, 2)
        )
        return dataclasses.replace(self, texts=texts), [GRAPH_SCRIPT.encode(), *contents]
