"""The magics of a cell: `%%tiletune` and `%%tilegraph`, for the launch or the call at its end,
`%%tileexercise`, for the kernel in it, and `%%tilepass`, for the compiler pass in it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import (
    names_in,
    option,
    read_constexpr,
    read_names,
    read_tolerance,
    read_whole_number,
)
from kernellab.errors import OptionError
from kernellab.magics import ipython_api, magic
from kernellab.magics.kernel_magics import TARGET

if TYPE_CHECKING:
    from kernellab.records import Target


def _values(text: str) -> tuple[str, list[Any]]:
    """ "BLOCK=128,256" as ("BLOCK", [128, 256])."""
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values:
        raise ValueError("must be NAME=VALUE,VALUE,..., such as BLOCK=128,256")
    return name, [read_constexpr(f"{name}={value.strip()}")[1] for value in values.split(",")]


@magic.magic("cell", has="nothing")
def tiletune(
    cell: magic.Cell,
    *,
    space: Sequence[tuple[str, Sequence[Any]]] = option(_values, repeated=True),
    key: Sequence[str] | None = option(read_names),
    target: Target | None = TARGET,
    gpus: str | None = option(values=lambda: ["all"]),
    seconds: int | None = option(read_whole_number),
    prune: str | None = option(magic.read_variable),
    reference: str | None = option(magic.read_variable),
    rtol: float | None = option(read_tolerance),
    atol: float | None = option(read_tolerance),
    check: bool = option(),
    baseline: Sequence[Sequence[str]] = option(magic.read_variables, repeated=True),
    recorded: str | None = option(os.path.expanduser),
    executor: str | None = option(magic.read_variable),
    plot: str | None = option(values=names_in("kernellab.tuning.plot_data:KINDS")),
    name: str | None = option(magic.read_variable),
    no_cache: bool = option(),
) -> None:
    """Compile, check and time the launch at the end of the cell with each of many configs.

    The cell is an ordinary cell whose last expression is a launch, without the constants and
    options that are tried: add[grid](x, y, z, n). The code above it is run; the launch is carried
    out on copies of its arguments. With CUDA tensors configs are timed; with tensors on the CPU
    they are compiled and checked on the interpreter, and there are no times. The Tuning is in the
    variable `tuning` afterwards.

    Where an option takes the NAME of a variable, the cell itself may define it, above the launch.

    Options:

      --space NAME=VALUES
          Values to try of a constant or an option: BLOCK=128,256 or num_warps=2,4,8. May be
          repeated; all combinations are tried. Without it, what @triton.autotune carries.
      --key NAMES
          Arguments by whose values a config is to be chosen: n, or M,N,K.
      --target GPU
          The GPU to compile for, where the arguments are on the CPU: sm_90, gfx942, ...
      --gpus all
          Time on every GPU of this machine.
      --seconds N
          How long one config may take to compile, and to run: 30 by default.
      --prune NAME
          A function that is given all arguments by name and says whether to leave the
          config out.
      --reference NAME
          Expected results by parameter, or a function of the launch's arguments that returns
          them; by default, those of the first config.
      --rtol NUMBER
          How far results may differ, relative to the expected ones; by default what
          rounding explains.
      --atol NUMBER
          How far they may differ in addition; by default what rounding explains.
      --check
          Compare every config's results, however long that takes on the CPU.
      --baseline NAME[,NAME]
          Functions without arguments that compute the same in other ways, or dicts of such
          functions by name; they are timed where there is a GPU. May be repeated.
      --recorded FILE
          A saved sweep of the same launch, whose times are shown if there is no GPU.
      --executor NAME
          A Dask client, on whose workers configs are compiled and run, instead of in processes
          of this machine.
      --plot KIND
          The plot that is shown first: times by default, registers where nothing is timed.
      --name VARIABLE
          The variable that gets the Tuning: tuning by default.
      --no-cache
          Do not use results of earlier sweeps, and do not store any.

    Examples:

      %%tiletune --space BLOCK=128,256,512 --space num_warps=2,4,8 --key n
      add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, z, n)

      %%tiletune --reference right --baseline in_torch --rtol 2e-3 --space BLOCK=128,256
      right = {"z_ptr": x + y}
      in_torch = lambda: x + y
      add[grid](x, y, z, n)

      %%tiletune --plot heatmap
      autotuned_matmul[grid](a, b, c, M, N, K)
    """
    advice = "Write the launch to tune as its last line, such as add[grid](x, y, z, n)."
    launch = magic.read_launch(cell, magic.run_above_last(cell, "launch", advice))
    own = magic.stated(
        space=dict(space) or None, key=key, target=target, gpus=gpus, seconds=seconds,
        prune=cell.value(prune, "--prune"), reference=cell.value(reference, "--reference"),
        rtol=rtol, atol=atol, check=check or None, baselines=_baselines(cell, baseline) or None,
        recorded=recorded, executor=cell.value(executor, "--executor"), cache=not no_cache,
    )  # fmt: skip
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.tuning.tune import tune

    tuning = tune(launch, **own)
    cell.namespace[name or "tuning"] = tuning
    ipython_api.show(tuning.show(plot=plot))


def _baselines(cell: magic.Cell, named: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Functions by name: a variable's own, or those of its dict."""
    baselines: dict[str, Any] = {}
    for name in chain.from_iterable(named):
        value = cell.value(name, "--baseline")
        baselines |= value if isinstance(value, Mapping) else {name: value}
    return baselines


@magic.magic("cell", has="nothing")
def tilegraph(
    cell: magic.Cell,
    *,
    gpu: str | None = option(),
    backward: bool = option(),
    dynamic: bool = option(),
    fullgraph: bool = option(),
    mode: str | None = option(values=names_in("kernellab.graphs.graph:MODES")),
    backend: str | None = option(),
    option: Sequence[tuple[str, Any]] = option(read_constexpr, repeated=True),
    name: str | None = option(magic.read_variable),
) -> None:
    """Compile the expression at the end of the cell with torch.compile, for a GPU that need not be
    there, and show every level of it: graph breaks, guards, FX, ATen, fusions, kernels.

    The cell is an ordinary cell whose last expression computes with tensors: model(x), or
    model(x).sum(). The code above it is run; the expression itself runs once on the CPU, in a
    separate process. The GraphReport is in the variable `report` afterwards: report.graphs,
    report.breaks, report.kernels[0].compilation.explore().

    Options:

      --gpu GPU
          The GPU that code is generated for: h200, a100, mi300x, sm_90.
      --backward
          Also the gradient of everything in the result that has one.
      --dynamic
          Sizes are symbols from the start.
      --fullgraph
          A graph break is an error.
      --mode MODE
          Of torch.compile: max-autotune, ...
      --backend NAME
          Another backend than Inductor: one that is installed, or a function of the
          notebook.
      --option NAME=VALUE
          An option of Inductor's, or of the backend: max_fusion_size=1. May be repeated.
      --name VARIABLE
          The variable that gets the GraphReport: report by default.

    Examples:

      %%tilegraph --gpu h200 --backward
      model(x)

      %%tilegraph --option max_fusion_size=1
      torch.softmax(x, -1)

      %%tilegraph --backend my_compiler
      model(x)
    """
    called = magic.run_above_last(
        cell, "call", "Write the call to open as its last line, such as model(x)."
    )
    above = cell.body.rpartition(called)[0].count("\n") + 1
    place = replace(cell.place, line=cell.place.line + above, column=0)
    function, args, keywords = magic.read_expression(called, replace(cell, place=place))
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.graphs.graph import GraphOptions, graph_call

    options = GraphOptions(
        gpu=gpu or GraphOptions.gpu,
        backward=backward,
        dynamic=True if dynamic else None,
        fullgraph=fullgraph,
        mode=mode,
        options=dict(option),
        backend=_backend(backend, cell),
    )
    report = graph_call(function, args, keywords, options)
    cell.namespace[name or "report"] = report
    ipython_api.show(report)


def _backend(name: str | None, cell: magic.Cell) -> Any:
    """The notebook's function of this name, or the backend's name. Raises OptionError: none."""
    if name is None:
        return None
    from kernellab.graphs.captures import check_name

    if name.partition(".")[0] in cell.namespace:
        return cell.value(name, "--backend")
    try:
        check_name(name)
    except OptionError as error:
        raise OptionError(
            f"The notebook has no variable {name!r}, and {error.problem}",
            advice=error.advice,
            position=cell.position(name),
        ) from None
    return name


@magic.magic("line")
def tileexercise(
    line: magic.Line,
    *,
    hint: int | None = option(read_whole_number, lambda: ["1", "2", "3"]),
    task: bool = option(),
) -> Any:
    """An exercise of the workshop: its task and its stub, or the answer to a kernel.

    `%tileexercise` lists the exercises and how far each has come. `%tileexercise NAME` shows the
    task, and puts the stub into the next cell. `%%tileexercise NAME` runs the cell and launches the
    kernel called NAME on hidden sizes and values, and reports whether it compiles, is safe, is
    right, and what it costs.

    Options of `%tileexercise`, before the name:

      --hint N
          The Nth hint, and no stub.
      --task
          The task alone, without its stub.

    Options of `%%tileexercise`, before the name:

      --json
          Print the answer as JSON, for programs.
      --seed N
          Repeat the launches of an earlier answer (its `seed`).

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
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.judging.worker import start_worker
    from kernellab.viz.exercises import hint_card, task_card
    from kernellab.workshop.course import exercises
    from kernellab.workshop.exercise import exercise_named

    if not line.text:
        return exercises()
    exercise = exercise_named(line.text)
    if hint is not None:
        return hint_card(exercise, hint)
    start_worker()  # before the first answer needs it
    if not task:
        line.shell.set_next_input(f"%%tileexercise {exercise.name}\n{exercise.stub}")
    return task_card(exercise)


@magic.magic("cell", beside=tileexercise)
def tileexercise_of_cell(
    cell: magic.Cell, *, json: bool = option(), seed: int | None = option(read_whole_number)
) -> None:
    """Answer the kernel of a cell."""
    from kernellab.compiler.targets import parse_target
    from kernellab.judging.worker import start_worker
    from kernellab.launch.tile_kernel import tile_kernels_in
    from kernellab.workshop.course import note
    from kernellab.workshop.exercise import exercise_named
    from kernellab.workshop.grader import TARGET, exercise

    chosen = exercise_named(cell.text)
    start_worker()  # while the cell runs
    with tile_kernels_in(cell.running.file, parse_target(TARGET)):
        ipython_api.execute(cell.running, cell.body)
    answer = exercise(chosen.name, cell.namespace.get(chosen.name), seed=seed)
    note(answer)
    if json:
        print(answer.json())
    else:
        ipython_api.show(answer)


@magic.magic("cell", has="nothing")
def tilepass(
    cell: magic.Cell,
    *,
    after: str | None = option(),
    kernels: Sequence[str] | None = option(read_names),
    seconds: int | None = option(read_whole_number),
    remove: bool = option(),
) -> None:
    """Run a compiler pass that the cell defines inside Triton's pipeline.

    The last statement of the cell is a function of the module, or a RewritePattern of xDSL. Later
    compilations run it, record it and show it like any pass: see docs/passes.md. A cell that is run
    again replaces its pass.

    Options:

      --after PASS
          The pass of TTIR or TTGIR after which it runs: ttgir.coalesce.
      --kernels NAMES
          The kernels that it runs for; all by default.
      --seconds N
          How long it may take: 10 by default.
      --remove
          Only run the cell, and remove the pass that ran before.

    Examples:

      %%tilepass --after ttgir.coalesce --kernels add
      def count_loads(module):
          print(sum(op.name == "tt.load" for op in module.walk()), "loads")
    """
    tree = ast.parse(cell.body)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.FunctionDef | ast.ClassDef) or not (after or remove):
        raise OptionError(
            "%%tilepass needs --after, and a function or a class as the cell's last statement.",
            position=cell.place,
            advice="For example %%tilepass --after ttgir.coalesce, above def count_loads(module):",
        )
    ipython_api.execute(cell.running, cell.body)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.compiler.registered_passes import register_pass

    own = magic.stated(kernels=kernels, seconds=seconds)
    made = register_pass(cell.namespace[last.name], after=after or "", **own)
    if remove:
        made.remove()
