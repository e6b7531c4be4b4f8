"""How detectors hear: memory and values as the generated code of a checked run sees them."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Operation

from kernellab.checker.detector import Detector, overrides
from kernellab.checker.detectors.out_of_bounds import OutOfBounds
from kernellab.checker.scene import Access, Computed, Scene
from kernellab.interpreter import descriptors
from kernellab.interpreter.emitter import Emitter, located_at
from kernellab.interpreter.expressions import listening
from kernellab.interpreter.grid import Programs
from kernellab.interpreter.memory import Buffer
from kernellab.interpreter.memory_layers import Memory, MemoryAccess, MemoryLayer
from kernellab.interpreter.tiles import Active, Value
from kernellab.ir import tt

Change = Callable[[Access], MemoryAccess]
"""Puts another access in the place of one."""


class Audience:
    """Tells the detectors of a run what it does; see `observing.Listener`.

    Attributes:
        operations: the operations of the code, by location.
        programs: the batch that runs; not there before the first does.
    """

    programs: Programs

    def __init__(
        self,
        scene: Scene,
        bounds: OutOfBounds,
        detectors: Sequence[Detector],
        change: Change | None = None,
    ) -> None:
        self.scene = scene
        self.bounds = bounds
        self.change = change
        self.operations: Sequence[Operation] = ()
        self.before = [one.before for one in detectors if overrides(one, "before")]
        self.after = [one.after for one in detectors if overrides(one, "after")]
        self._values = [one for one in detectors if overrides(one, "computed")]
        self._hearing: dict[Operation, list[Any]] = {}
        self._known: dict[tuple[types.CodeType, int], Operation] = {}

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """As `observing.Listener.modules`."""
        heard = HeardMemory(memory, self)
        return {"memory": heard, "descriptors": _Descriptors(heard), "listening": self}

    def operation_at(self, frame: types.FrameType) -> Operation:
        """The operation that generated code is at."""
        key = frame.f_code, frame.f_lasti
        if key not in self._known:
            operation = located_at(*key, self.operations)
            assert operation is not None, "every statement that accesses memory has a location"
            self._known[key] = operation
        return self._known[key]

    def kernel_frame(self, frame: types.FrameType | None) -> types.FrameType:
        """The frame of generated code that `frame` was called from."""
        codes = self.scene.code.codes
        while frame is not None and frame.f_code not in codes:
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
        """What generated code calls after an operation that somebody hears."""
        if operation not in self._hearing:
            wanting = [one.computed for one in self._values if one.hears(operation)]
            self._hearing[operation] = wanting
        frame = sys._getframe(1)
        programs = vars(self).get("programs")
        heard = Computed(
            self.scene, operation, programs, active, frame, frame.f_lasti, operands, results
        )
        for hear in self._hearing[operation]:
            hear(heard)


class HeardMemory(MemoryLayer):
    """Stands where generated code expects the module `memory`: accesses are kept inside the storages, and detectors hear of them."""

    def __init__(self, inner: Memory, audience: Audience) -> None:
        self._inner = inner
        self._audience = audience

    def around(self, request: MemoryAccess) -> Value | None:
        """Tell of the access, make it, and tell what it gave."""
        audience = self._audience
        frame = audience.kernel_frame(sys._getframe(2))
        operation = audience.operation_at(frame)
        placed = _in_a_tensor(request)
        if placed is None:
            return request.made_by(self._inner)
        access = Access(
            audience.scene, operation, audience.programs, request.active, frame, frame.f_lasti, *placed
        )  # fmt: skip
        inside = audience.bounds.kept_inside(access)
        if inside is not access.request:
            access = replace(access, request=inside)
        if audience.change is not None:
            access = replace(access, request=audience.change(access))
        for hear in audience.before:
            hear(access)
        found = access.request.made_by(self._inner)
        for hear_after in audience.after:
            hear_after(access, found)
        return found


def _in_a_tensor(request: MemoryAccess) -> tuple[MemoryAccess, Buffer] | None:
    """The access, and the tensor that it goes to; None where it goes through addresses to several, or to a storage that is not one tensor's alone."""
    buffer = request.buffer
    if isinstance(buffer, Buffer):
        return request, buffer
    found = buffer.in_one_storage(request.offsets, anywhere=True)
    if found is None:
        return None
    buffer, offsets = found
    if buffer.tensor.nbytes != buffer.tensor.untyped_storage().nbytes():
        return None  # other views of it may be meant: nobody knows whose bounds count
    return replace(request, buffer=buffer, offsets=offsets), buffer


class _Descriptors:
    """Stands where generated code expects the module `descriptors`: their accesses go through `memory`."""

    def __init__(self, memory: Memory) -> None:
        for name in ("load", "store", "reduce", "gather", "scatter"):
            setattr(self, name, functools.partial(getattr(descriptors, name), through=memory))

    def __getattr__(self, name: str) -> Any:
        return getattr(descriptors, name)


# In the generated code

_OF_ELEMENTS = (tt.ReduceOp, tt.ScanOp, tt.MapElementwiseOp)
"""Operations whose regions run with an element in each program's place: nobody hears what is computed there."""


def tell_of_values(detectors: Sequence[type[Detector]], emit: Emitter, op: Operation) -> None:
    """Add the statement that tells of an operation's values, where one of the detectors hears it; see `emitter.AfterOperation`."""
    if not any(one.hears(op) for one in detectors) or _is_of_elements(op):
        return
    operation = emit.constant(op, hint="operation")
    operands = tuple(emit[operand] for operand in op.operands)
    unused = isinstance(op, tt.AtomicRMWOp) and not op.result.uses
    results = () if unused else tuple(emit[result] for result in op.results)
    active = emit.active_programs()
    emit.evaluate(None, listening.computed(operation, operands, results, active))


def _is_of_elements(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, _OF_ELEMENTS):
            return True
        parent = parent.parent_op()
    return False
