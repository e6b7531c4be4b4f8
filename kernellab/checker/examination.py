"""A launch that is checked: it can be run again, on copies of its arguments, as often as somebody has a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.argument_copies import copied
from kernellab.checker.code import checked_code
from kernellab.checker.detector import Detector
from kernellab.checker.detectors.out_of_bounds import OutOfBounds
from kernellab.checker.listening import Audience
from kernellab.checker.scene import Scene
from kernellab.interpreter.grid import Grid
from kernellab.interpreter.launcher import launch_observed
from kernellab.interpreter.program import ProgramCode
from kernellab.run_options import DEFAULT, RunOptions
from kernellab.specialize import BoundCall


@dataclass(frozen=True)
class Examination:
    """The launch as it was asked for; see `Scene` for the attributes."""

    kernel: Any
    call: BoundCall
    code: ProgramCode
    grid: Grid
    outputs: tuple[str, ...]
    uninitialized: tuple[str, ...]

    def listen(self, kinds: Sequence[type[Detector]]) -> list[Detector]:
        """Run it, detectors of these kinds listening: they hear values too."""
        scene = self._scene(checked_code(self.kernel, self.code, kinds))
        detectors = [kind(scene) for kind in kinds if kind.concerns(scene)]
        self._run(scene, detectors)
        for one in detectors:
            one.end()
        return detectors

    def repeat(
        self,
        detectors: Callable[[Scene], Sequence[Detector]],
        options: RunOptions = DEFAULT,
        one_by_one: bool = False,
    ) -> Scene:
        """Run it again, in another order perhaps.

        Args:
            detectors: makes those that listen, to accesses only.
            one_by_one: one program after the other, no two in step.

        Returns:
            The scene, its tensors as the run has left them.
        """
        code = replace(self.code, batch=1) if one_by_one else self.code
        scene = self._scene(code)
        self._run(scene, detectors(scene), options)
        return scene

    def _scene(self, code: ProgramCode) -> Scene:
        call = replace(self.call, values=copied(self.call.values))
        return Scene(self.kernel, call, code, self.grid, self.outputs, self.uninitialized)

    def _run(
        self, scene: Scene, detectors: Sequence[Detector], options: RunOptions = DEFAULT
    ) -> None:
        bounds = next((d for d in detectors if isinstance(d, OutOfBounds)), OutOfBounds(scene))
        audience = Audience(scene, bounds, detectors)
        launch_observed(scene.kernel, scene.grid, scene.call, scene.code, audience, options)
