"""Make a record of what torch's compiler did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kernellab.errors.positions import SourcePosition
from kernellab.errors.sources import source_lines
from kernellab.graphs.gpus import Gpu
from kernellab.graphs.trace_events import breaks_in, guards_in, recompilations_in
from kernellab.records.graphs import GraphCapture, Level

if TYPE_CHECKING:
    from kernellab.torch_api.capturing import Captured


def capture_of(captured: Captured, name: str, gpu: Gpu, seconds: float) -> GraphCapture:
    """Return the record of a capture.

    Args:
        captured: frames, graphs, bytecode, events.
        name: the name of the function or module.
        gpu: the GPU that the code is for.
        seconds: how long the capture took.
    """
    import torch

    names = {code.frame.strip("[]"): code.function for code in captured.bytecode}
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
        error=_why(captured),
        seconds=seconds,
    )


def nothing_captured(name: str, gpu: Gpu, error: str) -> GraphCapture:
    """Return the record of a call whose process failed: only the error."""
    import torch

    version = str(torch.__version__)
    return GraphCapture(
        name, gpu.name, gpu.target.name, version, (), (), (), (), (), (), error, seconds=0.0
    )


_NEEDS_A_GPU = re.compile(
    r"not compiled with CUDA|not linked with support for (cuda|hip)|Found no NVIDIA driver"
    r"|found (at least )?two (different )?devices.*\b(cuda|hip|xpu)\b|No (CUDA|HIP) GPUs"
)


def _why(captured: Captured) -> str:
    """Return why a capture is incomplete or empty; "" if it is complete."""
    if _NEEDS_A_GPU.search(captured.error):
        return (
            f"{captured.error}\nThe function names a GPU, but it is captured on the CPU, for any "
            "GPU: take devices from an argument, as in torch.ones(4, device=x.device)."
        )
    if captured.frames or captured.error:
        return captured.error
    breaks = breaks_in(captured.events)
    if breaks:
        last = breaks[-1]
        where = f" at {last.position}" if last.position is not None else ""
        return (
            f"no graph was captured: Dynamo stopped{where} and left the whole call to Python: "
            f"{last.reason.rstrip(' .:')}. For what to change, see "
            f"report.breaks[{len(breaks) - 1}].hints"
        )
    return (
        "no graph was captured: the call has no operation on a tensor, or Dynamo left all of it to "
        "Python"
    )


_MOST_SOURCE = 500_000
"""Characters of a file that a record keeps."""


def with_sources(capture: GraphCapture) -> GraphCapture:
    """Return a capture with the texts of the files that it names.

    This runs in the user's process, as only that has the texts of a notebook's cells.
    """
    positions = filter(None, _positions(capture))
    files = dict.fromkeys(position.file for position in positions)
    texts = {file: "".join(source_lines(file)) for file in files}
    kept = {file: text for file, text in texts.items() if 0 < len(text) <= _MOST_SOURCE}
    return replace(capture, sources=kept)


def _positions(capture: GraphCapture) -> Iterator[SourcePosition | None]:
    yield from (code.position for code in capture.bytecode)
    yield from (graph_break.position for graph_break in capture.breaks)
    levels: list[Level | None] = [frame.fx for frame in capture.frames]
    levels += [frame.joint for frame in capture.frames]
    for graph in capture.lowered:
        levels += [graph.aten, graph.prims, graph.post_grad]
    for level in levels:
        if level is not None:
            yield from (node.position for node in level.nodes)
