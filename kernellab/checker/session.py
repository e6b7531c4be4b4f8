"""A launch that is checked: it can be run again, on copies of its arguments, as often as somebody has a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.checker.checked_run import Scene
from kernellab.checker.code import checked_code
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.detectors.endless_loop import EndlessLoop
from kernellab.checker.detectors.out_of_bounds import OutOfBounds
from kernellab.checker.events import Audience, Change
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import Deadlock
from kernellab.interpreter.execution.grid import Grid
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.launch.argument_copies import copied
from kernellab.records import Target
from kernellab.records.run_options import DEFAULT, RunOptions


@dataclass(frozen=True)
class Examination:
    """The launch as it was asked for; see `Scene` for the attributes."""

    kernel: Any
    call: BoundCall
    code: ProgramCode
    grid: Grid
    outputs: tuple[str, ...]
    uninitialized: tuple[str, ...]
    most_turns: int
    target: Target

    def listen(self, kinds: Sequence[type[Detector]]) -> tuple[list[Detector], Finding | None]:
        """Run it, detectors of these kinds listening: they hear values too.

        Returns:
            The detectors; and what stopped the run, where it would not have ended.
        """
        scene = self._scene(checked_code(self.kernel, self.code, kinds))
        detectors = [kind(scene) for kind in kinds if kind.concerns(scene)]
        for one in detectors:
            one.meet(detectors)
        try:
            self._run(scene, detectors)
        except Stopped as stopped:
            return detectors, stopped.finding
        for one in detectors:
            one.end()
        return detectors, None

    def repeat(
        self,
        detectors: Callable[[Scene], Sequence[Detector]] = lambda _scene: (),
        options: RunOptions = DEFAULT,
        *,
        one_by_one: bool = False,
        change: Change | None = None,
    ) -> Scene:
        """Run it again, in another way perhaps.

        Args:
            detectors: makes those that listen, to accesses only.
            options: in another order.
            one_by_one: one program after the other, no two in step.
            change: puts other accesses in the place of some.

        Returns:
            The scene, its tensors as the run has left them.

        Raises:
            Stopped: it would not have ended.
            KernelFault: as `kernellab.run`.
        """
        code = checked_code(self.kernel, self.code, (EndlessLoop,))
        scene = self._scene(replace(code, batch=1) if one_by_one else code)
        self._run(scene, [EndlessLoop(scene), *detectors(scene)], options, change)
        return scene

    def _scene(self, code: ProgramCode) -> Scene:
        call = replace(self.call, values=copied(self.call.values))
        return Scene(
            self.kernel,
            call,
            code,
            self.grid,
            self.target,
            self.outputs,
            self.uninitialized,
            self.most_turns,
        )

    def _run(
        self,
        scene: Scene,
        detectors: Sequence[Detector],
        options: RunOptions = DEFAULT,
        change: Change | None = None,
    ) -> None:
        bounds = next((d for d in detectors if isinstance(d, OutOfBounds)), OutOfBounds(scene))
        audience = Audience(scene, bounds, detectors, change)
        try:
            launch_observed(scene.kernel, scene.grid, scene.call, scene.code, audience, options)
        except Deadlock as deadlock:
            raise Stopped(_told(deadlock)) from deadlock
        finally:
            audience.put_back()


def _told(deadlock: Deadlock) -> Finding:
    """A deadlock as a finding."""
    return Finding(
        kind="deadlock",
        message=deadlock.problem.removeprefix("deadlock: "),
        advice=deadlock.advice,
        position=deadlock.position,
        programs=deadlock.programs[:LISTED_PROGRAMS],
        program_count=len(deadlock.programs),
    )
