"""A few programs of a launch, run on the interpreter: what their accesses cost, and how often they
come to each part of the TTGIR. The arguments stay as they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.ir import Block, Operation

from kernellab.common.sparse import sparse_zeros
from kernellab.compiler.modules.pointers import pointers_of, underlying_argument
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.interpreter import numerics
from kernellab.interpreter.execution.launcher import launch_sampled
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory.global_memory import Memory
from kernellab.interpreter.memory.observers import AccessObserver
from kernellab.ir.operations import GlobalAccess as AccessesGlobal
from kernellab.ir.operations import GlobalWrite, PointerAccess, has
from kernellab.launch.argument_copies import (
    ALIGNMENT,
    aligned_copy,
    aligned_part,
    copied,
    tensors_in,
    with_tensors,
)
from kernellab.profiling.accesses.counting import Counting, Found
from kernellab.profiling.accesses.occurrences import occurrences
from kernellab.profiling.accesses.records import GlobalAccess

_FEW = 4
"""Programs that run at the least, where there are so many."""
_MANY = 48
"""Programs that run at the most."""
_SMALL = 1 << 22
"""Bytes up to which memory that is written is copied; more begins with zeros."""


@dataclass(frozen=True)
class Sample:
    """What some programs of a launch did, on average.

    Attributes:
        programs: how many ran.
        accesses: to global memory, all that ran together, by their operations.
        fresh: of each access, the part of its different sectors that none before it goes to.
        entries: how often a program entered each block.
    """

    programs: int
    accesses: Mapping[Operation, GlobalAccess]
    fresh: Mapping[Operation, float]
    entries: Mapping[Block, float]


def sampled(
    kernel: Any,
    grid: tuple[int, int, int],
    call: BoundCall,
    code: ProgramCode,
    accesses: Found,
    seconds: float,
) -> Sample:
    """Run programs from all over a grid, a few at the least, and more for as long as `seconds` say.

    Raises:
        KernelFault: as `kernellab.run`.
    """
    counting = Counting(accesses, occurrences(code.module), in_turns=code.watched is not None)
    observer = _Observer(counting.see)
    own = replace(call, values=_working_copies(call.values, code.module))
    order = _spread(grid)
    started, ran = time.monotonic(), 0
    while ran < len(order):
        several = order[ran : ran + (_FEW if code.watched is None else 1)]
        launch_sampled(kernel, grid, own, code, observer, several)
        ran += len(several)
        if time.monotonic() - started > seconds * ran / (ran + _FEW):
            break
    counting.end_batch()
    result = counting.result(kernel.__name__, "", grid, ())
    return Sample(
        ran,
        dict(zip(accesses, result.accesses, strict=True)),
        counting.fresh(),
        {block: times / ran for block, times in observer.entries.items()},
    )


def _spread(grid: tuple[int, int, int]) -> Sequence[int]:
    """Programs from all over the grid, by their linear ids: along each axis evenly, whatever the
    number of them, no axis in step with another (Roberts, "The Unreasonable Effectiveness of
    Quasirandom Sequences", 2018), and each program with the one opposite.
    """
    total = math.prod(grid)
    if total <= _MANY:
        return range(total)
    axes = [axis for axis, size in enumerate(grid) if size > 1]
    root = _GENERALIZED_GOLDEN[len(axes)]
    programs: dict[int, None] = {}
    for at in range(_MANY // 2):
        place = [0, 0, 0]
        for number, axis in enumerate(axes, 1):
            place[axis] = int((0.3 + at / root**number) % 1 * grid[axis])
        opposite = [size - 1 - at for at, size in zip(place, grid)]
        for x, y, z in (place, opposite):
            programs[x + grid[0] * (y + grid[1] * z)] = None
    return list(programs)


_GENERALIZED_GOLDEN = {1: 1.618033988749895, 2: 1.324717957244746, 3: 1.2207440846057596}
"""The positive root of x**(d + 1) = x + 1."""


class _Observer(AccessObserver):
    """Also leaves products of matrices out: they take most of the time, and no address, mask or
    length of a loop comes from one.
    """

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """As `RunObserver.modules`."""
        return {**super().modules(memory), "products": _LEFT_OUT}


def _no_product(a: Any, b: Any, c: Any, *how: Any) -> Any:
    """Zeros in the place of a @ b + c."""
    del how
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    return numpy.zeros((*lead, *c.shape[-2:]), c.dtype)


_LEFT_OUT = SimpleNamespace(
    **{**vars(numerics), "dot": _no_product},
)


# Memory


def _working_copies(values: Mapping[str, Any], module: builtin.ModuleOp) -> dict[str, Any]:
    """The arguments, with separate memory for what the kernel may write."""
    written = _written(module)
    storages = {
        tensor.untyped_storage().data_ptr()
        for name, tensor in tensors_in(values)
        if written is None or name.partition("[")[0] in written
    }

    def working(storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.data_ptr() not in storages:
            return storage
        return aligned_copy(storage) if storage.nbytes() <= _SMALL else _blank(storage.nbytes())

    return copied(values, working)


def with_memory(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with zeros on the CPU in the place of tensors without values, of torch's "meta"
    device, and of those on a GPU; they take memory only where something is written.
    """
    return {name: with_tensors(value, _with_memory) for name, value in values.items()}


def _with_memory(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "cpu":
        return tensor
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    storage = _blank(max(last + 1, 0) * tensor.element_size())
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(storage, 0, tensor.shape, tensor.stride())


def _written(module: builtin.ModuleOp) -> set[str] | None:
    """The parameters that a kernel writes through; None where that is not known."""
    names: set[str] = set()
    for op in module.walk():
        if not has(op, AccessesGlobal) or not has(op, GlobalWrite):
            continue
        name = underlying_argument(pointers_of(op)) if has(op, PointerAccess) else ""
        if not name:
            return None
        names.add(name.partition("[")[0])
    return names


def _blank(size: int) -> torch.UntypedStorage:
    """Memory of zeros, which is allocated only where something is written."""
    zeros = aligned_part(sparse_zeros(size + ALIGNMENT, "uint8"), size)
    return torch.from_numpy(zeros).untyped_storage()
