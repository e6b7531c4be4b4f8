"""`%%tileexercise` and `%tileexercise`: exercises of the workshop, answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import read_whole_number
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell, Shell
from kernellab.magics.magic import cell_magic, line_magic
from kernellab.magics.options import Option, Options

if TYPE_CHECKING:
    from kernellab.workshop.answers import Answer


def _exercise_names() -> list[str]:
    from kernellab.workshop.chapters import EXERCISES

    return [exercise.name for exercise in EXERCISES]


OPTIONS = Options(
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

_HELP = """An exercise of the workshop: its task and its stub, or the answer to a kernel.

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


_DOC = _HELP.format(options=OPTIONS.help())


@cell_magic(OPTIONS, _DOC)
def tileexercise_of_cell(running: RunningCell, line: str, body: str) -> None:
    """Answer the kernel of a cell."""
    given, name = OPTIONS.parse_leading(line, running.position)
    answer = _answered(running, name.strip(), body, given["seed"])
    if given["json"]:
        print(answer.json())
    else:
        ipython_api.show(answer)


@line_magic(OPTIONS, _DOC)
def tileexercise(shell: Shell, line: str) -> Any:
    """The list of exercises, or the task of one."""
    position = ipython_api.running_line(shell, f"%tileexercise {line}".rstrip())
    given, name = OPTIONS.parse_leading(line, position)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.judging.submissions import start_worker
    from kernellab.viz.exercises.card import hint_card, task_card
    from kernellab.workshop.chapters import exercise_named
    from kernellab.workshop.progress import exercises

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
    from kernellab.workshop.answering import TARGET, exercise
    from kernellab.workshop.chapters import exercise_named
    from kernellab.workshop.progress import note

    chosen = exercise_named(name)
    start_worker()  # while the cell runs
    with tile_kernels_in(running.file, parse_target(TARGET)):
        ipython_api.execute(running, body)
    answer = exercise(chosen.name, running.shell.user_ns.get(chosen.name), seed=seed)
    note(answer)
    return answer
