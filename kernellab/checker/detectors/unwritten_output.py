"""Elements of outputs that no program writes."""

from __future__ import annotations

import math
from typing import Any

import torch
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.shadow.memory import Storages
from kernellab.checker.shadow.written import WrittenElements
from kernellab.errors import SourcePosition
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir.locations import locate
from kernellab.triton_api import definition_of


class UnwrittenOutput(Detector):
    """Notes which elements of the arguments named in `outputs` were written,
    and looks for others when the run is over.
    """

    kinds = ("unwritten-output",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._outputs = {name: run.tensors[name] for name in run.outputs}
        starts = {tensor.untyped_storage().data_ptr() for tensor in self._outputs.values()}
        self._starts = starts
        self._storages = Storages(self._begin)
        self._writers: dict[str, Operation] = {}

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.outputs)

    def _begin(self, buffer: Buffer) -> WrittenElements | None:
        is_output = buffer.tensor.untyped_storage().data_ptr() in self._starts
        return WrittenElements(buffer) if is_output else None

    def after(self, access: Access, found: Value | None) -> None:
        del found
        if access.action == "load":
            return
        written: WrittenElements | None = self._storages[access.buffer]
        if written is not None:
            self._writers.setdefault(access.buffer.name, access.operation)
            written.add(access)

    def end(self) -> None:
        for name, tensor in self._outputs.items():
            written = self._storages.by_start.get(tensor.untyped_storage().data_ptr())
            missing = (
                (tensor.numel(), (0,) * tensor.ndim)
                if written is None
                else written.unwritten(tensor)
            )
            if missing is not None and tensor.numel():
                self._report(name, tensor, *missing)

    def _report(self, name: str, tensor: torch.Tensor, count: int, first: tuple[int, ...]) -> None:
        frames = self._position(name)
        which = f"{name}[{', '.join(map(str, first))}]"
        described = f"{count:,} of its {math.prod(tensor.shape):,} elements"
        facts: dict[str, Any] = {
            "kind": "unwritten-output",
            "argument": name,
            "index": first,
            "position": frames[0],
            "calls": tuple(reversed(frames[1:])),
            "message": f"no program writes {which}"
            + (f", nor {count - 1:,} more: {described}" if count > 1 else ""),
            "advice": _advice(self.run, count == math.prod(tensor.shape), name in self._writers),
        }
        self.collector.add(name, facts, count=count)

    def _position(self, name: str) -> tuple[SourcePosition, ...]:
        """The first store to the argument; the kernel's definition where there is none."""
        writer = self._writers.get(name)
        frames = () if writer is None else locate(writer.location).frames
        return frames or (definition_of(self.run.kernel),)


def _advice(run: CheckedRun, all_of_it: bool, stored: bool) -> str:
    x, y, z = run.grid
    if not stored:
        return "The launch never stores there: is it the right argument, and is the store reached?"
    if all_of_it:
        return "Every store to it is masked off everywhere: look at the mask."
    return (
        f"Look at the grid, which has {x} x {y} x {z} programs (triton.cdiv(n, BLOCK) rounds up), "
        "at the offsets, at the store's mask, and at what may keep a program from the store (an "
        "if, a return)."
    )
