"""`torch.compile(model, backend="kernellab")`: the model runs on the CPU and leaves a report.

torch finds it by its entry point. `options` takes what `kernellab.graph` takes of them: "gpu", and
"run": "aten" to run ATen operations, "triton" to run the generated kernels on the interpreter.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernellab.common.argument_checks import check_choice
from kernellab.errors import OptionError, suggestion
from kernellab.graphs.capturing import capture_of, with_sources
from kernellab.graphs.gpus import Gpu, gpu_named
from kernellab.graphs.report import GraphReport

if TYPE_CHECKING:
    from kernellab.torch_api.capturing import Backend

RUNS = ("aten", "triton")

_OWN = ("gpu", "run", "levels")


@dataclass
class _Session:
    """What one result of torch.compile has been compiled with: all its Dynamo graphs."""

    backend: Backend
    gpu: Gpu
    compiled: Callable[[], Any]
    """A weak reference to that result; None is for a call from elsewhere."""
    frames: set[str] = field(default_factory=set)


_sessions: list[_Session] = []
"""The one that compiled last comes last."""

_MOST_SESSIONS = 8


def kernellab_backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_rest: Any
) -> Callable[..., Any]:
    """As torch.compile calls a backend, with each Dynamo graph.

    Raises:
        OptionError: an option of a wrong value.
        TargetError: no GPU is called so.
    """
    given = dict(options or {})
    gpu = gpu_named(given.pop("gpu", "h200"))
    run = given.pop("run", RUNS[0])
    check_choice("run", run, RUNS)
    levels = bool(given.pop("levels", False))
    return _session(gpu, run, levels, given).backend(module, inputs)


def _session(gpu: Gpu, run: str, levels: bool, config: Mapping[str, Any]) -> _Session:
    """That of what is compiled now: graphs after a graph break, and those of other sizes, are of
    the same one; what torch compiles anew, having forgotten it, begins another.
    """
    from kernellab.torch_api.other_backends import compilation_id, compiled_by

    compiled, frame = compiled_by(_callers()), compilation_id()
    known = [one for one in _sessions if compiled is not None and one.compiled() is compiled]
    found = next((one for one in known if frame not in one.frames), None)
    _sessions[:] = [one for one in _sessions if one is not found and one not in known]
    if found is None:
        held = (lambda: None) if compiled is None else weakref.ref(compiled)
        found = _Session(_backend(gpu, run, levels, config), gpu, held)
    found.frames.add(frame)
    _sessions.append(found)
    del _sessions[:-_MOST_SESSIONS]
    return found


def _callers() -> Iterator[Any]:
    """The frames that called the backend, the innermost first."""
    frame = sys._getframe(3)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


def _backend(gpu: Gpu, run: str, levels: bool, config: Mapping[str, Any]) -> Backend:
    from kernellab.graphs.running import run_code
    from kernellab.torch_api.capturing import Backend, option_names, run_aten

    known = option_names()
    for name in config:
        if name not in known:
            raise OptionError(
                f"backend 'kernellab' has no option {name!r}",
                advice=suggestion(name, [*_OWN, *known], "Its own:"),
            )
    return Backend(
        gpu.answering(),
        config=config,
        levels=levels,
        runner=run_code if run == "triton" else run_aten,
        runs_code=run == "triton",
    )


def last_report() -> GraphReport:
    """What `backend="kernellab"` compiled last in this process: every Dynamo graph, so far, of the
    function that torch.compile gave and that compiled last, those after graph breaks and of other
    sizes too.

    Raises:
        OptionError: nothing was compiled with it.
    """
    if not _sessions:
        raise OptionError(
            "nothing was compiled with backend='kernellab' in this process",
            advice='Call what torch.compile(model, backend="kernellab") gives first.',
        )
    last = _sessions[-1]
    found = capture_of(last.backend.captured, "torch.compile", last.gpu, 0.0)
    return GraphReport(with_sources(found))
