"""Bars of long work, drawn by tqdm: a widget in a notebook, a line in a terminal."""

from __future__ import annotations

import sys
from typing import Any

from kernellab.long_work import Bar
from kernellab.viz.place import in_notebook


def open_bar(
    title: str, total: int | None, unit: str, seconds: float, *, wanted: bool
) -> Bar | None:
    """A bar for work that has begun.

    Args:
        title: of the work.
        total: of its steps, None where nobody knows.
        unit: what the steps are.
        seconds: how long the work has been going on.
        wanted: whether a line is written even where stderr is no terminal.

    Returns:
        None where nobody watches.
    """
    if not (wanted or in_notebook() or sys.stderr.isatty()):
        return None
    wishes = {"desc": title, "total": total, "unit": f" {unit}", "leave": False}
    return _NotebookBar(wishes, seconds) if in_notebook() else _Line(wishes, seconds)


class _Line:
    """A line, written over again and again, and wiped at the end."""

    def __init__(self, wishes: dict[str, Any], seconds: float) -> None:
        from tqdm import tqdm

        self._bar = tqdm(**wishes, file=sys.stderr, dynamic_ncols=True, mininterval=0)
        self._bar.start_t -= seconds

    def draw(self, done: int, total: int | None, words: str) -> None:
        """See Bar."""
        _set(self._bar, done, total, words)

    def close(self) -> None:
        """See Bar."""
        self._bar.close()


class _NotebookBar:
    """tqdm's widget below the cell. At the end the output that showed it is empty, also in a saved notebook: a bar that has gone would be said to be missing there."""

    def __init__(self, wishes: dict[str, Any], seconds: float) -> None:
        from IPython.display import display
        from tqdm.notebook import tqdm

        self._bar = tqdm(**wishes, display=False, mininterval=0)
        self._bar.start_t -= seconds
        self._place = display(self._bar.container, display_id=True)

    def draw(self, done: int, total: int | None, words: str) -> None:
        """See Bar."""
        _set(self._bar, done, total, words)

    def close(self) -> None:
        """See Bar."""
        self._bar.close()
        self._bar.container.close()
        if self._place is not None:
            self._place.update({"text/plain": ""}, raw=True)


def _set(bar: Any, done: int, total: int | None, words: str) -> None:
    if total != bar.total:
        bar.total = total
    bar.set_postfix_str(words, refresh=False)
    bar.update(done - bar.n)
    bar.refresh()
