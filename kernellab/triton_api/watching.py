"""What a watched compilation is told as it goes by:
passes, their names, and what a watcher is asked and told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

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


class Watcher(Protocol):
    """Sees a compilation go by. What it raises ends the compilation."""

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        """There is a module, before any pass: the front end has made it, or an IR text was read."""

    def wants(self, call: PassCall) -> bool:
        """Whether this pass is to run."""

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


class IdleWatcher:
    """Watches without looking, and lets every pass run: a base for watchers that look at little."""

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        del call, seconds, module

    def wants(self, call: PassCall) -> bool:
        del call
        return True

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        del call, seconds, module

    def step_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        del call, seconds, module

    def relocated(self, module: Any, folder: str) -> None:
        del module, folder

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        del name, content, seconds
