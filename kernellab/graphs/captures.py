"""What a call is captured for, GPUs and installed backends, and the record of its capture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernellab import triton_api
from kernellab.common.text import shown
from kernellab.compiler.targets import parse_target
from kernellab.errors import ArgumentError, OptionError, suggestion
from kernellab.errors.sources import SourcePosition, source_lines
from kernellab.graphs.guards import guards_in, recompilations_in, symbols_in, with_advice
from kernellab.graphs.torch_texts import breaks_in, functions_in, statements_from
from kernellab.launch.torch_cuda import DeviceProperties
from kernellab.records import Target
from kernellab.records.graphs import CapturedFrame, GraphBreak, GraphCapture

if TYPE_CHECKING:
    import pandas

    from kernellab.torch_api.capture import Captured

# The GPUs that code can be generated for by name, and a context that emulates them.


ROCM = "6.4"
"""The version of ROCm that torch's compiler sees for AMD's GPUs."""

_OTHERS = {"h200": {"name": "NVIDIA H200", "total_memory": 141 * 10**9}}
"""Properties that differ from an architecture's first product (NVIDIA's data sheet of the H200)."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that this machine need not have.

    Attributes:
        name: the name as given.
        target: the target to compile for.
        differing: the properties that differ from the first product of that architecture.
    """

    name: str
    target: Target
    differing: Mapping[str, Any]

    def properties(self) -> DeviceProperties:
        """Return what `torch.cuda.get_device_properties` would."""
        properties = DeviceProperties(self.target)
        vars(properties).update(self.differing)
        return properties

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A context in which torch and Triton see this GPU."""
        from kernellab.torch_api.virtual_gpu import gpu_answers

        driver = triton_api.EmulatedDriver(self.target, {}, _nothing, _nothing, is_torchs=True)
        hip = ROCM if self.target.backend == "hip" else None
        with triton_api.driver_is(driver), gpu_answers(self.properties(), hip):
            yield


def gpu_named(name: Any) -> Gpu:
    """Return the GPU of a name ("h200", "a100", "mi300x") or of a target ("sm_90"). Raises
    TargetError: there is no such GPU; the message has the nearest name; ArgumentError: `name` is
    not a str.
    """
    if isinstance(name, Target):
        return Gpu(name.name, name, {})
    if not isinstance(name, str):
        raise ArgumentError(
            f"gpu must be the name of a GPU, got {shown(name)}.",
            advice='Write gpu="h200", "a100", "mi300x", or a target such as "sm_90".',
        )
    return Gpu(name, parse_target(name), _OTHERS.get(name.strip().lower(), {}))


def _nothing(*_args: Any) -> Any:
    raise NotImplementedError("nothing can run on an emulated GPU")


# `kernellab.backends()`: the installed backends of torch.compile, and what each shows.


OURS = ("inductor", "kernellab")
"""Backends whose report goes down to kernels, which is Inductor's report for a GPU."""

_COLUMNS = ["backend", "package", "tags", "gives", "error"]


def backends() -> pandas.DataFrame:
    """Try each installed backend of torch.compile on a function of two operations.

    Returns:
        One row per backend: its name; the package that it is from; its tags in torch ("debug");
        `gives`, the levels that `kernellab.graph(..., backend=...)` shows; and the error if it does
        not run here, else "".

    Raises:
        WorkerError: a backend ended the process.
    """
    import pandas

    from kernellab.graphs.processes import compiler_process

    rows = compiler_process().call("kernellab.graphs.captures:tried")
    return pandas.DataFrame(rows, columns=_COLUMNS)


def tried() -> list[tuple[str, str, str, str, str]]:
    """In the process that captures: return the rows of `backends`."""
    from kernellab.torch_api.capture import installed

    rows = []
    for name, (package, tags) in installed().items():
        gives, error = ("all levels, down to kernels", "") if name in OURS else _tried(name)
        rows.append((name, package, " ".join(tags), gives, error))
    return rows


_MOST_WORDS = 200
"""Characters of an error."""


def _tried(name: str) -> tuple[str, str]:
    import torch

    from kernellab.torch_api.capture import WatchedBackend, call_once, looked_up

    def twice(x: Any) -> Any:
        return x.sin() * 2

    try:
        watched = WatchedBackend(looked_up(name), {}, levels=False)
    except Exception as problem:  # a dependency of its package may be missing or broken
        return "", f"{type(problem).__name__}: {problem}"
    with watched.listening():
        x = torch.rand(8, requires_grad=True)
        error = call_once(twice, (x,), {}, watched, backward=False, dynamic=None, fullgraph=False)
    lowered = watched.captured.lowered
    has_aten = any(graph.aten.nodes for graph in lowered)
    gives = "FX, ATen" if has_aten else "FX" if watched.captured.frames else ""
    inner = next((graph.error for graph in lowered if graph.error), error)
    return gives, " ".join(inner.split())[:_MOST_WORDS]


def check_name(name: str) -> None:
    """Raise OptionError, with the nearest name, unless there is a backend of that name."""
    from kernellab.torch_api.capture import installed

    names = list(installed())
    if name not in names:
        advice = suggestion(name, names, "Installed are")
        raise OptionError(f"torch.compile has no backend {name!r}.", advice=advice)


# Make a record of what torch's compiler did.


def capture_of(captured: Captured, name: str, gpu: Gpu, seconds: float) -> GraphCapture:
    """Return the record of a capture.

    Args:
        captured: frames, graphs, bytecode, events.
        name: the name of the function or module.
        gpu: the GPU that the code is for.
        seconds: how long the capture took.
    """
    import torch

    functions = functions_in(captured.events)
    known = {code.frame.strip("[]"): (code.function, code.position) for code in captured.bytecode}
    places = {
        frame: (name, None) if place and place.file.endswith(_WRAPPER) else (function, place)
        for frame, (function, place) in {**functions, **known}.items()
    }
    symbols = symbols_in(captured.events)
    recompilations = recompilations_in(captured.events, places, symbols)
    return GraphCapture(
        name=name,
        gpu=gpu.name,
        target=gpu.target.name,
        torch_version=str(torch.__version__),
        frames=tuple(captured.frames),
        lowered=tuple(captured.lowered),
        breaks=tuple(
            replace(graph_break, uncompiled=_uncompiled(graph_break, functions, captured.frames))
            for graph_break in breaks_in(captured.events)
        ),
        guards=guards_in(captured.events, recompilations),
        recompilations=recompilations,
        bytecode=tuple(captured.bytecode),
        error=_why(captured),
        seconds=seconds,
        symbols=with_advice(symbols, recompilations),
    )


_WRAPPER = "torch/_dynamo/external_utils.py"
"""Where Dynamo has the function that calls a module of torch's own, such as `nn.Sequential`."""


def _uncompiled(
    graph_break: GraphBreak,
    functions: Mapping[str, tuple[str, SourcePosition]],
    frames: Sequence[CapturedFrame],
) -> tuple[int, ...]:
    """Return the lines of the statements that Python runs after a break at which Dynamo gives up a
    function, or the rest of it, without those that a graph has.
    """
    position = graph_break.position
    if graph_break.resumes or position is None or graph_break.frame not in functions:
        return ()
    name, place = functions[graph_break.frame]
    if place.file != position.file:
        return ()
    start = place.line
    places = (node.position for frame in frames for node in frame.fx.nodes)
    compiled = {place.line for place in places if place and place.file == position.file}
    if not name.startswith(_RESUMED):
        start = max((line for line in compiled if line < position.line), default=0)
    lines = statements_from("".join(source_lines(position.file)), position.line, start)
    return tuple(line for line in lines if line not in compiled)


_RESUMED = "torch_dynamo_resume_in"


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
    if captured.lowered or captured.error:
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

    This runs in the user's process, because only that has the texts of a notebook's cells.
    """
    positions = filter(None, _positions(capture))
    files = dict.fromkeys(position.file for position in positions)
    texts = {file: "".join(source_lines(file)) for file in files}
    kept = {file: text for file, text in texts.items() if 0 < len(text) <= _MOST_SOURCE}
    return replace(capture, sources=kept)


def _positions(capture: GraphCapture) -> Iterator[SourcePosition | None]:
    yield from (code.position for code in capture.bytecode)
    yield from (graph_break.position for graph_break in capture.breaks)
    for recompilation in capture.recompilations:
        yield from (failure.position for failure in recompilation.failures)
    for symbol in capture.symbols:
        yield from (symbol.position, *(guard.position for guard in symbol.guards))
    levels = [level for frame in capture.frames for level in (frame.fx, frame.joint)]
    levels += [
        level for graph in capture.lowered for level in (graph.aten, graph.prims, graph.post_grad)
    ]
    yield from (node.position for level in levels if level is not None for node in level.nodes)
