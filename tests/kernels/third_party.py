"""A small library of Triton kernels as other people write them, unaware of KernelLab."""

import torch
import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _silu(x):
    return x / (1 + tl.exp2(-x * LOG2_E))


@triton.jit
def _gated_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    gate = tl.load(gate_ptr + offsets, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, (_silu(gate) * up).to(out_ptr.dtype.element_ty), mask=mask)


def gated(gate, up):
    """silu(gate) * up."""
    out = torch.empty_like(gate)
    n = out.numel()
    _gated_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](gate, up, out, n, BLOCK=256)
    return out


class Gated(torch.autograd.Function):
    """`gated` with a backward pass that launches too."""

    @staticmethod
    def forward(context, gate, up):
        context.save_for_backward(gate, up)
        return gated(gate, up)

    @staticmethod
    def backward(context, gradient):
        gate, up = context.saved_tensors
        silu = gated(gate, torch.ones_like(gate))
        sigmoid = torch.sigmoid(gate)
        return gradient * up * (sigmoid + silu * (1 - sigmoid)), gradient * silu


@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def _matmul_inner(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a_mask, b_mask = row[:, None] < M, column[None, :] < N
        if not EVEN_K:
            a_mask = a_mask & (start + k[None, :] < K)
            b_mask = b_mask & (start + k[:, None] < K)
        a = tl.load(
            a_ptr + row[:, None] * stride_am + (start + k[None, :]) * stride_ak,
            mask=a_mask,
            other=0.0,
        )
        b = tl.load(
            b_ptr + (start + k[:, None]) * stride_bk + column[None, :] * stride_bn,
            mask=b_mask,
            other=0.0,
        )
        total = tl.dot(a, b, total, input_precision="ieee")
    c_ptrs = c_ptr + row[:, None] * stride_cm + column[None, :] * stride_cn
    tl.store(c_ptrs, total, mask=(row[:, None] < M) & (column[None, :] < N))


_matmul_kernel = triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}, num_warps=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4),
    ],
    key=["M", "N", "K"],
)(_matmul_inner)


def matmul(a, b):
    """The product of two matrices of any strides."""
    (rows, inner), columns = a.shape, b.shape[1]
    c = torch.empty((rows, columns), device=a.device, dtype=torch.float32)

    def grid(meta):
        return triton.cdiv(rows, meta["BLOCK_M"]), triton.cdiv(columns, meta["BLOCK_N"])

    _matmul_kernel[grid](a, b, c, rows, columns, inner, *a.stride(), *b.stride(), *c.stride())
    return c


@triton.jit
def _softmax_kernel(x_ptr, out_ptr, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * x_stride + offsets, mask=offsets < columns, other=-float("inf"))
        weights = tl.exp(x - tl.max(x, axis=0))
        result = weights / tl.sum(weights, axis=0)
        tl.store(out_ptr + row * out_stride + offsets, result, mask=offsets < columns)


def softmax(x):
    """Along the rows, with as many programs as the GPU holds at once: the compiled kernel is asked what it takes."""
    driver = triton.runtime.driver.active
    device = driver.get_current_device()
    properties = driver.utils.get_device_properties(device)
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    arguments = (x, out, x.stride(0), out.stride(0), rows, columns, block)
    kernel = _softmax_kernel.warmup(*arguments, num_warps=4, grid=(1,))
    kernel._init_handles()
    lanes = driver.get_current_target().warp_size
    occupancy = properties["max_num_regs"] // (kernel.n_regs * lanes * 4)
    if kernel.metadata.shared:
        occupancy = min(occupancy, properties["max_shared_mem"] // kernel.metadata.shared)
    programs = min(properties["multiprocessor_count"] * occupancy, rows)
    kernel[(programs, 1, 1)](*arguments)
    return out
