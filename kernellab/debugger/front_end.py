"""Which debugger a session takes. Imports nothing heavy:
the notebook extension sets it when it is loaded.
"""

from __future__ import annotations

import pdb  # noqa: T100 - nobody debugs this file
from collections.abc import Callable


def python_debugger() -> type[pdb.Pdb]:
    """The stock debugger: the rule where no IPython runs."""
    return pdb.Pdb


current_debugger: Callable[[], type[pdb.Pdb]] = python_debugger
"""Gives the class; the notebook extension puts IPython's here."""
