"""`%tilediagnose`: why a launch is slow, what costs most first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernellab.magics.ipython_api import Shell
from kernellab.magics.launch_line import options_before, read_launch
from kernellab.magics.magic import line_magic
from kernellab.magics.notebook_names import read_path, value_at
from kernellab.magics.options import Option, Options, stated

if TYPE_CHECKING:
    from kernellab.profiling.diagnosis.records import Diagnoses, Diagnosis

OPTIONS = Options(
    "tilediagnose",
    (
        Option(
            "--target",
            "GPU",
            "The GPU that it is compiled for: sm_90, gfx942, ...; by default the kernel's own.",
        ),
        Option(
            "--of",
            "NAME",
            "Instead of a launch: a variable that holds a compilation, a profile, a sweep, a "
            "report of torch.compile, or what was counted of accesses.",
            read_path,
        ),
    ),
    sigil="%",
)

_HELP = """Say why a launch is slow: findings ranked by what they cost, each with its line, its
evidence and what to change. Nothing is timed, and no GPU is needed.

Options, before the launch:

{options}

Examples:

  %tilediagnose matmul[grid](a, b, c, M, N, K, BM=128, BN=128, BK=64)
      Diagnose the launch.

  why = %tilediagnose --target sm_100 matmul[grid](a, b, c, M, N, K, BM=128, BN=128, BK=64)
      The same for another GPU, kept: why[0].kind, why[0].cost, why.table().

  %tilediagnose --of sweep
      Diagnose what a variable holds.
"""


@line_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tilediagnose(shell: Shell, line: str) -> Diagnosis | Diagnoses:
    """Diagnose the launch on a line, or what a variable holds."""
    given, rest, position = options_before(shell, OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.profiling.diagnosis.diagnose import diagnose

    own = stated(given, "target")
    if given["of"] is not None and not rest.strip():
        place = position(given["of"])
        return diagnose(value_at(given["of"], shell.user_ns, OPTIONS.magic, place, "--of"), **own)
    launch = read_launch(rest, shell.user_ns, OPTIONS.magic, position(""))
    return diagnose(launch.kernel, *launch.args, grid=launch.grid, **own, **launch.keywords)
