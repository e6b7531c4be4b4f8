"""`torch.compile(model, backend="kernellab")`: the model runs on the CPU and leaves a report.

torch finds the backend by its entry point. Its `options` are Inductor's, and "gpu" as
in `kernellab.graph`, and "run": "aten" to run ATen operations, "triton" to run the generated
kernels on the interpreter.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import check_choice
from kernellab.errors import OptionError, suggestion
from kernellab.graphs.captures import Gpu, capture_of, gpu_named, with_sources
from kernellab.graphs.report import GraphReport
from kernellab.graphs.torch_texts import Event, frame_of, is_reported
from kernellab.launch.interception import interpreted
from kernellab.torch_api.tracers import hear_from_now_on, keep_users_kernels

if TYPE_CHECKING:
    from kernellab.torch_api.capture import Backend

RUNS = ("aten", "triton")

_OWN = ("gpu", "run", "levels")


@dataclass
class _Session:
    """The backend that compiles all Dynamo graphs of one result of torch.compile."""

    backend: Backend
    gpu: Gpu
    compiled: Callable[[], Any]
    """A weak reference to that result; a function that returns None for a call from elsewhere."""
    frames: set[str] = field(default_factory=set)


_sessions: list[_Session] = []
"""The sessions, in the order in which they last compiled."""

_MOST_SESSIONS = 8

_unclaimed: deque[Event] = deque(maxlen=200)
"""Events of torch about frames that no session compiles, or not yet."""


def _hear(event: Event) -> None:
    """Keep an event that a report is made of, with the session that compiles its frame."""
    if not is_reported(event):
        return
    frame = frame_of(event[0])
    session = next((known for known in reversed(_sessions) if frame in known.frames), None)
    events = _unclaimed if session is None else session.backend.captured.events
    events.append(event)


def kernellab_backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_rest: Any
) -> Callable[..., Any]:
    """Compile a Dynamo graph, as torch.compile calls a backend. Raises OptionError: an option has
    an invalid value; TargetError: there is no GPU of that name.
    """
    given = dict(options or {})
    gpu = gpu_named(given.pop("gpu", "h200"))
    run = given.pop("run", RUNS[0])
    check_choice("run", run, RUNS)
    levels = bool(given.pop("levels", False))
    with interpreted():  # AOTAutograd analyzes what the user's kernels write
        return _session(gpu, run, levels, given).backend(module, inputs)


def _session(gpu: Gpu, run: str, levels: bool, config: Mapping[str, Any]) -> _Session:
    """Return the session of the current compilation.

    Graphs after a graph break and of other sizes belong to the same session. A frame that torch
    compiles again from the start begins a new one.
    """
    from kernellab.torch_api.capture import compilation_id, compiled_by

    compiled, frame = compiled_by(), compilation_id()
    known = [s for s in _sessions if compiled is not None and s.compiled() is compiled]
    session = next((s for s in known if frame not in s.frames), None)
    _sessions[:] = [s for s in _sessions if s not in known]
    if session is None:
        held = (lambda: None) if compiled is None else weakref.ref(compiled)
        session = _Session(_backend(gpu, run, levels, config), gpu, held)
    session.frames.add(frame)
    _sessions.append(session)
    mine = [event for event in _unclaimed if frame_of(event[0]) in session.frames]
    session.backend.captured.events += mine
    for event in mine:
        _unclaimed.remove(event)
    del _sessions[:-_MOST_SESSIONS]
    return session


def _backend(gpu: Gpu, run: str, levels: bool, config: Mapping[str, Any]) -> Backend:
    from kernellab.graphs.kernels import run_code
    from kernellab.torch_api.capture import Backend, option_names, run_aten
    from kernellab.torch_api.generated_code import check_cache_folder

    check_cache_folder()
    known = option_names()
    for name in config:
        if name not in known:
            raise OptionError(
                f"backend 'kernellab' has no option {name!r}.",
                advice=suggestion(name, [*_OWN, *known], "Its own options are"),
            )
    runner = run_code if run == "triton" else run_aten
    # Generated kernels draw other numbers than eager torch.
    draws = {"fallback_random": True} if run == "triton" else {}
    return Backend(
        gpu.answering,
        config={**draws, **config},
        levels=levels,
        runner=lambda made: interpreted()(runner(made)),  # it may launch the user's kernels
        runs_code=run == "triton",
    )


def last_report() -> GraphReport:
    """Return a report of what `backend="kernellab"` compiled last in this process.

    The report has every Dynamo graph so far of the compiled function that compiled last, including
    those after graph breaks and of other sizes.

    Raises:
        OptionError: nothing was compiled with the backend.
    """
    if not _sessions:
        raise OptionError(
            "Nothing was compiled with backend='kernellab' in this process.",
            advice='Call the function that torch.compile(model, backend="kernellab") returned.',
        )
    last = _sessions[-1]
    capture = capture_of(last.backend.captured, "torch.compile", last.gpu, 0.0)
    return GraphReport(with_sources(capture), is_captured_here=True)


# torch loads this module when the backend is named, before it compiles.
hear_from_now_on(_hear)
keep_users_kernels("kernellab")
