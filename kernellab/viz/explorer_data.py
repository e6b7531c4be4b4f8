"""What the IR explorer draws; `sides` makes it of compilations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from kernellab.errors import Severity
from kernellab.viz.kit.data import ViewData, packed

Effect = Literal["changed", "locations", "unchanged", "failed"]
"""The effect of a pass: on the text, on locations, none, or it ended the compilation."""


@dataclass(frozen=True)
class TextData:
    """A text as it is shown: without what says where it came from."""

    language: str
    content: str | None
    """None if sent separately, or left out to keep data small: the view requests it then."""
    part: int
    """Number of the part that holds it (see `packed`); 0 for none."""
    line_count: int
    skipped: tuple[int, ...]
    """Numbers of the full text's lines that are not shown, beside shown ones."""


@dataclass(frozen=True)
class StageData:
    """One stage with a text."""

    name: str
    text: int
    """Number in `IrSide.texts`."""


@dataclass(frozen=True)
class PassData:
    """One pass, and the text after it."""

    label: str
    stage: str
    name: str
    arguments: str
    effect: Effect
    seconds: float
    ops_before: int
    """0 if there is no module of MLIR."""
    ops_after: int
    op_changes: Mapping[str, int]
    """Operation -> how many more of them there are after it."""
    text: int
    place: str
    """The name under which the source map knows the text after it."""


@dataclass(frozen=True)
class SourceMapData:
    """`SourceMap.to_json`, with the text after each pass as a further stage."""

    file: str
    files: tuple[str, ...]
    chains: tuple[tuple[int, ...], ...]
    origins: Mapping[str, tuple[int | tuple[int, ...], ...]]
    links: Mapping[str, tuple[int | tuple[int, ...], ...]]


@dataclass(frozen=True)
class MarginNote:
    """Something said about a line of the kernel: a remark of the compiler, a finding, an error."""

    severity: Severity
    words: str
    origin: str
    line: int
    """In the kernel's file, as the source text has it; 0 for the whole kernel."""
    advice: str = ""
    """What to try; "" if there is nothing to say."""
    said: str = ""
    """The compiler's own words, where `words` say the same in plainer ones."""


@dataclass(frozen=True)
class ControlData:
    """The control codes of one instruction."""

    line: int
    """In the text of the machine code."""
    codes: str
    """"B0-----:R-:W1:Y:S04": `kernellab.viz.explorer_sides.control_codes` says what they are."""


@dataclass(frozen=True)
class MetricData:
    """A number for lines of one stage; the view carries it to the lines of every other text."""

    name: str
    unit: str
    stage: str
    values: Mapping[int, float]
    """Line of that stage -> the number."""
    origin: str
    """Where the numbers come from: "machine code", "measured on NVIDIA H200 by ..."."""


@dataclass(frozen=True)
class LayoutWords:
    """A layout in words."""

    shape: str
    """ "128x64"."""
    encoding: str
    words: str


@dataclass(frozen=True, kw_only=True)
class IrSide:
    """One compilation."""

    name: str
    """The words that distinguish it from the other side; the kernel's name if there is one side."""
    kernel: str
    target: str
    facts: tuple[tuple[str, str], ...] = ()
    """What is shown at the top: ("registers", "122"), ..."""
    failure: str = ""
    """Why there are no stages after the last one shown; "" for a compilation that succeeded."""
    failure_line: int = 0
    """The full text's line in the failed pass that the failure names; 0 for none."""
    notice: str
    """A note for the reader, such as that the kernel has changed, or ""."""
    texts: tuple[TextData, ...]
    stages: tuple[StageData, ...]
    passes: tuple[PassData, ...]
    map: SourceMapData
    notes: tuple[MarginNote, ...]
    controls: tuple[ControlData, ...] = ()
    metrics: tuple[MetricData, ...] = ()
    layouts: tuple[LayoutWords, ...] = ()


@dataclass(frozen=True)
class PassPairData:
    """A pass of either side: its number in `IrSide.passes`, None if it did not run."""

    label: str
    left: int | None
    right: int | None
    equal: bool


@dataclass(frozen=True)
class IrView(ViewData):
    """What the IR explorer draws."""

    kind: Literal["ir"]
    title: str
    sides: tuple[IrSide, ...]
    """One, or two that are compared."""
    pairs: tuple[PassPairData, ...]
    """The passes of both sides lined up; empty if there is one side."""
    pass_notes: Mapping[str, str]
    """Name of a pass -> what it does."""
    metric: str
    """The metric whose bars are shown first; "" for none."""

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """Long texts apart."""
        texts: list[str] = []
        sides = tuple(_split(side, texts) for side in self.sides)
        apart = [text.encode("utf-8", "surrogatepass") for text in texts]
        return dataclasses.replace(self, sides=sides), apart


_OWN_PART = 50_000
"""Texts with more characters are sent as separate parts, unpacked when they are shown."""


def _split(side: IrSide, texts: list[str]) -> IrSide:
    """The side without its long texts, which are added to `texts`."""
    kept = []
    for text in side.texts:
        if text.content is not None and len(text.content) > _OWN_PART:
            texts.append(text.content)
            text = dataclasses.replace(text, content=None, part=len(texts))
        kept.append(text)
    return dataclasses.replace(side, texts=tuple(kept))


def lightened(view: IrView, most_bytes: int) -> bytes:
    """The packed data, without the largest texts of passes if it would be too large."""
    data = packed(view)
    while len(data) > most_bytes and (left := _texts_of_passes(view)):
        # Halve what is left of the passes' texts before packing again:
        # packing takes longer than choosing.
        half = sum(size for size, _, _ in left) / 2
        for size, side, text in left:
            if half <= 0:
                break
            sides = list(view.sides)
            texts = list(sides[side].texts)
            texts[text] = dataclasses.replace(texts[text], content=None)
            sides[side] = dataclasses.replace(sides[side], texts=tuple(texts))
            view = dataclasses.replace(view, sides=tuple(sides))
            half -= size
        data = packed(view)
    return data


def _texts_of_passes(view: IrView) -> list[tuple[int, int, int]]:
    """The texts that no stage needs, the largest first: characters, side, number in the side."""
    sizes = []
    for number, side in enumerate(view.sides):
        kept = {stage.text for stage in side.stages}
        for index, text in enumerate(side.texts):
            if index not in kept and text.content is not None:
                sizes.append((len(text.content), number, index))
    return sorted(sizes, reverse=True)
