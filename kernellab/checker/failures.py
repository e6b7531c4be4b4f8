"""Detectors that fail: their findings are missing, and the other detectors continue."""

from __future__ import annotations

import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from kernellab.checker.detector import Detector
from kernellab.errors.kinds import clipped


class Failures:
    """The detectors of a check that failed, each with its first error."""

    def __init__(self, *, isolated: bool = True) -> None:
        """With `isolated`, the others continue; else, errors are raised."""
        self._isolated = isolated
        self._errors: dict[type[Detector], Exception] = {}

    def __contains__(self, kind: type[Detector]) -> bool:
        return kind in self._errors

    def note(self, kind: type[Detector], error: Exception) -> None:
        """Record that a detector of this kind failed."""
        if not self._isolated:
            raise error
        self._errors.setdefault(kind, error)

    def kept(self, kind: type[Detector]) -> AbstractContextManager[None]:
        """Return a context that records an error inside as a failure of a detector of this kind."""
        return _Kept(self, kind)

    def notes(self) -> tuple[str, ...]:
        """Return a note about each failed detector."""
        return tuple(_note(kind, error) for kind, error in self._errors.items())


RAISED = Failures(isolated=False)
"""Of runs that a detector's error ends."""


class _Kept(AbstractContextManager[None]):
    """See `Failures.kept`. A check enters dozens: `contextmanager` would take ten times as long."""

    __slots__ = ("_failures", "_kind")

    def __init__(self, failures: Failures, kind: type[Detector]) -> None:
        self._failures, self._kind = failures, kind

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self._failures.note(self._kind, error)
            return True
        return False


def _note(kind: type[Detector], error: Exception) -> str:
    """Return "The detector NonFinite (nan, infinity) failed: KeyError: 3 (values.py:71). ..."."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    kinds = f" ({', '.join(kind.kinds)})" if kind.kinds else ""
    what = clipped(f"{type(error).__name__}: {error}".rstrip(": "))
    return (
        f"The detector {kind.__name__}{kinds} failed: {what}{where}. Its findings are missing; "
        "those of the other detectors are complete."
    )
