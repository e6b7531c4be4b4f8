"""The cards of compilations, launches, comparisons, bisections, `equal` and `validate`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernellab.checker.records import Findings
from kernellab.common.text import counted, element_text, time_text
from kernellab.compiler.compare import Comparison, Sides, resources_of, size_of
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.instructions import matrix_instructions
from kernellab.compiler.machine_code.resources import most_registers
from kernellab.compiler.records import Resources
from kernellab.equality.records import Equality, UnequalElement, Validation
from kernellab.errors import CompileError, Diagnostic, MachineError, SourcePosition, source_line
from kernellab.launch.bisection import Bisection
from kernellab.profiling.diagnosis.records import WORTH_SAYING, Diagnosis
from kernellab.records import Launch, Origin, PassRun, Run, Specialization, Target
from kernellab.records import Path as ArgumentPath
from kernellab.records.launches import Difference
from kernellab.viz.diagnostics import tone_of
from kernellab.viz.kit.data import Link, Tile
from kernellab.viz.kit.view import Card, Table, card_of

_CHECK = Link(-1, "check", "The launch with every detector on", "check", {})
_DIAGNOSIS = Link(
    -1, "diagnosis", "Why it is slow, the most expensive findings first", "diagnosis", {}
)


@dataclass(frozen=True)
class Verdict:
    """The facts about a launch besides its compilation; None if they are not known yet."""

    findings: Findings | None = None
    diagnosis: Diagnosis | None = None


def tiles_of(compilation: Compilation, verdict: Verdict | None) -> list[Tile]:
    """The tiles of a kernel: its checks and its estimated time, occupancy, registers. `verdict`:
    what is known about its launch; None leaves out the first two tiles.
    """
    tiles = [] if verdict is None else [_checks(verdict.findings), _estimate(verdict.diagnosis)]
    return [*tiles, *_occupancy(compilation), *_registers(compilation)]


def _checks(findings: Findings | None) -> Tile:
    if findings is None:
        return Tile("checks", "not run", "the launch is not checked yet", link=_CHECK)
    if not len(findings):
        right = "results are right" if findings.compared else "results not compared"
        return Tile("checks", "passed", right, "pass", link=_CHECK)
    worst = min(findings, key=lambda finding: finding.severity != "error")
    place = "" if worst.line is None else f" on line {worst.line}"
    number = counted(len(findings), "finding")
    return Tile("checks", number, f"{worst.kind}{place}", tone_of(findings), link=_CHECK)


def _estimate(diagnosis: Diagnosis | None) -> Tile:
    if diagnosis is None or diagnosis.microseconds is None:
        why = "the launch is not diagnosed yet" if diagnosis is None else ""
        return Tile("estimated time", "not known", why, link=_DIAGNOSIS)
    time = f"about {time_text(diagnosis.microseconds)}"
    detail = ""
    if diagnosis.parts:
        detail = f"bound by {max(diagnosis.parts, key=lambda part: diagnosis.parts[part])}"
    if diagnosis.estimate is not None:
        detail += f", ±{diagnosis.estimate.error:.0%}"
    return Tile("estimated time", time, detail, link=_DIAGNOSIS)


def _occupancy(compilation: Compilation) -> Iterator[Tile]:
    if not compilation.can_answer("occupancy"):
        return
    try:
        known = compilation.occupancy()
    except (CompileError, MachineError):
        return
    detail = f"{known.warps} of {known.most_warps} warps"
    if known.warps < known.most_warps:
        detail += f", limited by {' and '.join(known.limited_by)}"
    yield Tile("occupancy", f"{known.fraction:.0%}", detail, share=known.fraction)


def _registers(compilation: Compilation) -> Iterator[Tile]:
    resources = resources_of(compilation)
    if resources is None:
        return
    most = most_registers(compilation.target)
    spilled = f"{resources.spills:,} bytes spilled" if resources.spills else "nothing spilled"
    yield Tile(
        "registers",
        f"{resources.registers} / {most}",
        spilled,
        "warn" if resources.spills else "",
        resources.registers / most,
    )


def lead_of(verdict: Verdict | None) -> tuple[str, tuple[Link, ...]]:
    """One sentence that says what to fix first, with the link to it; "" if nothing is known."""
    if verdict is None or verdict.findings is None:
        return "", ()
    errors = [finding for finding in verdict.findings if finding.severity == "error"]
    if errors:
        return f"Fix first: {_named(errors[0])}", (_CHECK,)
    if verdict.diagnosis is not None and len(verdict.diagnosis):
        costly = verdict.diagnosis[0]
        if costly.cost >= WORTH_SAYING:
            words = f"Improve first, {costly.cost:.0%} of the time: {_named(costly)}"
            return words, (_DIAGNOSIS,)
    if len(verdict.findings):
        return f"Look at {_named(verdict.findings[0])}", (_CHECK,)
    return ("Nothing to fix.", ()) if verdict.diagnosis is not None else ("", ())


def _named(diagnostic: Diagnostic) -> str:
    place = "" if diagnostic.line is None else f" on line {diagnostic.line}"
    return f"{diagnostic.kind}{place}: {diagnostic.what}."


@dataclass(frozen=True)
class Numbers:
    """The numbers that an edit of a kernel may change."""

    registers: int
    spills: int
    shared_bytes: int
    occupancy: float | None

    @classmethod
    def of(cls, compilation: Compilation) -> Numbers | None:
        """Return those of a compilation; None if its resources are not known."""
        resources = resources_of(compilation)
        if resources is None:
            return None
        share = compilation.occupancy().fraction if compilation.can_answer("occupancy") else None
        return cls(resources.registers, resources.spills, resources.shared_bytes, share)


def change_of(before: Numbers, now: Numbers) -> str:
    """The changes of an edit: "Since the last run: -14 registers, occupancy 25% to 37%."; or ""."""
    changed = []
    if now.registers != before.registers:
        more = now.registers - before.registers
        changed.append(f"{more:+d} {'register' if abs(more) == 1 else 'registers'}")
    if now.spills != before.spills:
        changed.append(f"spills {before.spills:,} to {now.spills:,} bytes")
    if now.shared_bytes != before.shared_bytes:
        changed.append(f"shared memory {before.shared_bytes:,} to {now.shared_bytes:,} bytes")
    if None not in (now.occupancy, before.occupancy) and now.occupancy != before.occupancy:
        changed.append(f"occupancy {before.occupancy:.0%} to {now.occupancy:.0%}")
    return f"Since the last run: {', '.join(changed)}." if changed else ""


_ORIGINS: Mapping[Origin, str] = {
    "launch": "launch",
    "signature": "signature",
    "annotation": "annotation",
    "assumption": "assumed",
}
"""How an argument's type came to be known, in the words of a card."""


def kernel_card(
    compilation: Compilation,
    *,
    run: Run | None = None,
    known_from: Mapping[str, str] | None = None,
    notes: Iterable[str] = (),
    verdict: Verdict | None = None,
) -> Card:
    """The card of a kernel: tiles with what it takes and what is known about its launch, what to
    fix first; folded below them how it was launched and what each stage of the compiler made.

    Args:
        run: the launch that the compilation's types come from, if any.
        known_from: parameter name -> how its value is known, where the compilation cannot
            say: "--constexpr".
    """
    launch = None if run is None else run.launch
    arguments = argument_table(compilation.specialization, launch, known_from=known_from)
    where = "" if run is None else f", {_device(run)}"
    if run is not None:
        arguments = replace(arguments, title=f"{arguments.title}, launched with {_launched(run)}")
    lead, links = lead_of(verdict)
    tables = (arguments, _stage_table(compilation), _resource_table(compilation))
    return Card(
        title=compilation.kernel,
        subtitle=f"compiled for {compilation.target}{where}",
        tables=[replace(table, is_folded=True, is_wide=True) for table in tables],
        notes=tuple(notes),
        tiles=tiles_of(compilation, verdict),
        lead=lead,
        lead_links=links,
    )


@card_of.register
def compilation_card(compilation: Compilation) -> Card:
    """The card of a compilation that no launch belongs to."""
    return kernel_card(compilation)


@card_of.register
def run_card(run: Run) -> Card:
    """The card of a run, in a line: grid, where, how long."""
    took = "" if run.seconds is None else f", {run.seconds * 1e3:.3g} ms"
    return Card(run.launch.kernel, f"launched with {_launched(run)}: {_device(run)}{took}")


@card_of.register
def launch_card(launch: Launch) -> Card:
    """The card of a launch: grid and arguments."""
    return Card(
        title=launch.kernel,
        subtitle=f"launched with {_grid(launch)}",
        tables=(argument_table(launch.specialization, launch),),
    )


@card_of.register
def resources_card(resources: Resources) -> Card:
    """The card of what one program takes."""
    return Card(title="Resources", tables=(Table("", ("", ""), _resource_rows(resources)),))


def plain_card(kernel: str, target: Target, notes: Iterable[str]) -> Card:
    """The card of a function that was not compiled; the notes say why."""
    return Card(title=kernel, subtitle=f"for {target}, not compiled", notes=tuple(notes))


def _launched(run: Run) -> str:
    options = "".join(f", {name}={value}" for name, value in run.launch.options.items())
    return f"{_grid(run.launch)}{options}"


def _device(run: Run) -> str:
    if run.device == "gpu":
        return f"ran on the GPU ({run.target})"
    return f"ran on the CPU, in the interpreter, emulating {run.target}"


def _grid(launch: Launch) -> str:
    programs = launch.grid[0] * launch.grid[1] * launch.grid[2]
    return f"grid {launch.grid}, {counted(programs, 'program')}"


def argument_table(
    specialization: Specialization,
    launch: Launch | None,
    *,
    known_from: Mapping[str, str] | None = None,
) -> Table:
    """Each parameter with its type, promises, a value that was seen, and the type's origin."""
    rows = []
    for number, (name, kind) in enumerate(specialization.signature.items()):
        constant = (number,) in specialization.constants
        value = "" if launch is None else launch.arguments.get(name, "")
        if constant and not value:
            value = repr(specialization.constants[(number,)])
        origin = _ORIGINS[specialization.origins.get(name, "launch")]
        if launch is None and origin == "launch":
            origin = ""  # a value that was given to the compiler, not to a launch
        origin = (known_from or {}).get(name, origin)
        rows.append((name, _type(specialization, (number,), kind), value, origin))
    return Table("Arguments", ("name", "type", "value", "known from"), rows)


def _type(specialization: Specialization, path: ArgumentPath, kind: Any) -> str:
    if isinstance(kind, tuple):
        items = (_type(specialization, (*path, i), item) for i, item in enumerate(kind))
        return f"({', '.join(items)})"
    promises = {str(name): value for name, value in specialization.attributes.get(path, ())}
    words = []
    if "tt.divisibility" in promises:
        words.append(f"divisible by {promises.pop('tt.divisibility')}")
    words += [f"{name}={value}" for name, value in promises.items()]
    return ", ".join([str(kind), *words])


# Stages and resources

_STAGE_WORDS = {
    "source": "Python source",
    "ttir": "Triton IR: tiles, no layouts",
    "ttgir": "Triton GPU IR: tiles with layouts",
    "llir": "LLVM IR: one thread",
    "ptx": "NVIDIA's virtual assembly",
    "cubin": "NVIDIA's binary, without its debug lines",
    "sass": "NVIDIA's machine code",
    "amdgcn": "AMD's assembly",
    "hsaco": "AMD's binary, without its debug lines",
}


def _stage_table(compilation: Compilation) -> Table:
    rows = [
        (stage.name, str(size_of(stage)), _STAGE_WORDS.get(stage.name, ""))
        for stage in compilation.stages.made()
    ]
    rows += [(name, "not made", why.what) for name, why in compilation.stages.failed.items()]
    links = [
        Link(row, name, f"Open the IR explorer at {name}", "ir", {"stage": name})
        for row, (name, size, _) in enumerate(rows)
        if size.endswith(_OF_TEXTS)
    ]
    return Table("Stages", ("stage", "size", "what it is"), rows, links=links)


_OF_TEXTS = ("line", "lines", "instruction", "instructions")
"""How the size of a stage ends that the explorer shows."""


def _resource_table(compilation: Compilation) -> Table:
    if not compilation.can_answer("resources"):
        return Table("One program takes", ("", ""), [("stopped before", "machine code")])
    try:
        rows = _resource_rows(compilation.resources)
    except (CompileError, MachineError) as error:
        rows = [("registers, spills", f"not known: {error.what}")]
    for option, words in (("num_warps", "warps per program"), ("num_stages", "pipeline stages")):
        if option in compilation.options:
            rows.append((words, str(compilation.options[option])))
    rows.append(("matrix instructions", format_matrix_instructions(compilation)))
    return Table("One program takes", ("", ""), rows)


def _resource_rows(resources: Resources) -> list[tuple[str, str]]:
    return [
        ("registers per thread", str(resources.registers)),
        ("spilled", format_spills(resources)),
        ("shared memory", f"{resources.shared_bytes:,} bytes"),
        ("stack", f"{resources.stack_bytes:,} bytes per thread"),
    ]


def format_spills(resources: Resources) -> str:
    """The spills of a thread: "nothing", or bytes stored and loaded."""
    if not resources.spills and not resources.spill_loads:
        return "nothing"
    if not resources.spill_loads:
        return f"{resources.spills:,} bytes per thread"
    return f"{resources.spills:,} bytes stored, {resources.spill_loads:,} loaded per thread"


def format_matrix_instructions(compilation: Compilation) -> str:
    """Return the matrix instructions in the machine code and how often each occurs, or "none"."""
    for name in ("sass", "amdgcn"):
        if name in (stage.name for stage in compilation.stages.made()):
            instructions = matrix_instructions(compilation.stages[name].text)
            counts = (f"{count} × {opcode}" for opcode, count in instructions.items())
            return ", ".join(counts) or "none"
    return "unknown"


_MOST_ROWS = 12
"""Opcodes and passes shown; the comparison itself has them all."""


@card_of.register
def comparison_card(comparison: Comparison) -> Card:
    """The differences: options and types, stages, resources, passes, opcodes, remarks."""
    left, right = comparison.names
    columns = ("", left, right)
    options = [*comparison.specialization, *comparison.options]
    resources = [needed for needed in comparison.resources if needed.left or needed.right]
    pairs = [
        pair
        for pair in comparison.passes
        if (pair.left and pair.left.op_changes) != (pair.right and pair.right.op_changes)
    ]
    rows = [(pair.label, _ops(pair.left), _ops(pair.right)) for pair in pairs[:_MOST_ROWS]]
    if len(pairs) > _MOST_ROWS:
        rows.append((f"and {len(pairs) - _MOST_ROWS} more", "", ""))
    return Card(
        title=" and ".join(dict.fromkeys([comparison.left.kernel, comparison.right.kernel])),
        subtitle=f"{comparison.left.target} and {comparison.right.target}, side by side",
        tables=(
            Table("Options and types", columns, _rows(options)),
            Table("Stages", (*columns, ""), _stage_rows(comparison)),
            Table("One program takes", columns, _rows(resources)),
            Table("Passes that do other things", columns, rows),
            Table("Instructions that differ", columns, _rows(comparison.opcodes[:_MOST_ROWS])),
            Table("Remarks of one side", ("", "", ""), _remark_rows(comparison)),
        ),
        notes=(*comparison.notes, *_equality(comparison), _parting(comparison)),
    )


def _equality(comparison: Comparison) -> tuple[str, ...]:
    if not comparison.is_equal:
        return ()
    source = {pair.name: pair for pair in comparison.stages}.get("source")
    rest = "" if source is None or source.equal else "; their sources are not"
    return (f"The two are equal: types, options and every stage{rest}.",)


def _parting(comparison: Comparison) -> str:
    first = comparison.first_difference
    if first is not None:
        alone = "" if first.ran_on_both else ", which one side alone has"
        return f"The two part at {first.label}{alone}: .diff({first.label!r}) shows where."
    if comparison.left.passes and comparison.right.passes:
        return "The two never part: every pass leaves the same module."
    return 'Passes are compared where both records have them: record="passes".'


def _rows(facts: Iterable[Sides]) -> list[tuple[str, str, str]]:
    rows = ((fact.name, _shown(fact.left), _shown(fact.right)) for fact in facts)
    return [(name, left, right) for name, left, right in rows if left != right]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, str) and Path(value).is_absolute():
        return Path(value).name
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _stage_rows(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    def size(compilation: Compilation, name: str) -> str:
        stage = compilation.stages.get(name)
        return "" if stage is None else str(size_of(stage))

    return [
        (
            stage.name,
            size(comparison.left, stage.name),
            size(comparison.right, stage.name),
            "the same" if stage.equal else "",
        )
        for stage in comparison.stages
    ]


def _ops(run: PassRun | None) -> str:
    if run is None:
        return "did not run"
    if not run.op_counts_after:
        return "ran"
    before, after = sum(run.op_counts_before.values()), sum(run.op_counts_after.values())
    return f"{before:,} to {after:,} ops"


def _remark_rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    return [
        (name, remark.headline, str(remark.position or ""))
        for name, remarks in zip(comparison.names, comparison.remarks)
        for remark in remarks
    ]


_MOST_LINES = 12
"""Lines shown; the record has them all."""


@card_of.register
def bisection_card(bisection: Bisection) -> Card:
    """The pass, the lines that it rewrote, the differing arguments, the modules that cannot run."""
    lines = _lines(bisection.lines[:_MOST_LINES])
    if len(bisection.lines) > _MOST_LINES:
        lines.append((f"and {len(bisection.lines) - _MOST_LINES} more", ""))
    columns = ("argument", "elements off", "first", "expected", "found")
    return Card(
        title=bisection.kernel,
        subtitle=f"{bisection.target}: pass by pass",
        tables=(
            Table("Arguments that differ", columns, list(map(_row, bisection.differences))),
            Table("Lines that the pass rewrote", ("", ""), lines),
            Table("Not run", ("after", "because"), list(bisection.not_run.items())),
        ),
        notes=(*_notes(bisection), *bisection.notes),
    )


def _notes(bisection: Bisection) -> Iterator[str]:
    compared = f"{counted(bisection.modules, 'module')} ran, from {bisection.compared_with} on"
    if bisection.label is None:
        yield f"No pass changes a result: {compared}."
        return
    yield f"{bisection.label} is the first pass after which a result changes: {compared}."
    if bisection.failure:
        yield f"After it the kernel fails: {bisection.failure}"
    yield from dict.fromkeys(line.notice for line in bisection.lines if line.notice)


def _row(difference: Difference) -> tuple[str, str, str, str, str]:
    off = f"{difference.count:,} of {difference.size:,}, by up to {difference.largest:.3g}"
    actual, expected = difference.texts
    return difference.name, off, difference.element, expected, actual


@card_of.register
def equality_card(equality: Equality) -> Card:
    """The verdict, what was compared, and the first element that differs."""
    rows = [(name, f"{size:,}") for name, size in equality.compared.items()]
    return Card(
        title=f"{equality.first} and {equality.second}",
        subtitle=f"{equality.verdict}{', proved at this shape' if equality.proved else ''}",
        tone="pass" if equality else "fail" if equality.verdict == "different" else "warn",
        tables=(
            Table("First difference", ("", ""), list(_difference(equality.difference))),
            Table("Expressions", ("", ""), list(_expressions(equality))),
            Table("Line", ("", ""), _lines(filter(None, [equality.position]))),
            Table("Compared", ("tensor", "elements"), rows, numbers=(1,)),
        ),
        notes=(*_words(equality), *equality.notes),
    )


def _words(equality: Equality) -> Iterator[str]:
    seeds = counted(equality.seeds, "set") + " of random residues"
    if equality.verdict == "equal":
        inputs = "finite inputs" if equality.inputs == "finite" else "inputs"
        if equality.proved:
            yield "Both have the same expressions, wherever nothing divides by zero."
        else:
            yield f"Both compute the same for all {inputs} of these sizes, by {seeds}."
        kept = " in float32" if equality.rounding == "kept" else ""
        yield f"Rounding{kept}, overflow and the order of sums do not count."
    elif equality.verdict == "different":
        yield "They compute different functions of their inputs."
    if equality.reason:
        yield f"{equality.reason}."
    if equality.uninterpreted:
        functions = ", ".join(f"`{name}`" for name in equality.uninterpreted)
        yield f"Nothing is known of {functions} but that equal arguments give equal results."


def _expressions(equality: Equality) -> Iterator[tuple[str, str]]:
    if equality.expressions is not None:
        yield f"{equality.first}, first", equality.expressions[0]
        yield f"{equality.second}, second", equality.expressions[1]


def _difference(difference: UnequalElement | None) -> Iterator[tuple[str, str]]:
    if difference is None:
        return
    yield "element", element_text(difference.tensor, difference.index)
    yield "elements that differ", f"{difference.count:,} of {difference.size:,}"
    if difference.floats is not None:
        index, first, second = difference.floats
        yield f"{element_text(difference.tensor, index)} with floats", f"{first:.6g}, {second:.6g}"


def _lines(positions: Iterable[SourcePosition]) -> list[tuple[str, str]]:
    return [
        (str(position.line), source_line(position.file, position.line).strip())
        for position in positions
    ]


@card_of.register
def validation_card(validation: Validation) -> Card:
    """A row for each pass; of the first that changes a result, the element and the lines."""
    rows = [
        (each.label, each.verdict, f"{each.seconds * 1e3:.0f}", each.reason)
        for each in validation.passes
    ]
    return Card(
        title=validation.kernel,
        subtitle=f"{validation.target}: pass by pass",
        tables=(
            Table("Passes that change the module", ("pass", "results", "ms", ""), rows, (2,)),
            Table("First difference", ("", ""), list(_difference(validation.difference))),
            Table("Lines that the pass rewrote", ("", ""), _lines(validation.lines)),
        ),
        notes=(_summary(validation), *validation.notes),
    )


def _summary(validation: Validation) -> str:
    if validation.wrong is not None:
        return f"`{validation.wrong.label}` is the first pass after which a result changes."
    undecided = sum(each.verdict == "not decided" for each in validation.passes)
    if undecided:
        return f"No pass changes a result that is decided; {undecided} are not decided."
    return f"Every pass keeps the results of the module after {validation.compared_with}."
