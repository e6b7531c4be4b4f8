"""Trials of wrong kernels on hidden launches."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

import kernellab
from kernellab.errors import CompileError, KernelLabError
from kernellab.launch.argument_copies import map_tensors, tensors_in
from kernellab.launch.results import Within, is_within
from kernellab.workshop.exercise import Exercise
from kernellab.workshop.grader import _Answering
from kernellab.workshop.launches import Case, Draw
from tests.support.imported import imported
from tests.workshop.attempts import WrongAnswer


@dataclass
class Launches:
    """The hidden launches of an exercise for a seed, as the grader draws them."""

    exercise: Exercise
    seed: int
    _right: dict[int, Mapping[str, Within]] = field(default_factory=dict)

    @cached_property
    def cases(self) -> list[Case]:
        draw = Draw(self.seed)
        cases = list(self.exercise.cases(draw))
        if self.exercise.priced is not None:
            cases.append(self.exercise.priced(draw))
        return cases

    def right(self, number: int) -> Mapping[str, Within]:
        if number not in self._right:
            self._right[number] = self.exercise.right_results(self.cases[number])
        return self._right[number]


class Trial:
    """Whether the grader rejects a kernel: a plain launch is tried first, then a full check."""

    def __init__(self, mutant: WrongAnswer, folder: Path) -> None:
        self.mutant = mutant
        self.kernel = loaded(mutant.cell, mutant.exercise, folder)
        self.compiles = True
        self._best = 1

    def rejected_by(self, launches: Launches) -> int | None:
        """Return the number of a launch that goes wrong; None if the kernel is accepted."""
        order = sorted(range(len(launches.cases)), key=lambda number: number != self._best)
        for is_wrong in (self.is_wrong, self._is_found):
            for number in order:
                if is_wrong(launches, number):
                    self._best = number
                    return number
        return None

    def is_wrong(self, launches: Launches, number: int) -> bool:
        case = launches.cases[number]
        arguments = {
            name: map_tensors(value, _unwritten if name in case.outputs else torch.clone)
            for name, value in case.arguments.items()
        }
        try:
            kernellab.run(self.kernel, case.grid, **arguments, **case.constants)
        except CompileError:
            self.compiles = False
            return True
        except KernelLabError:
            return True
        left = dict(tensors_in(arguments))
        return any(not is_within(left[name], it) for name, it in launches.right(number).items())

    def _is_found(self, launches: Launches, number: int) -> bool:
        """Return whether the grader's check of a launch finds something."""
        answering = _Answering(launches.exercise, "", launches.seed, tries_fixes=False)
        return bool(answering._checked(self.kernel, launches.cases[number]))


def loaded(text: str, name: str, folder: Path) -> Any:
    return getattr(imported(folder / f"kernel_{len(list(folder.iterdir()))}.py", text), name)


def _unwritten(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor without meaningful contents."""
    return torch.full_like(value, float("nan") if value.is_floating_point() else -77)


def trials_of(mutants: Iterable[WrongAnswer], folder: Path) -> list[Trial]:
    return [Trial(mutant, folder) for mutant in mutants]


def accepted(trials: Iterable[Trial], exercise: Exercise, seeds: Iterable[int]) -> Counter[str]:
    """Return for how many seeds kernels are accepted, by name."""
    found: Counter[str] = Counter()
    for seed in seeds:
        launches = Launches(exercise, seed)
        found.update(trial.mutant.name for trial in trials if trial.rejected_by(launches) is None)
    return found
