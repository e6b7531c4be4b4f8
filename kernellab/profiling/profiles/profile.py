"""`Profile`: what was measured of launches, and the ways to look at it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernellab.profiling.profiles import metrics as expressions
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.differences import ProfileDifference
from kernellab.profiling.profiles.files.writing import plain, save
from kernellab.profiling.profiles.records import (
    INTERPRETER,
    IS_INTERPRETER,
    ProfiledKernel,
    ProfileRecord,
    Scope,
)
from kernellab.profiling.profiles.timeline import Timeline
from kernellab.records.showing import PrintsAsCard, plot, show
from kernellab.records.tables import frame_of

LINE_COLUMNS = ("kernel", "line", "operation", "cycles", "share", "executions")


@dataclass(frozen=True)
class Profile(ProfileRecord, PrintsAsCard):
    """What was measured of some launches: a tree of scopes, the user's, Python frames, kernels, and
    their lines. The metrics of a scope are its own; tables and texts add those of all below it.
    """

    @property
    def is_of_gpu(self) -> bool:
        """Whether times and cycles are a GPU's."""
        return self.measured_by != INTERPRETER

    @property
    def origin(self) -> str:
        """ "proton, NVIDIA H200 (sm_90)"."""
        where = self.machine.device or self.machine.target
        if not self.is_of_gpu:
            emulated = self.machine.target
            return f"{IS_INTERPRETER}; {emulated} emulated" if emulated else IS_INTERPRETER
        both = self.machine.device and self.machine.target
        return ", ".join(
            part for part in (self.measured_by, f"{where} ({both})" if both else where) if part
        )

    @property
    def lines(self) -> Any:
        """The lines of the kernels, as a pandas DataFrame: kernel, line, operation, cycles, share,
        executions, and what else was measured of them, the largest share first.
        """
        lines = sorted(self.line_records, key=lambda line: (line.kernel, -line.share, line.line))
        others = list(dict.fromkeys(name for line in lines for name in line.metrics))
        rows = [
            [*(getattr(line, name) for name in LINE_COLUMNS), *map(line.metrics.get, others)]
            for line in lines
        ]
        return frame_of(rows, [*LINE_COLUMNS, *others])

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that were measured: "time (ns)", "count", ..."""
        return tuple(dict.fromkeys(name for scope in self.root.walk() for name in scope.metrics))

    def kernel(self, name: str) -> ProfiledKernel | None:
        """The kernel whose scopes are called so; None where the profile has none. A launch that
        its `launch_metadata` named is of the kernel that its name begins with.
        """
        exact = (kernel for kernel in self.kernels if kernel.name == name)
        begun = (kernel for kernel in self.kernels if kernel.name and name.startswith(kernel.name))
        return next(exact, None) or max(begun, key=lambda kernel: len(kernel.name), default=None)

    def table(
        self,
        metrics: Any = None,
        *,
        include: str | None = None,
        exclude: str | None = None,
        threshold: float | None = None,
        depth: int | None = None,
    ) -> Any:
        """One row per scope, as a pandas DataFrame: name, kind, depth and the metrics asked for.

        Args:
            metrics: names or expressions, as proton-viewer takes them: "time/ms", "avg_time/us",
                "tflop/s", "tflop16/s", "gbyte/s", "time/%", "util", "count"; a text with
                commas, or a list. None for those that there are.
            include: a regular expression: only paths through scopes whose names have it.
            exclude: a regular expression: no scopes whose names have it, nor what is below them.
            threshold: only scopes of whose first metric there is at least so much.
            depth: only scopes at most so far below the root.

        Raises:
            OptionError: a metric that there is not, a pattern that is none.
        """
        chosen = expressions.read(metrics, self.root)
        rows = trees.rows(self, chosen, trees.filter_of(include, exclude, threshold, depth))
        cells = [[row.scope.name, row.scope.kind, row.depth, *row.values] for row in rows]
        return frame_of(cells, ["name", "kind", "depth", *(metric.text for metric in chosen)])

    def tree(
        self,
        metrics: Any = None,
        *,
        include: str | None = None,
        exclude: str | None = None,
        threshold: float | None = None,
        depth: int | None = None,
    ) -> trees.TreeText:
        """The scopes as text, as proton-viewer prints them; `.plot()` is a flame graph.

        Args:
            metrics, include, exclude, threshold, depth: as for `table`.

        Raises:
            OptionError: as `table`.
        """
        chosen = expressions.read(metrics, self.root, first_alone=True)
        keep = trees.filter_of(include, exclude, threshold, depth)
        return trees.TreeText.of(self, chosen, keep)

    def filter(
        self,
        include: str | None = None,
        exclude: str | None = None,
        *,
        threshold: float | None = None,
        metric: str | None = None,
        depth: int | None = None,
    ) -> Profile:
        """The profile with some of its scopes; what a threshold or a depth leaves out counts where
        it was.

        Args:
            include, exclude, depth: as for `table`.
            threshold, metric: so much of it, inclusive; by default the first metric there is.

        Raises:
            OptionError: as `table`.
        """
        keep = trees.filter_of(include, exclude, threshold, depth)
        chosen = expressions.read(metric, self.root, first_alone=True)
        return replace(self, root=trees.filtered(self, chosen, keep))

    def timeline(self, program: int | None = None) -> Timeline:
        """The events of the profile over time: `.records`, `.plot()`, `.save("trace.json")`.

        Args:
            program: those of one program alone.

        Raises:
            ProfileError: the profile has no events.
        """
        return Timeline.of(self, program)

    def diff(self, other: Profile) -> ProfileDifference:
        """Compare this profile with another: by how much its numbers are larger.

        Raises:
            ArgumentError: the other is not a profile.
        """
        return ProfileDifference.of(self, other)

    def __sub__(self, other: Profile) -> ProfileDifference:
        return self.diff(other)

    def show(self) -> Any:
        """The view of the profile."""
        return show(self)

    def plot(self, metric: str | None = None) -> Any:
        """The flame graph: as wide as much of a metric, the first one by default."""
        return plot(self, metric=metric)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the profile; `kernellab.load` reads it. The path's end says how: `.hatchet` is
        Proton's form, `.speedscope.json` speedscope's, `.trace.json` Chrome's trace of events;
        any other has all of it.

        Raises:
            ArchiveError: the file cannot be written.
            ProfileError: a trace of a profile that has no events.
        """
        return save(self, path)

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return plain(self)

    def __iter__(self) -> Iterator[Scope]:
        return self.root.walk()
