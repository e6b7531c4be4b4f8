"""A cell that ends in what a magic is about: what stands above it, and that expression."""

from __future__ import annotations

import ast

from kernellab.errors import OptionError
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell


def above_and_last(
    running: RunningCell, body: str, magic: str, what: str, advice: str
) -> tuple[str, str]:
    """The cell above its last expression, and that expression.

    Args:
        running: the cell.
        body: without the magic's line.
        magic: as the user writes it: "%%tiletune".
        what: it should end in: "launch".
        advice: for a cell that ends in something else.

    Raises:
        OptionError: the cell does not end in an expression.
        SyntaxError: it is no Python.
    """
    try:
        statements = ast.parse(body).body
    except SyntaxError:
        ipython_api.execute(
            running, body
        )  # raises it as any cell does; IPython's own syntax may be all it is
        statements = []
    if not statements or not isinstance(statements[-1], ast.Expr):
        raise OptionError(
            f"{magic}: the cell ends in no {what}", advice=advice, position=running.position(magic)
        )
    last = statements[-1]
    lines = body.splitlines(keepends=True)
    above = "".join(lines[: last.lineno - 1])
    return above, ast.get_source_segment(body, last) or ""
