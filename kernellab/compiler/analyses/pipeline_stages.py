"""The schedule that the software pipeliner has given to each loop."""

from __future__ import annotations

from xdsl.ir import Operation

from kernellab.compiler.modules.analyst import answers
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.compiler.modules.structure import (
    integer,
    kind,
    name_of,
    position_of,
)
from kernellab.records.analyses import PipelineStages, ScheduledLoop, ScheduledOperation
from kernellab.records.compilations import PIPELINE_STAGES

STAGE = "loop.stage"
CLUSTER = "loop.cluster"
LAST_STAGE = "tt.scheduled_max_stage"


def pipeline_stages(module: Operation, read_from: str) -> PipelineStages:
    """The scheduled loops of a module, in the order of its text."""
    loops = [op for op in module.walk() if integer(op, LAST_STAGE) is not None]
    return PipelineStages(tuple(_loop(op) for op in loops), read_from)


def _loop(loop: Operation) -> ScheduledLoop:
    operations = [
        ScheduledOperation(kind(op), name_of(op), stage, integer(op, CLUSTER) or 0, position_of(op))
        for op in loop.walk()
        if op is not loop and (stage := integer(op, STAGE)) is not None and _loop_of(op) is loop
    ]
    return ScheduledLoop(position_of(loop), (integer(loop, LAST_STAGE) or 0) + 1, tuple(operations))


def _loop_of(op: Operation) -> Operation | None:
    """The innermost scheduled loop around an operation."""
    current = op.parent_op()
    while current is not None and integer(current, LAST_STAGE) is None:
        current = current.parent_op()
    return current


@answers(PIPELINE_STAGES)
def pipeline_stages_of(opened: OpenedModules) -> PipelineStages:
    """The schedule of each software-pipelined loop."""
    scheduled = [run for run in opened.compilation.passes if "schedule_loops" in run.name]
    if not scheduled:
        return PipelineStages((), "")
    return pipeline_stages(opened.after(scheduled[-1]), scheduled[-1].label)
