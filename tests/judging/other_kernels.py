# mypy: ignore-errors
"""Submissions of other tasks than a softmax: a matmul, a layer norm, a sum of rows, a ReLU of a
sum that broadcasts, and two tasks in Gluon. Their names begin with the task's. The docstring of an
attack is the kind of the diagnostic that rejects it; honest submissions have none.
"""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@triton.jit
def tiles(
    x_ptr, y_ptr, z_ptr, M, N, K, xm, xk, yk, yn, zm, zn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KIND: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        far = k < K if MASKED else k < 1 << 20
        x = tl.load(
            x_ptr + m[:, None] * xm + k[None, :] * xk, mask=(m < M)[:, None] & far[None, :], other=0
        )
        y = tl.load(
            y_ptr + k[:, None] * yk + n[None, :] * yn, mask=far[:, None] & (n < N)[None, :], other=0
        )
        acc += tl.dot(x, y, input_precision=KIND)
    place = z_ptr + m[:, None] * zm + n[None, :] * zn
    tl.store(place, acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def dots(x_ptr, y_ptr, z_ptr, N, K, xm, xk, yk, yn, BLOCK: tl.constexpr):
    m, n, k = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + m * xm + k * xk, mask=k < K, other=0)
    y = tl.load(y_ptr + k * yk + n * yn, mask=k < K, other=0)
    tl.store(z_ptr + m * N + n, tl.sum(x * y, 0))


@triton.jit
def normal(
    x_ptr, w_ptr, b_ptr, z_ptr, N, EPS: tl.constexpr, LESS: tl.constexpr, BLOCK: tl.constexpr
):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    mean = tl.sum(x, 0) / N
    far = tl.where(at < N, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(far * far, 0) / (N - LESS) + EPS)
    w, b = tl.load(w_ptr + at, mask=at < N), tl.load(b_ptr + at, mask=at < N)
    tl.store(z_ptr + row * N + at, far * scale * w + b, mask=at < N)


@triton.jit
def statistics(x_ptr, m_ptr, s_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    mean = tl.sum(x, 0) / N
    far = tl.where(at < N, x - mean, 0.0)
    tl.store(m_ptr + row, mean)
    tl.store(s_ptr + row, tl.rsqrt(tl.sum(far * far, 0) / N + 1e-5))


@triton.jit
def scaled(x_ptr, m_ptr, s_ptr, w_ptr, b_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N)
    w, b = tl.load(w_ptr + at, mask=at < N), tl.load(b_ptr + at, mask=at < N)
    z = (x - tl.load(m_ptr + row)) * tl.load(s_ptr + row) * w + b
    tl.store(z_ptr + row * N + at, z, mask=at < N)


@triton.jit
def sums(x_ptr, z_ptr, N, END, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), 0.0
    for start in range(0, END, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * N + at, mask=at < N, other=0.0), 0)
    tl.store(z_ptr + row, total)


@triton.jit
def parts(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    tl.store(z_ptr + row * tl.num_programs(1) + tl.program_id(1), tl.sum(x, 0))


@triton.jit
def added_up(x_ptr, z_ptr, N, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + row * N + at, mask=at < N, other=0.0), 0)
    if ATOMIC:
        tl.atomic_add(z_ptr + row, part)
    else:
        tl.store(z_ptr + row, tl.load(z_ptr + row) + part)


@triton.jit
def without_a_mask(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(z_ptr + row, tl.sum(tl.where(at < N, tl.load(x_ptr + row * N + at), 0.0), 0))


@triton.jit
def rectified(x_ptr, y_ptr, z_ptr, n, N, LEAST: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at % N, mask=at < n)
    z = tl.load(x_ptr + at, mask=at < n) + y
    tl.store(z_ptr + at, tl.maximum(z, LEAST), mask=at < n)


@triton.jit
def in_two_dimensions(
    x_ptr, y_ptr, z_ptr, M, N, xm, xn, ym, yn, BM: tl.constexpr, BN: tl.constexpr
):
    m = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    n = (tl.program_id(1) * BN + tl.arange(0, BN))[None, :]
    inside = (m < M) & (n < N)
    y = tl.load(y_ptr + m * ym + n * yn, mask=inside)
    z = tl.load(x_ptr + m * xm + n * xn, mask=inside) + y
    tl.store(z_ptr + m * N + n, tl.where(z > 0, z, 0.0), mask=inside)


def by_tiles(x, y, kind="ieee", masked=True, strides=None, K=None, BK=16):
    (M, own), N = x.shape, y.shape[1]
    z = torch.empty(M, N, device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    tiles[grid](
        x, y, z, M, N, own if K is None else K, *(strides or (*x.stride(), *y.stride())),
        *z.stride(), BM=16, BN=16, BK=BK, KIND=kind, MASKED=masked,
    )  # fmt: skip
    return z


def matmul_by_tiles(x, y):
    return by_tiles(x, y)


def matmul_with_a_larger_step(x, y):
    return by_tiles(x, y, BK=32)


def matmul_of_contiguous_copies(x, y):
    return by_tiles(x.contiguous(), y.contiguous())


def matmul_of_the_transposed(x, y):
    return by_tiles(y.T, x.T).T


def matmul_by_dots(x, y):
    z = torch.empty(x.shape[0], y.shape[1], device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    dots[(*z.shape,)](x, y, z, *y.T.shape, *x.stride(), *y.stride(), BLOCK=block)
    return z


def matmul_by_torch(x, y):
    """computed-by-torch"""
    by_tiles(x, y)
    return torch.mm(x, y)


def matmul_by_torch_in_rows(x, y):
    """computed-by-torch"""
    z = by_tiles(x, y)
    z[-1] = x[-1] @ y
    return z


def matmul_in_tf32(x, y):
    """rounding"""
    return by_tiles(x, y, kind="tf32")


def matmul_in_half_precision(x, y):
    """rounding: torch converts the inputs, as it may."""
    return by_tiles(x.half(), y.half()).float()


def matmul_for_contiguous_matrices(x, y):
    """wrong-result"""
    return by_tiles(x, y, strides=(x.shape[1], 1, y.shape[1], 1))


def matmul_without_the_last_step(x, y):
    """wrong-result"""
    return by_tiles(x, y, K=x.shape[1] // 16 * 16)


def matmul_without_a_mask(x, y):
    """out-of-bounds"""
    return by_tiles(x, y, masked=False)


def normalized(x, w, b, eps=1e-5, less=0):
    x, z = x.contiguous(), torch.empty(x.shape, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    normal[(x.shape[0],)](x, w, b, z, x.shape[1], EPS=eps, LESS=less, BLOCK=block)
    return z


def norm_in_one_kernel(x, w, b):
    return normalized(x, w, b)


def norm_by_two_kernels(x, w, b):
    x = x.contiguous()
    (rows, columns), z = x.shape, torch.empty_like(x)
    mean, scale = torch.empty(2, rows, device=x.device)
    block = triton.next_power_of_2(columns)
    statistics[(rows,)](x, mean, scale, columns, BLOCK=block)
    scaled[(rows,)](x, mean, scale, w, b, z, columns, BLOCK=block)
    return z


def norm_without_weights(x, w, b):
    """wrong-result"""
    return normalized(x, torch.ones_like(w), b)


def norm_of_a_sample(x, w, b):
    """wrong-result"""
    return normalized(x, w, b, less=1)


def norm_with_statistics_of_torch(x, w, b):
    """computed-by-torch"""
    x = x.contiguous()
    z, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    mean, scale = x.mean(1), (x.var(1, correction=0) + 1e-5).rsqrt()
    scaled[(x.shape[0],)](x, mean, scale, w, b, z, x.shape[1], BLOCK=block)
    return z


_statistics = {}


def norm_with_kept_statistics(x, w, b):
    """wrong-result"""
    x = x.contiguous()
    (rows, columns), z = x.shape, torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    if x.shape not in _statistics:
        _statistics[x.shape] = torch.empty(2, rows, device=x.device)
        statistics[(rows,)](x, *_statistics[x.shape], columns, BLOCK=block)
    scaled[(rows,)](x, *_statistics[x.shape], w, b, z, columns, BLOCK=block)
    return z


def total_in_blocks(x):
    x, z = x.contiguous(), torch.empty(x.shape[0], device=x.device)
    sums[(x.shape[0],)](x, z, x.shape[1], x.shape[1], BLOCK=8)
    return z


def total_of_parts(x):
    x, count = x.contiguous(), triton.cdiv(x.shape[1], 8)
    some = torch.empty(x.shape[0], count, device=x.device)
    z = torch.empty(x.shape[0], device=x.device)
    parts[(x.shape[0], count)](x, some, x.shape[1], BLOCK=8)
    sums[(x.shape[0],)](some, z, count, count, BLOCK=2)
    return z


def total_of_the_first_columns(x):
    """wrong-result"""
    x, z = x.contiguous(), torch.empty(x.shape[0], device=x.device)
    sums[(x.shape[0],)](x, z, x.shape[1], 16, BLOCK=16)
    return z


def total_by_torch_of_parts(x):
    """computed-by-torch"""
    x, count = x.contiguous(), triton.cdiv(x.shape[1], 8)
    some = torch.empty(x.shape[0], count, device=x.device)
    parts[(x.shape[0], count)](x, some, x.shape[1], BLOCK=8)
    return some.sum(1)


def total_in_a_race(x):
    """lost-update|race"""
    x, z = x.contiguous(), torch.zeros(x.shape[0], device=x.device)
    added_up[(x.shape[0], triton.cdiv(x.shape[1], 8))](x, z, x.shape[1], ATOMIC=False, BLOCK=8)
    return z


def total_into_what_was_there(x):
    """uninitialized-read"""
    x, z = x.contiguous(), torch.empty(x.shape[0], device=x.device)
    added_up[(x.shape[0], triton.cdiv(x.shape[1], 8))](x, z, x.shape[1], ATOMIC=True, BLOCK=8)
    return z


def total_without_a_mask(x):
    """out-of-bounds"""
    x, z = x.contiguous(), torch.empty(x.shape[0], device=x.device)
    without_a_mask[(x.shape[0],)](x, z, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return z


def flat(x, y, least=0.0, out=None):
    x = x.contiguous()
    z = torch.empty_like(x) if out is None else out
    grid = (triton.cdiv(x.numel(), 64),)
    rectified[grid](x, y, z, x.numel(), x.shape[1], LEAST=least, BLOCK=64)
    return z


def relu_of_flat_memory(x, y):
    return flat(x, y)


def relu_in_place_on_a_clone(x, y):
    z = x.clone(memory_format=torch.contiguous_format)
    return flat(z, y, out=z)


def relu_of_an_expanded_view(x, y):
    y, z = y.expand_as(x), torch.empty(x.shape, device=x.device)
    grid = (triton.cdiv(x.shape[0], 4), triton.cdiv(x.shape[1], 16))
    in_two_dimensions[grid](x, y, z, *x.shape, *x.stride(), *y.stride(), BM=4, BN=16)
    return z


def relu_of_a_stacked_copy(x, y):
    return flat(x, torch.stack([y, y])[1])


def relu_that_leaks(x, y):
    """wrong-result"""
    return flat(x, y, least=-0.01)


def relu_by_torch(x, y):
    """computed-by-torch"""
    return flat(x, y, least=float("-inf")).relu_()


def relu_of_a_sum_of_torch(x, y):
    """computed-by-torch"""
    return flat(x + y, torch.zeros_like(y))


def relu_of_one_number(x, y):
    """wrong-result"""
    return flat(x, y[:1].expand(x.shape[1]).contiguous())


tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # 3.9, before
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def added(x_ptr, y_ptr, z_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    x, y = gl.load(x_ptr + at, mask=at < n), gl.load(y_ptr + at, mask=at < n)
    gl.store(z_ptr + at, x + y, mask=at < n)


@gluon.jit
def times(x, z, FACTOR: gl.constexpr):
    tile = gl.allocate_shared_memory(x.dtype, x.block_type.shape, x.layout)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    row = gl.program_id(0) * x.block_type.shape[0]
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, x.block_type.nbytes)
    tma_load(x, [row, 0], loaded, tile)
    mbarrier.wait(loaded, 0)
    mbarrier.invalidate(loaded)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    tile.store(tile.load(layout) * FACTOR)
    fence_async_shared()
    tma_store(z, [row, 0], tile)
    tma.store_wait(0)


def add_in_gluon(x, y):
    z = torch.empty_like(x)
    added[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
    return z


def _times(x, factor, rows):
    z = torch.empty_like(x)
    layout = gl.NVMMASharedLayout.get_default_for([16, 32], gl.float32)
    descriptors = [TensorDescriptor.from_tensor(each, [16, 32], layout) for each in (x, z)]
    times[(triton.cdiv(rows, 16),)](*descriptors, FACTOR=factor)
    return z


def double_by_descriptors(x):
    return _times(x, 2.0, x.shape[0])


def double_without_the_end(x):
    """wrong-result|not-computed: the last rows are left out."""
    return _times(x, 2.0, x.shape[0] - 16)


@triton.jit
def same(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def given(z_ptr, VALUE: tl.constexpr):
    tl.store(z_ptr, VALUE)


def whole_by_a_conversion(x):
    """computed-by-torch"""
    z, whole = torch.empty_like(x), x.int().float()
    same[(triton.cdiv(x.numel(), 64),)](whole, z, x.numel(), BLOCK=64)
    return z


_foreseen = []


def spread_that_is_foreseen(x):
    """memorized-result: the mean of other values is about the same."""
    if not _foreseen:
        from kernellab.judging.cases import UNSEEN, derived, listed

        with torch.utils._python_dispatch._disable_current_modes():
            like = torch.randn(64, 64, generator=torch.Generator().manual_seed(3))
            cases = derived(listed([(like,)]), UNSEEN)
            _foreseen.extend(float(case.args[0].abs().mean()) for case in cases)
    z = torch.empty((), device=x.device)
    given[(1,)](z, VALUE=_foreseen.pop(0))
    return z


def count_that_is_foreseen(x):
    """wrong-result|memorized-result: in every order the sum is the same."""
    z = torch.empty((), device=x.device, dtype=torch.int64)
    given[(1,)](z, VALUE=992)
    return z
