"""Which hazard in shared memory each barrier of a kernel guards."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from xdsl.ir import Block, Operation, Region

from kernellab.compiler import modules
from kernellab.compiler.analyses import allocations, records
from kernellab.errors import SourcePosition
from kernellab.ir import mlir, tt, ttg
from kernellab.ir.operations import DescriptorAccess, PointerAccess, SharedRead, SharedWrite, has
from kernellab.ir.syntax import read_module
from kernellab.records import PassRun
from kernellab.triton_api.analyses import with_barriers

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation

_WHOLE_PROGRAM = (ttg.BarrierOp, mlir.BarrierOp, ttg.LocalBarrierOp)
"""Barriers of a whole program in TTGIR, over the versions of Triton."""

_WAITS = frozenset(
    {"ttg.async_wait", "amdg.async_wait", "amdgpu.async_wait", "ttng.async_tma_store_wait"}
)

Effect = Literal["read", "write"]
_WITHOUT_CLASS: Mapping[str, Effect] = {
    "ttg.local_atomic_scatter_rmw": "write",
    "amdg.local_load_packed_tranposed": "read",
}
"""The accesses to shared memory of operations without a class in `ir/`."""
Author = Literal["membar analysis", "program", "lowering"]


@dataclass(frozen=True)
class _Point:
    """One access, as the analysis moves it through the program."""

    op: Operation
    effect: Effect
    buffer: Operation


_Points = frozenset[_Point]
_NOTHING: _Points = frozenset()


@dataclass(frozen=True)
class _State:
    """The accesses since the last barrier, and those in flight."""

    pending: _Points = _NOTHING
    in_flight: _Points = _NOTHING

    def __or__(self, other: _State) -> _State:
        return _State(self.pending | other.pending, self.in_flight | other.in_flight)


@dataclass
class _Module:
    """The analysis' facts about the module."""

    views: allocations.Views
    before: dict[Block, _State] = field(default_factory=dict)
    after: dict[Block, _Points] = field(default_factory=dict)


def barriers(
    module: Operation,
    memory: records.SharedMemory,
    original: Sequence[str],
    lowered: Counter[SourcePosition | None],
    in_finished_code: int | None,
    read_from: str,
) -> records.Barriers:
    """Each barrier of a module, with the accesses on either side of it that conflict.

    Args:
        module: after allocation, with the barriers that the membar analysis inserts.
        original: the names of the operations of the module before the membar analysis.
        lowered: the barriers right after LLVM's dialect, by line; others are left out.
        in_finished_code, read_from: see `Barriers`.
    """
    number = modules.numbered(module)
    known = _Module(allocations.views_of(module))
    bytes_of = _bytes_of([op for op in number if allocations.allocates(op)], memory)
    for region in _roots(module):
        _solve(region, known)
    left = Counter(lowered)
    inserted: list[records.Barrier] = []
    for op, is_new in _barriers_of(number, original):
        position = modules.position_of(op)
        if not left[position]:
            continue
        left[position] -= 1
        hazards = tuple(_hazards(op, known, bytes_of, number))
        author: Author = "membar analysis" if is_new else "program"
        inserted.append(records.Barrier(modules.kind(op), number[op], position, hazards, author))
    scratch = {b.position: b for b in reversed(memory.buffers) if b.is_scratch}
    for position in left.elements():
        inserted.append(_lowering_barrier(position, scratch.get(position)))
    return records.Barriers(tuple(inserted), in_finished_code, read_from)


def _barriers_of(
    ops: Iterable[Operation], original: Sequence[str]
) -> Iterator[tuple[Operation, bool]]:
    """The barriers, and whether membar put each in: the module before has none there."""
    cursor = 0
    for op in ops:
        there_before = cursor < len(original) and original[cursor] == modules.kind(op)
        cursor += there_before
        if isinstance(op, _WHOLE_PROGRAM):
            yield op, not there_before


def _lowering_barrier(
    position: SourcePosition | None, scratch: records.SharedBuffer | None
) -> records.Barrier:
    """A barrier inside an operation, whose warps exchange data through its scratch space."""
    if scratch is None:
        return records.Barrier("unknown", 0, position, (), "lowering")
    place = (scratch.name, 0, position)
    write = records.SharedMemoryAccess(scratch.operation, "write", *place)
    read = records.SharedMemoryAccess(scratch.operation, "read", *place)
    hazards = (records.Hazard("read after write", write, read),)
    return records.Barrier(scratch.operation, 0, position, hazards, "lowering")


_Bytes = Mapping[Operation, tuple[str, int, int]]
"""An allocating operation -> its buffer's name, first byte and end."""


def _bytes_of(allocating: list[Operation], memory: records.SharedMemory) -> _Bytes:
    names = allocations.unique_names(allocating)
    by_name = {buffer.name: buffer for buffer in memory.buffers}
    return {
        op: (name, by_name[name].offset, by_name[name].end)
        for op, name in names.items()
        if name in by_name
    }


def _roots(module: Operation) -> Iterator[Region]:
    """The regions that may contain barriers; each has separate control flow."""
    for op in module.walk():
        if isinstance(op, tt.FuncOp | ttg.WarpSpecializeOp | ttg.WarpSpecializePartitionsOp):
            yield from op.regions


# The accesses before a barrier, forwards; those after it, backwards


def _solve(region: Region, known: _Module) -> None:
    changed = True
    while changed:
        changed = False
        for block in region.blocks:
            state = known.before.get(block, _State())
            for op in block.ops:
                state = _step(state, op, known.views)
            for following in modules.successors(block):
                joined = known.before.get(following, _State()) | state
                if joined != known.before.get(following, _State()):
                    known.before[following] = joined
                    changed = True
    changed = True
    while changed:
        changed = False
        for block in reversed(list(region.blocks)):
            points = _NOTHING.union(
                *(known.after.get(f, _NOTHING) for f in modules.successors(block))
            )
            for op in reversed(list(block.ops)):
                points = _step_back(points, op, known.views)
            if points != known.after.get(block, _NOTHING):
                known.after[block] = points
                changed = True


def _step(state: _State, op: Operation, views: allocations.Views) -> _State:
    if isinstance(op, _WHOLE_PROGRAM):
        return _State(_NOTHING, state.in_flight)
    if modules.kind(op) in _WAITS:
        return _State(state.pending | state.in_flight, state.in_flight)
    points = frozenset(_accesses(op, views, scratch="read"))
    if has(op, SharedWrite) and has(op, PointerAccess):
        # It writes later: what it wrote is there for other warps after a wait and a barrier.
        return _State(state.pending, state.in_flight | points)
    return _State(state.pending | points, state.in_flight)


def _step_back(points: _Points, op: Operation, views: allocations.Views) -> _Points:
    if isinstance(op, _WHOLE_PROGRAM):
        return _NOTHING
    return points | frozenset(_accesses(op, views, scratch="write"))


def _accesses(op: Operation, views: allocations.Views, scratch: Effect) -> Iterator[_Point]:
    """An operation's own accesses to shared memory, without those of operations in its regions.

    An operation with scratch space writes it, waits, and reads it:
    what comes before meets its write, what follows its read.
    """
    if allocations.allocates(op):
        if not isinstance(op, allocations.ALLOCATIONS):
            yield _Point(op, scratch, op)
        elif op.operands:
            yield _Point(op, "write", op)
    effect = _effect(op)
    if effect is not None:
        for operand in op.operands:
            for root in views.get(operand, ()):
                yield _Point(op, effect, root)


def _effect(op: Operation) -> Effect | None:
    """An operation's accesses to shared memory through views of it, without TMA's loads."""
    if has(op, SharedRead):
        return "read"
    if has(op, SharedWrite) and not has(op, DescriptorAccess):
        return "write"
    return _WITHOUT_CLASS.get(modules.kind(op))


def _hazards(
    barrier: Operation, known: _Module, bytes_of: _Bytes, number: Mapping[Operation, int]
) -> Iterator[records.Hazard]:
    block = barrier.parent_block()
    assert block is not None
    state = known.before.get(block, _State())
    for op in block.ops:
        if op is barrier:
            break
        state = _step(state, op, known.views)
    points = _NOTHING.union(*(known.after.get(f, _NOTHING) for f in modules.successors(block)))
    for op in reversed(list(block.ops)):
        if op is barrier:
            break
        points = _step_back(points, op, known.views)
    hazards = {
        records.Hazard(
            _kind(first, second),
            _access(first, bytes_of, number),
            _access(second, bytes_of, number),
        )
        for first in state.pending
        for second in points
        if "write" in (first.effect, second.effect) and _overlap(first, second, bytes_of)
    }
    yield from sorted(hazards, key=lambda h: (h.after.number, h.before.number, h.kind))


def _kind(first: _Point, second: _Point) -> records.HazardKind:
    if second.effect == "read":
        return "read after write"
    return "write after write" if first.effect == "write" else "write after read"


def _overlap(first: _Point, second: _Point, bytes_of: _Bytes) -> bool:
    if first.buffer not in bytes_of or second.buffer not in bytes_of:
        return False
    _, start, end = bytes_of[first.buffer]
    _, other_start, other_end = bytes_of[second.buffer]
    return start < other_end and other_start < end


def _access(
    point: _Point, bytes_of: _Bytes, number: Mapping[Operation, int]
) -> records.SharedMemoryAccess:
    name = bytes_of[point.buffer][0]
    return records.SharedMemoryAccess(
        modules.kind(point.op), point.effect, name, number[point.op], modules.position_of(point.op)
    )


_LLVM_BARRIER = re.compile(
    r"^\s*(?:nvvm\.barrier0|nvvm\.barrier|rocdl\.s\.barrier|rocdl\.barrier|ttg\.barrier|"
    r"gpu\.barrier)\b.* loc\((.*)\)$"
)
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.M)
_ALIAS_OR_PLACE = re.compile(r'#loc\d*|"([^"]+)":(\d+):(\d+)')


def lowered_barriers(text: str) -> list[tuple[SourcePosition, ...]]:
    """The places, innermost first, of the barriers in a module of LLVM's dialect."""
    aliases = dict(_ALIAS.findall(text))
    matches = filter(None, map(_LLVM_BARRIER.match, text.splitlines()))
    return [tuple(_places(match[1], aliases)) for match in matches]


def _places(location: str, aliases: Mapping[str, str]) -> Iterator[SourcePosition]:
    for part in _ALIAS_OR_PLACE.finditer(location):
        if part[0].startswith("#"):
            yield from _places(aliases.get(part[0], ""), aliases)
        else:
            yield SourcePosition(part[1], int(part[2]), int(part[3]) + 1)


_NVIDIA_BARRIER = re.compile(r"^[ \t]*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?BAR\.SYNC\b", re.M)
_AMD_BARRIER = re.compile(r"^[ \t]*s_barrier(?:_wait)?\b", re.M)


def barriers_in(machine_code: str) -> int:
    """The barrier instructions in the text of a whole SASS or AMD program."""
    return len(_NVIDIA_BARRIER.findall(machine_code)) + len(_AMD_BARRIER.findall(machine_code))


def barriers_of(opened: modules.OpenedModules) -> records.Barriers:
    """The barriers of a program, and what each guards."""
    compilation = opened.compilation
    before, lowered = _around_lowering(compilation)
    without = _before_membar(compilation)
    if without is None:
        # Up to Triton 3.8 the analysis runs inside the lowering: it is run again here.
        without = before
        text = opened.query(with_barriers, before.text.read(), compilation.target)
    else:
        text = opened.generic_text(before)
    original = [modules.kind(op) for op in read_module(opened.generic_text(without)).walk()]
    module = read_module(text)
    places = modules.KernelPlaces(compilation)
    places.put_into(module)
    lowered_at = lowered_barriers(lowered.text.read())
    finished = next((s for s in ("sass", "amdgcn") if s in compilation.stages), None)
    return barriers(
        module,
        compilation.shared_memory(),
        original,
        Counter(places.of(modules.users_line(place)) for place in lowered_at),
        None if finished is None else barriers_in(compilation.stages[finished].text),
        before.label,
    )


def _before_membar(compilation: Compilation) -> PassRun | None:
    """The pass before membar's, if that is a separate pass: from Triton 3.9 on."""
    for before, run in itertools.pairwise(compilation.passes):
        if run.name == "membar":
            return before
    return None


def _around_lowering(compilation: Compilation) -> tuple[PassRun, PassRun]:
    """The last pass before the module becomes LLVM's dialect, and the one that makes it so."""
    lowering = compilation.first_pass("to_llvmir")
    place = compilation.passes.index(lowering)
    return compilation.passes[place - 1], lowering
