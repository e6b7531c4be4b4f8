"""Several sweeps, and how each is described: finished, of an autotuner, or recorded before."""

from __future__ import annotations

import ast
import math
import operator
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

import torch

from kernellab.common.arguments import is_real, listed, plain_scalar
from kernellab.common.text import called_with_a_dict, counted, shown, what_it_raised
from kernellab.compiler.arguments import format_argument
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.modules import OpenedModules, underlying_argument
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import DEFAULT_TARGET, local_target
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.ir.operations import GlobalAccess, GlobalRead, GlobalWrite, has, trait_of
from kernellab.launch.argument_copies import distinct_bytes, without_memory
from kernellab.launch.autotuners import AutotunerTimings, autotuner_timings, take_autotuned_launches
from kernellab.launch.preparation import innermost
from kernellab.records import Specialization, Target
from kernellab.records.display import HasCard, plot, show
from kernellab.tuning import records
from kernellab.tuning.configs import PreparedCall, of_config
from kernellab.tuning.files import load_all, save
from kernellab.tuning.tuning import AppliedTuning, Live, Tuning, sides
from kernellab.tuning.worker import this_machine

_T = TypeVar("_T")


def _all_of(kind: type[_T], name: str, given: Any) -> list[_T]:
    """Return the items of an argument. Raises ArgumentError: it is not a list of such records."""
    items = listed(name, given) if isinstance(given, Iterable) else [given]
    if wrong := [item for item in items if not isinstance(item, kind)]:
        raise ArgumentError(
            f"{name} must be a list of kernellab.{kind.__name__}, got {shown(wrong[0])} in it.",
            advice=f"Write {name}=[...].",
        )
    return items


def beside(others: Any) -> list[Tunings]:
    """Return the `others` of a plot, which must be Tunings; raise ArgumentError otherwise."""
    return _all_of(Tunings, "others", others)


class Tunings(HasCard, Sequence[Tuning]):
    """Sweeps of one kernel: for several sizes, types, or runs of an autotuner."""

    def __init__(self, tunings: Iterable[Tuning]) -> None:
        """Keep the sweeps in order. Raises ArgumentError: an item is not a sweep of the kernel."""
        self._tunings = tuple(_all_of(Tuning, "tunings", tunings))
        names = {tuning.kernel for tuning in self._tunings}
        if len(names) > 1:
            raise ArgumentError(
                f"These sweeps are of several kernels: {', '.join(sorted(names))}.",
                advice="Pass the sweeps of one kernel.",
            )

    @overload
    def __getitem__(self, place: int) -> Tuning: ...
    @overload
    def __getitem__(self, place: slice) -> Tunings: ...
    def __getitem__(self, place: int | slice) -> Tuning | Tunings:
        if isinstance(place, slice):
            return Tunings(self._tunings[place])
        return self._tunings[place]

    def __len__(self) -> int:
        return len(self._tunings)

    def apply(self, kernel: Any = None) -> AppliedTuning:
        """Return the kernel with each key's fastest config; other keys use the nearest's.

        Sweeps in which nothing was timed are left out; of several with the same key, the last
        counts.

        Raises:
            ArgumentError: there is no sweep, nothing was timed, or key names or GPUs differ.
        """
        if not self._tunings:
            raise ArgumentError(
                "There is no sweep whose configs could be applied.",
                advice="Sweep the kernel with kernellab.tune first.",
            )
        sweeps = [tuning for tuning in self._tunings if tuning.is_timed] or [self._tunings[-1]]
        if len({tuple(tuning.key) for tuning in sweeps}) > 1:
            raise ArgumentError(
                "These sweeps have keys of different names, so no key can choose a config.",
                advice="Apply those that have the same: kernellab.Tunings([tuning for tuning in "
                'tunings if "n" in tuning.key]).',
            )
        gpus = sorted({tuning.machine.gpu for tuning in sweeps})
        if len(gpus) > 1:
            raise ArgumentError(
                f"These sweeps were timed on different GPUs: {', '.join(gpus)}.",
                advice="The fastest config differs between GPUs: apply the sweeps of one GPU.",
            )
        if kernel is not None:
            sweeps = [tuning.with_kernel(kernel) for tuning in sweeps]
        applied = [tuning.apply() for tuning in reversed(sweeps)]
        choices = [choice for kernel_of_key in applied for choice in kernel_of_key.configs]
        return AppliedTuning(applied[0].fn, choices)

    @property
    def table(self) -> Any:
        """The fastest config for each key, as a pandas DataFrame."""

        return records.best_table(self)

    def show(self, **options: Any) -> Any:
        """Explore the sweeps: time, GB/s and TFLOP/s against the key, and each sweep's plots and
        table (docs/widgets.md).

        Args:
            options: plot=, the kind that is shown first; others=, Tunings of other kernels
                beside this one; compilations=, pairs of a sweep's index and a config's number,
                whose IR a page contains.

        Raises:
            ArgumentError: as `Tuning.show`.
        """
        return show(self, **options)

    def plot(self, kind: str = "sizes", **options: Any) -> Any:
        """Plot time, GB/s or TFLOP/s against the key, with a line for each baseline.

        Args:
            kind: "sizes".
            options: y="time", "GB/s" or "TFLOP/s"; others=, Tunings of other kernels beside it.
        """
        return plot(self, kind=kind, **options)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all sweeps to one JSON file; return its path."""
        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> Tunings:
        """Return the sweeps of a file. Raises ArchiveError as `Tuning.load`."""
        sweeps = load_all(path, Tuning)
        return cls(sweeps if kernel is None else [sweep.with_kernel(kernel) for sweep in sweeps])

    def __repr__(self) -> str:
        return f"Tunings({list(self._tunings)!r})"


# A `Tuning` of a finished sweep: what was launched, and what it moves and computes.


def bytes_moved(compilation: Compilation, sizes: Mapping[str, int]) -> tuple[float | None, str]:
    """Return the least that a launch moves: each tensor once, or twice if read and written.
    `sizes`: bytes of each tensor among the arguments. Returns the bytes, and how they were counted;
    None if an access does not start from an argument.
    """
    touched: set[tuple[str, type]] = set()
    for op in compilation.module(OpenedModules(compilation).first_stage).walk():
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
    for op in compilation.module(OpenedModules(compilation).first_stage).walk():
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
    candidates: Sequence[records.Candidate],
    prepared: Sequence[PreparedCall | records.Dropped],
    outcomes: Mapping[int, records.Outcome],
    *,
    key: Mapping[str, Any],
    given_work: records.Work,
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
    types, constants, own = types_of_calls({n: each.call for n, each in launches.items()}, fixed)
    valid = (n for n, outcome in outcomes.items() if outcome.dropped is None and n in launches)
    count = _counter(plain, target, launches.get(next(valid, -1)), given_work)
    calls = {n: replace(launch.call, values={}) for n, launch in launches.items()}
    return Tuning(
        kernel=plain.__name__,
        target=target,
        key={name: values.get(name, value) for name, value in key.items()},
        arguments={name: describe_value(values[name]) for name in fixed if name in values},
        types=types,
        constants=constants,
        trials=tuple(
            records.Trial(n, candidates[n], outcome, *own.get(n, ({}, {})))
            for n, outcome in outcomes.items()
        ),
        source=records.source_of(plain, _constants(constants, launches.values(), candidates)),
        known_work=None if None in (given_work.bytes, given_work.flops) else given_work,
        live=Live(kernel, calls, count),
        **facts,
    )


def _constants(
    shared: Mapping[str, Any],
    launches: Iterable[PreparedCall],
    candidates: Iterable[records.Candidate],
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
    bytes: Amount | None, flops: Amount | None, prepared: Sequence[PreparedCall | records.Dropped]
) -> records.Work:
    """Return the amounts that the user gave, or None. Raises ArgumentError: not a number."""
    launches = (launch for launch in prepared if isinstance(launch, PreparedCall))
    values = next((launch.call.values for launch in launches), {})
    moved, computed = _amount("bytes", bytes, values), _amount("flops", flops, values)
    return records.Work(moved, computed, "given", "given")


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
    if not is_real(amount) or not 0 <= amount <= sys.float_info.max:
        raise ArgumentError(
            f"{name} must be, or return, a non-negative number, got {amount!r}.", advice=advice
        )
    return float(amount)


def _counter(
    kernel: Any, target: Target, launch: PreparedCall | None, given: records.Work
) -> Callable[[], records.Work]:
    """Return a function that counts the amounts that were not given; it keeps no tensor alive."""
    if launch is None:
        return lambda: given
    # A weak reference: sweeps are remembered by their kernel, and must not keep it alive.
    alive = weakref.ref(kernel)
    seen = {name: without_memory(value) for name, value in launch.call.values.items()}
    call, programs = replace(launch.call, values=seen), math.prod(launch.task.grid)

    def count() -> records.Work:
        work = _count(alive(), target, call, programs)
        if given.bytes is not None:
            work = replace(work, bytes=given.bytes, bytes_from=given.bytes_from)
        if given.flops is not None:
            work = replace(work, flops=given.flops, flops_from=given.flops_from)
        return work

    return count


def _count(kernel: Any, target: Target, call: BoundCall, programs: int) -> records.Work:
    if kernel is None:
        return records.Work(None, None, "the kernel is gone", "the kernel is gone")
    try:
        compilation = compile_bound(kernel, call, target, for_launch=True)
    except KernelLabError as error:
        return records.Work(None, None, error.problem, error.problem)
    sizes = {
        name: distinct_bytes(tensor)
        for name, value in call.values.items()
        if isinstance(tensor := getattr(value, "base", value), torch.Tensor)
    }
    if not sizes:
        return records.Work(None, None, "types have no sizes", "types have no sizes")
    scalars = {name: value for name, value in call.values.items() if isinstance(value, int | float)}
    moved, how_moved = bytes_moved(compilation, sizes)
    done, how_done = flops_done(compilation, programs, scalars)
    return records.Work(moved, done, how_moved, how_done)


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


Values = Mapping[str, Any]


def types_of_calls(
    calls: Mapping[int, BoundCall], names: Sequence[str]
) -> tuple[Values, Values, Mapping[int, tuple[Values, Values]]]:
    """Return the types and the compiled-in values of a sweep's first launch, for the parameters
    `names`, and by the number of a config those in which it differs.
    """
    by_config = {n: type_strings(call.specialization, names) for n, call in calls.items()}
    types, constants = next(iter(by_config.values()), ({}, {}))
    own = {
        n: (_differing(kinds, types), _differing(values, constants))
        for n, (kinds, values) in by_config.items()
    }
    return types, constants, own


def _differing(these: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    return {n: value for n, value in these.items() if n not in first or first[n] != value}


# `kernellab.tunings`: the sweeps that were made in this process, by `kernellab.tune` and by
# Triton's own autotuner.

NOTE = "timed by Triton's autotuner: the quartiles are its 20th and 80th percentiles"
_FAILED = records.Dropped(
    "fault",
    "Triton's autotuner could not run this config and does not report why; kernellab.tune does",
)
_UNKNOWN = "the autotuner does not count"


def tuning_of_autotuner(kernel: Any, noted: AutotunerTimings) -> Tuning:
    """Return what an autotuner measured in one launch of a kernel."""
    candidates = [of_config(kernel, config) for config, _ in noted.timings]
    tuned = {name for candidate in candidates for name in candidate.constants}
    fixed = [name for name in kernel.arg_names if name not in tuned]
    types, constants, own = types_of_calls(dict(enumerate(noted.calls)), fixed)
    values = noted.calls[0].values
    return Tuning(
        kernel=kernel.__name__,
        target=local_target() or DEFAULT_TARGET,
        key=dict(noted.key),
        arguments={name: describe_value(values[name]) for name in fixed if name in values},
        types=types,
        constants=constants,
        trials=tuple(
            records.Trial(number, candidate, _outcome(times), *own[number])
            for number, (candidate, (_, times)) in enumerate(zip(candidates, noted.timings))
        ),
        machine=this_machine(torch.cuda.current_device() if torch.cuda.is_available() else None),
        known_work=records.Work(None, None, _UNKNOWN, _UNKNOWN),
        seconds=noted.seconds,
        source=records.source_of(
            kernel, (value for candidate in candidates for value in candidate.values.values())
        ),
        notes=(NOTE,),
    )


def _outcome(times: Sequence[float]) -> records.Outcome:
    median, lower, upper = (*times, *times, *times)[:3]
    if math.isinf(median):
        return records.Outcome(dropped=_FAILED)
    return records.Outcome(timing=records.Timing(median, lower, upper, lower, 0, "events"))


_MOST = 100
"""The number of sweeps kept per kernel, the latest: one per size and per run of their cell."""

_made: weakref.WeakKeyDictionary[Any, list[Tuning]] = weakref.WeakKeyDictionary()
"""Kernel -> its sweeps, in order, without the kernel, which they would keep alive forever."""


def remember(kernel: Any, tuning: Tuning) -> None:
    """Keep a sweep for `tunings`."""
    take_autotuned_launches()
    live = None if tuning.live is None else replace(tuning.live, kernel=None)
    made = _made.setdefault(innermost(kernel), [])
    made.append(replace(tuning, live=live))
    del made[:-_MOST]


def tunings(kernel: Any) -> Tunings:
    """Return the sweeps of a kernel in this process, in order.

    These are the ones of `@triton.autotune` around it, then the latest 100 of `kernellab.tune`.
    Triton does not keep its timings: KernelLab records them from the first call of this function,
    or from the first kernel that it tunes, runs, or makes a TileKernel.

    Raises:
        ArgumentError: `kernel` is not a kernel.
    """
    take_autotuned_launches()
    plain = innermost(kernel)
    autotuned = [tuning_of_autotuner(plain, timings) for timings in autotuner_timings(plain)]
    made = [
        replace(tuning, live=tuning.live and replace(tuning.live, kernel=kernel))
        for tuning in _made.get(plain, ())
    ]
    return Tunings([*(tuning.with_kernel(kernel) for tuning in autotuned), *made])


Recorded = str | os.PathLike[str] | Tuning | Iterable[Tuning]
"""A file of `Tuning.save` or `Tunings.save`, or the sweeps themselves."""


def with_recorded_times(tuning: Tuning, recorded: Sequence[Tuning]) -> Tuning:
    """Return a sweep that was compiled here with the recorded times of the same launch. Raises
    ArgumentError: no recorded sweep is of this launch, or has a config tried here.
    """
    for other in recorded:  # of the same launch; the names in their keys do not matter
        if all(first == second for what, first, second in sides(other, tuning) if what != "key"):
            return _with_times_of(other, tuning)
    known = "\n".join(f"  {_format_recorded(other)}" for other in recorded) or "  none"
    raise ArgumentError(
        f"No recorded sweep matches this launch, {_format_recorded(tuning)}.",
        advice=(
            "Kernel, target, types and sizes must be the same. The recorded sweeps are:\n" + known
        ),
    )


def recorded_sweeps(recorded: Recorded) -> list[Tuning]:
    """Return the sweeps of a file, or those that were given. Raises ArchiveError: the file cannot
    be read; ArgumentError: `recorded` is neither a path nor sweeps.
    """
    if isinstance(recorded, str | os.PathLike):
        return load_all(recorded, Tuning)
    given: Any = [recorded] if isinstance(recorded, Tuning) else recorded  # whatever it may be
    sweeps = listed("recorded", given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(sweep, Tuning) for sweep in sweeps):
        raise ArgumentError(
            f"recorded must be the path of a saved sweep or a Tuning, got {shown(recorded)}.",
            advice='Write recorded="sweeps.json", or pass what kernellab.load returns.',
        )
    return sweeps


def _format_recorded(tuning: Tuning) -> str:
    arguments = ", ".join(f"{name}: {value}" for name, value in tuning.arguments.items())
    return f"{tuning.kernel} for {tuning.target} ({arguments})"


def _with_times_of(recorded: Tuning, tuning: Tuning) -> Tuning:
    outcomes = {trial.candidate.written: trial.outcome for trial in recorded.trials}
    unknown = [trial for trial in tuning.trials if trial.candidate.written not in outcomes]
    if outcomes and len(unknown) == len(tuning.trials):
        raise ArgumentError(
            "The recorded sweep has no time for any config of this space, such as "
            f"{unknown[0].candidate}.",
            advice=f"A recorded config is {recorded.trials[0].candidate}: space must name the "
            "same parameters and options.",
        )
    theirs = [outcomes.get(trial.candidate.written, records.Outcome()) for trial in tuning.trials]
    trials = tuple(
        replace(trial, outcome=_completed(trial.outcome, outcome))
        for trial, outcome in zip(tuning.trials, theirs)
    )
    notes = [f"times were recorded with {recorded.machine}"]
    if recorded.machine.triton != tuning.machine.triton:
        notes[0] += (
            f"; registers, shared memory and occupancy are those of Triton {tuning.machine.triton}"
        )
    if unknown:
        notes.append(f"no time was recorded for {counted(len(unknown), 'config')}")
    if records.differs(tuning.source, recorded.source):
        notes.append(f"the source of {tuning.kernel!r} changed after the times were recorded")
    return replace(
        tuning,
        trials=trials,
        machine=recorded.machine,
        baselines=recorded.baselines,
        notes=(*tuning.notes, *notes, *recorded.notes),
    )


def _completed(here: records.Outcome, there: records.Outcome) -> records.Outcome:
    if here.dropped is not None:
        return here
    if there.dropped is not None:
        return replace(here, dropped=there.dropped)
    return replace(here, timing=there.timing, checked=here.checked or there.checked)
