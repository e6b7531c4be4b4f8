"""A magic: a function under a name, and the options of its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from IPython.core.magic import no_var_expand

from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell, Shell
from kernellab.magics.options import Options

OfLine = Callable[[Shell, str], Any]
"""Takes the shell and the rest of the line; what it returns is the value of the line."""

OfCell = Callable[[RunningCell, str, str], None]
"""Takes the cell, the rest of the magic's line, and the cell below that line."""


@dataclass(frozen=True)
class Magic:
    """What IPython registers.

    Attributes:
        kind: of a line, or of a cell.
        options: those of its line, with its name.
        help: what `?` shows.
        function: an `OfLine` or an `OfCell`.
    """

    kind: Literal["line", "cell"]
    options: Options
    help: str
    function: Callable[..., Any]

    def register(self, shell: Shell) -> None:
        """Make the magic known to a shell, with the completion of its line."""

        @no_var_expand
        def of_line(line: str) -> Any:
            return self.function(shell, line)

        def of_cell(line: str, cell: str) -> None:
            with ipython_api.cell_of_magic(shell, self.options.magic, line, cell) as running:
                self.function(running, line, cell)

        called: Callable[..., Any] = of_line if self.kind == "line" else of_cell
        called.__doc__ = self.help
        shell.magics_manager.register_function(called, self.kind, self.options.name)
        ipython_api.complete_options(shell, self.options)


def line_magic(options: Options, help: str) -> Callable[[OfLine], Magic]:
    """Make a function a magic of one line."""
    return lambda function: Magic("line", options, help, function)


def cell_magic(options: Options, help: str) -> Callable[[OfCell], Magic]:
    """Make a function a magic of a cell; an error in it is the cell's."""
    return lambda function: Magic("cell", options, help, function)
