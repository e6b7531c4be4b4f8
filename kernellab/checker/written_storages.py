"""Which memory of a launch its kernel may write, known before it runs."""

from __future__ import annotations

import weakref

from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedRun
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, Arguments, memory_effects
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import tt
from kernellab.launch.argument_copies import ALIGNMENT


def storages_of(run: CheckedRun, arguments: Arguments) -> frozenset[str | int]:
    """Those that arguments lie in, see `CheckedRun.storage_of`."""
    names = argument_names(run.call, run.code)
    numbers = range(len(names)) if arguments is EVERYTHING else arguments
    lying = [run.tensors[names[one]] for one in numbers if names[one] in run.tensors]
    return frozenset(map(run.storage_of, lying))


def unchanged_storages(launch: CheckedRun) -> frozenset[int]:
    """The addresses of storages that the kernel cannot write. Where it shows how arguments are
    aligned, those that begin as memory of a GPU does.
    """
    effects = memory_effects(launch.code)
    if effects.stored is EVERYTHING or effects.updated is EVERYTHING:
        return frozenset()
    written = storages_of(launch, effects.stored | effects.updated)
    starts = {
        one.untyped_storage().data_ptr()
        for one in launch.tensors.values()
        if launch.storage_of(one) not in written
    }
    if _shows_addresses(launch.code):
        starts = {start for start in starts if start % ALIGNMENT == 0}
    return frozenset(starts)


_kept: weakref.WeakKeyDictionary[ProgramCode, bool] = weakref.WeakKeyDictionary()


def _shows_addresses(code: ProgramCode) -> bool:
    """Whether something that a check tells, or the kernel computes, depends on where arguments
    begin.
    """
    if code not in _kept:
        _kept[code] = any(map(_shows_address, code.module.walk()))
    return _kept[code]


def _shows_address(op: Operation) -> bool:
    return isinstance(op, tt.PtrToIntOp | tt.MakeTensorDescOp) or any(
        "divisibility" in name for name in op.attributes
    )
