"""Tensor descriptors that the copy engine (TMA) cannot take:
where the tensor begins, and how far its rows are apart.

Triton says so of `tl.make_tensor_descriptor` and leaves it to the caller; a descriptor that the
host makes is refused by its own class. Nothing refuses one that the kernel makes: the copy engine
keeps addresses and strides in units of 16 bytes, and a GPU moves other elements, or stops. GPUs
without the engine load through pointers, which may be anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.compiler.targets import has_copy_engine
from kernellab.interpreter.memory.descriptors import Descriptor
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.ir import tt
from kernellab.records.layouts import Numbers

UNIT = 16
"""Bytes that addresses and strides are multiples of:
CUDA driver API, cuTensorMapEncodeTiled (globalAddress, globalStrides)."""

BASE = "base"


class DescriptorAlignment(Detector):
    """Looks at each descriptor that the kernel makes."""

    kinds = ("descriptor-alignment",)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        """GPUs without the copy engine follow pointers."""
        return has_copy_engine(run.target)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """What makes a descriptor."""
        return isinstance(operation, tt.MakeTensorDescOp)

    def computed(self, computed: Computed) -> None:
        """Look at its first address and its strides."""
        (made,) = computed.results
        assert isinstance(made, Descriptor)
        self._look(computed, BASE, _address(made), "it begins at an address")
        for dimension, stride in enumerate(made.strides[:-1]):
            distance = numpy.asarray(stride, numpy.int64) * made.dtype.itemsize
            self._look(computed, dimension, distance, f"its stride along dimension {dimension} is")

    def _look(self, computed: Computed, about: int | str, found: Numbers, words: str) -> None:
        """Note bytes, one number for each program or one for all, that are no multiple of 16."""
        faulty = found % UNIT != 0
        if computed.active is not None:
            faulty = faulty & computed.active
        if not faulty.any():
            return
        made = computed.results[0]

        def facts_of(_place: tuple[int, ...], program: int) -> dict[str, Any]:
            size = int(found if found.ndim == 0 else found[program])
            how_much = _behind(size) if about == BASE else _stride(size, made)
            return {
                "kind": self.kinds[0],
                "argument": made.buffer.name if isinstance(made.buffer, Buffer) else "",
                "message": f"the copy engine cannot take this descriptor: {words} {how_much}",
                "advice": _ADVICE_ON_BASE if about == BASE else _ADVICE_ON_STRIDES,
            }

        self.collector.report(computed, faulty, 0, facts_of, about)


def _address(made: Descriptor) -> Numbers:
    """Where its tensor begins: an address, or as far from a multiple of 16 bytes as one."""
    start = numpy.asarray(made.start, numpy.int64)
    if not isinstance(made.buffer, Buffer):
        return start
    return start * made.dtype.itemsize + made.buffer.tensor.data_ptr() % UNIT


def _behind(address: int) -> str:
    return f"{address % UNIT} bytes behind a multiple of {UNIT}"


def _stride(size: int, made: Descriptor) -> str:
    elements = size // made.dtype.itemsize
    return f"{elements:,} elements, {size:,} bytes, which is no multiple of {UNIT}"


_ADVICE_ON_BASE = (
    "Begin at an element that is aligned to 16 bytes, and add the rest to the indices of the block."
)
_ADVICE_ON_STRIDES = (
    "Pad the tensor until this stride is a multiple of 16 bytes, or load through pointers with a "
    "mask."
)
