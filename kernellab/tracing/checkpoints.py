"""What the arguments of a traced launch hold, and when."""

from __future__ import annotations

import torch

from kernellab.compiler.specialization.argument_values import array_of
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.launch.argument_copies import tensors_in
from kernellab.tracing.steps import Checkpoint, TracedArgument
from kernellab.tracing.values import ValueStore


def _argument(
    name: str, tensor: torch.Tensor, dtype: str, storages: dict[int, int]
) -> TracedArgument:
    """The facts of a tensor; `storages` numbers the memory that there is, by its address."""
    number = storages.setdefault(tensor.untyped_storage().data_ptr(), len(storages))
    start = int(tensor.storage_offset()) * tensor.element_size()
    return TracedArgument(name, dtype, tuple(tensor.shape), tuple(tensor.stride()), number, start)


class Checkpoints:
    """What the arguments hold, kept whenever programs that are not traced may have changed it.

    Attributes:
        arguments: the tensors of the launch.
        checkpoints: what was kept.
        fault_step: number of the step in which the run stopped; None where it did not, or in
            another program.
    """

    def __init__(self, before: BoundCall, works_on: BoundCall, values: ValueStore) -> None:
        self._tensors = dict(tensors_in(works_on.values))
        self._values = values
        self._latest = {name: array_of(tensor) for name, tensor in tensors_in(before.values)}
        self.fault_step: int | None = None
        self._others_ran = False
        storages: dict[int, int] = {}
        self.arguments = {
            name: _argument(name, tensor, self._latest[name].dtype.name, storages)
            for name, tensor in self._tensors.items()
        }
        contents = {name: values.add(tensor, whole=True) for name, tensor in self._latest.items()}
        self.checkpoints = [Checkpoint(0, contents)]

    def next_runs(self, is_traced: bool, step: int) -> None:
        """Programs run next, traced or not; the next step of a traced one has that number."""
        if is_traced and self._others_ran:
            self._take(step)
        self._others_ran = not is_traced

    def stopped(self, step: int | None) -> None:
        """A fault ended the run, in that step if the program is traced."""
        if not self._others_ran:
            self.fault_step = step

    def _take(self, step: int) -> None:
        """Keep what has changed since the last time."""
        changed = {}
        for name, tensor in self._tensors.items():
            now = array_of(tensor)
            if now.tobytes() != self._latest[name].tobytes():
                self._latest[name] = now.copy()
                changed[name] = self._values.add(self._latest[name], whole=True)
        if changed:
            self.checkpoints.append(Checkpoint(step, changed))

    def end(self, step: int) -> None:
        """The run is over."""
        if self._others_ran:
            self._take(step)
