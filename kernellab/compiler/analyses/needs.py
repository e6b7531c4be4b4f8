"""What each analysis reads of a compilation, and whether its record has that."""

from __future__ import annotations

from collections.abc import Mapping

from kernellab.compiler.targets import has_tensor_memory
from kernellab.errors import NotRecorded
from kernellab.records import Capability, Compilation, PassRun

_PASSES: Mapping[Capability, str] = {
    "shared_memory": "allocate_shared_memory",
    "tensor_memory": "allocate_tensor_memory",
    "barriers": "to_llvmir",
    "pipeline_stages": "",
}
"""Analysis -> how the name begins of the pass whose module it reads; "" where any record of passes
will do: a target may schedule nothing."""

_STAGES: Mapping[Capability, tuple[str, ...]] = {
    "axis_info": ("ttgir",),
    "call_graph": ("ttir", "ttgir"),
    "work": ("ttir", "ttgir"),
    "layouts": ("ttgir",),
    "conversions": ("ttgir",),
}
"""Analysis -> the stages of which it reads the first that is there."""


def pass_read(compilation: Compilation, analysis: Capability) -> PassRun:
    """The pass whose module an analysis reads.

    Raises NotRecorded where it is not in the record.
    """
    beginning = _PASSES[analysis]
    for run in compilation.passes:
        if run.name.startswith(beginning):
            return run
    raise NotRecorded(
        f"The record of {compilation.kernel!r} has no pass {beginning!r}."
        if compilation.passes
        else f"The record of {compilation.kernel!r} holds no passes.",
        advice='Compile with record="passes", all the way.',
    )


def missing_input(compilation: Compilation, analysis: Capability) -> NotRecorded | None:
    """What lacks for an analysis, as the error to raise; None where everything is there."""
    stages = _STAGES.get(analysis)
    if stages is not None:
        if any(name in compilation.stages for name in stages):
            return None
        return NotRecorded(
            f"The record of {compilation.kernel!r} has no stage {' or '.join(stages)}."
        )
    if analysis == "tensor_memory" and not has_tensor_memory(compilation.target):
        return None
    try:
        pass_read(compilation, analysis)
    except NotRecorded as error:
        return error
    return missing_input(compilation, "shared_memory") if analysis == "barriers" else None
