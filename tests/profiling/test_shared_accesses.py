"""Accesses to shared memory against brute force, known conflicts, and the machine code."""

import json
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
from kernellab.interpreter.ptx_threads import Threads, functions
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.accesses.shared_memory import shared_instructions, together, wavefronts
from kernellab.viz.diagnostics import accesses_card
from tests.cases.case import normal
from tests.corpus import gluon_kernels
from tests.corpus.elementwise import guarded_copy
from tests.kernels.specialized_warps import producer_and_consumer
from tests.support import versions
from tests.support.compiled import of_corpus


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
def test_wavefronts_of_one_instruction(addresses, size, expected, ways) -> None:
    found = wavefronts(addresses[None], numpy.ones((1, 32), bool), size)
    assert (found.wavefronts, found.ways) == (expected, ways)
    assert found.wavefronts == by_hand(addresses.tolist(), size)
    assert (found.instructions, found.bytes) == (1, 32 * size)


def test_lanes_that_are_off_ask_for_nothing() -> None:
    column, half = 128 * LANES[None], LANES[None] < 16
    found = wavefronts(column, half, 4)
    assert (found.instructions, found.wavefronts, found.best, found.bytes) == (1, 16, 1, 64)
    no_one = wavefronts(column, LANES[None] < 0, 4)
    assert (no_one.instructions, no_one.wavefronts, no_one.ways) == (0, 0, 0)
    assert wavefronts(16 * LANES[None], LANES[None] < 8, 16).wavefronts == 1
    assert wavefronts(0 * column, half, 4, each_alone=True).wavefronts == 16


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


AHEAD = """
.visible .entry probe()
.reqntid 32
{
	.reg .b32 	%r<8>;
	mov.u32 	%r1, %tid.x;
	bra.uni 	$L__BB0_2;
$L__BB0_1:
	add.s32 	%r3, %r2, 4;
	st.shared.b32 	[%r3], %r1;
	mov.u32 	%r4, %lanemask_lt;
	st.shared.b32 	[%r4], %r1;
	mov.u32 	%r5, %smid;
	shl.b32 	%r5, %r5, 2;
	add.s32 	%r6, %r5, %r2;
	st.shared.b32 	[%r6], %r1;
	mul.lo.s32 	%r7, %r5, %r2;
	st.shared.b32 	[%r7], %r1;
	ret;
$L__BB0_2:
	shl.b32 	%r2, %r1, 2;
	bra.uni 	$L__BB0_1;
}
"""


def test_blocks_in_another_order_and_registers_of_the_hardware() -> None:
    (function,) = functions(AHEAD)
    places = [n for n, one in enumerate(function.statements) if one.text.startswith("st.shared")]
    later, masks, moved, scaled = Threads(function, 32).accesses(places)
    assert later.address is not None
    numpy.testing.assert_array_equal(later.address, 4 * LANES + 4)
    assert masks.address is None
    assert moved.address is not None, "moved by the same number in every thread"
    numpy.testing.assert_array_equal(moved.address - moved.address[0], 4 * LANES)
    assert scaled.address is None, "by how much lanes are apart is not known"


ROWS: Any = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
COLUMNS: Any = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
SIZE = 32


@gluon.jit
def turn(x, out, said, SIZE: gl.constexpr, rows: gl.constexpr, columns: gl.constexpr, shared: gl.constexpr, ASK: gl.constexpr):  # fmt: skip
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, rows))[None, :]
    buffer = gl.allocate_shared_memory(x.dtype.element_ty, [SIZE, SIZE], shared)
    buffer.store(gl.load(x + i * SIZE + j))
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, columns))[:, None]
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, columns))[None, :]
    turned = buffer.load(columns)
    gl.store(out + j * SIZE + i, turned)
    if ASK:
        gl.store(said, gl.bank_conflicts(turned.type, buffer.type))


def arguments(dtype: torch.dtype, shared: Any, ask: bool = False) -> tuple[Any, ...]:
    x, out = normal(SIZE, SIZE, dtype=dtype), torch.zeros(SIZE, SIZE, dtype=dtype)
    said = torch.zeros(1, dtype=torch.int32)
    return x, out, said, SIZE, ROWS, COLUMNS, shared, ask


def turned(dtype: torch.dtype, shared: Any) -> Accesses:
    return kernellab.accesses(turn, (1,), *arguments(dtype, shared), target="sm_80")


def swizzled(per_phase: int, max_phase: int) -> tuple[Any, numpy.ndarray]:
    """A layout whose elements are permuted one by one, and the offset of each element."""
    row, column = numpy.indices((SIZE, SIZE))
    offsets = SIZE * row + (column ^ row // per_phase % max_phase)
    return gl.SwizzledSharedLayout(1, per_phase, max_phase, [1, 0]), offsets


def padded(interval: int, padding: int) -> tuple[Any, numpy.ndarray]:
    """A layout with room after every so many elements, and the offset of each element."""
    plain = numpy.arange(SIZE * SIZE).reshape(SIZE, SIZE)
    layout = gl.PaddedSharedLayout.with_identity_for([[interval, padding]], [SIZE, SIZE], [1, 0])
    return layout, plain + plain // interval * padding


def by_lines(offsets: numpy.ndarray, size: int) -> int:
    """Wavefronts where each instruction of a warp takes one row of offsets."""
    return sum(by_hand((size * line).tolist(), size) for line in offsets)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("layout", "ways"),
    [
        (swizzled(1, 1), 32),
        (swizzled(1, 8), 4),
        (swizzled(2, 16), 2),
        (swizzled(1, 32), 1),
        (padded(32, 1), 1),
        (padded(64, 2), 2),
    ],
)
def test_columns_of_a_tile_in_shared_memory(layout: tuple[Any, numpy.ndarray], ways: int) -> None:
    shared, offsets = layout
    store, load = turned(torch.float32, shared).shared
    assert (store.action, store.ways, store.wavefronts) == ("local store", 1, by_lines(offsets, 4))
    assert (load.action, load.kind, load.ways) == ("local load", "load", ways)
    assert (load.instructions, load.wavefronts, load.best_wavefronts) == (32, 32 * ways, 32)
    assert load.wavefronts == by_lines(offsets.T, 4)
    assert store.bytes == load.bytes == 4 * SIZE * SIZE


@pytest.mark.parametrize(("max_phase", "ways"), [(1, 16), (4, 8), (32, 1)])
def test_columns_of_narrow_elements(max_phase: int, ways: int) -> None:
    shared, offsets = swizzled(1, max_phase)
    _, load = turned(torch.float16, shared).shared
    assert (load.wavefronts, load.ways) == (by_lines(offsets.T, 2), ways)


@pytest.mark.skipif(not hasattr(gl, "bank_conflicts"), reason="this Triton does not say")
@pytest.mark.parametrize("layout", [swizzled(1, 1), swizzled(1, 8), swizzled(2, 16), swizzled(1, 32)])  # fmt: skip
def test_triton_says_as_many_conflicts(layout: tuple[Any, numpy.ndarray]) -> None:
    """Gluon's bank_conflicts counts those of one instruction."""
    given = arguments(torch.float32, layout[0], ask=True)
    kernellab.run(turn, (1,), *given)
    load = turned(torch.float32, layout[0]).shared[-1]
    assert load.conflicts == given[2].item() * load.instructions


def test_a_finding_says_how_many_ways(messages) -> None:
    found = turned(torch.float32, swizzled(1, 8)[0])
    assert (found.bank_conflicts, found.shared_wavefronts) == (3 * 32, 32 + 4 * 32)
    assert found.shared_bytes == 2 * 4096
    (words,) = [one.what for one in found.findings if one.access in found.shared]
    assert words == messages
    (row,) = [line for line in accesses_card(found).text().splitlines() if " 96 (4-way)" in line]
    assert row.split()[:2] == ["local", "load"]
    assert list(found.shared_table()["conflicts"]) == [0, 96]
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["shared"][1]["wavefronts"] == 128
    assert plain["findings"] == [str(one) for one in found.findings]


def test_groups_of_warps() -> None:
    """Four warps store five tiles and four others load them, in each of three programs."""
    x, out = normal(3, 640), torch.zeros(3, 640)
    found = kernellab.accesses(producer_and_consumer, (3,), x, out, 5, target="sm_90")
    for action in ("local store", "local load"):
        (one,) = [one for one in found.shared if one.action == action]
        assert (one.executions, one.in_loop, bool(one.assumed)) == (15, True, False)
        assert (one.instructions, one.wavefronts, one.bytes) == (60, 60, 15 * 4 * 128)


def product(target: str, **settings: Any) -> Accesses:
    size = 128
    a, b = (normal(size, size, seed=seed, dtype=torch.float16) for seed in range(2))
    out = torch.zeros(size, size, dtype=torch.float16)
    return kernellab.accesses(kernels.matmul, (2, 2), a, b, out, size, size, M=64, N=64, K=32, target=target, **settings)  # fmt: skip


@pytest.mark.skipif(versions.PREFETCHES_BY_PARTS, reason="some of the loads are before the loop")
def test_operands_of_a_product_by_ldmatrix() -> None:
    """Four programs, four rounds; each warp of 2 x 2 loads half of A's and half of B's tile, 8 rows of 16 bytes a wavefront."""
    found = product("sm_80", num_stages=3)
    loads = [one for one in found.shared if one.action == "local load"]
    assert {one.kind for one in loads} == {"ldmatrix"}
    for one in loads:
        assert (one.executions, one.in_loop, one.conflicts) == (16, True, 0)
        assert (one.bytes, one.wavefronts) == (16 * 2 * (64 * 32 * 2), one.bytes // 128)
        assert one.instructions == one.wavefronts // 4
        assert not one.assumed
    copies = [one for one in found.shared if one.kind == "async copy"]
    assert len(copies) == 6
    assert all(one.wavefronts == one.bytes // 128 for one in copies)
    assert all(one.assumed for one in copies)


def test_operands_of_a_product_by_wgmma() -> None:
    found = product("sm_90", num_stages=3)
    (one,) = [one for one in found.shared if one.kind == "wgmma"]
    assert one.assumed
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
def test_a_conversion_in_a_loop(rounds: int, messages) -> None:
    x, out = normal(rounds, 32, 32), torch.zeros(rounds, 32, 32)
    found = kernellab.accesses(turned_in_a_loop, (1,), x, out, rounds, M=32, target="sm_90")
    store, load = found.shared
    assert (store.action, load.action) == ("conversion", "conversion")
    assert store.executions == load.executions == rounds
    assert store.bytes == load.bytes == rounds * 4096
    (finding,) = [one for one in found.findings if one.access is store]
    assert finding.what == messages
    assert finding.position is not None
    assert finding.position.file == __file__


LOADS = """.entry f() .reqntid 32 {{
    .reg .b32 %r<9>;
    mov.u32 %r1, %tid.x;
    mad.lo.s32 %r2, %r1, {step}, {first};
    ld.shared.b32 %r3, [%r2];
    ld.shared.v2.b32 {{%r4, %r5}}, [%r2+4];
    {between};
    ld.shared.b32 %r6, [%r2+12];
}}"""


@pytest.mark.parametrize(
    ("step", "first", "between", "instructions", "wavefronts"),
    [
        (512, 0, "nop", 1, 32),
        (512, 8, "nop", 3, 96),
        (512, 0, "bar.sync 0", 3, 96),
        (16, 0, "nop", 1, 4),
    ],
)
def test_ptxas_joins_loads_of_neighbors(step, first, between, instructions, wavefronts) -> None:
    """Their 16 bytes are one LDS.128 if they are aligned and nothing is between them."""
    text = LOADS.format(step=step, first=first, between=between)
    (function,) = functions(text)
    cost = together([one.cost for one in shared_instructions(function, lambda _: range(1))])
    assert (cost.instructions, cost.wavefronts) == (instructions, wavefronts)


def test_loads_that_the_compiler_moved_to_their_use() -> None:
    """Half of what gluon_copy_async loads, LLVM puts beside the store to global memory."""
    x, out = normal(64, 64), torch.zeros(64, 64)
    found = kernellab.accesses(gluon_kernels.copy_async, (1,), x, out, ROWS=64, COLUMNS=64, target="sm_90")  # fmt: skip
    assert [one.action for one in found.shared] == ["async copy", "local load"]
    copy, load = found.shared
    assert load.bytes == copy.bytes == 4 * 64 * 64


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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("count", [1, 2, 4, 12])
def test_loops_that_the_compiler_unrolls(count: int) -> None:
    """Four warps store a sum each; up to Triton 3.7, one loads these and stores all: five each."""
    x, out = normal(16 * 256), torch.zeros(1)
    found = kernellab.accesses(sums, (1,), x, out, 3, COUNT=count, BLOCK=256, target="sm_90")
    by_line: Counter[int] = Counter()
    for one in found.shared:
        assert one.position is not None
        each = 4 if versions.REDUCES_IN_ONE_ROUND else 5
        assert one.instructions == one.wavefronts == each * one.executions
        by_line[one.position.line] += one.executions
    assert sorted(by_line.values()) == sorted([2 * count, 2 * 3])


def test_a_kernel_without_shared_memory() -> None:
    found = kernellab.accesses(
        kernels.copy_whole, (1,), normal(1024), torch.zeros(1024), BLOCK=1024, target="sm_90"
    )
    assert found.shared == ()
    assert found.shared_wavefronts == found.shared_bytes == 0
    assert "shared" not in accesses_card(found).text()


OPCODES = {
    "load": "LDS", "store": "STS", "ldmatrix": "LDSM", "stmatrix": "STSM", "atomic": "ATOMS",
    "async copy": "LDGSTS",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "softmax", "cumsum", "atomics", "histogram", "layer_norm_backward", "guarded_copy",
        "matmul_descriptors", "matmul_tma", "gluon_transpose",
    ],
)  # fmt: skip
def test_the_machine_code_has_the_same_instructions(name: str) -> None:
    """Those of tensor maps too, whose fields ptxas accesses; products by wgmma have no address."""
    if name == "matmul_descriptors" and versions.WRITES_TENSOR_MAPS_TOGETHER:
        pytest.skip("this ptxas writes several fields of a tensor map at once")
    compilation = of_corpus(name, "sm_90")
    (function,) = functions(compilation.stages["ptx"].text)
    warps = range(function.threads // 32)
    found = Counter(OPCODES.get(one.kind) for one in shared_instructions(function, lambda _: warps))
    found.pop(None, None)
    in_sass = re.findall(rf"\b({'|'.join(OPCODES.values())})\b", compilation.stages["sass"].text)
    assert found == Counter(in_sass)
