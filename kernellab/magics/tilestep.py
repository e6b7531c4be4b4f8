"""`%tilestep`: a launch traced, and shown step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import read_program, read_whole_number
from kernellab.magics.ipython_api import Shell
from kernellab.magics.launch_line import launch_on_line
from kernellab.magics.magic import line_magic
from kernellab.magics.notebook_names import expected, read_path
from kernellab.magics.options import Option, Options

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace

OPTIONS = Options(
    "tilestep",
    (
        Option(
            "--program",
            "X,Y,Z",
            "The id of a program to trace: 96, or 2,1,0; 0,0,0 by default. May be repeated.",
            read_program,
            repeated=True,
        ),
        Option("--all", "", "Trace every program of the grid."),
        Option(
            "--expect",
            "NAME",
            "A variable that holds right results by parameter, or a function that computes them, "
            "as for %tilecheck: the stepper opens where the first wrong element was written.",
            read_path,
        ),
        Option("--operations", "", "One step for each operation of the IR, not for each line."),
        Option(
            "--exact-bytes",
            "N",
            "The largest value that is kept exactly, 65536 by default. Larger ones are computed "
            "again when they are asked for.",
            read_whole_number,
        ),
        Option(
            "--in-place",
            "",
            "Let the launch change the tensors. By default it runs on copies.",
        ),
    ),
    sigil="%",
)

_HELP = """Trace a launch, and show it step by step, forwards and backwards.

The whole grid runs; of one program every line is kept, with the variables that it changed and the
elements that it accessed. The result is a Trace: `t = %tilestep add[grid](...)` keeps it, and
t.at(5), t.find(...), t.history("acc"), t.diff(other) and t.save(path) use it.

Options, before the launch:

{options}

Examples:

  %tilestep add[grid](x, y, z, n, BLOCK=1024)
      The steps of program (0, 0, 0).

  %tilestep --program 2,1 --operations matmul[grid](a, b, c)
      The operations of program (2, 1, 0).

  %tilestep --expect torch.add add[grid](x, y, z, n, BLOCK=1024)
      The step that wrote the first element of z that is not torch.add(x, y).
"""


@line_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tilestep(shell: Shell, line: str) -> Trace:
    """Trace the launch on a line."""
    launch, given, position = launch_on_line(shell, OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.tracing.launches import trace

    names = ("operations", "in_place", "exact_bytes")
    options: dict[str, Any] = {name: given[name] for name in names if given[name]}
    options |= expected(given, shell, OPTIONS.magic, position)
    if given["all"] or given["program"]:
        options["programs"] = "all" if given["all"] else given["program"]
    return trace(launch.kernel, launch.grid, *launch.args, **options, **launch.keywords)
