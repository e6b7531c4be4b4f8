"""What the addresses and masks of a kernel's accesses are computed from, and which memory it may
write. Nothing here runs the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.checked_run import CheckedRun
from kernellab.interpreter.codegen.access_forms import function_of
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.program import (
    EVERYTHING,
    Arguments,
    ProgramCode,
    memory_effects,
    per_code,
)
from kernellab.ir import flow, tt
from kernellab.ir.operations import (
    GlobalAccess,
    has,
    trait_of,
)
from kernellab.ir.types import dtype
from kernellab.launch.argument_copies import ALIGNMENT

# What the addresses and masks of a kernel's accesses are computed from.


def placing(op: Operation) -> list[SSAValue]:
    """The operands that say where an operation accesses memory: pointers, or indices of
    a descriptor, then a mask if there is one.
    """
    access = trait_of(op, GlobalAccess)
    if access is None:
        return []
    mask = access.mask_of(op)
    return [*access.indices_of(op), *([] if mask is None else [mask])]


def mask_of(op: Operation) -> SSAValue | None:
    """The mask of an access, where it has one."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.mask_of(op)


def makes_addresses(op: Operation) -> bool:
    """Whether an address or a mask is computed from a result of `op`."""
    values = _behind_accesses(function_of(op))
    return any(result in values for result in op.results)


def stored_value(op: Operation) -> SSAValue | None:
    """What an operation writes to global memory, where it does."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.value_of(op)


def stored_integers(op: Operation) -> SSAValue | None:
    """The integers that an operation writes to global memory, where it does."""
    stored = stored_value(op)
    return stored if stored is not None and dtype(stored.type).kind == "i" else None


@lru_cache(maxsize=32)
def _behind_accesses(function: Operation) -> frozenset[SSAValue]:
    """What addresses and masks are computed from; where some of that was loaded, also what
    integers in memory are computed from.
    """
    operations = list(function.walk())
    placed = [value for op in operations for value in placing(op)]
    values = behind(placed)
    stored = [value for op in operations if (value := stored_integers(op)) is not None]
    return behind([*placed, *stored]) if stored and any(map(was_loaded, values)) else values


def behind(values: Iterable[SSAValue]) -> frozenset[SSAValue]:
    """`values` and what they are computed from, back to arguments and to what was loaded."""
    return frozenset(flow.backward(values, was_loaded))


def was_loaded(value: SSAValue) -> bool:
    """Whether a value comes out of global memory."""
    return isinstance(value, OpResult) and has(value.op, GlobalAccess)


# Find the memory that a kernel may write, before it runs.


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
