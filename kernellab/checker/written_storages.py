"""Find the memory that a kernel may write, before it runs."""

from __future__ import annotations

from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedRun
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, Arguments, memory_effects
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import tt
from kernellab.launch.argument_copies import ALIGNMENT


def storages_of(run: CheckedRun, arguments: Arguments) -> frozenset[str | int]:
    """Return the storages of arguments (see `CheckedRun.storage_of`)."""
    names = argument_names(run.call, run.code)
    numbers = range(len(names)) if arguments is EVERYTHING else arguments
    tensors = [run.tensors[names[n]] for n in numbers if names[n] in run.tensors]
    return frozenset(map(run.storage_of, tensors))


def unchanged_storages(launch: CheckedRun) -> frozenset[int]:
    """Return the addresses of storages that the kernel cannot write. If results may depend on
    addresses, only storages that are aligned as memory of a GPU is.
    """
    effects = memory_effects(launch.code)
    if effects.stored is EVERYTHING or effects.updated is EVERYTHING:
        return frozenset()
    written = storages_of(launch, effects.stored | effects.updated)
    starts = {
        tensor.untyped_storage().data_ptr()
        for tensor in launch.tensors.values()
        if launch.storage_of(tensor) not in written
    }
    if _shows_addresses(launch.code):
        starts = {start for start in starts if start % ALIGNMENT == 0}
    return frozenset(starts)


@per_code
def _shows_addresses(code: ProgramCode) -> bool:
    """Return whether a finding or a result may depend on the addresses of arguments."""
    return any(map(_shows_address, code.module.walk()))


def _shows_address(op: Operation) -> bool:
    return isinstance(op, tt.PtrToIntOp | tt.MakeTensorDescOp) or any(
        "divisibility" in name for name in op.attributes
    )
