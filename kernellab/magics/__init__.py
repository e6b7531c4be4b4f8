"""The notebook's tab: loading the extension, and one file for each family of magics."""

from __future__ import annotations

import functools
import re
import sys
import sysconfig
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kernellab.magics.magic import Magic
    from kernellab.triton_api import StandIn


def _all_magics() -> tuple[Magic, ...]:
    from kernellab.magics import cell_magics, kernel_magics, launch_magics

    return (
        kernel_magics.tilekernel, launch_magics.tilecheck, launch_magics.tiledebug,
        launch_magics.tilediagnose, launch_magics.tileequal, cell_magics.tileexercise,
        cell_magics.tileexercise_of_cell, cell_magics.tilegraph, kernel_magics.tileir,
        kernel_magics.tilelayout, cell_magics.tilepass, launch_magics.tileprofile,
        launch_magics.tileprofile_of_cell, launch_magics.tilestep, cell_magics.tiletune,
    )  # fmt: skip


def load(shell: InteractiveShell) -> None:
    """Register the magics and their completion; loading again has no effect."""
    from kernellab.common import system
    from kernellab.common.arguments import later
    from kernellab.magics import ipython_api

    for magic in _all_magics():
        magic.register(shell)
    system.current_debugger = functools.partial(ipython_api.debugger_class, shell)
    ipython_api.show_errors_briefly(shell)
    ipython_api.advise_below_errors(
        shell,
        later("kernellab.magics.first_errors:advice_on"),
        later("kernellab.viz.launch_tabs:stopped_card"),
    )
    ipython_api.tell_of_cells(shell, stand_in_for_gpu)


def unload(shell: InteractiveShell) -> None:
    """Take back all that `load` did."""
    from kernellab.common import system
    from kernellab.magics import ipython_api

    system.current_debugger = system.python_debugger
    for magic in _all_magics():
        ipython_api.forget_magic(shell, magic)
    ipython_api.show_errors_in_full()
    ipython_api.forget_listeners(shell)
    leave_gpu_alone()


# Kernels under a plain `@triton.jit` where there is no GPU: Triton cannot launch them, so the
# interpreter does.

_stand_in: StandIn | None = None
_is_looked_for = True
"""Whether it is not yet known if there is a GPU."""


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
