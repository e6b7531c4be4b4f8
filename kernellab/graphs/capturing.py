"""What torch's compiler was heard to do, as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernellab.graphs.gpus import Gpu
from kernellab.graphs.trace_events import breaks_in, guards_in, recompilations_in
from kernellab.records.graphs import GraphCapture

if TYPE_CHECKING:
    from kernellab.torch_api.capturing import Captured


def capture_of(captured: Captured, name: str, gpu: Gpu, seconds: float) -> GraphCapture:
    """The record of what was heard.

    Args:
        captured: frames, graphs, bytecode, events.
        name: of the function or module.
        gpu: that the code is for.
        seconds: what it took.
    """
    import torch

    names = {one.frame.strip("[]"): one.function for one in captured.bytecode}
    recompilations = recompilations_in(captured.events, names)
    return GraphCapture(
        name=name,
        gpu=gpu.name,
        target=gpu.target.name,
        torch_version=str(torch.__version__),
        frames=tuple(captured.frames),
        lowered=tuple(captured.lowered),
        breaks=breaks_in(captured.events),
        guards=guards_in(captured.events, recompilations),
        recompilations=recompilations,
        bytecode=tuple(captured.bytecode),
        error=captured.error,
        seconds=seconds,
    )
