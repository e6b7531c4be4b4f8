"""`kernellab.tracers`: compare what each of torch's tracers captures of a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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


def tracers(
    function: Callable[..., Any], *args: Any, again: Sequence[Any] | None = None, **keywords: Any
) -> pandas.DataFrame:
    """Capture a function with each of torch's tracers, call the captured program, and compare it
    with the function: results, modified arguments, printed text, and surrounding variables.

    The function runs about ten times in a separate process on the CPU; the variables of this
    process do not change.

    Args:
        function: a function of tensors; other arguments are constants of the capture.
        args, keywords: the arguments of the capture and of the calls.
        again: positional arguments of a second call of the captured program, with other values
            or sizes. None calls it with `args` only.

    Returns:
        One row per tracer: tracer, outcome ("whole", "parts", "fixed", "wrong", "refused"),
        programs, operations, says.

    Raises:
        ArgumentError: the function cannot be sent to another process, a tensor is not on the CPU,
            or the function itself fails with these arguments.
        WorkerError: the process died, or took longer than five minutes.
    """
    import pandas

    if isinstance(function, type) or not callable(function):
        raise ArgumentError(
            f"function must be callable, got {type(function).__name__}.",
            advice="Pass a function as to torch.jit.trace, followed by its arguments.",
        )
    if again is not None and not isinstance(again, tuple | list):
        raise ArgumentError(
            f"again must be a tuple of arguments, got {type(again).__name__}.",
            advice="Write tracers(f, x, again=(y,)).",
        )
    calls = [tuple(args)] if again is None else [tuple(args), tuple(again)]
    for call_args in calls:
        check_tensors(function, call_args, keywords)
    sent = shipped(function, (function, calls, keywords), name_of(function))
    rows = _process().call("kernellab.graphs.worker.tracers:traced", sent, seconds=SECONDS)
    return pandas.DataFrame([vars(row) for row in rows])
