"""Kernels under a plain `@triton.jit` where there is no GPU: Triton cannot launch them, so the
interpreter does.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernellab.triton_api import StandIn

_stand_in: StandIn | None = None
_is_looked_for = True
"""Whether no one has looked yet whether there is a GPU."""


def stand_in_for_gpu(cell: str) -> None:
    """Before a cell runs: if Triton is there or is named in its text, and finds no GPU, launches of
    the notebook's own kernels run on the interpreter from now on, and its questions to Triton's
    driver are answered for the default target.
    """
    global _stand_in, _is_looked_for
    if not _is_looked_for or not ("triton" in sys.modules or re.search(r"\btriton\b", cell)):
        return
    _is_looked_for = False
    # Failing imports and Triton's own interpreter are reported where they are used.
    with suppress(Exception):
        from kernellab import triton_api
        from kernellab.compiler.targets import DEFAULT_TARGET, local_target
        from kernellab.launch.autotuners import take_autotuned_launches
        from kernellab.launch.interception import Interception

        if local_target() is None:
            take_autotuned_launches()
            _stand_in = triton_api.StandIn(Interception(DEFAULT_TARGET), is_own)
            _stand_in.begin()


def leave_gpu_alone() -> None:
    """Take back `stand_in_for_gpu`."""
    global _stand_in, _is_looked_for
    if _stand_in is not None:
        _stand_in.end()
    _stand_in, _is_looked_for = None, True


_PYTHONS = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def is_own(file: str) -> bool:
    """Whether a file is a cell or a module of the user's, and of no installed package."""
    installed = "site-packages" in file or "dist-packages" in file
    return not installed and not file.startswith(_PYTHONS)
