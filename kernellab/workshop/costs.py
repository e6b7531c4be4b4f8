"""What a right kernel costs, and which of its lines to blame where that is too much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from kernellab.common.formatting import counted
from kernellab.errors import Diagnostic
from kernellab.profiling.accesses.counting import accesses
from kernellab.profiling.accesses.records import GlobalAccess
from kernellab.records import Compilation
from kernellab.triton_api import definition_of
from kernellab.workshop.exercise import Budget, Case


def over_budget(budget: Budget, kernel: Any, case: Case, compiled: Compilation) -> list[Diagnostic]:
    """What costs more than it may of a launch, whose kernel was compiled; nothing where all is in
    budget.

    Raises:
        KernelLabError: the launch faults.
    """
    return [*_traffic(budget, kernel, case, compiled), *_machine_code(budget, kernel, compiled)]


def _traffic(
    budget: Budget, kernel: Any, case: Case, compiled: Compilation
) -> Iterator[Diagnostic]:
    """Bytes moved, against those of the tensors."""
    if budget.traffic is None:
        return
    counted_accesses = accesses(
        kernel, case.grid, **case.arguments, **case.constants, target=compiled.target
    )
    moved = sum(one.moved_bytes for one in counted_accesses.accesses)
    needed = sum(
        one.numel() * one.element_size()
        for one in case.arguments.values()
        if isinstance(one, torch.Tensor)
    )
    if moved <= budget.traffic * needed:
        return
    worst = max(counted_accesses.accesses, key=_excess)
    yield Diagnostic(
        "error",
        "traffic",
        f"moves {moved:,} bytes, {moved / needed:.3g} times those of its tensors ({needed:,}); "
        f"{budget.traffic:g} times are allowed",
        worst.position,
        why=f"the most of it is this {worst.title}: {worst.moved_bytes:,} bytes in "
        f"{counted(worst.requests, 'request')}, {worst.sectors_per_request:.3g} sectors each, "
        f"{worst.efficiency:.0%} of them used; {counted(worst.executions, 'execution')}",
        advice=_how_to_move_less(worst),
        facts={"moved_bytes": moved, "tensor_bytes": needed, "allowed": budget.traffic},
    )


def _excess(access: GlobalAccess) -> int:
    """Bytes that an access moves beyond those that are different."""
    return access.moved_bytes - min(access.moved_bytes, access.footprint_bytes)


def _how_to_move_less(access: GlobalAccess) -> str:
    """What to change of an access that moves too much."""
    if access.repeated_sectors > access.sectors / 2:
        return (
            "Lanes of one program update the same element, one after the other: combine their "
            "values first (tl.sum, tl.max), and update it once."
        )
    if access.reuse_between_programs >= 2:
        return (
            f"About {access.reuse_between_programs:.3g} programs move the same sectors: let one "
            "program do more of the result, so that what it loads is used more often."
        )
    if access.sectors > 1.5 * access.best_sectors:
        return (
            "Neighbouring lanes access places far apart: let the fastest lanes run along the "
            "dimension whose stride is 1."
        )
    return "It moves elements several times: keep in the program what it has loaded once."


def _machine_code(budget: Budget, kernel: Any, made: Compilation) -> Iterator[Diagnostic]:
    """Registers, spills, tensor cores."""
    place, resources = definition_of(kernel), made.resources
    if resources.spills:
        yield Diagnostic(
            "error", "spills", f"{counted(resources.spills, 'register')} a thread in memory",
            place, advice="Take smaller tiles, or more warps.",
        )  # fmt: skip
    if budget.registers is not None and resources.registers > budget.registers:
        yield Diagnostic(
            "error",
            "registers",
            f"a thread takes {resources.registers} registers; {budget.registers} are allowed",
            place,
            advice="Keep fewer tiles alive at a time.",
        )
    if budget.needs_tensor_cores and not any(one.category == "matrix" for one in made.instructions):
        yield Diagnostic(
            "error",
            "no-tensor-core",
            "no instruction of the tensor cores is in its machine code",
            place,
            advice="Multiply tiles by tl.dot, of at least 16 x 16 x 16 elements, in float16 or "
            "bfloat16 (or float32 with input_precision='tf32').",
        )
