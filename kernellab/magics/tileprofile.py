"""`%tileprofile`: a launch, profiled; `%%tileprofile`: all launches of a cell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kernellab.common.arguments import names_in
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell, Shell
from kernellab.magics.launch_line import launch_on_line
from kernellab.magics.magic import cell_magic, line_magic
from kernellab.magics.notebook_names import read_variable
from kernellab.magics.options import Option, Options, stated

if TYPE_CHECKING:
    from kernellab.profiling.profiles.profile import Profile


_COMMON = (
    Option(
        "--backend",
        "WHO",
        "Who measures: interpreter, or Proton's cupti and roctracer.",
        values=names_in("kernellab.profiling.profiles.session:BACKENDS"),
    ),
    Option(
        "--mode",
        "MODE",
        "Of Proton: pcsampling for samples of lines.",
        values=lambda: ["pcsampling"],
    ),
    Option("--save", "FILE", "Where the profile goes too: p.hatchet.", os.path.expanduser),
)
LINE_OPTIONS = Options(
    "tileprofile",
    (
        *_COMMON,
        Option(
            "--detail",
            "HOW",
            "How finely a GPU's cycles are measured: operations, lines, loops, program.",
            values=names_in("kernellab.profiling.profiles.line_marks:DETAILS"),
        ),
    ),
    sigil="%",
)

CELL_OPTIONS = Options(
    "tileprofile",
    (
        *_COMMON,
        Option(
            "--context",
            "WHAT",
            "What launches are below: shadow, the scopes of the cell; python, also frames.",
            values=lambda: ["shadow", "python"],
        ),
        Option(
            "--name", "VARIABLE", "Variable for the Profile: profile by default.", read_variable
        ),
    ),
)

_HELP = """Profile a launch, line by line; with %% all launches of a cell.

On a GPU one launch gets cycles by line, and a cell is a session of Proton's. With tensors on the
CPU the launches run on the interpreter: time on this CPU, executions, bytes and floating-point
operations of each line, which are not a GPU's time.

Options of %tileprofile, before the launch:

{line}

Options of %%tileprofile:

{cell}

Examples:

  %tileprofile matmul[grid](a, b, c, M, N, K)
      Profile the launch. found = %tileprofile ... keeps the Profile: found.lines, found.plot().

  %%tileprofile --context python --save step.hatchet
  model.step(x)
      Profile all that the cell launches; the Profile is in the variable `profile`.
"""


_DOC = _HELP.format(line=LINE_OPTIONS.help(), cell=CELL_OPTIONS.help())


@line_magic(LINE_OPTIONS, _DOC)
def tileprofile(shell: Shell, line: str) -> Profile:
    """Profile the launch on a line."""
    launch, given, _ = launch_on_line(shell, LINE_OPTIONS, line)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.profiling.profiles.session import profile

    own = stated(given, "backend", "mode", "detail")
    measured: Profile = profile(launch.kernel, launch.grid, *launch.args, **own, **launch.keywords)
    if given["save"] is not None:
        measured.save(given["save"])
    return measured


@cell_magic(CELL_OPTIONS, _DOC)
def tileprofile_of_cell(running: RunningCell, line: str, body: str) -> None:
    """Profile all that a cell launches."""
    given = CELL_OPTIONS.parse(line, running.position)
    from kernellab.profiling.profiles.session import profile

    with profile(**stated(given, "backend", "mode", "context")) as session:
        ipython_api.execute(running, body)
    running.shell.user_ns[given["name"] or "profile"] = session.profile
    if given["save"] is not None:
        session.profile.save(given["save"])
    ipython_api.show(session.profile)
