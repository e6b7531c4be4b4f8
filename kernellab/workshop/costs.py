"""The cost of a correct kernel, and the line that causes most of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from kernellab.common.text import counted
from kernellab.errors import Diagnostic
from kernellab.profiling.accesses.counts import accesses
from kernellab.profiling.accesses.records import GlobalAccess
from kernellab.records import Compilation
from kernellab.triton_api import definition_of
from kernellab.workshop.exercise import Budget, Case


def over_budget(budget: Budget, kernel: Any, case: Case, compiled: Compilation) -> list[Diagnostic]:
    """Return what exceeds the budget in a launch; nothing if everything is within budget.

    Raises:
        KernelLabError: the launch has a fault.
    """
    return [*_traffic(budget, kernel, case, compiled), *_machine_code(budget, kernel, compiled)]


def _traffic(
    budget: Budget, kernel: Any, case: Case, compiled: Compilation
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a launch moves too many bytes, relative to the size of its tensors."""
    if budget.traffic is None:
        return
    counted_accesses = accesses(
        kernel, case.grid, **case.arguments, **case.constants, target=compiled.target
    )
    moved = sum(access.moved_bytes for access in counted_accesses.accesses)
    needed = sum(
        value.numel() * value.element_size()
        for value in case.arguments.values()
        if isinstance(value, torch.Tensor)
    )
    if moved <= budget.traffic * needed:
        return
    worst = max(counted_accesses.accesses, key=_excess)
    yield Diagnostic(
        "error",
        "traffic",
        f"the launch moves {moved:,} bytes, {moved / needed:.3g} times the size of its tensors "
        f"({needed:,} bytes); the budget is {budget.traffic:g} times",
        worst.position,
        why=f"most of these bytes come from this {worst.title}: {worst.moved_bytes:,} bytes in "
        f"{counted(worst.requests, 'request')} of {worst.sectors_per_request:.3g} sectors each, of "
        f"which the kernel uses {worst.efficiency:.0%}; it runs "
        f"{counted(worst.executions, 'time')}",
        advice=_how_to_move_less(worst),
        facts={"moved_bytes": moved, "tensor_bytes": needed, "allowed": budget.traffic},
    )


def _excess(access: GlobalAccess) -> int:
    """Return the bytes that an access moves more than once."""
    return access.moved_bytes - min(access.moved_bytes, access.footprint_bytes)


def _how_to_move_less(access: GlobalAccess) -> str:
    """Return the advice for an access that moves too much."""
    if access.repeated_sectors > access.sectors / 2:
        return (
            "Several elements of a tile update the same element in memory, one after the other: "
            "combine their values first (tl.sum, tl.max), and update it once."
        )
    if access.reuse_between_programs >= 2:
        return (
            f"About {access.reuse_between_programs:.3g} programs move the same sectors: let each "
            "program compute more of the result, so that it uses what it loads more often."
        )
    if access.sectors > 1.5 * access.best_sectors:
        return (
            "Neighboring elements of the tile are far apart in memory: let the last dimension of "
            "the tile run along the dimension whose stride is 1."
        )
    return "It moves elements several times: keep the values that the program has loaded."


def _machine_code(budget: Budget, kernel: Any, made: Compilation) -> Iterator[Diagnostic]:
    """Yield diagnostics on registers, spills and tensor cores."""
    place, resources = definition_of(kernel), made.resources
    if resources.spills:
        yield Diagnostic(
            "error", "spills",
            f"each thread spills {counted(resources.spills, 'register')} to memory",
            place, advice="Use smaller tiles or more warps.",
        )  # fmt: skip
    if budget.registers is not None and resources.registers > budget.registers:
        yield Diagnostic(
            "error",
            "registers",
            f"a thread uses {resources.registers} registers; the budget is {budget.registers}",
            place,
            advice="Keep fewer tiles alive at the same time.",
        )
    if budget.needs_tensor_cores and not any(
        instruction.category == "matrix" for instruction in made.instructions
    ):
        yield Diagnostic(
            "error",
            "no-tensor-core",
            "the machine code has no tensor core instruction",
            place,
            advice="Multiply tiles with tl.dot: at least 16 x 16 x 16 elements, in float16 or "
            "bfloat16 (or in float32 with input_precision='tf32').",
        )
