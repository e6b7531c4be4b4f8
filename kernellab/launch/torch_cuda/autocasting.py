"""`torch.autocast("cuda")` inside: the CPU's autocast beside it, by which products are rounded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from kernellab.launch.torch_cuda.marks import GPU
from kernellab.launch.torch_cuda.sessions import current_session
from kernellab.torch_api.emulation import autocast_is_on

_ENTERED = "kernellab_cpu_autocasts"
_NARROW = (torch.float16, torch.bfloat16)


def entering(enter: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.autocast.__enter__`, which enters the CPU's too."""

    @functools.wraps(enter)
    def enter_both(autocast: torch.autocast) -> Any:
        result = enter(autocast)
        beside = None
        if current_session() is not None and autocast.device == GPU.type:
            dtype = autocast.fast_dtype
            if dtype in _NARROW:
                beside = torch.autocast("cpu", dtype=dtype, enabled=autocast_is_on(autocast))
                enter(beside)
        vars(autocast).setdefault(_ENTERED, []).append(beside)
        return result

    return enter_both


def leaving(leave: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.autocast.__exit__`, which leaves the CPU's first where it was entered."""

    @functools.wraps(leave)
    def leave_both(autocast: torch.autocast, *error: Any) -> Any:
        entered = vars(autocast).get(_ENTERED)
        beside = entered.pop() if entered else None
        if beside is not None:
            leave(beside, *error)
        return leave(autocast, *error)

    return leave_both
