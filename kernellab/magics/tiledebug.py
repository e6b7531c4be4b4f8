"""`%tiledebug`: a launch in the debugger."""

from __future__ import annotations

from typing import Any

from kernellab.common.arguments import read_program
from kernellab.magics.ipython_api import Shell
from kernellab.magics.launch_line import launch_on_line
from kernellab.magics.magic import line_magic
from kernellab.magics.options import Option, Options

OPTIONS = Options(
    "tiledebug",
    (
        Option(
            "--program",
            "X,Y,Z",
            "The id of a program to stop in: 96, or 2,1,0; 0,0,0 by default. May be repeated.",
            read_program,
            repeated=True,
        ),
        Option(
            "--break",
            "PLACE",
            'Where to stop: a line of the cell or file (14), with a condition ("14, x.max() > '
            '10"), or a function that the kernel calls (helper). May be repeated. Without any the '
            "debugger stops at the kernel's first line.",
            repeated=True,
        ),
        Option(
            "--in-place",
            "",
            "Let the launch change the tensors, once it has come to its end. By default it "
            "runs on copies.",
        ),
    ),
    sigil="%",
)

_HELP = """Run a launch in the debugger, on the kernel's own lines.

The whole grid runs; the debugger stops in one program, at the kernel's first line or at
breakpoints. n, s, u, d, b, p, display and all else are as in %debug. Names are the kernel's: tiles
are NumPy arrays, pointer arguments show their tensors. s enters helper functions and Triton's own,
such as tl.sum. A breakpoint() in the kernel is a place to stop. q ends the launch and leaves every
tensor as it was.

Options, before the launch:

{options}

Examples:

  %tiledebug add[grid](x, y, z, n, BLOCK=1024)
      Stop at the first line of program (0, 0, 0).

  %tiledebug --program 96 --break "7, x.max() > 10" add[grid](x, y, z, n, BLOCK=1024)
      Stop in program (96, 0, 0) on line 7, when the tile x has a value above 10.
"""


@line_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tiledebug(shell: Shell, line: str) -> None:
    """Debug the launch on a line."""
    launch, given, _ = launch_on_line(shell, OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.debugger.debug import debug

    said = {
        "program": given["program"],
        "breakpoints": given["break"],
        "in_place": given["in_place"],
    }
    options: dict[str, Any] = {name: value for name, value in said.items() if value}
    debug(launch.kernel, launch.grid, *launch.args, **options, **launch.keywords)
