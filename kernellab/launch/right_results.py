"""What a launch should leave in its tensors, as its author says it: results by parameter, or a
function that computes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.specialization.argument_values import tensor_of
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import ArgumentError, suggestion
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, Arguments, memory_effects
from kernellab.interpreter.execution.program import ProgramCode, entry_of
from kernellab.ir.locations import argument_name
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.callbacks import what_it_raised
from kernellab.launch.preparation import PreparedLaunch
from kernellab.records.showing import described

Reference = Mapping[str, Any] | Callable[..., Any]
"""Right results by parameter, or a function of the launch's arguments that gives them."""

Results = dict[str, torch.Tensor]
"""By parameter, of the argument's shape and dtype."""


@dataclass(frozen=True)
class Usage:
    """What is known of a kernel before it runs.

    Attributes:
        reads: parameters of the tensors that it reads only; where there are none, that it reads.
        writes: parameters of those that it writes.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def usage_of(code: ProgramCode, call: BoundCall) -> Usage:
    """What a kernel's code does to the tensors of a call."""
    function = entry_of(code.module)
    entry = function.body.blocks.first
    assert entry is not None
    tensors = dict(tensors_in(call.values))
    names = {one.index: argument_name(one) for one in entry.args}
    effects = memory_effects(code)

    def named(numbers: Arguments) -> set[str]:
        return set(tensors) if numbers is EVERYTHING else {names[n] or "" for n in numbers}

    written = named(effects.stored) | named(effects.updated)
    read = named(effects.loaded)
    return Usage(
        tuple(name for name in tensors if name in (read - written or read)),
        tuple(name for name in tensors if name in written),
    )


def expected_results(
    expect: Reference | None, launch: PreparedLaunch, code: ProgramCode
) -> Results:
    """What the author of a launch expects of it; nothing where nobody said any.

    Raises:
        ArgumentError: as `right_results`.
    """
    if expect is None:
        return {}
    usage = usage_of(code, launch.call)
    keywords = {name: one for name, one in launch.keywords.items() if name in launch.call.values}
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
    """The right results of a launch.

    A function whose own parameters are named as some of the kernel's is called with these by name.
    Any other is called as the kernel is; or, where `usage` is known and so many arguments do not
    fit it, with the tensors that the kernel reads only, in their order: `torch.matmul`. It returns
    results by parameter; or the one tensor that the kernel writes, or a tuple of all that it does.

    Args:
        usage: None where it is not known; then results are needed by parameter.
        called: what the reference is called in errors.

    Raises:
        ArgumentError: it raises, or gives something else than tensors of the arguments' shapes.
    """
    given = {**dict(zip(kernel.arg_names, args)), **keywords}
    found: Any = reference
    if callable(reference):
        found = _called(reference, kernel, args, keywords, given, usage, called)
    results = _by_parameter(found, usage)
    if not results:
        kind = "nothing" if isinstance(found, Mapping) else described(found)
        raise ArgumentError(
            f"the {called} gives {kind}; right results are needed by the names of the parameters "
            "that they belong to",
            advice=_forms(called, usage),
            position=triton_api.definition_of(kernel),
        )
    return {name: _fitting(kernel, name, value, given, called) for name, value in results.items()}


def _by_parameter(found: Any, usage: Usage | None) -> Mapping[str, Any]:
    """What a reference gives, by parameter; nothing where that is not clear."""
    if isinstance(found, Mapping):
        return found
    writes = () if usage is None else usage.writes
    if isinstance(found, torch.Tensor | numpy.ndarray):
        found = (found,)
    is_one_each = isinstance(found, tuple | list) and len(found) == len(writes)
    return dict(zip(writes, found)) if is_one_each else {}


def _forms(called: str, usage: Usage | None) -> str:
    written = () if usage is None else usage.writes
    name = written[0] if written else "z_ptr"
    example = f'As in {called}={{"{name}": x + y}}, or a function of the launch\'s arguments'
    if usage is None:
        return f"{example} that returns that."
    return f"{example} that returns that, or one tensor for each of {', '.join(written)}."


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
            *map(_copied, args), **{name: _copied(one) for name, one in keywords.items()}
        )
    except Exception as error:
        if usage is None:
            told = [*kernel.arg_names[: len(args)], *(f"{name}={name}" for name in keywords)]
            advice = (
                f"It is called as the kernel is, with ({', '.join(told)}), and returns right "
                "results by parameter."
            )
        else:
            told = [
                *(name for name, one in given.items() if any(one is x for x in args)),
                *keywords,
            ]
            advice = (
                f"It was called with ({', '.join(told)}). Give its parameters names of the "
                "kernel's, and it gets those: "
                f"lambda {', '.join(usage.reads)}: ..."
            )
        raise ArgumentError(what_it_raised(f"the {called}", error), advice=advice) from error


def _arguments(
    function: Callable[..., Any],
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    given: Mapping[str, Any],
    usage: Usage | None,
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """By which a function is called; see `right_results`."""
    reads = None if usage is None else [given[name] for name in usage.reads]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C has none
        return (args, keywords) if reads is None else (reads, {})
    parameters = signature.parameters.values()
    named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if named and len(named) == len(parameters) and set(named) <= set(given):
        return (), {name: given[name] for name in named}
    needed = [one for one in parameters if one.default is one.empty and one.kind in _POSITIONAL]
    if reads is not None and needed and len(needed) == len(reads) != len(kernel.arg_names):
        return reads, {}
    try:
        signature.bind(*args, **keywords)
    except TypeError:
        return (args, keywords) if reads is None else (reads, {})
    return args, keywords


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _copied(value: Any) -> Any:
    """A tensor's copy: what a reference does to its arguments is its own affair."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def _fitting(
    kernel: Any, name: str, value: Any, given: Mapping[str, Any], called: str
) -> torch.Tensor:
    result, argument = tensor_about(value), tensor_about(given.get(name))
    if argument is None:
        tensors = [one for one, other in given.items() if tensor_about(other) is not None]
        raise ArgumentError(
            f"the {called} names {name!r}, which is no tensor among the arguments of "
            f"{kernel.__name__!r}",
            advice=suggestion(name, tensors, "Its tensors are"),
        )
    if result is None or result.shape != argument.shape:
        shape = "no tensor" if result is None else f"of shape {list(result.shape)}"
        raise ArgumentError(
            f"the {called}'s {name!r} is {shape}, and the argument is of shape "
            f"{list(argument.shape)}"
        )
    try:
        return result.detach().to(argument.dtype)
    except RuntimeError as error:  # a quantized tensor, a sparse one
        raise ArgumentError(
            f"the {called}'s {name!r} is of {result.dtype}, which torch does not make "
            f"{argument.dtype} of: {error}"
        ) from error


def tensor_about(value: Any) -> torch.Tensor | None:
    """The tensor that an argument is, or is about, as a descriptor is; None for anything else."""
    if isinstance(value, numpy.ndarray):
        return tensor_of(value)
    if isinstance(value, torch.Tensor):
        return value
    inside = getattr(value, "base", None)
    return inside if isinstance(inside, torch.Tensor) else None
