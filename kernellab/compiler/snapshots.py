"""The module as a stage or a pass leaves it, from one compilation that goes no further."""

from __future__ import annotations

from typing import Any

from kernellab import triton_api
from kernellab.compiler.steering import find_passes
from kernellab.records import Target
from kernellab.specialize import BoundCall
from kernellab.triton_api import pipeline as triton_pipeline
from kernellab.triton_api.pipeline import IdleWatcher, PassCall


def module_after(kernel: Any, call: BoundCall, target: Target, stage: str) -> str:
    """What a kernel has become after a stage ("ttgir") or a pass ("ttgir.coalesce", "ttir.cse#2"), in MLIR's generic form.

    Raises:
        CompileError: the compiler refused the kernel before that.
        OptionError: an option value that the target's backend refuses, or a pass that does not run for this target.
    """
    label = stage
    if "." in stage:
        options = triton_api.options_of_launch(kernel, call.options)
        listed = triton_pipeline.list_passes(target, options, bool(kernel.is_gluon()))
        label = find_passes(stage, listed)[0].label
    watcher = _Until(label)
    asked = (kernel, call.specialization, target, call.options)
    triton_pipeline.compile_watched(*asked, watcher)
    return triton_api.generic_text(watcher.module)


class _Until(IdleWatcher):
    """Stops after a pass or a stage, and has the module then."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.module: Any = None

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        """Keep the front end's module: a stage may have no passes."""
        del call, seconds
        self.module = module

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """Stop after the pass that was asked for."""
        del seconds
        self.module = module
        if call.label == self._label:
            raise triton_api.PipelineStopped

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        """Stop after the stage that was asked for."""
        del content, seconds
        if name == self._label:
            raise triton_api.PipelineStopped
