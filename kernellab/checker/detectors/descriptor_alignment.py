"""Find tensor descriptors whose base address or strides are misaligned for TMA.

Triton documents the requirement for `tl.make_tensor_descriptor` and leaves it to the caller. The
class for descriptors made on the host checks it, but nothing checks a descriptor that the kernel
makes: TMA keeps addresses and strides in units of 16 bytes, so a GPU moves other elements, or
stops. GPUs without TMA load through pointers, which need no alignment.
"""

from __future__ import annotations

from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.compiler.targets import has_copy_engine
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.descriptors import Descriptor
from kernellab.ir import tt
from kernellab.records.layouts import Numbers

UNIT = 16
"""Addresses and strides must be multiples of this many bytes: CUDA driver API,
cuTensorMapEncodeTiled (globalAddress, globalStrides)."""


class DescriptorAlignment(Detector):
    """Check each descriptor that the kernel makes."""

    kinds = ("descriptor-alignment",)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        """Return whether the target has TMA; other GPUs load through pointers."""
        return has_copy_engine(run.target)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation makes a descriptor."""
        return isinstance(operation, tt.MakeTensorDescOp)

    def computed(self, computed: Computed) -> None:
        """Check the descriptor's base address and its strides."""
        (descriptor,) = computed.results
        assert isinstance(descriptor, Descriptor)
        self._check(computed, None, _address(descriptor))
        for dimension, stride in enumerate(descriptor.strides[:-1]):
            size = numpy.asarray(stride, numpy.int64) * descriptor.dtype.itemsize
            self._check(computed, dimension, size)

    def _check(self, computed: Computed, dimension: int | None, sizes: Numbers) -> None:
        """Report sizes in bytes that are not multiples of 16.

        Args:
            dimension: the dimension whose stride is checked; None for the base address.
            sizes: one number for each program, or one for all.
        """
        faulty = (sizes % UNIT != 0) & computed.taking_part(0)
        if not faulty.any():
            return
        descriptor = computed.results[0]

        def facts_of(_place: tuple[int, ...], program: int) -> dict[str, Any]:
            size = int(sizes if sizes.ndim == 0 else sizes[program])
            if dimension is None:
                problem = f"its base address is {size % UNIT} bytes past a multiple of {UNIT}"
            else:
                elements = size // descriptor.dtype.itemsize
                problem = (
                    f"its stride along dimension {dimension} is {elements:,} elements "
                    f"({size:,} bytes), which is not a multiple of {UNIT} bytes"
                )
            return {
                "kind": self.kinds[0],
                "argument": descriptor.buffer.name if isinstance(descriptor.buffer, Buffer) else "",
                "message": f"this tensor descriptor is misaligned for TMA: {problem}",
                "advice": _BASE_ADVICE if dimension is None else _STRIDE_ADVICE,
            }

        self.collector.report(
            computed, faulty, 0, facts_of, "base" if dimension is None else dimension
        )


def _address(descriptor: Descriptor) -> Numbers:
    """Return the base address, or a number with the same remainder modulo 16."""
    start = numpy.asarray(descriptor.start, numpy.int64)
    if not isinstance(descriptor.buffer, Buffer):
        return start
    return start * descriptor.dtype.itemsize + descriptor.buffer.tensor.data_ptr() % UNIT


_BASE_ADVICE = (
    "Start the descriptor at an address that is a multiple of 16 bytes, and add the rest of the "
    "offset to the indices of the block."
)
_STRIDE_ADVICE = (
    "Pad the tensor so that this stride is a multiple of 16 bytes, or load through pointers with a "
    "mask."
)
