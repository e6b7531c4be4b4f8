"""What each access to global memory moves, told before a launch, or counted in a run of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy
from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.modules.layout_flow import entering, leaving
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.compiler.modules.pointers import element_bytes, pointers_of, underlying_argument
from kernellab.compiler.modules.structure import integer, kind, loops_around, position_of
from kernellab.compiler.modules.warp_accesses import NOBODY, WarpAccess, WarpAccesses
from kernellab.errors import LayoutError, SourcePosition
from kernellab.ir.traits import (
    DescriptorAccess,
    PointerAccess,
    SharedWrite,
    global_effect,
    has,
    touches_memory,
    trait_of,
)
from kernellab.ir.traits import (
    GlobalAccess as GlobalAccessTrait,
)
from kernellab.ir.types import TensorDescType, bit_width, element_type, shape
from kernellab.profiling.accesses.occurrences import occurrences
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.diagnosis.scalars import Scalars, Steps

SECTOR, LINE = 32, 128
_FAR = 1 << 16
"""Elements between neighbours where nobody knows the stride."""


@dataclass(frozen=True)
class Traffic:
    """One operation of the TTGIR that accesses global memory; numbers are of one execution by one
    program, unless they say otherwise.
    """

    op: Operation
    action: str
    argument: str
    position: SourcePosition | None
    shape: tuple[int, ...]
    element_bytes: int
    times: float
    """How often a program executes it."""
    loop: Operation | None
    """The innermost loop around it."""
    requests: float
    sectors: float
    lines: float
    best_sectors: float
    bytes: float
    """Of its elements, each once."""
    width: int = 1
    """Elements that a thread takes at once."""
    held: int = 1
    """Elements that it holds side by side."""
    dimension: int | None = None
    """Along which neighbouring lanes or a thread's elements lie."""
    steps: Steps | None = None
    """Elements from neighbour to neighbour, by dimension."""
    repeats: float = 1.0
    """How many programs access the same, on average, as far as that can be seen."""
    repeated_sectors: float = 0.0
    """Of the sectors, those that lanes of an atomic move in turns."""
    by_engine: bool = False
    """Whether the copy engine (TMA) moves it."""
    different: float = 0.0
    """Of the sectors, the different ones of one execution; 0 where that is not known."""
    is_counted: bool = False
    """Whether the numbers are of a run."""

    @property
    def reads(self) -> bool:
        """Whether it reads memory, and no more."""
        return global_effect(self.op) == "load"

    @property
    def fetched(self) -> float:
        """Sectors that do not come from the SM's own cache, which keeps those of one tile."""
        return (
            min(self.sectors, max(self.different, self.best_sectors))
            if self.different
            else (self.sectors)
        )

    @property
    def is_dense(self) -> bool:
        """Whether what lanes lie along is contiguous in memory, however little they take at once:
        then the caches have what the next request asks for.
        """
        along = self.dimension
        return along is not None and self.steps is not None and self.steps[along] == 1

    @property
    def is_atomic(self) -> bool:
        """Whether it updates memory."""
        return global_effect(self.op) == "atomic"

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        if self.is_counted:
            return "counted in a run on the interpreter"
        return "worked out from the TTGIR's layouts and what is known of the arguments"


TimesOf = Callable[[Operation], float]


def traffic_of(
    opened: OpenedModules,
    module: builtin.ModuleOp,
    scalars: Scalars,
    times_of: TimesOf,
    counts: Accesses | None,
    programs: int,
) -> list[Traffic]:
    """The accesses of a module, in its order; those whose layout nobody tells are left out."""
    warps = WarpAccesses(module, opened.layouts_of, opened.compilation.target)
    numbers = occurrences(module) if counts is not None else {}
    counted = {(one.operation, one.occurrence): one for one in counts or () if one.occurrence}
    found = []
    for op in module.walk():
        one = _one(op, warps, scalars, times_of(op))
        if one is None:
            continue
        is_whole = counts is not None and prod(counts.grid) == programs
        seen = counted.get((kind(op), numbers.get(op, 0)))
        if seen is not None and seen.executions:
            each = seen.executions
            one = replace(
                one,
                times=each / max(prod(counts.grid) if counts is not None else programs, 1),
                requests=seen.requests / each,
                sectors=seen.sectors / each,
                lines=seen.lines / each,
                best_sectors=seen.best_sectors / each,
                bytes=seen.useful_bytes / each,
                repeats=max(seen.reuse_between_programs, 1.0) if is_whole else 1.0,
                repeated_sectors=seen.repeated_sectors / each,
                steps=_elements(seen.steps, one),
                is_counted=True,
            )
        found.append(one)
    return found


def _elements(steps: tuple[int | None, ...] | None, one: Traffic) -> Steps | None:
    """Steps in bytes as steps in elements."""
    if steps is None:
        return None
    return tuple(None if step is None else step // one.element_bytes for step in steps)


def _one(op: Operation, warps: WarpAccesses, scalars: Scalars, times: float) -> Traffic | None:
    if has(op, DescriptorAccess):
        return _by_engine(op, times)
    access = trait_of(op, PointerAccess)
    if access is None:
        return None
    if access.has_offsets:
        return _by_offsets(op, access, times)
    try:
        taken = warps[op]
    except (LayoutError, AssertionError, KeyError, ValueError):
        return None
    pointers = pointers_of(op)
    sizes = shape(pointers.type)
    steps = scalars.steps(pointers)
    requests, sectors, lines, best, different = _cost(taken, sizes, steps)
    common = _common(op, times, sizes, taken.size, underlying_argument(pointers))
    return replace(
        common,
        requests=requests,
        sectors=sectors,
        lines=lines,
        best_sectors=best,
        width=taken.width,
        held=taken.held,
        dimension=_along(taken, sizes),
        steps=steps,
        different=different,
    )


def _along(taken: WarpAccess, sizes: tuple[int, ...]) -> int | None:
    """The dimension along which a thread's vector lies, or else the neighbouring lanes."""
    if taken.width > 1 or taken.dimension is None or not len(taken.first):
        return taken.dimension
    lanes = taken.first[0]
    others = lanes[(lanes != lanes[0]) & (lanes != NOBODY)]
    if not len(others) or lanes[0] == NOBODY:
        return taken.dimension
    here, there = (numpy.unravel_index(int(one), sizes) for one in (lanes[0], others[0]))
    return next((at for at, (a, b) in enumerate(zip(here, there)) if a != b), taken.dimension)


def _common(
    op: Operation, times: float, sizes: tuple[int, ...], size: int, argument: str
) -> Traffic:
    action = "async copy" if has(op, SharedWrite) else global_effect(op) or "access"
    moved = prod(sizes) * size
    sectors = max(moved / SECTOR, 1)
    around = loops_around(op)
    return Traffic(
        op, action, argument, position_of(op), sizes, size, times, around[0] if around else None,
        max(moved / 512, 1), sectors, max(moved / LINE, 1), sectors, moved,
    )  # fmt: skip


def _cost(
    taken: WarpAccess, sizes: tuple[int, ...], steps: Steps
) -> tuple[float, float, float, float, float]:
    """Requests, sectors, lines, and sectors that would do, of all warps' instructions; and the
    different sectors of all together.
    """
    first, on = taken.first, taken.first != NOBODY
    places = numpy.zeros(first.shape, numpy.int64)
    if sizes:
        coordinates = numpy.unravel_index(numpy.where(on, first, 0), sizes)
        for along, step in zip(coordinates, steps, strict=True):
            places += along.astype(numpy.int64) * (_FAR if step is None else step)
    address = places * taken.size
    span = max(taken.width * taken.size, 1)
    sectors = _distinct(address // SECTOR, on)
    lines = _distinct(address // LINE, on)
    elements = _distinct(places // max(taken.width, 1), on)
    best = numpy.ceil(elements * span / SECTOR)
    different = len(numpy.unique((address // SECTOR)[on]))
    counted = (len(first), sectors.sum(), lines.sum(), best.sum(), different)
    requests, *rest = map(float, counted)
    return requests, rest[0], rest[1], rest[2], rest[3]


def _distinct(numbers: numpy.ndarray, on: numpy.ndarray) -> numpy.ndarray:
    """How many different numbers each row has, of the lanes that are on."""
    ordered = numpy.sort(numpy.where(on, numbers, numpy.iinfo(numpy.int64).max), axis=1)
    changes = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) + 1
    found: numpy.ndarray = numpy.maximum(changes - (~on).any(axis=1), on.any(axis=1))
    return found


def _by_engine(op: Operation, times: float) -> Traffic:
    type = op.operands[0].type
    block = type.block if isinstance(type, TensorDescType) else type
    size = max(bit_width(element_type(block)) // 8, 1)
    return replace(_common(op, times, shape(block), size, ""), by_engine=True)


def _by_offsets(op: Operation, access: PointerAccess, times: float) -> Traffic:
    """AMD's buffer operations: taken for well ordered, since nobody asks for their lanes yet."""
    pointer = pointers_of(op)
    tile = access.indices_of(op)[-1]
    return _common(
        op, times, shape(tile.type), element_bytes(pointer), underlying_argument(pointer)
    )


# What programs share

_SAMPLES = 64


class _Origins(Scalars):
    """The first elements of tiles in one program."""

    def __init__(
        self,
        arguments: Mapping[str, int],
        grid: tuple[int, int, int],
        program: tuple[int, int, int],
    ) -> None:
        super().__init__(arguments, grid)
        self._program = program

    def _number(self, value: SSAValue, depth: int) -> int | None:
        if isinstance(value, OpResult):
            op = value.op
            if kind(op) == "tt.make_range":
                return integer(op, "start") or 0
            if kind(op) == "tt.get_program_id":
                return self._program[integer(op, "axis") or 0]
            if kind(op) == "tt.addptr":
                base, offset = (self.number(one, depth) for one in op.operands)
                return None if base is None or offset is None else base + offset
        elif isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            is_pointer = "tt.ptr" in str(value.type)
            if is_pointer and (parent is None or kind(parent) == "tt.func"):
                return 0
            if parent is not None and kind(parent) == "scf.for" and value.index == 0:
                return self.number(parent.operands[0], depth)
        return super()._number(value, depth)


def with_repeats(
    accesses: list[Traffic], arguments: Mapping[str, int], grid: tuple[int, int, int] | None
) -> list[Traffic]:
    """Each access with how many programs start at the same element, of a sample of programs."""
    if grid is None or prod(grid) < 2:
        return accesses
    origins = [_Origins(arguments, grid, one) for one in _sample(grid)]
    return [
        one
        if one.is_counted or not has(one.op, GlobalAccessTrait, PointerAccess) or one.by_engine
        else replace(one, repeats=_repeats(one, origins, grid))
        for one in accesses
    ]


def _sample(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """All programs of a small grid; of a large one some, without a pattern, the same each time."""
    total = prod(grid)
    chosen = random.Random(0).sample(range(total), min(total, _SAMPLES))
    for linear in chosen:
        yield (
            linear % grid[0],
            linear // grid[0] % grid[1],
            linear // (grid[0] * grid[1]),
        )


def _repeats(one: Traffic, origins: list[_Origins], grid: tuple[int, int, int]) -> float:
    pointers = pointers_of(one.op)
    axes = _axes(pointers)
    if axes is None:
        return 1.0
    free = float(prod(size for axis, size in enumerate(grid) if axis not in axes))
    starts = [each.number(pointers) for each in origins]
    if None in starts:
        return free
    different = len(set(starts))
    if prod(grid) > len(starts) and different > len(starts) / 2:
        return free  # too many different ones to tell how often each comes
    return max(free, prod(grid) / different)


def _axes(value: SSAValue) -> set[int] | None:
    """The axes of the grid whose program id an address depends on; None where a loaded value is
    among what it is made of.
    """
    found: set[int] = set()
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        if isinstance(one, BlockArgument):
            before = entering(one)
            parent = one.block.parent_op()
            if parent is not None and kind(parent) == "scf.for":
                before = [*before, *parent.operands[:3]]
        elif isinstance(one, OpResult):
            if kind(one.op) == "tt.get_program_id":
                found.add(integer(one.op, "axis") or 0)
            if global_effect(one.op) is not None:
                return None
            before = [*one.op.operands, *leaving(one)]
        else:
            before = []
        for each in before:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return found


def is_fixed(op: Operation, loop: Operation) -> bool:
    """Whether an access of a loop goes to the same elements in each iteration."""
    access = trait_of(op, GlobalAccessTrait)
    if access is None:
        return False
    mask = access.mask_of(op)
    waiting: list[SSAValue] = [*access.indices_of(op), *([] if mask is None else [mask])]
    seen = set(waiting)
    while waiting:
        one = waiting.pop()
        before: tuple[SSAValue, ...] = ()
        if isinstance(one, BlockArgument):
            parent = one.block.parent_op()
            if parent is loop or (parent is not None and loop in loops_around(parent)):
                return False
        elif isinstance(one, OpResult) and loop in loops_around(one.op):
            if global_effect(one.op) or touches_memory(one.op):
                return False
            before = (*one.op.operands,)
        for each in before:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return True
