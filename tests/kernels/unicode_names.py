"""Kernels with names and texts that are not ASCII; tests copy this file to paths that are not."""

import triton
import triton.language as tl


@triton.jit
def hélper(β):
    γ = β * 2.0
    return γ  # noqa: RET504


@triton.jit(noinline=True)
def дважды(β):
    return β * 2.0


@triton.jit
def scale(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    ι = tl.program_id(0) * ΒLOCK + tl.arange(0, ΒLOCK)
    α = tl.load(x_ptr + ι, mask=ι < ν, other=0.0)
    σ = tl.sum(α, axis=0)
    合計 = hélper(α) + σ
    tl.store(ζ_ptr + ι, 合計, mask=ι < ν)


@triton.jit
def called(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    tl.store(ζ_ptr, дважды(tl.load(x_ptr)))


@triton.jit
def outside(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    ι = tl.arange(0, ΒLOCK)
    合計 = 1.0; α = tl.load(x_ptr + ι + 1)  # noqa: E702  # fmt: skip
    tl.store(ζ_ptr + ι, α + 合計)


@triton.jit
def asserting(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    ι = tl.arange(0, ΒLOCK)
    tl.device_assert(ι < 50, "größer als é")
    tl.store(ζ_ptr + ι, tl.load(x_ptr + ι))


@triton.jit
def printing(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    tl.device_print("π", tl.load(x_ptr))


@triton.jit
def assembled(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    ι = tl.arange(0, ΒLOCK)
    tl.store(ζ_ptr + ι, tl.inline_asm_elementwise("wrong $0, $1;", "=r,r", [ι], tl.int32, True, 1))


@triton.jit
def misfit(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    ι = tl.arange(0, ΒLOCK)
    α = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [ι], tl.int32, True, 3)
    tl.store(ζ_ptr + ι, α)


@triton.jit
def noyau_é(x_ptr, ζ_ptr, ν, ΒLOCK: tl.constexpr):
    tl.store(ζ_ptr, tl.load(x_ptr))
