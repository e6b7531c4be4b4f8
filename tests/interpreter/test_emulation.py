"""The target that is emulated is the one that the kernel hears of."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.target_info import cuda_capability_geq, is_cuda
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab import TileKernel
from kernellab.compiler.targets import parse_target
from kernellab.errors import CompileError


@triton.jit
def which_gpu(out_ptr):
    tl.store(out_ptr, is_cuda())
    tl.store(out_ptr + 1, cuda_capability_geq(9, 0))


@pytest.mark.parametrize(
    ("target", "answers"), [("sm_90", [1, 1]), ("sm_80", [1, 0]), ("gfx942", [0, 0])]
)
def test_the_kernel_asks_which_gpu_there_is(target: str, answers: list[int]) -> None:
    out = torch.full((2,), -1, dtype=torch.int32)
    kernel = TileKernel(which_gpu.fn)
    kernel.target = parse_target(target)
    kernel[(1,)](out)
    assert out.tolist() == answers


@triton.jit
def doubled(source, target, M: tl.constexpr):
    target.store([0, 0], source.load([0, 0]) * 2)


def test_a_descriptor_of_a_tensor_under_another_type() -> None:
    x, out = torch.arange(32, dtype=torch.int32).view(4, 8), torch.zeros(4, 8, dtype=torch.int32)
    unsigned = triton.reinterpret(x, tl.uint32)
    source = TensorDescriptor(unsigned, x.shape, x.stride(), [4, 8])
    kernellab.run(doubled, (1,), source, TensorDescriptor.from_tensor(out, [4, 8]), M=4)
    assert torch.equal(out, x * 2)


@triton.jit
def narrowed(x_ptr, out_ptr, back_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    narrow = tl.load(x_ptr + lanes).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + lanes, narrow)
    tl.store(back_ptr + lanes, narrow.to(tl.float32))


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_amds_own_eight_bit_floats(name: str) -> None:
    """Rounded to nearest even, the largest number beyond the range;
    a GPU of NVIDIA's has no such type.
    """
    dtype, kind = getattr(torch, name), np.dtype(getattr(ml_dtypes, name))
    largest = float(ml_dtypes.finfo(kind).max)
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [
            rng.standard_normal(240) * 2.0 ** rng.integers(-8, 6, 240),
            [0, -0.0, 1e9, -1e9, np.inf, np.nan, 240, 0.4375, *range(8)],
        ]
    ).astype(np.float32)
    out, back = torch.zeros(256, dtype=dtype), torch.zeros(256)
    kernel = TileKernel(narrowed.fn)
    kernel.target = parse_target("gfx942")
    kernel[(1,)](torch.from_numpy(x), out, back, N=256)
    want = np.clip(x, -largest, largest).astype(kind)
    np.testing.assert_array_equal(back.numpy(), want.astype(np.float32))
    np.testing.assert_array_equal(out.view(torch.uint8).numpy(), want.view(np.uint8))
    kernel.target = parse_target("sm_90")
    with pytest.raises(CompileError, match="not supported in this architecture"):
        kernel[(1,)](torch.from_numpy(x), out, back, N=256)
