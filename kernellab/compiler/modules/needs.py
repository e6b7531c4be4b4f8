"""Whether the record of a compilation has what an analysis reads."""

from __future__ import annotations

from kernellab.compiler.targets import has_tensor_memory
from kernellab.errors import NotRecorded
from kernellab.records import Capability, Compilation, PassRun
from kernellab.records.compilations import PASSES_READ, STAGES_READ


def pass_read(compilation: Compilation, analysis: Capability) -> PassRun:
    """The pass whose module an analysis reads.

    Raises NotRecorded where it is not in the record.
    """
    beginning = PASSES_READ[analysis]
    for run in compilation.passes:
        if run.name.startswith(beginning):
            return run
    raise NotRecorded(
        f"The record of {compilation.kernel!r} has no pass {beginning!r}."
        if compilation.passes
        else f"The record of {compilation.kernel!r} holds no passes.",
        advice='Compile with record="passes", and do not stop before this pass.',
    )


def missing_input(compilation: Compilation, analysis: Capability) -> NotRecorded | None:
    """The error to raise where a stage that an analysis reads is missing; None otherwise."""
    stages = STAGES_READ.get(analysis)
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
