"""A kernel in Python's own debugger: on its source lines, with its tiles as NumPy arrays."""

from __future__ import annotations

import pdb  # noqa: T100 - no one debugs this file
from collections.abc import Callable

# The debugger class that sessions use. This module imports nothing heavy, because the notebook
# extension sets the class when it is loaded.


def python_debugger() -> type[pdb.Pdb]:
    """Return Python's own debugger, the default outside of IPython."""
    return pdb.Pdb


current_debugger: Callable[[], type[pdb.Pdb]] = python_debugger
"""Returns the class; the notebook extension replaces it with one that returns IPython's."""
