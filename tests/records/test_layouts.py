"""Layouts: against the formulas of the vendors' manuals, written out here, and against pictures that Triton itself draws.

The fragments are those of the PTX ISA, "Matrix Fragments for mma.m16n8k8", "... m16n8k16", "... m16n8k32", "Register Fragments for
wgmma.mma_async.m64nNk16", "ldmatrix"; the AMD ones those of AMD's matrix instruction calculator.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import numpy
import pytest
import triton
import triton.language as tl
from triton._C.libtriton import linear_layout

import kernellab
from kernellab.compiler.analyses.conversions import elements_moved
from kernellab.errors import ArgumentError, LayoutError, TargetError
from kernellab.records.layouts import (
    Holder,
    Layout,
    RegisterLayout,
    SharedLayout,
    SharedPlace,
    TensorMemoryPlace,
)
from kernellab.triton_api import layouts as triton_layouts
from kernellab.triton_api.layouts import TileType, layouts_of
from kernellab.viz.layouts import LayoutView, layout_card, layouts_view
from tests.corpus.entries import OLDEST
from tests.kernels.relayout import unused_tile
from tests.support import versions
from tests.support.compiled import compiled, of_corpus
from tests.support.layouts import blocked

only_newer = pytest.mark.skipif(OLDEST, reason="Triton 3.6 does not answer for layouts of memory")

Place = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(groupID, threadID_in_group, register) -> (row, column): how a manual states a fragment. The first
two are lane >> 2 and lane % 4 of the lane."""


def assert_fragment(layout: RegisterLayout, registers: int, place: Place) -> None:
    """One warp holds exactly what the manual says, register by register."""
    assert layout.registers_per_thread == registers
    lane, i = numpy.indices((32, registers))
    assert_held(layout.elements(0, 0, lane, i), *place(lane >> 2, lane % 4, i))


def assert_held(held: numpy.ndarray, row: Any, column: Any) -> None:
    assert (held == numpy.stack(numpy.broadcast_arrays(row, column), -1)).all()


def test_two_by_two_on_eight_threads() -> None:
    layout = blocked((2, 2), (1, 1), (2, 2), (2, 1), (1, 0))
    picture = "Layout(0,0)={0,4}, (0,1)={1,5}, (1,0)={2,6}, (1,1)={3,7}"
    card = layout_card(layout)
    assert layout.picture() == picture
    assert picture in card.text()
    assert picture in card.html()
    assert "sizePerThread" in card.text()
    assert layout.replication == 2
    assert layout.holders((0, 1)) == (Holder(0, 1, 0, 0), Holder(0, 1, 1, 0))


def test_blocked_by_hand() -> None:
    layout = blocked((16, 16), (2, 2), (8, 4), (1, 2), (1, 0))
    for row, column in numpy.ndindex(16, 16):
        lane = row // 2 * 4 + column % 8 // 2
        register = row % 2 * 2 + column % 2
        assert layout.holders((row, column)) == (Holder(register, lane, column // 8, 0),)
    assert layout.contiguous == (2, 2)
    assert layout.order == (1, 0)
    assert (layout.registers_per_thread, layout.lanes, layout.warps) == (4, 32, 2)


def mma_result(shape: tuple[int, int]) -> RegisterLayout:
    return Layout.nvidia_mma(
        shape=shape, version=2, warps_per_cta=(1, 1), instruction_shape=(16, 8)
    )


def a_f16_k16(g: Any, t: Any, i: Any) -> tuple[Any, Any]:
    return g + 8 * ((i >= 2) & (i < 4) | (i >= 6)), t * 2 + (i & 1) + 8 * (i >= 4)


def c_m16n8(g: Any, t: Any, i: Any) -> tuple[Any, Any]:
    return g + 8 * (i % 4 >= 2), i // 4 * 8 + t * 2 + (i & 1)


FRAGMENTS: list[tuple[int, int, int, int, Place]] = [
    (0, 8, 2, 4, lambda g, t, i: (g + 8 * (i >= 2), t * 2 + (i & 1))),
    (1, 8, 2, 2, lambda g, t, i: (t * 2 + i, g)),
    (0, 8, 1, 4, lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i >= 2))),
    (1, 8, 1, 2, lambda g, t, i: (t + 4 * i, g)),
    (0, 16, 2, 8, a_f16_k16),
    (1, 16, 2, 4, lambda g, t, i: (t * 2 + (i & 1) + 8 * (i >= 2), g)),
    (0, 16, 4, 8, lambda g, t, i: (g + 8 * (i >= 4), t * 4 + (i & 3))),
    (1, 16, 4, 4, lambda g, t, i: (t * 4 + i, g)),
    (0, 32, 4, 16, lambda g, t, i: (
        g + 8 * ((i >= 4) & (i < 8) | (i >= 12)), t * 4 + (i & 3) + 16 * (i >= 8))),
    (1, 32, 4, 8, lambda g, t, i: (t * 4 + (i & 3) + 16 * (i >= 4), g)),
]  # fmt: skip


@pytest.mark.parametrize(("operand", "k", "k_width", "registers", "place"), FRAGMENTS)
def test_operands_of_mma(operand: int, k: int, k_width: int, registers: int, place: Place) -> None:
    shape = (16, k) if operand == 0 else (k, 8)
    layout = Layout.dot_operand(
        shape=shape, operand=operand, parent=mma_result((16, 8)), k_width=k_width
    )
    assert_fragment(layout, registers, place)


def test_result_of_mma() -> None:
    assert_fragment(mma_result((16, 8)), 4, c_m16n8)


def wgmma_result(n: int) -> RegisterLayout:
    return Layout.nvidia_mma(
        shape=(64, n), version=3, warps_per_cta=(4, 1), instruction_shape=(16, n, 16)
    )


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256])
def test_accumulator_of_wgmma(n: int) -> None:
    layout = wgmma_result(n)
    assert layout.registers_per_thread == n // 2
    warp, lane, i = numpy.indices((4, 32, n // 2))
    row, column = c_m16n8(lane >> 2, lane % 4, i)
    assert_held(layout.elements(0, warp, lane, i), 16 * warp + row, column)


def test_operand_of_wgmma_in_registers() -> None:
    layout = Layout.dot_operand(shape=(64, 16), operand=0, parent=wgmma_result(8), k_width=2)
    warp, lane, i = numpy.indices((4, 32, 8))
    row, column = a_f16_k16(lane >> 2, lane % 4, i)
    assert_held(layout.elements(0, warp, lane, i), 16 * warp + row, column)


def ldmatrix(matrices: list[numpy.ndarray], lane: int, trans: bool) -> list[int]:
    """What `ldmatrix.m8n8.xN.b16` leaves in a lane: of each 8x8 matrix two elements of row lane/4 (.trans: of column lane/4)."""
    loaded = []
    for matrix in matrices:
        turned = matrix.T if trans else matrix
        loaded += turned[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2].tolist()
    return loaded


@pytest.mark.parametrize(("operand", "trans"), [(0, False), (1, True)])
def test_ldmatrix_fills_the_operands(operand: int, trans: bool) -> None:
    shape = (16, 16) if operand == 0 else (16, 8)
    layout = Layout.dot_operand(shape=shape, operand=operand, parent=mma_result((16, 8)), k_width=2)
    tile = numpy.arange(shape[0] * shape[1]).reshape(shape)
    corners = [(row, column) for column in range(0, shape[1], 8) for row in (0, 8)]
    matrices = [tile[row : row + 8, column : column + 8] for row, column in corners]
    for lane in range(32):
        held = layout.elements(lane=lane, register=numpy.arange(layout.registers_per_thread))
        assert tile[held[:, 0], held[:, 1]].tolist() == ldmatrix(matrices, lane, trans)


@pytest.mark.parametrize("size", [16, 32])
def test_mfma(size: int) -> None:
    layout = Layout.amd_mfma(
        shape=(size, size),
        version=3,
        warps_per_cta=(1, 1),
        instruction_shape=(size, size, 256 // size),
    )
    assert layout.lanes == 64
    lane, i = numpy.indices((64, size * size // 64))
    row = i // 4 * (256 // size) + 4 * (lane // size) + i % 4
    assert_held(layout.elements(lane=lane, register=i), row, lane % size)


@pytest.mark.skipif(OLDEST, reason="spelled in another way")
@pytest.mark.parametrize(
    ("version", "row"),
    [(1, lambda lane, i: 2 * i + lane // 16), (2, lambda lane, i: 8 * (lane // 16) + i)],
)
def test_wmma(version: int, row: Callable[[Any, Any], Any]) -> None:
    layout = Layout.amd_wmma(shape=(16, 16), version=version)
    assert layout.registers_per_thread == 8
    lane, i = numpy.indices((32, 8))
    assert_held(layout.elements(0, 0, lane, i), row(lane, i), lane % 16)


def test_swizzled_shared() -> None:
    layout = Layout.swizzled_shared(
        shape=(16, 64), vector=4, per_phase=2, max_phase=8, order=(1, 0)
    )
    row, column = numpy.indices((16, 64))
    places = row * 64 + (column // 4 ^ row // 2 % 8) * 4 + column % 4
    assert (layout.offsets() == places).all()
    assert_held(layout.elements(places), row, column)
    assert layout.holders((3, 1)) == (SharedPlace(3 * 64 + 4 + 1, 0),)


@pytest.mark.parametrize(("width", "mask"), [(32, 1), (64, 3), (128, 7)])
def test_nvmma_shared(width: int, mask: int) -> None:
    """The swizzle of TMA and wgmma: bits 4 to 6 of a byte's address, XOR bits 7 to 9."""
    columns = width // 2
    layout = Layout.nvmma_shared(
        shape=(32, columns), swizzling_byte_width=width, element_bit_width=16
    )
    rows, column = numpy.indices((32, columns))
    address = (rows * columns + column) * 2
    swizzled = address ^ ((address >> 7 & mask) << 4)
    assert (layout.offsets() * 2 == swizzled).all()


def layout_by_formula(layout: SharedLayout, monkeypatch: pytest.MonkeyPatch) -> SharedLayout:
    """The layout as Triton 3.6 has it, where the formulas are ours."""
    monkeypatch.setattr(triton_layouts, "_ANSWERS_FOR_MEMORY", False)
    size = "x".join(map(str, layout.shape))
    type = f"!ttg.memdesc<{size}xi32, {layout.encoding}, #ttg.shared_memory, mutable>"
    (answer,) = layouts_of([TileType(type, layout.encoding, layout.shape)])
    monkeypatch.undo()
    assert isinstance(answer, SharedLayout), answer
    return answer


@pytest.mark.sampled(3)
@only_newer
@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 16), (128, 32), (4, 16, 32)])
def test_the_formula_of_swizzled_shared_is_tritons(shape, monkeypatch) -> None:
    swizzles = itertools.product((1, 4, 8), (1, 2, 4), (1, 4, 16))
    orders = itertools.permutations(range(len(shape)))
    for order, (vector, per_phase, max_phase) in itertools.product(orders, swizzles):
        layout = Layout.swizzled_shared(
            shape=shape, vector=vector, per_phase=per_phase, max_phase=max_phase, order=order
        )
        assert layout_by_formula(layout, monkeypatch) == layout


NVMMA_SHAPES = [(512,), (8, 256), (64, 64), (512, 64), (512, 512), (2, 64, 64), (16, 2, 512)]


@pytest.mark.sampled(4)
@only_newer
@pytest.mark.parametrize("shape", NVMMA_SHAPES, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("width", [0, 32, 64, 128])
def test_the_formula_of_nvmma_shared_is_tritons(shape, transposed, width, monkeypatch) -> None:
    if versions.TRANSPOSES_UNSWIZZLED and transposed and not width:
        pytest.skip("Triton 3.8 changed what this means")
    contiguous = shape[0] if transposed else shape[-1]
    for bits in (8, 16, 32):
        fits = contiguous * bits >= 8 * width and math.prod(shape) // contiguous >= 8
        if width == 0 or (fits and not (transposed and len(shape) > 2)):
            layout = Layout.parse(
                f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, transposed = "
                f"{str(transposed).lower()}, elementBitWidth = {bits}, rank = {len(shape)}}}>",
                shape,
            )
            assert isinstance(layout, SharedLayout)
            assert layout_by_formula(layout, monkeypatch) == layout


def test_padded_shared(raised) -> None:
    layout = Layout.padded_shared(shape=(8, 32), paddings=[(32, 4), (128, 8)], order=(1, 0))
    rows, columns = numpy.indices((8, 32))
    plain = rows * 32 + columns
    assert (layout.offsets() == plain + plain // 32 * 4 + plain // 128 * 8).all()
    assert (layout.elements(36).tolist(), layout.size) == ([1, 0], 256 + 7 * 4 + 8)
    raised(LayoutError, layout.elements, 33)
    with pytest.raises(LayoutError):
        Layout.parse(layout.encoding, (16, 32))


def test_shared_linear() -> None:
    layout = Layout.shared_linear(shape=(2, 4), offset=[[1, 0], [0, 2], [0, 1]])
    assert layout.offsets().tolist() == [[0, 4, 2, 6], [1, 5, 3, 7]]


@only_newer
def test_tensor_memory() -> None:
    layout = Layout.tensor_memory(shape=(128, 64), block_m=128, block_n=64)
    assert layout.holders((5, 9)) == (TensorMemoryPlace(5, 9),)
    assert layout.elements(5, [9, 10]).tolist() == [[5, 9], [5, 10]]
    # In blocks of 64 rows, 16 rows lie in each quarter of the 128 lanes.
    half = Layout.tensor_memory(shape=(64, 64), block_m=64, block_n=64)
    assert [half.holders((row, 0))[0].row for row in (0, 15, 16, 63)] == [0, 15, 32, 111]


THROUGH_SHARED = """
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [16, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
#shared = ENCODING
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @through_shared(%x: !tt.ptr<f16>, %y: !tt.ptr<f16>) {
    %row = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>>
    %down = tt.expand_dims %row {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<64x1xi32, #rows>
    %offset = tt.broadcast %down : tensor<64x1xi32, #rows> -> tensor<64x64xi32, #rows>
    %from = tt.splat %x : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>, #rows>
    %at = tt.addptr %from, %offset : tensor<64x64x!tt.ptr<f16>, #rows>, tensor<64x64xi32, #rows>
    %tile = tt.load %at : tensor<64x64x!tt.ptr<f16>, #rows>
    %buffer = ttg.local_alloc %tile : (tensor<64x64xf16, #rows>) -> !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory>
    %again = ttg.local_load %buffer : !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory> -> tensor<64x64xf16, #columns>
    %to = tt.splat %y : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>, #columns>
    tt.store %to, %again : tensor<64x64x!tt.ptr<f16>, #columns>
    tt.return
  }
}
"""


def llvm_with(encoding: str) -> list[str]:
    """LLVM IR for gfx942 of a tile that goes through shared memory with this layout, without where its text lay."""
    made = compiled(THROUGH_SHARED.replace("ENCODING", encoding), target="gfx942")
    lines = made.stages["llir"].text.splitlines()
    return [line for line in lines if "DIFile" not in line]


@only_newer
@pytest.mark.parametrize(
    ("vector", "per_phase", "max_phase", "order"), [(4, 1, 16, (0, 1)), (8, 2, 8, (1, 0))]
)
def test_rotating_layouts_compile_to_the_code_of_their_linear_layouts(
    vector: int, per_phase: int, max_phase: int, order: tuple[int, ...]
) -> None:
    given = {"vector": vector, "per_phase": per_phase, "max_phase": max_phase, "order": order}
    layout = Layout.amd_rotating_shared(shape=(64, 64), **cast(Any, given))
    linear = Layout.shared_linear(shape=(64, 64), offset=layout.offset)
    swizzled = Layout.swizzled_shared(shape=(64, 64), **cast(Any, given))
    code = llvm_with(layout.encoding)
    assert code == llvm_with(linear.encoding)
    assert code != llvm_with(swizzled.encoding)


def test_slice_and_linear() -> None:
    parent = blocked((32, 16), (2, 2), (8, 4), (1, 2), (1, 0))
    layout = Layout.slice(shape=(32,), dim=1, parent=parent)
    for row in range(32):
        columns = {holder[1:] for c in range(16) for holder in parent.holders((row, c))}
        assert {holder[1:] for holder in layout.holders((row,))} == columns
    again = Layout.linear(
        shape=parent.shape, register=parent.register, lane=parent.lane, warp=parent.warp
    )
    assert (again.all_elements() == parent.all_elements()).all()


def test_numbers_alone_do_for_one_dimension(raised) -> None:
    plain = Layout.blocked(
        shape=64, size_per_thread=1, threads_per_warp=32, warps_per_cta=2, order=0
    )
    assert plain.shape == (64,)
    assert plain.elements(warp=1, lane=[0, 31]).tolist() == [[32], [63]]
    assert plain == blocked((64,), (1,), (32,), (2,), (0,))
    listed = Layout.linear(shape=8, register=[1], lane=[2, 4])
    assert listed.elements(lane=3, register=[0, 1]).tolist() == [[6], [7]]
    raised(
        LayoutError, Layout.blocked, shape=64, size_per_thread=cast(Any, [1.5]),
        threads_per_warp=32, warps_per_cta=2, order=0,
    )  # fmt: skip
    raised(LayoutError, Layout.linear, shape=8, register=cast(Any, 1), lane=[2, 4])
    raised(LayoutError, Layout, (32,), "#ttg.blocked<{}>")


def test_arrays_agree_with_single_answers() -> None:
    layout = blocked((8, 32), (1, 4), (8, 4), (2, 1), (1, 0))
    everything, holders = layout.all_elements(), layout.all_holders()
    assert everything.shape == (1, 2, 32, 8, 2)
    assert holders.shape == (8, 32, 2, 4)
    for index in numpy.ndindex(8, 32):
        assert [tuple(one) for one in holders[index].tolist()] == list(layout.holders(index))
        for register, lane, warp, block in layout.holders(index):
            assert tuple(everything[block, warp, lane, register]) == index
    assert (layout.vector_width(32), layout.vector_width(64)) == (4, 2)
    assert layout.vector_width(64, most_bits=64) == 1


def test_holders_of_many_elements(raised) -> None:
    layout = blocked((8, 32), (1, 4), (8, 4), (2, 1), (1, 0))
    indices = numpy.random.default_rng(0).integers(0, (8, 32), (5, 7, 2))
    found = layout.holders(indices)
    assert found.shape == (5, 7, 2, 4)
    register, lane, warp, block = numpy.moveaxis(found, -1, 0)
    held = layout.elements(block, warp, lane, register)
    assert (held == indices[:, :, None]).all()
    assert layout.holders([[0, 0], [1, 1]])[1].tolist() == [
        list(one) for one in layout.holders((1, 1))
    ]
    assert layout.holders(numpy.array([1, 1])) == layout.holders((1, 1))
    raised(LayoutError, layout.holders, [[0, 0], [8, 1]])
    raised(LayoutError, layout.holders, [[0, 0, 0]])
    raised(LayoutError, layout.holders, [[0.5, 0]])
    raised(LayoutError, layout.holders, cast(Any, [[0, 0], [1]]))


def test_places_of_many_elements() -> None:
    layout = Layout.padded_shared(shape=(16, 32), paddings=[(32, 4)], order=(1, 0))
    indices = numpy.moveaxis(numpy.indices((16, 32)), 0, -1)
    places = layout.holders(indices)
    assert places.shape == (16, 32, 1, 2)
    assert (places[..., 0, 0] == indices[..., 0] * 36 + indices[..., 1]).all()
    assert (layout.elements(places[..., 0], places[..., 1])[:, :, 0] == indices).all()


def test_picture_is_what_triton_draws() -> None:
    layout = blocked((8, 16), (2, 2), (4, 8), (1, 1), (0, 1))
    bases = [(name, [list(vector) for vector in found]) for name, found in layout.bases.items()]
    drawn = linear_layout.LinearLayout.from_bases(bases, ["dim0", "dim1"], [8, 16], True)
    text = drawn.get_distributed_view(False)
    cells = [[cell.strip() for cell in row.strip(" []").split(",")] for row in text.splitlines()]
    assert layout.cells(8, 16) == [row for row in cells if row != [""]]


def line_of(size_per_thread: int, shape: int = 4096) -> RegisterLayout:
    return blocked((shape,), (size_per_thread,), (32,), (4,), (0,))


def test_a_picture_of_one_dimension_is_folded_and_says_what_it_leaves_out() -> None:
    layout = line_of(4)
    assert layout.cells(2, 16)[1][0] == "T4:0"
    assert layout.picture().splitlines()[-1] == "elements 0 to 63 of 4,096"
    words = layout_card(layout).text()
    assert "Thread and register: elements 0 to 255 of 4,096" in words
    last = next(line for line in words.splitlines() if line.strip().startswith("240 "))
    assert last.split() == ["240", *(f"T{60 + n // 4}:{n % 4}" for n in range(16))]
    whole = layout_card(line_of(1, shape=128)).text()
    assert "Thread and register\n" in whole
    assert "T127:0" in whole


def test_what_a_picture_leaves_out_of_more_dimensions() -> None:
    shared = Layout.padded_shared(shape=(64, 64), paddings=[(64, 8)], order=(1, 0))
    assert "Offset in elements: 16 of 64 rows, 16 of 64 columns" in layout_card(shared).text()
    assert "It takes the space of 4,600 elements, 504 of them left free." in shared.describe()
    deep = blocked((2, 8, 32), (1, 1, 4), (1, 4, 8), (1, 2, 1), (2, 1, 0))
    assert "Thread and register: 16 of 32 columns, at index 0 of 2" in layout_card(deep).text()


@pytest.mark.parametrize(("before", "after"), [(4, 1), (1, 4), (2, 2), (8, 4)])
def test_what_moves_is_what_the_nearest_holders_say(before, after, raised) -> None:
    source, destination = line_of(before, 512), line_of(after, 512)
    expected: dict[str, int] = {}
    for index in range(512):
        for wanted in destination.holders((index,)):
            ways = []
            for held in source.holders((index,)):
                names = ("block", "warp", "lane", "register")
                other = [name for name in names if getattr(held, name) != getattr(wanted, name)]
                ways.append(("stays", *reversed(names)).index(other[0] if other else "stays"))
            way = ("stays", "register", "lane", "warp", "block")[min(ways)]
            expected[way] = expected.get(way, 0) + 1
    assert dict(source.moves_to(destination)) == expected
    moving = sum(count for way, count in expected.items() if way in ("lane", "warp", "block"))
    assert moving == elements_moved(source, destination)
    raised(LayoutError, source.moves_to, line_of(4))


def test_described_in_words(messages) -> None:
    layout = blocked((64, 64), (1, 8), (4, 8), (4, 1), (1, 0))
    words = layout.describe()
    assert words == messages
    assert "each thread holds 32 elements, in runs of 8 along dimension 1" in words
    assert "The warps are at 4x1 positions" in words
    assert "held once" in words
    narrow = Layout.parse(layout.encoding, (1, 64))
    assert "held 16 times, by 4 lanes times 4 warps" in narrow.describe()


BLOCKED = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
LINEAR = "#ttg.linear<{{register = [{}], lane = [[1, 0]], warp = [], block = []}}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"


@pytest.mark.parametrize(
    ("encoding", "shape"),
    [
        ("#ttg.blocked<{sizePerThread = [1, 4", (16, 16)),
        ("#blocked", (16, 16)),
        ("blocked", (16, 16)),
        ("", (16, 16)),
        (BLOCKED, (24, 16)),
        (BLOCKED, (16,)),
        (BLOCKED, (0, 16)),
        (BLOCKED.replace("[1, 4]", "[1, 3]"), (16, 16)),
        (f"#ttg.slice<{{dim = 2, parent = {BLOCKED}}}>", (16,)),
        (MMA.replace("Major = 3", "Major = 5"), (64, 64)),
        (MMA.replace("Major = 3", "Major = 9"), (64, 64)),
        (BLOCKED, (1 << 20, 2)),
        (BLOCKED, ("a", 4)),
        (BLOCKED, (4.0, 4)),
        (BLOCKED, 16),
        (BLOCKED, None),
        (None, (16, 16)),
        ("#other.layout<1>", (16, 16)),
        (LINEAR.format("[0, 3]"), (8, 8)),
        (LINEAR.format("[0, 1, 1]"), (8, 8)),
        (LINEAR.format("[0, -1]"), (8, 8)),
        (f"#ttg.slice<{{dim = 0, parent = {LINEAR.format('[0, 3]')}}}>", (8,)),
        ("#ttg.swizzled_shared<{vec = 8, perPhase = 0, maxPhase = 8, order = [1, 0]}>", (64, 64)),
        ("#ttg.swizzled_shared<{vec = 3, perPhase = 1, maxPhase = 8, order = [1, 0]}>", (64, 64)),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 17}>", (64, 64)),
        ("#ttg.amd_rotating_shared<{vec = 8, perPhase = 1, maxPhase = 7, order = [1, 0]}>", (64, 64)),
        ("#ttg.amd_rotating_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>", (64,)),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>", (4, 4)),
    ],
)  # fmt: skip
def test_bad_encodings_and_shapes(encoding: Any, shape: Any, raised) -> None:
    raised(LayoutError, Layout.parse, encoding, shape)


@pytest.mark.parametrize(
    ("encoding", "target", "words"),
    [
        (BLOCKED, "gfx942", "A warp of gfx942 has 64 lanes, and .* is for 32"),
        (MMA, "sm_80", "sm_80 has no nvidia_mma layouts of version 3"),
        (MMA, "gfx1100", "gfx1100 has no nvidia_mma"),
        (f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>", "sm_80", "no nvidia_mma layouts of version 3"),
    ],
)  # fmt: skip
def test_layouts_of_another_target(encoding: str, target: str, words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        Layout.parse(encoding, (64, 64), target)
    assert isinstance(Layout.parse(BLOCKED, (64, 64), "sm_80"), RegisterLayout)
    with pytest.raises(TargetError):
        Layout.parse(BLOCKED, (64, 64), "sm_42")


def test_what_a_layout_does_not_have(raised) -> None:
    layout: Any = Layout.parse(BLOCKED, (16, 32))
    raised(LayoutError, layout.holders, (16, 0))
    raised(LayoutError, layout.holders, (1,))
    raised(LayoutError, layout.elements, lane=numpy.arange(30, 34))
    raised(LayoutError, layout.holders, cast(Any, 5))
    raised(LayoutError, layout.elements, lane=1.5)
    raised(LayoutError, Layout.slice, shape=(16,), dim=0, parent=cast(Any, "#x"))


def test_only_misspelled_encodings_are_told_how_to_spell(raised) -> None:
    misspelled = raised(LayoutError, Layout.parse, "#blocked", (16, 16))
    assert "TTGIR" in str(misspelled)
    with pytest.raises(LayoutError) as unfit:
        Layout.parse(f"#ttg.slice<{{dim = 2, parent = {BLOCKED}}}>", (16,))
    assert "TTGIR prints it" not in str(unfit.value)


@pytest.mark.parametrize(
    "change",
    [
        ("sizePerThread", "sizePerTread"),
        ("order =", "foo = 3, order ="),
        ("order = ", "order "),
        ("blocked", "blokced"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", ["{}", "#ttg.slice<{{dim = 1, parent = {}}}>"])
def test_a_misspelled_encoding_names_the_key(change: Any, around: str, raised) -> None:
    encoding = around.format(BLOCKED.replace(*change))
    error = raised(LayoutError, Layout.parse, encoding, (64, 64) if around == "{}" else (64,))
    assert f"The encoding is {encoding}\nTriton says: " in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        (BLOCKED.replace(", order = [1, 0]", ""), "order"),
        (BLOCKED.replace("order = [1, 0]", "order = 4"), "order"),
        ("#ttg.slice<{dim = 1}>", "parent"),
        (f"#ttg.slice<{{dim = 1, paren = {BLOCKED}}}>", "paren"),
        ("#ttg.slice<{dim = 1, parent = 3}>", "parent"),
        (f"#ttg.dot_op<{{opIdx = x, parent = {BLOCKED}}}>", "opIdx"),
        ("#ttg.nvidia_mma<{version = 2, warpsPerCTA = [2, 2], instrShape = [16, 8]}>", "version"),
        ("#ttg.linear<{register = [1, 0], lane = [[0, 1]], warp = [], block = []}>", "register"),
        ("#ttg.swizzled_shared<{vec = 8, perPhase = 1, order = [1, 0]}>", "maxPhase"),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = 0, elementBitWidth = 16}>", "transposed"),
        ("#ttg.padded_shared<[32:4] {order = [1, 0], shape = [64, 64]}>", "padded_shared"),
        ("#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}>", "alignment"),
        ("#ttg.nvidia_mma<{versionMajor = 5, versionMinor = 0, warpsPerCTA = [4, 1], CGALayout = [[1, 0]], instrShape = [16, 8]}>", "CGALayout"),
        ("#ttng.tensor_memory_encoding<block_m = 128, blockN = 64, colStride = 1>", "block_m"),
    ],
)  # fmt: skip
def test_a_key_that_is_wrong_or_missing_is_named(encoding: str, words: str, raised) -> None:
    raised(LayoutError, Layout.parse, encoding, (64, 64), match=words)


def test_layouts_of_a_matmul() -> None:
    compilation = of_corpus("matmul", "sm_90")
    layouts = compilation.layouts()
    assert len(layouts) > 90
    results = [tile for tile in layouts["accumulator"] if "nvidia_mma" in tile.encoding]
    assert {tile.shape for tile in results} == {(128, 128)}
    layout: Any = results[0].layout
    lane, i = numpy.indices((32, 8))
    assert_held(layout.elements(lane=lane, register=i), *c_m16n8(lane >> 2, lane % 4, i))
    buffers = [tile for tile in layouts["a"] if tile.operation == "ttg.local_alloc"]
    assert buffers[0].shape == (3, 128, 64)
    if not OLDEST:
        assert isinstance(buffers[0].layout, SharedLayout)
        assert buffers[0].layout.shape == (128, 64)
    assert all(tile.position is not None for tile in layouts if tile.name)
    assert set(layouts.table().columns) >= {"name", "shape", "encoding"}


@pytest.mark.slow
def test_a_name_gives_the_kernels_own_value_first() -> None:
    """The predicates of the pipelined loop stand before it in the text, with the loop's names."""
    layouts = of_corpus("matmul", "sm_80").layouts()
    for name, shape, element in (("accumulator", (128, 128), "f32"), ("a", (128, 64), "f16")):
        found = layouts[name]
        in_text = [tile for tile in layouts if tile.name == name]
        assert Counter(found) == Counter(in_text)
        own = [(tile.shape[-2:], tile.element) == (shape, element) for tile in found]
        assert any(own)
        assert not all(own)
        assert own == sorted(own, reverse=True)
    assert next(tile.element for tile in layouts if tile.name == "accumulator") == "i1"
    view = layouts_view(layouts, "a").data
    assert isinstance(view, LayoutView)
    assert "f16" in view.tiles[view.left].name


def test_printed_a_line_a_tile() -> None:
    layouts = of_corpus("matmul", "sm_80").layouts()
    lines = str(layouts).splitlines()
    assert len(lines) == len(layouts)
    assert max(map(len, lines)) < 100
    tile: Any = next(one for one in layouts["accumulator"] if "#ttg.nvidia_mma" in one.encoding)
    expected = f"accumulator, line {tile.position.line}: {tile.operation}, 128x128xf32, nvidia mma"
    assert lines[layouts.tiles.index(tile)] == expected
    assert any(line.endswith("dot op of nvidia mma") for line in lines)


def test_a_snapshot_that_is_no_name(raised) -> None:
    raised(ArgumentError, of_corpus("matmul", "sm_80").layouts, cast(Any, 3))


def test_layouts_after_a_pass() -> None:
    compilation = of_corpus("matmul", "sm_90")
    before, after = (
        compilation.layouts("ttgir.convert_to_ttgpuir"),
        compilation.layouts("ttgir.accelerate_matmul"),
    )
    assert not any("nvidia_mma" in tile.encoding for tile in before["accumulator"])
    assert any("nvidia_mma" in tile.encoding for tile in after["accumulator"])


@pytest.mark.slow
def test_a_name_that_was_optimized_away(raised) -> None:
    compilation = of_corpus("histogram", "sm_90")
    runs = [run for run in compilation.passes if run.stage == "ttgir"]
    names = [set(compilation.layouts(run.label).names) for run in runs]
    gone = sorted(set().union(*names) - set(compilation.layouts().names))
    if not gone:
        pytest.skip("this version of Triton keeps every name of this kernel")
    assert gone == ["counts"]
    last = max(number for number, found in enumerate(names) if "counts" in found)
    raised(LayoutError, lambda: compilation.layouts()["counts"])
    assert compilation.layouts(runs[last].label)["counts"]


def test_a_name_that_was_optimized_away_before_there_were_layouts(raised) -> None:
    compilation = compiled(unused_tile, "*fp32:16", "*fp32:16", BLOCK=128)
    assert compilation.layouts()["x"]
    raised(LayoutError, lambda: compilation.layouts()["doubled"])
    without = compiled(unused_tile, "*fp32:16", "*fp32:16", BLOCK=128, record="stages")
    with pytest.raises(LayoutError, match="record="):
        without.layouts()["doubled"]


def test_a_name_that_never_was(raised) -> None:
    compilation = of_corpus("matmul", "sm_90")
    raised(LayoutError, lambda: compilation.layouts()["acumulator"], match="accumulator")
    raised(LayoutError, lambda: compilation.layouts()["K"])
    raised(LayoutError, lambda: compilation.layouts()["BLOCK_K"], match="BLOCK_K")
    raised(LayoutError, lambda: compilation.layouts()[cast(Any, 0)])
    unknown = "ttgir.nothing"
    raised(kernellab.KernelLabError, compilation.layouts, unknown)
    raised(kernellab.KernelLabError, compilation.layouts, "ttir")


@triton.jit
def one_number(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr) + 1)


@triton.jit
def nothing(x_ptr):
    pass


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
@pytest.mark.parametrize(("kernel", "types"), [(one_number, ["*fp32"] * 2), (nothing, ["*fp32"])])
def test_a_kernel_without_tiles_is_told_so(kernel, types, stage, raised) -> None:
    compilation = compiled(kernel, *types, record="stages")
    error = raised(kernellab.KernelLabError, compilation.layouts, stage)
    assert "ask for" not in str(error)
    assert not len(compilation.conversions())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("matmul", "sm_100"),
        ("matmul_tma_specialized", "sm_100"),
        ("matmul", "gfx942"),
        ("matmul", "gfx950"),
        ("matmul_small", "gfx1100"),
        ("matmul_tma", "sm_90"),
    ],
)
def test_every_tile_of_other_targets_has_a_layout(name: str, target: str) -> None:
    layouts = of_corpus(name, target).layouts()
    assert layouts
    known = [(tile, tile.layout.shape) for tile in layouts if tile.layout is not None]
    assert OLDEST or len(known) == len(layouts)
    for tile, shape in known:
        assert tile.shape[-len(shape) :] == shape or "memdesc" in tile.operation
