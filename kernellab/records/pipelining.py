"""How the loops of a kernel are software-pipelined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernellab.errors import SourcePosition
from kernellab.records.tables import column_names, data_frame


@dataclass(frozen=True)
class ScheduledOperation:
    """Where the software pipeliner puts one operation of a loop.

    Source: the attributes `loop.stage` and `loop.cluster`, as Triton's schedule_loops leaves them.
    """

    operation: str
    name: str
    """The name of its first result, "" where it has none."""
    stage: int
    """How many iterations it runs behind the first stage's."""
    cluster: int
    """Its place within an iteration of the pipelined loop: lower clusters come first."""
    position: SourcePosition | None


@dataclass(frozen=True)
class ScheduledLoop:
    """A loop that the software pipeliner has scheduled."""

    position: SourcePosition | None
    stages: int
    """Stages of the schedule: one more than `tt.scheduled_max_stage`."""
    operations: tuple[ScheduledOperation, ...]


@dataclass(frozen=True)
class PipelineStages:
    """The schedule of every loop that is software-pipelined."""

    loops: tuple[ScheduledLoop, ...]
    read_from: str
    """The pass after which the module was read; "" where no pass schedules loops
    for this target."""

    def table(self) -> Any:
        """One row per operation, as a pandas DataFrame."""
        frame = data_frame(
            [operation for loop in self.loops for operation in loop.operations],
            column_names(ScheduledOperation),
        )
        numbers = [number for number, loop in enumerate(self.loops) for _ in loop.operations]
        frame.insert(0, "loop", numbers)
        return frame
