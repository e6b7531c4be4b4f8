"""`%tilelayout`: where the elements of a kernel's tiles are."""

from __future__ import annotations

from typing import Any

from kernellab.common import upcalls
from kernellab.errors import OptionError
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import Shell
from kernellab.magics.kernel_line import compilation_of, evaluated, read_line, refuse_no_kernel
from kernellab.magics.magic import line_magic
from kernellab.magics.options import Option, Options
from kernellab.magics.tilekernel import COMPILING
from kernellab.records.display import show

OPTIONS = Options(
    "tilelayout",
    (
        *COMPILING,
        Option(
            "--after",
            "PASS",
            'The pass after which the tiles are looked at: "ttgir.coalesce". The finished TTGIR '
            "where left out.",
        ),
    ),
    sigil="%",
)

_HELP = """Show which thread and register, or which place in memory,
holds which element of a kernel's tiles.

Give a kernel, and after it the name of a tile; without one, all tiles can be chosen. The kernel is
compiled for its latest launch, else for --sig, annotations or assumed types. A Compilation, and any
layout (kernellab.Layout, compilation.layouts()["acc"][0]), can be given in the kernel's place.
docs/widgets.md explains what there is to see.

Options:

{options}

Examples:

  %tilelayout matmul accumulator
      The tiles that the kernel calls accumulator.

  %tilelayout matmul --after ttgir.coalesce --target sm_80
      All tiles, as one pass left them.
"""


@line_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tilelayout(shell: Shell, line: str) -> Any:
    """Show the layouts of the kernel on a line."""
    position = ipython_api.running_line(shell, f"%tilelayout {line}".rstrip())
    given, words = read_line(OPTIONS, line, position)
    expression, name = _split(words)
    thing = evaluated(expression, shell.user_ns, OPTIONS.magic, position(""))
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.magics.compile_options import is_kernel
    from kernellab.records import Compilation

    if is_kernel(thing):
        thing = compilation_of(thing, given, position(""))
    if isinstance(thing, Compilation):
        view = show(thing.layouts(given["after"] or "ttgir"), name=name)
        return upcalls.views().beside(view, thing)
    refuse_no_kernel(thing, expression, shell.user_ns, OPTIONS.magic, position(""))
    if name is not None or given["after"]:
        raise OptionError(
            f"{OPTIONS.magic}: a tile's name and --after go with a kernel or a Compilation",
            position=position(""),
        )
    return show(thing)


def _split(words: str) -> tuple[str, str | None]:
    """A kernel, and the name of a tile after it."""
    expression, blank, name = words.rpartition(" ")
    return (expression.strip(), name) if blank and name.isidentifier() else (words, None)
