"""Find elements of outputs that no program writes."""

from __future__ import annotations

import math
from typing import Any

import torch
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.shadow.memory import Storages
from kernellab.checker.shadow.written import WrittenElements
from kernellab.checker.source_stores import conditional_stores, removed_note
from kernellab.errors import SourcePosition
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, memory_effects
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir.locations import locate
from kernellab.triton_api import definition_of


class UnwrittenOutput(Detector):
    """Record which elements of the arguments in `outputs` are written, and report the others at the
    end of the run.
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

    def after(self, access: Access, result: Value | None) -> None:
        if access.action == "load":
            return
        written: WrittenElements | None = self._storages[access.buffer]
        if written is not None:
            self._writers.setdefault(access.buffer.name, access.operation)
            written.add(access)

    def end(self) -> None:
        removed = _removed_stores(self.run)
        notes = []
        for name, tensor in self._outputs.items():
            if name in removed:
                notes.append(removed_note(name, removed[name]))
                continue
            written = self._storages.by_start.get(tensor.untyped_storage().data_ptr())
            missing = (
                (tensor.numel(), (0,) * tensor.ndim)
                if written is None
                else written.unwritten(tensor)
            )
            if missing is not None and tensor.numel():
                self._report(name, tensor, *missing)
        self.notes = tuple(notes)

    def _report(self, name: str, tensor: torch.Tensor, count: int, first: tuple[int, ...]) -> None:
        which = f"{name}[{', '.join(map(str, first))}]"
        message = f"no program writes {which}"
        if count > 1:
            size = math.prod(tensor.shape)
            message = (
                f"no program writes {count:,} of the {size:,} elements of {name}, the first of "
                f"which is {which}"
            )
        facts: dict[str, Any] = {
            "kind": "unwritten-output",
            "argument": name,
            "index": first,
            "places": self._position(name)[::-1],
            "message": message,
            "advice": _advice(self.run, count == math.prod(tensor.shape), name in self._writers),
        }
        self.collector.add(name, facts, count=count)

    def _position(self, name: str) -> tuple[SourcePosition, ...]:
        """Return the first store to the argument; the kernel's definition if there is none."""
        writer = self._writers.get(name)
        frames = () if writer is None else locate(writer.location).frames
        return frames or (definition_of(self.run.kernel),)


def _removed_stores(run: CheckedRun) -> dict[str, SourcePosition]:
    """Return the outputs that the kernel's source stores to and its compiled code does not."""
    effects = memory_effects(run.code)
    if effects.stored is EVERYTHING or effects.updated is EVERYTHING:
        return {}
    names = argument_names(run.call, run.code)
    written = {names[number] for number in effects.stored | effects.updated}
    in_source = conditional_stores(run.kernel) if set(run.outputs) - written else {}
    return {name: place for name, place in in_source.items() if name not in written}


def _advice(run: CheckedRun, all_of_it: bool, stored: bool) -> str:
    x, y, z = run.grid
    if not stored:
        return (
            "The launch never stores to it. Check the argument, and whether the store is reached."
        )
    if all_of_it:
        return "Every store to it is masked off for all elements: check the mask."
    return (
        f"Check the grid, which has {x} x {y} x {z} programs (triton.cdiv(n, BLOCK) rounds up), "
        "the offsets, the mask of the store, and any if or return that may keep a program from the "
        "store."
    )
