"""How far a sweep is, said while it runs."""

from __future__ import annotations

from typing import Protocol

from kernellab.common.progress import ProgressBar
from kernellab.tuning.results.records import Trial


class Progress(Protocol):
    """Hears of a sweep's configs as they are done."""

    def done(self, trial: Trial, finished: int, total: int) -> None:
        """A config is done; `finished` of `total` are."""

    def end(self) -> None:
        """No more is to come."""


class NoProgress:
    """Says nothing."""

    def done(self, trial: Trial, finished: int, total: int) -> None:
        """See Progress."""

    def end(self) -> None:
        """See Progress."""


class SweepProgress:
    """A bar with the configs that are done, how many of them were dropped,
    and the best time so far.
    """

    def __init__(self, work: ProgressBar) -> None:
        """`work` is begun here, and ends with the sweep."""
        self._work = work.__enter__()
        self._dropped = 0
        self._best: float | None = None

    def done(self, trial: Trial, finished: int, total: int) -> None:
        """See Progress."""
        self._dropped += trial.is_dropped
        if trial.timing is not None and not trial.is_dropped:
            self._best = min(trial.timing.median, self._best or trial.timing.median)
        self._work.total = total
        self._work.words = self._format_state()
        self._work.advance(finished - self._work.done)

    def _format_state(self) -> str:
        """ "2 dropped, best so far 31.2 us"."""
        words = [f"{self._dropped} dropped"] if self._dropped else []
        if self._best is not None:
            words.append(f"best so far {self._best * 1e3:.4g} us")
        return ", ".join(words)

    def end(self) -> None:
        """See Progress."""
        self._work.__exit__(None, None, None)


def progress_for(kernel: str, wanted: bool | None, configs: int) -> Progress:
    """The Progress of a sweep over so many configs: none where it is not wanted;
    where that is not said, as `ProgressBar` decides.
    """
    if wanted is False:
        return NoProgress()
    return SweepProgress(ProgressBar(f"tune {kernel}", configs, "configs", shown=wanted))
