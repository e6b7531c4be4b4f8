"""What each access to global memory moves, derived before a launch or counted in a run of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy
from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.modules.layout_flow import leaving
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.compiler.modules.pointers import element_bytes, pointers_of, underlying_argument
from kernellab.compiler.modules.structure import integer, kind, loops_around, position_of
from kernellab.compiler.modules.warp_accesses import NO_ONE, WarpAccess, WarpAccesses
from kernellab.errors import LayoutError, SourcePosition
from kernellab.ir.operations import (
    DescriptorAccess,
    PointerAccess,
    SharedWrite,
    global_effect,
    has,
    touches_memory,
    trait_of,
)
from kernellab.ir.operations import (
    GlobalAccess as GlobalAccessTrait,
)
from kernellab.ir.types import TensorDescType, bit_width, element_type, shape
from kernellab.profiling.accesses.occurrences import occurrences
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.diagnosis.makers import made_of, reached
from kernellab.profiling.diagnosis.scalars import Scalars, Steps

SECTOR, LINE = 32, 128
_FAR = 1 << 16
"""Elements between neighbors where no one knows the stride."""


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
    """Along which neighboring lanes or a thread's elements lie."""
    steps: Steps | None = None
    """Elements from neighbor to neighbor, by dimension."""
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
    """The accesses of a module, in its order; those without a known layout are left out."""
    warps = WarpAccesses(module, opened.layouts_of, opened.compilation.target)
    numbers = occurrences(module) if counts is not None else {}
    counted = {
        (access.operation, access.occurrence): access
        for access in counts or ()
        if access.occurrence
    }
    accesses = []
    for op in module.walk():
        access = _one(op, warps, scalars, times_of(op))
        if access is None:
            continue
        is_whole = counts is not None and prod(counts.grid) == programs
        seen = counted.get((kind(op), numbers.get(op, 0)))
        if seen is not None and seen.executions:
            each = seen.executions
            access = replace(
                access,
                times=each / max(prod(counts.grid) if counts is not None else programs, 1),
                requests=seen.requests / each,
                sectors=seen.sectors / each,
                lines=seen.lines / each,
                best_sectors=seen.best_sectors / each,
                bytes=seen.useful_bytes / each,
                repeats=max(seen.reuse_between_programs, 1.0) if is_whole else 1.0,
                repeated_sectors=seen.repeated_sectors / each,
                steps=_elements(seen.steps, access),
                is_counted=True,
            )
        accesses.append(access)
    return accesses


def _elements(steps: tuple[int | None, ...] | None, access: Traffic) -> Steps | None:
    """Steps in bytes as steps in elements."""
    if steps is None:
        return None
    return tuple(None if step is None else step // access.element_bytes for step in steps)


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
    """The dimension along which a thread's vector lies, or else the neighboring lanes."""
    if taken.width > 1 or taken.dimension is None or not len(taken.first):
        return taken.dimension
    lanes = taken.first[0]
    others = lanes[(lanes != lanes[0]) & (lanes != NO_ONE)]
    if not len(others) or lanes[0] == NO_ONE:
        return taken.dimension
    here, there = (numpy.unravel_index(int(place), sizes) for place in (lanes[0], others[0]))
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
    first, on = taken.first, taken.first != NO_ONE
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
    distinct: numpy.ndarray = numpy.maximum(changes - (~on).any(axis=1), on.any(axis=1))
    return distinct


def _by_engine(op: Operation, times: float) -> Traffic:
    type = op.operands[0].type
    block = type.block if isinstance(type, TensorDescType) else type
    size = max(bit_width(element_type(block)) // 8, 1)
    return replace(_common(op, times, shape(block), size, ""), by_engine=True)


def _by_offsets(op: Operation, access: PointerAccess, times: float) -> Traffic:
    """AMD's buffer operations: taken for well ordered, because their lanes are not known here."""
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
                base, offset = (self.number(operand, depth) for operand in op.operands)
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
    origins = [_Origins(arguments, grid, program) for program in _sample(grid)]
    return [
        access
        if access.is_counted
        or not has(access.op, GlobalAccessTrait, PointerAccess)
        or access.by_engine
        else replace(access, repeats=_repeats(access, origins, grid))
        for access in accesses
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


def _repeats(access: Traffic, origins: list[_Origins], grid: tuple[int, int, int]) -> float:
    pointers = pointers_of(access.op)
    axes = _axes(pointers)
    if axes is None:
        return 1.0
    free = float(prod(size for axis, size in enumerate(grid) if axis not in axes))
    starts = [each.number(pointers) for each in origins]
    if None in starts:
        return free
    different = len(set(starts))
    if prod(grid) > len(starts) and different > len(starts) / 2:
        return free  # too many different starts to count how often each occurs
    return max(free, prod(grid) / different)


def _axes(value: SSAValue) -> set[int] | None:
    """The axes of the grid whose program id an address depends on; None where a loaded value is
    among what it is made of.
    """
    axes: set[int] = set()
    for each in reached([value], _with_results_of_loops):
        if not isinstance(each, OpResult):
            continue
        if kind(each.op) == "tt.get_program_id":
            axes.add(integer(each.op, "axis") or 0)
        if global_effect(each.op) is not None:
            return None
    return axes


def _with_results_of_loops(value: SSAValue) -> list[SSAValue]:
    """What a value is made of, the bounds of loops and what leaves them included."""
    if isinstance(value, OpResult):
        return [*made_of(value), *leaving(value)]
    loop = value.block.parent_op() if isinstance(value, BlockArgument) else None
    is_for = loop is not None and kind(loop) == "scf.for"
    return [*made_of(value), *(loop.operands[:3] if loop is not None and is_for else ())]


def is_fixed(op: Operation, loop: Operation) -> bool:
    """Whether an access of a loop goes to the same elements in each iteration."""
    access = trait_of(op, GlobalAccessTrait)
    if access is None:
        return False
    mask = access.mask_of(op)

    def before(value: SSAValue) -> Iterable[SSAValue]:
        is_inside = isinstance(value, OpResult) and loop in loops_around(value.op)
        return made_of(value) if is_inside else ()

    values = [*access.indices_of(op), *([] if mask is None else [mask])]
    return not any(_changes(value, loop) for value in reached(values, before))


def _changes(value: SSAValue, loop: Operation) -> bool:
    """Whether a value may be another one in each iteration, apart from what it is made of."""
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        return parent is not None and loop in (parent, *loops_around(parent))
    if not isinstance(value, OpResult) or loop not in loops_around(value.op):
        return False
    return global_effect(value.op) is not None or touches_memory(value.op)
