"""Try wrong kernels on hidden launches: `python -m tests.workshop.trials --seeds 50`."""

import argparse
import sys
import tempfile
import time
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
from kernellab.workshop.exercise import EXERCISES, Exercise, exercise_named
from kernellab.workshop.grader import _Answering
from kernellab.workshop.launches import Case, Draw
from tests.support.imported import imported
from tests.workshop.attempts import WrongAnswer
from tests.workshop.mutants import wrong_kernels


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


def main() -> None:
    """Try the mutants of exercises; exit with 1 if one is accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exercises", nargs="*", help="names of exercises; all without any")
    parser.add_argument("--seeds", type=int, default=50, help="how many seeds to try, from 0")
    options = parser.parse_args()
    right = True
    for exercise in map(exercise_named, options.exercises or [one.name for one in EXERCISES]):
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            trials = trials_of(wrong_kernels(exercise), Path(folder))
            found = accepted(trials, exercise, range(options.seeds))
        print(
            f"{exercise.name}: {len(trials)} kernels, {sum(one.compiles for one in trials)} of "
            f"which compile; {time.process_time() - start:.1f} s"
        )
        for name, count in found.items():
            right = False
            print(f"    accepted for {count} of {options.seeds} seeds: {name}")
        sys.stdout.flush()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
