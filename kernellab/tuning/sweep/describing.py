"""A finished sweep as a `Tuning`: what was launched, and what it moves and computes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy
import torch

from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.argument_formatting import format_argument
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.launch.argument_copies import without_memory
from kernellab.launch.callbacks import called_with_a_dict, what_it_raised
from kernellab.launch.preparation import innermost
from kernellab.records import Target
from kernellab.tuning.files.call_types import types_of_calls
from kernellab.tuning.files.kernel_source import source_of
from kernellab.tuning.results.records import (
    Candidate,
    Dropped,
    Outcome,
    Trial,
    Work,
)
from kernellab.tuning.results.tuning import Live, Tuning
from kernellab.tuning.results.work import bytes_moved, flops_done, tensor_bytes
from kernellab.tuning.sweep.calls import PreparedCall

Amount = float | Callable[[Mapping[str, Any]], float]
"""Bytes or operations of a launch, or a function that is called with one dict of the arguments
by name, and gives them."""


def describe(
    kernel: Any,
    target: Target,
    candidates: Sequence[Candidate],
    prepared: Sequence[PreparedCall | Dropped],
    outcomes: Mapping[int, Outcome],
    *,
    key: Mapping[str, Any],
    said: Work,
    **facts: Any,
) -> Tuning:
    """The Tuning of a sweep.

    Args:
        kernel, target: what was tuned.
        candidates, prepared: every config with its launch, by number.
        outcomes: of those that were tried.
        key: the arguments that choose, as they were given.
        said: the bytes and operations that the user gave.
        facts: the Tuning's other fields.
    """
    plain = innermost(kernel)
    launches = {n: one for n, one in enumerate(prepared) if isinstance(one, PreparedCall)}
    tuned = {name for one in candidates for name in one.constants}
    fixed = [name for name in plain.arg_names if name not in tuned]
    values: Mapping[str, Any] = {}
    if launches:
        values = next(iter(launches.values())).call.values
    found = types_of_calls({n: one.call for n, one in launches.items()}, fixed)
    valid = (n for n, one in outcomes.items() if one.dropped is None and n in launches)
    count = _counter(plain, target, launches.get(next(valid, -1)), said)
    calls = {n: replace(one.call, values={}) for n, one in launches.items()}
    return Tuning(
        kernel=plain.__name__,
        target=target,
        key={name: values.get(name, value) for name, value in key.items()},
        arguments={name: describe_value(values[name]) for name in fixed if name in values},
        types=found.types,
        constants=found.constants,
        trials=tuple(
            Trial(n, candidates[n], outcome, *found.own.get(n, ({}, {})))
            for n, outcome in outcomes.items()
        ),
        source=source_of(plain, _constants(found.constants, launches.values(), candidates)),
        known_work=None if None in (said.bytes, said.flops) else said,
        live=Live(kernel, calls, count),
        **facts,
    )


def _constants(
    shared: Mapping[str, Any], launches: Iterable[PreparedCall], candidates: Iterable[Candidate]
) -> list[Any]:
    """The values that configs have compiled in."""
    own = [one.call.specialization.constants.values() for one in launches]
    tried = [one.constants.values() for one in candidates]
    return [value for values in (shared.values(), *own, *tried) for value in values]


def describe_value(value: Any) -> str:
    """ "float16[4096, 4096]", "4096"."""
    base = getattr(value, "base", None)  # of a tensor descriptor
    return format_argument(base if isinstance(base, torch.Tensor) else value)


# Bytes and operations


def given_work(
    bytes: Amount | None, flops: Amount | None, prepared: Sequence[PreparedCall | Dropped]
) -> Work:
    """What the user says that a launch moves and computes; None of what nobody said.

    Raises:
        ArgumentError: it is no number.
    """
    values = next((one.call.values for one in prepared if isinstance(one, PreparedCall)), {})
    amounts = [_amount(name, one, values) for name, one in (("bytes", bytes), ("flops", flops))]
    return Work(amounts[0], amounts[1], "given", "given")


def _amount(name: str, given: Amount | None, values: Mapping[str, Any]) -> float | None:
    if given is None or (callable(given) and not values):
        return None
    example = f"{name}=lambda a: 4 * a['n']"
    advice = (
        f"Give a number, or a function that is called with one dict of all arguments: {example}."
    )
    try:
        found: Any = given(values) if callable(given) else given
    except Exception as error:
        raise ArgumentError(
            what_it_raised(f"the function {name}=", error),
            advice=called_with_a_dict(given, values, example) if callable(given) else advice,
        ) from error
    if (
        isinstance(found, bool)
        or not isinstance(found, int | float | numpy.number)
        or not found >= 0
    ):
        raise ArgumentError(f"{name}= gives {found!r}, which is no number of them", advice=advice)
    return float(found)


def _counter(
    kernel: Any, target: Target, launch: PreparedCall | None, given: Work
) -> Callable[[], Work]:
    """Counts what was not said, for any config; keeps no tensor's memory."""
    if launch is None:
        return lambda: given
    # A weak reference: sweeps are remembered by their kernel, and must not keep it alive.
    alive = weakref.ref(kernel)
    seen = {name: without_memory(value) for name, value in launch.call.values.items()}
    call, programs = replace(launch.call, values=seen), math.prod(launch.task.grid)

    def count() -> Work:
        found = _count(alive(), target, call, programs)
        if given.bytes is not None:
            found = replace(found, bytes=given.bytes, bytes_from=given.bytes_from)
        if given.flops is not None:
            found = replace(found, flops=given.flops, flops_from=given.flops_from)
        return found

    return count


def _count(kernel: Any, target: Target, call: BoundCall, programs: int) -> Work:
    if kernel is None:
        return Work(None, None, "the kernel is gone", "the kernel is gone")
    try:
        compilation = compile_bound(kernel, call, target, for_launch=True)
    except KernelLabError as error:
        return Work(None, None, error.problem, error.problem)
    sizes = {name: tensor_bytes(value) for name, value in call.values.items() if _has_size(value)}
    if not sizes:
        return Work(None, None, "types have no sizes", "types have no sizes")
    scalars = {name: one for name, one in call.values.items() if isinstance(one, int | float)}
    moved, how_moved = bytes_moved(compilation, sizes)
    done, how_done = flops_done(compilation, programs, scalars)
    return Work(moved, done, how_moved, how_done)


def _has_size(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or isinstance(getattr(value, "base", None), torch.Tensor)
