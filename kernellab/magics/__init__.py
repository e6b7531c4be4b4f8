"""The notebook's tab: loading the extension, and one file per magic."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kernellab.magics.magic import Magic


def _all_magics() -> tuple[Magic, ...]:
    from kernellab.magics import (
        tilecheck,
        tiledebug,
        tilediagnose,
        tileequal,
        tileexercise,
        tilegraph,
        tileir,
        tilekernel,
        tilelayout,
        tileprofile,
        tilestep,
        tiletune,
    )

    return (
        tilekernel.tilekernel,
        tilecheck.tilecheck,
        tiledebug.tiledebug,
        tilediagnose.tilediagnose,
        tileequal.tileequal,
        tileexercise.tileexercise,
        tileexercise.tileexercise_of_cell,
        tilegraph.tilegraph,
        tileir.tileir,
        tilelayout.tilelayout,
        tileprofile.tileprofile,
        tileprofile.tileprofile_of_cell,
        tilestep.tilestep,
        tiletune.tiletune,
    )


def load(shell: InteractiveShell) -> None:
    """Register the magics and their completion; loading twice is loading once."""
    from kernellab import debugger
    from kernellab.common.arguments import later
    from kernellab.magics import ipython_api, without_gpu

    for magic in _all_magics():
        magic.register(shell)
    debugger.current_debugger = functools.partial(ipython_api.debugger_class, shell)
    ipython_api.show_errors_briefly(shell)
    ipython_api.advise_below_errors(
        shell,
        later("kernellab.magics.first_errors:advice_on"),
        later("kernellab.viz.launch_tabs:stopped_card"),
    )
    ipython_api.tell_of_cells(shell, without_gpu.stand_in_for_gpu)


def unload(shell: InteractiveShell) -> None:
    """Take back all that `load` did."""
    from kernellab import debugger
    from kernellab.magics import ipython_api, without_gpu

    debugger.current_debugger = debugger.python_debugger
    for magic in _all_magics():
        ipython_api.forget_magic(shell, magic.options)
    ipython_api.show_errors_in_full()
    ipython_api.forget_listeners(shell)
    without_gpu.leave_gpu_alone()
