"""The data of the IR explorer: compilations, each beside its Python source."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kernellab.common.text import joined_sizes
from kernellab.compiler.analyses.records import TileLayout
from kernellab.compiler.compare import Comparison, definition_line, readable, remarks_of
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.instructions import padding_of
from kernellab.compiler.modules import lines_of_operations
from kernellab.compiler.passes import pass_notes
from kernellab.compiler.records import ControlCodes, Instruction, Remark, Resources
from kernellab.compiler.source_map import with_passes
from kernellab.errors import (
    CompileError,
    Diagnostic,
    KernelLabError,
    SourcePosition,
    compiled_at,
    is_edited,
    source_lines,
)
from kernellab.records import PassRun, SourceMap
from kernellab.viz.explorer_data import (
    ControlData,
    Effect,
    IrSide,
    IrView,
    LayoutWords,
    MarginNote,
    MetricData,
    PassData,
    PassPairData,
    SourceMapData,
    StageData,
    TextData,
)
from kernellab.viz.kernels import format_spills
from kernellab.viz.layouts import format_conversion

Span = tuple[int, int]
"""First and last line of a function, decorators included."""


@dataclass(frozen=True)
class KernelSource:
    """Lines of one file, in order."""

    content: str
    skipped: tuple[int, ...]
    """The numbers of the file's lines that are not shown, up to the last one that is."""
    kernel: str = ""
    """The kernel's name, where it was looked for."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Each line with its number in the file."""
        skipped = frozenset(self.skipped)
        numbers = (n for n in itertools.count(1) if n not in skipped)
        return zip(numbers, self.content.split("\n"))


def kernel_source(compilation: Compilation, source_map: SourceMap) -> KernelSource:
    """The kernel's text, and that of inlined functions of its file, as they were compiled."""
    if "source" not in compilation.stages:
        return KernelSource("", ())
    text = compilation.stages["source"].text.rstrip("\n")
    first = _first_line(compilation, text, source_map)
    own = text.split("\n")
    named = {
        frame[1]
        for chain in source_map.chains
        for frame in chain
        if source_map.files[frame[0]] == source_map.file
    }
    if compilation.functions:
        helpers = [
            (function.first_line, function.lines)
            for function in compilation.functions
            if function.file == source_map.file
            and any(function.first_line <= line <= function.last_line for line in named)
        ]
        return _placed([(first, own), *helpers])
    lines = [line.rstrip("\n") for line in source_lines(source_map.file)]
    span = (first, first + len(own) - 1)
    if [line.strip() for line in lines[first - 1 : span[1]]] != [line.strip() for line in own]:
        return KernelSource(text, tuple(range(1, first)))
    spans = [
        function
        for function in _functions(lines)
        if any(function[0] <= n <= function[1] for n in named)
    ]
    return _placed((first, lines[first - 1 : last]) for first, last in (span, *spans))


def failed_source(position: SourcePosition | None) -> KernelSource:
    """Return the function around a position, as its file has it, or as it was compiled if the file
    was edited since; nothing if the file cannot be read.
    """
    if position is None:
        return KernelSource("", ())
    compiled = compiled_at(position.file, position.line)
    if compiled is not None and is_edited(position.file, compiled):
        placed = _placed([(compiled.first_line, compiled.lines)])
        return replace(placed, kernel=compiled.function)
    lines = [line.rstrip("\n") for line in source_lines(position.file)]
    spans = [
        function for function in _functions(lines) if function[0] <= position.line <= function[1]
    ]
    around = spans[0] if spans else (max(1, position.line - 5), min(len(lines), position.line + 5))
    cut = _placed([(around[0], lines[around[0] - 1 : around[1]])])
    name = re.search(r"^[ \t]*def (\w+)", cut.content, re.M)
    return replace(cut, kernel=name[1] if name else "")


def _placed(functions: Iterable[tuple[int, Sequence[str]]]) -> KernelSource:
    """Functions as first line number and lines; of two with one number, the first."""
    shown: dict[int, str] = {}
    for first, lines in functions:
        for number, line in enumerate(lines, first):
            shown.setdefault(number, line)
    if not shown:
        return KernelSource("", ())
    numbers = sorted(shown)
    skipped = sorted(set(range(1, numbers[-1])) - set(numbers))
    return KernelSource("\n".join(shown[number] for number in numbers), tuple(skipped))


def _first_line(compilation: Compilation, text: str, source_map: SourceMap) -> int:
    in_text = next(
        (n for n, line in enumerate(text.split("\n")) if line.lstrip().startswith("def ")), 0
    )
    definition = definition_line(compilation, source_map)
    return 1 if definition is None else max(1, definition - in_text)


def _functions(lines: Sequence[str]) -> list[Span]:
    """Return the outermost functions of a file; none if it is not Python (a cell with magics)."""
    # Lines that only IPython can read become comments, so that the others keep their numbers.
    readable = [f"#{line}" if line.startswith(("%", "!")) else line for line in lines]
    try:
        tree = ast.parse("\n".join(readable))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    return [
        (
            min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
            node.end_lineno or 0,
        )
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    ]


_LANGUAGE_OF_STEP = {"optimize_module": "llvm", "ptxas": "sass"}
"""Languages of the steps after MLIR; "translate_to_asm" has the target's assembly."""


def explore_compilation(compilation: Compilation) -> IrView:
    """The explorer's data of one compilation."""
    side = _side(compilation, compilation.kernel)
    title = f"{compilation.kernel} for {compilation.target}"
    return IrView("ir", title, (side,), (), _pass_notes([side]), _first_metric(side))


def explore_comparison(comparison: Comparison) -> IrView:
    """The explorer's data of two compilations."""
    names = comparison.names
    sides = tuple(
        noted(_side(compilation, name), *comparison.notes)
        for compilation, name in zip((comparison.left, comparison.right), names)
    )
    title = " and ".join(dict.fromkeys(f"{side.kernel} for {side.target}" for side in sides))
    if sides[0].kernel == sides[1].kernel and sides[0].target == sides[1].target:
        title += f": {names[0]} and {names[1]}"
    return IrView(
        "ir", title, sides, pass_pairs(comparison), _pass_notes(sides), _first_metric(sides[0])
    )


def noted(side: IrSide, *notes: str) -> IrSide:
    """A side that begins with these notices, before its own."""
    return dataclasses.replace(side, notice=" ".join(filter(None, (*notes, side.notice))))


def pass_pairs(comparison: Comparison) -> tuple[PassPairData, ...]:
    """The passes of both sides lined up, by their numbers."""
    numbers = [
        {run.label: number for number, run in enumerate(compilation.passes)}
        for compilation in (comparison.left, comparison.right)
    ]
    return tuple(
        PassPairData(pair.label, numbers[0].get(pair.label), numbers[1].get(pair.label), pair.equal)
        for pair in comparison.passes
    )


def explore_failure(error: CompileError) -> IrView:
    """The explorer's data of a failed compilation: the passes, and the error on its line."""
    side = _failed_side(error)
    return IrView("ir", failure_title(error), (side,), (), _pass_notes([side]), "")


def failure_title(error: CompileError) -> str:
    """The kernel that did not compile, and the target, as far as the error knows them."""
    kernel = error.kernel or _kernel_name(error.passes) or failed_source(error.position).kernel
    return (
        f"{kernel or 'A kernel'}{f' for {error.target}' if error.target else ''}: did not compile"
    )


def _first_metric(side: IrSide) -> str:
    """How many machine instructions were made from each line, if that is known."""
    names = [metric.name for metric in side.metrics]
    return "instructions" if "instructions" in names else next(iter(names), "")


def _pass_notes(sides: Iterable[IrSide]) -> Mapping[str, str]:
    names = dict.fromkeys(run.name for side in sides for run in side.passes)
    return {name: note.text for name in names if (note := pass_notes().get(name))}


# Texts, each kept once


@dataclass
class _Texts:
    """The texts of one side; the same text is there once."""

    texts: list[TextData] = field(default_factory=list)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, language: str, text: str) -> int:
        """The number of a text, as it is shown."""
        shown = readable(language, text)
        return self.add_shown(language, shown.content, shown.skipped)

    def add_shown(self, language: str, content: str, skipped: tuple[int, ...]) -> int:
        """The number of a text that needs no cleaning."""
        key = (language, content)
        if key not in self.numbers:
            self.numbers[key] = len(self.texts)
            lines = content.count("\n") + 1 if content else 0
            self.texts.append(TextData(language, content, 0, lines, skipped))
        return self.numbers[key]


@dataclass
class _Passes:
    """The passes of one side, made one after the other."""

    texts: _Texts
    assembly: str
    """The language of the target's assembly."""
    stage_names: Mapping[str, str]
    """Full text of a stage -> its name."""
    modules: dict[str, str] = field(default_factory=dict)
    """What the source map is to know besides the stages: place -> module with its locations."""
    _places: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Digest of a full text -> the number of its shown text, and its place."""

    def read(self, runs: Iterable[PassRun]) -> Iterator[PassData]:
        """The data of each pass."""
        before: int | None = None
        for run in runs:
            number, place = self._text(run)
            effect: Effect = "unchanged"
            if run.changed:
                effect = "locations" if number == before else "changed"
            yield _pass(run, effect, number, place)
            before = number

    def _text(self, run: PassRun) -> tuple[int, str]:
        if run.text.digest not in self._places:
            text = run.text.read()
            place = self.stage_names.get(text, run.label)
            if run.op_counts_after and place == run.label:
                self.modules[place] = text
            number = self.texts.add(
                "mlir" if run.op_counts_after else _LANGUAGE_OF_STEP.get(run.name, self.assembly),
                text,
            )
            self._places[run.text.digest] = (number, place)
        return self._places[run.text.digest]


def _pass(run: PassRun, effect: Effect, text: int, place: str) -> PassData:
    before, after = run.op_counts_before, run.op_counts_after
    return PassData(
        label=run.label,
        stage=run.stage,
        name=run.name,
        arguments=", ".join(str(argument) for argument in run.arguments),
        effect=effect,
        seconds=run.seconds,
        ops_before=sum(before.values()),
        ops_after=sum(after.values()),
        op_changes=run.op_changes if before and after else {},
        text=text,
        place=place,
    )


# One compilation

REDEFINED = (
    "The kernel has been redefined since it was compiled. This is the compilation of the source "
    "that is shown here."
)
"""The explorer's note about a kernel whose cell ran again with other text."""


def _side(compilation: Compilation, name: str) -> IrSide:
    # The disassembler is another process: it works while the compiler is asked for its remarks.
    with ThreadPoolExecutor(1) as ahead:
        ahead.submit(compilation.stages.get, "sass")
        remarks = remarks_of(compilation)
    source_map = _source_map(compilation)
    source = kernel_source(compilation, source_map)
    texts = _Texts()
    stages = [StageData("source", texts.add_shown("python", source.content, source.skipped))]
    full = {}
    for stage in compilation.stages.made():
        if stage.name != "source" and isinstance(stage.content, str):
            full[stage.content] = stage.name
            stages.append(StageData(stage.name, texts.add(stage.language, stage.content)))
    passes = _Passes(texts, "amdgcn" if compilation.target.backend == "hip" else "ptx", full)
    rows = tuple(passes.read(compilation.passes))
    instructions = _known(compilation, "instructions") or ()
    return IrSide(
        name=name,
        kernel=compilation.kernel,
        target=str(compilation.target),
        facts=_facts(compilation),
        notice=_notice(compilation),
        texts=tuple(texts.texts),
        stages=tuple(stages),
        passes=rows,
        map=_map_data(with_passes(source_map, passes.modules)),
        notes=tuple(_notes(compilation, remarks, source_map.file)),
        controls=tuple(
            ControlData(instruction.line, control_codes(instruction.control))
            for instruction in instructions
            if instruction.control is not None
        ),
        metrics=tuple(_metrics(compilation, instructions)),
        layouts=_layouts(compilation),
    )


def _notice(compilation: Compilation) -> str:
    """The notes above the stages: about the source, and about stages that are missing here."""
    lines = [REDEFINED] if compilation.is_redefined else []
    lines += [function.notice for function in compilation.functions if function.notice]
    lines += [
        f"No {name.upper()}: {error.what} {error.advice}".strip()
        for name, error in compilation.stages.failed.items()
    ]
    return " ".join(lines)


def source_and_notes(compilation: Compilation) -> tuple[KernelSource, tuple[MarginNote, ...]]:
    """The kernel's lines, and what is said about them in their margin."""
    source_map = _source_map(compilation)
    notes = _notes(compilation, remarks_of(compilation), source_map.file)
    return kernel_source(compilation, source_map), tuple(notes)


def _source_map(compilation: Compilation) -> SourceMap:
    if compilation.can_answer("source_map"):
        return compilation.source_map
    return SourceMap("", (), (), {}, {})


def _map_data(source_map: SourceMap) -> SourceMapData:
    plain = source_map.to_json()
    return SourceMapData(
        plain["file"], plain["files"], plain["chains"], plain["origins"], plain["links"]
    )


def _known(compilation: Compilation, capability: str) -> Any:
    """What a compilation has under a name; None if the record does not hold what that needs,
    the kernel has no tiles, MLIR refuses a text that somebody edited, or a binary is damaged.
    """
    if not compilation.can_answer(capability):
        return None
    with suppress(KernelLabError):
        value = getattr(compilation, capability)
        return value() if callable(value) else value
    return None


def _facts(compilation: Compilation) -> tuple[tuple[str, str], ...]:
    facts = [
        (words, str(compilation.options[option]))
        for option, words in (("num_warps", "warps"), ("num_stages", "pipeline stages"))
        if option in compilation.options
    ]
    resources: Resources | None = _known(compilation, "resources")
    if resources is not None:
        facts.append(("registers", str(resources.registers)))
        facts.append(("spilled", format_spills(resources)))
        if resources.stack_bytes:
            facts.append(("stack", f"{resources.stack_bytes:,} bytes"))
        facts.append(("shared memory", f"{resources.shared_bytes:,} bytes"))
    return tuple(facts)


def _notes(compilation: Compilation, remarks: Iterable[Remark], file: str) -> Iterator[MarginNote]:
    """The compiler's remarks, and costly conversions of layouts, on their lines."""
    for remark in remarks:
        yield margin_note(remark, remark.kind, file)
    for conversion in _known(compilation, "conversions") or ():
        if conversion.means in ("warp shuffles", "shared memory"):
            place = line_in(file, (conversion.position,))
            words = format_conversion(dataclasses.replace(conversion, position=None))
            yield MarginNote("note", words, "layouts", place)


def margin_note(diagnostic: Diagnostic, origin: str, file: str) -> MarginNote:
    """A diagnostic on its line of the kernel's file, or on that of the call that leads there."""
    around = [f"{lead} {words}" for lead, words in diagnostic.circumstances.items()]
    return MarginNote(
        diagnostic.severity,
        "\n".join([diagnostic.headline, *around]),
        origin,
        line_in(file, (diagnostic.position, *diagnostic.called_from)),
        diagnostic.advice,
        diagnostic.what if diagnostic.why else "",
    )


def line_in(file: str, places: Sequence[SourcePosition | None]) -> int:
    """Return the line of the first place that is in a file, or 0."""
    return next((place.line for place in places if place is not None and place.file == file), 0)


def _layouts(compilation: Compilation) -> tuple[LayoutWords, ...]:
    tiles: Iterable[TileLayout] = _known(compilation, "layouts") or ()
    known = {(tile.shape, tile.encoding): tile.layout for tile in tiles if tile.layout}
    return tuple(
        LayoutWords(joined_sizes(shape), encoding, layout.describe())
        for (shape, encoding), layout in known.items()
    )


# Machine code


def control_codes(control: ControlCodes) -> str:
    """Control codes as assembler writers print them: "B0-----:R-:W1:Y:S04"."""
    waits = "".join(str(n) if n in control.waits_for else "-" for n in range(6))
    read = "-" if control.read_barrier is None else control.read_barrier
    write = "-" if control.write_barrier is None else control.write_barrier
    return f"B{waits}:R{read}:W{write}:{'Y' if control.yields else '-'}:S{control.stall_cycles:02}"


def _metrics(compilation: Compilation, instructions: Sequence[Instruction]) -> Iterator[MetricData]:
    """Numbers that the machine code, and the IR, have for each of their lines."""
    if "ttgir" in compilation.stages:
        operations = lines_of_operations(compilation.stages["ttgir"].text)
        lines = {
            line: 1
            for name, found_lines in operations.items()
            if "." in name and name != "tt.func"
            for line in found_lines
        }
        yield MetricData("TTGIR operations", "operations of the TTGIR", "ttgir", lines, "compiler")
    stage = "sass" if "sass" in compilation.stages else "amdgcn"
    padding = padding_of(compilation)
    instructions = [instruction for instruction in instructions if instruction.line not in padding]
    code = [instruction for instruction in instructions if instruction.chains]
    for name, unit, values in (
        ("instructions", "machine instructions", {instruction.line: 1 for instruction in code}),
        (
            "memory instructions",
            "machine instructions that access memory",
            {instruction.line: 1 for instruction in code if instruction.width is not None},
        ),
        (
            "stall cycles",
            "cycles that the assembler lets a warp wait, each instruction once",
            {
                instruction.line: instruction.control.stall_cycles
                for instruction in code
                if instruction.control is not None
            },
        ),
    ):
        if values:
            yield MetricData(name, unit, stage, values, "machine code")


# A compilation that failed


def _failed_side(error: CompileError) -> IrSide:
    runs: tuple[PassRun, ...] = error.passes
    finished = _finished_stages(error)
    source = failed_source(error.position)
    texts = _Texts()
    stages = [StageData("source", texts.add_shown("python", source.content, source.skipped))]
    stages += [StageData(name, texts.add("mlir", text)) for name, text in finished.items()]
    passes = _Passes(texts, "ptx", {text: name for name, text in finished.items()})
    rows = list(passes.read(runs))
    if rows and error.failed_pass:
        rows.append(_failed_pass(error.failed_pass, rows[-1]))
    file = error.position.file if error.position else ""
    empty = SourceMap(file, (), (), {}, {})
    where = f"in {error.failed_pass}" if error.failed_pass else "before the first pass"
    kernel = error.kernel or _kernel_name(runs) or source.kernel
    note = margin_note(dataclasses.replace(error.diagnostic, advice=""), where, file)
    match = _LINE_OF_PTX.match(error.advice) if error.failed_pass == "sass.ptxas" else None
    return IrSide(
        name=kernel,
        kernel=kernel,
        target=error.target,
        failure="\n".join([f"The compilation failed {where}: {error.problem}", *_excerpt(error)]),
        failure_line=int(match[1]) if match else 0,
        notice=error.position.notice if error.position else "",
        texts=tuple(texts.texts),
        stages=tuple(stages),
        passes=tuple(rows),
        map=_map_data(with_passes(empty, {**finished, **passes.modules})),
        notes=(note,),
    )


_LINE_OF_PTX = re.compile(r"Line (\d+) of the PTX is: ")
"""How an error says which line the assembler refused."""


def _excerpt(error: CompileError) -> list[str]:
    """The line at fault with a caret under its column, and what there is to say besides."""
    excerpt = error.position.excerpt() if error.position else ""
    place = f"at {error.position}" if excerpt else ""
    return [line for line in (place, excerpt, error.advice) if line]


def _failed_pass(label: str, before: PassData) -> PassData:
    """Return the pass that ended the compilation, with the module before it."""
    stage, _, name = label.partition(".")
    return dataclasses.replace(
        before,
        label=label,
        stage=stage,
        name=name.partition("#")[0],
        arguments="",
        effect="failed",
        seconds=0.0,
        ops_before=before.ops_after,
        op_changes={},
    )


def _finished_stages(error: CompileError) -> dict[str, str]:
    """The modules that finished stages of MLIR ended with."""
    runs: tuple[PassRun, ...] = error.passes
    label = error.failed_pass or (runs[-1].label if runs else "")
    ended = {run.stage: run.text for run in runs if run.op_counts_after}
    unfinished = label.partition(".")[0]
    names = [name for name in ("ttir", "ttgir") if name in ended and name != unfinished]
    return {name: ended[name].read() for name in names}


def _kernel_name(runs: Sequence[PassRun]) -> str:
    match = re.search(r"tt\.func public @([\w.$]+)", runs[0].text.read()) if runs else None
    return match[1] if match else ""
