"""`kernellab.accesses`, held against counts made by hand and by brute force; tests/benchmarks/test_fidelity_memory.py holds it against a GPU."""

from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from benchmarks import memory_kernels as kernels
from kernellab.errors import OutOfBounds, TargetError
from kernellab.interpreter.execution import program
from kernellab.profiling.accesses.records import Accesses, GlobalAccess
from kernellab.viz.diagnostics import accesses_card
from tests.cases.case import normal
from tests.corpus.entries import OLDEST
from tests.corpus.launches import LAUNCHES
from tests.corpus.loader import entry
from tests.corpus.rows import softmax
from tests.kernels.interp import descriptors, recent, waiting
from tests.support import versions


def line(kernel: Any, size: int, *tensors: torch.Tensor, **settings: Any) -> Accesses:
    return kernellab.accesses(kernel, (size // 1024,), *tensors, BLOCK=1024, target="sm_90", **settings)  # fmt: skip


def test_a_copy_moves_every_sector_once() -> None:
    x, out = normal(4096), torch.zeros(4096)
    found = line(kernels.copy_whole, 4096, x, out)
    load, store = found
    assert (load.action, load.argument, load.vector_width) == ("load", "x", 4)
    assert (store.action, store.argument) == ("store", "out")
    for one in found:
        assert (one.requests, one.sectors, one.lines) == (32, 512, 128)
        assert one.useful_bytes == one.moved_bytes == one.footprint_bytes == 4096 * 4
        assert (one.sectors_per_request, one.efficiency, one.reuse_between_programs) == (16, 1, 1)
    assert found.dram_bytes_read == found.dram_bytes_written == 4096 * 4
    assert found.footprint_bytes == 2 * 4096 * 4
    assert found.findings == ()
    assert not out.any(), "the arguments themselves stay as they are"


def test_a_tensor_that_begins_inside_a_sector() -> None:
    x = normal(4096 + 4)[4:]  # 16 bytes on: still a vector of 4
    load, _ = line(kernels.copy_whole, 4096, x, torch.zeros(4096))
    assert load.vector_width == 4
    assert (load.requests, load.sectors) == (32, 32 * 17)
    assert (load.different_sectors, load.best_sectors) == (513, 512)


@pytest.mark.parametrize("stride", [1, 2, 3, 8, 16])
def test_strides_by_brute_force(stride: int) -> None:
    load, _ = line(kernels.copy_strided, 1024, normal(1024 * stride), torch.zeros(1024), STRIDE=stride)  # fmt: skip
    width = 4 if stride == 1 else 1
    per_request = []
    for warp in range(4):
        for half in range(2):
            for register in range(0, 4, width):
                first = 512 * half + 128 * warp + 4 * numpy.arange(32) + register
                per_request.append(len(set((first * stride * 4 // 32).tolist())))
    assert load.vector_width == width
    assert (load.requests, load.sectors) == (len(per_request), sum(per_request))


@triton.jit
def reverse(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + (BLOCK - 1) - at))


@pytest.mark.parametrize("begin", [0, 3])
def test_a_tile_that_is_read_backwards(begin: int) -> None:
    found = kernellab.accesses(reverse, (1,), normal(1024 + begin)[begin:], torch.zeros(1024), BLOCK=1024, target="sm_90")  # fmt: skip
    load, store = found
    assert load.vector_width == 1
    assert load.different_sectors == (128 if begin == 0 else 129)
    assert load.requests == 32
    assert load.sectors >= 32 * 16
    assert (store.requests, store.sectors) == (8, 128)


@pytest.mark.parametrize("n", [1, 127, 1024, 1025, 3001])
def test_a_mask_switches_lanes_off(n: int) -> None:
    load, store = line(kernels.copy, 4096, normal(n), torch.zeros(n), n=n)
    assert load.useful_bytes == store.useful_bytes == 4 * n
    assert (load.different_sectors, load.executions) == (-(-n // 8), 4)
    assert load.vector_width == (4 if n % 16 == 0 else 1), "of an odd bound nothing is known"


def test_lanes_that_share_elements_move_them_once() -> None:
    index = torch.zeros(1024, dtype=torch.int32)
    _, gather, _ = line(kernels.gather, 1024, normal(64), index, torch.zeros(1024))
    assert (gather.requests, gather.sectors, gather.different_sectors) == (32, 32, 1)
    assert gather.efficiency == 4


def test_lanes_of_an_atomic_that_share_an_element_take_turns() -> None:
    index = torch.arange(1024, dtype=torch.float32)
    _, own = line(kernels.add_atomically, 1024, index, torch.zeros(1024), EVERY=1)
    assert (own.action, own.vector_width, own.requests, own.sectors) == ("atomic", 4, 8, 128)
    _, one = line(kernels.add_atomically, 1024, index, torch.zeros(1), EVERY=1024)
    assert (one.vector_width, one.requests, one.sectors) == (1, 32, 32 * 32)
    assert one.reads
    assert one.writes


@pytest.mark.skipif(not versions.HAS_ATOMIC_LOADS, reason="this Triton has no tl.atomic_load")
def test_atomic_loads_and_stores_take_one_element_each() -> None:
    """Scalars are loaded by one thread of the program."""
    x, out = torch.arange(8, dtype=torch.int32), torch.zeros(2, 2, 8, dtype=torch.int32)
    found = kernellab.accesses(recent.handed_over, (2,), x, out, 5, N=8, target="sm_90")
    assert [one.action for one in found] == ["load", "store", "load", "store"]
    assert [one.vector_width for one in found] == [1, 1, 1, 1]
    assert [one.useful_bytes for one in found] == [2 * 5 * 4, (5 + 4) * 4, 2 * 4, 2 * 8 * 4]
    assert [one.requests for one in found] == [2, 2, 2, 2]


def test_only_one_of_the_threads_that_hold_an_element_stores_it() -> None:
    x, out = normal(4, 512), torch.zeros(4)
    load, store = kernellab.accesses(kernels.sum_rows, (1,), x, out, M=4, N=512, target="sm_90")
    assert (load.requests, load.sectors) == (16, 256)
    assert (store.requests, store.sectors, store.useful_bytes) == (1, 1, 16)


@pytest.mark.slow
def test_the_copies_of_a_pipelined_product() -> None:
    size = 128
    a, b = (normal(size, size, seed=seed, dtype=torch.float16) for seed in range(2))
    c = torch.zeros(size, size, dtype=torch.float16)
    found = kernellab.accesses(
        kernels.matmul, (2, 2), a, b, c, size, size, M=64, N=64, K=32, num_stages=3, target="sm_80"
    )
    copies = [one for one in found if one.action == "async copy"]
    assert len(copies) == 6
    for argument in ("a_ptr", "b_ptr"):
        mine = [one for one in copies if one.argument == argument]
        assert sum(one.useful_bytes for one in mine) == 2 * size * size * 2, (
            "two programs read each row"
        )
        assert found[argument][0].reuse_between_programs == 2
        assert [one.phase for one in mine] == ["prologue", "prologue", "loop"]
    shown = accesses_card(found).text()
    assert "async copy of a_ptr, prologue" in shown
    assert "async copy of b_ptr, loop" in shown
    phases = {access.phase for access in found.shared if access.action == "local load"}
    assert phases == ({"prologue", "loop"} if versions.PREFETCHES_BY_PARTS else {""})
    assert found.dram_bytes_read == 2 * size * size * 2
    assert found.dram_bytes_written == size * size * 2


def test_the_copy_engine_moves_blocks() -> None:
    size = 128
    a, b = (normal(size, size, seed=seed, dtype=torch.float16) for seed in range(2))
    c = torch.zeros(size, size, dtype=torch.float16)
    found = kernellab.accesses(
        kernels.matmul_by_descriptors, (2, 2), a, b, c, size, size, M=64, N=64, K=64, target="sm_90"
    )
    maps = [one for one in found if one.action == "tensor map"]
    assert [(one.requests, one.sectors) for one in maps] == [(4, 16)] * 3
    loads = [one for one in found if one.action == "TMA load"]
    assert {one.argument for one in loads} == {"a_ptr", "b_ptr"}
    assert sum(one.requests for one in loads) == 4 * 2 * 2
    assert all(one.sectors == one.requests * 64 * 64 * 2 // 32 for one in loads)
    (store,) = [one for one in found if one.action == "TMA store"]
    assert (store.requests, store.moved_bytes) == (4, size * size * 2)


def test_an_access_that_no_lane_takes_part_in_is_no_finding() -> None:
    found = line(kernels.copy, 1024, normal(8), torch.zeros(8), n=0)
    load, store = found
    assert load.executions == store.executions == 1
    assert load.requests == store.requests == 0
    assert not found.findings


def test_findings_of_strides_gathers_and_turns(messages) -> None:
    strided = line(kernels.copy_strided, 1024, normal(8192), torch.zeros(1024), STRIDE=8)
    (finding,) = strided.findings
    assert finding.what == messages
    assert "32 bytes apart" in finding.what
    assert finding.position is not None
    assert str(finding).startswith(str(finding.position))

    index = (torch.arange(1024, dtype=torch.int32) * 37) % 1024
    (finding,) = line(kernels.gather, 1024, normal(1024), index, torch.zeros(1024)).findings
    assert finding.what == messages
    assert isinstance(finding.access, GlobalAccess)
    assert finding.access.argument == "x"

    shared = line(kernels.add_atomically, 1024, normal(1024), torch.zeros(256), EVERY=4)
    (finding,) = shared.findings
    assert finding.what == messages


@gluon.jit
def store_by_pixel(y, CHANNELS: gl.constexpr, PIXELS: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr):  # fmt: skip
    """A convolution's store in NCHW; neighboring lanes lie along columns from Triton 3.7 on."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [2, 2], [1, 0])
    pixel = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    channel = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    image, place = pixel // PIXELS, pixel % PIXELS
    offsets = (image[:, None] * CHANNELS + channel[None, :]) * PIXELS + place[:, None]
    is_on = (image[:, None] < 2) & (channel[None, :] < CHANNELS)
    gl.store(y + offsets, gl.zeros((ROWS, BLOCK), gl.float16, layout), mask=is_on)


def test_a_dimension_can_have_a_step_where_the_tile_as_a_whole_has_none(messages) -> None:
    out = torch.ones(2, 16, 63, dtype=torch.float16)
    found = kernellab.accesses(store_by_pixel, (2,), out, 16, 63, ROWS=64, BLOCK=64, target="sm_90")
    (store,) = found
    assert (store.dimension, store.steps) == (1, (None, 63 * 2))
    (finding,) = found.findings
    assert "this store is strided" in finding.what
    assert finding.what == messages


@triton.jit
def gather_rows(x, index, out, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.load(index + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    tl.store(out + tl.arange(0, ROWS)[:, None] * WIDTH + column, tl.load(x + rows * WIDTH + column))


def test_neighbors_in_rows_that_follow_no_step(messages) -> None:
    index = (torch.arange(256, dtype=torch.int32) * 37) % 1024
    x, out = normal(1024 * 4), torch.zeros(256 * 4)
    found = kernellab.accesses(gather_rows, (1,), x, index, out, WIDTH=4, ROWS=256, target="sm_90")
    (load,) = (one for one in found if one.argument == "x")
    assert load.steps == (None, 4)
    (finding,) = found.findings
    assert finding.access is load
    assert finding.what == messages


def test_a_finding_of_narrow_accesses_says_what_would_do(messages) -> None:
    found = line(kernels.copy, 1024, normal(1023), torch.zeros(1023), n=1023)
    assert len(found.findings) == 2
    assert found.findings[0].what == messages
    shown = accesses_card(found).text().replace("\n", " ")
    assert found.findings[0].what in shown
    assert f"Try: {found.findings[0].advice}" in shown


@triton.jit
def copy_plane(x, out, strides, N: tl.constexpr):
    down, across = tl.load(strides), tl.load(strides + 1)
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + rows * N + columns, tl.load(x + rows * down + columns * across))


def test_a_finding_of_an_order_that_the_compiler_did_not_know() -> None:
    """Versions of Triton take different orders where they know none: one of two strides fits."""
    x, out = normal(32, 32), torch.zeros(32, 32)
    by_stride = [
        kernellab.accesses(copy_plane, (1,), x, out, torch.tensor(strides), N=32, target="sm_90")
        for strides in ([1, 32], [32, 1])
    ]
    ((finding, fitting),) = [
        (finding, 1 - number)
        for number, found in enumerate(by_stride)
        for finding in found.findings
        if "strided" in finding.what
    ]
    assert (
        f"neighboring lanes lie along dimension {fitting}, whose elements are 128 bytes apart"
        in finding.what
    )
    assert (
        f"the elements along dimension {1 - fitting} are neighbors: the compiler did not know"
        in finding.what
    )


def test_the_table_and_the_card_say_the_same() -> None:
    x, out = normal(8, 1000), torch.zeros(8, 1000)
    found = kernellab.accesses(softmax, (8,), x, out, 1000, 1000, BLOCK=1024, target="sm_90")
    table = found.table()
    assert list(table["sectors"]) == [one.sectors for one in found]
    assert len(table) == len(found) == 2
    card = accesses_card(found)
    useful = sum(one.useful_bytes for one in found) / sum(one.moved_bytes for one in found)
    for text in (card.text(), card.html()):
        assert f"{useful:.0%} of the bytes" in text
        assert f"{found.accesses[0].sectors:,}" in text
        assert "tl.load" in text
    assert "requests" in str(found.accesses[0])
    title, *lines = str(found).splitlines()
    assert title == "softmax for sm_90, grid 8x1x1"
    assert lines == [str(one) for one in (*found, *found.shared)]


def test_what_cannot_be_counted_is_an_error() -> None:
    x, out = normal(1024), torch.zeros(1024)
    with pytest.raises(TargetError, match="gfx942"):
        kernellab.accesses(kernels.copy_whole, (1,), x, out, BLOCK=1024, target="gfx942")
    with pytest.raises(OutOfBounds, match="x\\[1024\\]"):
        kernellab.accesses(kernels.copy_whole, (2,), x, out, BLOCK=1024, target="sm_90")


def test_a_kernel_is_compiled_once_for_several_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    first = line(kernels.gather, 1024, normal(64), torch.zeros(1024, dtype=torch.int32), torch.zeros(1024))  # fmt: skip

    def refuse(*arguments: object) -> str:
        raise AssertionError(f"compiled again: {arguments}")

    monkeypatch.setattr(program, "module_after", refuse)
    every_eighth = torch.arange(1024, dtype=torch.int32) * 8
    other = line(kernels.gather, 1024, normal(8192), every_eighth, torch.zeros(1024))
    assert [one.sectors for one in first] == [128, 32, 128]
    assert [one.sectors for one in other] == [128, 1024, 128]
    with pytest.raises(AssertionError, match="compiled again"):
        line(kernels.gather, 1024, normal(64), torch.zeros(1024, dtype=torch.int64), torch.zeros(1024))  # fmt: skip


def described(x: torch.Tensor, *block: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(x, list(block))


ROWS = [3, 0, 9, 9, 4, 10, 2, 7, 5, 5, 1, 8, 6, 12, 3, 0]
"""Of 11; the row 12 is outside."""


def sectors_of_rows(columns: range, height: int, width: int) -> int:
    """What gathers of ROWS move, four rows a message, of fp32 in rows of `width`."""
    moved = 0
    for first in range(0, len(ROWS), 4):
        inside = [row for row in ROWS[first : first + 4] if row < height]
        moved += len({4 * (r * width + c) // 32 for r in inside for c in columns if 0 <= c < width})
    return moved


@pytest.mark.parametrize("column", [0, 4, 8])
def test_rows_that_the_copy_engine_gathers(column: int) -> None:
    x, out = described(normal(11, 12), 1, 8), described(torch.zeros(16, 8), 8, 8)
    rows = torch.tensor(ROWS, dtype=torch.int32)
    found = kernellab.accesses(descriptors.gathered_rows, (2,), x, out, rows, column, ROWS=8, target="sm_100")  # fmt: skip
    _, gather, store = found
    assert (gather.action, gather.argument, gather.operation) == ("TMA load", "x", "ttng.async_tma_gather")  # fmt: skip
    assert (gather.executions, gather.requests) == (2, 4)
    assert gather.sectors == sectors_of_rows(range(column, column + 8), 11, 12)
    assert gather.useful_bytes == 4 * 15 * min(8, 12 - column)
    assert (store.action, store.requests, store.sectors) == ("TMA store", 2, 16)


def test_rows_that_the_copy_engine_scatters() -> None:
    x, out = normal(16, 8), described(torch.zeros(11, 12), 1, 8)
    rows = torch.tensor(ROWS, dtype=torch.int32)
    found = kernellab.accesses(
        descriptors.scattered_rows, (2,), x, out, rows, 6, ROWS=8, N=8, target="sm_100"
    )
    (scatter,) = found["out"]
    assert (scatter.action, scatter.requests) == ("TMA store", 4)
    assert scatter.sectors == sectors_of_rows(range(6, 12), 11, 12)
    assert scatter.useful_bytes == 4 * 15 * 6
    assert scatter.writes


def test_blocks_that_the_copy_engine_adds() -> None:
    x, out = normal(3, 4, 16).half(), described(torch.zeros(6, 16, dtype=torch.float16), 4, 16)
    found = kernellab.accesses(
        descriptors.reduced_into, (3,), x, out, -1, HOW="add", M=4, N=16, target="sm_90"
    )
    (added,) = found["out"]
    assert (added.action, added.executions, added.requests) == ("TMA reduction", 3, 3)
    assert (added.sectors, added.different_sectors) == (3 * 3, 3), "the block begins a row early"
    assert added.reuse_between_programs == 3
    assert added.writes


@triton.jit
def copy_blocks(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [M, N])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [M, N])
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    target.store(at, source.load(at))


# Counted on an H200 by sm__sass_inst_executed_op_tma_ld and ..._st.
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("dtype", "block", "messages"),
    [
        (torch.float16, (64, 64), 20),
        (torch.float16, (64, 128), 24),
        (torch.float16, (64, 256), 32),
        (torch.float16, (32, 16), 160),
        (torch.float32, (64, 64), 40),
        (torch.float32, (64, 128), 48),
        (torch.int8, (128, 256), 8),
    ],
)
def test_messages_of_the_copy_engine(dtype, block, messages) -> None:
    x = torch.zeros(256, 320, dtype=dtype)
    grid = (256 // block[0], triton.cdiv(320, block[1]))
    found = kernellab.accesses(copy_blocks, grid, x, x.clone(), 256, 320, *block, target="sm_90")
    moved = [one for one in found if one.action in ("TMA load", "TMA store")]
    assert [one.requests for one in moved] == [messages, messages]
    assert [one.moved_bytes for one in moved] == [x.nbytes, x.nbytes]


@pytest.mark.slow
@pytest.mark.skipif(OLDEST, reason="Triton 3.6 specializes other warps")
def test_a_product_whose_warps_are_specialized() -> None:
    """Descriptors reach the groups of warps as captured values."""
    one, launch = entry("matmul_tma_specialized"), LAUNCHES["matmul_tma_specialized"]
    m, n, k = 304, 160, 208
    found = kernellab.accesses(
        one.kernel, launch.grid, *launch.make(), target="sm_100", **one.constants, **one.options
    )
    by_argument = {
        name: sum(a.useful_bytes for a in found[name]) for name in ("a_tiles", "b_tiles", "c_tiles")
    }
    across, down = -(-n // 128), -(-m // 128)
    assert by_argument == {
        "a_tiles": 2 * m * k * across,
        "b_tiles": 2 * n * k * down,
        "c_tiles": 2 * m * n,
    }
    (a,) = found["a_tiles"]
    assert (a.requests, a.sectors) == (across * down * -(-k // 64), a.useful_bytes // 32)
    assert a.reuse_between_programs == across


def test_accesses_of_programs_that_wait() -> None:
    programs, phases = 5, 4
    count, out = torch.zeros(2, dtype=torch.int32), torch.zeros(2 * programs, dtype=torch.int32)
    x = torch.arange(programs, dtype=torch.int32)
    found = kernellab.accesses(
        waiting.grid_barrier, (programs,), count, x, out, PHASES=phases, target="sm_90"
    )
    polls = [one for one in found if one.waits]
    assert [one.argument for one in polls] == ["count_ptr", "count_ptr"]
    assert all(one.executions >= programs * phases for one in polls)
    once = [one for one in found if not one.waits and one.argument in ("count_ptr", "out_ptr")]
    assert [one.executions for one in once] == [programs * phases] * 5
    counters = [one for one in found if one.argument == "count_ptr"]
    assert [one.reuse_between_programs for one in counters] == [programs] * 4, "turns do not count"
    assert not count.any()
    assert found.table()["waits"].sum() == 2
    assert "waits for other programs" in accesses_card(found).text()


def test_functions_that_were_put_in_place_of_their_calls_are_no_rows() -> None:
    one, launch = entry("ragged_scale"), LAUNCHES["ragged_scale"]
    found = kernellab.accesses(
        one.kernel, launch.grid, *launch.make(), target="sm_90", **one.constants
    )
    assert [row.argument for row in found] == ["lengths_ptr", "lengths_ptr", "x_ptr", "out_ptr"]
    assert all(access.executions for access in found)
