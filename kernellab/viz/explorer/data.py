"""What the IR explorer draws; `sides` makes it of compilations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from kernellab.errors import Severity
from kernellab.viz.kit.data import ViewData

Effect = Literal["changed", "locations", "unchanged", "failed"]
"""What a pass did to the module: its text, only its locations, nothing;
the last is of the pass that ended a compilation."""


@dataclass(frozen=True)
class TextData:
    """A text as it is shown: without what says where it came from."""

    language: str
    content: str | None
    """None where it travels as a part of its own, or was left out to keep the data small:
    then the view asks the kernel for it."""
    part: int
    """Number of the part that holds it (see `packed`); 0 for none."""
    line_count: int
    skipped: tuple[int, ...]
    """Numbers of the full text's lines that are not shown, as far as shown lines follow them;
    lines keep their numbers."""


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
    """0 where there is no module of MLIR."""
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
    """Something said of a line of the kernel: a remark of the compiler, a finding, an error."""

    severity: Severity
    words: str
    origin: str
    line: int
    """In the kernel's file, whose numbers the source text has;
    0 where it speaks of the whole kernel."""
    advice: str = ""
    """What to try; "" where there is nothing to say."""
    said: str = ""
    """The compiler's own words, where `words` say the same in plainer ones."""


@dataclass(frozen=True)
class ControlData:
    """The control codes of one instruction."""

    line: int
    """In the text of the machine code."""
    codes: str
    """"B0-----:R-:W1:Y:S04": `kernellab.viz.explorer.data.control_codes` says what they are."""


@dataclass(frozen=True)
class MetricData:
    """A number for lines of one stage; the view carries it to the lines of every other text."""

    name: str
    unit: str
    stage: str
    values: Mapping[int, float]
    """Line of that stage -> the number."""
    origin: str
    """Where the numbers come from: "machine code", "run of the interpreter, grid 8x1x1",
    "measured on NVIDIA H200 by ..."."""


@dataclass(frozen=True)
class LayoutWords:
    """A layout in words."""

    shape: str
    """ "128x64"."""
    encoding: str
    words: str


@dataclass(frozen=True)
class IrSide:
    """One compilation."""

    name: str
    """What tells it from the other side; the kernel's name where there is one side."""
    kernel: str
    target: str
    facts: tuple[tuple[str, str], ...]
    """What stands at the top: ("registers", "122"), ..."""
    failure: str
    """Why there are no stages after the last one shown; "" for a compilation that succeeded."""
    failure_line: int
    """Line of the failed pass's text, as the full one counts, that the failure
    names; 0 for none."""
    notice: str
    """What a reader has to know beforehand: that the kernel says something else by now;
    "" for nothing."""
    texts: tuple[TextData, ...]
    stages: tuple[StageData, ...]
    passes: tuple[PassData, ...]
    map: SourceMapData
    notes: tuple[MarginNote, ...]
    controls: tuple[ControlData, ...]
    metrics: tuple[MetricData, ...]
    layouts: tuple[LayoutWords, ...]


@dataclass(frozen=True)
class PassPairData:
    """A pass of either side of a comparison: its number in `IrSide.passes`,
    None where it did not run there.
    """

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
    """The passes of both sides lined up; empty where there is one side."""
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
"""Characters of a text that travels as a part of its own, which is unpacked when it is shown."""


def _split(side: IrSide, texts: list[str]) -> IrSide:
    """The side without its long texts, which are added to `texts`."""
    kept = []
    for text in side.texts:
        if text.content is not None and len(text.content) > _OWN_PART:
            texts.append(text.content)
            text = dataclasses.replace(text, content=None, part=len(texts))
        kept.append(text)
    return dataclasses.replace(side, texts=tuple(kept))
