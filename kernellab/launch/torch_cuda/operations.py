"""What torch's operations do inside: where a result is follows from where the operands are.

A mode of torch's sees each operation below autograd, those of a backward pass too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

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
    HigherOrderOperator,
    OperationMode,
    draws_numbers,
    function_mode_pushed,
    modes_pushed,
    operations_unseen,
    run_as,
    run_higher_order,
    runs_on_gpu_alone,
)


class GpuOperations(OperationMode):
    """Follows the operations of threads that are inside."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if current_session() is None:
            return func(*args, **kwargs)
        result = self._run(func, args, kwargs)
        marks.share_place(result, args, kwargs)
        return result

    def _run(self, operation: Any, args: Any, kwargs: Any) -> Any:
        """The operation's result; of code that other people registered, modes on."""
        if isinstance(operation, HigherOrderOperator):
            with function_mode_pushed(FUNCTIONS), other_peoples_code():
                return run_higher_order(operation, args, kwargs)
        on_gpu = makes_on_gpu() or any(map(marks.is_on_gpu, marks.tensors_in(args, kwargs)))
        if on_gpu and draws_numbers(operation) and not is_named():
            with default_generator().draws_by_default():
                return self._by_torch_or_others(operation, on_gpu, args, kwargs)
        return self._by_torch_or_others(operation, on_gpu, args, kwargs)

    def _by_torch_or_others(self, operation: Any, on_gpu: bool, args: Any, kwargs: Any) -> Any:
        if operation.namespace in _WITHOUT_KERNELS:
            return operation(*args, **kwargs)
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


_WITHOUT_KERNELS = frozenset({"prim"})
"""Queries of a tensor's device, layout or sizes; the dispatcher does not have them."""

_TORCHS_OWN = frozenset({"aten", "prims", "quantized", "mkldnn", "mkl", "profiler"})


OPERATIONS = GpuOperations()
"""The one that all threads have."""


def made_unseen(by_torch: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.Tensor.__new__`, which makes a tensor of a subclass with the mode off: a mode hands
    torch a finished `torch.Tensor` there, whose class cannot change any more.
    """

    @functools.wraps(by_torch)
    def make(kind: type[torch.Tensor], /, *args: Any, **kwargs: Any) -> Any:
        if kind is torch.Tensor or current_session() is None:
            return by_torch(kind, *args, **kwargs)
        with operations_unseen(OPERATIONS):
            return by_torch(kind, *args, **kwargs)

    return make
