"""Find floats that a store truncates, because the tensor that it writes holds integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import torch
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.naming import name_of
from kernellab.common.formatting import number_text
from kernellab.interpreter.numerics.numerics import widen
from kernellab.ir import arith
from kernellab.ir.traits import GlobalAccess, KeepsElements, has, trait_of
from kernellab.ir.types import dtype, shape


def _stores_of(conversion: Operation) -> Iterator[Operation]:
    """Yield the stores and atomics that a conversion belongs to, which have the same location. A
    conversion that the kernel's author wrote has a different location.
    """
    pending = [*conversion.results[0].uses]
    while pending:
        user = pending.pop().operation
        access = trait_of(user, GlobalAccess)
        if access is not None and user.location == conversion.location:
            yield user
        elif has(user, KeepsElements):
            pending += user.results[0].uses


class TruncatedStore(Detector):
    """Keep the elements that the conversion before a store truncates, and see which of them are
    stored.
    """

    kinds = ("truncated-store",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._cut: dict[Operation, tuple[SSAValue, numpy.ndarray, numpy.ndarray]] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is an implicit float-to-integer conversion of a store."""
        if not isinstance(operation, arith.FPToSIOp | arith.FPToUIOp):
            return False
        return next(_stores_of(operation), None) is not None

    def computed(self, computed: Computed) -> None:
        op = computed.operation
        numbers = numpy.asarray(widen(computed.operands[0]))
        with numpy.errstate(invalid="ignore"):
            cut = numpy.isfinite(numbers) & (numbers != numpy.trunc(numbers))
        rank = len(shape(op.results[0].type))
        for store in _stores_of(op):
            self._cut.pop(store, None)
            if not cut.any():
                continue
            value = trait_of(store, GlobalAccess).value_of(store)  # type: ignore[union-attr]
            assert value is not None, "the converted value is stored"
            more = (1,) * (len(shape(value.type)) - rank if cut.ndim > rank else 0)
            of_tile = numbers.shape + more
            self._cut[store] = op.operands[0], numbers.reshape(of_tile), cut.reshape(of_tile)

    def before(self, access: Access) -> None:
        if access.operation not in self._cut:
            return
        source, numbers, cut = self._cut[access.operation]
        faulty = cut if access.on is None else cut & access.on
        if not faulty.any():
            return
        rank, buffer = access.rank, access.buffer
        faulty = numpy.broadcast_to(
            faulty, numpy.broadcast_shapes(faulty.shape, access.index.shape)
        )

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            here = numpy.broadcast_to(numbers, faulty.shape)
            number = here[(program, *place) if faulty.ndim > rank else place]
            index = access.element(faulty, place, program)
            integers = str(buffer.tensor.dtype).removeprefix("torch.")
            name = name_of(source, access.operation)
            return {
                "kind": self.kinds[0],
                "argument": buffer.name,
                "index": index,
                "message": (
                    f"{'' if name is None else f'{name} = '}{number_text(number)} is stored to "
                    f"{access.named(index)}, whose elements are {integers}: the store keeps "
                    f"{int(number)} and discards the fraction"
                ),
                "advice": _advice(source, buffer.name, name, integers),
            }

        self.collector.report(access, faulty, rank, facts_of, buffer.name)


_FLOATS = {2: torch.float16, 4: torch.float32, 8: torch.float64}


def _advice(source: SSAValue, tensor: str, name: str | None, integers: str) -> str:
    kind = dtype(source.type)
    floats = str(kind) if str(kind) == "bfloat16" else str(_FLOATS[max(kind.itemsize, 2)])
    value = name or "value"
    return (
        f"Make {tensor} a tensor of floats, dtype=torch.{floats.removeprefix('torch.')}. If "
        f"integers are intended, convert explicitly: {value}.to(tl.{integers}) truncates, "
        f"tl.floor({value} + 0.5).to(tl.{integers}) rounds."
    )
