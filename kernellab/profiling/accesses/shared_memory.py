"""The cost of a kernel's operations in shared memory, from the addresses in its PTX; and the
numbers by which operations of different texts of a kernel are matched.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, OpResult, SSAValue

from kernellab.compiler.analyses.layouts import tile_type, value_name
from kernellab.compiler.modules import (
    enclosing,
    integer,
    kind,
    lines_of_operations,
    position_of,
    underlying_argument,
)
from kernellab.compiler.passes import LoweredText
from kernellab.interpreter.ptx import KINDS, Address, Immediate, Instruction, Vector
from kernellab.interpreter.ptx_threads import Function, Statement, ThreadAccess, Threads, functions
from kernellab.ir import flow, tt, ttg
from kernellab.ir.flow import loops_around
from kernellab.ir.operations import locate, parents
from kernellab.ir.types import element_type, is_pointer, shape
from kernellab.profiling.accesses.records import Phase, SharedAccess, SharedKind
from kernellab.records.layouts import Numbers

# Which operation is which: the n-th of its name in the module's text, and, of copies that the
# pipeliner made, the prologue's, the loop's, or the epilogue's. The compiler takes the loads of
# the first turns out, in front of the loop, and what is left of the last ones behind it.


def occurrences(module: builtin.ModuleOp) -> Mapping[Operation, int]:
    """Operation -> its number among those of its name in the text, from 1, calls left out."""
    seen: Counter[str] = Counter()
    numbers = {}
    for op in module.walk():
        if any(isinstance(parent, tt.InlinedCallOp) for parent in parents(op)):
            continue  # A copy of code that has a separate function.
        seen[kind(op)] += 1
        numbers[op] = seen[kind(op)]
    return numbers


def operations_by_line(numbers: Mapping[Operation, int], text: str) -> Mapping[int, Operation]:
    """Line in a module's text -> the operation there, by the result of `occurrences`."""
    lines = lines_of_operations(text)
    return {
        lines[kind(op)][number - 1]: op
        for op, number in numbers.items()
        if number <= len(lines.get(kind(op), ()))
    }


def phases_of(operations: Iterable[Operation]) -> Mapping[Operation, Phase]:
    """Return the phase of each operation that is both in a loop and beside it."""
    copies: dict[object, list[Operation]] = {}
    for op in operations:
        copies.setdefault((kind(op), locate(op.location).frames), []).append(op)
    phases: dict[Operation, Phase] = {}
    for several in copies.values():
        around = sorted((loops_around(op) for op in several), key=len)[-1]
        loop = around[0] if around else None
        if loop is not None and any(loop not in loops_around(op) for op in several):
            phases |= {op: _phase(op, loop) for op in several}
    return phases


def _phase(op: Operation, loop: Operation) -> Phase:
    around = [op, *parents(op)]
    if loop in around:
        return "loop"
    beside = next((outer for outer in around if outer.parent is loop.parent), None)
    if beside is None or loop.parent is None:
        return ""
    block = loop.parent
    before = block.get_operation_index(beside) < block.get_operation_index(loop)
    return "prologue" if before else "epilogue"


# The accesses to shared memory in a kernel's PTX, and what one execution of each costs a
# program: how shared memory serves a warp, in wavefronts, by its banks.
#
# Shared memory has 32 banks of 4 bytes; a word's bank is its address over 4, modulo 32. An
# instruction of a warp is served in turns of as many lanes as can take 128 bytes together: 32
# lanes of 4 bytes or less, 16 of 8, 8 of 16, and the 8 rows of a matrix of ldmatrix and
# stmatrix. A turn takes as many wavefronts as there are different words in one bank; lanes that
# share a word share it. CUDA C++ Programming Guide, "Shared Memory"; on an H200 the counts of 53
# kernels agree with this, except for asynchronous copies whose pieces change their places
# (docs/fidelity.md).

BANKS = 32
WORD = 4
"""Bytes of a bank's word."""
WAVEFRONT = BANKS * WORD
"""Bytes that one wavefront moves at most."""
LANES = 32
"""Lanes of a warp."""


class Wavefronts(NamedTuple):
    """The total cost of some instructions of warps."""

    instructions: int
    """The instructions with an active lane."""
    wavefronts: int
    best: int
    """Wavefronts without conflicts: one for each turn."""
    ways: int
    """Wavefronts of the worst turn: 1 without conflicts, 0 if no lane took part."""
    bytes: int
    """The bytes that lanes read or write; a shared word counts for each lane."""


def together(parts: Sequence[Wavefronts]) -> Wavefronts:
    """The total cost of several."""
    return Wavefronts(
        instructions=sum(part.instructions for part in parts),
        wavefronts=sum(part.wavefronts for part in parts),
        best=sum(part.best for part in parts),
        ways=max((part.ways for part in parts), default=0),
        bytes=sum(part.bytes for part in parts),
    )


def wavefronts(
    addresses: Numbers, on: numpy.ndarray, size: int, each_alone: bool = False
) -> Wavefronts:
    """The cost of one instruction in every warp that executes it.

    Args:
        addresses: of each lane's first byte: shape (warps, 32).
        on: which lanes take part, of the same shape.
        size: bytes of each lane.
        each_alone: lanes that share a word access it one after the other, as in atomics.
    """
    words_each = max(size // WORD, 1)
    turns = min(words_each, LANES)
    first = addresses.reshape(-1, LANES // turns) // WORD
    taking_part = on.reshape(first.shape)
    words = (first[..., None] + numpy.arange(words_each)).reshape(len(first), -1)
    counted = numpy.repeat(taking_part, words_each, axis=1)
    if not each_alone:
        order = numpy.argsort(numpy.where(counted, words, -1), axis=1, kind="stable")
        words = numpy.take_along_axis(words, order, 1)
        counted = numpy.take_along_axis(counted, order, 1)
        counted[:, 1:] &= (words[:, 1:] != words[:, :-1]) | ~counted[:, :-1]
    rows = numpy.arange(len(words))[:, None] * BANKS
    in_bank = numpy.bincount((rows + words % BANKS)[counted], minlength=len(words) * BANKS)
    taken = in_bank.reshape(-1, BANKS).max(axis=1)
    return Wavefronts(
        instructions=int(on.any(axis=1).sum()),
        wavefronts=int(taken.sum()),
        best=int((taken > 0).sum()),
        ways=int(taken.max(initial=0)),
        bytes=int(on.sum()) * size,
    )


@dataclass(frozen=True)
class SharedInstruction:
    """One instruction of the PTX, or one part of an instruction with two.

    Attributes:
        loops: how many are around it.
        assumed: what is assumed of it, in words; "" if its cost follows from addresses alone.
    """

    line: int
    loops: int
    kind: SharedKind
    cost: Wavefronts
    assumed: str


WarpsOf = Callable[[int], range]
"""Which warps of a program execute what comes from a line of the TTGIR text."""


def shared_instructions(function: Function, warps_of: WarpsOf) -> Iterator[SharedInstruction]:
    """The accesses of a kernel to shared memory; those of the matrix units last."""
    transfers: dict[int, Sequence[_Transfer]] = {}
    products: list[int] = []
    for place, statement in enumerate(function.statements):
        if not _MAY_ACCESS.search(statement.text):
            continue
        if moved := _transfers(statement.instruction):
            transfers[place] = moved
        elif statement.text.startswith("wgmma.mma_async"):
            products.append(place)
    accesses = {
        access.place: access
        for access in Threads(function, function.threads).accesses(transfers.keys())
    }
    joined = _joined(function, accesses, transfers)
    for place, access in accesses.items():
        line, loops = function.statements[place].line, function.loops[place]
        for transfer in joined.get(place, transfers[place]):
            cost, assumed = _accessed(transfer, access, warps_of(line))
            yield SharedInstruction(line, loops, transfer.kind, cost, assumed)
    for place in products:
        statement = function.statements[place]
        cost = _multiplied(statement, len(warps_of(statement.line)))
        yield SharedInstruction(statement.line, function.loops[place], "wgmma", cost, _OPERANDS_FIT)


_MAY_ACCESS = re.compile(r"\.shared|matrix|wgmma\.mma")


# Lanes


@dataclass(frozen=True)
class _Transfer:
    """How the lanes of a warp access shared memory in one instruction.

    Attributes:
        size: bytes of each lane's access.
        lanes: how many of a warp's lanes have an address, the first ones.
        assumed: as in `SharedInstruction`.
        in_a_row: lanes together access consecutive words from one address.
    """

    kind: SharedKind
    size: int
    lanes: int = LANES
    assumed: str = ""
    in_a_row: bool = False


_KINDS: Mapping[str, SharedKind] = {
    "ld": "load", "st": "store", "atom": "atomic", "red": "atomic", "ldmatrix": "ldmatrix",
    "stmatrix": "stmatrix",
}  # fmt: skip
_MATRIX = re.compile(r"\.m(\d+)n\d+\.x(\d)\.")
_ROW = 16
"""Bytes of a row of a matrix that ldmatrix and stmatrix move; a lane has the address of one row."""


def _transfers(instruction: Instruction) -> Sequence[_Transfer]:
    """How lanes access shared memory in an instruction; nothing if they do not themselves."""
    words = instruction.suffixes
    if not any(word.startswith("shared") for word in words) or {"async", "bulk"} & {*words[1:]}:
        return ()
    match instruction.name:
        case "ldmatrix" | "stmatrix":
            matrix = _MATRIX.search(instruction.opcode)
            assert matrix is not None, "PTX says the shape and the number of matrices"
            rows = int(matrix[1]) * int(matrix[2])
            return [_Transfer(_KINDS[instruction.name], _ROW, rows)]
        case "cp":
            size = instruction.operands[2]
            assert isinstance(size, Immediate), "PTX says how many bytes a lane copies"
            return [_Transfer("async copy", int(size.value), assumed=_AS_A_STORE)]
        case "tensormap":
            return _transfers_of_tensor_map(words)
        case name if name in _KINDS:
            bits = [KINDS[word].bits for word in words if word in KINDS][-1]
            many = next((int(word[1:]) for word in words if re.fullmatch(r"v\d", word)), 1)
            return [_Transfer(_KINDS[name], many * bits // 8)]
        case _:
            return ()


def _joined(
    function: Function,
    accesses: Mapping[int, ThreadAccess],
    transfers: Mapping[int, Sequence[_Transfer]],
) -> Mapping[int, Sequence[_Transfer]]:
    """Return the loads that ptxas joins to one of 16 bytes: aligned neighbors from one register."""
    block = 0
    pieces: dict[object, list[tuple[int, int]]] = {}
    for place, statement in enumerate(function.statements):
        if statement.labels or _ENDS_A_BLOCK.match(statement.text):
            block += 1
        where = accesses[place].address if place in accesses else None
        if where is None or not statement.text.startswith("ld."):
            continue
        address = next(each for each in statement.instruction.operands if isinstance(each, Address))
        within = where % _ROW
        if (within == within[0]).all():
            base = (int(within[0]) - address.offset) % _ROW
            chunk = (base + address.offset) // _ROW
            pieces.setdefault((block, address.base, chunk), []).append((address.offset, place))
    joined: dict[int, Sequence[_Transfer]] = {}
    for several in pieces.values():
        first, *others = (place for _, place in sorted(several))
        if others and sum(transfers[place][0].size for _, place in several) == _ROW:
            joined |= {
                first: [replace(transfers[first][0], size=_ROW)],
                **dict.fromkeys(others, ()),
            }
    return joined


_ENDS_A_BLOCK = re.compile(
    r"@?!?(%p\d+\s+)?(bra|bar|barrier|st|atom|red|cp|stmatrix|mbarrier|call)\b"
)
_AS_A_STORE = "an asynchronous copy writes as a store of the same lanes does"
_FIELD_OF_MAP = "each field of a tensor map is written by itself, and with it the rest of its word"
_WHOLE_WORDS = {"global_address": [8], "global_dim": [4], "global_stride": [4]}
"""Fields of a tensor map that are whole words, and their bytes; others are parts of a word."""


def _transfers_of_tensor_map(words: Sequence[str]) -> Sequence[_Transfer]:
    """`tensormap.replace` writes a field in shared memory; `cp_fenceproxy` copies the map out."""
    if "cp_fenceproxy" in words:
        return [_Transfer("load", WORD, assumed=_FIELD_OF_MAP, in_a_row=True)]
    field = words[words.index("tile") + 1]
    sizes = _WHOLE_WORDS.get(field, [])
    transfers = [_Transfer("store", size, assumed=_FIELD_OF_MAP) for size in sizes]
    if field == "global_stride" or not sizes:  # the stride's highest bits are part of another word
        transfers += [_Transfer(kind, WORD, assumed=_FIELD_OF_MAP) for kind in _READ_AND_WRITTEN]
    return transfers


_READ_AND_WRITTEN: tuple[SharedKind, ...] = ("load", "store")


def _accessed(transfer: _Transfer, access: ThreadAccess, warps: range) -> tuple[Wavefronts, str]:
    """The accesses of a program's warps at one instruction, and the assumptions."""
    addresses, on, assumed = access.address, access.on, transfer.assumed
    threads = numpy.arange(access.threads)
    if on is None:
        on, assumed = threads >= 0, "a mask depends on data: all lanes count"
    if addresses is None:
        addresses, assumed = threads * transfer.size, "addresses depend on data: no conflicts count"
    if transfer.in_a_row:
        addresses = addresses + threads * transfer.size
    rows = slice(warps.start, warps.stop)
    cost = wavefronts(
        addresses.astype(numpy.int64).reshape(-1, LANES)[rows],
        on.reshape(-1, LANES)[rows] & (numpy.arange(LANES) < transfer.lanes),
        transfer.size,
        each_alone=transfer.kind == "atomic",
    )
    return cost, assumed


# Matrix units

_WARPS_OF_WGMMA = 4
_SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)\.")
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
_OPERANDS_FIT = "operands of wgmma are read without conflicts"


def _multiplied(statement: Statement, warps: int) -> Wavefronts:
    """`wgmma`: four warps read the right operand, and the left if it is in memory, once each."""
    instruction = statement.instruction
    shape = _SHAPE.search(instruction.opcode)
    assert shape is not None, "PTX says the shape of a product"
    m, n, k = (int(size) for size in shape.groups())
    rows = n if isinstance(instruction.operands[1], Vector) else m + n
    size = rows * k * _BITS[instruction.suffixes[-1]] // 8
    groups = warps // _WARPS_OF_WGMMA
    turns = groups * math.ceil(size / WAVEFRONT)
    return Wavefronts(groups, turns, turns, 1, groups * size)


@dataclass(frozen=True)
class SharedCost:
    """The instructions of one kind that one operation became.

    Attributes:
        cost: of one execution of these instructions by a whole program.
        per: these instructions run once for each time that a program enters this block: the
            same, or where the compiler unrolled the loop around the operation, the block
            around the loop.
        assumed, occurrence: as in `SharedAccess`.
    """

    operation: Operation
    kind: SharedKind
    cost: Wavefronts
    block: Block
    per: Block
    assumed: str
    occurrence: int


_MAY_SHARE = (
    "ttg.convert_layout", "ttg.local_", "ttg.async_copy", "ttg.warp_specialize", "ttng.",
    "tt.reduce", "tt.scan", "tt.gather", "tt.histogram", "tt.atomic", "tt.dot",
)  # fmt: skip
"""The prefixes of operations that may access shared memory."""
_AROUND = ("tt.func", "tt.return")
"""Where groups of warps, and users of tensor memory, find each other."""


def may_share(module: builtin.ModuleOp) -> bool:
    """Whether a module may access shared memory, so that its PTX is needed."""
    return any(kind(op).startswith(_MAY_SHARE) for op in module.walk())


def shared_costs(module: builtin.ModuleOp, text: LoweredText) -> tuple[SharedCost, ...]:
    """The costs of a kernel's operations, in the order of the module.

    Args:
        module: TTGIR, in which calls may be inlined; functions still called are left out.
    """
    numbers = occurrences(module)
    operations = operations_by_line(numbers, text.ttgir)
    warps = integer(module, "ttg.num-warps") or 1
    instructions: dict[tuple[Operation, SharedKind], list[SharedInstruction]] = {}
    for function in functions(text.ptx):
        last: Operation | None = None
        for instruction in shared_instructions(
            function, lambda line: _warps_of(operations.get(line), warps)
        ):
            last = _accessing(operations.get(instruction.line)) or last
            if last is not None and function.is_entry:
                instructions.setdefault((last, instruction.kind), []).append(instruction)
    order = {op: place for place, op in enumerate(module.walk())}
    return tuple(
        _cost(op, kind, instructions[op, kind], numbers.get(op, 0))
        for op, kind in sorted(instructions, key=lambda key: order[key[0]])
    )


def _accessing(at: Operation | None) -> Operation | None:
    """The operation that accesses shared memory, of an instruction located there.

    LLVM moves loads to the uses of their values; the operation is then the nearest one that made
    the values. None if LLVM removed the line of what it moved.
    """

    def makers(op: Operation) -> Iterator[Operation]:
        return (operand.op for operand in op.operands if isinstance(operand, OpResult))

    nearest = flow.reached([] if at is None else [at], makers)
    return next((op for op in nearest if kind(op).startswith((*_MAY_SHARE, *_AROUND))), None)


def _cost(
    op: Operation, kind: SharedKind, parts: Sequence[SharedInstruction], occurrence: int
) -> SharedCost:
    """Copies of an operation beside a loop are its first or last rounds, or all without a loop."""
    around = loops_around(op)
    left = min(max(part.loops for part in parts), len(around))
    inside = op if left == len(around) else around[len(around) - left - 1]
    parts = [part for part in parts if part.loops >= left]
    assumed = next((part.assumed for part in parts if part.assumed), "")
    cost = together([part.cost for part in parts])
    return SharedCost(op, kind, cost, _block_of(op), _block_of(inside), assumed, occurrence)


def _block_of(op: Operation) -> Block:
    """The block that an operation runs with; a function runs with its first."""
    block = op.body.blocks.first if isinstance(op, tt.FuncOp) else op.parent
    assert block is not None
    return block


def _warps_of(op: Operation | None, default: int) -> range:
    """The numbers of the warps that execute an operation: of its partition or the default group."""
    if op is None:
        return range(default)
    for parent in parents(op):
        if isinstance(parent, ttg.WarpSpecializePartitionsOp):
            specialized = parent.parent_op()
            assert isinstance(specialized, ttg.WarpSpecializeOp)
            inside = [enclosing(op, region) is not None for region in parent.regions]
            return _partitions(specialized, default)[inside.index(True)]
    return range(default)


def _partitions(op: ttg.WarpSpecializeOp, default: int) -> list[range]:
    """Triton numbers the warps of larger partitions first (AllocateWarpGroups)."""
    sizes = [int(size) for size in op.partition_num_warps.get_values()]
    ranges = [range(0)] * len(sizes)
    start = default
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        ranges[index] = range(start, start + sizes[index])
        start += sizes[index]
    return ranges


_ACTIONS = {
    "ttg.convert_layout": "conversion",
    "ttg.local_alloc": "local store",
    "ttg.local_store": "local store",
    "ttg.local_load": "local load",
    "ttg.async_copy_global_to_local": "async copy",
    "tt.reduce": "reduction",
    "tt.scan": "scan",
    "tt.gather": "gather",
    "tt.histogram": "histogram",
    "tt.dot": "product",
    "ttng.warp_group_dot": "product",
    "ttng.tensormap_create": "tensor map",
    "ttg.warp_specialize": "start of warp groups",
    "tt.func": "start of the kernel",
    "tt.return": "end of the kernel",
}
_TILE_AND_BUFFER = (ttg.LocalStoreOp, ttg.AsyncCopyGlobalToLocalOp)
"""Operations whose second operand is the buffer that the first, or what it points to, goes to."""


def shared_accesses(
    costs: Iterable[SharedCost], entries: Mapping[Block, int], programs: int
) -> tuple[SharedAccess, ...]:
    """The costs of operations in a run.

    Args:
        costs: of one execution each.
        entries: how often programs entered each block but the first, which each enters once.
    """

    def entered(block: Block) -> int:
        function = block.parent_op()
        is_first = isinstance(function, tt.FuncOp) and function.body.blocks.first is block
        return programs if is_first else entries.get(block, 0)

    costs = tuple(costs)
    phases = phases_of(dict.fromkeys(cost.operation for cost in costs))
    return tuple(
        _access(cost, entered(cost.block), entered(cost.per), phases.get(cost.operation, ""))
        for cost in costs
    )


def _access(cost_of_op: SharedCost, executions: int, times: int, phase: Phase) -> SharedAccess:
    op, cost = cost_of_op.operation, cost_of_op.cost
    taken, given = _sides(op)
    tile = next(
        (value for value in (taken, given) if value and not is_pointer(element_type(value.type))),
        None,
    )
    return SharedAccess(
        operation=kind(op),
        action=_ACTIONS.get(kind(op), kind(op).split(".")[-1].replace("_", " ")),
        kind=cost_of_op.kind,
        name=_name(op),
        position=position_of(op),
        shape=shape(tile.type) if tile is not None else (),
        element=str(element_type(tile.type)) if tile is not None else "",
        source=_encoding(taken),
        destination=_encoding(given),
        in_loop=bool(loops_around(op)),
        executions=executions,
        instructions=cost.instructions * times,
        wavefronts=cost.wavefronts * times,
        best_wavefronts=cost.best * times,
        ways=cost.ways,
        bytes=cost.bytes * times,
        assumed=cost_of_op.assumed,
        occurrence=cost_of_op.occurrence,
        phase=phase,
    )


def _name(op: Operation) -> str:
    """The kernel's name of a result; for an asynchronous copy, its parameter's."""
    if isinstance(op, ttg.AsyncCopyGlobalToLocalOp):
        return underlying_argument(op.pointer)
    return value_name(op.results[0]) if op.results else ""


def _sides(op: Operation) -> tuple[SSAValue | None, SSAValue | None]:
    given = op.operands[1] if isinstance(op, _TILE_AND_BUFFER) else next(iter(op.results), None)
    return next(iter(op.operands), None), given


def _encoding(tile: SSAValue | None) -> str:
    known = tile_type(tile.type) if tile is not None else None
    return known.encoding if known is not None else ""
