"""`kernellab.tracers`: one function captured by every tracer that torch has had, side by side."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.worker import Worker
from kernellab.errors import ArgumentError
from kernellab.graphs.graphing import check_tensors, name_of
from kernellab.graphs.shipping import shipped

if TYPE_CHECKING:
    import pandas

SECONDS = 300.0


@functools.cache
def _process() -> Worker:
    return Worker("torch's tracers")


@names_bad_arguments
def tracers(
    function: Callable[..., Any], *args: Any, again: Sequence[Any] | None = None, **keywords: Any
) -> pandas.DataFrame:
    """Capture a function with each of torch's tracers, call what comes of it, and compare with the
    function itself: results, arguments that it writes to, what it prints, variables around it.

    It runs in a process of its own, on the CPU, some ten times; variables of this one stay as they
    are.

    Args:
        function: a function of tensors; what is no tensor is a constant of the capture.
        args, keywords: what it is captured and called with.
        again: other positional arguments, with which the captured program is called as well: other
            values, other sizes. None to use `args` alone.

    Returns:
        One row a tracer: tracer, outcome ("whole", "parts", "fixed", "wrong", "refused"), programs,
        operations, says.

    Raises:
        ArgumentError: it cannot be sent to another process, or a tensor is not on the CPU, or the
            function itself fails with these arguments.
        WorkerError: the process died, or took longer than five minutes.
    """
    import pandas

    if isinstance(function, type) or not callable(function):
        raise ArgumentError(
            f"tracers takes a function, and this is of type {type(function).__name__}",
            advice="Give what you would give to torch.jit.trace, and its arguments after it.",
        )
    if again is not None and not isinstance(again, tuple | list):
        raise ArgumentError(
            f"again should be a tuple of arguments, and it is of type {type(again).__name__}",
            advice="As in tracers(f, x, again=(y,)).",
        )
    calls = [tuple(args)] if again is None else [tuple(args), tuple(again)]
    for one in calls:
        check_tensors(function, one, keywords)
    sent = shipped(function, (function, calls, keywords), name_of(function))
    found = _process().call("kernellab.graphs.in_tracers:traced", sent, seconds=SECONDS)
    return pandas.DataFrame([vars(row) for row in found])
