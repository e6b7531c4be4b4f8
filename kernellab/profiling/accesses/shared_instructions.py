"""The accesses to shared memory in a kernel's PTX, and what one execution of each costs a program:
how shared memory serves a warp, in wavefronts, by its banks.

Shared memory has 32 banks of 4 bytes; a word's bank is its address over 4, modulo 32. An
instruction of a warp is served in turns of as many lanes as can take 128 bytes together: 32 lanes
of 4 bytes or less, 16 of 8, 8 of 16, and the 8 rows of a matrix of ldmatrix and stmatrix. A turn
takes as many wavefronts as there are different words in one bank; lanes that share a word share it.
CUDA C++ Programming Guide, "Shared Memory"; on an H200 the counts of 53 kernels are what this
gives, but for asynchronous copies whose pieces change their places (docs/fidelity.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy

from kernellab.interpreter.ptx import KINDS, Immediate, Instruction, Vector
from kernellab.interpreter.ptx_threads import Function, Statement, ThreadAccess, Threads
from kernellab.profiling.accesses.shared_records import SharedKind
from kernellab.records.layouts import Numbers

BANKS = 32
WORD = 4
"""Bytes of a bank's word."""
WAVEFRONT = BANKS * WORD
"""Bytes that one wavefront moves at most."""
LANES = 32
"""Lanes of a warp."""


class Wavefronts(NamedTuple):
    """What some instructions of warps cost together."""

    instructions: int
    """Those of which a lane took part."""
    wavefronts: int
    best: int
    """Wavefronts without conflicts: one for each turn."""
    ways: int
    """Wavefronts of the worst turn: 1 without conflicts, 0 where no lane took part."""
    bytes: int
    """That lanes read or write, those that share a word each for itself."""


def together(parts: Sequence[Wavefronts]) -> Wavefronts:
    """What several cost."""
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
    """What one instruction costs in every warp that executes it.

    Args:
        addresses: of each lane's first byte: shape (warps, 32).
        on: which lanes take part, of the same shape.
        size: bytes of each lane.
        each_alone: lanes that share a word take it one after the other, as those of atomics do.
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
    """One instruction of the PTX, or a part of one that does two things.

    Attributes:
        line: of the TTGIR text, that it comes from.
        loops: how many are around it.
        kind: what it is.
        cost: of one execution by a whole program.
        assumed: what is assumed of it, in words; "" where its cost follows from addresses alone.
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
    for access in Threads(function, function.threads).accesses(transfers.keys()):
        line, loops = function.statements[access.place].line, function.loops[access.place]
        for transfer in transfers[access.place]:
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
        kind: what it is.
        size: bytes of each lane's access.
        lanes: how many of a warp's lanes have an address, the first ones.
        assumed: as in `SharedInstruction`.
        in_a_row: lanes access what follows one address together, one after the other.
    """

    kind: SharedKind
    size: int
    lanes: int = LANES
    assumed: str = ""
    in_a_row: bool = False


_KINDS: Mapping[str, SharedKind] = {
    "ld": "load",
    "st": "store",
    "atom": "atomic",
    "red": "atomic",
    "ldmatrix": "ldmatrix",
    "stmatrix": "stmatrix",
}
_MATRIX = re.compile(r"\.m(\d+)n\d+\.x(\d)\.")
_ROW = 16
"""Bytes of a row of a matrix that ldmatrix and stmatrix move; a lane has the address of one row."""


def _transfers(instruction: Instruction) -> Sequence[_Transfer]:
    """How lanes access shared memory in an instruction;
    nothing for one that does not, or of which another unit moves the data.
    """
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


_AS_A_STORE = "an asynchronous copy writes as a store of the same lanes does"
_FIELD_OF_MAP = "each field of a tensor map is written by itself, and with it the rest of its word"
_WHOLE_WORDS = {"global_address": [8], "global_dim": [4], "global_stride": [4]}
"""Fields of a tensor map that are whole words, and their bytes;
the others are parts of a word, which is read and written."""


def _transfers_of_tensor_map(words: Sequence[str]) -> Sequence[_Transfer]:
    """`tensormap.replace` writes a field of the map in shared memory;
    `tensormap.cp_fenceproxy` copies the map to global memory.
    """
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
    """What the warps of a program do at one instruction, and what is assumed of it."""
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
    """`wgmma`: four warps together read the right operand, and the left one
    where registers do not hold it, each once.
    """
    instruction = statement.instruction
    shape = _SHAPE.search(instruction.opcode)
    assert shape is not None, "PTX says the shape of a product"
    m, n, k = (int(size) for size in shape.groups())
    rows = n if isinstance(instruction.operands[1], Vector) else m + n
    size = rows * k * _BITS[instruction.suffixes[-1]] // 8
    groups = warps // _WARPS_OF_WGMMA
    turns = groups * math.ceil(size / WAVEFRONT)
    return Wavefronts(groups, turns, turns, 1, groups * size)
