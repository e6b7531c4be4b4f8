"""Where views are shown."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this, which can hold a widget's other end."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return getattr(shell, "kernel", None) is not None
