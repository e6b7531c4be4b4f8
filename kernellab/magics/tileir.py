"""`%tileir`: the IR explorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.errors import SourcePosition
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import Shell
from kernellab.magics.kernel_line import compilation_of, evaluated, read_line, refuse_no_kernel
from kernellab.magics.magic import line_magic
from kernellab.magics.notebook_names import read_variables
from kernellab.magics.options import Option, Options
from kernellab.magics.tilekernel import COMPILING
from kernellab.records.display import show

if TYPE_CHECKING:
    from kernellab.records import Target


def _targets(text: str) -> list[Target]:
    from kernellab.compiler.targets import parse_targets

    targets = parse_targets(text)
    if len(targets) > 2:
        raise ValueError("the explorer shows one target, or two that are compared")
    return targets


OPTIONS = Options(
    "tileir",
    (
        replace(
            COMPILING[0],
            metavar="GPU[,GPU]",
            help="The GPU to compile for; two of them are compared. The cell's own by default.",
            read=_targets,
        ),
        *COMPILING[1:],
        Option(
            "--with",
            "NAME[,NAME]",
            "Variables that hold evidence: what kernellab.check, kernellab.accesses and "
            "kernellab.read_ncu gave. Findings are shown in the margin, numbers next to the lines.",
            read=read_variables,
            repeated=True,
        ),
    ),
    sigil="%",
)

_HELP = """Show every pass of a kernel's compilation, and all its stages with linked lines.

Give a kernel, and it is compiled for its latest launch; without a launch, for --sig, else for its
annotations, else for assumed types. Or give what is compiled already: a Compilation, or what
kernellab.compare gives. docs/widgets.md explains what there is to see.

Options:

{options}

Examples:

  %tileir add
      The kernel as it was launched last.

  %tileir matmul --target sm_80,sm_90
      Two targets side by side.

  %tileir add --with report,costs
      What `report = kernellab.check(...)` found and `costs = kernellab.accesses(...)` counted, too.

  %tileir add --sig "*fp16:16, *fp16:16, n=i32" --constexpr BLOCK=1024
      A kernel that was not launched.
"""


@line_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tileir(shell: Shell, line: str) -> Any:
    """Explore the kernel on a line."""
    position = ipython_api.running_line(shell, f"%tileir {line}".rstrip())
    given, expression = read_line(OPTIONS, line, position)
    known, magic = shell.user_ns, OPTIONS.magic
    thing = evaluated(expression, known, magic, position(""))
    names = [name for some in given["with"] for name in some]
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.errors import CompileError
    from kernellab.magics.compile_options import is_kernel
    from kernellab.viz.explorer.annotations import can_annotate

    annotations = [evaluated(name, known, magic, position(name), can_annotate) for name in names]
    if not is_kernel(thing):
        refuse_no_kernel(thing, expression, known, magic, position(""))
        return show(thing, *annotations)
    try:
        return show(_compiled(thing, given, position("")), *annotations)
    except CompileError as error:
        ipython_api.show(show(error))
        raise


def _compiled(kernel: Any, given: Mapping[str, Any], position: SourcePosition) -> Any:
    """The compilation of a kernel, or two that are compared."""
    from kernellab.compiler.compare import compare

    targets = given["target"] or [None]
    compilations = [
        compilation_of(kernel, {**given, "target": target}, position) for target in targets
    ]
    return compilations[0] if len(compilations) == 1 else compare(compilations[0], compilations[1])
