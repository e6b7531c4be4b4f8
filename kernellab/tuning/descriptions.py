"""Make a `Tuning` of a finished sweep: what was launched, and what it moves and computes."""

from __future__ import annotations

import ast
import math
import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
import torch

from kernellab.common.arguments import is_real, plain_scalar
from kernellab.common.text import called_with_a_dict, what_it_raised
from kernellab.compiler.arguments import format_argument
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.modules import underlying_argument
from kernellab.compiler.pipeline import compile_bound
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.ir.operations import GlobalAccess, GlobalRead, GlobalWrite, has, trait_of
from kernellab.launch.argument_copies import without_memory
from kernellab.launch.preparation import innermost
from kernellab.records import Specialization, Target
from kernellab.tuning.configs import PreparedCall
from kernellab.tuning.records import Candidate, Dropped, Outcome, Trial, Work, source_of
from kernellab.tuning.tuning import Live, Tuning


def tensor_bytes(value: Any) -> int:
    """Return the bytes of a tensor's distinct elements: an expanded dimension has one."""
    tensor = value if isinstance(value, torch.Tensor) else value.base
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride()) if stride]
    return int(math.prod(sizes)) * int(tensor.element_size())


def bytes_moved(compilation: Compilation, sizes: Mapping[str, int]) -> tuple[float | None, str]:
    """Return the least that a launch moves: each tensor once, or twice if read and written.
    `sizes`: bytes of each tensor among the arguments. Returns the bytes, and how they were counted;
    None if an access does not start from an argument.
    """
    touched: set[tuple[str, type]] = set()
    for op in compilation.module(_first_stage(compilation)).walk():
        access = trait_of(op, GlobalAccess)
        if access is None:
            continue
        memory = access.base_of(op)
        name = underlying_argument(memory)
        if name not in sizes:
            return None, "an access does not start from a tensor of the arguments"
        touched |= {(name, how) for how in (GlobalRead, GlobalWrite) if has(op, how)}
    total = sum(sizes[name] for name, _ in touched)
    return float(total), "counted: each tensor that the kernel reads or writes, whole and once"


def _first_stage(compilation: Compilation) -> str:
    """Return the stage nearest to the source: a Gluon kernel has no TTIR."""
    return "ttir" if "ttir" in compilation.stages else "ttgir"


def flops_done(
    compilation: Compilation, programs: int, scalars: Mapping[str, Any]
) -> tuple[float | None, str]:
    """Return a launch's floating-point operations from the IR of one config; masked elements count.

    Args:
        programs: how many the launch has.
        scalars: numbers among the arguments, for the trip counts of loops.

    Returns:
        The operations, and how they were counted; None if a trip count depends on more than the
        arguments, or the kernel has operations that are not counted.
    """
    for op in compilation.module(_first_stage(compilation)).walk():
        if not op.name.startswith("tt.") and any(name in op.name for name in _PRODUCTS_OF_GLUON):
            return None, f"operations of {op.name} are not counted"
    total = 0.0
    try:
        for loops, operations in compilation.work().flops.items():
            times = _number(ast.parse(loops, mode="eval").body, scalars)
            total += operations * times * programs
    except (SyntaxError, KeyError, KernelLabError, ValueError, ZeroDivisionError):
        return None, "the trip count of a loop is not known before it runs"
    return total, "counted from the IR of one config, including masked elements"


_PRODUCTS_OF_GLUON = ("_mma", "warp_group_dot", "wmma", "mfma")


_OPERATORS: Mapping[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def _number(node: ast.expr, scalars: Mapping[str, Any]) -> float:
    """Evaluate a trip count as `Work` writes it: "ceil(K / 64) * 2"."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return float(scalars[name])
        case ast.BinOp(left=left, op=op, right=right):
            result: float = _OPERATORS[type(op)](_number(left, scalars), _number(right, scalars))
            return result
        case ast.Call(func=ast.Name(id="ceil"), args=[inside]):
            return math.ceil(_number(inside, scalars))
        case _:
            raise ValueError(f"{ast.unparse(node)} is not a number")


Amount = float | Callable[[Mapping[str, Any]], float]
"""Bytes or operations of a launch, or a function of the dict of its arguments by name."""


def describe(
    kernel: Any,
    target: Target,
    candidates: Sequence[Candidate],
    prepared: Sequence[PreparedCall | Dropped],
    outcomes: Mapping[int, Outcome],
    *,
    key: Mapping[str, Any],
    given_work: Work,
    **facts: Any,
) -> Tuning:
    """Return the Tuning of a sweep.

    Args:
        kernel, target: what was tuned.
        candidates, prepared: every config with its launch, by number.
        key: the arguments that choose the config, as they were given.
        given_work: the bytes and operations that the user gave.
    """
    plain = innermost(kernel)
    launches = {n: launch for n, launch in enumerate(prepared) if isinstance(launch, PreparedCall)}
    tuned = {name for candidate in candidates for name in candidate.constants}
    fixed = [name for name in plain.arg_names if name not in tuned]
    values: Mapping[str, Any] = {}
    if launches:
        values = next(iter(launches.values())).call.values
    call_types = types_of_calls({n: launch.call for n, launch in launches.items()}, fixed)
    valid = (n for n, outcome in outcomes.items() if outcome.dropped is None and n in launches)
    count = _counter(plain, target, launches.get(next(valid, -1)), given_work)
    calls = {n: replace(launch.call, values={}) for n, launch in launches.items()}
    return Tuning(
        kernel=plain.__name__,
        target=target,
        key={name: values.get(name, value) for name, value in key.items()},
        arguments={name: describe_value(values[name]) for name in fixed if name in values},
        types=call_types.types,
        constants=call_types.constants,
        trials=tuple(
            Trial(n, candidates[n], outcome, *call_types.own.get(n, ({}, {})))
            for n, outcome in outcomes.items()
        ),
        source=source_of(plain, _constants(call_types.constants, launches.values(), candidates)),
        known_work=None if None in (given_work.bytes, given_work.flops) else given_work,
        live=Live(kernel, calls, count),
        **facts,
    )


def _constants(
    shared: Mapping[str, Any], launches: Iterable[PreparedCall], candidates: Iterable[Candidate]
) -> list[Any]:
    own = [launch.call.specialization.constants.values() for launch in launches]
    tried = [candidate.constants.values() for candidate in candidates]
    return [value for values in (shared.values(), *own, *tried) for value in values]


def describe_value(value: Any) -> str:
    """ "float16[4096, 4096]", "4096"."""
    base = getattr(value, "base", None)  # of a tensor descriptor
    return format_argument(base if isinstance(base, torch.Tensor) else value)


# Bytes and operations


def work_given(
    bytes: Amount | None, flops: Amount | None, prepared: Sequence[PreparedCall | Dropped]
) -> Work:
    """Return the amounts that the user gave, or None. Raises ArgumentError: not a number."""
    launches = (launch for launch in prepared if isinstance(launch, PreparedCall))
    values = next((launch.call.values for launch in launches), {})
    moved, computed = _amount("bytes", bytes, values), _amount("flops", flops, values)
    return Work(moved, computed, "given", "given")


def _amount(name: str, given: Amount | None, values: Mapping[str, Any]) -> float | None:
    if given is None or (callable(given) and not values):
        return None
    number = next((each for each, value in values.items() if is_real(value)), "n")
    example = f"{name}=lambda a: 4 * a['{number}']"
    advice = (
        f"Pass a number, or a function that is called with one dict of all arguments: {example}."
    )
    try:
        amount: Any = plain_scalar(given(values) if callable(given) else given)
    except Exception as error:  # a function of the user's
        raise ArgumentError(
            what_it_raised(name, error),
            advice=called_with_a_dict(given, values, example) if callable(given) else advice,
        ) from error
    if (
        isinstance(amount, bool)
        or not isinstance(amount, int | float | numpy.number)
        or not 0 <= amount <= sys.float_info.max
    ):
        raise ArgumentError(
            f"{name} must be, or return, a non-negative number, got {amount!r}.",
            advice=advice,
        )
    return float(amount)


def _counter(
    kernel: Any, target: Target, launch: PreparedCall | None, given: Work
) -> Callable[[], Work]:
    """Return a function that counts the amounts that were not given; it keeps no tensor alive."""
    if launch is None:
        return lambda: given
    # A weak reference: sweeps are remembered by their kernel, and must not keep it alive.
    alive = weakref.ref(kernel)
    seen = {name: without_memory(value) for name, value in launch.call.values.items()}
    call, programs = replace(launch.call, values=seen), math.prod(launch.task.grid)

    def count() -> Work:
        work = _count(alive(), target, call, programs)
        if given.bytes is not None:
            work = replace(work, bytes=given.bytes, bytes_from=given.bytes_from)
        if given.flops is not None:
            work = replace(work, flops=given.flops, flops_from=given.flops_from)
        return work

    return count


def _count(kernel: Any, target: Target, call: BoundCall, programs: int) -> Work:
    if kernel is None:
        return Work(None, None, "the kernel is gone", "the kernel is gone")
    try:
        compilation = compile_bound(kernel, call, target, for_launch=True)
    except KernelLabError as error:
        return Work(None, None, error.problem, error.problem)
    sizes = {
        name: tensor_bytes(value)
        for name, value in call.values.items()
        if isinstance(getattr(value, "base", value), torch.Tensor)
    }
    if not sizes:
        return Work(None, None, "types have no sizes", "types have no sizes")
    scalars = {name: value for name, value in call.values.items() if isinstance(value, int | float)}
    moved, how_moved = bytes_moved(compilation, sizes)
    done, how_done = flops_done(compilation, programs, scalars)
    return Work(moved, done, how_moved, how_done)


def type_strings(
    specialization: Specialization, names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a launch's types ("*fp16:16") and compiled-in values, for the parameters `names`."""
    types: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for number, (name, kind) in enumerate(specialization.signature.items()):
        if name not in names:
            continue
        if (number,) in specialization.constants:
            constants[name] = specialization.constants[(number,)]
            continue
        promises = {
            str(word): value for word, value in specialization.attributes.get((number,), ())
        }
        divisor = promises.get("tt.divisibility")
        types[name] = f"{kind}:{divisor}" if divisor and isinstance(kind, str) else kind
    return types, constants


@dataclass(frozen=True)
class CallTypes:
    """Types and compiled-in values of a sweep's launches."""

    types: Mapping[str, Any]
    """Those of the first launch."""
    constants: Mapping[str, Any]
    own: Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]]
    """Number of a config -> the types and constants in which it differs from the first launch."""


def types_of_calls(calls: Mapping[int, BoundCall], names: Sequence[str]) -> CallTypes:
    """Return the types and constants of a sweep's launches, for the parameters `names`."""
    by_config = {n: type_strings(call.specialization, names) for n, call in calls.items()}
    types, constants = next(iter(by_config.values()), ({}, {}))
    own = {
        n: (_differing(kinds, types), _differing(values, constants))
        for n, (kinds, values) in by_config.items()
    }
    return CallTypes(types, constants, own)


def _differing(these: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    return {n: value for n, value in these.items() if n not in first or first[n] != value}
