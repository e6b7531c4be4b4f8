"""`%tilecheck`: a launch with every detector of the checker on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from kernellab.common.option_values import read_whole_number
from kernellab.magics import ipython_api
from kernellab.magics.launch_line import read_launch
from kernellab.magics.notebook_names import read_path, value_at
from kernellab.magics.options import Option, Options

if TYPE_CHECKING:
    from kernellab.checker.records import Findings


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


OPTIONS = Options(
    "tilecheck",
    (
        Option(
            "--outputs",
            "NAMES",
            "Arguments that the kernel must write as a whole: z_ptr, or z_ptr,sums_ptr. "
            "May be repeated.",
            _names,
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
            "A while loop that takes more turns is stopped, and told as endless; "
            "100000 by default.",
            read_whole_number,
        ),
    ),
    sigil="%",
)

_HELP = """Run a launch on the CPU with every detector on, and tell each fault that is found once.

It runs on copies: tensors stay as they are. Out-of-bounds accesses, races between programs,
reads of uninitialised memory (kernellab.uninitialized), unwritten outputs, lanes that collide,
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


@magics_class
class TileCheckMagics(Magics):
    """The magic `%tilecheck`."""

    @no_var_expand
    @line_magic
    def tilecheck(self, line: str) -> Findings:
        assert self.shell is not None  # a magic is called by its shell
        position = ipython_api.running_line(self.shell, f"%tilecheck {line}".rstrip())
        given, rest = OPTIONS.parse_leading(line, position)
        launch = read_launch(rest, self.shell.user_ns, OPTIONS.magic, position(""))
        # Imported here: torch and Triton take longer than the rest of loading the extension.
        from kernellab.checker.checking import check

        own = {name: given[name] for name in ("target", "most_turns") if given[name] is not None}
        if given["outputs"]:
            own["outputs"] = [name for names in given["outputs"] for name in names]
        if given["expect"] is not None:
            place = position(given["expect"])
            own["expect"] = value_at(
                given["expect"], self.shell.user_ns, OPTIONS.magic, place, "--expect"
            )
        return check(launch.kernel, launch.grid, *launch.args, **own, **launch.keywords)

    tilecheck.__doc__ = _HELP.format(options=OPTIONS.help())
