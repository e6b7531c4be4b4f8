"""Detectors in two steps: one notices in the checked run that something may be wrong, another one
looks closer in a further run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.numerics.signs import Values, unsigned_values

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class Suspecting(Detector):
    """Notice that results may be wrong; then run the launch again with another detector.

    Attributes:
        closer: the detector for that run.
        reported_by: detectors whose findings at an operation replace those of this one.
        is_suspect: whether something may be wrong.
    """

    closer: ClassVar[type[Detector]]
    reported_by: ClassVar[tuple[type[Detector], ...]] = ()

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self.is_suspect = False
        self._others: Sequence[Detector] = ()
        self._explained: frozenset[Operation] = frozenset()

    def meet(self, others: Sequence[Detector]) -> None:
        self._others = [other for other in others if isinstance(other, self.reported_by)]

    @abstractmethod
    def suspects(self, computed: Computed) -> bool:
        """Return whether the result of an operation may be wrong."""

    def computed(self, computed: Computed) -> None:
        """Check the operation, until something is suspect."""
        if not self.is_suspect:
            self.is_suspect = self.suspects(computed)

    def investigate(self, session: CheckSession) -> None:
        """Run the launch with the other detector, if something is suspect."""
        if self.is_suspect:
            (closer,), _ = session.run_detectors((self.closer,))
            self.accept(closer)

    def accept(self, closer: Detector) -> None:
        """Take over the findings of the closer run."""
        self.collector, self._explained = closer.collector, closer.explains()
        for other in self._others:
            for op in other.collector.operations():
                self.collector.forget(op)

    def explains(self) -> frozenset[Operation]:
        return self._explained

    @cached_property
    def unsigned(self) -> Values:
        """The values that are unsigned integers."""
        return unsigned_values(self.run)
