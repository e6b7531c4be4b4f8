"""What torch's compiler was heard to do, as a record."""

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
        error=_why(captured),
        seconds=seconds,
    )


def nothing_captured(name: str, gpu: Gpu, error: str) -> GraphCapture:
    """The record of a call whose process came to no end: why."""
    import torch

    version = str(torch.__version__)
    return GraphCapture(
        name, gpu.name, gpu.target.name, version, (), (), (), (), (), (), error, seconds=0.0
    )


_ASKS_FOR_A_GPU = re.compile(
    r"not compiled with CUDA|not linked with support for (cuda|hip)|Found no NVIDIA driver"
    r"|found at least two devices.*\b(cuda|hip|xpu)\b|No (CUDA|HIP) GPUs"
)


def _why(captured: Captured) -> str:
    """What ended a capture before its end, or that there was nothing to capture; "" of a whole
    one.
    """
    if _ASKS_FOR_A_GPU.search(captured.error):
        return (
            f"{captured.error}\nIt names a GPU itself, and is captured on the CPU, for any GPU: "
            "take devices from an argument, as in torch.ones(4, device=x.device)."
        )
    if captured.frames or captured.error:
        return captured.error
    breaks = breaks_in(captured.events)
    if breaks:
        last = breaks[-1]
        where = f" at {last.position}" if last.position is not None else ""
        return (
            f"no graph was captured: Dynamo stopped{where}, and left the whole call to Python: "
            f"{last.reason.rstrip(' .:')}. What to change: report.breaks[{len(breaks) - 1}].hints"
        )
    return (
        "no graph was captured: Dynamo left the whole call to Python, or there is no operation on "
        "a tensor in it"
    )


_MOST_SOURCE = 500_000
"""Characters of a file that a record keeps."""


def with_sources(capture: GraphCapture) -> GraphCapture:
    """A capture with the texts of the files that it names. The process that asked for it has them:
    a notebook's cells are in no file.
    """
    files = dict.fromkeys(one.file for one in _positions(capture) if one is not None)
    texts = {file: "".join(source_lines(file)) for file in files}
    kept = {file: text for file, text in texts.items() if 0 < len(text) <= _MOST_SOURCE}
    return replace(capture, sources=kept)


def _positions(capture: GraphCapture) -> Iterator[SourcePosition | None]:
    yield from (one.position for one in capture.bytecode)
    yield from (one.position for one in capture.breaks)
    levels: list[Level | None] = [one.fx for one in capture.frames]
    levels += [one.joint for one in capture.frames]
    for one in capture.lowered:
        levels += [one.aten, one.prims, one.post_grad]
    for level in levels:
        if level is not None:
            yield from (node.position for node in level.nodes)
