"""`%%tilegraph`: the call at the end of a cell, under torch.compile, opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernellab.common.arguments import names_in, read_constexpr
from kernellab.errors import OptionError
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell
from kernellab.magics.launch_line import read_call, run_above_last
from kernellab.magics.magic import cell_magic
from kernellab.magics.notebook_names import read_variable, value_at
from kernellab.magics.options import Option, Options

OPTIONS = Options(
    "tilegraph",
    (
        Option("--gpu", "GPU", "The GPU that code is generated for: h200, a100, mi300x, sm_90."),
        Option("--backward", "", "Also the gradient of everything in the result that has one."),
        Option("--dynamic", "", "Sizes are symbols from the start."),
        Option("--fullgraph", "", "A graph break is an error."),
        Option(
            "--mode",
            "MODE",
            "Of torch.compile: max-autotune, ...",
            values=names_in("kernellab.graphs.graph:MODES"),
        ),
        Option(
            "--backend",
            "NAME",
            "Another backend than Inductor: one that is installed, or a function of the notebook.",
        ),
        Option(
            "--option",
            "NAME=VALUE",
            "An option of Inductor's, or of the backend: max_fusion_size=1. May be repeated.",
            read_constexpr,
            repeated=True,
        ),
        Option(
            "--name",
            "VARIABLE",
            "The variable that gets the GraphReport: report by default.",
            read_variable,
        ),
    ),
)

_HELP = """Compile the call at the end of the cell with torch.compile, for a GPU that need not be
there, and show every level of it: graph breaks, guards, FX, ATen, fusions, kernels.

The cell is an ordinary cell whose last expression is a call of a function of tensors, or of a
module: model(x). The code above it is run; the call itself runs once on the CPU, in a separate
process. The GraphReport is in the variable `report` afterwards: report.graphs, report.breaks,
report.kernels[0].compilation.explore().

Options:

{options}

Examples:

  %%tilegraph --gpu h200 --backward
  model(x)

  %%tilegraph --option max_fusion_size=1
  torch.softmax(x, -1)

  %%tilegraph --backend my_compiler
  model(x)
"""


@cell_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tilegraph(running: RunningCell, line: str, body: str) -> None:
    """Run the code above the call, capture the call, show the report."""
    given = OPTIONS.parse(line, running.position)
    advice = "Its last line is the call to open, as in model(x)."
    called = run_above_last(running, body, OPTIONS.magic, "call", advice)
    namespace = running.shell.user_ns
    position = running.position(OPTIONS.magic)
    function, args, keywords = read_call(called, namespace, OPTIONS.magic, position)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.graphs.graph import GraphOptions, graph_call

    options = GraphOptions(
        gpu=given["gpu"] or GraphOptions.gpu,
        backward=given["backward"],
        dynamic=True if given["dynamic"] else None,
        fullgraph=given["fullgraph"],
        mode=given["mode"],
        options=dict(given["option"] or ()),
        backend=_backend(given["backend"], namespace, running),
    )
    report = graph_call(function, args, keywords, options)
    namespace[given["name"] or "report"] = report
    ipython_api.show(report)


def _backend(name: str | None, namespace: Mapping[str, Any], running: RunningCell) -> Any:
    """A function of the notebook's, where one is called so, else the name of a backend.

    Raises:
        OptionError: neither is called so; points at the word.
    """
    if name is None:
        return None
    from kernellab.graphs.captures import check_name

    position = running.position(name)
    if name.partition(".")[0] in namespace:
        return value_at(name, namespace, OPTIONS.magic, position, "--backend")
    try:
        check_name(name)
    except OptionError as error:
        raise OptionError(
            f"the notebook has no variable {name!r}, and {error.problem}",
            advice=error.advice,
            position=position,
        ) from None
    return name
