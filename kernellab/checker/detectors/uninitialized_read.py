"""Find reads of uninitialized memory, in arguments wrapped in `kernellab.uninitialized`."""

from __future__ import annotations

from typing import Any

import numpy

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.shadow.memory import ShadowArray, Storage, Storages
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.numerics.tiles import Value


class UninitializedRead(Detector):
    """Record which elements of each marked storage were written; reading another one is a fault."""

    kinds = ("uninitialized-read",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        marked = [run.tensors[name] for name in run.uninitialized]
        self._marked = {tensor.untyped_storage().data_ptr(): tensor for tensor in marked}
        self._storages = Storages(self._begin)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.uninitialized)

    def _begin(self, buffer: Buffer) -> tuple[Storage, ShadowArray] | None:
        marked = self._marked.get(buffer.tensor.untyped_storage().data_ptr())
        if marked is None:
            return None
        storage = Storage(buffer)
        written = storage.shadow(True, numpy.bool_)
        storage.view(marked, written.elements)[...] = False
        return storage, written

    def before(self, access: Access) -> None:
        known = self._storages[access.buffer]
        if known is None or access.action == "store":
            return
        storage, written = known
        if all(part.read(written.elements).all() for part in storage.parts(access)):
            return
        index = storage.index_in(access.index, access.buffer)
        unwritten = ~written.elements.take(index, mode="clip")
        if access.on is not None:
            unwritten = unwritten & access.on
        self._note(access, unwritten)

    def after(self, access: Access, result: Value | None) -> None:
        known = self._storages[access.buffer]
        if known is None or access.action == "load":
            return
        storage, written = known
        for part in storage.parts(access):
            part.write(written.elements, True)

    def _note(self, access: Access, unwritten: numpy.ndarray) -> None:
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            index = access.element(unwritten, place, program)
            return {
                "kind": "uninitialized-read",
                "argument": name,
                "index": index,
                "message": (
                    f"this {access.action} "
                    f"{'reads' if access.action == 'load' else 'updates'} {access.named(index)}, "
                    "which has not been written before"
                ),
                "advice": (
                    f"Initialize {name} before the launch (torch.zeros instead of "
                    "torch.empty), store to it first, or mask these elements: a GPU reads "
                    "whatever was in that memory."
                ),
            }

        self.collector.report(access, unwritten, access.rank, facts_of, name)
