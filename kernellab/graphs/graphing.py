"""`kernellab.graph`: one call under torch.compile, opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernellab.common.argument_checks import check_choice, check_flags, check_mapping
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.errors import ArgumentError, WorkerError, WorkerLost
from kernellab.graphs.backends import OURS
from kernellab.graphs.calls import CapturedCall
from kernellab.graphs.capturing import nothing_captured, with_sources
from kernellab.graphs.gpus import gpu_named
from kernellab.graphs.report import GraphReport
from kernellab.graphs.shipping import shipped

MODES = (
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)


@dataclass(frozen=True)
class GraphOptions:
    """What is asked of a capture; see `graph`."""

    gpu: Any = "h200"
    backward: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    fullgraph: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    levels: bool = True
    backend: Any = None


@names_bad_arguments
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
    **keywords: Any,
) -> GraphReport:
    """Compile a call with torch.compile for a GPU that need not be there, and give every level of
    it: bytecode, FX, ATen, primitives, loop IR, Triton.

    The call runs once on the CPU, in a process of its own; the code is Inductor's own for that GPU.

    Args:
        function: a function of tensors, or a module.
        args, keywords: what it is called with; tensors on the CPU.
        gpu: "h200", "h100", "a100", "l40s", "b200", "mi300x", or a target such as "sm_90".
        backward: also the gradient, of everything in the result that has one.
        dynamic, fullgraph: as for torch.compile.
        mode: torch.compile's: "max-autotune", ...; nothing is timed, so that a template's first
            candidate is taken.
        options: Inductor's, such as {"max_fusion_size": 1}.
        levels: also record primitive operations and every pass, which takes longer.
        backend: another one than Inductor, on the CPU: a function as torch.compile takes it, or
            the name of one that is installed (`kernellab.backends()`). `options` are its own then;
            the report ends where the backend takes over.

    Returns:
        The report: how far it came, and where and why it stopped, which it does after six minutes;
        of a process that died that alone.

    Raises:
        ArgumentError: the function or an argument cannot be captured here.
        TargetError: no GPU is called so.
        WorkerLost: no process could be started, or somebody killed it.
    """
    if options is not None:
        check_mapping("options", options, '{"max_fusion_size": 1}')
    given = {} if options is None else dict(options)
    asked = GraphOptions(gpu, backward, dynamic, mode, fullgraph, given, levels, backend)
    return graph_call(function, args, keywords, asked)


def graph_call(
    function: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    options: GraphOptions,
) -> GraphReport:
    """See `graph`; here a function's keywords may be called as an option is."""
    named = gpu_named(options.gpu)
    if isinstance(function, type) or not callable(function):
        raise ArgumentError(
            f"graph takes a function or a module, and this is of type {type(function).__name__}",
            advice="Give what you would give to torch.compile, and its arguments after it.",
        )
    check_flags(backward=options.backward, fullgraph=options.fullgraph, levels=options.levels)
    if options.dynamic is not None:
        check_flags(dynamic=options.dynamic)
    if options.mode is not None:
        check_choice("mode", options.mode, MODES)
    check_tensors(function, args, keywords)
    name = name_of(function)
    backend = _backend(options.backend)
    request = {**vars(options), "gpu": named.name, "name": name, "backend": backend}
    call = CapturedCall(shipped(function, (function, args, keywords), name), request)
    try:
        found = call.ask("kernellab.graphs.in_worker:capture")
    except WorkerLost:
        raise  # whatever the function is
    except WorkerError as error:
        return GraphReport(nothing_captured(name, named, str(error)), call)
    return GraphReport(with_sources(found), call)


def name_of(function: Any) -> str:
    """What messages and titles call a function or a module."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _backend(given: Any) -> str | bytes | None:
    """A backend as it is sent: by name, or pickled; None for Inductor."""
    is_name = issubclass(type(given), str)  # not what only says that it is one
    if given is None or (is_name and given in OURS):
        return None
    if is_name:
        return str(given)
    if not callable(given) or isinstance(given, type):
        raise ArgumentError(
            f"backend is of type {type(given).__name__}: neither a function nor a name",
            advice="Give a function of a graph and its inputs, or one of kernellab.backends().",
        )
    return shipped(given, given, "backend")


def check_tensors(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise ArgumentError unless tensors and parameters are on the CPU."""
    import torch

    for place, value in _places(args, keywords):
        if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta"):
            raise ArgumentError(
                f"{place} is on {value.device}: graph captures on the CPU, for any GPU",
                advice=f"Give {place}.cpu().",
            )
    if isinstance(function, torch.nn.Module):
        for name, parameter in [*function.named_parameters(), *function.named_buffers()]:
            if parameter.device.type not in ("cpu", "meta"):
                raise ArgumentError(
                    f"parameter {name!r} is on {parameter.device}: graph captures on the CPU, "
                    "for any GPU",
                    advice="Give a copy of the module: copy.deepcopy(module).cpu().",
                )


def _places(args: Any, keywords: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(args):
        yield f"argument {number + 1}", value
    yield from keywords.items()
