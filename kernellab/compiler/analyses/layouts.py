"""The tiles of a module and their layouts, by Triton's answers, and warps' accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler import modules
from kernellab.compiler.analyses.axis_info import blocked_run, power_of_two_up_to, vector_widths
from kernellab.compiler.analyses.records import Layouts, TileLayout
from kernellab.errors import ArgumentError, LayoutError, nearest, suggestion
from kernellab.ir import flow, mlir, tt, ttg, ttng
from kernellab.ir.operations import Atomic, DotLike, PointerAccess, has, locate, touches_memory
from kernellab.ir.types import MemDescType, element_type
from kernellab.records import PassRun, Target
from kernellab.records.layouts import Layout, Numbers, RegisterLayout, SharedLayout
from kernellab.triton_api.layouts import TileType

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation


# How layouts travel through a module: which values hand theirs on to which, and which operations
# settle one.

_FREE = (mlir.ConstantOp, tt.MakeRangeOp, tt.SplatOp, tt.ExpandDimsOp, tt.BroadcastOp)
"""Operations that make any layout alike, or follow from another."""
_REARRANGING = (tt.ReduceOp, tt.ScanOp, tt.GatherOp, tt.HistogramOp, tt.ReshapeOp)
"""Operations that bring elements to other places."""
_VIEWS = (ttg.MemDescView, ttg.MemDescIndexOp)
"""Operations that make another view of the same bytes."""


@cache
def tile_type(type: Attribute) -> TileType | None:
    """A type as a question for Triton; None for one without a layout."""
    if isinstance(type, MemDescType):
        whole = MemDescType(
            type.allocation,
            type.element_type,
            type.encoding,
            type.memory_space,
            builtin.IntAttr(0),
            type.allocation,
        )
        return TileType(str(whole), str(type.encoding), type.allocated_shape)
    if isinstance(type, builtin.TensorType) and not isinstance(type.encoding, builtin.NoneAttr):
        return TileType(str(type), str(type.encoding), type.get_shape())
    return None


class Flow:
    """The tiles of a module, and which hands its layout on to which."""

    def __init__(self, module: Operation) -> None:
        self._sources: dict[SSAValue, Sequence[SSAValue]] = {}
        """Backwards, and not through operations that would take any layout."""
        self._heirs: dict[SSAValue, list[SSAValue]] = {}
        for value in _tiles(module):
            sources = _sources(value)
            if not (isinstance(value.owner, _FREE)):
                self._sources[value] = sources
            for source in sources:
                self._heirs.setdefault(source, []).append(value)

    def makers(self, value: SSAValue) -> list[Operation]:
        """The operations behind a value's layout; free ones only if nothing else decides it."""
        reached = flow.reached([value], lambda value: self._sources.get(value, ()))
        ends = [end for end in reached if not self._sources.get(end)]
        made = [end.op for end in ends if isinstance(end, OpResult)]
        return [op for op in made if not isinstance(op, _FREE)] or made

    def users(self, value: SSAValue) -> list[Operation]:
        """The operations that need a value's layout, forwards."""
        return [
            use.operation
            for reached in flow.reached([value], lambda value: self._heirs.get(value, ()))
            for use in reached.uses
            if not isinstance(use.operation, flow.CONTROL)
            and not set(use.operation.results).intersection(self._heirs.get(reached, ()))
        ]


def _tiles(module: Operation) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from (result for result in op.results if tile_type(result.type))
    for block in modules.blocks_of(module):
        yield from (argument for argument in block.args if tile_type(argument.type))


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """The values whose layout a value has because it is handed on to it."""
    if handed := flow.sources(value):
        return handed
    if not isinstance(value, OpResult) or not flow.computes(value.op):
        return ()
    op = value.op
    if isinstance(value.type, MemDescType):
        return [op.operands[0]] if isinstance(op, _VIEWS) else ()
    if isinstance(op, tt.ExpandDimsOp):  # its operand has a slice of its layout
        return op.operands
    if touches_memory(op) or has(op, DotLike) or isinstance(op, _REARRANGING):
        return ()
    return [operand for operand in op.operands if _same_encoding(operand.type, value.type)]


def _same_encoding(left: Attribute, right: Attribute) -> bool:
    mine, theirs = tile_type(left), tile_type(right)
    return mine is not None and theirs is not None and mine.encoding == theirs.encoding


def value_name(value: SSAValue) -> str:
    """The kernel's own name for a value, or for what goes into or round a loop's variable."""
    for candidate in (value, *_handed(value)):
        if name := _own_name(candidate):
            return name
    return ""


def _handed(value: SSAValue) -> list[SSAValue]:
    """The values that were passed on as this value, also by a wait.

    The variables of a loop that a pass has made anew have the location of the whole loop: for a
    result of a loop, the values that its iterations pass on come first, then its initial values.
    """
    before = flow.sources(value)
    if isinstance(value.owner, flow.LOOPS):
        before = [source for variable in before for source in reversed(flow.sources(variable))]
    waits = [source for source in before if isinstance(source.owner, ttng.WarpGroupDotWaitOp)]
    return [*before, *(source for wait in waits for source in flow.sources(wait))]


def _own_name(value: SSAValue) -> str:
    """The name in a value's own location; operations with several results name none of them."""
    if isinstance(value, BlockArgument):
        return locate(value.location).name or ""
    assert isinstance(value, OpResult)
    return modules.name_of(value.op) if len(value.op.results) == 1 else ""


QueryLayouts = Callable[[Sequence[TileType]], Sequence[Layout | LayoutError]]
"""Returns Triton's layouts of several types, with an error for each type without a layout."""


def types_by_name(module: builtin.ModuleOp) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and element type of the last tile that has each of the kernel's names,
    in a module of TTIR.

    What an expression computes on its way has the name too;
    the value that the name gets comes last.
    """
    return {
        value_name(value): (value.type.get_shape(), str(value.type.element_type))
        for value, _, _ in _values(module)
        if isinstance(value.type, builtin.TensorType)
    }


def layouts_by_type(
    types: Iterable[Attribute], query: QueryLayouts
) -> Mapping[Attribute, Layout | LayoutError]:
    """The layout of each type that has one; each type is queried once."""
    tiles = {type: tile for type in types if (tile := tile_type(type)) is not None}
    return dict(zip(tiles, query(list(tiles.values()))))


def _values(module: builtin.ModuleOp) -> Iterator[tuple[SSAValue, Operation, int]]:
    """Every value, with the operation that makes it or has it as a region's argument, in order."""
    for op, number in modules.numbered(module).items():
        for value in (*op.results, *flow.arguments_inside(op)):
            yield value, op, number


def _tile(value: SSAValue, op: Operation, number: int, layout: Layout | LayoutError) -> TileLayout:
    tile = tile_type(value.type)
    assert tile is not None
    assert isinstance(value.type, builtin.TensorType | MemDescType)
    shape = value.type.shape if isinstance(value.type, MemDescType) else value.type.get_shape()
    return TileLayout(
        name=value_name(value),
        operation=modules.kind(op),
        number=number,
        position=modules.position_of(op),
        shape=shape,
        element=str(value.type.element_type),
        encoding=tile.encoding,
        layout=None if isinstance(layout, LayoutError) else layout,
        why_unknown=layout.problem if isinstance(layout, LayoutError) else "",
    )


def layouts_of_tiles(opened: modules.OpenedModules, snapshot: str) -> Layouts:
    compilation = opened.compilation
    values = [each for each in _values(opened.snapshot(snapshot)) if tile_type(each[0].type)]
    known = layouts_by_type((value.type for value, _, _ in values), opened.layouts_of)
    tiles = Layouts(
        tuple(_tile(value, op, number, known[value.type]) for value, op, number in values), snapshot
    )
    tile_types = builtin.TensorType | MemDescType
    first = [] if tiles.tiles else _values(opened.snapshot(opened.first_stage))
    if not tiles.tiles and not any(isinstance(value.type, tile_types) for value, _, _ in first):
        raise ArgumentError(
            f"{compilation.kernel!r} has no tiles: it computes with single numbers, which "
            "have no layout."
        )
    if not tiles.tiles:
        raise ArgumentError(
            f"The tiles of {snapshot!r} have no layouts.",
            advice="Tiles get layouts on the way to TTGIR: use 'ttgir', or a pass after "
            "'ttgir.convert_to_ttgpuir'.",
        )
    types = cache(
        lambda: types_by_name(opened.snapshot("ttir")) if "ttir" in compilation.stages else {}
    )
    return replace(
        tiles,
        explain_absence=lambda name: explain_absence(compilation, snapshot, name, tiles),
        type_in_kernel=lambda name: types().get(name),
    )


_WITHOUT_LAYOUTS = ("source", "ttir")


def explain_absence(compilation: Compilation, snapshot: str, name: str, tiles: Layouts) -> str:
    """Why a snapshot has no tile `name`: not a tile, removed by a pass, or unknown."""
    if not isinstance(name, str):
        return f"Name a tile as the kernel does: {', '.join(tiles.names)}."
    if compilation.specialization.signature.get(name) == "constexpr":
        return f"It is a constant of this compilation. The tiles are {', '.join(tiles.names)}."
    guess = nearest(name, tiles.names)
    runs = _runs_up_to(compilation, snapshot)
    if not runs:
        advice = 'A record with record="passes" can show which pass removed a name.'
        return f"{guess} {advice}".strip()
    holding = [number for number, run in enumerate(runs) if f'"{name}"(' in run.text.read()]
    if not holding:
        return suggestion(name, tiles.names, "The tiles are called")
    last = holding[-1]
    if last == len(runs) - 1:
        kind = "a number, or an operation without a result"
        return f"{name!r} is not a tile but {kind}. The tiles are {', '.join(tiles.names)}."
    gone = f"{name!r} existed until the pass {runs[last + 1].label} removed it"
    if runs[last].stage in _WITHOUT_LAYOUTS:
        return f"{gone}, before tiles have layouts."
    return f"{gone}: use .layouts({runs[last].label!r})."


def _runs_up_to(compilation: Compilation, snapshot: str) -> list[PassRun]:
    runs = [run for run in compilation.passes if run.op_counts_after]
    ends = [number for number, run in enumerate(runs) if snapshot in (run.label, run.stage)]
    return runs[: ends[-1] + 1] if ends else []


NO_ONE = -1
"""In the place of an element, for a lane that does not take part."""

_VECTOR_ATOMICS_FROM = 90
"""The compute capability with atomics of several floats: PTX has .v2, .v4, .v8 from sm_90 on."""
_FLOATS_TO_ADD = ("f16", "bf16", "f32")
_WIDEST_BITS = 128


@dataclass(frozen=True)
class WarpAccess:
    """How one operation accesses a tile.

    Attributes:
        first: for each instruction of a warp and each of its lanes the number of the first element
            that it accesses, or NO_ONE: int64 of shape (instructions, lanes). Elements are numbered
            with the last dimension fastest.
        width: elements that follow it in the same access, itself included.
        size: of an element, in bytes.
        held: neighbors along `dimension` that a thread holds, as many as one access could take.
        dimension: that of a thread's neighbors, or of neighboring lanes; None for one element.
    """

    first: Numbers
    width: int
    size: int
    held: int
    dimension: int | None


class WarpAccesses:
    """The accesses of a module by tiles of pointers or single ones, by their operations.

    Args:
        target: the GPU; what atomics take at once is said about NVIDIA's.
    """

    def __init__(self, module: builtin.ModuleOp, query: QueryLayouts, target: Target) -> None:
        self._capability = int(target.arch) if target.backend == "cuda" else 0
        self._warps = modules.integer(module, "ttg.num-warps") or 1
        self._lanes = modules.integer(module, "ttg.threads-per-warp") or 32
        types = [
            value.type for op in module.walk() if has(op, PointerAccess) for value in op.operands
        ]
        self._layouts: Mapping[Attribute, Layout | LayoutError] = layouts_by_type(types, query)
        self._widths = vector_widths(module, self._run)

    def __getitem__(self, op: Operation) -> WarpAccess:
        """How an operation accesses its tile. Raises LayoutError: its layout is not known."""
        pointers = modules.pointers_of(op)
        width = self._width(op)
        first = self._holders(pointers)
        if not isinstance(op, tt.LoadOp):
            first = _once(first, self._layouts.get(pointers.type))
        starts = first[..., ::width].transpose(0, 2, 1).reshape(-1, first.shape[1])
        used = starts[(starts != NO_ONE).any(axis=1)]
        size = modules.element_bytes(pointers)
        layout = self._layouts.get(pointers.type)
        if not isinstance(layout, RegisterLayout) or not layout.shape:
            return WarpAccess(used, width, size, 1, None)
        held = {dim: run for dim, run in enumerate(layout.contiguous) if run > 1}
        steps = [dim for vector in layout.lane for dim, step in enumerate(vector) if step]
        dimension = max(held, key=held.__getitem__, default=steps[0] if steps else layout.order[0])
        return WarpAccess(
            used, width, size, min(held.get(dimension, 1), _WIDEST_BITS // (8 * size)), dimension
        )

    def _holders(self, pointers: SSAValue) -> Numbers:
        """Each register's element: shape (blocks and warps, lanes, registers); of scalars, all."""
        layout = self._layouts.get(pointers.type)
        if layout is None:
            return numpy.zeros((self._warps, self._lanes, 1), numpy.int64)
        if isinstance(layout, LayoutError):
            raise layout
        assert isinstance(layout, RegisterLayout), "pointers are held in registers"
        return layout.all_numbers().reshape(-1, layout.lanes, layout.registers_per_thread)

    def _run(self, tile: SSAValue) -> tuple[int, int] | None:
        known = blocked_run(tile)
        layout = self._layouts.get(tile.type)
        if known is not None or not isinstance(layout, RegisterLayout):
            return known
        dimension = layout.order[0]
        return layout.contiguous[dimension], dimension

    def _width(self, op: Operation) -> int:
        width = self._widths[op]
        match op:
            case tt.AtomicRMWOp():
                return min(width, self._most_in_one_atomic(op))
            case _ if has(op, Atomic):
                return 1
            case ttg.AsyncCopyGlobalToLocalOp():
                return min(width, self._run_in_shared(op))
            case _:
                return width

    def _most_in_one_atomic(self, op: tt.AtomicRMWOp) -> int:
        """Triton's rule (AtomicRMWOpConversion): several floats at once, others one by one."""
        element = str(element_type(op.value.type))
        if tt.ATOMIC_OPERATIONS[op.operation.value.data] != "fadd":
            return 1
        if self._capability >= _VECTOR_ATOMICS_FROM and element in _FLOATS_TO_ADD:
            return _WIDEST_BITS // (8 * modules.element_bytes(op.pointer))
        return 2 if element == "f16" else 1

    def _run_in_shared(self, op: ttg.AsyncCopyGlobalToLocalOp) -> int:
        """Elements of a thread's registers that follow each other in shared memory too."""
        source, destination = (self._layouts.get(v.type) for v in (op.pointer, op.memory))
        if not isinstance(source, RegisterLayout) or not isinstance(destination, SharedLayout):
            return _WIDEST_BITS
        held = source.all_numbers().reshape(-1, source.registers_per_thread)
        whole = destination.shape[len(destination.shape) - len(source.shape) :]
        assert whole == source.shape, "a copy fills its buffer"
        places = destination.offsets().reshape(-1, source.element_count)[0][held]
        run = 1
        while 2 * run <= places.shape[1]:
            groups = places.reshape(len(places), -1, 2 * run)
            if (groups != groups[..., :1] + numpy.arange(2 * run)).any():
                break
            run *= 2
        return power_of_two_up_to(run)


def _once(holders: Numbers, layout: Layout | LayoutError | None) -> Numbers:
    """The first of equal holders: one thread changes memory, and does any atomic."""
    if layout is None:
        kept = numpy.full_like(holders, NO_ONE)
        kept[0, 0] = holders[0, 0]
        return kept
    assert isinstance(layout, RegisterLayout)
    lanes, warps = _firsts(layout.lane), _firsts((*layout.warp, *layout.block))
    return numpy.where(warps[:, None, None] & lanes[None, :, None], holders, NO_ONE)


def _firsts(vectors: tuple[tuple[int, ...], ...]) -> numpy.ndarray:
    """Of the numbers of an input, which have no bit set that leads nowhere."""
    numbers = numpy.arange(1 << len(vectors))
    free = sum(1 << bit for bit, vector in enumerate(vectors) if not any(vector))
    is_first: numpy.ndarray = numbers & free == 0
    return is_first
