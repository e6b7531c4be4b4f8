"""The data of the view of torch.compile's levels: elements, texts, origins."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from kernellab.records.graphs import GraphLaunch, GraphNode, KernelCode, LoopBuffer
from kernellab.viz.explorer_data import TextData
from kernellab.viz.kit.data import GRAPH_SCRIPT, ViewData


@dataclass(frozen=True)
class LinkedText:
    """A text, and which elements of its level its lines stand for."""

    level: int
    """Number in `GraphView.levels`."""
    words: str
    """Its description beside its level's name: "model.py"; "" if the name is enough."""
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
    """Why it is empty, or how far its provenance reaches; "" if there is nothing to say."""
    above: int
    """Number of the level that `origins` are of; -1 for none."""
    is_drawn: bool
    names: tuple[str, ...]
    labels: tuple[str, ...]
    facts: tuple[str, ...]
    """Its shape, what it moves, ..."""
    bytes: tuple[int, ...]
    """Of what it makes, which its users read; 0 if it is not known."""
    inputs: tuple[tuple[int, ...], ...]
    origins: tuple[tuple[int, ...], ...]
    lines: tuple[int, ...]
    """Elements of the level of source lines; -1 for none."""
    groups: tuple[int, ...]
    """Numbers in `all_groups`; -1 for none."""
    all_groups: tuple[GroupData, ...]
    tab_ids: tuple[str, ...]
    """Where the IR of the kernel is; "" if there is none. Empty for levels without kernels."""
    places: tuple[int, ...]
    """Of a kernel's line its number in the kernel's module; empty for other levels."""


@dataclass(frozen=True)
class FusionRow:
    """A pair that the scheduler considered."""

    first: str
    second: str
    pair: str
    """Both, with the nodes that they compute."""
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
    """Where it stopped, and why; "" if it did not."""
    levels: tuple[int, ...]
    """Numbers in `GraphView.levels`: each level is before the levels made of it."""
    fusions: tuple[FusionRow, ...]


@dataclass(frozen=True)
class GraphView(ViewData):
    """The view's data; its script travels first, since no other view lays out graphs."""

    kind: Literal["graph"]
    title: str
    subtitle: str
    notes: tuple[str, ...]
    texts: tuple[LinkedText, ...]
    levels: tuple[GraphLevel, ...]
    chains: tuple[GraphChain, ...]

    def in_parts(self) -> tuple[Self, list[bytes]]:
        texts, contents = [], [GRAPH_SCRIPT.encode()]
        for linked in self.texts:
            contents.append((linked.text.content or "").encode("utf-8", "replace"))
            text = dataclasses.replace(linked.text, content=None, part=len(contents))
            texts.append(dataclasses.replace(linked, text=text))
        return dataclasses.replace(self, texts=tuple(texts)), contents


_SIGNATURE = re.compile(r"^(?P<indent>\s*)def forward\((?P<arguments>.*)\):\s*$")
_ARGUMENT = re.compile(r'\w+(?::\s*"[^"]*")?')
_ASSIGNED = re.compile(r"^\s*(?P<name>[A-Za-z_]\w*)\s*(?::[^=]*|)=")
_DECLARED = re.compile(r"^\s*(?P<name>[A-Za-z_]\w*)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_INSTRUCTION = re.compile(r"^(?P<before>[^A-Za-z]*(?:L\d+:)?[^A-Za-z]*)(?P<code>[A-Z][A-Z_0-9]+)\b")


@dataclass
class Written:
    """A text under construction, with the lines of each of its elements."""

    lines: list[str] = field(default_factory=list)
    spans: list[int] = field(default_factory=list)

    def add(self, text: str) -> tuple[int, int]:
        """Add a text; its first and last line."""
        first = len(self.lines) + 1
        self.lines += text.split("\n")
        return first, len(self.lines)

    def mark(self, first: int, last: int, element: int) -> None:
        """Say what some lines stand for."""
        self.spans += (first, last, element)

    def text(self, language: str) -> TextData:
        """The whole of it."""
        return TextData(language, "\n".join(self.lines), 0, len(self.lines), ())


def graph_text(text: str, nodes: Sequence[GraphNode]) -> Written:
    """A graph as torch prints it, its arguments one a line."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    output = [number for number, node in enumerate(nodes) if node.opcode == "output"]
    written = Written()
    for line in text.strip("\n").split("\n"):
        signature = _SIGNATURE.match(line)
        if signature is not None:
            _write_arguments(written, signature, numbers)
            continue
        at, _ = written.add(line)
        match = _ASSIGNED.match(line)
        if match is not None and match["name"] in numbers:
            written.mark(at, at, numbers[match["name"]])
        elif line.lstrip().startswith("return ") and output:
            written.mark(at, at, output[0])
    return written


def _write_arguments(
    written: Written, signature: re.Match[str], numbers: Mapping[str, int]
) -> None:
    indent = signature["indent"]
    written.add(f"{indent}def forward(")
    for argument in _ARGUMENT.findall(signature["arguments"]):
        at, _ = written.add(f"{indent}    {argument},")
        match = _DECLARED.match(argument)
        if match is not None and match["name"] in numbers:
            written.mark(at, at, numbers[match["name"]])
    written.add(f"{indent}):")


def loop_text(loops: Sequence[LoopBuffer]) -> Written:
    """Every buffer's define-by-run IR, without stacks, which other texts show."""
    written = Written()
    for number, loop in enumerate(loops):
        first, _ = written.add(f"# {loop.operation}: {loop.name}")
        lines = _without_stacks(loop.text.rstrip())
        computed = loop.text.startswith("ComputedBuffer(")
        _, last = written.add("\n".join(lines if computed else _shallow(lines)))
        written.mark(first, last, number)
        written.add("")
    return written


def _without_stacks(text: str) -> Iterator[str]:
    """The lines of a buffer's text, without the stacks in it."""
    closing = None
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = line[: len(line) - len(bare)]
        if closing is None and bare.startswith("stack_traces = {"):
            closing = f"{indent}}}"
        elif closing is None:
            yield line
        elif line.startswith(closing):
            closing = None


def _shallow(lines: Iterable[str]) -> Iterator[str]:
    """Yield a call's text without the buffers that it reads, which torch repeats in full."""
    is_cut = False
    for line in lines:
        is_deep = line.startswith("   ")
        if not is_deep:
            yield line
        elif not is_cut:
            yield "    ..."
        is_cut = is_deep


@dataclass(frozen=True)
class KernelLine:
    """A line of a kernel that Inductor knows the operations of."""

    kernel: str
    operations: tuple[str, ...]
    line: int
    """In the text of all kernels."""
    place: int
    """Its position in the kernel's own module."""
    code: str


def kernels_text(kernels: Sequence[KernelCode]) -> tuple[Written, list[KernelLine]]:
    """The functions of all kernels, and their lines."""
    written, lines = Written(), []
    for kernel in kernels:
        for place, line in _function_of(kernel.source):
            at, _ = written.add(line)
            operations = _operations(kernel, line)
            if operations:
                lines.append(KernelLine(kernel.name, operations, at, place, line.strip()))
        written.add("")
    return written, lines


def _function_of(source: str) -> list[tuple[int, str]]:
    """A module's lines from the function on, with their numbers."""
    lines = source.rstrip("\n").split("\n")
    start = next((at for at, line in enumerate(lines) if line.startswith("@triton.jit")), 0)
    return list(enumerate(lines[start:], start + 1))


def _operations(kernel: KernelCode, line: str) -> tuple[str, ...]:
    """The operations of a line, in every launch of its kernel; all for the line of the `def`."""
    if line.startswith(f"def {kernel.name}("):
        return tuple(dict.fromkeys(sum(kernel.reused, kernel.operations)))
    assigned = _ASSIGNED.match(line)
    names = [assigned["name"]] if assigned else _WORD.findall(line)
    own = dict.fromkeys(kernel.variables[name] for name in names if name in kernel.variables)
    places = [kernel.operations.index(name) for name in own if name in kernel.operations]
    uses = [kernel.operations, *kernel.reused]
    return tuple(dict.fromkeys(use[at] for at in places for use in uses if at < len(use)))


def calls_text(wrapper: str, launches: Sequence[GraphLaunch]) -> Written:
    """The code that launches, from where the kernels end, and the line of each launch."""
    start = max(wrapper.rfind("async_compile.wait("), 0)
    written = Written()
    written.add(wrapper[start:].partition("\n")[2].strip("\n") if start else wrapper.strip("\n"))
    at = 0
    for number, launch in enumerate(launches):
        # The variable of a kernel of the user's has a number after the kernel's name.
        called = re.compile(rf"\b{re.escape(launch.name)}(_\d+)?(\.run)?\(")
        there = range(at, len(written.lines))
        line = next((n for n in there if called.search(written.lines[n])), None)
        if line is not None:
            written.mark(line + 1, line + 1, number)
            at = line + 1
    return written


def bytecode_lines(text: str) -> Iterator[tuple[int, int]]:
    """Of `dis`'s output: each line of it that has an instruction, and the line of the source that
    this belongs to. Some versions of Python write offsets before instructions, some do not.
    """
    numbers = [
        (at, re.findall(r"(?<![L\d])\d+", match["before"]))
        for at, line in enumerate(text.split("\n"), 1)
        if (match := _INSTRUCTION.match(line))
    ]
    offsets = max((len(before) for _, before in numbers), default=1) - 1
    source = 0
    for at, before in numbers:
        if len(before) > offsets:
            source = int(before[0])
        if source:
            yield at, source
