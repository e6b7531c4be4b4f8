"""Find the last write to an element, in a further run of the launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.outcomes import Apart

Watch = Callable[[CheckedRun], Sequence[Detector]]
"""Makes the detectors of a run."""


def last_writer(apart: Apart, run: Callable[[Watch], Any]) -> LastWriter:
    """Return what wrote an element last in a run: one that `run` makes with these detectors."""
    writers: list[LastWriter] = []

    def watch(launch: CheckedRun) -> Sequence[Detector]:
        writers[:] = [LastWriter(launch, apart)]
        return writers

    run(watch)
    return writers[0]


class LastWriter(Detector):
    """Record the last write to an element.

    Attributes:
        operation: the operation that writes it; None if nothing does.
        programs: the linear ids of the programs that do.
        last: the linear id of the last of them, whose value remains; None if it is not known.
        name: the argument that they write through; "" if it is not an argument.
        place: the position in its tile of the element that the last program stores.
        values: the values that it computed the index from.
    """

    def __init__(self, run: CheckedRun, apart: Apart) -> None:
        super().__init__(run)
        tensor = run.tensors[apart.name]
        offset = sum(place * step for place, step in zip(apart.index, tensor.stride()))
        size = tensor.element_size()
        self._start = tensor.untyped_storage().data_ptr()
        self._byte = (tensor.storage_offset() + offset) * size
        self.operation: Operation | None = None
        self.programs: tuple[int, ...] = ()
        self.last: int | None = None
        self.name = ""
        self.place: tuple[int, ...] = ()
        self.values: Mapping[str, Any] = {}

    def before(self, access: Access) -> None:
        if (
            access.action == "load"
            or access.buffer.tensor.untyped_storage().data_ptr() != self._start
        ):
            return
        buffer = access.buffer
        first = buffer.elements.__array_interface__["data"][0] - self._start
        here = access.index == (self._byte - first) // buffer.itemsize
        if access.on is not None:
            here = here & access.on
        if here.any():
            self.operation, self.name = access.operation, buffer.name
            has_programs = here.ndim > access.rank
            among = (
                here.reshape(len(here), -1).any(axis=1) if has_programs and len(here) > 1 else None
            )
            self.programs = tuple(access.linear_ids(among).tolist())
            self.last = self.programs[-1] if self.programs else None
            writing = access.active if among is None else among
            batch = 1 if access.programs is None else access.programs.count
            program = batch - 1 if writing is None else int(numpy.flatnonzero(writing)[-1])
            lanes = here[min(program, len(here) - 1)] if has_programs else here
            self.place = tuple(numpy.argwhere(lanes)[-1].tolist())
            self.values = access.values(self.place, program)
