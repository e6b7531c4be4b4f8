"""The expected results of a launch, which its author gives by parameter or as a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.common.text import what_it_raised
from kernellab.compiler.arguments import tensor_of
from kernellab.compiler.binding import BoundCall
from kernellab.errors import ArgumentError, suggestion
from kernellab.interpreter.execution.program import (
    EVERYTHING,
    Arguments,
    ProgramCode,
    entry_of,
    memory_effects,
)
from kernellab.ir.operations import argument_name
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.preparation import PreparedLaunch
from kernellab.launch.results import Within
from kernellab.records.display import described

Reference = Mapping[str, Any] | Callable[..., Any]
"""Expected results by parameter, or a function of the launch's arguments that returns them."""


class Results(dict[str, torch.Tensor]):
    """Expected results by parameter, with the argument's shape and dtype.

    Attributes:
        allowed: how far each element may be off, float64, of the results whose author stated it.
    """

    def __init__(
        self,
        values: Mapping[str, torch.Tensor] | None = None,
        allowed: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(values or {})
        self.allowed = allowed or {}


@dataclass(frozen=True)
class Usage:
    """The tensors that a kernel uses, known before it runs.

    Attributes:
        reads: the parameters of tensors that it only reads; if there are none, of all that it
            reads.
        writes: the parameters of tensors that it writes.
        updates: those of them that only its atomics use.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    updates: tuple[str, ...]


def usage_of(code: ProgramCode, call: BoundCall) -> Usage:
    """Return the tensors of a call that a kernel's code reads and writes."""
    function = entry_of(code.module)
    entry = function.body.blocks[0]
    tensors = dict(tensors_in(call.values))
    names = {arg.index: argument_name(arg) for arg in entry.args}
    effects = memory_effects(code)

    def named(numbers: Arguments) -> set[str]:
        return set(tensors) if numbers is EVERYTHING else {names[n] or "" for n in numbers}

    written = named(effects.stored) | named(effects.updated)
    read, stored = named(effects.loaded), named(effects.stored)
    return Usage(
        tuple(name for name in tensors if name in (read - written or read)),
        tuple(name for name in tensors if name in written),
        tuple(name for name in tensors if name in written - read - stored),
    )


def expected_results(
    expect: Reference | None, launch: PreparedLaunch, code: ProgramCode
) -> Results:
    """Return the expected results of a launch; none if `expect` is None. Raises ArgumentError: as
    `right_results`.
    """
    if expect is None:
        return Results()
    usage = usage_of(code, launch.call)
    keywords = {
        name: value for name, value in launch.keywords.items() if name in launch.call.values
    }
    return right_results(expect, launch.kernel, launch.args, keywords, usage, called="expect")


def right_results(
    reference: Reference,
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    usage: Usage | None = None,
    *,
    called: str = "reference",
) -> Results:
    """Return the expected results of a launch.

    A function whose parameters have names of kernel parameters is called with these arguments. Any
    other is called as the kernel is; or, if `usage` is known and the arguments do not fit the
    function, with the tensors that the kernel only reads, in their order, as `torch.matmul` can be.
    It returns results by parameter (a tensor or a `Within` of each), the tensor that the kernel
    writes, or a tuple of all tensors that it writes.

    Args:
        usage: None if it is not known; then results must be given by parameter.
        called: the name of the reference in errors.

    Raises:
        ArgumentError: it raised an error, or did not return tensors of the arguments' shapes.
    """
    given = {**dict(zip(kernel.arg_names, args)), **keywords}
    returned: Any = reference
    if callable(reference):
        returned = _called(reference, kernel, args, keywords, given, usage, called)
    results = _by_parameter(returned, usage)
    if not results:
        kind = "nothing" if isinstance(returned, Mapping) else described(returned)
        raise ArgumentError(
            f"{called} must give results by the names of their parameters, got {kind}.",
            advice=_forms(called, usage),
            position=triton_api.definition_of(kernel),
        )
    allowed = {name: value.allowed for name, value in results.items() if isinstance(value, Within)}
    fitting = {
        name: _fitting(
            kernel, name, value.values if isinstance(value, Within) else value, given, called
        )
        for name, value in results.items()
    }
    return Results(fitting, allowed)


def _by_parameter(returned: Any, usage: Usage | None) -> Mapping[str, Any]:
    """Return what a reference returned by parameter; nothing if that is not clear."""
    if isinstance(returned, Mapping):
        return returned
    writes = () if usage is None else usage.writes
    if isinstance(returned, torch.Tensor | numpy.ndarray):
        returned = (returned,)
    is_one_each = isinstance(returned, tuple | list) and len(returned) == len(writes)
    return dict(zip(writes, returned)) if is_one_each else {}


def _forms(called: str, usage: Usage | None) -> str:
    written = () if usage is None else usage.writes
    name = written[0] if written else "z_ptr"
    example = f'For example {called}={{"{name}": x + y}}, or a function of the launch\'s arguments'
    if usage is None:
        return f"{example} that returns it."
    return f"{example} that returns it, or one tensor for each of {', '.join(written)}."


def _called(
    function: Callable[..., Any],
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    given: Mapping[str, Any],
    usage: Usage | None,
    called: str,
) -> Any:
    args, keywords = _arguments(function, kernel, args, keywords, given, usage)
    try:
        return function(
            *map(_copied, args), **{name: _copied(value) for name, value in keywords.items()}
        )
    except Exception as error:  # a function of the user
        if usage is None:
            names = [*kernel.arg_names[: len(args)], *(f"{name}={name}" for name in keywords)]
            advice = (
                f"It must take the kernel's arguments, ({', '.join(names)}), and return the "
                "expected tensors by parameter name."
            )
        else:
            names = [
                *(name for name, value in given.items() if any(value is arg for arg in args)),
                *keywords,
            ]
            advice = (
                f"It was called with ({', '.join(names)}). A function whose parameters have the "
                "names of kernel parameters is called with these: "
                f"lambda {', '.join(usage.reads)}: ..."
            )
        raise ArgumentError(what_it_raised(called, error), advice=advice) from error


def _arguments(
    function: Callable[..., Any],
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    given: Mapping[str, Any],
    usage: Usage | None,
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments with which a function is called; see `right_results`."""
    reads = None if usage is None else [given[name] for name in usage.reads]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C has no signature
        return (args, keywords) if reads is None else (reads, {})
    parameters = signature.parameters.values()
    named = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    if named and len(named) == len(parameters) and set(named) <= set(given):
        return (), {name: given[name] for name in named}
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind in _POSITIONAL
    ]
    if reads is not None and needed and len(needed) == len(reads) != len(kernel.arg_names):
        return reads, {}
    try:
        signature.bind(*args, **keywords)
    except TypeError:
        return (args, keywords) if reads is None else (reads, {})
    return args, keywords


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _copied(value: Any) -> Any:
    """Return a copy of a tensor, since a reference may change its arguments."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def _fitting(
    kernel: Any, name: str, value: Any, given: Mapping[str, Any], called: str
) -> torch.Tensor:
    result, argument = tensor_about(value), tensor_about(given.get(name))
    if argument is None:
        tensors = [key for key, other in given.items() if tensor_about(other) is not None]
        raise ArgumentError(
            f"{called} must name tensor arguments of {kernel.__name__!r}, got {name!r}.",
            advice=suggestion(name, tensors, "Its tensors are"),
        )
    if result is None or result.shape != argument.shape:
        kind = described(value) if result is None else f"the shape {list(result.shape)}"
        raise ArgumentError(
            f"{called} must give {name!r} the shape {list(argument.shape)} of the argument, "
            f"got {kind}."
        )
    result = result.detach().to(argument.device)
    try:
        fitting = result.to(argument.dtype)
    except RuntimeError as error:  # a quantized tensor, a sparse one
        raise ArgumentError(
            f"{called} gives {name!r} as {result.dtype}, which torch cannot convert to "
            f"{argument.dtype}: {error}"
        ) from error
    # What is less precise stays so, for the tolerance; so does what an integer cannot hold.
    if argument.is_floating_point() or argument.is_complex():
        is_coarser = result.is_floating_point() and result.itemsize < argument.itemsize
        return result if is_coarser else fitting
    whole = result.trunc() if result.is_floating_point() else result
    return fitting if torch.equal(fitting.to(whole.dtype), whole) else result


def tensor_about(value: Any) -> torch.Tensor | None:
    """Return the tensor of an argument, also of a descriptor; None for anything else."""
    if isinstance(value, numpy.ndarray):
        return tensor_of(value)
    if isinstance(value, torch.Tensor):
        return value
    inside = getattr(value, "base", None)
    return inside if isinstance(inside, torch.Tensor) else None
