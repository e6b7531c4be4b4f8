"""The data classes that every part of the lab shares: plain facts, with no screen and no compiler in them."""

from __future__ import annotations

import hashlib
import itertools
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from kernellab.errors import SourcePosition
from kernellab.showing import show
from kernellab.wording import joined_sizes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from kernellab.findings import (
        AxisInfo,
        Barriers,
        CallGraph,
        Conversions,
        Layouts,
        PipelineStages,
        Remark,
        SharedMemory,
        Work,
    )

Backend = Literal["cuda", "hip"]
Origin = Literal["launch", "signature", "annotation", "assumption"]
"""How an argument's type came to be known."""

Path = tuple[int, ...]
"""Where an argument stands: its parameter's number, then positions inside nested tuples."""


@dataclass(frozen=True)
class Target:
    """A GPU that a kernel is compiled for, or that the interpreter emulates."""

    backend: Backend
    arch: str
    """ "90" for NVIDIA's sm_90; "gfx942" for AMD."""

    @property
    def name(self) -> str:
        """The vendor's own word: "sm_90", "gfx942"."""
        return f"sm_{self.arch}" if self.backend == "cuda" else self.arch

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Specialization:
    """What one compilation of a kernel is specialised on.

    Paths are Triton's own: (2,) is the third parameter, (2, 0) the first element of a tuple given for it.
    """

    signature: Mapping[str, Any]
    """Parameter name -> type string ("*fp32", "i32", "constexpr"), or a tuple of them."""
    constants: Mapping[Path, Any]
    """Values compiled in: constexpr arguments, and integers equal to 1."""
    attributes: Mapping[Path, Any]
    """What is promised of an argument, as Triton writes it: [["tt.divisibility", 16]]."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Parameter name -> how its type is known."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, as it was seen."""

    kernel: str
    grid: tuple[int, int, int]
    specialization: Specialization
    arguments: Mapping[str, str]
    """Parameter name -> a short description of the value: "float32[98432]", "98432"."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Launch options that are no kernel parameters: num_warps, num_stages, ..."""


@dataclass(frozen=True)
class Subject:
    """What a run on the interpreter says something about: a kernel as it was defined then, and what it was specialised on."""

    kernel: str
    definition: SourcePosition
    """Its `def`."""
    source: str
    """Its text, decorators included."""
    target: Target
    specialization: Specialization
    options: Mapping[str, Any]
    """num_warps, num_stages, num_ctas, and what else the launch asked for."""


@dataclass(frozen=True)
class Stage:
    """What one stage of the compiler made: text, or the bytes of a binary."""

    name: str
    """ "source", "ttir", "ttgir", "llir", "ptx", "cubin", "sass", "amdgcn", "hsaco"."""
    language: str
    """What a highlighter should take it for: "python", "mlir", "llvm", "ptx", "sass", "amdgcn", "elf"."""
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
    """Stage name -> Stage, in the order of the pipeline; a stage given as a function is made when first asked for."""

    def __init__(self, stages: Mapping[str, Stage | Callable[[], Stage]]) -> None:
        self._stages = dict(stages)

    def __getitem__(self, name: str) -> Stage:
        stage = self._stages[name]
        if not isinstance(stage, Stage):
            stage = self._stages[name] = stage()
        return stage

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self._stages)})"


Lines = tuple[int, ...]
"""Line numbers of one text, from 1, in order."""

Chain = tuple[SourcePosition, ...]
"""Where an operation comes from: the innermost line first, then the call that reached it, then the call of that one, ..."""


@dataclass(frozen=True)
class SourceMap:
    """Which line of one stage became which lines of another, both ways.

    A stage is named as in `Compilation.stages`. Lines of an IR or of machine code count from 1 in the stage's text; lines of
    "source" are those of the file that the kernel stands in (the numbers that an editor, a notebook cell or a traceback shows).
    """

    file: str
    """The kernel's file: a plain number given for "source" is a line of this one."""
    files: tuple[str, ...]
    """The files that `chains` speaks of."""
    chains: tuple[tuple[tuple[int, int, int], ...], ...]
    """Every distinct call chain: (number in `files`, line, column) of each frame, innermost first. Column 0: not known."""
    origins: Mapping[str, tuple[tuple[int, ...], ...]]
    """Stage -> for each line the numbers of its chains; for the stages whose own locations name the kernel's lines."""
    links: Mapping[tuple[str, str], tuple[Lines, ...]]
    """(earlier stage, later stage) -> for each line of the later one, the lines of the earlier one that it was made from, as
    the compiler's own line information says."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that lines can be followed between."""
        linked = [stage for pair in self.links for stage in pair]
        return tuple(dict.fromkeys(["source", *self.origins, *linked]))

    def is_exact(self, from_stage: str, to_stage: str) -> bool:
        """Whether the compiler's own line information leads from one stage to the other.

        Otherwise two lines count as related where both name the same line of the kernel.
        """
        self._check(from_stage)
        self._check(to_stage)
        if "source" in (from_stage, to_stage):
            return True
        return self._way(from_stage, to_stage) is not None

    def lines(self, from_stage: str, to_stage: str, line: int | SourcePosition) -> Lines:
        """The lines of `to_stage` that are related to a line of `from_stage`: () where there is none.

        From "source", a line stands for the code on it and for what was inlined there; to "source", a helper's line comes
        with the lines that called it, as far as they stand in the kernel's file (`chain` has them all).

        Raises:
            ValueError: no such stage.
        """
        self._check(from_stage)
        self._check(to_stage)
        if from_stage == "source":
            place = line if isinstance(line, SourcePosition) else SourcePosition(self.file, line)
            if to_stage == "source":
                return (place.line,)
            return self._lines_from_source(to_stage, place.file, place.line)
        number = line.line if isinstance(line, SourcePosition) else line
        if to_stage == "source":
            frames = [frame for chain in self.chain(from_stage, number) for frame in chain]
            return _ordered(frame.line for frame in frames if frame.file == self.file)
        if from_stage == to_stage:
            return (number,)
        way = self._way(from_stage, to_stage)
        if way is None:
            return self._lines_by_source(from_stage, to_stage, number)
        found: Lines = (number,)
        for step_from, step_to in itertools.pairwise(way):
            found = _ordered(
                there for here in found for there in self._step(step_from, step_to, here)
            )
        return found

    def chain(self, stage: str, line: int) -> tuple[Chain, ...]:
        """The call chains that a line of a stage comes from: usually one; none for what the compiler made up itself.

        Raises:
            ValueError: no such stage.
        """
        self._check(stage)
        if stage == "source":
            return ((SourcePosition(self.file, line),),)
        chains = [self.chains[number] for number in self._chain_numbers(stage, line)]
        return tuple(
            tuple(SourcePosition(self.files[file], at, column) for file, at, column in chain)
            for chain in chains
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads; a line with one relation is a number, with none 0, with several a list."""
        return {
            "file": self.file,
            "files": list(self.files),
            "chains": [[number for frame in chain for number in frame] for chain in self.chains],
            "origins": {stage: _packed(lines, 1) for stage, lines in self.origins.items()},
            "links": {" ".join(pair): _packed(lines, 0) for pair, lines in self.links.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SourceMap:
        """The map that `to_json` wrote."""
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
        if stage not in self.stages:
            known = ", ".join(self.stages)
            raise ValueError(f"there are no lines for the stage {stage!r}, only for {known}")

    @cached_property
    def _forward(self) -> dict[tuple[str, str], dict[int, Lines]]:
        """(earlier, later) -> line of the earlier stage -> lines of the later one: `links` turned round."""
        turned: dict[tuple[str, str], dict[int, Lines]] = {}
        for pair, lines in self.links.items():
            table: dict[int, list[int]] = {}
            for later, earlier_lines in enumerate(lines, start=1):
                for earlier in earlier_lines:
                    table.setdefault(earlier, []).append(later)
            turned[pair] = {earlier: tuple(found) for earlier, found in table.items()}
        return turned

    def _step(self, from_stage: str, to_stage: str, line: int) -> Lines:
        if (from_stage, to_stage) in self.links:
            return self._forward[from_stage, to_stage].get(line, ())
        return _at(self.links[to_stage, from_stage], line)

    def _way(self, from_stage: str, to_stage: str) -> tuple[str, ...] | None:
        """The shortest way from one stage to another over the links, both ends included."""
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
        ways = [way for other in self.origins if (way := self._way(stage, other)) is not None]
        if not ways:
            return ()
        nearest = min(ways, key=len)[-1]
        found = [
            number
            for there in self.lines(stage, nearest, line)
            for number in _at(self.origins[nearest], there)
        ]
        return tuple(dict.fromkeys(found))

    def _lines_from_source(self, stage: str, file: str, line: int) -> Lines:
        wanted = {
            number
            for number, chain in enumerate(self.chains)
            if any(self.files[at] == file and frame_line == line for at, frame_line, _ in chain)
        }
        if stage in self.origins:
            return tuple(
                at
                for at, numbers in enumerate(self.origins[stage], start=1)
                if wanted.intersection(numbers)
            )
        ways = [way for other in self.origins if (way := self._way(stage, other)) is not None]
        if not ways:
            return ()
        nearest = min(ways, key=len)[-1]
        return _ordered(
            there
            for here in self._lines_from_source(nearest, file, line)
            for there in self.lines(nearest, stage, here)
        )

    def _lines_by_source(self, from_stage: str, to_stage: str, line: int) -> Lines:
        """Lines that name the same innermost place; machine code names lines without columns and calls."""
        innermost = {chain[0].file: set[int]() for chain in self.chain(from_stage, line)}
        for chain in self.chain(from_stage, line):
            innermost[chain[0].file].add(chain[0].line)
        wanted = {
            number
            for number, chain in enumerate(self.chains)
            if chain and chain[0][1] in innermost.get(self.files[chain[0][0]], ())
        }
        return tuple(
            at
            for at, numbers in enumerate(self.origins.get(to_stage, ()), start=1)
            if wanted.intersection(numbers)
        )


def _at(table: tuple[tuple[int, ...], ...], line: int) -> tuple[int, ...]:
    return table[line - 1] if 0 < line <= len(table) else ()


def _ordered(lines: Iterable[int]) -> Lines:
    return tuple(sorted(set(lines)))


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


class StoredText:
    """A text that is kept compressed, and unpacked each time it is read."""

    def __init__(self, text: str, erased: tuple[str, ...] = ()) -> None:
        """Keep `text`, uncompressed until `pack` is called; what is read lacks the parts `erased`: names of passing folders."""
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
        """Nothing: what is not made yet takes no room."""

    def read(self) -> str:
        """The text; raises what its making raises."""
        return self._made.read()

    def __repr__(self) -> str:
        return super().__repr__() if "_made" in self.__dict__ else "DeferredText()"


@dataclass(frozen=True)
class PassRun:
    """One pass of a compilation, and the module after it.

    The front end is the first entry; LLVM's steps, the code generator and the assembler are the last, where no module of MLIR
    is there any more to count ops in.
    """

    stage: str
    """The stage that was being made: "ttir", "ttgir", "llir", ...; "source" for the front end, "sass" for the assembler."""
    name: str
    """As in Triton's `add_*`: "coalesce"; "front_end", "optimize_module", "ptxas" where it is no pass of MLIR."""
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

    def __repr__(self) -> str:
        what = "changed" if self.changed else "unchanged"
        return f"PassRun({self.label!r}, {what}, {self.seconds * 1e3:.1f} ms)"


@dataclass(frozen=True)
class Resources:
    """What one program of the compiled kernel takes, read from the binary."""

    registers: int
    """Registers per thread (AMD: vector registers)."""
    spills: int
    """Bytes of local memory per thread that hold spilled registers and local arrays."""
    shared_bytes: int
    """Shared memory per program, in bytes (AMD: LDS), what a launch asks for included."""
    stack_bytes: int
    """Stack per thread, in bytes."""
    static_shared_bytes: int = 0
    """The part of the shared memory that is fixed in the binary; the rest is asked for at each launch."""
    barriers: int = 0
    """Named barriers of the SM that one program takes (NVIDIA)."""
    tensor_memory_columns: int = 0
    """Columns of tensor memory that one program takes (Blackwell)."""
    scalar_registers: int = 0
    """Scalar registers per wave (AMD)."""


@dataclass(frozen=True)
class Occupancy:
    """How many programs are on one multiprocessor at once (AMD: compute unit, or workgroup processor of RDNA)."""

    blocks: int
    """Programs at once."""
    warps: int
    """Their warps (AMD: waves)."""
    most_warps: int
    """As many warps as the multiprocessor holds."""
    limits: Mapping[str, int]
    """Resource -> how many programs it alone would allow."""
    limited_by: tuple[str, ...]
    """The resources that allow the fewest."""

    @property
    def fraction(self) -> float:
        """Warps over the most possible: 0 to 1."""
        return self.warps / self.most_warps


@dataclass(frozen=True)
class ControlCodes:
    """What an NVIDIA instruction tells the warp scheduler; `compiler/sass_decoding.py` says where the bits are."""

    stall_cycles: int
    """Cycles until the warp's next instruction may issue: 0 to 15."""
    yields: bool
    """A hint to take another warp next."""
    write_barrier: int | None
    """The scoreboard (0 to 5) that is set until the result is there; None where nothing waits for it."""
    read_barrier: int | None
    """The scoreboard that is set until the operands have been read, so that their registers may be written again."""
    waits_for: tuple[int, ...]
    """The scoreboards that must be clear before this instruction issues."""
    reuse: tuple[int, ...]
    """The register operands (0 to 3, by their slots in the encoding) kept for the next instruction's same slot."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of the machine code."""

    address: int
    """Bytes from the beginning of the function's section; for AMD, whose text has no addresses, -1."""
    line: int
    """Its line in the text of the stage: "sass", or "amdgcn"."""
    function: str
    """The function that it belongs to: the kernel, or one that it calls."""
    predicate: str
    """ "@P0", "@!P0", "@UP0", or "" where it always runs."""
    opcode: str
    """With its modifiers: "LDG.E.128", "v_mfma_f32_32x32x8_f16"."""
    operands: tuple[str, ...]
    category: str
    """The class of the opcode, one of `compiler.opcode_classes.CATEGORIES`: "global load", "matrix", "barrier", ..."""
    width: int | None
    """Bytes that each thread moves, for an access to memory whose opcode says it."""
    control: ControlCodes | None
    """None for AMD."""
    reads: tuple[str, ...]
    """Registers and predicates that it reads, in order: "R4", "UR5", "P0" (NVIDIA)."""
    writes: tuple[str, ...]
    """Registers and predicates that it writes (NVIDIA)."""
    chains: tuple[Chain, ...]
    """Where it comes from, with the calls that were inlined; () for what the compiler made up itself."""
    ttgir_line: int | None
    """The line of the TTGIR text that it was made from, where the compilation kept that."""

    @property
    def source(self) -> SourcePosition | None:
        """The innermost line that it comes from."""
        return self.chains[0][0] if self.chains else None

    def __str__(self) -> str:
        words = [self.predicate, self.opcode, ", ".join(self.operands)]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class SpillSite:
    """An instruction that moves a spilled register, or an element of a local array, to or from local memory."""

    line: int
    """In the text of the machine code."""
    kind: Literal["store", "load"]
    bytes: int
    """Per thread, each time it runs."""
    chain: Chain
    """Where it comes from, innermost line first; () where the compiler does not say."""


class Analyst(Protocol):
    """Finds out what a compilation's modules tell; the compiler room has one."""

    def remarks(self, compilation: Compilation) -> tuple[Remark, ...]:
        """What the compiler says."""

    def shared_memory(self, compilation: Compilation) -> SharedMemory:
        """How shared memory is laid out."""

    def barriers(self, compilation: Compilation) -> Barriers:
        """What each barrier guards."""

    def axis_info(self, compilation: Compilation) -> AxisInfo:
        """What is known of the addresses of each access."""

    def call_graph(self, compilation: Compilation) -> CallGraph:
        """Who calls whom."""

    def pipeline_stages(self, compilation: Compilation) -> PipelineStages:
        """The schedule of each pipelined loop."""

    def work(self, compilation: Compilation) -> Work:
        """Arithmetic and bytes."""

    def layouts(self, compilation: Compilation, snapshot: str) -> Layouts:
        """Where the elements of each tile are."""

    def conversions(self, compilation: Compilation, snapshot: str) -> Conversions:
        """Where tiles change their layout, and how."""


Finding = TypeVar("Finding")


@dataclass(frozen=True)
class Compilation:
    """One compilation of one kernel for one target."""

    kernel: str
    target: Target
    specialization: Specialization
    options: Mapping[str, Any]
    """The backend's options in force: num_warps, num_stages, num_ctas, ..."""
    stages: Stages
    read_resources: Callable[[], Resources] = field(repr=False, compare=False)
    """Reads the resources from the binary; called once, when first asked for."""
    passes: tuple[PassRun, ...] = field(default=(), repr=False)
    """Every pass that ran, in order; empty with record="stages"."""
    open_module: Callable[[Compilation, str], ModuleOp] | None = field(
        default=None, repr=False, compare=False
    )
    """Reads the module of a stage or pass into xDSL, each time it is asked for."""
    make_analyst: Callable[[], Analyst] | None = field(default=None, repr=False, compare=False)
    """Makes the one who answers `remarks` and the analyses, when one of them is first asked for."""
    write_record: Callable[[Compilation, str | os.PathLike[str]], os.PathLike[str]] | None = field(
        default=None, repr=False, compare=False
    )
    """Saves the compilation."""
    read_source_now: Callable[[], str | None] | None = field(
        default=None, repr=False, compare=False
    )
    """Reads the source of the kernel that has the name now."""
    read_source_map: Callable[[], SourceMap] | None = field(default=None, repr=False, compare=False)
    """Makes the source map from the stages; called once, when first asked for."""
    read_instructions: Callable[[Compilation], tuple[Instruction, ...]] | None = field(
        default=None, repr=False, compare=False
    )
    """Decodes the machine code; called once, when first asked for."""
    read_spill_sites: Callable[[Compilation], tuple[SpillSite, ...]] | None = field(
        default=None, repr=False, compare=False
    )
    read_occupancy: (
        Callable[[Compilation, int | None, int | None, int | None], Occupancy] | None
    ) = field(default=None, repr=False, compare=False)
    """Given registers, shared memory and warps, each None for the kernel's own."""

    @property
    def is_redefined(self) -> bool:
        """Whether the kernel's name stands for another source by now, of a cell that ran again; False where nobody can tell."""
        now = self.read_source_now() if self.read_source_now is not None else None
        return now is not None and "source" in self.stages and now != self.stages["source"].text

    @cached_property
    def resources(self) -> Resources:
        """Registers, spills, shared memory and stack of the compiled kernel."""
        return self.read_resources()

    @cached_property
    def source_map(self) -> SourceMap:
        """Which line of one stage became which lines of another.

        Raises ValueError for a record that was not made by a compilation here and brought no map.
        """
        if self.read_source_map is None:
            raise ValueError(f"no line information was kept for {self.kernel!r}")
        return self.read_source_map()

    def save(self, path: str | os.PathLike[str]) -> os.PathLike[str]:
        """Write the whole record to a file (gzipped JSON) that `kernellab.load` reads; returns the file's path.

        Raises ArchiveError where the file cannot be written.
        """
        if self.write_record is None:
            raise ValueError(f"the record of {self.kernel!r} cannot be saved")
        return self.write_record(self, path)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What the compiler says: MLIR's remarks and warnings, Triton's own warnings, the PTX assembler's notes.

        Raises ArgumentError for a record made from files, which hold none.
        """
        return self._analyst.remarks(self)

    @cached_property
    def _analyst(self) -> Analyst:
        if self.make_analyst is None:
            raise ValueError(f"the record of {self.kernel!r} has nobody who can analyse it")
        return self.make_analyst()

    @cached_property
    def _findings(self) -> dict[str, Any]:
        return {}

    def _found(self, name: str, ask: Callable[[Compilation], Finding]) -> Finding:
        """What was found out when it was first asked for."""
        if name not in self._findings:
            self._findings[name] = ask(self)
        found: Finding = self._findings[name]
        return found

    def shared_memory(self) -> SharedMemory:
        """How shared memory is laid out: buffers, offsets, sizes, life spans, who shares bytes with whom.

        Raises ArgumentError for a record without passes; so do the other analyses that read passes.
        """
        return self._found("shared_memory", self._analyst.shared_memory)

    def barriers(self) -> Barriers:
        """The barriers of a program, and which accesses to shared memory each keeps apart."""
        return self._found("barriers", self._analyst.barriers)

    def axis_info(self) -> AxisInfo:
        """What is known of the addresses of each access to global memory, and how wide the finished code's accesses are."""
        return self._found("axis_info", self._analyst.axis_info)

    def call_graph(self) -> CallGraph:
        """The functions that are left after inlining, and who calls whom."""
        return self._found("call_graph", self._analyst.call_graph)

    def pipeline_stages(self) -> PipelineStages:
        """The stage and cluster of each operation of the loops that are software-pipelined."""
        return self._found("pipeline_stages", self._analyst.pipeline_stages)

    def work(self) -> Work:
        """Floating-point operations and bytes of one program, counted from the IR."""
        return self._found("work", self._analyst.work)

    def layouts(self, snapshot: str = "ttgir") -> Layouts:
        """The layout of every tile of a module: which thread and register, or which place in memory, holds which element.

        Args:
            snapshot: a stage, or the label of a pass ("ttgir.coalesce"): the module after it.

        Raises:
            ArgumentError: no such stage or pass, or its tiles have no layouts (TTIR).
        """
        ask = self._analyst.layouts
        return self._found(f"layouts {snapshot}", lambda record: ask(record, snapshot))

    def conversions(self, snapshot: str = "ttgir") -> Conversions:
        """Where tiles change their layout: by what means, how many bytes, and which operations on either side force it.

        Raises ArgumentError as `layouts` does.
        """
        ask = self._analyst.conversions
        return self._found(f"conversions {snapshot}", lambda record: ask(record, snapshot))

    def module(self, name: str = "ttgir") -> ModuleOp:
        """The module of a stage ("ttir", "ttgir"), or after a pass ("ttgir.coalesce"), as xDSL ops: walk, rewrite, print it.

        Each call gives a module of its own. All widths of loads, without a regular expression:

            for op in compilation.module("ttgir").walk():
                if isinstance(op, tt.LoadOp):                     # from kernellab.ir import tt
                    print(op.result.type.encoding.size_per_thread)

        docs/ir.md has more, a rewrite among it.

        Raises:
            ArgumentError: no such stage or pass, or it made no MLIR (llir, ptx, sass).
            ValueError: a record that was not made by a compilation here.
        """
        if self.open_module is None:
            raise ValueError(f"the record of {self.kernel!r} cannot open modules")
        return self.open_module(self, name)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The machine code, decoded: SASS, or AMD's assembly.

        Raises ValueError for a record that was not made by a compilation here and brought no instructions.
        """
        if self.read_instructions is None:
            raise ValueError(f"no machine code was kept for {self.kernel!r}")
        return self.read_instructions(self)

    @cached_property
    def spill_sites(self) -> tuple[SpillSite, ...]:
        """The instructions that move spilled registers and local arrays, with the kernel's lines; see `instructions`."""
        if self.read_spill_sites is None:
            raise ValueError(f"no machine code was kept for {self.kernel!r}")
        return self.read_spill_sites(self)

    def occupancy(
        self,
        *,
        registers: int | None = None,
        shared_bytes: int | None = None,
        warps: int | None = None,
    ) -> Occupancy:
        """How many programs are on one multiprocessor at once, and what limits that.

        Args:
            registers: per thread, instead of the kernel's own, if the rest stayed.
            shared_bytes: per program, likewise.
            warps: per program, likewise.
        """
        if self.read_occupancy is None:
            raise ValueError(f"the limits of {self.target} are not known here")
        return self.read_occupancy(self, registers, shared_bytes, warps)

    def explore(self, *evidence: Any) -> Any:
        """The IR explorer: every pass, what it changed, and all stages with linked lines (docs/widgets.md).

        The last expression of a cell shows it; `.to_html(path)` writes it as one self-contained page.

        Args:
            evidence: what `kernellab.check`, `kernellab.accesses` and `kernellab.read_ncu` found of the same kernel: findings stand in the
                margin, numbers beside the lines.

        Raises:
            ArgumentError: evidence of another kernel, of another definition of it, or counted for another compilation.
            ProfileError: a profile of other machine code.
        """
        return show(self, *evidence)

    def __repr__(self) -> str:
        return f"Compilation({self.kernel!r} for {self.target}: {', '.join(self.stages)})"


@dataclass(frozen=True)
class Run:
    """One finished run of a kernel."""

    launch: Launch
    device: Literal["interpreter", "gpu"]
    target: Target
    """The GPU it ran on, or that the interpreter emulated."""
    seconds: float | None = None
    """Wall time of the interpreter's run, launch overhead included; None on a GPU, where a launch returns before the kernel ends."""

    def __repr__(self) -> str:
        grid = joined_sizes(self.launch.grid)
        where = f"interpreter, emulating {self.target}" if self.device == "interpreter" else "GPU"
        took = "" if self.seconds is None else f", {self.seconds * 1e3:.1f} ms"
        return f"Run({self.launch.kernel!r}, grid {grid}, {where}{took})"
