"""A finished sweep as a `Tuning`: what was launched, and what it moves and computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from kernellab.compiler.pipeline import compile_bound
from kernellab.errors import KernelLabError
from kernellab.launching import innermost
from kernellab.records import Target
from kernellab.specialize import BoundCall
from kernellab.tuning.calls import PreparedCall
from kernellab.tuning.records import Candidate, Dropped, Outcome, Trial
from kernellab.tuning.tunings import Live, Tuning, Work, type_strings
from kernellab.tuning.work import bytes_moved, flops_done, tensor_bytes

Amount = float | Callable[[Mapping[str, Any]], float]
"""Bytes or operations of a launch, or a function that gives them for the arguments by name."""


def describe(
    kernel: Any,
    target: Target,
    candidates: Sequence[Candidate],
    prepared: Sequence[PreparedCall | Dropped],
    outcomes: Mapping[int, Outcome],
    *,
    key: Sequence[str],
    bytes: Amount | None,
    flops: Amount | None,
    **facts: Any,
) -> Tuning:
    """The Tuning of a sweep.

    Args:
        kernel, target: what was tuned.
        candidates, prepared: every config with its launch, by number.
        outcomes: of those that were tried.
        key: names of the arguments that choose.
        bytes, flops: as for `tune`.
        facts: the Tuning's other fields.
    """
    plain = innermost(kernel)
    launches = {n: one for n, one in enumerate(prepared) if isinstance(one, PreparedCall)}
    tuned = {name for one in candidates for name in one.constants}
    fixed = [name for name in plain.arg_names if name not in tuned]
    values: Mapping[str, Any] = {}
    types: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    if launches:
        call = next(iter(launches.values())).call
        values = call.values
        types, constants = type_strings(call.specialization, fixed)
    counted = _counted(plain, target, launches, outcomes)
    work = _work(values, bytes, flops, counted)
    calls = {n: replace(one.call, values={}) for n, one in launches.items()}
    return Tuning(
        kernel=plain.__name__,
        target=target,
        key={name: values.get(name) for name in key},
        arguments={name: describe_value(values[name]) for name in fixed if name in values},
        types=types,
        constants=constants,
        trials=tuple(Trial(n, candidates[n], outcome) for n, outcome in outcomes.items()),
        work=work,
        live=Live(kernel, calls),
        **facts,
    )


def describe_value(value: Any) -> str:
    """ "float16[4096, 4096]", "4096"."""
    tensor = value if isinstance(value, torch.Tensor) else getattr(value, "base", None)
    if not isinstance(tensor, torch.Tensor):
        return repr(value)
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


# Bytes and operations


def _work(
    values: Mapping[str, Any],
    bytes: Amount | None,
    flops: Amount | None,
    counted: Callable[[], Work],
) -> Work:
    """What was given, and for the rest what can be counted."""
    given = [one(values) if callable(one) else one for one in (bytes, flops)]
    if None not in given:
        return Work(given[0], given[1], "given", "given")
    found = counted()
    if given[0] is not None:
        found = replace(found, bytes=float(given[0]), bytes_from="given")
    if given[1] is not None:
        found = replace(found, flops=float(given[1]), flops_from="given")
    return found


def _counted(
    kernel: Any,
    target: Target,
    launches: Mapping[int, PreparedCall],
    outcomes: Mapping[int, Outcome],
) -> Callable[[], Work]:
    def count() -> Work:
        for number, outcome in outcomes.items():
            if outcome.dropped is None and number in launches:
                return _count(kernel, target, launches[number])
        return Work(None, None, "no config is valid", "no config is valid")

    return count


def _count(kernel: Any, target: Target, launch: PreparedCall) -> Work:
    call: BoundCall = launch.call
    try:
        compilation = compile_bound(kernel, call, target, for_launch=True)
    except KernelLabError as error:
        return Work(None, None, error.problem, error.problem)
    sizes = {name: tensor_bytes(value) for name, value in call.values.items() if _has_size(value)}
    scalars = {n: v for n, v in call.values.items() if isinstance(v, int | float)}
    moved, how_moved = bytes_moved(compilation, sizes)
    if not sizes:
        return Work(None, None, "types have no sizes", "types have no sizes")
    programs = math.prod(launch.task.grid)
    done, how_done = flops_done(compilation, programs, scalars)
    return Work(moved, done, how_moved, how_done)


def _has_size(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or isinstance(getattr(value, "base", None), torch.Tensor)
