"""Say which results hold NaN that the kernel did not produce: an atomic adds to memory that was not
initialized, no program writes an element, or NaN come in with the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.detector import Detector
from kernellab.common.formatting import counted
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, Arguments, memory_effects
from kernellab.interpreter.execution.launcher import argument_names

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_LARGEST = 1 << 26
"""Tensors with more elements are not searched for NaN."""


class NanResults(Detector):
    """Add a note for each result that holds NaN. `NonFinite` reports the operations that produce
    NaN, and `WrongResult` compares results that the caller expects.
    """

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._others: Sequence[Detector] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        self._others = others

    def investigate(self, session: CheckSession) -> None:
        if any(map(_reports_non_finite, self._others)):
            return  # they say where the kernel goes wrong
        before = session.launch.tensors
        loaded, updated = _named(self.run, "loaded"), _named(self.run, "updated")
        results = (_named(self.run, "stored") | updated) - self.run.expected.keys()
        results -= frozenset(self.run.uninitialized)  # whatever they hold, `UninitializedRead` says
        able = {name for name, tensor in before.items() if _may_hold_nan(tensor)}
        sources = [name for name in (loaded - results) & able if _nan_in(before[name]).any()]
        notes = []
        for name in sorted(results & able, key=[*before].index):
            holds = _nan_in(self.run.tensors[name])
            if not holds.any():
                continue
            first = ", ".join(map(str, holds.nonzero()[0].tolist()))
            note = (
                f"{name} holds NaN in {int(holds.sum()):,} of its "
                f"{counted(holds.numel(), 'element')}, the first of which is {name}[{first}]."
            )
            if not (holds & ~_nan_in(before[name])).any():
                note += (
                    f" All of them held NaN before the launch, and {_why(name, loaded, updated)}"
                )
            elif sources:
                note += f" They come from NaN in {' and '.join(sorted(sources))}."
            notes.append(note)
        self.notes = tuple(notes)


def _reports_non_finite(detector: Detector) -> bool:
    # The check itself reports a detector that fails.
    with suppress(Exception):
        return any(finding.kind in ("nan", "infinity") for finding in detector.findings())
    return False


def _why(name: str, loaded: frozenset[str], updated: frozenset[str]) -> str:
    """Return, as text, why elements still hold NaN, and what to do."""
    if name in updated:
        return (
            "the kernel updates them with atomics, which compute with what is there: initialize "
            f"{name}, for example with torch.zeros."
        )
    if name in loaded:
        return (
            f"the kernel computes with them or does not write them: check the contents of {name}."
        )
    return (
        "may not have been written: check the mask of the store and the grid, or initialize "
        f"{name}, for example with torch.zeros."
    )


def _may_hold_nan(tensor: torch.Tensor) -> bool:
    """Whether a tensor has NaN, and is small enough to look for it."""
    return tensor.is_floating_point() and tensor.numel() <= _LARGEST


def _nan_in(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().float().isnan() if tensor.itemsize == 1 else tensor.detach().isnan()


def _named(run: CheckedRun, effect: str) -> frozenset[str]:
    """Return the tensors that the kernel has an effect on: "stored", "updated", "loaded"."""
    arguments: Arguments = getattr(memory_effects(run.code), effect)
    names = argument_names(run.call, run.code)
    numbers = range(len(names)) if arguments is EVERYTHING else arguments
    return frozenset(names[number] for number in numbers) & run.tensors.keys()
