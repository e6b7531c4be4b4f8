"""What max-autotune would choose from, compiled for a GPU that need not be there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernellab.common.progress import ProgressBar
from kernellab.errors import KernelLabError
from kernellab.graphs.generated import GeneratedKernel
from kernellab.records.graphs import Candidate, KernelCode, LoweredGraph

if TYPE_CHECKING:
    import pandas

_ASKED = ("operation", "place", "name", "config", "is_template", "is_taken")
_MEASURED = ("registers", "spills", "shared_bytes", "occupancy", "error")


def candidate_kernels(graph: LoweredGraph, target: str) -> tuple[GeneratedKernel, ...]:
    """The templates among a graph's candidates, as kernels of the lab."""
    return tuple(
        GeneratedKernel(KernelCode(one.name, one.source, (), (), ()), target)
        for one in graph.candidates
        if one.is_template
    )


def table_of(
    candidates: Sequence[Candidate], kernels: Sequence[GeneratedKernel]
) -> pandas.DataFrame:
    """One row a candidate; templates are compiled for it.

    Args:
        candidates: of a graph.
        kernels: the templates among them, in order.
    """
    import pandas

    rows, remaining = [], iter(kernels)
    with ProgressBar("candidates", len(candidates), "kernels") as work:
        for one in candidates:
            facts: dict[str, Any] = {name: getattr(one, name) for name in _ASKED}
            rows.append(facts | (_measured(next(remaining)) if one.is_template else {}))
            work.advance()
    return pandas.DataFrame(rows, columns=[*_ASKED, *_MEASURED])


def _measured(kernel: GeneratedKernel) -> dict[str, Any]:
    """What its machine code takes; or why there is none: one that is refused is left out by
    Inductor too.
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
