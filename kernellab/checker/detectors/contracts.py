"""Find what Triton's functions and autotuner require of a kernel and do not check."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed, on_line
from kernellab.checker.detector import Detector
from kernellab.checker.detectors.updates import bits_of
from kernellab.checker.exact_functions import carries, function_of_elements
from kernellab.checker.kernel_source import NotReadable, Source
from kernellab.checker.nan_sources import is_users
from kernellab.checker.shadow_values import Array, lanes_of, whole_tile, with_program_axis
from kernellab.common.containers import sparse_zeros
from kernellab.common.text import number_text, number_texts
from kernellab.errors import SourcePosition, suggestion
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.buffers import extent_of
from kernellab.interpreter.numerics import FLOAT64, widen
from kernellab.ir import mlir, tt
from kernellab.ir.operations import locate
from kernellab.ir.types import shape
from kernellab.triton_api import definition_of

_TRIPLES = 4096
"""The most triples of neighbors of a tile that are combined in both ways."""

_APART = 1e-6
"""Results farther apart than this part of the largest number differ; float64 leaves no rounding."""


class NotAssociative(Detector):
    """Combine three neighbors in both orders, (a, b), c and a, (b, c), as a GPU may."""

    kinds = ("not-associative",)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        if not isinstance(operation, tt.ReduceOp | tt.ScanOp):
            return False
        inner = list(operation.combine.block.ops)
        has_places = isinstance(operation, tt.ReduceOp) and len(operation.operands) == 2
        if not has_places and not any(is_users(op) for op in inner):
            return False
        is_known = all(carries(op) or isinstance(op, mlir.ConstantOp) for op in inner[:-1])
        extent = shape(operation.operands[0].type)[operation.axis.value.data]
        return is_known and extent > 2

    def computed(self, computed: Computed) -> None:
        op = computed.operation
        assert isinstance(op, tt.ReduceOp | tt.ScanOp)
        if op in self.collector.operations():
            return
        combine = function_of_elements(op.combine.block)
        assert combine is not None, "it observes what is known"
        is_own = any(is_users(inner) for inner in op.combine.block.ops)
        with numpy.errstate(all="ignore"):
            facts = _associates(combine, computed, op) if is_own else None
            if facts is None and isinstance(op, tt.ReduceOp):
                facts = _commutes(combine, computed, op, is_own)
        if facts is not None:
            facts["places"] = computed.calls()
            self.collector.add((op, ""), facts, computed.linear_ids().tolist())


_Combine = Callable[..., Sequence[Array]]


def _associates(
    combine: _Combine, computed: Computed, op: tt.ReduceOp | tt.ScanOp
) -> dict[str, Any] | None:
    first, second, third = _triples(computed, op)
    left = combine(*combine(*first, *second), *third)
    right = combine(*first, *combine(*second, *third))
    numbers = (first, second, third, left, right)
    for position, (mine, other) in enumerate(zip(left, right)):
        wrong = _differ(mine, other, [group[position] for group in numbers])
        if wrong.any():
            place = int(numpy.argmax(wrong))
            a, b, c = (_shown(group, place) for group in numbers[:3])
            from_left, from_right = number_texts(
                *(float(group[position][place]) for group in numbers[3:])
            )
            what = "scan" if isinstance(op, tt.ScanOp) else "reduction"
            return {
                "message": (
                    f"the function that this {what} combines with is not associative: for a = {a}, "
                    f"b = {b}, c = {c}, (a, b) combined with c gives {from_left}, and a "
                    f"combined with (b, c) gives {from_right}"
                ),
                "advice": (
                    "A GPU combines neighbors in its own order, so that the result differs from "
                    "that of a loop. Write it as an associative function, for example of pairs "
                    "(factor, sum) for a recurrence, or compute it in a loop."
                ),
            }
    return None


def _commutes(
    combine: _Combine, computed: Computed, op: tt.ReduceOp, is_own: bool
) -> dict[str, Any] | None:
    """Reduce from both ends: a GPU also combines elements that are not neighbors."""
    given = zip(computed.operands, op.operands)
    tiles = [_along_axis(value, operand, op) for value, operand in given]
    size = tiles[0].shape[-1]
    rows = [tile.reshape(-1, size)[: max(1, _TRIPLES // size)].astype(FLOAT64) for tile in tiles]
    forward: Sequence[Array] = [row[: min(map(len, rows))] for row in rows]
    backward = forward
    while (half := forward[0].shape[-1] // 2) > 0:
        (a, b), (c, d) = (
            ([part[:, :half] for part in parts], [part[:, half:] for part in parts])
            for parts in (forward, backward)
        )
        forward, backward = combine(*a, *b), combine(*d, *c)
    for result, mine, other in zip(op.results, forward, backward):
        wrong = _differ(mine, other, [mine, other])
        if wrong.any() and any(True for _ in result.uses):
            first, second = number_texts(float(mine[wrong][0]), float(other[wrong][0]))
            orders = f"one order of its elements gives {first}, and another {second}"
            if is_own:
                return {
                    "severity": "warning",
                    "message": f"a GPU chooses the order in which it combines elements: {orders}",
                    "advice": "Combine by a function whose arguments can be exchanged.",
                }
            return {
                "severity": "note",
                "message": f"of several equal elements, tie_break_left=False takes any: {orders}",
                "advice": (
                    "tie_break_left=True, in tl.max return_indices_tie_break_left=True, gives the "
                    "first of them."
                ),
            }
    return None


def _triples(computed: Computed, op: tt.ReduceOp | tt.ScanOp) -> Sequence[Sequence[Array]]:
    """Return the operands of all first, all second and all third neighbors, each flat."""
    groups: list[list[Array]] = [[], [], []]
    for value, operand in zip(computed.operands, op.operands):
        tile = _along_axis(value, operand, op)
        for start, group in enumerate(groups):
            end = tile.shape[-1] - 2 + start
            group.append(numpy.ravel(tile[..., start:end])[:_TRIPLES].astype(FLOAT64))
    sizes = {len(array) for group in groups for array in group}
    return [[array[: min(sizes)] for array in group] for group in groups]


def _along_axis(value: Array, operand: SSAValue, op: tt.ReduceOp | tt.ScanOp) -> Array:
    """Return the numbers of a tile, with those that are combined along the last axis."""
    tile = whole_tile(widen(value), shape(operand.type))
    return numpy.moveaxis(tile, op.axis.value.data + 1, -1)


def _differ(mine: Array, other: Array, involved: Sequence[Array]) -> Array:
    size = numpy.max([numpy.abs(array) for array in involved], axis=0)
    away = numpy.abs(mine - other)
    apart: Array = numpy.isfinite(mine) & numpy.isfinite(other) & (away > _APART * size)
    return apart


def _shown(group: Sequence[Array], place: int) -> str:
    numbers = [number_text(float(array[place])) for array in group]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


# Find stores that overwrite, through one argument, what was stored through another and never read.


class OverwrittenArgument(Detector):
    """Follow the elements of storages that several arguments share."""

    kinds = ("overwritten-argument",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._shared = _shared_storages(run)
        self._writes: dict[tuple[int, int], Array] = {}
        """For each element, the number of its last store; 0 for none, -1 once it was read."""
        self._accesses: list[CheckedAccess] = []

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(_shared_storages(run))

    def before(self, access: CheckedAccess) -> None:
        buffer = access.buffer
        start = buffer.tensor.untyped_storage().data_ptr()
        if start not in self._shared or not len(buffer.elements):
            return
        key = start, buffer.itemsize
        if key not in self._writes:
            self._writes[key] = sparse_zeros(len(buffer.elements), numpy.int32)
        writes = self._writes[key]
        index, on = lanes_of(access)
        if not isinstance(access.request, global_memory.Store):
            writes[index[on]] = -1
            return
        self._look(access, writes, index, on)
        self._accesses.append(access)
        writes[index[on]] = len(self._accesses)

    def _look(self, access: CheckedAccess, writes: Array, index: Array, on: Array) -> None:
        before = writes[index]
        others = [
            number
            for number in numpy.unique(before[on & (before > 0)])
            if self._accesses[number - 1].buffer.name != access.buffer.name
        ]
        if not others:
            return
        stored = numpy.broadcast_to(with_program_axis(access.written, access.rank), index.shape)
        changes = bits_of(access.buffer.elements.take(index, mode="clip")) != bits_of(stored)
        lost = on & numpy.isin(before, others) & changes
        if not lost.any():
            return
        first = self._accesses[int(before[lost][0]) - 1]
        line = on_line(first.operation)
        mine, other = access.buffer.name, first.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            element = access.element(lost, place, program)
            return {
                "argument": mine,
                "index": element,
                "message": (
                    f"{mine} and {other} share memory: this store to {access.named(element)} "
                    f"overwrites what the store{line} wrote through {other}, and nothing has read "
                    "it"
                ),
                "advice": (
                    f"Pass tensors that do not share memory as {other} and {mine}, or do not store "
                    "the one that is not needed."
                ),
            }

        self.collector.report(access, lost, access.rank, facts_of, other)


def _shared_storages(run: CheckedRun) -> frozenset[int]:
    extents: dict[int, list[tuple[int, int]]] = {}
    shared = set()
    for tensor in run.tensors.values():
        if not tensor.numel():
            continue
        size = tensor.element_size()
        first = int(tensor.storage_offset()) * size
        last = first + extent_of(tensor.shape, tensor.stride()) * size
        start = tensor.untyped_storage().data_ptr()
        if any(first < end and begin < last for begin, end in extents.get(start, ())):
            shared.add(start)
        extents.setdefault(start, []).append((first, last))
    return frozenset(shared)


# Find arguments of Triton's functions that break what they require, and that Triton does not check.


class HistogramBins(Detector):
    """Check that each value of a histogram has a bin."""

    kinds = ("broken-contract",)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        return isinstance(operation, tt.HistogramOp)

    def computed(self, computed: Computed) -> None:
        op = computed.operation
        assert isinstance(op, tt.HistogramOp)
        rank = len(shape(op.source.type))
        bins = shape(op.result.type)[0]
        source = with_program_axis(computed.operands[0], rank)
        on: Any = True if op.mask is None else with_program_axis(computed.operands[1], rank)
        numbers = source.astype(numpy.int64)
        outside = ((numbers < 0) | (numbers >= bins)) & on & computed.taking_part(rank)
        if not outside.any():
            return

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            where = (min(program, len(source) - 1), *place)
            value = int(numpy.broadcast_to(numbers, outside.shape)[where])
            return {
                "message": (
                    f"tl.histogram has the bins 0 to {bins - 1}, and this value is {value}: on a "
                    "GPU, it is counted in a bin that is not its own"
                ),
                "advice": "Exclude such values with mask=, or use more bins.",
            }

        self.collector.report(computed, outside, rank, facts_of)


class NarrowArgument(Detector):
    """Check that each integer argument fits in the type that its annotation gives it."""

    kinds = ("cast-overflow",)

    def end(self) -> None:
        for name, kind in self.run.call.specialization.signature.items():
            value, match = self.run.call.values.get(name), re.fullmatch(r"([iu])(\d+)", str(kind))
            if type(value) is not int or match is None or kind == "i1":
                continue
            size = 1 << int(match[2])
            least = -(size >> 1) if match[1] == "i" else 0
            if not least <= value < least + size:
                self._report(name, value, f"{'u' * (not least)}int{match[2]}", least, size)

    def _report(self, name: str, value: int, kind: str, least: int, size: int) -> None:
        facts = {
            "argument": name,
            "position": definition_of(self.run.kernel),
            "message": (
                f"{name} is annotated as {kind} ({least:,} to {least + size - 1:,}), and {value:,} "
                f"does not fit: the kernel gets {(value - least) % size + least:,}"
            ),
            "advice": "Without an annotation, Triton chooses a type that the number fits.",
        }
        self.collector.add(name, facts)


class SizeOfTopk(Detector):
    """Check the number of elements that `tl.topk` is asked for."""

    kinds = ("broken-contract",)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return "topk" in str(run.kernel.src)

    def end(self) -> None:
        for position, number, text, size in _wrong_numbers(self.run):
            elements = "the number of elements" if size is None else f"{size}, the size of the tile"
            facts = {
                "position": position,
                "message": (
                    f"{text} is {number}, and tl.topk needs a power of two, from 2 to {elements}; "
                    "Triton does not check it"
                ),
                "advice": (
                    "Take a power of two, and use the first elements of the result, which are "
                    "sorted."
                ),
            }
            self.collector.add((position.line, text), facts)


def _wrong_numbers(run: CheckedRun) -> Iterator[tuple[SourcePosition, int, str, int | None]]:
    """Yield where the kernel calls `tl.topk` with a number that is not a power of two, or larger
    than the tile: the place, the number, its text, and the tile's size along the last dimension.
    """
    source = Source(str(run.kernel.src), run.call.values)
    first = definition_of(run.kernel)
    try:
        calls = source.calls("topk")
    except NotReadable:
        return
    for call in calls:
        given = next((key.value for key in call.keywords if key.arg == "k"), None)
        given = call.args[1] if given is None and len(call.args) > 1 else given
        number = None if given is None else _constant(given, source, run.call.values)
        if given is None or number is None:
            continue
        place = SourcePosition(first.file, first.line + call.lineno - 1, call.col_offset + 1)
        size = _size_at(run, place)
        too_many = size is not None and number > size
        if number < 1 or number & (number - 1) or too_many:
            yield place, number, source.of(given), size


def _size_at(run: CheckedRun, place: SourcePosition) -> int | None:
    """Return the sorted tile's last size, or None; `tl.topk` begins with a reshape of the tile."""
    for op in run.code.module.walk():
        if isinstance(op, tt.ReshapeOp) and len(frames := locate(op.location).frames) > 1:
            if (frames[-1].file, frames[-1].line) == (place.file, place.line):
                return shape(op.operands[0].type)[-1]
    return None


def _constant(node: ast.expr, source: Source, values: Mapping[str, Any]) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and node.id in source.constants:
        value = values.get(node.id)
        return value if type(value) is int else None
    return None


@dataclass
class _Used:
    """The launch's accesses to the elements of a storage.

    Attributes:
        written: which elements were written.
        kept: which elements were read before they were written.
    """

    written: Array
    kept: Array
    name: str = ""


def _is_of_lock(request: global_memory.MemoryAccess) -> bool:
    """Return whether an access takes or returns a lock, which is as before after a launch."""
    is_exchange = isinstance(request, global_memory.Atomic) and request.operation == "exchange"
    return is_exchange or isinstance(request, global_memory.CompareAndSwap)


class AutotunedInPlace(Detector):
    """Find arguments that a kernel reads and then overwrites, so that each trial of a config
    changes what the next one reads; and names in key= that no parameter has.
    """

    kinds = ("autotune",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._used: dict[Hashable, _Used] = {}
        self._reported: set[str] = set()

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return run.autotuner is not None

    def before(self, access: CheckedAccess) -> None:
        tuner = self.run.autotuner
        if tuner is None or tuner.restores_otherwise or len(tuner.configs) < 2:
            return
        buffer = access.buffer
        key = self.run.storage_of(buffer.tensor), buffer.itemsize
        if key not in self._used:
            size = len(buffer.elements)
            self._used[key] = _Used(numpy.zeros(size, bool), numpy.zeros(size, bool))
        used = self._used[key]
        index, on = lanes_of(access)
        elements = index[on]
        if access.action != "store":
            fresh = elements[~used.written[elements]]
            used.kept[fresh] = True
            used.name = used.name or (buffer.name if len(fresh) else "")
        if isinstance(access.request, global_memory.Load):
            return
        used.written[elements] = True
        changes = not _is_of_lock(access.request) and used.kept[elements].any()
        if changes and not {used.name, buffer.name} & {*tuner.restored, *tuner.zeroed}:
            self._report(access.operation, buffer.name or used.name)

    def _report(self, op: Operation, name: str) -> None:
        if name in self._reported:
            return
        self._reported.add(name)
        facts: dict[str, Any] = {
            "argument": name,
            "places": locate(op.location).frames[::-1],
            "message": (
                f"the kernel reads and writes {name} under autotune without restore_value: each "
                "trial of a config reads what the trial before it wrote"
            ),
            "advice": _RESTORED,
        }
        self.collector.add((op, name), facts)

    def end(self) -> None:
        tuner, names = self.run.autotuner, self.run.kernel.arg_names
        assert tuner is not None
        for key, used in self._used.items():
            if used.name in tuner.zeroed and (used.written & used.kept).any():
                self._report_zeroed(key, used.name)
        for name in tuner.keys:
            if name not in names:
                facts = {
                    "position": definition_of(self.run.kernel),
                    "message": (
                        f"key= of triton.autotune has {name!r}, which is not a parameter of the "
                        "kernel: the configs are not tuned again for its values"
                    ),
                    "advice": suggestion(name, names, "Its parameters are"),
                }
                self.collector.add(("key", name), facts)

    def _report_zeroed(self, key: Hashable, name: str) -> None:
        tuner = self.run.autotuner
        assert tuner is not None
        if name in tuner.lost:
            facts = {
                "argument": name,
                "position": definition_of(self.run.kernel),
                "message": (
                    f"the kernel reads and writes {name} under autotune with reset_to_zero and "
                    f"without restore_value: {name} holds numbers, and the autotuner sets them to "
                    "zero before the kernel reads them"
                ),
                "advice": _RESTORED,
            }
            self.collector.add((key, name), facts)


_RESTORED = "Triton restores the arguments that restore_value= names after each trial."
