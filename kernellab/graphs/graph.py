"""`kernellab.graph`: capture everything that torch.compile makes of a call; and
`kernellab.tracers`: compare what each of torch's tracers captures of a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import check_choice, check_flags, check_mapping
from kernellab.common.processes import Worker
from kernellab.common.text import shown
from kernellab.errors import ArgumentError, OptionError, WorkerError, WorkerLost, suggestion
from kernellab.graphs.captures import OURS, gpu_named, nothing_captured, with_sources
from kernellab.graphs.processes import shipped
from kernellab.graphs.report import CapturedCall, GraphReport

if TYPE_CHECKING:
    import pandas

    from kernellab.torch_api.capture import CallArguments

# `kernellab.graph`: capture everything that torch.compile makes of a call.


MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class GraphOptions:
    """The options of a capture; see `graph`."""

    gpu: Any = "h200"
    backward: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    fullgraph: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    levels: bool = True
    backend: Any = None
    calls: Any = ()


def graph(
    function: Callable[..., Any],
    *args: Any,
    gpu: Any = GraphOptions.gpu,
    backward: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    fullgraph: bool = False,
    options: Mapping[str, Any] | None = None,
    levels: bool = True,
    backend: Any = None,
    calls: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> GraphReport:
    """Compile a call with torch.compile for a GPU that this machine need not have, and return every
    level: bytecode, FX, ATen, primitives, loop IR, Triton.

    The call runs once on the CPU, in a copy of this process with all of torch's settings, so
    nothing here changes. The code is what Inductor generates for that GPU.

    Args:
        function: a function of tensors, or a module.
        args, keywords: its arguments. Tensors and parameters of a GPU are copied to the CPU; those
            on the meta device, or fake, are taken as a GPU's: then the call computes no values and
            takes no memory for them.
        gpu: "h200", "h100", "a100", "l40s", "b200", "mi300x", or a target such as "sm_90".
        backward: whether to compute the gradient of everything in the result that has one.
        dynamic, fullgraph: as for torch.compile.
        mode: as for torch.compile: "max-autotune", ...; nothing is timed, so a template's first
            candidate is taken.
        options: Inductor's options, such as {"max_fusion_size": 1}.
        levels: whether to also record primitive operations and every pass, which takes longer.
        backend: a backend to use instead of Inductor, on the CPU: a function as torch.compile takes
            it, or the name of an installed backend (`kernellab.backends()`). `options` are then the
            backend's, and the report ends where the backend starts.
        calls: instead of `args`, the arguments of several calls, one after another: a tuple for
            each call, or one argument; a dict holds keyword arguments. `report.recompilations` then
            says which call was compiled again and why. The methods of the report repeat the first.
        kwargs: more keyword arguments of the function, for names that are options here:
            {"mode": "bilinear"}.

    Returns:
        The report. A capture that fails, or that takes more than six minutes, ends with a report of
        what there is and the error; if its process died, only with the error.

    Raises:
        ArgumentError: the function or an argument cannot be captured here.
        TargetError: there is no GPU of that name.
        WorkerLost: the process could not be started, or was killed from outside.
    """
    if options is not None:
        check_mapping("options", options, '{"max_fusion_size": 1}')
    given = {} if options is None else dict(options)
    if kwargs is not None:
        check_mapping("kwargs", kwargs, '{"mode": "bilinear"}')
        keywords = {**keywords, **kwargs}
    given_calls: list[CallArguments] = [(args, keywords)]
    if calls is not None:
        given_calls = _calls(calls, args, keywords)
    (first, named), *more = given_calls
    request = GraphOptions(gpu, backward, dynamic, mode, fullgraph, given, levels, backend, more)
    return graph_call(function, first, named, request)


def _calls(calls: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[CallArguments]:
    if args or keywords:
        raise ArgumentError(
            "graph takes the arguments of one call, or calls, but not both.",
            advice="Write graph(f, calls=[(x,), (y,)]), with all calls in the list.",
        )
    if not isinstance(calls, list | tuple) or not calls:
        raise ArgumentError(
            f"calls must be a list of at least one tuple of arguments, got {shown(calls)}.",
            advice="Write graph(f, calls=[(x,), (y,)]).",
        )
    return [
        ((), dict(call))
        if isinstance(call, Mapping)
        else (tuple(call) if isinstance(call, list | tuple) else (call,), {})
        for call in calls
    ]


def graph_call(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any], options: GraphOptions
) -> GraphReport:
    """Capture a call as `graph` does, also if the function has a keyword named like an option."""
    named = gpu_named(options.gpu)
    if isinstance(function, type) or not callable(function):
        raise ArgumentError(
            f"graph takes a function or a module, got {shown(function)}.",
            advice="Pass what you would pass to torch.compile, then its arguments.",
        )
    check_flags(backward=options.backward, fullgraph=options.fullgraph, levels=options.levels)
    if options.dynamic is not None:
        check_flags(dynamic=options.dynamic)
    if options.mode is not None:
        check_choice("mode", options.mode, MODES)
    name = name_of(function)
    backend = _backend(options.backend)
    if backend is None:
        check_options(options.options)
    request = {**vars(options), "gpu": named.name, "name": name, "backend": backend}
    call = CapturedCall(function, args, keywords, request)
    try:
        capture = call.send("kernellab.graphs.jobs:capture")
    except WorkerLost:
        raise  # which does not depend on the function
    except WorkerError as error:
        return GraphReport(nothing_captured(name, named, str(error)), call)
    return GraphReport(with_sources(capture), call)


def name_of(function: Any) -> str:
    """Return the name of a function or a module for messages and titles."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _backend(given: Any) -> Any:
    """Return a backend, as a function or a name; None for Inductor."""
    is_name = issubclass(type(given), str)  # not isinstance, which `__class__` can deceive
    if given is None or (is_name and given in OURS):
        return None
    if is_name:
        return str(given)
    if not callable(given) or isinstance(given, type):
        raise ArgumentError(
            f"backend must be a function or a name, got {shown(given)}.",
            advice="Pass a function of a graph and its inputs, or a name of kernellab.backends().",
        )
    return given


def check_options(options: Mapping[str, Any]) -> None:
    """Raise OptionError, with the nearest name, unless Inductor has these options."""
    from kernellab.torch_api.capture import option_names

    known = option_names()
    for name in options:
        if name not in known:
            raise OptionError(
                f"Inductor has no option {name!r}.",
                advice=suggestion(str(name), known, "Its options are"),
            )


# `kernellab.tracers`: compare what each of torch's tracers captures of a function.


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
        ArgumentError: the function cannot be sent to another process, or fails itself with these
            arguments.
        WorkerError: the process died, or took longer than five minutes.
    """
    import pandas

    if isinstance(function, type) or not callable(function):
        raise ArgumentError(
            f"function must be callable, got {type(function).__name__}.",
            advice="Pass a function and its arguments, as for torch.jit.trace.",
        )
    if again is not None and not isinstance(again, tuple | list):
        raise ArgumentError(
            f"again must be a tuple of arguments, got {type(again).__name__}.",
            advice="Write tracers(f, x, again=(y,)).",
        )
    calls = [tuple(args)] if again is None else [tuple(args), tuple(again)]
    sent = shipped([function], (function, calls, keywords), name_of(function))
    rows = _process().call("kernellab.graphs.jobs:traced", sent, seconds=SECONDS)
    return pandas.DataFrame([vars(row) for row in rows])
