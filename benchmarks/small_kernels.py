"""Small kernels, each about one kind of operation, and the functions that some of them apply; `small_cases` gives them inputs."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def apply_one(x, out, N: tl.constexpr, FUNCTION: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, FUNCTION(tl.load(x + at)))


@triton.jit
def apply_two(x, y, out, N: tl.constexpr, FUNCTION: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, FUNCTION(tl.load(x + at), tl.load(y + at)))


@triton.jit
def apply_three(x, y, z, out, N: tl.constexpr, FUNCTION: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, FUNCTION(tl.load(x + at), tl.load(y + at), tl.load(z + at)))


@triton.jit
def convert(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


@triton.jit
def plus(x, y):
    return x + y


@triton.jit
def times(x, y):
    return x * y


@triton.jit
def quotient(x, y):
    return x // y


@triton.jit
def remainder(x, y):
    return x % y


@triton.jit
def over(x, y):
    return x / y


@triton.jit
def shifted(x, y):
    return (x << y) ^ (x >> y)


@triton.jit
def larger(x, y):
    return tl.maximum(x, y)


@triton.jit
def smaller_or_nan(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def bits_mixed(x, y):
    return (x & y) | (~x ^ y)


@triton.jit
def compared(x, y):
    return (x < y).to(tl.int32) + 2 * (x == y).to(tl.int32) + 4 * (x >= y).to(tl.int32)


@triton.jit
def rounded_both_ways(x):
    return tl.floor(x) + tl.ceil(x)


@triton.jit
def row_extremes(x, out, at_out, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    value, index = tl.max(tile, axis=1, return_indices=True)
    tl.store(out + rows, value)
    tl.store(at_out + rows, index)


@triton.jit
def row_sums(x, out, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(out + rows, tl.sum(tile, axis=1))


@triton.jit
def running_sums(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=1))


@triton.jit
def sorted_rows(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), dim=1))


@triton.jit
def counted(x, out, N: tl.constexpr, BINS: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, BINS), tl.histogram(tile, BINS))


@triton.jit
def gathered(x, y, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(y + at), axis=1))


@triton.jit
def reshaped(x, out, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    first, second = tl.split(tl.reshape(tl.trans(tile), [M, N // 2, 2]))
    both = tl.interleave(tl.flip(first, 1), second)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], both)


@triton.jit
def product(x, y, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=out.dtype.element_ty)
    tl.store(out + m[:, None] * N + n[None, :], c)


@triton.jit
def random_bits(out, N: tl.constexpr, SEED: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c, d = tl.randint4x(SEED, at)
    tl.store(out + at, a ^ (b << 1) ^ (c << 2) ^ (d << 3))


@triton.jit
def random_uniform(out, N: tl.constexpr, SEED: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.rand(SEED, at))


@triton.jit
def random_normal(out, N: tl.constexpr, SEED: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.randn(SEED, at))


@triton.jit
def atomic_counts(x, out, total, largest, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at)
    tl.atomic_add(out + value, 1)
    tl.atomic_add(total, tl.sum(value))
    tl.atomic_max(largest, tl.max(value))


@triton.jit
def counted_under_a_lock(lock, out):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + 1)
    tl.atomic_xchg(lock, 0)


@triton.jit
def masked(x, out, n, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at, mask=at < n, other=-1.0)
    tl.store(out + at, value, mask=at % 3 != 0)


@triton.jit
def block_padded(
    x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    block = tl.make_block_ptr(x, (ROWS, COLUMNS), (COLUMNS, 1), (3, 5), (M, N), (1, 0))
    value = tl.load(block, boundary_check=(0, 1), padding_option="zero")
    to = tl.make_block_ptr(out, (M, N), (N, 1), (0, 0), (M, N), (1, 0))
    tl.store(to, value)


@triton.jit
def collatz(x, out):
    i = tl.program_id(0)
    value = tl.load(x + i)
    steps = 0
    while value != 1:
        value = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        steps += 1
    tl.store(out + i, steps)


@triton.jit
def left_early(x, out):
    i = tl.program_id(0)
    value = tl.load(x + i)
    if value < 0:
        return
    for step in range(value % 7):
        value += step
    tl.store(out + i, value)


@triton.jit
def _then(decay, value, next_decay, next_value):
    return decay * next_decay, value * next_decay + next_value


@triton.jit
def linear_recurrence(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + at)
    decay = 1 / (2 + tl.abs(value))
    _, result = tl.associative_scan((decay, value), 1, _then)
    tl.store(out + at, result)


@triton.jit
def described(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [ROWS, COLUMNS], [COLUMNS, 1], [M, N])
    to = tl.make_tensor_descriptor(out, [ROWS, COLUMNS], [COLUMNS, 1], [M, N])
    for row in range(0, ROWS, M):
        for column in range(0, COLUMNS, N):
            to.store([row, column], source.load([row, column]) * 2)


@triton.jit(noinline=True)
def _clamped_square(x):
    return tl.clamp(x * x, 1.0, 9.0)


@triton.jit
def calling(x, out):
    i = tl.program_id(0)
    tl.store(out + i, _clamped_square(tl.load(x + i)))


@triton.jit
def funnel_shifted(x):
    return tl.inline_asm_elementwise(
        "shf.l.wrap.b32 $0, $1, $1, 5;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def nearest_integer(x):
    return libdevice.rint(x)


@triton.jit
def power(x, y):
    return libdevice.pow(x, y)


@triton.jit
def hyperbolic_tangent(x):
    return libdevice.tanh(x)


@triton.jit
def cube_root(x):
    return libdevice.cbrt(x)
