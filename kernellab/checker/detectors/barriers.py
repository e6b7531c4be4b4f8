"""Find values that one thread stores and another thread of the same program loads, without a
barrier between: the threads of a program run on their own, and nothing orders the two accesses.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.checker.checked_run import CheckedAccess, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.records import Proposal
from kernellab.checker.shadow_values import Array, with_program_axis
from kernellab.checker.slices import storages_of
from kernellab.compiler.analyses.layouts import layouts_by_type
from kernellab.errors import KernelLabError
from kernellab.interpreter.execution.program import memory_effects, program_code
from kernellab.interpreter.memory.global_memory import Load, Store
from kernellab.ir import tt
from kernellab.ir.operations import locate
from kernellab.ir.types import shape
from kernellab.records.layouts import RegisterLayout
from kernellab.triton_api.layouts import layouts_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_LARGEST = 1 << 22
"""The most elements of a storage that are followed."""

_SAMPLES = 4096
"""The most elements of a load that are compared."""


@dataclass
class _Stored:
    """Who stored each element of a storage last.

    Attributes:
        by: the number of the store; 0 for none.
        program: the linear id of its program.
        lane: the element of its tile, flat.
    """

    by: Array
    program: Array
    lane: Array


@dataclass
class _Suspect:
    """A load of elements that the same program stored from other places of a tile.

    Attributes:
        store, load: the operations.
        access: the load.
        stored, loaded: the places in the tiles, flat, element by element.
        index: the elements.
    """

    store: Operation
    load: Operation
    access: CheckedAccess
    stored: Array
    loaded: Array
    index: Array


class MissingBarrier(Detector):
    """Follow which thread stores an element, and which thread loads it.

    The layouts are those of TTGIR, and the barriers those of PTX, between the lines of the two.
    """

    kinds = ("missing-barrier",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._both = _stored_and_loaded(run)
        self._stored: dict[Hashable, _Stored] = {}
        self._stores: list[Operation] = []
        self._suspects: dict[tuple[Operation, Operation], _Suspect] = {}

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        is_plain = not run.kernel.is_gluon() and run.target.backend == "cuda"
        return is_plain and bool(_stored_and_loaded(run))

    def before(self, access: CheckedAccess) -> None:
        buffer, request = access.buffer, access.request
        if not access.rank or not isinstance(request, Load | Store) or access.programs is None:
            return
        if not 0 < len(buffer.elements) <= _LARGEST:
            return
        key = self.run.storage_of(buffer.tensor), buffer.itemsize
        if key[0] not in self._both:
            return
        if isinstance(request, Load) and key not in self._stored:
            return
        extents = shape(_pointers(access.operation).type)
        programs = access.programs.linear.reshape((-1,) + (1,) * access.rank)
        lanes = numpy.arange(int(numpy.prod(extents))).reshape((1, *extents))
        index, on, program, lane = numpy.broadcast_arrays(
            with_program_axis(access.index, access.rank),
            True if access.on is None else with_program_axis(access.on, access.rank),
            programs,
            lanes,
        )
        if isinstance(request, Load):
            self._look(access, self._stored[key], index[on], program[on], lane[on])
            return
        if key not in self._stored:
            size = len(buffer.elements)
            self._stored[key] = _Stored(*(numpy.zeros(size, numpy.int64) for _ in range(3)))
        stored = self._stored[key]
        self._stores.append(access.operation)
        stored.by[index[on]] = len(self._stores)
        stored.program[index[on]] = program[on]
        stored.lane[index[on]] = lane[on]

    def _look(
        self, access: CheckedAccess, stored: _Stored, index: Array, program: Array, lane: Array
    ) -> None:
        by = stored.by[index]
        moved = (by > 0) & (stored.program[index] == program) & (stored.lane[index] != lane)
        if not moved.any():
            return
        for number in numpy.unique(by[moved]):
            store = self._stores[number - 1]
            if (store, access.operation) not in self._suspects:
                here = numpy.flatnonzero(moved & (by == number))[:_SAMPLES]
                self._suspects[store, access.operation] = _Suspect(
                    store, access.operation, access,
                    stored.lane[index[here]], lane[here], index[here],
                )  # fmt: skip

    def investigate(self, session: CheckSession) -> None:
        if not self._suspects:
            return
        try:
            owners = _Owners(self.run)
        except KernelLabError:
            return
        for suspect in self._suspects.values():
            if not owners.are_unordered(suspect.store, suspect.load):
                continue
            stored = owners.of(suspect.store, suspect.stored)
            loaded = owners.of(suspect.load, suspect.loaded)
            if stored is None or loaded is None:
                continue
            apart = numpy.flatnonzero(stored != loaded)
            if len(apart):
                first = int(apart[0])
                self._report(suspect, first, int(stored[first]), int(loaded[first]), len(apart))

    def _report(
        self, suspect: _Suspect, place: int, storing: int, loading: int, count: int
    ) -> None:
        access = suspect.access
        name, element = access.buffer.name, access.coordinates(int(suspect.index[place]))
        frames = locate(suspect.store.location).frames
        line = f" on line {frames[0].line}" if frames else ""
        facts: dict[str, Any] = {
            "kind": self.kinds[0],
            "argument": name,
            "index": element,
            "places": locate(suspect.load.location).frames[::-1],
            "message": (
                f"thread {storing} stores {access.named(element)}{line}, and thread {loading} of "
                "the same program loads it here, without a barrier between: the load may come "
                "before the store"
            ),
            "advice": "The interpreter runs a store to its end before a load.",
            "proposals": (
                Proposal(
                    "Put tl.debug_barrier() between them.", "", "tl.debug_barrier()", "statement"
                ),
            ),
        }
        self.collector.add((suspect.load, name), facts, access.linear_ids().tolist(), count)


def _stored_and_loaded(run: CheckedRun) -> frozenset[str | int]:
    """Return the storages that the kernel both stores to and loads from."""
    effects = memory_effects(run.code)
    if not effects.stored or not effects.loaded:
        return frozenset()
    return storages_of(run, effects.stored) & storages_of(run, effects.loaded)


def _pointers(op: Operation) -> Any:
    assert isinstance(op, tt.LoadOp | tt.StoreOp)
    return op.operands[0]


_LOCATION = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?(bar|barrier|st\.global|ld\.global)\b")


class _Owners:
    """Which thread makes each element's access, as TTGIR's layouts say; and what PTX has between
    two accesses.
    """

    def __init__(self, run: CheckedRun) -> None:
        call = run.call
        compiled = triton_api.compile_kernel(
            run.kernel, call.specialization, run.target, call.options
        )
        self._instructions = list(_instructions(str(compiled.stages["ptx"])))
        module = program_code(run.kernel, call, run.target, "ttgir").module
        accesses = [op for op in module.walk() if isinstance(op, tt.LoadOp | tt.StoreOp)]
        self._layouts = layouts_by_type([_pointers(op).type for op in accesses], layouts_of)
        self._at: Mapping[Hashable, Operation] = {_place(op): op for op in accesses}

    def are_unordered(self, store: Operation, load: Operation) -> bool:
        """Return whether the PTX has the store, then the load, and no barrier between."""
        stored, loaded = (
            frames[0].line if (frames := locate(op.location).frames) else 0 for op in (store, load)
        )
        stores = [at for at, each in enumerate(self._instructions) if each == ("st.global", stored)]
        for at in stores:
            for name, line in self._instructions[at + 1 :]:
                if name in ("bar", "barrier"):
                    break
                if (name, line) == ("ld.global", loaded):
                    return True
        return False

    def of(self, op: Operation, lanes: Array) -> Array | None:
        """Return the thread of each place of the tile of a TTIR access; None if it is not known."""
        there = self._at.get(_place(op))
        layout = None if there is None else self._layouts.get(_pointers(there).type)
        if there is None or not isinstance(layout, RegisterLayout):
            return None
        if shape(_pointers(there).type) != shape(_pointers(op).type):
            return None
        numbers = layout.all_numbers().reshape(-1, layout.registers_per_thread)
        threads = numpy.full(int(numbers.max()) + 1, len(numbers), numpy.int64)
        held = numpy.broadcast_to(numpy.arange(len(numbers))[:, None], numbers.shape)
        numpy.minimum.at(threads, numbers.ravel(), held.ravel())
        owners: Array = threads[lanes]
        return owners


def _instructions(ptx: str) -> Iterator[tuple[str, int]]:
    """Yield the accesses to global memory and the barriers, with their lines of the source."""
    current = 0
    for text in ptx.splitlines():
        if match := _LOCATION.match(text):
            current = int(match[1])
        elif match := _INSTRUCTION.match(text):
            yield match[1], current


def _place(op: Operation) -> Hashable:
    return type(op).name, locate(op.location).frames
