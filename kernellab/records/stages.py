"""Stages, passes and their texts, compressed, and which lines became which."""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kernellab import errors
from kernellab.common.arguments import check_whole, is_one_of
from kernellab.common.text import shown


@dataclass(frozen=True)
class FunctionSource:
    """A function that was compiled, with its position and text then, decorators included."""

    file: str
    name: str
    first_line: int
    """From 1."""
    lines: tuple[str, ...]
    """Without their ends."""

    @property
    def last_line(self) -> int:
        """Of the file, as it was then."""
        return self.first_line + len(self.lines) - 1

    @property
    def notice(self) -> str:
        """That the file now has other lines there, in a sentence; "" if not, or not known."""
        if not errors.is_edited(
            self.file, errors.CompiledLines(self.name, self.first_line, self.lines)
        ):
            return ""
        return (
            f"{self.name!r} in {self.file} has changed since it was compiled; the lines shown are "
            "the compiled ones."
        )


@dataclass(frozen=True)
class Stage:
    """The output of one compiler stage: text, or the bytes of a binary."""

    name: str
    """ "source", "ttir", "ttgir", "llir", "ptx", "cubin", "sass", "amdgcn", "hsaco"."""
    language: str
    """Its language for a highlighter: "python", "mlir", "llvm", "ptx", "sass", ..."""
    content: str | bytes

    @property
    def text(self) -> str:
        """The stage's text; raises TypeError for a binary stage."""
        if isinstance(self.content, bytes):
            raise TypeError(f"stage {self.name!r} is binary: read .content")
        return self.content

    @property
    def size(self) -> int:
        """Size in bytes (text as UTF-8)."""
        content = self.content
        return len(content if isinstance(content, bytes) else content.encode())


class Stages(Mapping[str, Stage]):
    """Stage name -> Stage, in the order of the pipeline; a stage given as a function is made on
    first use. A stage that cannot be made on this machine, or of a damaged binary, is not listed;
    reading it raises an error with the reason.
    """

    def __init__(self, stages: Mapping[str, Stage | Callable[[], Stage]]) -> None:
        self._stages = dict(stages)
        self.failed: dict[str, errors.MachineError | errors.CompileError] = {}
        """The stages that could not be made, and why."""

    def __getitem__(self, name: str) -> Stage:
        """The stage of that name; raises NoSuchStage, a KeyError, if there is none."""
        stage = self._stages.get(name) if is_one_of(name, self._stages) else None
        if stage is None:
            raise errors.NoSuchStage(
                f"There is no stage {shown(name)}.",
                advice=errors.suggestion(str(name).strip().lower(), self._stages, "Stages:"),
            )
        if not isinstance(stage, Stage):
            try:
                stage = self._stages[name] = stage()
            except (errors.MachineError, errors.CompileError) as error:
                self.failed[name] = error
                raise
            self.failed.pop(name, None)
        return stage

    def made(self) -> list[Stage]:
        """All that can be made on this machine, of what is there, in order."""
        texts = []
        for name in self._stages:
            with suppress(errors.MachineError, errors.CompileError):
                texts.append(self[name])
        return texts

    def __contains__(self, name: object) -> bool:
        # Mapping's own would make the stage.
        return isinstance(name, str) and name in self._stages and name not in self.failed

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._stages if name not in self.failed)

    def __len__(self) -> int:
        return len(self._stages) - len(self.failed)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self)})"


class StoredText:
    """A text that is kept compressed, and unpacked each time it is read."""

    def __init__(self, text: str, erased: tuple[str, ...] = ()) -> None:
        """Keep `text`, uncompressed until `pack`, without the `erased` folders' names."""
        self._raw: str | None = text
        self._packed = b""
        self._erased = erased

    def pack(self) -> None:
        """Compress the text; another thread may do it while this one reads."""
        raw = self._raw
        if raw is not None:
            self._packed = zlib.compress(raw.encode(), 1)
            self._raw = None

    def read(self) -> str:
        raw = self._raw
        text = zlib.decompress(self._packed).decode() if raw is None else raw
        for part in self._erased:
            text = text.replace(part, "")
        return text

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text as UTF-8, in hexadecimal: equal texts have equal digests."""
        return hashlib.sha256(self.read().encode()).hexdigest()

    def __repr__(self) -> str:
        return f"StoredText({self.digest[:12]})"


class DeferredText(StoredText):
    """A text that is made when it is first asked for: SASS, by the disassembler."""

    def __init__(self, make: Callable[[], str]) -> None:
        super().__init__("")
        self._make = make

    @cached_property
    def _made(self) -> StoredText:
        made = StoredText(self._make())
        made.pack()
        return made

    def pack(self) -> None:
        """Do nothing: what is not made yet takes no memory."""

    def read(self) -> str:
        """The text; raises what its making raises."""
        return self._made.read()

    def __repr__(self) -> str:
        return super().__repr__() if "_made" in self.__dict__ else "DeferredText()"


@dataclass(frozen=True)
class PassRun:
    """One pass of a compilation, and the module after it.

    The front end is the first entry; LLVM's steps, the code generator
    and the assembler are the last, where no module of MLIR is there any more to count ops in.
    """

    stage: str
    """The stage being made: "ttir", ...; "source" for the front end, "sass" for ptxas."""
    name: str
    """As in Triton's `add_*`: "coalesce"; or "front_end", "optimize_module", "ptxas"."""
    occurrence: int
    """Its number among the passes of that name in the stage's own pipeline, from 1."""
    arguments: tuple[Any, ...]
    """The arguments that the backend passed to `add_*` after the pass manager."""
    seconds: float
    changed: bool
    """Whether the module's text, including locations, has changed."""
    op_counts_before: Mapping[str, int]
    """Op name -> how many of them the module held; empty if there is no module of MLIR."""
    op_counts_after: Mapping[str, int]
    text: StoredText = field(repr=False, compare=False)
    """The module after the pass, with its locations; equal texts are one object."""

    @property
    def label(self) -> str:
        """ "ttgir.canonicalizer#2"; the first of a name goes without a number."""
        number = f"#{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.stage}.{self.name}{number}"

    @property
    def op_changes(self) -> dict[str, int]:
        """Op name, in order -> how many more of them there are after the pass, or less."""
        before, after = self.op_counts_before, self.op_counts_after
        changes = {name: after.get(name, 0) - before.get(name, 0) for name in {*before, *after}}
        return {name: changes[name] for name in sorted(changes) if changes[name]}

    def __repr__(self) -> str:
        what = "changed" if self.changed else "unchanged"
        return f"PassRun({self.label!r}, {what}, {self.seconds * 1e3:.1f} ms)"


Lines = tuple[int, ...]
"""Line numbers of one text, from 1, in order."""

Chain = tuple[errors.SourcePosition, ...]
"""Where an operation comes from: the innermost line, then the call that reached it, ..."""


@dataclass(frozen=True)
class SourceMap:
    """Which line of one stage became which lines of another, both ways.

    A stage is named as in `Compilation.stages`. Lines of an IR or of machine code count from 1 in
    the stage's text; lines of "source" are those of the kernel's file (the numbers
    that an editor, a notebook cell or a traceback shows).
    """

    file: str
    """The kernel's file: a plain number given for "source" is a line of this one."""
    files: tuple[str, ...]
    """The files that `chains` speaks of."""
    chains: tuple[tuple[tuple[int, int, int], ...], ...]
    """Each distinct call chain, innermost first: (number in `files`, line, column or 0)."""
    origins: Mapping[str, tuple[tuple[int, ...], ...]]
    """Stage -> each line's chains, for stages whose locations name the kernel's lines."""
    links: Mapping[tuple[str, str], tuple[Lines, ...]]
    """(earlier stage, later stage) -> for each line of the later one,
    the lines of the earlier one that it was made from, as the compiler's own line information says.
    """

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The stages that lines can be followed between."""
        linked = [stage for pair in self.links for stage in pair]
        return tuple(dict.fromkeys(["source", *self.origins, *linked]))

    def is_exact(self, from_stage: str, to_stage: str) -> bool:
        """Whether the compiler's own line information leads from one stage to the other.

        Otherwise two lines count as related if both name the same line of the kernel.
        """
        self._check(from_stage)
        self._check(to_stage)
        if "source" in (from_stage, to_stage):
            return True
        return self._way(from_stage, to_stage) is not None

    def lines(self, from_stage: str, to_stage: str, line: int | errors.SourcePosition) -> Lines:
        """The lines of `to_stage` that are related to a line of `from_stage`:
        () if there is none.

        From "source", a line means the code on it and what was inlined there; to "source",
        a helper's line comes with the lines that called it, as far as they are in the kernel's
        file (`chain` has them all).

        Raises:
            NoSuchStage: no such stage.
            OptionError: the line is not an integer from 0.
        """
        self._check(from_stage)
        self._check(to_stage)
        if from_stage == "source":
            if isinstance(line, errors.SourcePosition):
                place = line
            else:
                place = errors.SourcePosition(self.file, _line_number(line))
            if to_stage == "source":
                return (place.line,)
            return self._lines_from_source(to_stage, place.file, place.line)
        number = line.line if isinstance(line, errors.SourcePosition) else _line_number(line)
        if to_stage == "source":
            frames = [frame for chain in self.chain(from_stage, number) for frame in chain]
            return _ordered(frame.line for frame in frames if frame.file == self.file)
        if from_stage == to_stage:
            return (number,)
        way = self._way(from_stage, to_stage)
        if way is None:
            return self._lines_by_source(from_stage, to_stage, number)
        lines: Lines = (number,)
        for step_from, step_to in itertools.pairwise(way):
            lines = _ordered(
                there for here in lines for there in self._step(step_from, step_to, here)
            )
        return lines

    def chain(self, stage: str, line: int) -> tuple[Chain, ...]:
        """The call chains behind a line of a stage: usually one, none for compiler-made lines.

        Raises:
            NoSuchStage: no such stage.
            OptionError: the line is not an integer from 0.
        """
        self._check(stage)
        line = _line_number(line)
        if stage == "source":
            return ((errors.SourcePosition(self.file, line),),)
        return tuple(self._positions(number) for number in self._chain_numbers(stage, line))

    def _positions(self, number: int) -> Chain:
        """A chain by its number; many lines share one."""
        if number not in self._known_chains:
            self._known_chains[number] = tuple(
                errors.SourcePosition(self.files[file], at, column)
                for file, at, column in self.chains[number]
            )
        return self._known_chains[number]

    def to_json(self) -> dict[str, Any]:
        """Plain data for `from_json`: lines with one relation as a number, 0 for none."""
        return {
            "file": self.file,
            "files": list(self.files),
            "chains": [[number for frame in chain for number in frame] for chain in self.chains],
            "origins": {stage: _packed(lines, 1) for stage, lines in self.origins.items()},
            "links": {" ".join(pair): _packed(lines, 0) for pair, lines in self.links.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SourceMap:
        return cls(
            file=data["file"],
            files=tuple(data["files"]),
            chains=tuple(
                tuple((flat[at], flat[at + 1], flat[at + 2]) for at in range(0, len(flat), 3))
                for flat in data["chains"]
            ),
            origins={stage: _unpacked(lines, 1) for stage, lines in data["origins"].items()},
            links={
                (pair.split()[0], pair.split()[1]): _unpacked(lines, 0)
                for pair, lines in data["links"].items()
            },
        )

    def _check(self, stage: str) -> None:
        if not is_one_of(stage, self.stages):
            raise errors.NoSuchStage(
                f"stage must be one that has source lines, got {shown(stage)}.",
                advice=errors.suggestion(shown(stage), self.stages, "Stages with lines:"),
            )

    @cached_property
    def _known_chains(self) -> dict[int, Chain]:
        return {}

    @cached_property
    def _known_ways(self) -> dict[tuple[str, str], tuple[str, ...] | None]:
        return {}

    @cached_property
    def _forward(self) -> dict[tuple[str, str], dict[int, Lines]]:
        """(earlier, later) -> line of the earlier stage -> lines of the later: `links` inverted."""
        turned: dict[tuple[str, str], dict[int, Lines]] = {}
        for pair, lines in self.links.items():
            table: dict[int, list[int]] = {}
            for later, earlier_lines in enumerate(lines, start=1):
                for earlier in earlier_lines:
                    table.setdefault(earlier, []).append(later)
            turned[pair] = {earlier: tuple(later) for earlier, later in table.items()}
        return turned

    def _step(self, from_stage: str, to_stage: str, line: int) -> Lines:
        if (from_stage, to_stage) in self.links:
            return self._forward[from_stage, to_stage].get(line, ())
        return _at(self.links[to_stage, from_stage], line)

    def _way(self, from_stage: str, to_stage: str) -> tuple[str, ...] | None:
        """The shortest way from one stage to another over the links, both ends included."""
        pair = from_stage, to_stage
        if pair not in self._known_ways:
            self._known_ways[pair] = self._find_way(from_stage, to_stage)
        return self._known_ways[pair]

    def _find_way(self, from_stage: str, to_stage: str) -> tuple[str, ...] | None:
        ways: list[tuple[str, ...]] = [(from_stage,)]
        seen = {from_stage}
        for way in ways:
            if way[-1] == to_stage:
                return way
            for pair in self.links:
                if way[-1] in pair:
                    (other,) = set(pair) - {way[-1]}
                    if other not in seen:
                        seen.add(other)
                        ways.append((*way, other))
        return None

    def _chain_numbers(self, stage: str, line: int) -> tuple[int, ...]:
        if stage in self.origins:
            return _at(self.origins[stage], line)
        nearest = self._nearest_with_origins(stage)
        if nearest is None:
            return ()
        steps = [
            number
            for there in self.lines(stage, nearest, line)
            for number in _at(self.origins[nearest], there)
        ]
        return tuple(dict.fromkeys(steps))

    def _nearest_with_origins(self, stage: str) -> str | None:
        ways = [way for other in self.origins if (way := self._way(stage, other)) is not None]
        return min(ways, key=len)[-1] if ways else None

    def _lines_from_source(self, stage: str, file: str, line: int) -> Lines:
        wanted = self._chains_by_place.get((file, line), set[int]())
        if stage in self.origins:
            return tuple(
                at
                for at, numbers in enumerate(self.origins[stage], start=1)
                if wanted.intersection(numbers)
            )
        nearest = self._nearest_with_origins(stage)
        if nearest is None:
            return ()
        return _ordered(
            there
            for here in self._lines_from_source(nearest, file, line)
            for there in self.lines(nearest, stage, here)
        )

    @cached_property
    def _chains_by_place(self) -> Mapping[tuple[str, int], set[int]]:
        numbers: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for number, chain in enumerate(self.chains):
            for at, line, _ in chain:
                numbers[self.files[at], line].add(number)
        return dict(numbers)

    def _lines_by_source(self, from_stage: str, to_stage: str, line: int) -> Lines:
        """Lines that name the same innermost place and calls, as far as both name any."""
        from_chains = self._chain_numbers(from_stage, line)
        wanted = set[int]().union(*(self._alike[number] for number in from_chains))
        return tuple(
            at
            for at, numbers in enumerate(self.origins.get(to_stage, ()), start=1)
            if wanted.intersection(numbers)
        )

    @cached_property
    def _alike(self) -> tuple[frozenset[int], ...]:
        """For each chain the numbers of those that agree, innermost first, as far as both go."""
        places = [tuple((frame[0], frame[1]) for frame in chain) for chain in self.chains]
        by_innermost: dict[tuple[int, int], list[int]] = {}
        for number, place in enumerate(places):
            if place:
                by_innermost.setdefault(place[0], []).append(number)
        return tuple(
            frozenset(
                other
                for other in (by_innermost[place[0]] if place else ())
                if all(mine == theirs for mine, theirs in zip(place, places[other]))
            )
            for place in places
        )


def _line_number(line: Any) -> int:
    return line if type(line) is int else check_whole("line", line)


def _at(table: tuple[tuple[int, ...], ...], line: int) -> tuple[int, ...]:
    return table[line - 1] if 0 < line <= len(table) else ()


def _ordered(lines: Iterable[int]) -> Lines:
    result = tuple(lines)
    return result if len(result) < 2 else tuple(sorted(set(result)))


def _packed(lines: tuple[tuple[int, ...], ...], offset: int) -> list[int | list[int]]:
    packed: list[int | list[int]] = []
    for numbers in lines:
        moved = [number + offset for number in numbers]
        packed.append(moved[0] if len(moved) == 1 else moved or 0)
    return packed


def _unpacked(packed: Iterable[int | list[int]], offset: int) -> tuple[tuple[int, ...], ...]:
    unpacked: list[tuple[int, ...]] = []
    for entry in packed:
        numbers = entry if isinstance(entry, list) else [entry] if entry else []
        unpacked.append(tuple(number - offset for number in numbers))
    return tuple(unpacked)
