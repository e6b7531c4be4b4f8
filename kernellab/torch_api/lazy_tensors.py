"""Torch's lazy tensors, which write down what is called on them until somebody needs a value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._lazy
import torch._lazy.metrics
import torch._lazy.ts_backend
import torch.utils._pytree as pytree

_metrics: Any = torch._lazy.metrics
_lazy: Any = torch._lazy
_backend: Any = torch._lazy.ts_backend


@functools.cache
def _initialized() -> None:
    _backend.init()  # a second time is an error


def lazily(function: Callable[..., Any]) -> Callable[..., Any]:
    """What calls a function with lazy tensors, for results and arguments on the CPU."""
    _initialized()

    def called(*args: Any) -> Any:
        lazy = pytree.tree_map(_to_lazy, args)
        made = function(*lazy)
        _lazy.mark_step()  # what is written down so far becomes one program
        result = pytree.tree_map(_to_cpu, made)
        for mine, theirs in zip(pytree.tree_leaves(args), pytree.tree_leaves(lazy), strict=True):
            if isinstance(mine, torch.Tensor):
                with torch.no_grad():
                    mine.copy_(theirs.cpu())
        return result

    return called


def programs_run() -> int:
    """How many programs lazy tensors have become so far in this process."""
    _lazy.wait_device_ops()
    counted = (_metrics.counter_value(name) for name in ("UncachedCompile", "CachedCompile"))
    return sum(number or 0 for number in counted)


def operations_sent_on() -> list[str]:
    """The operations that lazy tensors could not write down and had torch run at once."""
    return sorted(name for name in _metrics.counter_names() if name.startswith("aten::"))


def forget() -> None:
    """Begin to count again."""
    _metrics.reset()


def _to_lazy(value: Any) -> Any:
    return value.detach().to("lazy") if isinstance(value, torch.Tensor) else value


def _to_cpu(value: Any) -> Any:
    return value.cpu() if isinstance(value, torch.Tensor) else value
