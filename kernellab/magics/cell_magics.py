"""The magics of a cell: `%%tiletune` and `%%tilegraph`, for the launch or the call at its end,
`%%tileexercise`, for the kernel in it, and `%%tilepass`, for the compiler pass in it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import (
    names_in,
    read_constexpr,
    read_names,
    read_tolerance,
    read_whole_number,
)
from kernellab.errors import OptionError
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell, Shell
from kernellab.magics.kernel_magics import COMPILING
from kernellab.magics.magic import (
    Option,
    Options,
    Position,
    cell_magic,
    line_magic,
    read_expression,
    read_launch,
    read_variable,
    read_variables,
    run_above_last,
    stated,
    value_at,
    value_of,
)

if TYPE_CHECKING:
    from kernellab.workshop.exercise import Answer

# `%%tiletune`: the launch at the end of a cell, with each of many configs.


def _values(text: str) -> tuple[str, list[Any]]:
    """ "BLOCK=128,256" as ("BLOCK", [128, 256])."""
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values:
        raise ValueError("write NAME=VALUE,VALUE,..., as in --space BLOCK=128,256")
    return name, [read_constexpr(f"{name}={value.strip()}")[1] for value in values.split(",")]


TUNE_OPTIONS = Options(
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
            "How far results may be apart, as a part of the right ones; by default what "
            "rounding explains.",
            read_tolerance,
        ),
        Option(
            "--atol",
            "NUMBER",
            "How far they may be apart on top of that; by default what rounding explains.",
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
            "Where configs are compiled and run, instead of processes of this machine: a Dask "
            "client, or a concurrent.futures.Executor.",
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

_TUNE_HELP = """Compile, check and time the launch at the end of the cell with each of many configs.

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


@cell_magic(TUNE_OPTIONS, _TUNE_HELP.format(options=TUNE_OPTIONS.help()))
def tiletune(running: RunningCell, line: str, body: str) -> None:
    """Run the code above the launch, tune the launch, show the result."""
    given = TUNE_OPTIONS.parse(line, running.position)
    advice = "Its last line is the launch to tune, as in add[grid](x, y, z, n)."
    launched = run_above_last(running, body, TUNE_OPTIONS.magic, "launch", advice)
    namespace = running.shell.user_ns
    launch = read_launch(
        launched, namespace, TUNE_OPTIONS.magic, running.position(TUNE_OPTIONS.magic)
    )
    tune_options = _options(given) | _named_options(given, namespace, running.position)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.tuning.tune import tune

    tuning = tune(launch, **tune_options)
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
        return value_of(name, namespace, TUNE_OPTIONS.magic, position(name), option)

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


# `%%tilegraph`: the call at the end of a cell, under torch.compile, opened.

GRAPH_OPTIONS = Options(
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

_GRAPH_HELP = """\
Compile the expression at the end of the cell with torch.compile, for a GPU that need not be
there, and show every level of it: graph breaks, guards, FX, ATen, fusions, kernels.

The cell is an ordinary cell whose last expression computes with tensors: model(x), or
model(x).sum(). The code above it is run; the expression itself runs once on the CPU, in a separate
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


@cell_magic(GRAPH_OPTIONS, _GRAPH_HELP.format(options=GRAPH_OPTIONS.help()))
def tilegraph(running: RunningCell, line: str, body: str) -> None:
    """Run the code above the call, capture the call, show the report."""
    given = GRAPH_OPTIONS.parse(line, running.position)
    advice = "Its last line is the call to open, as in model(x)."
    called = run_above_last(running, body, GRAPH_OPTIONS.magic, "call", advice)
    namespace = running.shell.user_ns
    header = running.position(GRAPH_OPTIONS.magic)
    above = body.rpartition(called)[0].count("\n") + 1
    position = replace(header, line=header.line + above, column=0)
    function, args, keywords = read_expression(called, namespace, GRAPH_OPTIONS.magic, position)
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
        return value_at(name, namespace, GRAPH_OPTIONS.magic, position, "--backend")
    try:
        check_name(name)
    except OptionError as error:
        raise OptionError(
            f"the notebook has no variable {name!r}, and {error.problem}",
            advice=error.advice,
            position=position,
        ) from None
    return name


# `%%tileexercise` and `%tileexercise`: exercises of the workshop, answered.

EXERCISE_OPTIONS = Options(
    "tileexercise",
    (
        Option("--json", "", "Print the answer as JSON, for programs."),
        Option(
            "--hint",
            "N",
            "Of `%tileexercise NAME`: the Nth hint, and no stub.",
            read_whole_number,
            lambda: ["1", "2", "3"],
        ),
        Option("--task", "", "Of `%tileexercise NAME`: the task alone; its stub is there already."),
        Option(
            "--seed",
            "N",
            "Ask for the launches of an earlier answer (its `seed`) again.",
            read_whole_number,
        ),
    ),
)

_EXERCISE_HELP = """An exercise of the workshop: its task and its stub, or the answer to a kernel.

`%tileexercise` lists the exercises and how far each has come. `%tileexercise NAME` shows the task,
and puts the stub into the next cell. `%%tileexercise NAME` runs the cell and launches the kernel
called NAME on hidden sizes and values: does it compile, is it safe, is it right, what does it cost.

Options, before the name:

{options}

Examples:

  %tileexercise softmax
      The task, and the stub in the next cell.

  %tileexercise --task softmax
      The task, and no cell.

  %tileexercise --hint 1 softmax
      The first hint.

  %%tileexercise softmax
      Answer the kernel softmax of this cell.
"""


_EXERCISE_DOC = _EXERCISE_HELP.format(options=EXERCISE_OPTIONS.help())


@cell_magic(EXERCISE_OPTIONS, _EXERCISE_DOC)
def tileexercise_of_cell(running: RunningCell, line: str, body: str) -> None:
    """Answer the kernel of a cell."""
    given, name = EXERCISE_OPTIONS.parse_leading(line, running.position)
    answer = _answered(running, name.strip(), body, given["seed"])
    if given["json"]:
        print(answer.json())
    else:
        ipython_api.show(answer)


@line_magic(EXERCISE_OPTIONS, _EXERCISE_DOC)
def tileexercise(shell: Shell, line: str) -> Any:
    """The list of exercises, or the task of one."""
    position = ipython_api.running_line(shell, f"%tileexercise {line}".rstrip())
    given, name = EXERCISE_OPTIONS.parse_leading(line, position)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.judging.submissions import start_worker
    from kernellab.viz.exercises import hint_card, task_card
    from kernellab.workshop.course import exercises
    from kernellab.workshop.exercise import exercise_named

    if not name.strip():
        return exercises()
    exercise = exercise_named(name.strip())
    if given["hint"] is not None:
        return hint_card(exercise, given["hint"])
    start_worker()  # before the first answer needs it
    if not given["task"]:
        shell.set_next_input(f"%%tileexercise {exercise.name}\n{exercise.stub}")
    return task_card(exercise)


def _answered(running: RunningCell, name: str, body: str, seed: int | None) -> Answer:
    """Run the cell, and answer the kernel of the exercise's name in it."""
    from kernellab.compiler.targets import parse_target
    from kernellab.judging.submissions import start_worker
    from kernellab.launch.tile_kernel import tile_kernels_in
    from kernellab.workshop.course import note
    from kernellab.workshop.exercise import exercise_named
    from kernellab.workshop.grader import TARGET, exercise

    chosen = exercise_named(name)
    start_worker()  # while the cell runs
    with tile_kernels_in(running.file, parse_target(TARGET)):
        ipython_api.execute(running, body)
    answer = exercise(chosen.name, running.shell.user_ns.get(chosen.name), seed=seed)
    note(answer)
    return answer


# `%%tilepass`: a compiler pass, written in the cell.

PASS_OPTIONS = Options(
    "tilepass",
    (
        Option(
            "--after",
            "PASS",
            "The pass of TTIR or TTGIR after which it runs: ttgir.coalesce.",
        ),
        Option("--kernels", "NAMES", "The kernels that it runs for; all by default.", read_names),
        Option("--seconds", "N", "How long it may take: 10 by default.", read_whole_number),
        Option("--remove", "", "Only run the cell, and remove the pass that ran before."),
    ),
)

_PASS_HELP = """\
Run a compiler pass that the cell defines inside Triton's pipeline.

The last statement of the cell is a function of the module, or a RewritePattern of xDSL. Later
compilations run it, record it and show it like any pass: see docs/passes.md. A cell that is run
again replaces its pass.

Options:

{options}

Example:

  %%tilepass --after ttgir.coalesce --kernels add
  def count_loads(module):
      print(sum(op.name == "tt.load" for op in module.walk()), "loads")
"""


@cell_magic(PASS_OPTIONS, _PASS_HELP.format(options=PASS_OPTIONS.help()))
def tilepass(running: RunningCell, line: str, body: str) -> None:
    """Run the cell, and register what its last statement defines."""
    given = PASS_OPTIONS.parse(line, running.position)
    tree = ast.parse(body)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.FunctionDef | ast.ClassDef) or not (
        given["after"] or given["remove"]
    ):
        raise OptionError(
            "%%tilepass needs --after, and a function or a class as the cell's last statement.",
            position=running.position(PASS_OPTIONS.magic),
            advice="For example %%tilepass --after ttgir.coalesce, above def count_loads(module):",
        )
    ipython_api.execute(running, body)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.compiler.registered_passes import register_pass

    own = stated(given, "kernels", "seconds")
    made = register_pass(running.shell.user_ns[last.name], after=given["after"] or "", **own)
    if given["remove"]:
        made.remove()
