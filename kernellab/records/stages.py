"""What the compiler makes on its way: stages, passes, and their texts, kept compressed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kernellab.common.argument_checks import is_one_of
from kernellab.common.formatting import shown
from kernellab.errors import (
    CompiledLines,
    CompileError,
    MachineError,
    NoSuchStage,
    is_edited,
    suggestion,
)


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
        """That the file now has other lines there, in a sentence; "" if it does not, or
        that is not known.
        """
        if not is_edited(self.file, CompiledLines(self.name, self.first_line, self.lines)):
            return ""
        return (
            f"{self.name} has changed in {self.file} since it was compiled: the lines shown are "
            "those that were."
        )


@dataclass(frozen=True)
class Stage:
    """What one stage of the compiler made: text, or the bytes of a binary."""

    name: str
    """ "source", "ttir", "ttgir", "llir", "ptx", "cubin", "sass", "amdgcn", "hsaco"."""
    language: str
    """What a highlighter should take it for: "python", "mlir", "llvm", "ptx", "sass",
    "amdgcn", "elf"."""
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
        self.failed: dict[str, MachineError | CompileError] = {}
        """What could not be made, and why."""

    def __getitem__(self, name: str) -> Stage:
        """The stage of that name; raises NoSuchStage, a KeyError, where there is none."""
        stage = self._stages.get(name) if is_one_of(name, self._stages) else None
        if stage is None:
            raise NoSuchStage(
                f"there is no stage {shown(name)}",
                advice=suggestion(str(name).strip().lower(), self._stages, "Stages:"),
            )
        if not isinstance(stage, Stage):
            try:
                stage = self._stages[name] = stage()
            except (MachineError, CompileError) as error:
                self.failed[name] = error
                raise
            self.failed.pop(name, None)
        return stage

    def made(self) -> list[Stage]:
        """All that can be made on this machine, of what is there, in order."""
        texts = []
        for name in self._stages:
            with suppress(MachineError, CompileError):
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
        """Keep `text`, uncompressed until `pack` is called; what is read is without the parts
        `erased`: names of temporary folders.
        """
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
        """The text."""
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
    """The stage that was being made: "ttir", "ttgir", "llir", ...;
    "source" for the front end, "sass" for the assembler."""
    name: str
    """As in Triton's `add_*`: "coalesce"; "front_end", "optimize_module",
    "ptxas" if it is not a pass of MLIR."""
    occurrence: int
    """The how manieth of that name in the stage's own pipeline, from 1."""
    arguments: tuple[Any, ...]
    """What the backend gave to `add_*` besides the pass manager."""
    seconds: float
    changed: bool
    """Whether the module's text, locations included, is another one than before."""
    op_counts_before: Mapping[str, int]
    """Op name -> how many of them the module held; empty where there is no module of MLIR."""
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
