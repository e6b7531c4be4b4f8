"""Detectors that fail: what they would have found is missing, and the others go on."""

from __future__ import annotations

import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from kernellab.checker.detector import Detector
from kernellab.errors.kinds import clipped


class Failures:
    """Which detectors of a check failed, and how; each is told once, by its first failure."""

    def __init__(self) -> None:
        self._errors: dict[type[Detector], Exception] = {}

    def __contains__(self, kind: type[Detector]) -> bool:
        return kind in self._errors

    def note(self, kind: type[Detector], error: Exception) -> None:
        """A detector of this kind has failed."""
        self._errors.setdefault(kind, error)

    def kept(self, kind: type[Detector]) -> AbstractContextManager[None]:
        """What goes wrong inside is a failure of a detector of this kind."""
        return _Kept(self, kind)

    def notes(self) -> tuple[str, ...]:
        """What is said of each."""
        return tuple(_note(kind, error) for kind, error in self._errors.items())


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
    """ "The detector NonFinite (nan, infinity) failed: KeyError: 3 (values.py:71); ..."."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    kinds = f" ({', '.join(kind.kinds)})" if kind.kinds else ""
    what = clipped(f"{type(error).__name__}: {error}".rstrip(": "))
    return (
        f"The detector {kind.__name__}{kinds} failed: {what}{where}; its findings are missing. "
        "All others are here."
    )
