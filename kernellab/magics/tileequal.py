"""`%tileequal`: whether a launch computes what another kernel or a function of torch computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernellab.common.arguments import read_whole_number
from kernellab.magics.ipython_api import Shell
from kernellab.magics.launch_line import launch_on_line
from kernellab.magics.magic import line_magic
from kernellab.magics.notebook_names import read_path, value_at
from kernellab.magics.options import Option, Options, stated

if TYPE_CHECKING:
    from kernellab.records.comparisons import Equality


OPTIONS = Options(
    "tileequal",
    (
        Option(
            "--with",
            "NAME",
            "What it is compared with: a kernel that takes the same launch, a launch from "
            "kernellab.bind, or a function of torch.",
            read_path,
        ),
        Option(
            "--seeds", "N", "How many sets of random residues; 3 by default.", read_whole_number
        ),
        Option("--target", "GPU", "The GPU to compile for: sm_90, gfx942, ..."),
    ),
    sigil="%",
)

_HELP = """Decide whether a launch computes the same as something else, for all inputs of its sizes.

Both run on the CPU with residues in place of floats, so that rounding and the order of sums do not
count: see docs/equality.md. Tensors stay as they are.

Options, before the launch:

{options}

Examples:

  %tileequal --with torch.add add[grid](x, y, z, n, BLOCK=1024)
      Compare z with torch.add(x, y).

  %tileequal --with online_softmax softmax[grid](x, y, n, BLOCK=1024)
      Compare two kernels.
"""


@line_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tileequal(shell: Shell, line: str) -> Equality:
    """Compare the launch on a line with something else."""
    launch, given, position = launch_on_line(shell, OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.equality.equal import equal
    from kernellab.errors import OptionError

    path = given["with"]
    if path is None:
        raise OptionError(
            "%tileequal needs --with: the kernel or the function to compare with.",
            position=position(""),
            advice="For example %tileequal --with torch.add add[grid](x, y, z, n, BLOCK=1024).",
        )
    other = value_at(path, shell.user_ns, OPTIONS.magic, position(path), "--with")
    own = stated(given, "seeds", "target")
    return equal(launch.kernel, other, launch.grid, *launch.args, **own, **launch.keywords)
