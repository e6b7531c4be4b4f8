"""`%%tileexercise` and `%tileexercise`: exercises of the workshop, answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class

from kernellab.common.option_values import read_whole_number
from kernellab.magics import ipython_api
from kernellab.magics.ipython_api import RunningCell
from kernellab.magics.options import Option, Options

if TYPE_CHECKING:
    from kernellab.workshop.answers import Answer


def _exercise_names() -> list[str]:
    from kernellab.workshop.chapters import EXERCISES

    return [one.name for one in EXERCISES]


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

`%tileexercise` lists the exercises and how far each has come. `%tileexercise NAME` tells the task,
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


@magics_class
class TileExerciseMagics(Magics):
    """The magics `%tileexercise` and `%%tileexercise`."""

    @line_cell_magic
    def tileexercise(self, line: str, cell: str | None = None) -> Any:
        assert self.shell is not None  # a magic is called by its shell
        if cell is None:
            return self._told(line)
        with ipython_api.cell_of_magic(self.shell, OPTIONS.magic, line, cell) as running:
            given, name = OPTIONS.parse_leading(line, running.position)
            answer = _answered(running, name.strip(), cell, given["seed"])
            if given["json"]:
                print(answer.json())
            else:
                ipython_api.show(answer)
        return None

    def _told(self, line: str) -> Any:
        """The list of exercises, or the task of one."""
        assert self.shell is not None
        position = ipython_api.running_line(self.shell, f"%tileexercise {line}".rstrip())
        given, name = OPTIONS.parse_leading(line, position)
        # Imported here: torch and Triton take longer than the rest of loading the extension.
        from kernellab.viz.exercises.card import hint_card, task_card
        from kernellab.workshop.chapters import exercise_named
        from kernellab.workshop.progress import exercises

        if not name.strip():
            return exercises()
        asked = exercise_named(name.strip())
        if given["hint"] is not None:
            return hint_card(asked, given["hint"])
        if not given["task"]:
            self.shell.set_next_input(f"%%tileexercise {asked.name}\n{asked.stub}")
        return task_card(asked)

    tileexercise.__doc__ = _HELP.format(options=OPTIONS.help())


def _answered(running: RunningCell, name: str, body: str, seed: int | None) -> Answer:
    """Run the cell, and answer the kernel of the exercise's name in it."""
    from kernellab.compiler.targets import parse_target
    from kernellab.launch.tile_kernel import tile_kernels_in
    from kernellab.workshop.answering import TARGET, exercise
    from kernellab.workshop.chapters import exercise_named
    from kernellab.workshop.progress import note

    asked = exercise_named(name)
    with tile_kernels_in(running.file, parse_target(TARGET)):
        ipython_api.execute(running, body)
    answer = exercise(asked.name, running.shell.user_ns.get(asked.name), seed=seed)
    note(answer)
    return answer
