"""Where a name of the kernel has gone that no tile of a module has any more."""

from __future__ import annotations

from kernellab.errors import nearest, suggestion
from kernellab.records import Compilation, PassRun
from kernellab.records.tile_layouts import Layouts

_WITHOUT_LAYOUTS = ("source", "ttir")


def explain(compilation: Compilation, snapshot: str, name: str, found: Layouts) -> str:
    """Why no tile of a snapshot is called `name`:
    it is no tile, a pass removed it, or the kernel has no such name.
    """
    if not isinstance(name, str):
        return f"Ask for a tile by its name in the kernel: {', '.join(found.names)}."
    if compilation.specialization.signature.get(name) == "constexpr":
        return f"{name!r} is a constant of this compilation, and no tile."
    guess = nearest(name, found.names)
    runs = _runs_up_to(compilation, snapshot)
    if not runs:
        advice = 'A record with record="passes" can tell which pass removed a name.'
        return f"{guess} {advice}".strip()
    holding = [number for number, run in enumerate(runs) if f'"{name}"(' in run.text.read()]
    if not holding:
        return suggestion(name, found.names, "The tiles are called")
    last = holding[-1]
    if last == len(runs) - 1:
        return f"{name!r} is there, and is no tile: a number, or an operation that gives nothing."
    gone = f"{name!r} was there until {runs[last + 1].label} removed it"
    if runs[last].stage in _WITHOUT_LAYOUTS:
        return f"{gone}, before tiles have layouts."
    return f"{gone}: look at .layouts({runs[last].label!r})."


def _runs_up_to(compilation: Compilation, snapshot: str) -> list[PassRun]:
    """The passes that led to a snapshot: a stage's, or one pass's module."""
    runs = [run for run in compilation.passes if run.op_counts_after]
    ends = [number for number, run in enumerate(runs) if snapshot in (run.label, run.stage)]
    return runs[: ends[-1] + 1] if ends else []
