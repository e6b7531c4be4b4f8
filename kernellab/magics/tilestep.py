"""`%tilestep`: a launch traced, and shown step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from kernellab.common.option_values import read_program, read_whole_number
from kernellab.magics import ipython_api
from kernellab.magics.launch_line import read_launch
from kernellab.magics.notebook_names import read_path, value_at
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
t.at(5), t.find(...), t.history("acc"), t.diff(other) and t.save(path) ask it.

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


@magics_class
class TileStepMagics(Magics):
    """The magic `%tilestep`."""

    @no_var_expand
    @line_magic
    def tilestep(self, line: str) -> Trace:
        assert self.shell is not None  # a magic is called by its shell
        position = ipython_api.running_line(self.shell, f"%tilestep {line}".rstrip())
        given, rest = OPTIONS.parse_leading(line, position)
        launch = read_launch(rest, self.shell.user_ns, OPTIONS.magic, position(""))
        # Imported here: torch and Triton take longer than the rest of loading the extension.
        from kernellab.tracing.tracing_run import trace

        names = ("operations", "in_place", "exact_bytes")
        options: dict[str, Any] = {name: given[name] for name in names if given[name]}
        if given["expect"] is not None:
            place = position(given["expect"])
            options["expect"] = value_at(
                given["expect"], self.shell.user_ns, OPTIONS.magic, place, "--expect"
            )
        if given["all"] or given["program"]:
            options["programs"] = "all" if given["all"] else given["program"]
        return trace(launch.kernel, launch.grid, *launch.args, **options, **launch.keywords)

    tilestep.__doc__ = _HELP.format(options=OPTIONS.help())
