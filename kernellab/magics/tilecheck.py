"""`%tilecheck`: a launch with every detector of the checker on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernellab.common.arguments import read_names, read_whole_number
from kernellab.magics.ipython_api import Shell
from kernellab.magics.launch_line import launch_on_line
from kernellab.magics.magic import line_magic
from kernellab.magics.notebook_names import expected, read_path
from kernellab.magics.options import Option, Options, stated

if TYPE_CHECKING:
    from kernellab.checker.records import Findings


OPTIONS = Options(
    "tilecheck",
    (
        Option(
            "--outputs",
            "NAMES",
            "Arguments that the kernel must write as a whole: z_ptr, or z_ptr,sums_ptr. "
            "May be repeated.",
            read_names,
            repeated=True,
        ),
        Option(
            "--expect",
            "NAME",
            "A variable that holds right results by parameter, or a function that computes them: "
            "of the kernel's parameters by their names, or of the tensors that it reads.",
            read_path,
        ),
        Option(
            "--target",
            "GPU",
            "The GPU to emulate: sm_90, gfx942, ...; by default the kernel's own.",
        ),
        Option(
            "--most-turns",
            "N",
            "A while loop with more iterations is stopped and reported as endless; "
            "100000 by default.",
            read_whole_number,
        ),
    ),
    sigil="%",
)

_HELP = """Run a launch on the CPU with every detector enabled, and report each fault once.

It runs on copies: tensors stay as they are. Out-of-bounds accesses, races between programs,
reads of uninitialized memory (kernellab.uninitialized), unwritten outputs, lanes that collide,
missing other=, index overflow, broken hints, NaN, deadlocks, loops without end, results that
depend on the order.

Options, before the launch:

{options}

Examples:

  %tilecheck add[grid](x, y, z, n, BLOCK=1024)
      Check the launch.

  found = %tilecheck --outputs z_ptr add[grid](x, y, z, n, BLOCK=1024)
      Check too that every element of z is written, and keep what is found:
      found[0].line, found.table().

  %tilecheck --expect torch.add add[grid](x, y, z, n, BLOCK=1024)
      Compare z with torch.add(x, y), too: the first element that is off, and the line and the
      program that wrote it.
"""


@line_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tilecheck(shell: Shell, line: str) -> Findings:
    """Check the launch on a line."""
    launch, given, position = launch_on_line(shell, OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.checker.check import check

    own = stated(given, "target", "most_turns") | expected(given, shell, OPTIONS.magic, position)
    if given["outputs"]:
        own["outputs"] = [name for names in given["outputs"] for name in names]
    return check(launch.kernel, launch.grid, *launch.args, **own, **launch.keywords)
