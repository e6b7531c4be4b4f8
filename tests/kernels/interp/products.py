"""Kernels of matrix products."""

import triton
import triton.language as tl

from tests.kernels.interp.tiles import tile_of


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr
):
    """c += a @ b on one tile, with c's type for the accumulator; one batch of a and c a program."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + tl.program_id(0) * M * K + tile_of(m, k, K))
    b = tl.load(b_ptr + tile_of(k, n, N))
    where = c_ptr + tl.program_id(0) * M * N + tile_of(m, n, N)
    kind: tl.constexpr = c_ptr.dtype.element_ty
    c = tl.dot(a, b, tl.load(where), input_precision=PRECISION, out_dtype=kind)
    tl.store(where, c)


@triton.jit
def batched_product(
    a_ptr, b_ptr, c_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    batch = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + batch * M * K + tile_of(m, k, K)[None, :, :])
    b = tl.load(b_ptr + batch * K * N + tile_of(k, n, N)[None, :, :])
    tl.store(c_ptr + batch * M * N + tile_of(m, n, N)[None, :, :], tl.dot(a, b))


@triton.jit
def product_of_eight_bits(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    m, n = tl.arange(0, SIZE), tl.arange(0, SIZE)
    program = tl.program_id(0) * SIZE * SIZE
    a, b = tl.load(a_ptr + program + tile_of(m, n, SIZE)), tl.load(b_ptr + tile_of(m, n, SIZE))
    tl.store(c_ptr + program + tile_of(m, n, SIZE), tl.dot(a, b, max_num_imprecise_acc=32))


@triton.jit
def product_of_transposed(a_ptr, b_ptr, c_ptr, B: tl.constexpr, S: tl.constexpr, K: tl.constexpr):
    """Both operands of three dimensions, loaded the other way round."""
    batch = tl.arange(0, B)[:, None, None]
    s, k = tl.arange(0, S), tl.arange(0, K)
    a = tl.load(a_ptr + batch * S * K + tile_of(k, s, S)[None, :, :])
    b = tl.load(b_ptr + batch * S * K + tile_of(s, k, K)[None, :, :])
    c = tl.dot(tl.permute(a, (0, 2, 1)), tl.permute(b, (0, 2, 1)))
    tl.store(c_ptr + batch * S * S + tile_of(s, s, S)[None, :, :], c)


@triton.jit
def product_of_indices(c_ptr, SIZE: tl.constexpr):
    """Symbolic tiles and one accumulator that a later use still needs, in a dot."""
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    a = (m + 2 * n).to(tl.float32)
    b = (m - n + tl.program_id(0)).to(tl.float32)
    c = (m * n).to(tl.float32)
    first = tl.dot(a, b, c, input_precision="ieee")
    second = tl.dot(a, b, first, input_precision="ieee")
    where = c_ptr + tl.program_id(0) * SIZE * SIZE + m * SIZE + n
    tl.store(where, first + second + c)


@triton.jit
def scaled_product(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr,
    A_K_PACK: tl.constexpr, B_K_PACK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """c += scaled a @ scaled b, one a, its scale and c a program; operands of e2m1 two in a byte."""
    A_BYTES: tl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    B_BYTES: tl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    A_M: tl.constexpr = M if A_K_PACK else M // A_BYTES
    A_K: tl.constexpr = K // A_BYTES if A_K_PACK else K
    B_K: tl.constexpr = K // B_BYTES if B_K_PACK else K
    B_N: tl.constexpr = N if B_K_PACK else N // B_BYTES
    program, groups = tl.program_id(0), tl.arange(0, K // 32)
    a = tl.load(a_ptr + program * A_M * A_K + tile_of(tl.arange(0, A_M), tl.arange(0, A_K), A_K))
    b = tl.load(b_ptr + tile_of(tl.arange(0, B_K), tl.arange(0, B_N), B_N))
    if a_scale_ptr is not None:
        a_scales = program * M * (K // 32) + tile_of(tl.arange(0, M), groups, K // 32)
        a_scale_ptr = tl.load(a_scale_ptr + a_scales)
    if b_scale_ptr is not None:
        b_scale_ptr = tl.load(b_scale_ptr + tile_of(tl.arange(0, N), groups, K // 32))
    where = c_ptr + program * M * N + tile_of(tl.arange(0, M), tl.arange(0, N), N)
    c = tl.dot_scaled(
        a, a_scale_ptr, A_FORMAT, b, b_scale_ptr, B_FORMAT, acc=tl.load(where), fast_math=FAST,
        lhs_k_pack=A_K_PACK, rhs_k_pack=B_K_PACK, out_dtype=c_ptr.dtype.element_ty,
    )  # fmt: skip
    tl.store(where, c)


@triton.jit
def batched_scaled_product(a_ptr, scale_ptr, b_ptr, c_ptr, B: tl.constexpr, S: tl.constexpr):
    """Three dimensions: a is e5m2 with scales, b bf16 without."""
    batch = tl.arange(0, B)[:, None, None]
    tile = batch * S * S + tile_of(tl.arange(0, S), tl.arange(0, S), S)[None, :, :]
    groups = tl.arange(0, S // 32)
    scales = batch * S * (S // 32) + tile_of(tl.arange(0, S), groups, S // 32)[None, :, :]
    a, b, scale = tl.load(a_ptr + tile), tl.load(b_ptr + tile), tl.load(scale_ptr + scales)
    tl.store(c_ptr + tile, tl.dot_scaled(a, scale, "e5m2", b, None, "bf16"))
