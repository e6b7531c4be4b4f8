"""What is known of configs where no time was taken: estimates, by which sweeps without a GPU are
ranked, and what a launch moves and computes, counted from its IR.
"""

import re
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

import kernellab
from kernellab.cli.demo.kernels import vector_add
from kernellab.tuning.descriptions import bytes_moved, flops_done
from kernellab.tuning.records import by_compiler
from tests.corpus import gluon_kernels
from tests.kernels.gluon_add import gluon_add
from tests.support.compiled import compiled

SIZE = 1 << 16


@pytest.fixture(scope="module")
def tuning() -> kernellab.Tuning:
    x = torch.ones(SIZE)
    return kernellab.tune(
        vector_add, lambda meta: (triton.cdiv(SIZE, meta["BLOCK"]),), x, x, torch.empty(SIZE), SIZE,
        space={"BLOCK": [16, 1024], "num_warps": [4]}, check=False, cache=False, workers=1,
        progress=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_estimated_faster_config_is_first(tuning) -> None:
    slow, fast = tuning.table["us, estimated"]
    assert 0 < fast < slow
    assert [one.number for one in by_compiler(tuning.trials)] == [1, 0]
    assert tuning.candidates(1) == [{"BLOCK": 1024, "num_warps": 4}]
    assert len(tuning.candidates()) == 2
    words = tuning._repr_mimebundle_()["text/plain"]
    assert re.search(r"estimated times.*median error of \d+%", words)
    assert re.search(r"★ 1 .*\n *★ 0 ", words)


@pytest.mark.slow
def test_estimates_are_saved(tuning, tmp_path) -> None:
    loaded = kernellab.Tuning.load(tuning.save(tmp_path / "sweep.json"))
    assert list(loaded.table["us, estimated"]) == list(tuning.table["us, estimated"])


@pytest.mark.slow
def test_of_types_alone_nothing_is_estimated() -> None:
    tuning = kernellab.tune(
        vector_add, None, "*fp32:16", "*fp32:16", "*fp32:16", "i32:16",
        space={"BLOCK": [1024]}, cache=False, workers=1, progress=False,
    )  # fmt: skip
    assert "us, estimated" not in tuning.table


# What a launch moves and computes


SIZES = {"x_ptr": 100, "y_ptr": 200, "z_ptr": 1000, "out_ptr": 5000}


@triton.jit
def updates(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.atomic_add(y_ptr + lanes, x)
    tl.store(z_ptr + lanes, x)
    tl.store(z_ptr + BLOCK + lanes, x)


def moved(kernel: Any, *types: str, **constants: Any) -> float | None:
    return bytes_moved(compiled(kernel, *types, record="stages", **constants), SIZES)[0]


def test_each_tensor_counts_once_and_twice_where_it_is_read_and_written() -> None:
    pointer = "*fp32:16"
    assert moved(updates, pointer, pointer, pointer, BLOCK=64) == 100 + 2 * 200 + 1000


def test_gluon_kernels_are_counted_from_their_ttgir() -> None:
    types = ("*fp32:16",) * 3
    assert moved(gluon_add, *types, "i32", BLOCK=128) == 100 + 200 + 1000
    copied = moved(gluon_kernels.copy_async, *types[:2], ROWS=64, COLUMNS=64)
    assert copied == 100 + 5000


@gluon.jit
def product(x_ptr, y_ptr, z_ptr):
    """z = x y for tiles of 64 x 64."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    total: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    row = gl.arange(0, 64, layout=gl.SliceLayout(1, rows))
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, rows))
    tile = row[:, None] * 64 + column[None, :]
    x = gl.allocate_shared_memory(gl.float16, [64, 64], shared, gl.load(x_ptr + tile))
    y = gl.allocate_shared_memory(gl.float16, [64, 64], shared, gl.load(y_ptr + tile))
    z = warpgroup_mma(x, y, gl.zeros((64, 64), gl.float32, total), is_async=False)
    gl.store(z_ptr + tile, gl.convert_layout(z, rows))


def test_products_that_gluon_states_itself_are_said_not_to_be_counted() -> None:
    types = ("*fp32:16",) * 3
    found = compiled(gluon_add, *types, "i32", BLOCK=128)
    assert flops_done(found, 3, {})[0] == 3 * 128
    types = ("*fp16:16", "*fp16:16", "*fp32:16")
    found = compiled(product, *types)
    assert bytes_moved(found, SIZES)[0] == 100 + 200 + 1000
    assert flops_done(found, 1, {}) == (None, "operations of ttng.warp_group_dot are not counted")
