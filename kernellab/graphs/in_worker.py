"""What runs in the process that captures: nothing of it touches the process that asked."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from typing import Any

from kernellab.graphs.backends import check_name
from kernellab.graphs.calls import SECONDS
from kernellab.graphs.capturing import capture_of
from kernellab.graphs.gpus import gpu_named
from kernellab.records.graphs import GraphCapture

_MOST_SECONDS = 0.6 * SECONDS
"""After which a capture is stopped, to give a report of what there is by then."""


def capture(shipped: bytes, options: Mapping[str, Any]) -> GraphCapture:
    """Capture one call.

    Args:
        shipped: function, positional and keyword arguments, pickled.
        options: those of `kernellab.graph`.
    """
    from kernellab.torch_api import capturing

    if options.get("backend") is not None:
        return _with_other(shipped, options)
    start = time.perf_counter()
    function, args, keywords = pickle.loads(shipped)
    gpu = gpu_named(options["gpu"])
    config = {**capturing.mode_options(options["mode"]), **options["options"]}
    backend = capturing.Backend(
        gpu.answering(),
        config=config,
        levels=options["levels"],
        beside=True,
        seconds=_MOST_SECONDS / 2,
    )
    captured = capturing.capture(
        function,
        args,
        keywords,
        backend,
        backward=options["backward"],
        dynamic=options["dynamic"],
        fullgraph=options["fullgraph"],
        seconds=_MOST_SECONDS,
    )
    return capture_of(captured, options["name"], gpu, time.perf_counter() - start)


def _with_other(shipped: bytes, options: Mapping[str, Any]) -> GraphCapture:
    """With another backend than Inductor: a name, or a function, pickled."""
    from kernellab.launch.interception import interpreted
    from kernellab.torch_api import capturing
    from kernellab.torch_api.other_backends import WatchedBackend, looked_up

    start = time.perf_counter()
    given = options["backend"]
    if isinstance(given, str):
        check_name(given)
    backend = looked_up(given) if isinstance(given, str) else pickle.loads(given)
    watched = WatchedBackend(backend, options["options"], levels=options["levels"])
    function, args, keywords = pickle.loads(shipped)
    called = {name: options[name] for name in ("backward", "dynamic", "fullgraph")}
    with interpreted():  # a backend may launch kernels
        found = capturing.capture(
            function, args, keywords, watched, seconds=_MOST_SECONDS, **called
        )
    gpu = gpu_named(options["gpu"])
    return capture_of(found, options["name"], gpu, time.perf_counter() - start)
