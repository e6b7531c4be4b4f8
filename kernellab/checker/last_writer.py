"""Who writes one element last: asked of a further run, once it is known which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.outcomes import Apart
from kernellab.interpreter.memory.global_memory import first_place


class LastWriter(Detector):
    """Hears who writes one element last.

    Attributes:
        operation: what writes it; None where nothing does.
        programs: linear ids of those that do.
        name: the argument through which they do; "" of none.
        place: the lane of the first of them.
        values: what that lane's index is made of.
    """

    kinds = ()

    def __init__(self, run: CheckedRun, apart: Apart) -> None:
        super().__init__(run)
        tensor = run.tensors[apart.name]
        offset = sum(place * step for place, step in zip(apart.index, tensor.stride()))
        size = tensor.element_size()
        self._start = tensor.untyped_storage().data_ptr()
        self._byte = (tensor.storage_offset() + offset) * size
        self.operation: Operation | None = None
        self.programs: tuple[int, ...] = ()
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
            self.place, program = first_place(here, access.rank, access.active)
            self.values = access.values(self.place, program)
