"""Where a name of the kernel has gone that no tile of a module has any more."""

from __future__ import annotations

import itertools

from kernellab.errors import nearest
from kernellab.findings import Layouts
from kernellab.records import Compilation, PassRun


def explain(compilation: Compilation, snapshot: str, name: str, found: Layouts) -> str:
    """Why no tile of a snapshot is called `name`: it is no tile, a pass removed it, or the kernel has no such name."""
    runs = _runs_up_to(compilation, snapshot)
    if not runs:
        return f"{nearest(name, found.names)} Which pass removed a name can be told of a compilation with record=\"passes\".".strip()  # fmt: skip
    holding = [f'"{name}"(' in run.text.read() for run in runs]
    if holding[-1]:
        return f"{name!r} is there, and is no tile: a number, or an operation that gives nothing."
    for (run, has), (following, _) in reversed(list(itertools.pairwise(zip(runs, holding)))):
        if has:
            return (
                f"{name!r} was there until {following.label} removed it: look at .layouts({run.label!r}), "
                f"where its tile has a layout already."
                if run.stage != "ttir" and run.stage != "source"
                else f"{name!r} was there until {following.label} removed it, before tiles have layouts."
            )
    return f"{nearest(name, found.names)} The tiles are called {', '.join(found.names)}.".strip()


def _runs_up_to(compilation: Compilation, snapshot: str) -> list[PassRun]:
    """The passes that led to a snapshot: a stage's, or one pass's module."""
    runs = [run for run in compilation.passes if run.op_counts_after]
    labels = [run.label for run in runs]
    if snapshot in labels:
        return runs[: labels.index(snapshot) + 1]
    of_stage = [number for number, run in enumerate(runs) if run.stage == snapshot]
    return runs[: of_stage[-1] + 1] if of_stage else []
