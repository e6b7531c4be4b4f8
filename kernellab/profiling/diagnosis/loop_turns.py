"""How often loops turn whose length the launch does not tell: counted in a few of its programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Block, Operation

from kernellab.common.time_limits import OutOfTime, limited
from kernellab.compiler.modules.structure import kind
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import KernelLabError
from kernellab.interpreter.codegen.entries import emit_entry_events
from kernellab.interpreter.execution.program import program_of_module
from kernellab.launch.argument_copies import tensors_in
from kernellab.profiling.accesses.counting import accesses_in
from kernellab.profiling.estimates.sampling import sampled
from kernellab.records import Compilation

LOOPS = ("scf.for", "scf.while")
_SECONDS = 0.1
_MOST_SECONDS = 10.0
"""A program may wait there for what only a GPU gives it, or turn for ever."""


def counted_turns(
    compilation: Compilation, kernel: Any, grid: tuple[int, int, int], call: BoundCall
) -> tuple[float, ...]:
    """Iterations of each loop of the TTGIR, in its order, for each time that a program comes to it;
    nothing where the values are not at hand, or the programs do not run.
    """
    if any(tensor.device.type != "cpu" for _, tensor in tensors_in(call.values)):
        return ()
    try:
        code = program_of_module(compilation.module("ttgir"), kernel, after=emit_entry_events)
        found = accesses_in(code, compilation.target)
        with limited(_MOST_SECONDS):
            ran = sampled(kernel, grid, call, code, found, _SECONDS)
    except (KernelLabError, OutOfTime):
        return ()
    return tuple(_turns(op, ran.entries) for op in loops_of(code.module))


def loops_of(module: builtin.ModuleOp) -> list[Operation]:
    """Every loop, the outer ones first."""
    return [op for op in module.walk() if kind(op) in LOOPS]


def _turns(op: Operation, entries: Mapping[Block, float]) -> float:
    """Of a `while`, whose first region asks whether to go on, the entries of the second."""
    around, body = op.parent, op.regions[-1].blocks[0]
    came = 1.0 if around is None else entries.get(around, 1.0)
    return entries.get(body, 0.0) / came if came else 0.0
