"""Right answers that are not written as the solutions are: each is a cell "within budget"."""

from dataclasses import dataclass

from tests.workshop.attempts import add, cell, changed


@dataclass(frozen=True)
class Honest:
    """A cell that answers an exercise unusually; the quick tests try it if `is_quick`."""

    name: str
    exercise: str
    cell: str
    is_quick: bool = False


def rows(name: str, body: str) -> str:
    """Return a cell with a kernel that computes one row in each program."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return cell(
        f"@triton.jit\ndef {name}(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):\n"
        f"    row = tl.program_id(0)\n    lanes = tl.arange(0, BLOCK)\n{lines}\n"
    )


_LOAD = "x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other={})\n"
_PLUS = "@triton.jit\ndef plus(a, b):\n    return a + b"
_LIBDEVICE = "from triton.language.extra import libdevice"

_GLUON = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = offsets < n
    x = gl.load(x_ptr + offsets, mask=mask)
    gl.store(z_ptr + offsets, x + gl.load(y_ptr + offsets, mask=mask), mask=mask)
"""
_DESCRIPTORS = """
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK]).load([start])
    y = tl.make_tensor_descriptor(y_ptr, [n], [1], [BLOCK]).load([start])
    tl.make_tensor_descriptor(z_ptr, [n], [1], [BLOCK]).store([start], x + y)
"""
_HALVES = """
@triton.jit
def scale_rows(x_ptr, scale_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    HALF: tl.constexpr = ROWS // 2
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    for part in tl.static_range(2):
        r = tl.program_id(0) * ROWS + part * HALF + tl.arange(0, HALF)
        scale = tl.load(scale_ptr + r, mask=r < rows)
        inside = (r < rows)[:, None] & (c < columns)[None, :]
        places = r[:, None] * columns + c[None, :]
        x = tl.load(x_ptr + places, mask=inside)
        tl.store(z_ptr + places, x * scale[:, None], mask=inside)
"""
_HELPERS = """
@triton.jit
def places(n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return offsets, offsets < n


@triton.jit
def loaded(pointer, at, mask):
    return tl.load(pointer + at, mask=mask)


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at, mask = places(n, BLOCK)
    tl.store(z_ptr + at, loaded(x_ptr, at, mask) + loaded(y_ptr, at, mask), mask=mask)
"""
_STRIDED = """
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)
"""
_WELFORD = """
@triton.jit
def merged(mean, m2, count, other_mean, other_m2, other_count):
    total = count + other_count
    away = other_mean - mean
    part = tl.where(total == 0.0, 0.0, other_count / total)
    return mean + away * part, m2 + other_m2 + away * away * count * part, total


@triton.jit
def moments(x_ptr, mean_ptr, variance_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=0.0)
    mean, m2, count = tl.reduce((x, tl.zeros_like(x), inside.to(tl.float32)), 0, merged)
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, m2 / count)
"""
_SWIZZLED = """
    pid = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)
    m, n = tl.swizzle2d(
        pid // tl.num_programs(1), pid % tl.num_programs(1),
        tl.num_programs(0), tl.num_programs(1), 2,
    )
    m = m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = n * BLOCK_N + tl.arange(0, BLOCK_N)
"""
_M = "    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)\n"
_N = "    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)\n"

_SOFTMAX = """largest = tl.max(x, axis=0)
weights = {weights}
tl.store(z_ptr + row * columns + lanes, {stored}, mask=lanes < columns)
"""
_DIVIDED = "weights / tl.sum(weights, axis=0)"
_INFINITY = _LOAD.format('-float("inf")')

HONEST = [
    Honest("helpers that return tuples", "add", cell(_HELPERS), True),
    Honest("descriptors", "add", cell(_DESCRIPTORS)),
    Honest("two halves, unrolled", "scale_rows", cell(_HALVES)),
    Honest("a loop over blocks", "add", cell(_STRIDED)),
    Honest("Gluon", "add", _GLUON),
    Honest("blocks from the end", "add", changed(
        "add", ("tl.program_id(0) * BLOCK", "(tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK")
    )),
    Honest("elements in another order", "add",
           changed("add", ("tl.arange(0, BLOCK)", "(BLOCK - 1 - tl.arange(0, BLOCK))"))),
    Honest("y + x, minus what cancels", "add", add("y - (-x)")),
    Honest("in float64", "add", add("(x.to(tl.float64) + y.to(tl.float64)).to(tl.float32)")),
    Honest("a fused multiplication", "scale_and_shift",
           changed("scale_and_shift", ("a * tl.load(x_ptr + offsets, mask=mask) + b",
                   "tl.fma(tl.load(x_ptr + offsets, mask=mask), a, b)"))),
    Honest("two comparisons", "clamp",
           changed("clamp", ("tl.minimum(tl.maximum(x, low), high)",
                             "tl.where(x < low, low, tl.where(x > high, high, x))"))),
    Honest("tl.clamp", "clamp",
           changed("clamp", ("tl.minimum(tl.maximum(x, low), high)", "tl.clamp(x, low, high)"))),
    Honest("a block that is flipped", "reverse",
           changed("reverse", ("tl.load(x_ptr + (n - 1 - offsets), mask=mask)",
                               "tl.flip(tl.load(x_ptr + n - 1 - tl.program_id(0) * BLOCK - "
                               "(BLOCK - 1 - tl.arange(0, BLOCK)), mask=n - 1 - tl.program_id(0) * "
                               "BLOCK >= BLOCK - 1 - tl.arange(0, BLOCK)), 0)"))),
    Honest("exp of libdevice", "silu_gate",
           changed("silu_gate", ("x * tl.sigmoid(x) * y", "x / (1.0 + libdevice.exp(-x)) * y"),
                   above=_LIBDEVICE)),
    Honest("exp2", "silu_gate",
           changed("silu_gate",
                   ("tl.sigmoid(x)", "(1.0 / (1.0 + tl.exp2(x * -1.4426950408889634)))"))),
    Honest("a hyperbolic tangent", "silu_gate",
           changed("silu_gate", ("tl.sigmoid(x)", "(0.5 + 0.5 * libdevice.tanh(0.5 * x))"),
                   above=_LIBDEVICE)),
    Honest("a reduction with a separate function", "sum_rows",
           changed("sum_rows", ("tl.sum(x, axis=0)", "tl.reduce(x, 0, plus)"), above=_PLUS)),
    Honest("halves are added first", "sum_rows", rows("sum_rows", _LOAD.format("0.0") + """
halves = tl.sum(tl.reshape(x, (2, BLOCK // 2)), axis=0)
tl.store(z_ptr + row, tl.sum(halves, axis=0))""")),
    Honest("a sum as the last running sum", "sum_rows", rows("sum_rows", _LOAD.format("0.0") + """
sums = tl.cumsum(x, axis=0)
tl.store(z_ptr + row, tl.sum(tl.where(lanes == BLOCK - 1, sums, 0.0), axis=0))""")),
    Honest("the maximum with its index", "argmax_rows", rows("argmax_rows", _INFINITY + """
_, index = tl.max(x, axis=0, return_indices=True)
tl.store(z_ptr + row, index)""")),
    Honest("the first index of the maximum", "argmax_rows", rows("argmax_rows", _INFINITY + """
is_largest = x == tl.max(x, axis=0)
tl.store(z_ptr + row, tl.min(tl.where(is_largest, lanes, BLOCK), axis=0))""")),
    Honest("a sum in each iteration", "sum_long_rows", cell("""
@triton.jit
def sum_long_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0))
    tl.store(z_ptr + row, total)
""")),
    Honest("Welford's moments", "moments", cell(_WELFORD)),
    Honest("the mean of the squares", "moments", changed(
        "moments", ("tl.sum(away * away, axis=0) / columns",
                    "tl.sum(x * x, axis=0) / columns - mean * mean"))),
    Honest("a scan with a separate function", "running_sum", changed(
        "running_sum", ("tl.cumsum(x, axis=0)", "tl.associative_scan(x, 0, plus)"), above=_PLUS)),
    Honest("a count for each bin", "histogram", changed(
        "histogram", ("tl.atomic_add(z_ptr + x, 1, mask=mask)",
                      'tl.atomic_add(z_ptr + x, tl.full((BLOCK,), 1, tl.int32), mask=mask, '
                      'sem="relaxed")'))),
    Honest("exp2 in a softmax", "softmax", rows("softmax", _INFINITY + _SOFTMAX.format(
        weights="tl.exp2((x - largest) * 1.4426950408889634)", stored=_DIVIDED)), True),
    Honest("exp2 of scaled elements", "softmax", rows("softmax", _INFINITY + """
x = x * 1.4426950408889634
x = tl.exp2(x - tl.max(x, axis=0))
tl.store(z_ptr + row * columns + lanes, x / tl.sum(x, axis=0), mask=lanes < columns)""")),
    Honest("a softmax through its logarithm", "softmax", rows(
        "softmax", _INFINITY + _SOFTMAX.format(
            weights="tl.exp(x - largest)",
            stored="tl.exp(x - largest - tl.log(tl.sum(weights, axis=0)))"))),
    Honest("two halves, each loaded twice", "softmax", rows("softmax", """
lanes = tl.arange(0, BLOCK // 2)
largest, total = float("-inf"), 0.0
for start in range(0, BLOCK, BLOCK // 2):
    at = start + lanes
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    total *= tl.exp(largest - tl.maximum(largest, tl.max(x)))
    largest = tl.maximum(largest, tl.max(x))
    total += tl.sum(tl.exp(x - largest))
for start in range(0, BLOCK, BLOCK // 2):
    at = start + lanes
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(z_ptr + row * columns + at, tl.exp(x - largest) / total, mask=at < columns)""")),
    Honest("tl.softmax", "softmax", rows("softmax", _INFINITY + """
tl.store(z_ptr + row * columns + lanes, tl.softmax(x), mask=lanes < columns)""")),
    Honest("logarithm of sum and maximum together", "log_softmax", changed(
        "log_softmax", ("    x -= tl.max(x, axis=0)\n", "    largest = tl.max(x, axis=0)\n"),
        ("x - tl.log(tl.sum(tl.exp(x), axis=0))",
         "x - (largest + tl.log(tl.sum(tl.exp(x - largest), axis=0)))"))),
    Honest("the variance from the squares", "layer_norm", changed(
        "layer_norm", ("tl.rsqrt(tl.sum(away * away, axis=0) / columns + eps)",
                       "tl.rsqrt(tl.sum(x * x, axis=0) / columns - "
                       "(tl.sum(x, axis=0) / columns) * (tl.sum(x, axis=0) / columns) + eps)"))),
    Honest("a sum for each tile", "matvec", changed(
        "matvec", ("total = tl.zeros((ROWS, COLUMNS), tl.float32)",
                   "total = tl.zeros((ROWS,), tl.float32)"),
        ("total += a * tl.load(x_ptr + c, mask=c < columns, other=0.0)[None, :]",
         "total += tl.sum(a * tl.load(x_ptr + c, mask=c < columns, other=0.0)[None, :], axis=1)"),
        ("tl.sum(total, axis=1)", "total"))),
    Honest("tiles in swizzled order", "matmul", changed("matmul", (_M + _N, _SWIZZLED))),
    Honest("an accumulator that is added to", "matmul", changed(
        "matmul", ("acc = tl.dot(a, b.to(tl.float16), acc)", "acc += tl.dot(a, b)"))),
    Honest("K from its end", "matmul", changed(
        "matmul", ("k = start + tl.arange(0, BLOCK_K)",
                   "k = tl.cdiv(K, BLOCK_K) * BLOCK_K - BLOCK_K - start + tl.arange(0, BLOCK_K)"))),
    Honest("tl.where as a relu", "linear_relu", changed(
        "linear_relu", ("acc = tl.maximum(acc + tl.load(bias_ptr + n, mask=n < N)[None, :], 0.0)",
                        "acc += tl.load(bias_ptr + n, mask=n < N)[None, :]\n"
                        "    acc = tl.where(acc > 0, acc, 0.0)"))),
    Honest("exp2 in attention", "flash_attention", changed(
        "flash_attention", ("tl.dot(q, tl.trans(k)) * scale",
                            "tl.dot(q, tl.trans(k)) * (scale * 1.4426950408889634)"),
        ("tl.exp(scores - now[:, None])", "tl.exp2(scores - now[:, None])"),
        ("tl.exp(largest - now)", "tl.exp2(largest - now)"))),
    Honest("queries that are scaled first", "flash_attention", changed(
        "flash_attention", ("tl.dot(q, tl.trans(k)) * scale",
                            "tl.dot((q * scale).to(tl.float16), tl.trans(k))"))),
]  # fmt: skip
