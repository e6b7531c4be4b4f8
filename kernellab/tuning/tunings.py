"""Several sweeps: for different sizes or types, of this process, or recorded before."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

import torch

from kernellab.common.arguments import listed
from kernellab.common.text import counted, shown
from kernellab.compiler.targets import DEFAULT_TARGET, local_target
from kernellab.errors import ArgumentError
from kernellab.launch.autotuners import AutotunerTimings, autotuner_timings, take_autotuned_launches
from kernellab.launch.preparation import innermost
from kernellab.records.display import HasCard, plot, show
from kernellab.tuning import records
from kernellab.tuning.configs import of_config
from kernellab.tuning.descriptions import describe_value, types_of_calls
from kernellab.tuning.files import load_all, save
from kernellab.tuning.tuning import AppliedTuning, Tuning, sides
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
