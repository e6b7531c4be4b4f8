"""What an emulated GPU changes of torch, Triton and Python while it answers."""

import signal
import threading
from typing import Any

import torch
from torch.utils import _triton as torch_triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import DriverConfig
from triton.runtime.jit import JITFunction

from kernellab import triton_api

OWNERS: tuple[Any, ...] = (
    torch, torch._C, torch.cuda, torch.cuda.memory, torch.cuda.random, torch.accelerator,
    torch_triton, torch.Tensor, torch.autocast, threading.Thread,
)  # fmt: skip


def state_of_torch() -> dict[str, Any]:
    """Return all that might be different after an emulation, by name."""
    named = {f"{owner}.{name}": value for owner in OWNERS for name, value in vars(owner).items()}
    return named | {
        "function modes": torch.overrides._get_current_function_mode_stack(),
        "files": list(torch.serialization._package_registry),
        "versions": type(torch.version),
        "dispatch modes": torch.utils._python_dispatch._get_current_dispatch_mode_stack(),
        "run": JITFunction.run,
        "active": vars(DriverConfig)["active"],
        "Autotuner": (Autotuner.run, vars(Autotuner)["do_bench"]),
        "handler": signal.getsignal(signal.SIGINT),
        "random": torch.initial_seed(),
        "emulation": triton_api.current_emulation(),
        "included keys": str(torch._C._dispatch_tls_local_include_set()),
        "excluded keys": str(torch._C._dispatch_tls_local_exclude_set()),
    }
