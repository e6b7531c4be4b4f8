"""Sums of floats in memory, which round differently in another order of the programs."""

from __future__ import annotations

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.numerics.finite import is_float
from kernellab.checker.outcomes import Allowed, Piece, pieces
from kernellab.checker.shadow.memory import ShadowArray, Storage, Storages
from kernellab.checker.slices import behind
from kernellab.interpreter.analyses.pointers import underlying_objects
from kernellab.interpreter.analyses.spin_loops import is_spin_loop
from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.program import ProgramCode, entry_of
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.layers import Atomic, Store
from kernellab.interpreter.numerics.numerics import widen
from kernellab.ir import arith, scf, tt
from kernellab.ir.traits import in_region_of_elements


class FloatSums(Detector):
    """Record what atomics, or loads and stores under a lock, add to each float, to distinguish the
    rounding of another order from a fault; and whether programs add floats in loops in which they
    wait for each other, so that the number of additions depends on the order.

    The sums of n numbers in two orders, with each addition rounded to a unit u, differ by at most
    2 (n - 1) u sum|x| (N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
    Other floats of such a kernel may be computed from the sums; they may differ by the square root
    of u, relative to the tensor's largest number. This applies to finite sums: an overflow in one
    order is not rounding.
    """

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._storages = Storages(self._begin)
        self._stores = _adding_stores(run.code)
        self._adds_while_it_waits = _adds_while_it_waits(run.code)
        self._has_sums = self._adds_while_it_waits
        """Whether several numbers were added to some element, or may have been."""

    def _begin(self, buffer: Buffer) -> tuple[Storage, ShadowArray, ShadowArray]:
        storage = Storage(buffer)
        return storage, storage.shadow(0, numpy.int64), storage.shadow(0.0, numpy.float64)

    def before(self, access: Access) -> None:
        request = access.request
        if isinstance(request, Atomic):
            if (
                request.operation in ("fadd", "add")
                and access.buffer.elements.dtype.kind not in "iu"
            ):
                self._add(access, request.value, (request.programs, *request.shape))
        elif isinstance(request, Store) and access.operation in self._stores:
            index = numpy.clip(access.index, 0, max(len(access.buffer.elements) - 1, 0))
            before = widen(access.buffer.elements[index])
            added = _added(before, widen(access.written))
            self._add(access, added, numpy.broadcast_shapes(access.index.shape, added.shape))

    def _add(self, access: Access, numbers: object, everyone: tuple[int, ...]) -> None:
        """Note what is added to each element."""
        storage, counts, sums = self._storages[access.buffer]
        added = numpy.abs(numpy.asarray(numbers).astype(numpy.float64))
        if access.on is not None:
            everyone = numpy.broadcast_shapes(everyone, access.on.shape)
        on = numpy.broadcast_to(True if access.on is None else access.on, everyone)
        index = numpy.broadcast_to(storage.index_in(access.index, access.buffer), everyone)[on]
        numpy.add.at(counts.elements, index, 1)
        self._has_sums = self._has_sums or bool((counts.elements[index] > 1).any())
        numpy.add.at(sums.elements, index, numpy.broadcast_to(added, everyone)[on])

    def tolerance(self, name: str, actual: torch.Tensor, other: torch.Tensor) -> Allowed | None:
        """See `outcomes.Tolerance`."""
        if not self._has_sums:
            return None
        unit = torch.finfo(actual.dtype).eps / 2
        derived = unit**0.5 * max(map(_largest, (actual, other)))
        tensor = self.run.tensors[name]
        known = self._storages.by_start.get(tensor.untyped_storage().data_ptr())
        if self._adds_while_it_waits or known is None or known[0].unit != tensor.element_size():
            return lambda _, mine: torch.full_like(mine, derived, dtype=torch.float64)
        storage, counts, sums = known
        numbers = torch.from_numpy(storage.view(tensor, counts.elements))
        magnitudes = torch.from_numpy(storage.view(tensor, sums.elements))

        def allowed(piece: Piece, mine: torch.Tensor) -> torch.Tensor:
            number, magnitude = numbers[piece], magnitudes[piece]
            of_sums = 2 * number * unit * (magnitude + mine.double().abs())
            return torch.where(number > 0, of_sums, derived)

        return allowed


def _added(before: numpy.ndarray, stored: numpy.ndarray) -> numpy.ndarray:
    """Return what stores add to the old values: the stored value if the old one is not finite, as
    in uninitialized memory, and 0 if the sum is not finite.
    """
    with numpy.errstate(invalid="ignore", over="ignore"):
        added = numpy.where(numpy.isfinite(before), stored - before, stored)
    return numpy.where(numpy.isfinite(added), added, 0.0)


def _largest(tensor: torch.Tensor) -> float:
    """Return the largest absolute value among the finite numbers."""
    if tensor.element_size() == 1:
        tensor = tensor.float()
    parts = (tensor[piece].nan_to_num(0, 0, 0) for piece in pieces(tuple(tensor.shape)))
    return max(float(part.abs().max()) for part in parts)


@per_code
def _adding_stores(code: ProgramCode) -> frozenset[Operation]:
    """Return the plain stores of floats to arguments in which the kernel accumulates with a load,
    an addition and a store, including those that store an initial value.
    """
    function = entry_of(code.module)
    stores = [op for op in function.walk() if isinstance(op, tt.StoreOp) and is_float(op.value)]
    objects = underlying_objects(function)
    summed = set()
    for store in stores:
        sources = [source.owner for source in behind([store.value], function)]
        adds = any(isinstance(op, arith.AddFOp | arith.SubFOp) for op in sources)
        loads = (op for op in sources if isinstance(op, tt.LoadOp))
        argument = objects.get(store.pointer)
        if adds and any(objects.get(load.pointer) is argument for load in loads):
            summed.add(argument)
    summed.discard(None)
    return frozenset(store for store in stores if objects.get(store.pointer) in summed)


@per_code
def _adds_while_it_waits(code: ProgramCode) -> bool:
    """Whether a kernel adds floats in a loop that another program's store or atomic may end."""
    return any(
        isinstance(op, arith.AddFOp) and not in_region_of_elements(op)
        for loop in code.module.walk()
        if isinstance(loop, scf.WhileOp) and is_spin_loop(loop)
        for op in loop.walk()
    )
