"""Accesses to shared memory, held against layouts by brute force, against conflicts known by hand, and against the machine code.

tests/test_fidelity_memory.py holds them against a GPU.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

import kernellab
from benchmarks import memory_kernels as kernels
from kernellab.interpreter.ptx.functions import functions
from kernellab.interpreter.ptx.threads import Threads
from kernellab.layouts import Layout, RegisterLayout, SharedLayout
from kernellab.memory_costs.banks import wavefronts
from kernellab.memory_costs.records import Accesses
from kernellab.memory_costs.shared_records import SharedAccess
from kernellab.viz.access_card import accesses_card
from tests.corpus.elementwise import guarded_copy
from tests.interpreter.cases import normal

# Banks


def by_hand(addresses: Iterable[int], size: int) -> int:
    """Wavefronts of one instruction: turns of lanes that take 128 bytes together, each as long as its fullest bank."""
    lanes = list(addresses)
    at_once = min(32, 128 // max(size, 4))
    total = 0
    for begin in range(0, len(lanes), at_once):
        banks = defaultdict(set)
        for address in lanes[begin : begin + at_once]:
            for word in range(address // 4, (address + size - 1) // 4 + 1):
                banks[word % 32].add(word)
        total += max(map(len, banks.values()))
    return total


LANES = numpy.arange(32)


@pytest.mark.parametrize(
    ("addresses", "size", "expected", "ways"),
    [
        (4 * LANES, 4, 1, 1),
        (8 * LANES, 4, 2, 2),
        (128 * LANES, 4, 32, 32),  # a column of 32 words a row
        (132 * LANES, 4, 1, 1),  # of 33
        (128 * LANES + 4 * LANES, 4, 1, 1),  # swizzled
        (0 * LANES, 4, 1, 1),  # one word for all
        (4 * (LANES // 2), 4, 1, 1),
        (LANES, 1, 1, 1),
        (2 * LANES, 2, 1, 1),
        (64 * LANES, 2, 16, 16),
        (8 * LANES, 8, 2, 1),  # two half-warps
        (16 * LANES, 8, 4, 2),
        (16 * LANES, 16, 4, 1),  # four quarters
        (32 * LANES, 16, 8, 2),
        (128 * LANES, 16, 32, 8),
    ],
)
def test_wavefronts_of_one_instruction(
    addresses: numpy.ndarray, size: int, expected: int, ways: int
) -> None:
    found = wavefronts(addresses[None], numpy.ones((1, 32), bool), size)
    assert (found.wavefronts, found.ways) == (expected, ways)
    assert found.wavefronts == by_hand(addresses.tolist(), size)
    assert (found.instructions, found.bytes) == (1, 32 * size)


def test_lanes_that_are_off_ask_for_nothing() -> None:
    column, half = 128 * LANES[None], LANES[None] < 16
    found = wavefronts(column, half, 4)
    assert (found.instructions, found.wavefronts, found.best, found.bytes) == (1, 16, 1, 64)
    nobody = wavefronts(column, LANES[None] < 0, 4)
    assert (nobody.instructions, nobody.wavefronts, nobody.ways) == (0, 0, 0)
    assert wavefronts(16 * LANES[None], LANES[None] < 8, 16).wavefronts == 1
    assert wavefronts(0 * column, half, 4, each_alone=True).wavefronts == 16


# What threads have in their registers

PTX = """
.visible .entry probe(.param .u64 probe_param_0)
.reqntid 64
{
	.reg .pred 	%p<4>;
	.reg .b32 	%r<20>;
	.reg .b64 	%rd<4>;
	ld.param.b64 	%rd1, [probe_param_0];
	.loc	1 3 0
	mov.u32 	%r1, %tid.x;
	mov.u32 	%r2, %ctaid.x;
	shr.u32 	%r3, %r1, 5;
	shfl.sync.idx.b32 	%r4, %r3, 0, 31, -1;
	shl.b32 	%r5, %r4, 10;
	mov.b32 	%r6, global_smem;
	add.s32 	%r7, %r6, %r5;
	mad.lo.s32 	%r8, %r2, 4096, %r7;
	setp.lt.u32 	%p1, %r1, 4;
	elect.sync 	%r9|%p2, -1;
	mov.b32 	%r10, 0;
$L__BB0_1:                              // a loop
	.loc	1 5 2
	shl.b32 	%r11, %r10, 9;
	add.s32 	%r12, %r8, %r11;
	// begin inline asm
	@%p1 st.shared.b32 [ %r12 + 8 ], %r1;
	// end inline asm
	{
	.reg .pred done;
	@%p2 ld.shared.v2.b32 {%r13, %r14}, [%r12];
	}
	.loc	1 6 2
	ld.global.b32 	%r15, [%rd1];
	st.shared.b32 	[%r15], %r1;
	shl.b32 	%r16, %r13, 2;
	st.shared.b32 	[%r16], %r1;
	add.s32 	%r10, %r10, 1;
	setp.lt.s32 	%p3, %r10, %r15;
	@%p3 bra 	$L__BB0_1;
	@!%p3 st.shared.b32 [%r7], %r1;
	ret;
}
"""


def test_what_threads_have_in_registers() -> None:
    (function,) = functions(PTX)
    assert (function.name, function.is_entry, function.threads) == ("probe", True, 64)
    places = {
        place: statement
        for place, statement in enumerate(function.statements)
        if "shared" in statement.text
    }
    assert [places[place].line for place in places] == [5, 5, 6, 6, 6]
    assert [function.loops[place] for place in places] == [1, 1, 1, 1, 0]
    store, load, equal, unknown, last = Threads(function, 64).accesses(places.keys())
    thread = numpy.arange(64)
    for access, moved in ((store, 8), (load, 0)):
        assert access.address is not None
        numpy.testing.assert_array_equal(access.address, thread // 32 * 1024 + moved)
    assert store.on is not None
    numpy.testing.assert_array_equal(store.on, thread < 4)
    assert load.on is not None
    numpy.testing.assert_array_equal(load.on, thread % 32 == 0)
    assert equal.address is not None, "the same in every thread, whatever it is"
    assert len(set(equal.address.tolist())) == 1
    assert unknown.address is None, "it comes from shared memory"
    assert last.on is not None
    assert last.on.all(), "when it runs is nothing that threads differ in"


# Layouts that a kernel chooses

ROWS: Any = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
COLUMNS: Any = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])


@gluon.jit
def turn(x, out, SIZE: gl.constexpr, rows: gl.constexpr, columns: gl.constexpr, shared: gl.constexpr):  # fmt: skip
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, rows))[None, :]
    buffer = gl.allocate_shared_memory(x.dtype.element_ty, [SIZE, SIZE], shared)
    buffer.store(gl.load(x + i * SIZE + j))
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, columns))[:, None]
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, columns))[None, :]
    gl.store(out + j * SIZE + i, buffer.load(columns))


def turned(dtype: torch.dtype, shared: Any, columns: Any = COLUMNS, size: int = 32) -> Accesses:
    x, out = normal(size, size, dtype=dtype), torch.zeros(size, size, dtype=dtype)
    return kernellab.accesses(turn, (1,), x, out, size, ROWS, columns, shared, target="sm_80")


def from_layouts(one: SharedAccess, in_registers: str, in_memory: str, size: int) -> int:
    """Wavefronts of single elements of every register: an instruction for each of a warp's registers."""
    held, placed = Layout.parse(in_registers, one.shape), Layout.parse(in_memory, one.shape)
    assert isinstance(held, RegisterLayout)
    assert isinstance(placed, SharedLayout)
    offsets = size * placed.offsets().reshape(-1)[held.all_numbers()]
    instructions = offsets[0].transpose(0, 2, 1).reshape(-1, 32)
    return sum(by_hand(addresses.tolist(), size) for addresses in instructions)


@pytest.mark.parametrize(
    ("shared", "ways"),
    [
        (gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), 32),
        (gl.SwizzledSharedLayout(1, 1, 8, [1, 0]), 4),
        (gl.SwizzledSharedLayout(1, 2, 16, [1, 0]), 2),
        (gl.SwizzledSharedLayout(1, 1, 32, [1, 0]), 1),
        (gl.PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0]), 1),
        (gl.PaddedSharedLayout.with_identity_for([[64, 2]], [32, 32], [1, 0]), 2),
    ],
)
def test_columns_of_a_tile_in_shared_memory(shared: Any, ways: int) -> None:
    store, load = turned(torch.float32, shared).shared
    assert (store.action, store.kind, store.ways) == ("local store", "store", 1)
    assert (load.action, load.kind, load.ways) == ("local load", "load", ways)
    assert (load.instructions, load.wavefronts, load.best_wavefronts) == (32, 32 * ways, 32)
    assert load.wavefronts == from_layouts(load, load.destination, load.source, 4)
    assert store.wavefronts == from_layouts(store, store.source, store.destination, 4)
    assert store.bytes == load.bytes == 4 * 32 * 32


@pytest.mark.parametrize("max_phase", [1, 4, 32])
def test_columns_of_narrow_elements(max_phase: int) -> None:
    shared = gl.SwizzledSharedLayout(1, 1, max_phase, [1, 0])
    store, load = turned(torch.float16, shared).shared
    assert store.wavefronts == from_layouts(store, store.source, store.destination, 2)
    assert load.wavefronts == from_layouts(load, load.destination, load.source, 2)
    assert load.ways == {1: 16, 4: 8, 32: 1}[max_phase]


def test_a_finding_says_how_many_ways() -> None:
    shared = gl.SwizzledSharedLayout(1, 1, 8, [1, 0])
    found = turned(torch.float32, shared)
    assert found.bank_conflicts == 3 * 32
    assert found.shared_wavefronts == 32 + 4 * 32
    assert found.shared_bytes == 2 * 4096
    (words,) = [one.what for one in found.findings if one.access in found.shared]
    assert (
        words
        == "4-way bank conflict: this local load takes 4 wavefronts each time where 1 would do"
    )
    (row,) = [
        line for line in accesses_card(found).text().splitlines() if "local load: load" in line
    ]
    assert "96 (4-way)" in row
    assert list(found.shared_table()["conflicts"]) == [0, 96]


# What the compiler makes of operations


def product(target: str, **settings: Any) -> Accesses:
    size = 128
    a, b = (normal(size, size, seed=seed, dtype=torch.float16) for seed in range(2))
    out = torch.zeros(size, size, dtype=torch.float16)
    return kernellab.accesses(kernels.matmul, (2, 2), a, b, out, size, size, M=64, N=64, K=32, target=target, **settings)  # fmt: skip


def test_operands_of_a_product_by_ldmatrix() -> None:
    """Four programs, four rounds; each warp of 2 x 2 loads half of A's and half of B's tile, 8 rows of 16 bytes a wavefront."""
    found = product("sm_80", num_stages=3)
    loads = [one for one in found.shared if one.action == "local load"]
    assert {one.kind for one in loads} == {"ldmatrix"}
    for one in loads:
        assert (one.executions, one.in_loop, one.conflicts) == (16, True, 0)
        assert one.bytes == 16 * 2 * (64 * 32 * 2)
        assert one.wavefronts == one.bytes // 128
        assert one.instructions == one.wavefronts // 4
        assert not one.is_model
    copies = [one for one in found.shared if one.kind == "async copy"]
    assert len(copies) == 6
    assert all(one.wavefronts == one.bytes // 128 for one in copies)
    assert all(one.is_model for one in copies)


def test_operands_of_a_product_by_wgmma() -> None:
    found = product("sm_90", num_stages=3)
    (one,) = [one for one in found.shared if one.kind == "wgmma"]
    assert one.is_model
    assert one.executions == 16
    assert one.bytes == 16 * 2 * (64 * 32 * 2), "each operand once"
    assert one.wavefronts == one.bytes // 128
    assert "~1,024" in accesses_card(found).text()


@triton.jit
def turned_in_a_loop(x, out, n, M: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
    for i in range(n):
        tile = tl.load(x + i * M * M + rows * M + columns)
        tl.store(out + i * M * M + columns * M + rows, tile)


@pytest.mark.parametrize("rounds", [2, 5])
def test_a_conversion_in_a_loop(rounds: int) -> None:
    x, out = normal(rounds, 32, 32), torch.zeros(rounds, 32, 32)
    found = kernellab.accesses(turned_in_a_loop, (1,), x, out, rounds, M=32, target="sm_90")
    store, load = found.shared
    assert (store.action, load.action) == ("conversion", "conversion")
    assert store.executions == load.executions == rounds
    assert store.bytes == load.bytes == rounds * 4096
    (finding,) = [one for one in found.findings if one.access is store]
    assert finding.what.startswith("conversion through shared memory in the loop: 4,096 bytes")
    assert finding.position is not None
    assert finding.position.file == __file__


def test_loads_that_the_compiler_moved_away_from_their_line() -> None:
    """Behind an assertion, into a block of their own, where PTX says line 0."""
    x, out = normal(256), torch.zeros(256)
    found = kernellab.accesses(guarded_copy, (1,), x, out, 256, BLOCK=256, target="sm_90", debug=True)  # fmt: skip
    by_kind = {one.kind: one for one in found.shared if one.action == "conversion"}
    assert by_kind["store"].instructions == by_kind["load"].instructions == 8


@triton.jit
def sums(x, out, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    total = 0.0
    for i in range(COUNT):
        total += tl.sum(tl.load(x + i * BLOCK + tl.arange(0, BLOCK)))
    for i in range(n):
        total += tl.sum(tl.load(x + i * BLOCK + tl.arange(0, BLOCK)))
    tl.store(out, total)


@pytest.mark.parametrize("count", [1, 2, 4, 12])
def test_loops_that_the_compiler_unrolls(count: int) -> None:
    """Each of four warps stores its sum, one loads the four, stores their sum, and all load that: five of each a round."""
    x, out = normal(16 * 256), torch.zeros(1)
    found = kernellab.accesses(sums, (1,), x, out, 3, COUNT=count, BLOCK=256, target="sm_90")
    by_line: Counter[int] = Counter()
    for one in found.shared:
        assert one.position is not None
        assert one.instructions == one.wavefronts == 5 * one.executions
        by_line[one.position.line] += one.executions
    assert sorted(by_line.values()) == sorted([2 * count, 2 * 3])


def test_a_kernel_without_shared_memory() -> None:
    found = kernellab.accesses(kernels.copy_whole, (1,), normal(1024), torch.zeros(1024), BLOCK=1024, target="sm_90")  # fmt: skip
    assert found.shared == ()
    assert found.shared_wavefronts == found.shared_bytes == 0
    assert "shared" not in accesses_card(found).text()


def opcodes(compilation: kernellab.Compilation) -> Counter[str]:
    found = re.findall(r"\b(LDS|STS|LDSM|STSM|ATOMS)\b", compilation.stages["sass"].text)
    return Counter(found)


KINDS = {"load": "LDS", "store": "STS", "ldmatrix": "LDSM", "stmatrix": "STSM", "atomic": "ATOMS"}


@pytest.mark.parametrize(
    ("kernel", "constants"),
    [
        (kernels.transpose, {"M": 32, "N": 32, "ROWS": 256, "COLUMNS": 256}),
        (kernels.sum_rows, {"M": 4, "N": 256}),
        (kernels.sum_columns, {"M": 64, "N": 64}),
        (kernels.running_sums, {"M": 64, "N": 32}),
    ],
)
def test_the_machine_code_has_the_same_instructions(kernel: Any, constants: Any) -> None:
    """Every warp takes part in most of them; of those that some warps sit out there is one instruction all the same."""
    x, out = normal(256, 256), torch.zeros(256, 256)
    compilation = kernellab.compile(kernel, x, out, **constants, target="sm_90", record="stages")
    assert isinstance(compilation, kernellab.Compilation)
    in_ptx = Counter(
        KINDS[kind]
        for statement in functions(compilation.stages["ptx"].text)[0].statements
        for kind in [_kind(statement.text)]
        if kind
    )
    assert in_ptx == opcodes(compilation)
    found = kernellab.accesses(kernel, (1,), x, out, **constants, target="sm_90")
    for kind, opcode in KINDS.items():
        mine = sum(one.instructions for one in found.shared if one.kind == kind)
        assert in_ptx[opcode] <= mine <= 4 * in_ptx[opcode]


def _kind(statement: str) -> str:
    found = re.search(r"\b(ldmatrix|stmatrix|ld|st|atom)\.\S*shared", statement)
    return {"ld": "load", "st": "store", "atom": "atomic"}.get(found[1], found[1]) if found else ""
