"""Groups of warps that run separate code: coroutines, each of which runs until it has to wait at
a barrier.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from kernellab.interpreter.memory import mbarriers
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.numerics.tiles import Active, Value


@dataclass(frozen=True)
class Waiting:
    """What a group waits for: that the phase of that parity completes."""

    barrier: SharedTile
    phase: Value
    active: Active = None

    def is_over(self) -> bool:
        """Whether it need not wait any more."""
        return not mbarriers.is_under_way(self.barrier, self.phase, self.active)


Group: TypeAlias = "Generator[Waiting, None, Any]"


def run(groups: tuple[Group, ...]) -> Any:
    """Let every group run to its end, in turns; returns what the first one,
    the default group, returns.

    Raises:
        PhaseNeverCompletes: all that are left wait; raised where the first of them does.
    """
    result: Any = None
    live: dict[int, Waiting | None] = dict.fromkeys(range(len(groups)))
    while live:
        ready = [number for number, wait in live.items() if wait is None or wait.is_over()]
        if not ready:
            _stop(groups, live)
        for number in ready:
            try:
                live[number] = next(groups[number])
            except StopIteration as end:
                del live[number]
                result = end.value if number == 0 else result
    return result


def _stop(groups: tuple[Group, ...], live: dict[int, Waiting | None]) -> None:
    number, wait = next(iter(live.items()))
    assert wait is not None
    try:
        mbarriers.wait(wait.barrier, wait.phase, wait.active)
    except mbarriers.PhaseNeverCompletes as stuck:
        groups[number].throw(stuck)
