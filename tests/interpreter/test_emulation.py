"""The target that is emulated is the one that the kernel hears of."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.language.target_info import cuda_capability_geq, is_cuda
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab import TileKernel
from kernellab.compiler.targets import parse_target


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
