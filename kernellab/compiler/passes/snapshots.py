"""The module as a stage or a pass leaves it, from one compilation that goes no further."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.compiler.passes.steering import find_passes, without_locations
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.records import Target
from kernellab.triton_api import pipeline as triton_pipeline
from kernellab.triton_api.mlir_stages import list_passes
from kernellab.triton_api.watching import PassCall, Watcher


def module_after(kernel: Any, call: BoundCall, target: Target, stage: str) -> str:
    """What a kernel has become after a stage ("ttgir") or a pass ("ttgir.coalesce", "ttir.cse#2"),
    in MLIR's generic form.

    Raises:
        CompileError: the compiler refused the kernel before that.
        OptionError: an option value that the target's backend refuses, or a pass that does not run
            for this target.
    """
    label = stage
    if "." in stage:
        options = triton_api.options_of_launch(kernel, call.options)
        listed = list_passes(target, options, bool(kernel.is_gluon()))
        label = find_passes(stage, listed)[0].label
    watcher = _Until(label)
    arguments = (kernel, call.specialization, target, call.options)
    triton_pipeline.compile_watched(*arguments, watcher)
    return watcher.text


@dataclass(frozen=True)
class LoweredText:
    """A TTGIR text, and the PTX that it became, whose locations name the text's lines."""

    ttgir: str
    ptx: str


def lowered(kernel: Any, call: BoundCall, target: Target) -> LoweredText:
    """A kernel's TTGIR and PTX, for one of NVIDIA's GPUs.

    Raises:
        CompileError: the compiler refused the kernel.
        OptionError: an option value that the target's backend refuses.
    """
    watcher = _UntilPtx()
    arguments = (kernel, call.specialization, target, call.options)
    made = triton_pipeline.compile_watched(*arguments, watcher, ttgir_lines=True).stages
    return LoweredText(watcher.relocated_text, str(made["ptx"]))


def lowered_text(text: str, target: Target) -> LoweredText:
    """The PTX of a TTGIR text that a compiler of Triton's made,
    in MLIR's own form or the generic one.

    Raises:
        CompileError: the compiler refuses it.
    """
    plain = without_locations(text)
    given = triton_api.IrText(plain, "ttgir", file="<ttgir text>")
    made = triton_pipeline.compile_text(given, target, {}, _UntilPtx(), {}).stages
    return LoweredText(plain, str(made["ptx"]))


class _UntilPtx(Watcher):
    """Stops before there is machine code, and has the text that locations name."""

    def __init__(self) -> None:
        self.relocated_text = ""

    def relocated(self, _module: Any, folder: str) -> None:
        """Keep the text whose lines the locations name from now on."""
        (file,) = Path(folder).iterdir()
        self.relocated_text = file.read_text(encoding="utf-8")

    def stage_made(self, name: str, _content: str | bytes, _seconds: float) -> None:
        """Stop after PTX."""
        if name == "ptx":
            raise triton_api.PipelineStopped


class _Until(Watcher):
    """Stops after a pass or a stage, and has the module's generic form then."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._module: Any = None
        self.text = ""

    def module_made(self, _call: PassCall, _seconds: float, module: Any) -> None:
        """Keep the front end's module: a stage may have no passes."""
        self._module = module

    def pass_ran(self, call: PassCall, _seconds: float, module: Any) -> None:
        """Stop after the pass that was asked for."""
        self._module = module
        if call.label == self._label:
            self._stop()

    def stage_made(self, name: str, _content: str | bytes, _seconds: float) -> None:
        """Stop after the stage that was asked for."""
        if name == self._label:
            self._stop()

    def _stop(self) -> None:
        self.text = triton_api.generic_text(self._module)
        raise triton_api.PipelineStopped
