"""Cards: what is known of a kernel's compilation or launch, as HTML and as plain text
of the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kernellab.compiler.compare import size_of
from kernellab.compiler.machine_code.instructions import matrix_instructions
from kernellab.errors import CompileError, MachineError
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
from kernellab.viz.kit.card import Card, Table, card_of
from kernellab.viz.kit.data import Link

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
) -> Card:
    """The card of a kernel: how it was launched, what each stage of the compiler
    made, what it takes.

    Args:
        compilation: what is shown.
        run: the launch that the compilation's types come from, if any.
        known_from: parameter name -> how its value is known, where the compilation cannot
            say: "--constexpr".
        notes: sentences above the tables.
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


@card_of.register
def compilation_card(compilation: Compilation) -> Card:
    """The card of a compilation that no launch belongs to."""
    return kernel_card(compilation)


@card_of.register
def run_card(run: Run) -> Card:
    """The card of a run, in a line: grid, where, how long. The arguments are on the card of its
    launch.
    """
    took = "" if run.seconds is None else f", {run.seconds * 1e3:.3g} ms"
    where = _where(run).rstrip(".")
    return Card(title=run.launch.kernel, subtitle=f"{where[:1].lower()}{where[1:]}{took}")


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
    """What did not fit into the registers of a thread:
    "nothing", or how many bytes are stored, and loaded back.
    """
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
