"""`kernellab.compare`: two compilations side by side, and whether a run is of one."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kernellab import errors, triton_api
from kernellab.common.text import counted
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.cubin import size_without_debug
from kernellab.compiler.machine_code.instructions import instruction_count, padding_of
from kernellab.compiler.records import Remark, Resources
from kernellab.records import PassRun, SourceMap, Stage, StoredText, Subject, Target
from kernellab.records.display import PrintsAsCard, show

_PARTS = r'(?:[^()"]|"(?:[^"\\]|\\.)*"|\({inner}\))*'
_INNERMOST = r'(?:[^()"]|"(?:[^"\\]|\\.)*")*'


def _nested(levels: int) -> str:
    pattern = _INNERMOST
    for _ in range(levels):
        pattern = _PARTS.format(inner=pattern)
    return pattern


MLIR_LOCATION = re.compile(rf"(?<!\s)\s*+\bloc\({_nested(5)}\)")
"""`loc(...)` of an operation or an argument, with the blanks before it."""

Lines = Iterator[str | None]
"""The lines of a text, one after the other; None for one that is left out."""


@dataclass(frozen=True)
class ReadableText:
    """A text without some lines; those shown keep their numbers in the full text."""

    content: str
    skipped: tuple[int, ...]
    """The numbers of the lines left out, from 1, except for those at the end."""


def readable(language: str, text: str) -> ReadableText:
    """The text without locations, debug metadata and sections, `.loc`, `.file` and file notes."""
    clean = _CLEANERS.get(language)
    lines = text.splitlines()
    shown = list(lines if clean is None else clean(lines))
    while shown and not shown[-1]:
        shown.pop()
    skipped = tuple(number for number, line in enumerate(shown, 1) if line is None)
    return ReadableText("\n".join(line for line in shown if line is not None), skipped)


_OWN_ALIAS = re.compile(r" loc\(#loc\d*\)$")
"""The one location that most lines have."""


def _mlir(lines: list[str]) -> Lines:
    for line in lines:
        if line.startswith(("#loc", "#di_")):
            yield None
        elif (at := line.rfind(" loc(#")) >= 0 and _OWN_ALIAS.match(line, at):
            # Ten times as fast as the general pattern, which only lines
            # with several locations need.
            own = line[:at]
            yield MLIR_LOCATION.sub("", own) if "loc(" in own else own
        else:
            yield MLIR_LOCATION.sub("", line) if "loc(" in line else line


_DEBUG_USE = re.compile(r",? !dbg !\d+")


def _llvm(lines: list[str]) -> Lines:
    for line in lines:
        if line.startswith("!") or line.lstrip().startswith("#dbg_"):
            yield None
        else:
            yield _DEBUG_USE.sub("", line)


_TEMPORARY_LABEL = re.compile(r"\$L__(?:tmp|func_\w+)\d*:|\.L(?:tmp|func_\w+)\d+:")


def _assembly(lines: list[str]) -> Lines:
    """PTX and AMD assembly: both have `.loc`, `.file` and sections of debug information."""
    in_debug_section = False
    for line in lines:
        word = line.strip()
        if not in_debug_section and word[:1] not in (".", "$"):
            yield line  # as most lines
            continue
        if word.startswith(".section"):
            in_debug_section = ".debug" in word
        elif in_debug_section and re.match(r"\.(?:text|data|amdgpu_metadata|protected)\b", word):
            in_debug_section = False
        hidden = (
            in_debug_section
            or word.startswith((".loc\t", ".loc ", ".file\t", ".file "))
            or _TEMPORARY_LABEL.match(word)
        )
        yield None if hidden else line
        if in_debug_section and word == "}":
            in_debug_section = False


_INDENTED = re.compile(r"^ +(/\*[0-9a-f]+\*/) +")
_DIRECTIVE = re.compile(
    r"\s*\.(?:headerflags|elftype|section|sectionflags|sectioninfo|align|global|type|size|"
    r"other|weak)\b"
)


def _sass(lines: list[str]) -> Lines:
    """Instructions and labels of the code; the lines around them describe the file."""
    in_code = False
    for line in lines:
        if line.startswith("//-----"):
            in_code = ".text." in line
        hidden = (
            not in_code
            or not line.strip()
            or line.lstrip().startswith("//")
            or _DIRECTIVE.match(line)
        )
        yield None if hidden else _INDENTED.sub(r"  \1  ", line)


_CLEANERS: dict[str, Callable[[list[str]], Lines]] = {
    "mlir": _mlir, "llvm": _llvm, "ptx": _assembly, "amdgcn": _assembly, "sass": _sass,
}  # fmt: skip


class StageSize(NamedTuple):
    """A number and what it counts: "24 lines"."""

    number: int
    unit: str

    def __str__(self) -> str:
        return counted(self.number, self.unit)


def size_of(stage: Stage) -> StageSize:
    """Bytes of a binary without its debug information, instructions of SASS,
    lines of other texts as the IR explorer shows them.

    Lines that only say where the code came from do not count:
    a compilation for the explorer has others (docs/sass.md), and the same code.
    """
    if isinstance(stage.content, bytes):
        return StageSize(size_without_debug(stage.content), "byte")
    if stage.name == "sass":
        return StageSize(instruction_count(stage.text), "instruction")
    return StageSize(len(readable(stage.language, stage.text).content.splitlines()), "line")


@dataclass(frozen=True)
class Sides:
    """A fact of either compilation; None if one does not have it."""

    name: str
    left: Any
    right: Any

    @property
    def equal(self) -> bool:
        """Whether both have the same."""
        return bool(self.left == self.right)


@dataclass(frozen=True)
class StagePair:
    """One stage of either compilation."""

    name: str
    equal: bool
    """Whether both texts are the same apart from locations, or both binaries byte by byte."""


@dataclass(frozen=True)
class PassPair:
    """A pass that ran on either side, or on one alone."""

    label: str
    left: PassRun | None
    right: PassRun | None
    left_module: StoredText | None
    """The left side's module after the pass, or after the previous one if it did not run there."""
    right_module: StoredText | None

    @property
    def ran_on_both(self) -> bool:
        return self.left is not None and self.right is not None

    @cached_property
    def equal(self) -> bool:
        """Whether the modules are the same after it, apart from locations."""
        left, right = self.left_module, self.right_module
        if left is None or right is None:
            return left is right
        if self.left is not None and self.right is not None:
            counts = self.left.op_counts_after, self.right.op_counts_after
            if counts[0] != counts[1]:  # seen without reading the texts, which may be of megabytes
                return False
        return left.digest == right.digest or _bare(left) == _bare(right)


_MOST_NAMED = 4
"""Constants and options that name a side; more make no heading."""


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 16)


@dataclass(frozen=True)
class Comparison(PrintsAsCard):
    """Two compilations, and where they differ; computed on first use."""

    left: Compilation
    right: Compilation
    told_apart: tuple[str, str] = ("left", "right")
    """Names of the sides if they do not differ, or differ in too much to name."""
    notes: tuple[str, ...] = ()
    """Notes about both, in sentences."""

    @cached_property
    def names(self) -> tuple[str, str]:
        """The names of the sides: kernels, targets, constants, options, or `told_apart`."""
        if self.left.kernel != self.right.kernel:
            return self.left.kernel, self.right.kernel
        if self.left.target != self.right.target:
            return str(self.left.target), str(self.right.target)
        constants = [
            difference
            for difference in self.specialization
            if _is_short(difference.left) and _is_short(difference.right)
        ]
        options = [
            option
            for option in self.options
            if option.name in ("num_warps", "num_stages", "num_ctas")
        ]
        chosen = [*constants, *options]
        if 0 < len(chosen) <= _MOST_NAMED:
            left = ", ".join(f"{difference.name}={difference.left}" for difference in chosen)
            return left, ", ".join(f"{difference.name}={difference.right}" for difference in chosen)
        return self.told_apart

    @cached_property
    def options(self) -> tuple[Sides, ...]:
        """The backend's options that differ."""
        return tuple(_differing(self.left.options, self.right.options))

    @cached_property
    def specialization(self) -> tuple[Sides, ...]:
        """The parameters whose types, or values compiled in, differ."""
        left, right = (
            {**side.specialization.signature, **side.specialization.constants_by_name}
            for side in (self.left, self.right)
        )
        return tuple(_differing(left, right))

    @cached_property
    def stages(self) -> tuple[StagePair, ...]:
        """Every stage that one side has, in the order of the pipelines."""
        names = merged(list(self.left.stages), list(self.right.stages))
        return tuple(_stage_pair(name, self.left, self.right) for name in names)

    @cached_property
    def resources(self) -> tuple[Sides, ...]:
        """Every resource, with both numbers; None for a side without machine code."""
        left, right = resources_of(self.left), resources_of(self.right)
        return tuple(
            Sides(field.name, getattr(left, field.name, None), getattr(right, field.name, None))
            for field in dataclasses.fields(Resources)
        )

    @cached_property
    def opcodes(self) -> tuple[Sides, ...]:
        """The opcodes of the machine code whose counts differ, the largest difference first."""
        left, right = _opcodes(self.left), _opcodes(self.right)
        names = [name for name in left | right if left[name] != right[name]]
        names.sort(key=lambda name: (-abs(left[name] - right[name]), name))
        return tuple(Sides(name, left[name], right[name]) for name in names)

    @cached_property
    def passes(self) -> tuple[PassPair, ...]:
        """Every pass that ran on one side, lined up by name, in order."""
        return tuple(_pass_pairs(self.left.passes, self.right.passes))

    @cached_property
    def first_difference(self) -> PassPair | None:
        """The first pass after which the modules differ; None without one, or without passes."""
        if not self.left.passes or not self.right.passes:
            return None
        return next((pair for pair in self.passes if not pair.equal), None)

    def by_line(self, name: str = "ttgir") -> tuple[Sides, ...]:
        """The kernel's lines whose operations differ in a stage.

        Args:
            name: a text stage: "ttgir", "ptx", "sass", ...

        Returns:
            For each line, in the kernel's order, its text, and the operations of each side, as
            operation -> how many; {} for a line that one side does not have.

        Raises:
            ArgumentError: a side has no such stage with lines of the source.
        """
        sides = [operations_by_line(side, name) for side in (self.left, self.right)]
        lines = merged(list(sides[0]), list(sides[1]))
        pairs = (Sides(line, *(dict(side.get(line, {})) for side in sides)) for line in lines)
        return tuple(pair for pair in pairs if not pair.equal)

    @cached_property
    def remarks(self) -> tuple[tuple[Remark, ...], tuple[Remark, ...]]:
        """The remarks that only the left side has, and those that only the right side has."""
        left, right = remarks_of(self.left), remarks_of(self.right)
        return (
            tuple(remark for remark in left if remark not in right),
            tuple(remark for remark in right if remark not in left),
        )

    def diff(self, name: str, context: int = 3) -> str:
        """The differences in a stage or after a pass ("ttgir.coalesce"): a diff without locations.
        Raises ArgumentError: neither side has that stage or pass, or it is binary.
        """
        left, right = _text(self.left, name), _text(self.right, name)
        if left is None and right is None:
            known = [*(pair.name for pair in self.stages), *(pair.label for pair in self.passes)]
            raise errors.ArgumentError(
                f"Neither compilation has a stage or a pass {name!r}.",
                advice=errors.suggestion(name, known, "Stages and passes:"),
            )
        lines = difflib.unified_diff(
            (left or "").splitlines(),
            (right or "").splitlines(),
            f"{name} ({self.names[0]})",
            f"{name} ({self.names[1]})",
            n=context,
            lineterm="",
        )
        return "\n".join(lines)

    def explore(self, *annotations: Any) -> Any:
        """Both sides in the IR explorer: passes lined up, and what differs (docs/widgets.md).

        Args:
            annotations: as for `Compilation.explore`; it appears on each side that it belongs to.

        Raises:
            ArgumentError, ProfileError: evidence that is of neither side.
        """
        return show(self, *annotations)

    def table(self) -> Any:
        """Parameters, options, resources and opcode counts that differ, as a DataFrame."""
        from kernellab.common.pandas_import import pandas

        rows = [
            (kind, fact.name, fact.left, fact.right)
            for kind, facts in (
                ("parameter", self.specialization),
                ("option", self.options),
                ("resource", self.resources),
                ("opcode", self.opcodes),
            )
            for fact in facts
            if not fact.equal
        ]
        return pandas.DataFrame(rows, columns=["kind", "name", *self.names])

    @cached_property
    def is_equal(self) -> bool:
        """Whether types, options and every stage but the source agree, apart from locations."""
        stages = [pair for pair in self.stages if pair.name != "source"]
        return not (self.specialization or self.options) and all(pair.equal for pair in stages)

    def __repr__(self) -> str:
        return f"Comparison({self.left!r}, {self.right!r})"


def compare(left: Compilation, right: Compilation) -> Comparison:
    """Compare two compilations: of two targets, with different options, or of two versions of a
    kernel. Raises ArgumentError: an argument is not a Compilation.
    """
    for side in (left, right):
        if not isinstance(side, Compilation):
            advice = "Pass two: kernellab.compare(compilations['sm_80'], compilations['sm_90'])."
            raise errors.ArgumentError(
                f"compare takes two Compilations, got an object of type {type(side).__name__}.",
                advice=advice if isinstance(side, Mapping) else "kernellab.compile gives one.",
            )
    return Comparison(left, right)


def _differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Sides]:
    for name in merged(list(left), list(right)):
        pair = Sides(name, left.get(name), right.get(name))
        if not pair.equal:
            yield pair


def merged(left: list[str], right: list[str]) -> list[str]:
    """Both lists in one: the left one in order, with the right one's own items at their places."""
    both: list[str] = []
    on_the_left = set(left)
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    for kind, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        both += left[left_start:left_end]
        if kind != "equal":
            both += [label for label in right[right_start:right_end] if label not in on_the_left]
    return both


def _pass_pairs(left: Iterable[PassRun], right: Iterable[PassRun]) -> Iterator[PassPair]:
    runs = {run.label: run for run in left}, {run.label: run for run in right}
    modules: list[StoredText | None] = [None, None]
    for label in merged(list(runs[0]), list(runs[1])):
        pair = [side.get(label) for side in runs]
        modules = [run.text if run else module for run, module in zip(pair, modules)]
        yield PassPair(label, pair[0], pair[1], modules[0], modules[1])


def _stage_pair(name: str, left: Compilation, right: Compilation) -> StagePair:
    stages = [side.stages.get(name) for side in (left, right)]
    contents = [stage.content for stage in stages if stage is not None]
    both = [each if isinstance(each, bytes) else without_locations(each) for each in contents]
    return StagePair(name, len(both) == 2 and both[0] == both[1])


_OPERATION = re.compile(
    r"^\s*(?:\d+\s*\|)?(?:/\*[^*]*\*/\s*)?(?:@!?%?\w+\s+)?(?:%?[\w:#., %]+ = )?\"?"
    r"([A-Za-z_][\w.]*)"
)
"""The operation of a line: the first word after results, addresses and predicates."""


def operations_by_line(compilation: Compilation, name: str) -> dict[str, Counter[str]]:
    """The operations of a stage by the text of their kernel's line, in the kernel's order."""
    has_text = name in compilation.stages and isinstance(compilation.stages[name].content, str)
    if not has_text or not compilation.can_answer("source_map"):
        raise errors.ArgumentError(
            f"The compilation of {compilation.kernel!r} has no stage {name!r} with source lines.",
            advice=errors.suggestion(name, compilation.stages, "Its stages are"),
        )
    counts: dict[errors.SourcePosition, Counter[str]] = {}
    for number, text in enumerate(compilation.stages[name].text.splitlines(), 1):
        operation = _OPERATION.match(text)
        chains = compilation.source_map.chain(name, number)
        if operation is not None and chains:
            counts.setdefault(chains[0][-1], Counter())[operation[1]] += 1
    by_text: dict[str, Counter[str]] = {}
    for place in sorted(counts, key=lambda place: place.line):
        line = errors.source_line(place.file, place.line).strip()
        by_text.setdefault(line, Counter()).update(counts[place])
    return by_text


_NOT_THERE = (errors.NotRecorded, errors.CompileError, errors.MachineError)
"""Of a record without machine code, a damaged binary, and a missing tool."""


def resources_of(compilation: Compilation) -> Resources | None:
    try:
        return compilation.resources
    except _NOT_THERE:
        return None


def _opcodes(compilation: Compilation) -> Counter[str]:
    try:
        padding, instructions = padding_of(compilation), compilation.instructions
    except _NOT_THERE:
        return Counter()
    return Counter(each.opcode for each in instructions if each.line not in padding)


def remarks_of(compilation: Compilation) -> tuple[Remark, ...]:
    """What the compiler said; nothing for a record from files, which has no one who could say."""
    try:
        return compilation.remarks
    except errors.KernelLabError:  # without the edits of a pipeline, the compiler may refuse
        return ()


def _text(compilation: Compilation, name: str) -> str | None:
    if name in compilation.stages:
        content = compilation.stages[name].content
        if isinstance(content, bytes):
            raise errors.ArgumentError(
                f"The stage {name!r} is binary: it has no lines to compare.",
                advice="Compare a stage that is text, such as 'ptx' or 'sass'.",
            )
        return without_locations(content)
    run = next((pass_ for pass_ in compilation.passes if pass_.label == name), None)
    return None if run is None else _bare(run.text)


def _bare(text: StoredText) -> str:
    return without_locations(text.read())


_MLIR_ALIAS = re.compile(r"^#loc\d* = .*\n?", re.M)
_LLVM_DEBUG = re.compile(r",? !dbg !\d+|^[ \t]*#dbg_\w+\(.*\n?|^!\d+ = .*\n?|^!llvm\..*\n?", re.M)
_PTX_DEBUG = re.compile(r"\.(?:loc|file)\b|\$L__(?:tmp|func_\w+)\d*:")
_PTX_DEBUG_SECTION = re.compile(r"\.section\s+\.debug")
_SASS_PLACE = re.compile(r"^[ \t]*//## File .*\n?", re.M)


def without_locations(text: str) -> str:
    """A stage's text without MLIR's loc, LLVM's debug metadata, `.loc` and SASS file notes."""
    if ".version" in text and ".target" in text and ".visible .entry" in text:
        return "\n".join(_ptx_code(text))
    if "target datalayout" in text or "\ndefine " in text:
        return _LLVM_DEBUG.sub("", text)
    if _SASS_PLACE.search(text):
        return _SASS_PLACE.sub("", text)
    return MLIR_LOCATION.sub("", _MLIR_ALIAS.sub("", text))


def _ptx_code(text: str) -> Iterator[str]:
    is_debug = False
    for line in text.splitlines():
        code = line.partition("//")[0].strip()
        if is_debug:
            is_debug = not code.startswith("}")
        elif _PTX_DEBUG_SECTION.match(code):
            is_debug = True
        elif code and not _PTX_DEBUG.match(code):
            yield code


_ALWAYS = ("num_warps", "num_stages", "num_ctas")
"""Options that make other code, whether a launch names them or not."""


def subject_of(kernel: Any, call: BoundCall, target: Target) -> Subject:
    """The kernel of a launch of a plain JIT function, and its specialization."""
    defaults = triton_api.backend_options(target)
    options = {name: defaults[name] for name in _ALWAYS if name in defaults}
    return Subject(
        kernel=kernel.__name__,
        definition=triton_api.definition_of(kernel),
        source="".join(kernel.raw_src),
        target=target,
        specialization=call.specialization,
        options={**options, **triton_api.options_of_launch(kernel, call.options)},
    )


def is_defined_alike(subject: Subject, compilation: Compilation) -> bool:
    """Whether both have the same text, in the same file, on the same lines as far as known."""
    if "source" in compilation.stages:
        if compilation.stages["source"].text.rstrip() != subject.source.rstrip():
            return False
    if not compilation.can_answer("source_map"):
        return True
    source_map = compilation.source_map
    line = definition_line(compilation, source_map)
    return source_map.file in ("", subject.definition.file) and line in (
        None,
        subject.definition.line,
    )


def definition_line(compilation: Compilation, source_map: SourceMap) -> int | None:
    """The line of the kernel's `def`, which the IR's function knows; None if no IR says it."""
    for name in ("ttir", "ttgir"):
        if name not in compilation.stages or name not in source_map.origins:
            continue
        for number, line in enumerate(compilation.stages[name].text.splitlines(), 1):
            if "tt.func public @" in line:
                chains = source_map.chain(name, number)
                if chains:
                    return chains[0][-1].line
    return None


def differences(subject: Subject, compilation: Compilation) -> Iterator[str]:
    """How the compilation differs from what was run: target, types, constants, options."""
    if subject.target != compilation.target:
        yield f"the target was {subject.target}, but is {compilation.target} here"
    ours, theirs = subject.specialization, compilation.specialization
    for name in {**ours.signature, **theirs.signature}:
        there, here = ours.signature.get(name), theirs.signature.get(name)
        if there != here:
            yield f"{name} was {there}, but is {here} here"
    names = list(ours.signature)
    for what, run, compiled in (
        ("constant", ours.constants, theirs.constants),
        ("promise", ours.attributes, theirs.attributes),
    ):
        for path in {**run, **compiled}:
            there, here = run.get(path) or None, compiled.get(path) or None
            if there != here:
                name = names[path[0]] if path[0] < len(names) else str(path)
                yield f"the {what} of {name} was {there}, but is {here} here"
    for name, value in subject.options.items():
        if name in compilation.options and compilation.options[name] != value:
            yield f"{name} was {value}, but is {compilation.options[name]} here"
