"""The events of a checked run: memory and values as its generated code sees them."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.bounds import BoundsPolicy, without
from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector, Stopped, overrides
from kernellab.checker.failures import Failures
from kernellab.checker.shadow.memory import fetch
from kernellab.interpreter.codegen.code_positions import is_among, located_at
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import observer
from kernellab.interpreter.execution import device_asserts
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.program import ProgramCode, entry_of
from kernellab.interpreter.memory import descriptors
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.global_memory import Buffer, differs
from kernellab.interpreter.memory.layers import (
    Load,
    Memory,
    MemoryAccess,
    MemoryLayer,
)
from kernellab.interpreter.memory.watch import WatchedMemory
from kernellab.interpreter.numerics.tiles import Active, Value
from kernellab.ir import tt
from kernellab.ir.traits import in_region_of_elements

Change = Callable[[Access], MemoryAccess]
"""Puts another access in the place of one."""


class EventDispatcher:
    """Tells the detectors of a run what it does; see `observing.RunObserver`.

    Attributes:
        operations: the operations of the code, by location.
        programs: the batch that runs; not there before the first does.
    """

    programs: Programs

    def __init__(
        self,
        run: CheckedRun,
        detectors: Sequence[Detector],
        change: Change | None = None,
        failures: Failures | None = None,
    ) -> None:
        """`failures` takes note of detectors that fail, which are told nothing more; without it,
        they stop the run.
        """
        self.run = run
        self.failures = failures
        self.bounds = BoundsPolicy(run.restrided)
        self.change = change
        self.operations: Sequence[Operation] = ()
        self.outside_tensor = [
            one.outside_tensor for one in detectors if overrides(type(one), "outside_tensor")
        ]
        self.outside_memory = [
            one.outside_memory for one in detectors if overrides(type(one), "outside_memory")
        ]
        self.before = [one.before for one in detectors if overrides(type(one), "before")]
        self.after = [one.after for one in detectors if overrides(type(one), "after")]
        self._values = [one for one in detectors if overrides(type(one), "computed")]
        self._observing: dict[Operation, list[Any]] = {}
        self._facts = _facts_of(run.code)
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """As `observing.RunObserver.modules`."""
        observed = EventMemory(memory, self)
        return {
            "memory": observed,
            "descriptors": _Descriptors(observed),
            "debugging": _Debugging,
            "observer": self,
        }

    def keep(self, tensor: torch.Tensor) -> None:
        """Memory is about to be changed that is no argument's, and so no copy:
        what it holds is kept for `put_back`.
        """
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start not in self._kept and isinstance(self.run.storage_of(tensor), int):
            everything = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
            self._kept[start] = everything, everything.clone()

    def put_back(self) -> None:
        """Give memory that is no argument's the contents that it had before the run."""
        for everything, before in self._kept.values():
            everything.copy_(before)

    def operation_at(self, frame: types.FrameType) -> Operation:
        """The operation that generated code is at."""
        operation = located_at(frame.f_code, frame.f_lasti, self.operations)
        assert operation is not None, "every statement that accesses memory has a location"
        return operation

    def kernel_frame(self, frame: types.FrameType | None) -> types.FrameType:
        """The frame of generated code that `frame` was called from."""
        codes = self.run.code.codes
        while frame is not None and not is_among(frame.f_code, codes):
            frame = frame.f_back
        assert frame is not None, "only generated code accesses memory"
        return frame

    def computed(
        self,
        operation: Operation,
        operands: Sequence[Value],
        results: Sequence[Value],
        active: Active,
    ) -> None:
        """What generated code calls after an operation that somebody observes."""
        if operation not in self._observing:
            facts = self._facts
            self._observing[operation] = [
                one.computed for one in self._values if facts.observes(type(one), operation)
            ]
        frame = sys._getframe(1)
        programs = vars(self).get("programs")
        event = Computed(
            self.run, operation, programs, active, frame, frame.f_lasti, operands, results
        )
        self.tell(self._observing[operation], event)

    def tell(self, observers: Sequence[Callable[..., None]], *event: Any) -> None:
        """Tell them of an event; see `__init__` for those that fail."""
        for observe in observers:
            try:
                observe(*event)
            except Stopped:
                raise
            except Exception as error:
                if self.failures is None:
                    raise
                failed = observe.__self__  # type: ignore[attr-defined]  # a bound method
                self.failures.note(type(failed), error)
                self._leave_out(failed)

    def _leave_out(self, failed: Detector) -> None:
        """Tell a detector nothing more."""
        for name in ("outside_tensor", "outside_memory", "before", "after"):
            observers = [one for one in getattr(self, name) if one.__self__ is not failed]
            setattr(self, name, observers)
        self._values = [one for one in self._values if one is not failed]
        self._observing.clear()


@dataclass
class _CodeFacts:
    """What runs of one code have found out about it."""

    heard: dict[type[Detector], bool] = field(default_factory=dict)
    _observed: dict[tuple[type[Detector], Operation], bool] = field(default_factory=dict)

    def observes(self, detector: type[Detector], operation: Operation) -> bool:
        """As `_observes`."""
        key = detector, operation
        if key not in self._observed:
            self._observed[key] = _observes(detector, operation)
        return self._observed[key]


def may_hear(kind: type[Detector], code: ProgramCode) -> bool:
    """Whether a run of a code has anything to tell a detector: accesses, or values that it
    observes.
    """
    facts = _facts_of(code)
    if kind not in facts.heard:
        accesses = any(overrides(kind, one) for one in _OF_ACCESSES)
        facts.heard[kind] = (
            accesses
            or not overrides(kind, "computed")
            or any(_observes(kind, op) for op in entry_of(code.module).body.walk())
        )
    return facts.heard[kind]


_OF_ACCESSES = ("before", "after", "outside_tensor", "outside_memory")

_known: weakref.WeakKeyDictionary[types.FunctionType, _CodeFacts] = weakref.WeakKeyDictionary()


def _facts_of(code: ProgramCode) -> _CodeFacts:
    return _known.setdefault(code.prepare, _CodeFacts())


class EventMemory(MemoryLayer):
    """Stands where generated code expects the module `memory`:
    accesses are kept inside the storages, and detectors hear of them.
    """

    def __init__(self, inner: Memory, dispatcher: EventDispatcher) -> None:
        self._inner = inner
        self._dispatcher = dispatcher

    def around(self, request: MemoryAccess) -> Value | None:
        """Tell of the access, make it, and tell what it gave."""
        dispatcher = self._dispatcher
        frame = dispatcher.kernel_frame(sys._getframe(2))
        operation = dispatcher.operation_at(frame)
        asked = functools.partial(
            Access,
            dispatcher.run,
            operation,
            dispatcher.programs,
            request.active,
            frame,
            frame.f_lasti,
        )
        if isinstance(request.buffer, Buffer):
            access = self._kept_inside(asked(request, request.buffer))
            self._fetch([access])
            if dispatcher.change is not None:
                access = replace(access, request=dispatcher.change(access))
            inside, accesses = access.request, [access]
        else:
            assert isinstance(request.buffer, Elements)
            inside, accesses = self._by_address(request, request.buffer, asked)
            self._fetch(accesses)
        for access in accesses:
            dispatcher.tell(dispatcher.before, access)
        found = inside.made_by(self._inner)
        for access in accesses:
            dispatcher.tell(dispatcher.after, access, found)
        return found

    def _fetch(self, accesses: Sequence[Access]) -> None:
        """Have what accesses are about to touch; see `LazyCopies`."""
        copies = self._dispatcher.run.copies
        for access in accesses if copies else ():
            fetch(copies, access)

    def _kept_inside(self, access: Access) -> Access:
        """The access without lanes that leave the storage; detectors hear of them first."""
        leaving = self._dispatcher.bounds.leaving(access)
        if leaving is None:
            return access
        self._dispatcher.tell(self._dispatcher.outside_tensor, access, leaving.lanes, leaving.view)
        if leaving.inside is access.request:
            return access
        if isinstance(self._inner, WatchedMemory):
            self._inner.strayed = True
        return replace(access, request=leaving.inside, asked=access.request)

    def _by_address(
        self, request: MemoryAccess, elements: Elements, asked: Callable[..., Access]
    ) -> tuple[MemoryAccess, list[Access]]:
        """The access without lanes that are in no storage, and its parts in each storage."""
        other = request.other if isinstance(request, Load) else None
        operands = request.offsets, request.mask, other
        uniform = isinstance(request, Load) and not differs(request.rank, *operands)
        parts, wild = elements.parts(
            request.offsets, request.rank, request.mask, request.active, uniform
        )
        accesses = [
            asked(
                replace(request, buffer=one.buffer, offsets=one.offsets, mask=one.mask), one.buffer
            )
            for one in parts
        ]
        if not isinstance(request, Load):
            for one in parts:
                self._dispatcher.keep(one.buffer.tensor)
        if wild is None or not wild.any():
            return request, accesses
        self._dispatcher.tell(
            self._dispatcher.outside_memory, asked(request, nowhere(elements)), wild, elements
        )
        return without(request, wild), accesses


def nowhere(elements: Elements) -> Buffer:
    """A buffer without elements, for lanes that are in no storage."""
    return Buffer("", torch.empty(0, dtype=torch.uint8), numpy.dtype(f"u{elements.itemsize}"))


class _Descriptors:
    """Stands where generated code expects the module `descriptors`:
    their accesses go through `memory`.
    """

    def __init__(self, memory: Memory) -> None:
        for name in ("load", "store", "reduce", "gather", "scatter"):
            setattr(self, name, functools.partial(getattr(descriptors, name), through=memory))

    def __getattr__(self, name: str) -> Any:
        return getattr(descriptors, name)


class _Debugging:
    """Stands where generated code expects the module `device_asserts`: an assertion that is false
    is a finding, and stops no run.
    """

    show = staticmethod(device_asserts.show)

    @staticmethod
    def check(condition: Value, message: str, rank: int, active: Active = None) -> None:
        """Nothing: who observes assertions has heard of it."""


# In the generated code


def emit_value_events(detectors: Sequence[type[Detector]], emit: Emitter, op: Operation) -> None:
    """Add the statement that tells of an operation's values, where one
    of the detectors observes it; see `emitter.AfterOperation`.
    """
    if not any(_observes(one, op) for one in detectors):
        return
    operation = emit.constant(op, hint="operation")
    operands = tuple(emit[operand] for operand in op.operands)
    unused = isinstance(op, tt.AtomicRMWOp) and not op.result.uses
    results = () if unused else tuple(emit[result] for result in op.results)
    active = emit.active_programs()
    emit.evaluate(None, observer.computed(operation, operands, results, active))


def _observes(detector: type[Detector], op: Operation) -> bool:
    if in_region_of_elements(op) and not detector.observes_elements:
        return False
    return detector.observes(op)
