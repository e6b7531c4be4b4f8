"""Arithmetic, element by element: each kernel writes the results of many operations, one row of `out` each."""

import triton
import triton.language as tl


@triton.jit
def row(out_ptr, number: tl.constexpr, value, N: tl.constexpr):
    """Row `number` of an (operations, N) tensor, from a tile of N elements."""
    tl.store(out_ptr + number * N + tl.arange(0, N), value)


@triton.jit
def integers(x_ptr, y_ptr, shift_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y, shift = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes), tl.load(shift_ptr + lanes)
    row(out_ptr, 0, x + y, N)
    row(out_ptr, 1, x - y, N)
    row(out_ptr, 2, x * y, N)
    row(out_ptr, 3, x // y, N)
    row(out_ptr, 4, x % y, N)
    row(out_ptr, 5, x & y, N)
    row(out_ptr, 6, x | y, N)
    row(out_ptr, 7, x ^ y, N)
    row(out_ptr, 8, x << shift, N)
    row(out_ptr, 9, x >> shift, N)
    row(out_ptr, 10, tl.minimum(x, y), N)
    row(out_ptr, 11, tl.maximum(x, y), N)
    row(out_ptr, 12, -x, N)
    row(out_ptr, 13, ~x, N)
    row(out_ptr, 14, tl.where(x < y, x, y), N)
    row(out_ptr, 15, tl.abs(x), N)


@triton.jit
def integer_scalars(x_ptr, y_ptr, out_ptr):
    """The same on scalars, one pair a program, so that NumPy scalars and per-program arrays are met too."""
    program = tl.program_id(0)
    x, y = tl.load(x_ptr + program), tl.load(y_ptr + program)
    first_x, first_y = tl.load(x_ptr), tl.load(y_ptr)
    out_ptr += program * 8
    tl.store(out_ptr, x + y)
    tl.store(out_ptr + 1, x * y)
    tl.store(out_ptr + 2, x // y)
    tl.store(out_ptr + 3, x % y)
    tl.store(out_ptr + 4, first_x - first_y)
    tl.store(out_ptr + 5, first_x * first_y)
    tl.store(out_ptr + 6, tl.minimum(x, first_y))
    tl.store(out_ptr + 7, first_x // first_y + first_x % first_y)


@triton.jit
def comparisons(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    row(out_ptr, 0, x < y, N)
    row(out_ptr, 1, x <= y, N)
    row(out_ptr, 2, x > y, N)
    row(out_ptr, 3, x >= y, N)
    row(out_ptr, 4, x == y, N)
    row(out_ptr, 5, x != y, N)
    row(out_ptr, 6, not (x < y), N)
    row(out_ptr, 7, (x < y) | (x > y), N)


@triton.jit
def booleans(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    """i1 in every role: loaded, combined, negated, compared, added, widened, as a number, stored."""
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    row(out_ptr, 0, (x & y).to(tl.int32), N)
    row(out_ptr, 1, (x | y).to(tl.int32), N)
    row(out_ptr, 2, (x ^ y).to(tl.int32), N)
    row(out_ptr, 3, (~x).to(tl.int32), N)
    row(out_ptr, 4, (x == y).to(tl.int32), N)
    row(out_ptr, 5, x.to(tl.int32) + y.to(tl.int32), N)
    row(out_ptr, 6, (x.to(tl.float32) * 2.5).to(tl.int32), N)
    row(out_ptr, 7, tl.where(x, 3, 4), N)
    row(out_ptr, 8, (lanes < 5).to(tl.int32) + (lanes >= 3).to(tl.int32), N)
    row(out_ptr, 9, (x < y).to(tl.int32), N)
    row(out_ptr, 10, ((lanes * 3).to(tl.int1)).to(tl.int32), N)
    row(out_ptr, 11, (lanes.to(tl.float32) - 2.0).to(tl.int1).to(tl.int32), N)


@triton.jit
def floats(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    row(out_ptr, 0, x + y, N)
    row(out_ptr, 1, x - y, N)
    row(out_ptr, 2, x * y, N)
    row(out_ptr, 3, -x, N)
    row(out_ptr, 4, tl.abs(x), N)
    row(out_ptr, 5, tl.minimum(x, y), N)
    row(out_ptr, 6, tl.maximum(x, y), N)
    row(out_ptr, 7, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL), N)
    row(out_ptr, 8, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL), N)
    row(out_ptr, 9, tl.where(x < y, x, y), N)
    row(out_ptr, 10, x * y + x, N)


@triton.jit
def divisions(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    """Triton divides 16-bit floats as float32; so `out` has that type."""
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    row(out_ptr, 0, x / y, N)
    row(out_ptr, 1, x % y, N)


@triton.jit
def integers_at_the_ends(x_ptr, y_ptr, shift_ptr, out_ptr, N: tl.constexpr):
    """What C leaves open: division by zero, its overflow, shifts by the width and more."""
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    shift = tl.load(shift_ptr + lanes)
    row(out_ptr, 0, x // y, N)
    row(out_ptr, 1, x % y, N)
    row(out_ptr, 2, x << shift, N)
    row(out_ptr, 3, x >> shift, N)


@triton.jit
def zeros(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    """Maxima and minima of zeros of both signs."""
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    row(out_ptr, 0, tl.maximum(x, y), N)
    row(out_ptr, 1, tl.minimum(x, y), N)
    row(out_ptr, 2, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL), N)
    row(out_ptr, 3, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL), N)
    row(out_ptr, 4, tl.maximum(x, 0.0), N)
    row(out_ptr, 5, -x, N)


@triton.jit
def fused(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y, z = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes), tl.load(z_ptr + lanes)
    tl.store(out_ptr + lanes, tl.fma(x, y, z))


@triton.jit
def clamped(x_ptr, low_ptr, high_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, low, high = tl.load(x_ptr + lanes), tl.load(low_ptr + lanes), tl.load(high_ptr + lanes)
    row(out_ptr, 0, tl.clamp(x, low, high), N)
    row(out_ptr, 1, tl.clamp(x, low, high, propagate_nan=tl.PropagateNan.ALL), N)


@triton.jit
def elementary(x_ptr, out_ptr, N: tl.constexpr):
    """Functions of float32 and float64; x is positive and moderate."""
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    row(out_ptr, 0, tl.exp(x), N)
    row(out_ptr, 1, tl.exp2(x), N)
    row(out_ptr, 2, tl.log(x), N)
    row(out_ptr, 3, tl.log2(x), N)
    row(out_ptr, 4, tl.sin(x), N)
    row(out_ptr, 5, tl.cos(x), N)
    row(out_ptr, 6, tl.sqrt(x), N)
    row(out_ptr, 7, tl.rsqrt(x), N)
    row(out_ptr, 8, tl.erf(x), N)
    row(out_ptr, 9, tl.floor(x), N)
    row(out_ptr, 10, tl.ceil(x), N)
    row(out_ptr, 11, tl.sigmoid(x), N)
    row(out_ptr, 12, tl.erf(tl.load(x_ptr)) + x, N)


@triton.jit
def precise(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    row(out_ptr, 0, tl.sqrt_rn(x), N)
    row(out_ptr, 1, tl.div_rn(x, y), N)
    row(out_ptr, 2, tl.fdiv(x, y), N)


@triton.jit
def high_products(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    row(out_ptr, 0, tl.umulhi(x, y), N)
    row(out_ptr, 1, tl.umulhi(x, tl.load(y_ptr)), N)


@triton.jit
def converted(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes).to(out_ptr.dtype.element_ty))


@triton.jit
def converted_toward_zero(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, x.to(out_ptr.dtype.element_ty, fp_downcast_rounding="rtz"))


@triton.jit
def same_bits(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, x.to(out_ptr.dtype.element_ty, bitcast=True))


@triton.jit
def index_as_data(out_ptr, float_ptr, N: tl.constexpr):
    """Offsets kept symbolic, used as numbers: stored, converted, divided, reduced, compared, shifted, summed up."""
    lanes = tl.arange(0, N)
    index = tl.program_id(0) * N + lanes
    row(out_ptr, 0, index, N)
    row(out_ptr, 1, index // 3 - index % 3, N)
    row(out_ptr, 2, (index == 5).to(tl.int32) + (index != 2), N)
    row(out_ptr, 3, tl.sum(index, 0) + lanes, N)
    row(out_ptr, 4, (-index) * 7 + 3, N)
    row(out_ptr, 5, index << 2 | 1, N)
    row(out_ptr, 6, tl.cumsum(index, 0), N)
    row(out_ptr, 7, tl.where(index < 4, index, -index), N)
    row(out_ptr, 8, tl.max(index * (lanes - 3), 0) + lanes, N)
    row(out_ptr, 9, tl.minimum(index, 6), N)
    row(out_ptr, 10, index.to(tl.int8).to(tl.int32), N)
    row(out_ptr, 11, index.to(tl.int64).to(tl.int32) ^ lanes, N)
    row(float_ptr, 0, index.to(tl.float32) * 0.5, N)
    row(float_ptr, 1, index.to(tl.float16).to(tl.float32), N)
    row(float_ptr, 2, 1.0 / (index + 1), N)


@triton.jit
def near_the_limit(start, out_ptr, N: tl.constexpr):
    """Index arithmetic that wraps: it may be kept symbolic only while it fits."""
    lanes = tl.arange(0, N)
    row(out_ptr, 0, start + lanes, N)
    row(out_ptr, 1, (start + lanes) * 2, N)
    row(out_ptr, 2, (start + lanes) - (-start), N)
    row(out_ptr, 3, (start + lanes < start).to(start.dtype), N)
    row(out_ptr, 4, (start + lanes).to(tl.int16).to(start.dtype), N)


@triton.jit
def constants(out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    row(out_ptr, 0, tl.full((N,), float("inf"), tl.float32), N)
    row(out_ptr, 1, tl.full((N,), -float("inf"), tl.float32) + lanes, N)
    row(out_ptr, 2, tl.full((N,), float("nan"), tl.float32), N)
    row(out_ptr, 3, tl.full((N,), 1e-45, tl.float32), N)
    row(out_ptr, 4, tl.full((N,), 1.1, tl.float16).to(tl.float32), N)
    row(out_ptr, 5, tl.full((N,), 1.1, tl.bfloat16).to(tl.float32), N)
    row(out_ptr, 6, tl.full((N,), -float("inf"), tl.float16).to(tl.float32), N)
    row(out_ptr, 7, tl.full((N,), float("inf"), tl.bfloat16).to(tl.float32), N)
    row(out_ptr, 8, tl.full((N,), 3.4e38, tl.float64).to(tl.float32), N)
    row(out_ptr, 9, tl.full((N,), 255, tl.uint8).to(tl.float32), N)
    row(out_ptr, 10, tl.full((N,), 2**63 + 1, tl.uint64).to(tl.float32), N)
    row(out_ptr, 11, tl.full((N,), -5, tl.int8).to(tl.float32), N)
    row(out_ptr, 12, tl.full((N,), True, tl.int1).to(tl.float32), N)


@triton.jit
def random_numbers(seed, offset, integer_ptr, uniform_ptr, normal_ptr, N: tl.constexpr):
    offsets = offset + tl.arange(0, N)
    tl.store(integer_ptr + tl.arange(0, N), tl.randint(seed, offsets))
    tl.store(uniform_ptr + tl.arange(0, N), tl.rand(seed, offsets))
    tl.store(normal_ptr + tl.arange(0, N), tl.randn(seed, offsets))


@triton.jit
def random_four(seed, out_ptr, N: tl.constexpr):
    a, b, c, d = tl.randint4x(seed, tl.arange(0, N))
    row(out_ptr, 0, a, N)
    row(out_ptr, 1, b, N)
    row(out_ptr, 2, c, N)
    row(out_ptr, 3, d, N)
