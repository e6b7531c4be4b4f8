"""Capture a call in a copy of the user's process, which stays as it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kernellab.graphs.capture_records import capture_of
from kernellab.graphs.given_calls import GivenCall
from kernellab.graphs.gpus import gpu_named
from kernellab.graphs.installed_backends import check_name
from kernellab.graphs.processes import SECONDS
from kernellab.launch.interception import interpreted
from kernellab.records.graphs import GraphCapture

_MOST_SECONDS = 0.6 * SECONDS
"""When a capture is stopped, so that a report can be made of what there is."""


def capture(call: GivenCall) -> GraphCapture:
    """Capture one call."""
    from kernellab.torch_api.capturing import Backend, mode_options
    from kernellab.torch_api.capturing import capture as capture_with

    start = time.perf_counter()
    options = call.request
    gpu = gpu_named(options["gpu"])
    if options.get("backend") is None:
        backend: Any = Backend(
            gpu.answering,
            config={**mode_options(options["mode"]), **options["options"]},
            levels=options["levels"],
            beside=True,
            seconds=_MOST_SECONDS / 2,
        )
    else:
        backend = _other_backend(options)
    called = {name: options[name] for name in ("backward", "dynamic", "fullgraph")}
    with gpu.answering(), interpreted():  # the function, or a backend, may launch kernels
        captured = capture_with(
            call.function, call.args, call.keywords, backend, seconds=_MOST_SECONDS, **called
        )
    return capture_of(captured, options["name"], gpu, time.perf_counter() - start)


def _other_backend(options: Mapping[str, Any]) -> Any:
    """Return a backend other than Inductor, given as a name or as a function, watched."""
    from kernellab.torch_api.other_backends import WatchedBackend, looked_up

    given = options["backend"]
    if isinstance(given, str):
        check_name(given)
    backend = looked_up(given) if isinstance(given, str) else given
    return WatchedBackend(backend, options["options"], levels=options["levels"])
