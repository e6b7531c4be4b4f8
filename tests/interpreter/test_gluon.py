"""Gluon kernels on the CPU: their TTGIR runs, shared memory, copies and barriers included."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import kernellab
from kernellab.errors import KernelFault
from tests.cases.case import iota, normal
from tests.corpus import gluon_kernels
from tests.corpus.gluon_kernels import described
from tests.kernels.asynchronous import reduces
from tests.kernels.gluon_add import gluon_add
from tests.kernels.specialized_warps import producer_and_consumer
from tests.support.compiled import source_line


def test_vector_add() -> None:
    x, y, z = normal(1000), normal(1000, seed=1), torch.full((1000,), -1.0)
    run = kernellab.run(gluon_add, (8,), x, y, z, 990, BLOCK=128)
    assert torch.equal(z[:990], (x + y)[:990])
    assert (z[990:] == -1).all()
    assert run.launch.options["stage"] == "ttgir"


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950"])
def test_transposed_through_shared_memory(target) -> None:
    x, out = iota(64 * 128, torch.float16), torch.zeros(128, 64, dtype=torch.float16)
    lanes = 32 if target.startswith("sm") else 64
    with kernellab.interpreted(target=target):
        kernellab.run(
            gluon_kernels.transpose_through_shared, (1,), x, out, ROWS=64, COLUMNS=128, LANES=lanes
        )
    assert torch.equal(out, x.reshape(64, 128).T)


@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        (gluon_kernels.copy_async, "sm_80"), (gluon_kernels.copy_async, "sm_90"),
        (gluon_kernels.copy_padded, "gfx942"),
    ],
    ids=["async-sm_80", "async-sm_90", "padded-gfx942"],
)  # fmt: skip
def test_copies(kernel, target) -> None:
    x, out = normal(64, 64), torch.zeros(64, 64)
    with kernellab.interpreted(target=target):
        kernellab.run(kernel, (1,), x, out, ROWS=64, COLUMNS=64)
    assert torch.equal(out, x)


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_copy_by_tma(target) -> None:
    """100 rows: the second program's block reaches beyond them, and nothing is written there."""
    x, out = normal(128, 64, dtype=torch.float16), torch.zeros(128, 64, dtype=torch.float16)
    with kernellab.interpreted(target=target):
        kernellab.run(
            gluon_kernels.tma_copy, (2,), described(x), described(out[:100]), ROWS=64, COLUMNS=64
        )
    assert torch.equal(out[:100], x[:100])
    assert not out[100:].any()


@gluon.jit
def buffers(out_ptr, which):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    stages = gl.allocate_shared_memory(gl.float32, [3, 128], shared)
    lanes = gl.arange(0, 128, layout=layout)
    for stage in gl.static_range(3):
        stages.index(stage).store(lanes.to(gl.float32) + 1000 * stage)
    gl.store(
        out_ptr + gl.program_id(0) * 128 + lanes,
        stages.index(which + gl.program_id(0)).load(layout),
    )


def test_programs_choose_their_own_buffers() -> None:
    out = torch.zeros(2, 128)
    kernellab.run(buffers, (2,), out, 1)
    assert torch.equal(out, torch.arange(128.0) + torch.tensor([[1000.0], [2000.0]]))


def test_a_buffer_that_is_not_there(raised) -> None:
    fault = raised(KernelFault, kernellab.run, buffers, (2,), torch.zeros(2, 128), 2)
    assert "in program (1, 0, 0)" in str(fault)
    assert "stages.index(which + gl.program_id(0))" in source_line(fault.position)


@gluon.jit
def wait_for_nothing(out_ptr):
    barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(barrier, count=2)
    mbarrier.arrive(barrier, count=1)
    mbarrier.wait(barrier, 0)
    gl.store(out_ptr, 1.0)


def test_a_wait_that_never_ends(raised) -> None:
    out = torch.zeros(1)
    fault = raised(KernelFault, kernellab.run, wait_for_nothing, (1,), out)
    assert source_line(fault.position) == "mbarrier.wait(barrier, 0)"
    assert not out.any()


def test_groups_of_warps_wait_for_each_other() -> None:
    x, out = normal(3, 640), torch.zeros(3, 640)
    kernellab.run(producer_and_consumer, (3,), x, out, 5)
    assert torch.equal(out, 2 * x)


def test_a_group_that_waits_for_what_no_other_does(raised) -> None:
    """The producer stops after three tiles, and the consumer wants a fourth."""
    x, out = normal(640), torch.zeros(640)
    fault = raised(KernelFault, kernellab.run, producer_and_consumer, (1,), x, out, 3)
    assert source_line(fault.position).startswith("mbarrier.wait(filled")
    assert torch.equal(out[:384], 2 * x[:384])
    assert not out[384:].any()


@pytest.mark.skipif(
    not hasattr(blackwell.tensor_memory_descriptor, "load_min"), reason="from Triton 3.7 on"
)
@pytest.mark.parametrize(("is_min", "of_absolute", "keeps_nan"), [(0, 0, 0), (1, 1, 0), (1, 0, 1)])
def test_extremes_on_the_way_out_of_tensor_memory(is_min, of_absolute, keeps_nan) -> None:
    x, out = normal(128, 64), torch.zeros(128)
    x[0, 5] = torch.nan
    kernellab.run(reduces, (1,), x, out, is_min, of_absolute, keeps_nan, target="sm_103")
    source = x.abs() if of_absolute else x
    right = torch.amin(source, 1) if is_min else torch.amax(source, 1)
    assert torch.equal(out[1:], right[1:])
    left = source[0][~source[0].isnan()]
    assert out[0].isnan() if keeps_nan else out[0] == (left.min() if is_min else left.max())
