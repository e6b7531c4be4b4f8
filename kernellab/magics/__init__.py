"""The notebook's door: loading the extension, and one file per magic."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load(shell: InteractiveShell) -> None:
    """Register the magics, their completion and the displays; loading twice is loading once."""
    from kernellab.debugger import front_end
    from kernellab.magics import (
        ipython_api,
        tilecheck,
        tiledebug,
        tileir,
        tilekernel,
        tilelayout,
        tilestep,
        tiletune,
    )
    from kernellab.viz import displays

    shell.register_magics(
        tilekernel.TileKernelMagics,
        tilecheck.TileCheckMagics,
        tiledebug.TileDebugMagics,
        tileir.TileIrMagics,
        tilelayout.TileLayoutMagics,
        tilestep.TileStepMagics,
        tiletune.TileTuneMagics,
    )
    front_end.current_debugger = functools.partial(ipython_api.debugger_class, shell)
    ipython_api.complete_options(shell, "tilekernel", tilekernel.OPTIONS.words)
    ipython_api.complete_options(shell, "tiledebug", tiledebug.OPTIONS.words, sigil="%")
    ipython_api.complete_options(shell, "tileir", tileir.OPTIONS.words, sigil="%")
    ipython_api.complete_options(shell, "tilelayout", tilelayout.OPTIONS.words, sigil="%")
    ipython_api.complete_options(shell, "tiletune", tiletune.OPTIONS.words)
    ipython_api.show_errors_briefly(shell)
    displays.register(shell.display_formatter)


def unload(shell: InteractiveShell) -> None:
    """Take back all that `load` did."""
    from kernellab.debugger import front_end
    from kernellab.magics import ipython_api
    from kernellab.viz import displays

    front_end.current_debugger = front_end.python_debugger
    for magic in ("tilecheck", "tiledebug", "tileir", "tilekernel", "tilestep", "tiletune"):
        ipython_api.forget_magic(shell, magic)
    for magic in ("tiledebug", "tilekernel", "tileir", "tilelayout"):
        ipython_api.forget_completion(shell, magic)
    ipython_api.forget_completion(shell, "tiletune")
    ipython_api.show_errors_in_full()
    displays.unregister(shell.display_formatter)
