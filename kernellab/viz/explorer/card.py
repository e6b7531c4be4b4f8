"""Cards: what is known of a kernel's compilation or launch, as HTML and as plain text
of the same content.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from kernellab.compiler.machine_code.sass import matrix_instructions
from kernellab.records import (
    Compilation,
    Launch,
    Origin,
    Path,
    Resources,
    Run,
    Specialization,
    Target,
)
from kernellab.viz.kit.stage_size import size_of

_ORIGINS: Mapping[Origin, str] = {
    "launch": "launch",
    "signature": "signature",
    "annotation": "annotation",
    "assumption": "assumed",
}
"""How an argument's type came to be known, in the words of a card."""


# What a card is made of


@dataclass(frozen=True)
class Table:
    """Rows of text under column names; a table without column names lists facts, one a row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    """Columns of numbers, counted from 0: they stand to the right, each on one line."""
    is_listing: bool = False
    """Whether the first column is code whose spaces mean something; it has the whole width."""


@dataclass(frozen=True)
class Card:
    """A few tables about one thing. `html` and `text` say the same."""

    title: str
    subtitle: str = ""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default=())

    def html(self) -> str:
        """Self-contained HTML: no script, no style sheet;
        readable where styles are stripped, in light and in dark.
        """
        tables = "\n".join(_table_html(table) for table in self.tables if table.rows)
        notes = "\n".join(f'<div style="{_NOTE}">{escape(note)}</div>' for note in self.notes)
        heading = f'<b style="font-size:1.1em">{escape(self.title)}</b>'
        subtitle = f'<span style="opacity:.75">{escape(self.subtitle)}</span>'
        return (
            f'<div style="{_BOX}">\n<div>{heading} {subtitle}</div>\n{notes}\n'
            f'<div style="{_SIDE_BY_SIDE}">\n{tables}\n</div>\n</div>'
        )

    def text(self) -> str:
        """The card for a terminal."""
        lines = [f"{self.title}  {self.subtitle}".rstrip(), *(f"  {note}" for note in self.notes)]
        for table in self.tables:
            if table.rows:
                lines += _table_text(table)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()


_LINE = "1px solid rgba(128,128,128,.35)"
_BOX = (
    f"border:{_LINE};border-radius:6px;padding:8px 12px;margin:4px 0;max-width:72em;overflow-x:auto"
)
_NOTE = "margin-top:4px"
_SIDE_BY_SIDE = "columns:2 28em;column-gap:40px"
_TOGETHER = "break-inside:avoid"
_ACROSS = "column-span:all"
_MOST_BESIDE = 4
"""Columns of the widest table that stands beside another; one with more has the whole width."""
_MOST_ROOMY = 9
"""Columns of the widest table of ordinary size;
one with more is set tighter, so that a page of a notebook holds it."""
_ROOM, _LITTLE_ROOM = "padding:1px 14px 1px 0", "padding:1px 8px 1px 0"
# Notebook pages style tables of their own, and pages without a doctype give tables no
# inherited colour.
_TABLE = "border-collapse:collapse;border:0;margin:2px 0;font:inherit;color:inherit"
_CELL = f"text-align:left;{_ROOM};border:0;vertical-align:top;background:none"
_HEAD = f"{_CELL};font-weight:normal;opacity:.65"
_NUMBER = f"{_CELL};text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_CODE = f"{_CELL};font-family:ui-monospace,Menlo,Consolas,monospace"


def _table_html(table: Table) -> str:
    title = ""
    if table.title:
        title = f'<div style="padding-top:8px;font-weight:600">{escape(table.title)}</div>\n'
    head = ""
    if any(table.columns):
        heads = [
            f"{_HEAD};text-align:right" if n in table.numbers else _HEAD
            for n in range(len(table.columns))
        ]
        names = "".join(
            f'<th style="{style}">{escape(name)}</th>' for style, name in zip(heads, table.columns)
        )
        head = f"<thead><tr>{names}</tr></thead>\n"
    across = table.is_listing or len(table.columns) > _MOST_BESIDE
    dense = len(table.columns) > _MOST_ROOMY
    table_style = f"{_TABLE};font-size:.88em" if dense else _TABLE
    first_style = f"{_CODE}{';white-space:nowrap' if across else ''}" if head else _CELL
    rows = []
    for row in table.rows:
        first, *rest = (escape(cell) for cell in row)
        if table.is_listing:  # where styles are stripped, spaces would become one
            first = first.replace("  ", "&nbsp; ").replace("  ", " &nbsp;")
        if table.is_listing and not any(rest):
            rest = []
        styles = [_NUMBER if n in table.numbers else _CELL for n in range(1, len(row))]
        cells = "".join(f'<td style="{style}">{cell}</td>' for style, cell in zip(styles, rest))
        rows.append(
            f'<tr style="background:none"><td style="{first_style}">{first}</td>{cells}</tr>'
        )
    body = "\n".join(rows)
    if dense:
        head, body = (part.replace(_ROOM, _LITTLE_ROOM) for part in (head, body))
    return (
        f'<div style="{_ACROSS if across else _TOGETHER}">{title}<table style="{table_style}">\n'
        f"{head}<tbody>\n"
        f"{body}\n"
        "</tbody></table></div>"
    )


def _table_text(table: Table) -> list[str]:
    shown = [*([table.columns] if any(table.columns) else []), *table.rows]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    lines = [f"  {table.title}"] if table.title else []
    for row in shown:
        cells = (
            cell.rjust(width) if n in table.numbers else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f"    {'  '.join(cells)}".rstrip())
    return lines


# The cards


def kernel_card(
    compilation: Compilation,
    *,
    run: Run | None = None,
    known_from: Mapping[str, str] | None = None,
    notes: Iterable[str] = (),
) -> Card:
    """The card of a kernel: how it was launched, what each stage of the compiler
    made, what it takes.

    Args:
        compilation: what is shown.
        run: the launch that the compilation's types come from, if any.
        known_from: parameter name -> how its value is known, where the compilation cannot
            say: "--constexpr".
        notes: sentences that stand above the tables.
    """
    arguments = argument_table(
        compilation.specialization,
        None if run is None else run.launch,
        known_from=known_from,
    )
    return Card(
        title=compilation.kernel,
        subtitle=f"compiled for {compilation.target}",
        tables=(arguments, _stage_table(compilation), _resource_table(compilation)),
        notes=(*notes, *([] if run is None else [_where(run)])),
    )


def compilation_card(compilation: Compilation) -> Card:
    """The card of a compilation that no launch belongs to."""
    return kernel_card(compilation)


def run_card(run: Run) -> Card:
    """The card of a run: grid, where, how long. The arguments are on the card of its launch."""
    took = "" if run.seconds is None else f"{run.seconds * 1e3:.3g} ms"
    return Card(title=run.launch.kernel, subtitle=took, notes=(_where(run),))


def launch_card(launch: Launch) -> Card:
    """The card of a launch: grid and arguments."""
    return Card(
        title=launch.kernel,
        subtitle=f"launched with {_grid(launch)}",
        tables=(argument_table(launch.specialization, launch),),
    )


def resources_card(resources: Resources) -> Card:
    """The card of what one program takes."""
    return Card(title="Resources", tables=(Table("", ("", ""), _resource_rows(resources)),))


def plain_card(kernel: str, target: Target, notes: Iterable[str], run: Run | None = None) -> Card:
    """The card of a function that was not compiled; the notes say why."""
    tables = () if run is None else (argument_table(run.launch.specialization, run.launch),)
    notes = (*notes, *([] if run is None else [_where(run)]))
    return Card(title=kernel, subtitle=f"for {target}, not compiled", tables=tables, notes=notes)


def _where(run: Run) -> str:
    options = "".join(f", {name}={value}" for name, value in run.launch.options.items())
    if run.device == "gpu":
        return f"Launched with {_grid(run.launch)}{options}: ran on the GPU ({run.target})."
    return (
        f"Launched with {_grid(run.launch)}{options}: "
        f"ran on the CPU, in the interpreter, emulating {run.target}."
    )


def _grid(launch: Launch) -> str:
    programs = launch.grid[0] * launch.grid[1] * launch.grid[2]
    count = "1 program" if programs == 1 else f"{programs} programs"
    return f"grid ({', '.join(str(size) for size in launch.grid)}), {count}"


# Arguments


def argument_table(
    specialization: Specialization,
    launch: Launch | None,
    *,
    known_from: Mapping[str, str] | None = None,
) -> Table:
    """Each parameter with its type, what is promised of it, its value where one was seen,
    and how the type is known.
    """
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


def _type(specialization: Specialization, path: Path, kind: Any) -> str:
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
        (name, size_of(stage), _STAGE_WORDS.get(name, ""))
        for name, stage in compilation.stages.items()
    ]
    return Table("Stages", ("stage", "size", "what it is"), rows)


def _resource_table(compilation: Compilation) -> Table:
    if not {"cubin", "amdgcn"} & set(compilation.stages):
        return Table("One program takes", ("", ""), [("stopped before", "machine code")])
    rows = _resource_rows(compilation.resources)
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
    """What did not fit into the registers of a thread:
    "nothing", or how many bytes are stored, and loaded back.
    """
    if not resources.spills and not resources.spill_loads:
        return "nothing"
    if not resources.spill_loads:
        return f"{resources.spills:,} bytes per thread"
    return f"{resources.spills:,} bytes stored, {resources.spill_loads:,} loaded per thread"


def format_matrix_instructions(compilation: Compilation) -> str:
    """The matrix instructions in the finished machine code, with how often each
    stands there; "none".
    """
    for name in ("sass", "amdgcn"):
        if name in compilation.stages:
            found = matrix_instructions(compilation.stages[name].text)
            counts = (f"{count} × {opcode}" for opcode, count in found.items())
            return ", ".join(counts) or "none"
    return "unknown"
