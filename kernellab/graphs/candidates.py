"""The candidates of max-autotune, compiled for a GPU that this machine need not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernellab.common.progress import ProgressBar
from kernellab.errors import KernelLabError
from kernellab.graphs.generated import GeneratedKernel
from kernellab.records.graphs import Candidate, KernelCode, LoweredGraph

if TYPE_CHECKING:
    import pandas

_CHOICE = ("operation", "place", "name", "config", "is_template", "is_taken")
_MEASURED = ("registers", "spills", "shared_bytes", "occupancy", "error")


def candidate_kernels(graph: LoweredGraph, target: str) -> tuple[GeneratedKernel, ...]:
    """Return the templates among a graph's candidates as kernels of KernelLab."""
    return tuple(
        GeneratedKernel(KernelCode(candidate.name, candidate.source, (), (), ()), target)
        for candidate in graph.candidates
        if candidate.is_template
    )


def table_of(
    candidates: Sequence[Candidate], kernels: Sequence[GeneratedKernel]
) -> pandas.DataFrame:
    """Return one row per candidate, and compile the templates.

    Args:
        candidates: the candidates of a graph.
        kernels: the templates among them, in order.
    """
    import pandas

    rows, remaining = [], iter(kernels)
    with ProgressBar("candidates", len(candidates), "kernels") as work:
        for candidate in candidates:
            facts: dict[str, Any] = {name: getattr(candidate, name) for name in _CHOICE}
            rows.append(facts | (_measured(next(remaining)) if candidate.is_template else {}))
            work.advance()
    return pandas.DataFrame(rows, columns=[*_CHOICE, *_MEASURED])


def _measured(kernel: GeneratedKernel) -> dict[str, Any]:
    """Return the resources of a template's machine code, or why it does not compile; Inductor
    leaves such templates out too.
    """
    try:
        resources, occupancy = kernel.compilation.resources, kernel.compilation.occupancy()
    except KernelLabError as error:
        return {"error": str(error).partition("\n")[0]}
    return {
        "registers": resources.registers,
        "spills": resources.spills,
        "shared_bytes": resources.shared_bytes,
        "occupancy": occupancy.warps / occupancy.most_warps,
        "error": "",
    }
