"""What a check of a later stage finds: layouts move elements to other threads, no more."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab.checker.records import Findings
from kernellab.errors import KernelFault
from tests.checker.corpus.descriptor_alignment import HALF, TILE, copied, row_by_row
from tests.checker.corpus.index_overflow import PAIRS
from tests.checker.launches import normal, zeros


def told(found: Findings) -> list[tuple[Any, ...]]:
    """What the findings say, but for the source's lines."""
    return [(one.kind, one.line, one.message, one.lane, one.programs) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["ttgir.coalesce", "ttgir"])
@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.name)
def test_indices_that_wrap_before_their_layout_changes(case, stage) -> None:
    """After `coalesce`, a `ttg.convert_layout` stands between an index and its access."""
    expected = told(case.faulty.check())
    assert expected
    later = replace(case.faulty, constants={**case.faulty.constants, "stage": stage})
    assert told(later.check()) == expected
    clean = replace(case.clean, constants={**case.clean.constants, "stage": stage})
    assert not clean.check()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", PAIRS[:3], ids=lambda case: case.name)
def test_indices_of_buffer_instructions_that_wrap(case) -> None:
    """On AMD's GPUs the pointer is one for all lanes, and the tile has offsets."""
    with kernellab.interpreted(target="gfx942"):
        later = replace(case.faulty, constants={**case.faulty.constants, "stage": "ttgir"})
        assert told(later.check()) == told(case.faulty.check())
        clean = replace(case.clean, constants={**case.clean.constants, "stage": "ttgir"})
        assert not clean.check()


@gluon.jit
def in_one_layout(x_ptr, out_ptr, stride, n, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
    lanes = gl.arange(0, BLOCK, layout=LAYOUT)
    offsets = gl.program_id(0) * stride + lanes
    gl.store(out_ptr + gl.program_id(0) * BLOCK + lanes, gl.load(x_ptr + offsets % n))


@gluon.jit
def in_two_layouts(
    x_ptr, out_ptr, stride, n, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, AFTER: gl.constexpr
):
    offsets = gl.program_id(0) * stride + gl.arange(0, BLOCK, layout=LAYOUT)
    there = gl.arange(0, BLOCK, layout=AFTER)
    x = gl.load(x_ptr + gl.convert_layout(offsets, AFTER) % n)
    gl.store(out_ptr + gl.program_id(0) * BLOCK + there, x)


LAYOUT = {"LAYOUT": gl.BlockedLayout([1], [32], [4], [0])}
LAYOUTS = {**LAYOUT, "AFTER": gl.BlockedLayout([2], [32], [4], [0])}


def test_a_gluon_kernel_that_changes_the_layout_of_its_index(messages) -> None:
    said = []
    for kernel, layouts in ((in_one_layout, LAYOUT), (in_two_layouts, LAYOUTS)):
        x, out = torch.zeros(64), torch.zeros(640)
        (finding,) = kernellab.check(kernel, (5,), x, out, 1_500_000_007, 64, BLOCK=128, **layouts)
        said.append((finding.kind, finding.message.partition("; the load")[0], finding.programs))
    assert said[0] == said[1]
    assert said[0][1] == messages


@gluon.jit
def beyond(x_ptr, out_ptr, stride, BLOCK: gl.constexpr, LAYOUT: gl.constexpr, AFTER: gl.constexpr):
    offsets = gl.program_id(0) * stride + gl.arange(0, BLOCK, layout=LAYOUT)
    there = gl.arange(0, BLOCK, layout=AFTER)
    moved = gl.convert_layout(offsets, AFTER)
    gl.store(out_ptr + there, gl.load(x_ptr + moved))


def test_a_fault_tells_of_the_index_before_its_layout_changed() -> None:
    with pytest.raises(KernelFault) as caught:
        kernellab.run(beyond, (1,), torch.zeros(100), torch.zeros(128), 5, BLOCK=128, **LAYOUTS)
    assert "moved = 100, offsets = 100" in str(caught.value)


@triton.jit
def gathered(table, ids_ptr, out_ptr, far, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    lanes = tl.arange(0, ROWS)
    rows = tl.load(ids_ptr + lanes) * far
    x = table.gather(rows % 7, 0)
    places = lanes[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + places, x)


@triton.jit
def scattered(table, ids_ptr, x_ptr, far, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    lanes = tl.arange(0, ROWS)
    rows = tl.load(ids_ptr + lanes) * far
    places = lanes[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    table.scatter(tl.load(x_ptr + places), rows % 7, 0)


@pytest.mark.parametrize(("kernel", "does"), [(gathered, "load"), (scattered, "store")])
def test_rows_of_a_descriptor_that_wrap(kernel, does, messages) -> None:
    for largest, faulty in ((2, False), (7, True)):
        ids = torch.tensor([0, 1, 2, 2, 1, 0, 1, largest], dtype=torch.int32)
        table = TensorDescriptor.from_tensor(torch.zeros(8, 8), [1, 8])
        found = kernellab.check(
            kernel, (1,), table, ids, torch.zeros(8, 8), 10**9, ROWS=8, COLUMNS=8
        )
        wraps = [one for one in found if one.kind == "index-overflow"]
        assert len(wraps) == faulty
        for one in wraps:
            assert one.message == messages
            assert f"the {does} on line" in one.message


@pytest.mark.parametrize("stride", [64, 71, 72, 76, 80])
def test_a_stride_is_told_where_the_class_for_the_host_refuses_it(stride) -> None:
    x, out = normal(33, stride, dtype=HALF), zeros(32, 64, dtype=HALF)
    found = kernellab.check(copied, (1,), x, out, 33, 64, stride, **TILE)
    try:
        TensorDescriptor(x, [33, 64], [stride, 1], [32, 64])
        refused = False
    except AssertionError as error:
        refused = "strides must be 16-byte aligned" in str(error)
    assert [one.kind for one in found] == ["descriptor-alignment"] * refused


def test_the_message_has_the_numbers(messages) -> None:
    x, out = normal(33, 71, dtype=HALF), zeros(32, 64, dtype=HALF)
    (finding,) = kernellab.check(copied, (1,), x, out, 33, 71, 71, **TILE)
    assert finding.message == messages
    assert finding.argument == "x_ptr"
    (finding,) = kernellab.check(row_by_row, (4,), normal(4, 63), zeros(4, 64), 63, BLOCK=64)
    assert finding.programs == ((1, 0, 0), (2, 0, 0), (3, 0, 0))
    assert finding.message == messages


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_where_there_is_no_copy_engine_it_is_no_fault(target) -> None:
    x, out = normal(33, 71), zeros(32, 64)
    found = kernellab.check(copied, (1,), x, out, 33, 71, 71, **TILE, target=target)
    assert not found, str(found)
    assert torch.equal(x, normal(33, 71))
