"""The notebook's door: loading the extension, and one file per magic."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.magic import Magics

    from kernellab.magics.options import Options


class _Magic(NamedTuple):
    """One magic: what IPython registers, and the options of its line."""

    magics: type[Magics]
    options: Options

    @property
    def sigil(self) -> str:
        """ "%%" for a cell magic, "%" for a line magic."""
        return self.options.magic[: self.options.magic.rindex("%") + 1]

    @property
    def name(self) -> str:
        """What stands behind the sigil."""
        return self.options.magic.removeprefix(self.sigil)


def _all_magics() -> tuple[_Magic, ...]:
    from kernellab.magics import (
        tilecheck,
        tiledebug,
        tilediagnose,
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
        _Magic(tilekernel.TileKernelMagics, tilekernel.OPTIONS),
        _Magic(tilecheck.TileCheckMagics, tilecheck.OPTIONS),
        _Magic(tiledebug.TileDebugMagics, tiledebug.OPTIONS),
        _Magic(tilediagnose.TileDiagnoseMagics, tilediagnose.OPTIONS),
        _Magic(tileexercise.TileExerciseMagics, tileexercise.OPTIONS),
        _Magic(tilegraph.TileGraphMagics, tilegraph.OPTIONS),
        _Magic(tileir.TileIrMagics, tileir.OPTIONS),
        _Magic(tilelayout.TileLayoutMagics, tilelayout.OPTIONS),
        _Magic(tileprofile.TileProfileMagics, tileprofile.LINE_OPTIONS),
        _Magic(tileprofile.TileProfileMagics, tileprofile.CELL_OPTIONS),
        _Magic(tilestep.TileStepMagics, tilestep.OPTIONS),
        _Magic(tiletune.TileTuneMagics, tiletune.OPTIONS),
    )


def _advice_on(error: BaseException) -> str:
    from kernellab.magics.first_errors import advice_on

    return advice_on(error)


def load(shell: InteractiveShell) -> None:
    """Register the magics and their completion; loading twice is loading once."""
    from kernellab.debugger import front_end
    from kernellab.magics import ipython_api, without_gpu

    for one in _all_magics():
        shell.register_magics(one.magics)
        ipython_api.complete_options(shell, one.name, one.options.words, one.sigil)
    front_end.current_debugger = functools.partial(ipython_api.debugger_class, shell)
    ipython_api.show_errors_briefly(shell)
    ipython_api.advise_below_errors(shell, _advice_on)
    ipython_api.tell_of_cells(shell, without_gpu.stand_in_for_gpu)


def unload(shell: InteractiveShell) -> None:
    """Take back all that `load` did."""
    from kernellab.debugger import front_end
    from kernellab.magics import ipython_api, without_gpu

    front_end.current_debugger = front_end.python_debugger
    for one in _all_magics():
        ipython_api.forget_magic(shell, one.name)
        ipython_api.forget_completion(shell, one.name)
    ipython_api.show_errors_in_full()
    ipython_api.forget_advice(shell)
    ipython_api.tell_of_no_cells(shell)
    without_gpu.leave_gpu_alone()
