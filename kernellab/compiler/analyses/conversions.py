"""Where tiles change their layout: by what means, how much moves, and which operations force it."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, SSAValue

from kernellab.compiler import modules
from kernellab.compiler.analyses.allocations import Measure, alone
from kernellab.compiler.analyses.layouts import (
    Flow,
    QueryLayouts,
    layouts_by_type,
    tile_type,
    value_name,
)
from kernellab.compiler.analyses.records import Conversion, Conversions, Means, Neighbor
from kernellab.ir import tt, ttg
from kernellab.ir.flow import loops_around
from kernellab.ir.types import MemDescType
from kernellab.records.layouts import Bases, Layout, Numbers, RegisterLayout
from kernellab.triton_api.analyses import allocated_bytes
from kernellab.triton_api.layouts import bases_between
from kernellab.triton_api.targets import TURNS_WARPS_AT_ONCE

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation

WORD = 4
"""Bytes that one lane hands on in one shuffle: a register, however much of it the value fills."""
_HANDING = ("SHFL", "REDUX", "CREDUX")
"""How the opcodes begin of NVIDIA's instructions that hand a register of every lane to others."""


@dataclass(frozen=True)
class AlongAxis:
    """A reduction or scan of a tile.

    Attributes:
        layout: of the tile.
        sizes: bytes of an element of each operand.
    """

    layout: RegisterLayout
    axis: int
    sizes: Sequence[int]
    scans: bool
    reverse: bool

    def bits(self, level: str) -> int:
        """How many bits of an input lead along the axis."""
        return sum(1 for vector in self.layout.bases[level] if vector[self.axis])

    def estimated_bytes(self) -> int:
        """The bytes that all threads shuffle by Triton's lowering, before LLVM removes anything."""
        numbers = self._of_scan() if self.scans else self._of_reduction()
        return numbers * threads(self.layout) * sum(map(round_up_to_words, self.sizes))

    def _of_reduction(self) -> int:
        """Numbers that each thread hands on: for its runs and lane steps, then partial results."""
        runs = self.layout.registers_per_thread >> self.bits("register")
        between_warps = self.bits("warp")
        partial_results = (
            self.layout.element_count // self.layout.shape[self.axis]
        ) << between_warps
        each = max(1, partial_results // threads(self.layout))
        return runs * self.bits("lane") + each * between_warps

    def _of_scan(self) -> int:
        """One for each run of neighbors and step between lanes, and one more that the next lane
        begins with; a scan from the end turns every value of a warp round, before and after."""
        neighbors = self.layout.contiguous[self.axis]
        runs = self.layout.registers_per_thread // neighbors
        steps = self.bits("lane")
        steps += 1 if steps and neighbors > 1 else 0
        exchanges = 1 if TURNS_WARPS_AT_ONCE else int(math.log2(self.layout.lanes))
        turning = 2 * exchanges * self.layout.registers_per_thread
        return runs * steps + (turning if self.reverse else 0)


def threads(layout: RegisterLayout) -> int:
    """The threads of a program that hold a tile."""
    return layout.lanes * layout.warps * layout.blocks


def round_up_to_words(size: int) -> int:
    """Bytes of the registers that a value of so many bytes fills."""
    return -(-size // WORD) * WORD


def counted_bytes(opcodes: Mapping[str, int], layout: RegisterLayout) -> int:
    """The bytes that the machine code shuffles if each instruction runs once; 0 if it has none."""
    instructions = sum(many for opcode, many in opcodes.items() if opcode.startswith(_HANDING))
    return instructions * threads(layout) * WORD


def settled(counted: int, estimated: int, in_loop: bool) -> tuple[int, bool]:
    """The bytes of one execution, and whether they are counted.

    The compiler may unroll a loop, and then the machine code has an operation several times: what
    is counted is taken for the bytes of one execution outside loops only, and inside them where it
    is a multiple of the estimate.
    """
    if counted and not in_loop:
        return counted, True
    if not estimated:
        return 0, not counted
    return estimated, counted > 0 and counted % estimated == 0


Compose = Callable[[RegisterLayout, RegisterLayout], Mapping[str, Bases]]
"""Triton's answer: where a register of the second layout finds its element in the first."""
Opcodes = Callable[[str, int], Mapping[str, int]]
"""The machine code's counts for an operation by name and number, in the text's order from 0."""

_INTO_SHARED = (ttg.LocalAllocOp, ttg.LocalStoreOp)
_THROUGH_SHARED = (*_INTO_SHARED, ttg.LocalLoadOp)
_ALONG_AN_AXIS = (tt.ReduceOp, tt.ScanOp)
_BY_INDEX = (tt.GatherOp, tt.HistogramOp)


@dataclass(frozen=True)
class Questions:
    """Functions that query the compiler and the machine code."""

    layouts: QueryLayouts
    compose: Compose
    measure: Measure
    """How much shared memory a module takes."""
    opcodes: Opcodes


def conversions_of(opened: modules.OpenedModules, snapshot: str) -> Conversions:
    """The operations of a module that bring elements to other threads, or may have to."""
    compilation, module = opened.compilation, opened.snapshot(snapshot)
    query = Questions(
        layouts=opened.layouts_of,
        compose=bases_between,
        measure=functools.cache(
            lambda text: opened.query(allocated_bytes, text, compilation.target, ())
        ),
        opcodes=_opcodes_of_lines(compilation) if snapshot == "ttgir" else lambda *_: {},
    )
    numbers = modules.numbered(module)
    moving = [op for op in numbers if _moves(op)]
    types = [value.type for op in moving for value in (*op.operands, *op.results)]
    answers = layouts_by_type(types, query.layouts)
    known = {type: layout for type, layout in answers.items() if isinstance(layout, Layout)}
    places, flow = _places(numbers), Flow(module)
    return Conversions(
        tuple(
            _Explanation(op, known, module, flow, query).conversion(
                numbers[op], query.opcodes(modules.kind(op), places[op])
            )
            for op in moving
        ),
        snapshot,
    )


def _places(ops: Iterable[Operation]) -> dict[Operation, int]:
    """The number of each operation among those of its name, from 0."""
    seen: Counter[str] = Counter()
    places = {}
    for op in ops:
        places[op] = seen[modules.kind(op)]
        seen[modules.kind(op)] += 1
    return places


def _moves(op: Operation) -> bool:
    if isinstance(op, ttg.LocalAllocOp):
        return bool(op.operands)
    return isinstance(op, (ttg.ConvertLayoutOp, *_THROUGH_SHARED, *_ALONG_AN_AXIS, *_BY_INDEX))


class _Explanation:
    """One operation, looked at."""

    def __init__(
        self,
        op: Operation,
        layouts: Mapping[Attribute, Layout],
        module: builtin.ModuleOp,
        flow: Flow,
        query: Questions,
    ) -> None:
        self._op = op
        self._flow = flow
        self._layouts = layouts
        self._query = query
        self._source = op.operands[0]
        self._destination = op.memory if isinstance(op, ttg.LocalStoreOp) else op.results[0]
        in_memory = isinstance(op, _THROUGH_SHARED)
        self._scratch = 0 if in_memory else query.measure(alone(op, module))

    def conversion(self, number: int, opcodes: Mapping[str, int]) -> Conversion:
        op, taken = self._op, self._source.type
        given = tile_type(self._destination.type)
        source_tile = tile_type(taken)
        assert source_tile is not None
        assert isinstance(taken, builtin.TensorType | MemDescType)
        means = self._means()
        shuffled, counted = self._shuffled_bytes(means, opcodes)
        return Conversion(
            operation=modules.kind(op),
            name=value_name(op.results[0]) if op.results else "",
            number=number,
            position=modules.position_of(op),
            shape=_shape(taken),
            element=str(taken.element_type),
            source=source_tile.encoding,
            destination=given.encoding if given is not None else "",
            means=means,
            shared_bytes=self._shared_bytes(means),
            shuffled_bytes=shuffled,
            shuffles_counted=counted,
            kept_bytes=self._kept_bytes(means),
            scratch_bytes=self._scratch,
            in_loop=bool(loops_around(op)),
            forced_by=_neighbors(self._flow.makers(self._source), but=op),
            wanted_by=_neighbors(self._flow.users(self._destination), but=op),
            in_finished_code=opcodes,
        )

    def _means(self) -> Means:
        if self._scratch or isinstance(self._op, _THROUGH_SHARED):
            return "shared memory"
        if isinstance(self._op, ttg.ConvertLayoutOp):
            return self._means_of_conversion()
        if isinstance(self._op, _ALONG_AN_AXIS):
            along = self._along_axis()
            return "warp shuffles" if along and along.bits("lane") else "registers"
        return "warp shuffles"

    def _means_of_conversion(self) -> Means:
        """By the highest of warp, lane and register that does not hold its own elements."""
        source, destination = self._registers(self._source), self._registers(self._destination)
        if source is None or destination is None:
            return "no-op"
        bases = self._query.compose(source, destination)
        levels = list(bases)
        moving = [level for place, level in enumerate(levels) if not _stays(bases, level, place)]
        if "block" in moving or "warp" in moving:
            return "shared memory"
        if "lane" in moving:
            return "warp shuffles"
        return "registers" if "register" in moving else "no-op"

    def _registers(self, value: SSAValue) -> RegisterLayout | None:
        layout = self._layouts.get(value.type)
        return layout if isinstance(layout, RegisterLayout) else None

    def _along_axis(self) -> AlongAxis | None:
        """The operation as a reduction or scan; None for others, and unknown layouts."""
        layout, axis = self._registers(self._source), modules.integer(self._op, "axis")
        if not isinstance(self._op, _ALONG_AN_AXIS) or layout is None or axis is None:
            return None
        sizes = [_element_bytes(operand.type) for operand in self._op.operands]
        scans = isinstance(self._op, tt.ScanOp)
        return AlongAxis(
            layout, axis, sizes, scans, scans and bool(modules.integer(self._op, "reverse"))
        )

    def _shared_bytes(self, means: Means) -> int:
        """The tile, if all of it goes through shared memory; else the scratch space."""
        if means != "shared memory":
            return 0
        if isinstance(self._op, (ttg.ConvertLayoutOp, *_INTO_SHARED)):
            return _tile_bytes(self._source.type)
        loads = isinstance(self._op, ttg.LocalLoadOp)
        return _tile_bytes(self._op.results[0].type) if loads else self._scratch

    def _shuffled_bytes(self, means: Means, opcodes: Mapping[str, int]) -> tuple[int, bool]:
        """The bytes that lanes shuffle, and whether they are counted."""
        layout = self._registers(self._source)
        if layout is None or isinstance(self._op, _THROUGH_SHARED):
            return 0, True
        counted = counted_bytes(opcodes, layout)
        return settled(counted, self._estimated_shuffles(means), bool(loops_around(self._op)))

    def _kept_bytes(self, means: Means) -> int | None:
        """The bytes that stay in their thread; None unless it converts known register layouts."""
        source, destination = self._registers(self._source), self._registers(self._destination)
        if not isinstance(self._op, ttg.ConvertLayoutOp) or source is None or destination is None:
            return None
        if means == "shared memory":
            return 0
        held = _held(destination).size
        return _element_bytes(self._source.type) * (held - elements_moved(source, destination))

    def _estimated_shuffles(self, means: Means) -> int:
        """By Triton's lowering of reductions and scans; of a conversion, what changes threads."""
        if (along := self._along_axis()) is not None:
            return along.estimated_bytes()
        if means != "warp shuffles":
            return 0
        width = round_up_to_words(_element_bytes(self._source.type))
        source, destination = self._registers(self._source), self._registers(self._destination)
        if isinstance(self._op, ttg.ConvertLayoutOp) and source and destination:
            return width * elements_moved(source, destination)
        return width * math.prod(_shape(self._op.results[0].type))


def _stays(bases: Mapping[str, Bases], level: str, place: int) -> bool:
    """Whether every holder's element is at the holder's own `level`, whatever the others are."""
    return all(
        vector[place] == (1 << bit if name == level else 0)
        for name, vectors in bases.items()
        for bit, vector in enumerate(vectors)
    )


def elements_moved(source: RegisterLayout, destination: RegisterLayout) -> int:
    """How many registers of the destination hold an element that is new to their thread."""
    return int(numpy.count_nonzero(~numpy.isin(_held(destination), _held(source))))


def _held(layout: RegisterLayout) -> Numbers:
    indices = numpy.moveaxis(layout.all_elements(), -1, 0)
    elements = numpy.ravel_multi_index(tuple(indices), layout.shape)
    threads = numpy.arange(elements.size // layout.registers_per_thread)
    by_thread = elements.reshape(len(threads), -1)
    return numpy.asarray(by_thread + threads[:, None] * layout.element_count)


def _shape(type: Attribute) -> tuple[int, ...]:
    if isinstance(type, MemDescType):
        return type.shape
    assert isinstance(type, builtin.TensorType)
    return type.get_shape()


def _tile_bytes(type: Attribute) -> int:
    return _element_bytes(type) * math.prod(_shape(type))


def _element_bytes(type: Attribute) -> int:
    """Bytes of an element as threads hand it over: a truth value takes one, a pointer eight."""
    assert isinstance(type, builtin.TensorType | MemDescType)
    bits = getattr(type.element_type, "bitwidth", 64)
    return max(1, bits // 8)


def _neighbors(ops: Iterable[Operation], but: Operation) -> tuple[Neighbor, ...]:
    neighbors = [Neighbor(modules.kind(op), modules.position_of(op)) for op in ops if op is not but]
    return tuple(dict.fromkeys(neighbors))


_MOVING = ("lanes", "shared load", "shared store", "barrier")
"""Classes of instructions that bring data to other threads, or wait for them."""


def _opcodes_of_lines(compilation: Compilation) -> Opcodes:
    """The machine code that moves data between threads, by the TTGIR operation of its lines."""
    counts: dict[int, Counter[str]] = {}
    # A record may have no machine code, or no lines for it.
    decoded = compilation.instructions if compilation.can_answer("instructions") else ()
    for instruction in decoded:
        if instruction.category in _MOVING and instruction.ttgir_line is not None:
            counts.setdefault(instruction.ttgir_line, Counter())[instruction.opcode] += 1
    lines = modules.lines_of_operations(compilation.stages["ttgir"].text)
    return lambda name, before: dict(counts.get(lines[name][before], {})) if name in lines else {}
