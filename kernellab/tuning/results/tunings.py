"""`Tunings`: several sweeps of one kernel, for different sizes or types."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from kernellab.common.argument_checks import listed
from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError
from kernellab.records.showing import HasCard, plot, show
from kernellab.tuning.files.saved_sweeps import load_all, save
from kernellab.tuning.results.applied import AppliedTuning
from kernellab.tuning.results.tuning import Tuning

_T = TypeVar("_T")


def _all_of(kind: type[_T], name: str, given: Any) -> list[_T]:
    """Return the items of an argument.

    Raises:
        ArgumentError: it is not a list of such records.
    """
    items = listed(name, given) if isinstance(given, Iterable) else [given]
    if wrong := [item for item in items if not isinstance(item, kind)]:
        raise ArgumentError(
            f"{name} must be a list of kernellab.{kind.__name__}, got {shown(wrong[0])} in it",
            advice=f"Write {name}=[...].",
        )
    return items


def beside(others: Any) -> list[Tunings]:
    """Return the `others` of a plot, which must be Tunings; raise ArgumentError otherwise."""
    return _all_of(Tunings, "others", others)


class Tunings(HasCard, Sequence[Tuning]):
    """Sweeps of one kernel: for several sizes, types, or runs of an autotuner."""

    def __init__(self, tunings: Iterable[Tuning]) -> None:
        """Keep the sweeps in order.

        Raises:
            ArgumentError: an item is not a sweep, or the sweeps are of several kernels.
        """
        self._tunings = tuple(_all_of(Tuning, "tunings", tunings))
        names = {tuning.kernel for tuning in self._tunings}
        if len(names) > 1:
            raise ArgumentError(f"these sweeps are of several kernels: {', '.join(sorted(names))}")

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

    def __iter__(self) -> Iterator[Tuning]:
        return iter(self._tunings)

    def apply(self, kernel: Any = None) -> AppliedTuning:
        """Return the kernel with the fastest config for each key; a launch with another key uses
        the config of the nearest.

        Sweeps in which nothing was timed are left out; of several with the same key, the last
        counts.

        Raises:
            ArgumentError: there is no sweep, nothing was timed, the sweeps do not have the same key
                names, or they were timed on different GPUs.
        """
        if not self._tunings:
            raise ArgumentError("there is no sweep whose configs could be applied")
        sweeps = [tuning for tuning in self._tunings if tuning.is_timed] or [self._tunings[-1]]
        if len({tuple(tuning.key) for tuning in sweeps}) > 1:
            raise ArgumentError(
                "these sweeps have keys of different names, so no key can choose a config",
                advice=(
                    "Apply those that have the same: kernellab.Tunings([tuning for tuning in "
                    'tunings if "n" in tuning.key]).'
                ),
            )
        gpus = sorted({tuning.machine.gpu for tuning in sweeps})
        if len(gpus) > 1:
            raise ArgumentError(
                f"these sweeps were timed on different GPUs: {', '.join(gpus)}",
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
        from kernellab.tuning.results.tables import best_table

        return best_table(self)

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
            options: y="time", "GB/s" or "TFLOP/s"; others=, Tunings of other kernels to draw
                beside this one.
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
