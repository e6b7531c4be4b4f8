"""`torch.autocast("cuda")` inside: operations are cast as on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from kernellab.launch.torch_cuda.marks import GPU, is_on_gpu
from kernellab.launch.torch_cuda.sessions import current_session
from kernellab.torch_api.autocast_kernels import follow_autocast


def following(set_enabled: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.set_autocast_enabled`, which `torch.autocast` calls when it is entered and left."""

    @functools.wraps(set_enabled)
    def set_and_follow(*args: Any) -> Any:
        result = set_enabled(*args)
        if current_session() is not None:
            follow_autocast(torch.is_autocast_enabled(GPU.type), is_on_gpu)
        return result

    return set_and_follow
