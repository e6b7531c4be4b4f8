"""What torch's operations do inside: where a result is follows from where the operands are.

A mode of torch's sees each operation below autograd, those of a backward pass too.
"""

from __future__ import annotations

from typing import Any

from kernellab.launch.torch_cuda import marks
from kernellab.launch.torch_cuda.functions import FUNCTIONS
from kernellab.launch.torch_cuda.generators import (
    default_generator,
    is_named,
    makes_on_gpu,
    other_peoples_code,
)
from kernellab.launch.torch_cuda.sessions import current_session
from kernellab.torch_api.emulation import (
    OperationMode,
    draws_numbers,
    modes_pushed,
    run_as,
    runs_on_gpu_alone,
)


class GpuOperations(OperationMode):
    """Follows the operations of threads that are inside."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if current_session() is None:
            return func(*args, **kwargs)
        result = self._run(func, args, kwargs)
        marks.share_place(result, args, kwargs)
        return result

    def _run(self, operation: Any, args: Any, kwargs: Any) -> Any:
        """The operation's result; of code that other people registered, modes on."""
        on_gpu = makes_on_gpu() or any(map(marks.is_on_gpu, marks.tensors_in(args, kwargs)))
        if on_gpu and draws_numbers(operation) and not is_named():
            with default_generator().draws_by_default():
                return self._by_torch_or_others(operation, on_gpu, args, kwargs)
        return self._by_torch_or_others(operation, on_gpu, args, kwargs)

    def _by_torch_or_others(self, operation: Any, on_gpu: bool, args: Any, kwargs: Any) -> Any:
        if on_gpu and runs_on_gpu_alone(operation):
            key = "CUDA"
            if makes_on_gpu() and "device" in kwargs:
                kwargs = kwargs | {"device": marks.GPU}
        elif operation.namespace in _TORCHS_OWN:
            return operation(*args, **kwargs)
        else:
            key = "CPU"
        with modes_pushed(FUNCTIONS, self), other_peoples_code():
            return run_as(key, operation, args, kwargs)


_TORCHS_OWN = frozenset({"aten", "prim", "prims", "quantized", "mkldnn", "mkl", "profiler"})
