"""`%%tiletune`: the launch at the end of a cell, with each of many configs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernellab.common.arguments import (
    names_in,
    read_constexpr,
    read_names,
    read_tolerance,
    read_whole_number,
)
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell
from kernellab.magics.launch_line import read_launch, run_above_last
from kernellab.magics.magic import cell_magic
from kernellab.magics.notebook_names import read_variable, read_variables, value_of
from kernellab.magics.options import Option, Options, Position, stated
from kernellab.magics.tilekernel import COMPILING


def _values(text: str) -> tuple[str, list[Any]]:
    """ "BLOCK=128,256" as ("BLOCK", [128, 256])."""
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values:
        raise ValueError("write NAME=VALUE,VALUE,..., as in --space BLOCK=128,256")
    return name, [read_constexpr(f"{name}={value.strip()}")[1] for value in values.split(",")]


OPTIONS = Options(
    "tiletune",
    (
        Option(
            "--space",
            "NAME=VALUES",
            "Values to try of a constant or an option: BLOCK=128,256 or num_warps=2,4,8. May be "
            "repeated; all combinations are tried. Without it, what @triton.autotune carries.",
            _values,
            repeated=True,
        ),
        Option(
            "--key",
            "NAMES",
            "Arguments by whose values a config is to be chosen: n, or M,N,K.",
            read_names,
        ),
        replace(
            COMPILING[0],
            help="The GPU to compile for, where the arguments are on the CPU: sm_90, gfx942, ...",
        ),
        Option("--gpus", "all", "Time on every GPU of this machine.", values=lambda: ["all"]),
        Option(
            "--seconds",
            "N",
            "How long one config may take to compile, and to run: 30 by default.",
            read_whole_number,
        ),
        Option(
            "--prune",
            "NAME",
            "A function that is given all arguments by name and says whether to leave "
            "the config out.",
            read_variable,
        ),
        Option(
            "--reference",
            "NAME",
            "Right results by parameter, or a function of the launch's arguments that gives them; "
            "without it the first config's count.",
            read_variable,
        ),
        Option(
            "--rtol",
            "NUMBER",
            "How far results may be apart, as a part of the right ones; by default this "
            "goes by the dtype.",
            read_tolerance,
        ),
        Option(
            "--atol",
            "NUMBER",
            "How far they may be apart on top of that; by default this goes by the dtype.",
            read_tolerance,
        ),
        Option(
            "--check", "", "Compare every config's results, however long that takes on the CPU."
        ),
        Option(
            "--baseline",
            "NAME[,NAME]",
            "Functions without arguments that compute the same in other ways, or dicts of such "
            "functions by name; they are timed where there is a GPU. May be repeated.",
            read_variables,
            repeated=True,
        ),
        Option(
            "--recorded",
            "FILE",
            "A saved sweep of the same launch, whose times are shown if there is no GPU.",
            os.path.expanduser,
        ),
        Option(
            "--executor",
            "NAME",
            "Where configs are compiled and run, instead of processes of this machine: a "
            "concurrent.futures.Executor.",
            read_variable,
        ),
        Option(
            "--plot",
            "KIND",
            "The plot that is shown first: times by default, registers where nothing is timed.",
            values=names_in("kernellab.tuning.plot_data:KINDS"),
        ),
        Option(
            "--name",
            "VARIABLE",
            "The variable that gets the Tuning: tuning by default.",
            read_variable,
        ),
        Option("--no-cache", "", "Know nothing from earlier sweeps, and keep nothing."),
    ),
)

_HELP = """Compile, check and time the launch at the end of the cell with each of many configs.

The cell is an ordinary cell whose last expression is a launch, without the constants and options
that are tried: add[grid](x, y, z, n). The code above it is run; the launch is carried out on
copies of its arguments. With CUDA tensors configs are timed; with tensors on the CPU they are
compiled and checked on the interpreter, and there are no times. The Tuning is in the variable
`tuning` afterwards.

Where an option takes the NAME of a variable, the cell itself may define it, above the launch.

Options:

{options}

Examples:

  %%tiletune --space BLOCK=128,256,512 --space num_warps=2,4,8 --key n
  add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, z, n)

  %%tiletune --reference right --baseline in_torch --rtol 2e-3 --space BLOCK=128,256
  right = {{"z_ptr": x + y}}
  in_torch = lambda: x + y
  add[grid](x, y, z, n)

  %%tiletune --plot heatmap
  autotuned_matmul[grid](a, b, c, M, N, K)
"""


@cell_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tiletune(running: RunningCell, line: str, body: str) -> None:
    """Run the code above the launch, tune the launch, show the result."""
    given = OPTIONS.parse(line, running.position)
    advice = "Its last line is the launch to tune, as in add[grid](x, y, z, n)."
    launched = run_above_last(running, body, OPTIONS.magic, "launch", advice)
    namespace = running.shell.user_ns
    launch = read_launch(launched, namespace, OPTIONS.magic, running.position(OPTIONS.magic))
    tune_options = _options(given) | _named_options(given, namespace, running.position)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.tuning.tune import tune

    tuning = tune(launch.kernel, launch.grid, *launch.args, **tune_options, **launch.keywords)
    namespace[given["name"] or "tuning"] = tuning
    ipython_api.show(tuning.show(plot=given["plot"]))


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    tune_options: dict[str, Any] = {"cache": not given["no_cache"]}
    if given["space"]:
        tune_options["space"] = dict(given["space"])
    if given["check"]:
        tune_options["check"] = True
    names = ("key", "target", "gpus", "seconds", "rtol", "atol", "recorded")
    return tune_options | stated(given, *names)


def _named_options(
    given: Mapping[str, Any], namespace: Mapping[str, Any], position: Position
) -> dict[str, Any]:
    """What variables of the notebook hold, by the parameters of `tune`."""

    def found(option: str, name: str) -> Any:
        return value_of(name, namespace, OPTIONS.magic, position(name), option)

    tune_options = {
        option: found(f"--{option}", given[option])
        for option in ("prune", "reference", "executor")
        if given[option] is not None
    }
    names = [name for some in given["baseline"] for name in some]
    if names:
        tune_options["baselines"] = _baselines({name: found("--baseline", name) for name in names})
    return tune_options


def _baselines(held: Mapping[str, Any]) -> dict[str, Any]:
    """Functions by name: a variable's own where it holds one, those that it gives them
    where it holds a dict.
    """
    baselines: dict[str, Any] = {}
    for name, value in held.items():
        baselines |= value if isinstance(value, Mapping) else {name: value}
    return baselines
