"""Bars of long work, drawn by tqdm: a widget in a notebook, a line in a terminal."""

from __future__ import annotations

import sys
from typing import Any

from kernellab.common.progress import Bar, in_notebook
from kernellab.common.text import counted


def open_bar(title: str, total: int | None, seconds: float, *, wanted: bool) -> Bar | None:
    """A bar for work that has begun.

    Args:
        total: of its steps, None if it is not known.
        wanted: whether a line is written even if stderr is not a terminal.

    Returns:
        None if nothing shows it.
    """
    if not (wanted or in_notebook() or sys.stderr.isatty()):
        return None
    options = {
        "desc": title,
        "total": _counted(total),
        "leave": False,
        "mininterval": 0,
        "smoothing": 0,  # what remains goes by all the time that has passed
    }
    return _NotebookBar(options, seconds) if in_notebook() else _Line(options, seconds)


class _Line:
    """A line that is overwritten with each step, and cleared at the end."""

    def __init__(self, options: dict[str, Any], seconds: float) -> None:
        from tqdm import tqdm

        self._bar: Any = tqdm(
            **options, file=sys.stderr, dynamic_ncols=True, delay=1e-6, bar_format=_IN_ONE_PIECE
        )
        self._bar.start_t -= seconds

    def draw(self, done: int, total: int | None, unit: str, words: str) -> None:
        """See Bar."""
        bar, steps = self._bar, _counted(total)
        if steps is not None and steps != bar.total:
            began = bar.start_t
            bar.reset(steps)
            bar.start_t = began
        bar.total = steps
        bar.bar_format = _format(done, total, unit)
        bar.set_postfix_str(words, refresh=False)
        bar.n = done
        bar.refresh()

    def close(self) -> None:
        """See Bar."""
        self._bar.close()


class _NotebookBar(_Line):
    """tqdm's widget below the cell. At the end the output that showed it is empty,
    also in a saved notebook, which would otherwise report a missing widget.
    """

    def __init__(self, options: dict[str, Any], seconds: float) -> None:
        from IPython.display import display
        from tqdm.notebook import tqdm

        self._bar = tqdm(**options, display=False, bar_format=_IN_ONE_PIECE)
        self._bar.start_t -= seconds
        self._place = display(self._bar.container, display_id=True)

    def close(self) -> None:
        """See Bar."""
        super().close()
        self._bar.container.close()
        if self._place is not None:
            self._place.update({"text/plain": ""}, raw=True)


_IN_ONE_PIECE = "{desc}: {elapsed}{postfix}"


def _counted(total: int | None) -> int | None:
    """The total, unless the work is in one piece: then there is nothing to count."""
    return None if total == 1 else total


def _format(done: int, total: int | None, unit: str) -> str:
    if total is not None and total > 1:
        return (
            f"{{desc}}: {{percentage:3.0f}}%|{{bar}}| {{n_fmt}}/{{total_fmt}} {unit} "
            f"[{{elapsed}}<{{remaining}}{{postfix}}]"
        )
    if total is None and done:
        return f"{{desc}}: {counted(done, unit.removesuffix('s'))} [{{elapsed}}{{postfix}}]"
    return _IN_ONE_PIECE
