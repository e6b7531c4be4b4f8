"""`Tunings`: sweeps of one kernel, for other sizes or types."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from kernellab.common.argument_checks import listed
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError
from kernellab.records.showing import HasCard, plot, show
from kernellab.tuning.files.saved_sweeps import load_all, save
from kernellab.tuning.results.applied import AppliedTuning
from kernellab.tuning.results.tuning import Tuning

_T = TypeVar("_T")


def _all_of(kind: type[_T], name: str, given: Any) -> list[_T]:
    """The items of an argument.

    Raises:
        ArgumentError: it is no list of such records.
    """
    items = listed(name, given) if isinstance(given, Iterable) else [given]
    if wrong := [one for one in items if not isinstance(one, kind)]:
        raise ArgumentError(
            f"{name} holds {shown(wrong[0])}, which is no kernellab.{kind.__name__}",
            advice=f"Give a list of them: {name}=[...].",
        )
    return items


def beside(others: Any) -> list[Tunings]:
    """The sweeps of other kernels that are drawn beside some; raises ArgumentError for others."""
    return _all_of(Tunings, "others", others)


class Tunings(HasCard, Sequence[Tuning]):
    """Sweeps of one kernel: for several sizes, types, or runs of an autotuner."""

    def __init__(self, tunings: Iterable[Tuning]) -> None:
        """Keep them in order.

        Raises:
            ArgumentError: they are no sweeps, or of several kernels.
        """
        self._tunings = tuple(_all_of(Tuning, "tunings", tunings))
        names = {one.kernel for one in self._tunings}
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

    @names_bad_arguments
    def apply(self, kernel: Any = None) -> AppliedTuning:
        """The kernel with the fastest config for each key;
        a launch with another key takes that of the nearest.

        Sweeps in which nothing was timed are left out;
        of several with the same key the last counts.

        Raises:
            ArgumentError: there is no sweep, nothing was timed, the sweeps do not have the same key
                names, or they were timed on different GPUs.
        """
        if not self._tunings:
            raise ArgumentError("there is no sweep whose configs could be applied")
        timed_ones = [one for one in self._tunings if one.is_timed] or [self._tunings[-1]]
        if len({tuple(one.key) for one in timed_ones}) > 1:
            raise ArgumentError(
                "these sweeps have keys of different names, so none can choose",
                advice=(
                    "Apply those that have the same: kernellab.Tunings([one for one in "
                    'tunings if "n" in '
                    "one.key])."
                ),
            )
        gpus = sorted({one.machine.gpu for one in timed_ones})
        if len(gpus) > 1:
            raise ArgumentError(
                f"these sweeps were timed on different GPUs: {', '.join(gpus)}",
                advice=(
                    "What is the fastest on one says nothing of another: apply those of one GPU."
                ),
            )
        known = timed_ones if kernel is None else [one.with_kernel(kernel) for one in timed_ones]
        applied = [one.apply() for one in reversed(known)]
        choices = [choice for one in applied for choice in one.configs]
        return AppliedTuning(applied[0].fn, choices)

    @property
    def table(self) -> Any:
        """The fastest config for each key, as a pandas DataFrame."""
        from kernellab.tuning.results.tables import best_table

        return best_table(self)

    def show(self, **options: Any) -> Any:
        """The sweeps to explore: time, GB/s and TFLOP/s against the key,
        and each sweep's plots and table (docs/widgets.md).

        Args:
            options: plot=, the kind that is shown first; others=, Tunings of other kernels
                beside this one; compilations=, pairs of a sweep's place and a config's number,
                whose IR a page holds.

        Raises:
            ArgumentError: as `Tuning.show`.
        """
        return show(self, **options)

    def plot(self, kind: str = "sizes", **options: Any) -> Any:
        """Time, GB/s or TFLOP/s against the key, with baselines as lines beside it.

        Args:
            kind: "sizes".
            options: y="time", "GB/s" or "TFLOP/s"; others=, Tunings of other kernels to draw
                beside this one.
        """
        return plot(self, kind=kind, **options)

    @names_bad_arguments
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all of them to one JSON file; returns its path."""
        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> Tunings:
        """The sweeps that a file holds. Raises ArchiveError as `Tuning.load`."""
        found = load_all(path, Tuning)
        return cls(found if kernel is None else [one.with_kernel(kernel) for one in found])

    def __repr__(self) -> str:
        return f"Tunings({list(self._tunings)!r})"
