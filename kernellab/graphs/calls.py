"""The call that a report is of, kept as it was captured: what compares, switches optimisations off
or times does it with that call, in a process of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.common.worker import Worker
from kernellab.errors import ArgumentError, NotRecorded

SECONDS = 600.0
"""How long a capture, and what is done with one, may take."""


@functools.cache
def compiler_process() -> Worker:
    """The process in which torch.compile is watched."""
    return Worker("torch's compiler")


@functools.cache
def gpu_process() -> Worker:
    """The process that times on this machine's GPU: in the other one GPUs are told of that are not
    there.
    """
    return Worker("torch on the GPU")


@dataclass(frozen=True, eq=False)
class CapturedCall:
    """A call as it was captured.

    Attributes:
        shipped: function, positional and keyword arguments, pickled.
        request: the options of `kernellab.graph`, and the function's name.
    """

    shipped: bytes
    request: Mapping[str, Any]

    def ask(self, function: str, *more: Any, process: Worker | None = None) -> Any:
        """What "module:function" makes of the call in its process."""
        worker = process or compiler_process()
        return worker.call(function, self.shipped, dict(self.request), *more, seconds=SECONDS)


def call_of(call: CapturedCall | None, what: str) -> CapturedCall:
    """The call of a report that has one, compiled by Inductor.

    Raises:
        NotRecorded: it has none: it was read from a file, or left by a backend.
        ArgumentError: it was compiled by another backend.
    """
    if call is not None and call.request.get("backend") is not None:
        raise ArgumentError(
            f"{what} is of what Inductor makes of a call, and this report is of another backend",
            advice="kernellab.graph(function, *args) without backend= is Inductor's.",
        )
    if call is not None:
        return call
    raise NotRecorded(
        f"{what} calls the function again, which this report does not hold: it was read from a "
        "file, or left by a backend of torch.compile",
        advice=f"kernellab.graph(function, *args).{what}() has it.",
    )
