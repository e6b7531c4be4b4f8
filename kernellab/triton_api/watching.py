"""Passes of a watched compilation, their names, and the interface of a watcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FRONT_END_STAGE = "source"
"""The stage of the module that the front end makes, before any pass."""


@dataclass(frozen=True)
class PassCall:
    """One pass that a stage adds to its pipeline, or one of LLVM's own steps."""

    stage: str
    name: str
    """As in Triton's `add_*`: "coalesce"."""
    occurrence: int
    """The how manieth of that name in that stage, from 1, those left out included."""
    arguments: tuple[Any, ...] = ()
    adder: str = ""
    """Where Triton's bindings have the function that adds it: "passes.ttgpuir.add_coalesce".
    Both backends have passes of the same name as others'."""

    @property
    def label(self) -> str:
        """ "ttgir.canonicalizer#2"; the first of a name goes without a number."""
        number = f"#{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.stage}.{self.name}{number}"


FRONT_END = PassCall(FRONT_END_STAGE, "front_end", 1)


class Watcher:
    """Sees a compilation go by. What it raises ends the compilation. Here it looks at nothing, and
    lets every pass run.
    """

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        """There is a module, before any pass: the front end has made it, or an IR text was read."""

    def wants(self, _call: PassCall) -> bool:
        """Whether this pass is to run."""
        return True

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """A pass ran on the module of MLIR."""

    def step_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """A step of LLVM ran, on LLVM's own module."""

    def relocated(self, module: Any, folder: str) -> None:
        """Outside of any pass, the module's ops were given new locations,
        in a file in that passing folder.
        """

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        """A stage is finished; `content` is its text, or the bytes of the binary."""
