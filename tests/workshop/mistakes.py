"""Wrong answers as students write them: a solution with one mistake, or with two of a kind."""

import inspect

from tests.workshop import solutions
from tests.workshop.attempts import WrongAnswer, imports_of

IMPORTS = "import triton\nimport triton.language as tl\n\n\n"

_MATMUL = """\
@triton.jit
def {name}(
    a_ptr, b_ptr, {more}c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_mask = (m < M)[:, None] & (k < K)[None, :]
        b_mask = (k < K)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b{cast}, acc)
    {end}
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])
"""
_ATTENTION = """\
@triton.jit
def {name}(
    q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    wide = tl.arange(0, WIDTH)
    places = rows[:, None] * WIDTH + wide[None, :]
    q = tl.load(q_ptr + places, mask=(rows < queries)[:, None], other=0.0)
    largest = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, WIDTH), tl.float32)
    for start in range(0, keys, BLOCK_K):
        seen = start + tl.arange(0, BLOCK_K)
        inside = (seen < keys)[:, None]
        k = tl.load(k_ptr + seen[:, None] * WIDTH + wide[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + seen[:, None] * WIDTH + wide[None, :], mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where({condition}, scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        shrunk = tl.exp(largest - now)
        total = total * shrunk + tl.sum(weights, axis=1)
        acc = acc * shrunk[:, None] + tl.dot(weights.to(tl.float16), v)
        largest = now
    tl.store(z_ptr + places, acc / total[:, None], mask=(rows < queries)[:, None])
"""
_WHOLE = {
    "matmul": _MATMUL.format(name="matmul", more="", cast="", end=""),
    "batched_matmul": _MATMUL.format(
        name="batched_matmul", more="", cast="", end=""
    ).replace(
        "    acc = tl.zeros",
        "    i = tl.program_id(2)\n    a_ptr += i * M * K\n    b_ptr += i * K * N\n"
        "    c_ptr += i * M * N\n    acc = tl.zeros",
    ),
    "linear_relu": _MATMUL.format(
        name="linear_relu", more="bias_ptr, ", cast="",
        end="acc += tl.load(bias_ptr + n, mask=n < N)[None, :]\n    acc = tl.maximum(acc, 0.0)",
    ),
    "quantized_matmul": _MATMUL.format(
        name="quantized_matmul", more="scale_ptr, ", cast=".to(tl.float16)",
        end="acc = acc * tl.load(scale_ptr + n, mask=n < N)[None, :]",
    ),
    "attention": _ATTENTION.format(name="attention", condition="(seen < keys)[None, :]"),
    "flash_attention": _ATTENTION.format(
        name="flash_attention", condition="(seen < keys)[None, :]"
    ),
    "causal_attention": _ATTENTION.format(
        name="causal_attention",
        condition="(seen < keys)[None, :] & (seen[None, :] <= rows[:, None])",
    ),
}  # fmt: skip
"""Solutions in one function; those of `solutions.py` share helpers."""


def _of(exercise: str, name: str, *edits: str) -> WrongAnswer:
    """Return a mistake: what is replaced in the solution and by what, everywhere, in turn."""
    text = _WHOLE.get(exercise) or inspect.getsource(getattr(solutions, exercise).fn)
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text, (exercise, name, old)
        text = text.replace(old, new)
    return WrongAnswer(exercise, name, IMPORTS + imports_of(exercise) + text)


_EDITS = [
    ("add_one", "one element too far", "tl.load(x_ptr + lanes) + 1", "tl.load(x_ptr + lanes + 1)"),
    ("add_one", "lanes from 1", "tl.arange(0, BLOCK)", "tl.arange(0, BLOCK) + 1"),
    ("add_one", "the lanes are added", "+ 1)", "+ lanes)"),
    ("add", "no mask anywhere", ", mask=mask", ""),
    ("add", "the difference", ") + tl.load(y", ") - tl.load(y"),
    ("add", "x twice", "tl.load(y_ptr", "tl.load(x_ptr"),
    ("add", "the id is not multiplied", "tl.program_id(0) * BLOCK", "tl.program_id(0)"),
    ("add", "the block is written out", "tl.program_id(0) * BLOCK", "tl.program_id(0) * 128"),
    ("scale_and_shift", "a and b are swapped", "a * tl.load(x_ptr + offsets, mask=mask) + b",
     "b * tl.load(x_ptr + offsets, mask=mask) + a"),
    ("scale_and_shift", "the sum is scaled", "a * tl.load(x_ptr + offsets, mask=mask) + b",
     "a * (tl.load(x_ptr + offsets, mask=mask) + b)"),
    ("clamp", "only one side", "tl.minimum(tl.maximum(x, low), high)", "tl.maximum(x, low)"),
    ("reverse", "within the block only", "n - 1 - offsets", "BLOCK - 1 - offsets"),
    ("every_other", "all elements", "2 * offsets", "offsets"),
    ("few_programs", "one block per program", "range(first, n, tl.num_programs(0) * BLOCK)",
     "range(first, first + BLOCK, BLOCK)"),
    ("few_programs", "a run of blocks", "0) * BLOCK\n", "0) * (n // tl.num_programs(0))\n",
     "first, n, tl.num_programs(0) * BLOCK", "first, first + n // tl.num_programs(0), BLOCK"),
    ("few_programs", "the block of the loop is not used", "start + tl.arange", "first + tl.arange"),
    ("silu_gate", "the wrong gate", "x * tl.sigmoid(x) * y", "x * tl.sigmoid(y) * y"),
    ("outer_add", "the stride of rows", "r[:, None] * columns", "r[:, None] * rows"),
    ("outer_add", "column after column", "r[:, None] * columns + c[None, :]",
     "r[:, None] + c[None, :] * rows"),
    ("outer_add", "the product", "x[:, None] + y", "x[:, None] * y"),
    ("outer_add", "program ids swapped", "tl.program_id(0)", "tl.program_id(9)", "tl.program_id(1)",
     "tl.program_id(0)", "tl.program_id(9)", "tl.program_id(1)"),
    ("scale_rows", "the wrong axis", "scale[:, None]", "scale[None, :]"),
    ("scale_rows", "one axis", "scale[:, None]", "scale"),
    ("transpose", "no transposition", "tl.trans(tile)", "tile", "c[:, None] * rows + r[None, :]",
     "r[:, None] * columns + c[None, :]", "mask=turned", "mask=inside"),
    ("transpose", "the stride of the source", "r[:, None] * columns", "r[:, None] * rows"),
    ("transpose", "the mask is not turned", "mask=turned", "mask=tl.trans(turned)"),
    ("causal_mask", "without the diagonal", "c[None, :] <= r[:, None]", "c[None, :] < r[:, None]"),
    ("causal_mask", "indices in the tile", "r = tl", "i = tl.arange(0, ROWS)[:, None]\n    r = tl",
     "c = tl", "j = tl.arange(0, COLUMNS)[None, :]\n    c = tl", "0) * ROWS + tl.arange(0, ROWS)",
     "0) * ROWS + i", "1) * COLUMNS + tl.arange(0, COLUMNS)", "1) * COLUMNS + j",
     "r[:, None]", "r", "c[None, :]", "c", "(r < rows)[:, None] & (c < columns)[None, :]",
     "(r < rows) & (c < columns)", "c <= r", "j <= i"),
    ("causal_mask", "branches swapped", 'x, -float("inf"))', '-float("inf"), x)'),
    ("scale_rows", "the factors of the columns", "scale_ptr + r, mask=r < rows",
     "scale_ptr + c, mask=c < rows", "scale[:, None]", "scale[None, :]"),
    ("pad", "no shift of the source", "(r - 1)[:, None]", "r[:, None]"),
    ("gather_rows", "no gather", "number * width", "row * width"),
    ("gather_rows", "a tile of ids", "tl.load(ids_ptr + row)",
     "tl.load(ids_ptr + lanes, mask=lanes < 8, other=0)"),
    ("sum_rows", "all rows from the first", "row * columns + lanes", "lanes"),
    ("sum_rows", "other is 1", "other=0.0", "other=1.0"),
    ("max_rows", "no other", ', other=-float("inf")', ""),
    ("max_rows", "a finite bound", '-float("inf")', "-1e6"),
    ("argmax_rows", "the smallest", "tl.argmax", "tl.argmin"),
    ("argmax_rows", "zeros beyond", 'other=-float("inf")', "other=0.0"),
    ("argmax_rows", "the sum of equal ones", "tl.argmax(x, axis=0)",
     "tl.sum(tl.where(x == tl.max(x, axis=0), lanes, 0), axis=0)"),
    ("sum_long_rows", "the first block only", "start + tl.arange", "tl.arange"),
    ("sum_long_rows", "steps of 1", "range(0, columns, BLOCK)", "range(0, columns)"),
    ("moments", "no mask on the deviations", "tl.where(lanes < columns, x - mean, 0.0)",
     "x - mean"),
    ("moments", "the mean is not subtracted", "x - mean", "x"),
    ("running_sum", "the carry is overwritten", "before += tl.sum", "before = tl.sum"),
    ("sum_columns", "the last block only", "total += tl.load", "total = tl.load"),
    ("dot_product", "no atomic", "tl.atomic_add(z_ptr", "tl.store(z_ptr"),
    ("histogram", "the mask of the atomic", ", 1, mask=mask)", ", 1)"),
    ("histogram", "a maximum", "atomic_add", "atomic_max"),
    ("softmax", "no maximum", "x - tl.max(x, axis=0)", "x"),
    ("softmax", "not divided", "weights / tl.sum(weights, axis=0)", "weights"),
    ("softmax", "base 2", "tl.exp(", "tl.exp2("),
    ("log_softmax", "the log of the softmax", "x - tl.log(tl.sum(tl.exp(x), axis=0))",
     "tl.log(tl.exp(x) / tl.sum(tl.exp(x), axis=0))"),
    ("log_softmax", "no log", "tl.log(tl.sum(tl.exp(x), axis=0))", "tl.sum(tl.exp(x), axis=0)"),
    ("online_softmax", "the maximum is not kept", "        largest = now\n", ""),
    ("softmax_backward", "the sum of dy", "tl.sum(y * dy, axis=0)", "tl.sum(dy, axis=0)"),
    ("softmax_backward", "plus", "dy - tl.sum", "dy + tl.sum"),
    ("cross_entropy", "the maximum is not added again", " + largest", ""),
    ("cross_entropy", "the first target for all", "target_ptr + row)", "target_ptr)"),
    ("rms_norm", "sqrt", "tl.rsqrt", "tl.sqrt"),
    ("rms_norm", "weights by rows", "weight_ptr + lanes", "weight_ptr + row * columns + lanes"),
    ("layer_norm", "the deviation is not masked",
     "tl.where(mask, x - tl.sum(x, axis=0) / columns, 0.0)", "x - tl.sum(x, axis=0) / columns"),
    ("layer_norm", "the bias is forgotten", " + bias", ""),
    ("layer_norm", "the bias is scaled", "away * scale * weight + bias",
     "(away + bias) * scale * weight"),
    ("rope", "both signs", "one * cos - other * sin", "one * cos + other * sin"),
    ("rope", "pairs of neighbors", "half + half + lanes", "half + 2 * lanes + 1",
     "row * 2 * half + lanes", "row * 2 * half + 2 * lanes"),
    ("rope", "angles of the whole row", "row * half", "row * 2 * half"),
    ("matvec", "the wrong axis", "tl.sum(total, axis=1)", "tl.sum(total, axis=0)"),
    ("matvec", "x along the rows", "[None, :]\n    tl.store", "[:, None]\n    tl.store"),
    ("dot_of_tiles", "element by element",
     "tl.dot(tl.load(a_ptr + places), tl.load(b_ptr + places))",
     "tl.load(a_ptr + places) * tl.load(b_ptr + places)"),
    ("matmul", "half an accumulator", "acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)",
     "acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float16)", "acc = tl.dot(a, b, acc)",
     "acc += tl.dot(a, b).to(tl.float16)"),
    ("matmul", "program ids swapped", "tl.program_id(0)", "tl.program_id(9)", "tl.program_id(1)",
     "tl.program_id(0)", "tl.program_id(9)", "tl.program_id(1)"),
    ("matmul", "the mask moves by one", "start in range(0, K, BLOCK_K)",
     "step in range(tl.cdiv(K, BLOCK_K))", "k = start + tl.arange(0, BLOCK_K)",
     "i = tl.arange(0, BLOCK_K)\n        k = step * BLOCK_K + i", "k < K", "i < K - step"),
    ("matmul", "no mask along k", "(m < M)[:, None] & (k < K)[None, :]", "(m < M)[:, None]"),
    ("linear_relu", "no bias", "acc += tl.load(bias_ptr + n, mask=n < N)[None, :]", "acc += 0"),
    ("linear_relu", "no relu", "tl.maximum(acc, 0.0)", "acc"),
    ("linear_relu", "relu before the bias", "acc += tl",
     "acc = tl.maximum(acc, 0.0)\n    acc += tl",
     "[None, :]\n    acc = tl.maximum(acc, 0.0)", "[None, :]"),
    ("batched_matmul", "one matrix b for all", "    b_ptr += i * K * N\n", ""),
    ("batched_matmul", "one element further", "    c_ptr += i * M * N\n", "",
     "c_ptr +", "c_ptr + i +"),
    ("batched_matmul", "the size of b", "i * K * N", "i * M * N"),
    ("quantized_matmul", "the scale of the rows", "tl.load(scale_ptr + n, mask=n < N)[None, :]",
     "tl.load(scale_ptr + m, mask=m < M)[:, None]"),
    ("quantized_matmul", "scaled before the product",
     "acc * tl.load(scale_ptr + n, mask=n < N)[None, :]", "acc", "b.to(tl",
     "(b * tl.load(scale_ptr + n, mask=n < N)[None, :]).to(tl"),
    ("convolution", "one tap off", "offsets - taps + 1 + t", "offsets - taps + t"),
    ("convolution", "no lower bound", "(places >= 0) & (places < n)", "places < n"),
    ("sort_rows", "zeros beyond", 'other=float("inf")', "other=0.0"),
    ("sort_rows", "descending", "tl.sort(x)", "tl.sort(x, descending=True)"),
    ("weight_gradient", "the wrong axis", "tl.sum(x * dy, axis=0)", "tl.sum(x * dy, axis=1)"),
    ("attention", "the scale is forgotten", " * scale", ""),
    ("flash_attention", "acc is not rescaled", "acc * shrunk[:, None] + tl.dot", "acc + tl.dot"),
    ("flash_attention", "the maximum is not kept", "        largest = now\n", ""),
    ("flash_attention", "no mask of the keys",
     "tl.where((seen < keys)[None, :], scores, -float(\"inf\"))", "scores"),
    ("flash_attention", "divided by the maximum", "acc / total[:, None]", "acc / largest[:, None]"),
    ("three_stages", "no wait", "        async_copy.wait_group(2)\n", ""),
    ("three_stages", "a group too many in flight", "wait_group(2)", "wait_group(3)"),
    ("in_place", "the stage is not waited for", "        tma.store_wait(1)\n", ""),
    ("in_place", "the wrong phase", "number // 2 & 1", "number & 1"),
    ("in_place", "no wait for the tile",
     "        mbarrier.wait(filled.index(number % 2), number // 2 & 1)\n", ""),
    ("in_place", "no wait at the end", "    tma.store_wait(0)\n", ""),
    ("causal_attention", "the wrong triangle", "seen[None, :] <= rows", "seen[None, :] >= rows"),
]  # fmt: skip

MISTAKES = [_of(*edits) for edits in _EDITS]

UNFIXED = frozenset(
    {
        "few_programs: one block per program",
        "outer_add: the product",
        "transpose: no transposition",
        "gather_rows: no gather",
        "moments: the mean is not subtracted",
        "log_softmax: no log",
        "softmax_backward: the sum of dy",
        "rms_norm: weights by rows",
        "rope: both signs",
        "dot_of_tiles: element by element",
        "matmul: half an accumulator",
        "linear_relu: no bias",
        "linear_relu: no relu",
        "batched_matmul: one matrix b for all",
        "quantized_matmul: the scale of the rows",
        "convolution: one tap off",
        "convolution: no lower bound",
        "flash_attention: acc is not rescaled",
        "flash_attention: the maximum is not kept",
        "flash_attention: divided by the maximum",
    }
)
"""Of the measured mistakes those for which no change of one thing was found in 20 seconds."""

MEASURED = [
    name for name in (f"{each.exercise}: {each.name}" for each in MISTAKES) if name not in UNFIXED
]
"""The mistakes for which a change was found that makes the answer right when it is followed."""
