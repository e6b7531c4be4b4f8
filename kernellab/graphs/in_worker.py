"""What runs in the process that captures: nothing of it touches the process that asked."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from typing import Any

from kernellab.graphs.capturing import capture_of
from kernellab.graphs.gpus import gpu_named
from kernellab.records.graphs import GraphCapture


def capture(shipped: bytes, options: Mapping[str, Any]) -> GraphCapture:
    """Capture one call.

    Args:
        shipped: function, positional and keyword arguments, pickled.
        options: those of `kernellab.graph`.
    """
    from kernellab.torch_api import capturing

    start = time.perf_counter()
    function, args, keywords = pickle.loads(shipped)
    gpu = gpu_named(options["gpu"])
    config = {**capturing.mode_options(options["mode"]), **options["options"]}
    backend = capturing.Backend(gpu.answering(), config=config, levels=options["levels"])
    captured = capturing.capture(
        function,
        args,
        keywords,
        backend,
        backward=options["backward"],
        dynamic=options["dynamic"],
        fullgraph=options["fullgraph"],
    )
    return capture_of(captured, options["name"], gpu, time.perf_counter() - start)
