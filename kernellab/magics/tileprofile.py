"""`%tileprofile`: a launch, profiled; `%%tileprofile`: all launches of a cell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell
from kernellab.magics.launch_line import read_launch
from kernellab.magics.notebook_names import read_variable
from kernellab.magics.options import Option, Options

if TYPE_CHECKING:
    from kernellab.profiling.profiles.profile import Profile


def _backends() -> list[str]:
    from kernellab.profiling.sessions.profiling import BACKENDS

    return list(BACKENDS)


def _details() -> list[str]:
    from kernellab.profiling.line_scopes.placing import DETAILS

    return list(DETAILS)


_MODES = ["pcsampling"]

_COMMON = (
    Option(
        "--backend",
        "WHO",
        "Who measures: interpreter, or Proton's cupti and roctracer.",
        values=_backends,
    ),
    Option("--mode", "MODE", "Of Proton: pcsampling for samples of lines.", values=lambda: _MODES),
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
            values=_details,
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


@magics_class
class TileProfileMagics(Magics):
    """The magics `%tileprofile` and `%%tileprofile`."""

    @no_var_expand
    @line_cell_magic
    def tileprofile(self, line: str, cell: str | None = None) -> Profile | None:
        assert self.shell is not None  # a magic is called by its shell
        if cell is None:
            return _of_launch(self.shell, line)
        with ipython_api.cell_of_magic(self.shell, CELL_OPTIONS.magic, line, cell) as running:
            _of_cell(running, CELL_OPTIONS.parse(line, running.position), cell)
        return None

    tileprofile.__doc__ = _HELP.format(line=LINE_OPTIONS.help(), cell=CELL_OPTIONS.help())


def _of_launch(shell: Any, line: str) -> Profile:
    position = ipython_api.running_line(shell, f"%tileprofile {line}".rstrip())
    given, rest = LINE_OPTIONS.parse_leading(line, position)
    launch = read_launch(rest, shell.user_ns, LINE_OPTIONS.magic, position(""))
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.profiling.sessions.profiling import profile

    own = {name: one for name, one in given.items() if one is not None and name != "save"}
    found: Profile = profile(launch.kernel, launch.grid, *launch.args, **own, **launch.keywords)
    if given["save"] is not None:
        found.save(given["save"])
    return found


def _of_cell(running: RunningCell, given: Mapping[str, Any], body: str) -> None:
    from kernellab.profiling.sessions.profiling import profile

    own = {name: given[name] for name in ("backend", "mode", "context") if given[name] is not None}
    with profile(**own) as session:
        ipython_api.execute(running, body)
    running.shell.user_ns[given["name"] or "profile"] = session.profile
    if given["save"] is not None:
        session.profile.save(given["save"])
    ipython_api.show(session.profile)
