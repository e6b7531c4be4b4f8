"""Sums of floats in memory, which round differently in another order of the programs."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy
import torch
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.outcomes import Allowed, Piece, pieces
from kernellab.checker.shadow.finite import is_float
from kernellab.checker.shadow.memory import ShadowArray, Storage, Storages
from kernellab.checker.slices import behind
from kernellab.interpreter.analyses.pointers import underlying_objects
from kernellab.interpreter.analyses.spin_loops import is_spin_loop
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.memory.layers import Atomic, Store
from kernellab.interpreter.numerics.numerics import widen
from kernellab.ir import arith, scf, tt
from kernellab.ir.traits import PointerAccess, in_region_of_elements, trait_of


class FloatSums(Detector):
    """What is added to each element by atomics on floats, or by loads and stores that a lock
    orders, so that the rounding of another order can be told from a fault; and whether programs
    add up in loops in which they wait for each other: how far one looks back, or how often one
    tries, depends on the others.

    n numbers that are added up in two orders, each sum rounded to a unit u, are at most 2 (n - 1) u
    sum|x| apart (N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). In a
    kernel that adds floats so, floats elsewhere may be made of such sums: they may be apart by the
    square root of u, relative to the tensor's largest. That is said of finite sums: which order
    leaves the type on the way is no rounding.
    """

    kinds = ()

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
            stored = numpy.asarray(request.value)
            if stored.dtype != access.buffer.elements.dtype:
                stored = stored.view(access.buffer.elements.dtype)
            added = _added(before, widen(stored))
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

    def tolerance(self, name: str, one: torch.Tensor, other: torch.Tensor) -> Allowed | None:
        """See `outcomes.Tolerance`."""
        if not self._has_sums:
            return None
        unit = torch.finfo(one.dtype).eps / 2
        derived = unit**0.5 * max(map(_largest, (one, other)))
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
    """What stores add to what was there: all that they store where that was no number, in memory
    that nobody has set; nothing where the sum is none any more.
    """
    with numpy.errstate(invalid="ignore", over="ignore"):
        added = numpy.where(numpy.isfinite(before), stored - before, stored)
    return numpy.where(numpy.isfinite(added), added, 0.0)


def _largest(tensor: torch.Tensor) -> float:
    """Of its finite numbers, without their signs."""
    if tensor.element_size() == 1:
        tensor = tensor.float()
    parts = (tensor[piece].nan_to_num(0, 0, 0) for piece in pieces(tuple(tensor.shape)))
    return max(float(one.abs().max()) for one in parts)


_kept: weakref.WeakKeyDictionary[ProgramCode, frozenset[Operation]] = weakref.WeakKeyDictionary()


def _adding_stores(code: ProgramCode) -> frozenset[Operation]:
    """Plain stores of floats to arguments in which the kernel adds up, by a load, an addition and
    a store: all of those to such an argument, the first number's among them.
    """
    if code not in _kept:
        function = next(op for op in code.module.ops if isinstance(op, tt.FuncOp) and op.is_kernel)
        stores = dict(_stores_of_floats(function))
        objects = underlying_objects(function)

        def argument(pointer: SSAValue) -> BlockArgument | None:
            return objects.get(pointer)

        summed = set()
        for pointer, value in stores.values():
            sources = [one.owner for one in behind([value], function)]
            adds = any(isinstance(one, arith.AddFOp | arith.SubFOp) for one in sources)
            loads = (one for one in sources if isinstance(one, tt.LoadOp))
            if adds and any(argument(one.pointer) is argument(pointer) for one in loads):
                summed.add(argument(pointer))
        summed.discard(None)
        _kept[code] = frozenset(
            op for op, (pointer, _) in stores.items() if argument(pointer) in summed
        )
    return _kept[code]


def _adds_while_it_waits(code: ProgramCode) -> bool:
    """Whether a kernel adds floats in a loop that another program's store or atomic may end."""
    return any(
        isinstance(op, arith.AddFOp) and not in_region_of_elements(op)
        for loop in code.module.walk()
        if isinstance(loop, scf.WhileOp) and is_spin_loop(loop)
        for op in loop.walk()
    )


def _stores_of_floats(function: tt.FuncOp) -> Iterator[tuple[Operation, tuple[SSAValue, SSAValue]]]:
    """(store, (pointer, value)) of each plain store of floats."""
    for op in function.walk():
        access = trait_of(op, PointerAccess)
        if isinstance(op, tt.StoreOp) and access is not None and is_float(op.value):
            yield op, (op.pointer, op.value)
