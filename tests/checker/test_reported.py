"""Neighbors of what people reported (docs/reports.md): the same fault, or a similar one."""

import runpy
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker.records import Finding, Findings
from kernellab.errors import CompileError
from tests.checker.launches import indices, normal, zeros

pytestmark = pytest.mark.sampled(10)

# fmt: off


def check(kernel: Any, *arguments: Any, grid: tuple[int, ...] = (1,), **keywords: Any) -> Findings:
    return kernellab.check(kernel, grid, *arguments, **keywords)


def only(kernel: Any, *arguments: Any, **keywords: Any) -> Finding:
    (finding,) = check(kernel, *arguments, **keywords)
    return finding


def new(finding: Finding) -> str:
    """The lines of a fix that was tried."""
    assert finding.verified, str(finding)
    return "\n".join(change.new for change in finding.changes)


# Both arms of tl.where are computed (vllm-ascend#16275)


@triton.jit
def second_differences(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    before = tl.where(i < 2, 0.0, tl.load(x_ptr + i - 2, mask=i < n))
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) - before, mask=i < n)


@triton.jit
def lengths_by_next(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    after = tl.where(i == n - 1, 0.0, tl.load(x_ptr + i + 1, mask=i < n))
    tl.store(y_ptr + i, after - tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def rows_above(x_ptr, y_ptr, M, N: tl.constexpr, B: tl.constexpr):
    m, n = tl.arange(0, B)[:, None], tl.arange(0, N)[None, :]
    above = tl.where(m == 0, 0.0, tl.load(x_ptr + (m - 1) * N + n, mask=m < M))
    tl.store(y_ptr + m * N + n, above, mask=m < M)


@pytest.mark.parametrize(
    ("kernel", "shape", "bound"),
    [
        (second_differences, (3,), "i - 2 >= 0"),
        (lengths_by_next, (3,), "i + 1 < n"),
        (rows_above, (3, 4), "m - 1 >= 0"),
    ],
)
def test_an_arm_that_is_not_chosen_still_loads(kernel, shape, bound) -> None:
    more = {"N": 4} if len(shape) > 1 else {}
    one = only(kernel, normal(*shape), zeros(*shape), 3, B=4, **more)
    assert one.kind == "out-of-bounds"
    assert bound in new(one)


# The variable of an overflow is the one in the source (vllm#56578)


@triton.jit
def capped(s_ptr, o_ptr, cap, B: tl.constexpr):
    u = tl.load(s_ptr + tl.arange(0, B)) / cap
    tl.store(o_ptr + tl.arange(0, B), tl.exp(u) * cap)


@triton.jit
def scaled_then_stored(s_ptr, o_ptr, scale, B: tl.constexpr):
    shifted = tl.load(s_ptr + tl.arange(0, B)) + scale
    tl.store(o_ptr + tl.arange(0, B), scale * shifted)


@pytest.mark.parametrize(
    ("kernel", "value", "number", "name", "other"),
    [
        (capped, 4400.0, 50.0, "cap", "u"),
        (scaled_then_stored, 1.0, 1e30, "scale", "shifted ="),
    ],
)
def test_an_overflow_names_its_own_operand(kernel, value, number, name, other) -> None:
    one = only(kernel, torch.tensor([0.0, value]), zeros(2), number, B=2)
    assert one.kind == "infinity"
    assert name in one.what.split("=")[0]
    assert other not in one.what.split("=")[0].split()


# topk (triton#11071)


@triton.jit
def best(x_ptr, y_ptr, K: tl.constexpr):
    y = tl.topk(tl.load(x_ptr + tl.arange(0, 8)), K)
    tl.store(y_ptr + tl.arange(0, y.shape[0]), y)


@pytest.mark.parametrize("k", [0, 1])
def test_a_k_that_triton_cannot_compile_has_a_fix(k) -> None:
    with pytest.raises(CompileError, match="power of two") as refused:
        check(best, normal(8), zeros(16), K=k)
    assert refused.value.verified
    assert ("tl.max" in refused.value.advice) is (k == 1)


# A store that another thread loads (triton#9887, #10924, #8259, aiter#3132)


@triton.jit
def neighbors(x_ptr, t_ptr, y_ptr, N: tl.constexpr, S: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(t_ptr + i, tl.load(x_ptr + i))
    tl.store(y_ptr + i, tl.load(t_ptr + (i + S) % N))


@pytest.mark.parametrize(("shift", "is_found"), [(64, True), (0, False)])
def test_an_element_of_another_thread_needs_a_barrier(shift, is_found) -> None:
    found = check(neighbors, normal(512), zeros(512), zeros(512), N=512, S=shift, target="sm_90")
    assert found.kinds == (("missing-barrier",) if is_found else ())
    for one in found:
        assert "tl.debug_barrier()" in new(one)


# Where a wrong value came from (fla#1140)


@triton.jit
def shifts(g_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(g_ptr + i + 1, mask=i + 1 < n, other=0.0), mask=i < n)


@triton.jit
def transposes(g_ptr, y_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(y_ptr + i * N + j, tl.load(g_ptr + j * N + i))


@triton.jit
def takes_window(g_ptr, y_ptr, start, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(g_ptr + start + i - 1))


@pytest.mark.usefixtures("no_fixes")
@pytest.mark.parametrize(
    ("kernel", "shape", "want", "numbers", "came_from", "expected"),
    [
        (shifts, (4,), lambda g: g, {"n": 4, "B": 4}, "g_ptr[1]", "g_ptr[0]"),
        (transposes, (2, 2), lambda g: g, {"N": 2}, "g_ptr[1, 0]", "g_ptr[0, 1]"),
        (takes_window, (8,), lambda g: g[4:8], {"start": 4, "B": 4}, "g_ptr[3]", "g_ptr[4]"),
    ],
)
def test_a_wrong_value_says_where_it_came_from(
    kernel, shape, want, numbers, came_from, expected
) -> None:
    g = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
    y = want(g).contiguous()
    (one,) = check(kernel, g, torch.zeros_like(y), **numbers, expect={"y_ptr": y}).of_kind(
        "wrong-result"
    )
    assert came_from in one.advice
    assert expected in one.advice


# Strides that a kernel ignores, and those that it receives (triton#2150, TransformerEngine#623,
# executorch#22192, #22193)


@triton.jit
def turns(x_ptr, y_ptr, s0, s1, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(y_ptr + i * N + j, tl.trans(tl.load(x_ptr + i * s0 + j * s1)))


@triton.jit
def factors(x_ptr, y_ptr, stride_x, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * stride_x + j * (stride_x == 0))
    tl.store(y_ptr + i * N + j, tl.load(y_ptr + i * N + j) * x)


@triton.jit
def counts_all(x_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N * N)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def describes(x_ptr, y_ptr, stride, N: tl.constexpr):
    tile = tl.make_tensor_descriptor(x_ptr, [N, N], [stride, 1], [N, N]).load([0, 0])
    tl.store(y_ptr + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], tile)


@pytest.mark.parametrize(
    ("kernel", "x", "numbers", "want", "kinds"),
    [
        (counts_all, normal(8, 16)[:, :8], (64,), lambda x: x, ["out-of-bounds", "wrong-result"]),
        (describes, normal(8, 8, 2)[..., 0], (16,), None, ["out-of-bounds"]),
        (turns, normal(8, 8).T, (8, 1), lambda x: x.T, ["ignored-strides", "wrong-result"]),
        (turns, normal(8, 8).T, (1, 8), lambda x: x.T, []),
        (turns, normal(8, 8).T, (1, 8), None, []),
        (factors, torch.ones(1).expand(8), (1,), lambda _: torch.ones(8, 8),
         ["ignored-strides", "wrong-result"]),
        (factors, torch.ones(1).expand(8), (0,), lambda _: torch.ones(8, 8),
         ["out-of-bounds", "wrong-result"]),
    ],
)
def test_strides_are_the_cause_only_where_they_are(kernel, x, numbers, want, kinds) -> None:
    expect: dict[str, Any] = (
        {} if want is None else {"expect": {"y_ptr": want(x).contiguous()}}
    )
    found = check(kernel, x, torch.ones(8, 8), *numbers, N=8, **expect)
    assert [one.kind for one in found] == kinds
    assert all("stride" in one.advice for one in found if one.kind != "wrong-result")
    for one in found.of_kind("wrong-result"):
        assert not one.changes
        assert "With a contiguous copy of x_ptr" in one.advice


# Annotations that change a number (triton#7408)


@triton.jit
def by_int8(x_ptr, y_ptr, s: tl.int8, B: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, B), tl.load(x_ptr + tl.arange(0, B)) * s)


@triton.jit
def by_uint16(x_ptr, y_ptr, s: tl.uint16, B: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, B), tl.load(x_ptr + tl.arange(0, B)) + s)


@triton.jit
def by_half(x_ptr, y_ptr, s: tl.float16, B: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, B), tl.load(x_ptr + tl.arange(0, B)) * s)


@pytest.mark.parametrize(
    ("kernel", "x", "number", "kinds"),
    [
        (by_int8, indices(1, 2), 300, ["cast-overflow", "wrong-result"]),
        (by_int8, indices(1, 2), -128, []),
        (by_uint16, indices(1, 2), -1, ["cast-overflow", "wrong-result"]),
        (by_half, normal(2), 0.1, ["wrong-result"]),
        (by_half, normal(2), 0.125, []),
    ],
)
def test_an_annotation_that_changes_a_number_is_the_cause(kernel, x, number, kinds) -> None:
    want = x + number if kernel is by_uint16 else x * number
    found = check(kernel, x, torch.zeros_like(x), number, B=2, expect={"y_ptr": want})
    assert [one.kind for one in found] == kinds
    assert all("(x_ptr, y_ptr, s, B:" in new(one) for one in found)


# NaN that decides (triton#6635)


@triton.jit
def casts_nan(x_ptr, o_ptr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))
    tl.store(o_ptr + tl.arange(0, B), (x * 0.0).to(tl.int32))


@triton.jit
def looks_nan_up(x_ptr, o_ptr, B: tl.constexpr):
    k = (tl.load(x_ptr + tl.arange(0, B)) * 0.0).to(tl.int32)
    tl.store(o_ptr + tl.arange(0, B), tl.load(o_ptr + tl.minimum(tl.maximum(k, 0), 3)))


@pytest.mark.parametrize("kernel", [casts_nan, looks_nan_up])
def test_a_nan_that_decides_an_integer_is_found(kernel) -> None:
    x = torch.tensor([1.0, float("inf"), 2.0, 3.0])
    found = check(kernel, x, indices(0, 0, 0, 0), B=4)
    assert "nan" in found.kinds
    assert not check(kernel, torch.ones(4), indices(0, 0, 0, 0), B=4)


# Rounding that is a fault, and a different integer that is rounding (triton#8899, ROCm/aiter#4288)


@triton.jit
def variance(x_ptr, y_ptr, SHIFT: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    mean = tl.sum(x, 0) / N
    x = x - mean if SHIFT else x
    tl.store(y_ptr, tl.sum(x * x, 0) / N - (0.0 if SHIFT else mean * mean))


@triton.jit
def whole(x_ptr, q_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(q_ptr + i, (x * (127.0 / tl.max(tl.abs(x), 0))).to(tl.int8))


@pytest.mark.usefixtures("no_fixes")
@pytest.mark.parametrize("shift", [False, True])
def test_a_result_that_cancels_is_not_right(shift) -> None:
    x = normal(1024) * 0.01 + 100
    want = x.double().var(unbiased=False)[None].float()
    found = check(variance, x, zeros(1), SHIFT=shift, N=1024, expect={"y_ptr": want})
    assert [(one.kind, one.cause) for one in found] == [("wrong-result", "cancellation")][shift:]


@triton.jit
def total(x_ptr, y_ptr, N: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), 0))


def test_a_sum_of_opposites_is_right() -> None:
    x = normal(512)
    found = check(total, torch.cat([x, -x.roll(7)]), zeros(1), N=1024, expect={"y_ptr": zeros(1)})
    assert {*found.kinds} <= {"rounding"}


@pytest.mark.usefixtures("no_fixes")
@pytest.mark.parametrize(("place", "kind"), [(0, "rounding"), (1, "wrong-result")])
def test_the_next_integer_is_rounding_only_where_a_number_is_near_it(place, kind) -> None:
    x = torch.tensor([3.7, 1.0, -2.0, 0.5])
    want = torch.tensor([127, 34, -68, 17], dtype=torch.int8)
    want[place] -= 1
    found = check(whole, x, torch.zeros(4, dtype=torch.int8), B=4, expect={"q_ptr": want})
    assert found.kinds == (kind,)


# Fixes that do not follow from what the launch shows, and those that do


@triton.jit
def remainder(x_ptr, y_ptr, m, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i) % m)


@triton.jit
def largest_at(x_ptr, y_ptr, B: tl.constexpr):
    tl.store(y_ptr, tl.argmax(tl.load(x_ptr + tl.arange(0, B)), 0))


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def multiplied(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr, tl.reduce(tl.load(x_ptr + i, mask=i < n), 0, times))


@triton.jit
def one_axis(y_ptr, M, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    j = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    tl.store(y_ptr + i * N + j, i + 100 * j, mask=i < M)


@triton.jit
def asserts(x_ptr, y_ptr, n, LIMIT: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=-1)
    tl.device_assert(x >= LIMIT)
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def quotient(x_ptr, y_ptr, m, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.cdiv(tl.load(x_ptr + i), m))


@pytest.mark.parametrize(("kernel", "want"), [(remainder, 0), (quotient, 1)])
def test_integers_round_as_in_python(kernel, want) -> None:
    x = indices(-5, -3, 3, 5)
    expect = {"y_ptr": (x % 3, -(-x // 3))[want]}
    assert "% m + m) % m" in new(only(kernel, x, indices(0, 0, 0, 0), 3, B=4, expect=expect))


def test_a_number_that_is_right_by_chance_is_no_fix() -> None:
    x = torch.tensor([1.0, 3.0, 3.0, 2.0])
    assert not only(largest_at, x, indices(0), B=4, expect={"y_ptr": indices(2)}).verified
    assert not only(doubles, x, zeros(4), 4, B=4, expect={"y_ptr": zeros(4)}).verified


def test_a_product_needs_ones() -> None:
    assert "other=1.0" in new(only(multiplied, normal(5), zeros(1), 5, B=8))


def test_one_change_is_shown_for_all_that_it_removes() -> None:
    y = torch.zeros(5, 6, dtype=torch.int32)
    found = check(one_axis, y, 5, 6, B=4, grid=(2, 2))
    assert {*found.kinds} >= {"out-of-bounds", "race"}
    assert len({new(finding) for finding in found}) == 1


@pytest.mark.parametrize("limit", [0, 2])
def test_an_assertion_needs_the_mask_of_its_load(limit) -> None:
    finding = only(asserts, indices(1, 2, 3), indices(0, 0, 0), 3, LIMIT=limit, B=4)
    assert finding.verified is (limit == 0)


# The next element of a view, read before its own


@triton.jit
def lengths_of_rows(starts_ptr, y_ptr):
    i = tl.program_id(0)
    tl.store(y_ptr + i, tl.load(starts_ptr + i + 1) - tl.load(starts_ptr + i))


def test_a_neighbor_that_is_read_first_is_a_note() -> None:
    starts = indices(0, 2, 5, 7)[:-1]
    found = check(lengths_of_rows, starts, indices(0, 0, 0), grid=(3,))
    assert not found
    assert any("beyond the view" in note for note in found.notes)


# What has a look-alike, reaches the kernel as float32, is rounded early, or starts from old memory

ONE = """import triton, triton.language as tl
@triton.jit
def kernel(x_ptr, y_ptr, a, g, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    {}
"""
HALVES = torch.tensor([0.5, -1.7, float("nan"), 2.6]).repeat(2)
X = HALVES.nan_to_num(3.2)
LARGE = torch.full((8,), 1 << 30, dtype=torch.int32)
STORE, LAST = "tl.store(y_ptr + i, ", "tl.argmax(x, 0, tie_break_left=False)"
TIES = torch.tensor([1.0, 4, 4, 2, 4, 0, 1, 4])


@pytest.mark.parametrize(
    ("line", "fix", "x", "want"),
    [
        (f"{STORE}tl.exp2(x))", "tl.exp(x)", X, X.exp()),
        (f"{STORE}tl.maximum(x, 0.0))", "propagate_nan=tl", HALVES, HALVES.relu()),
        (f"{STORE}x.to(tl.int8))", "libdevice.rint(x)", X, X.round().to(torch.int8)),
        (f"tl.store(y_ptr, {LAST})", "tl.argmax(x, 0)", TIES, torch.tensor([1])),
        (f"{STORE}tl.load(x_ptr + i % a))", "i // g", X, X[:4].repeat_interleave(2)),
        (f"{STORE}tl.sort(x))", "descending=True", X, X.sort(descending=True).values),
        ("tl.store(y_ptr, tl.sum(x))", ".to(tl.int64)", LARGE, LARGE.sum()[None]),
        (f"{STORE}x * g)", 'g: "fp64"', X.double(), X.double() * 0.1),
        (f"{STORE}tl.extra.libdevice.tanh(x) * g * a)", "x / g", X, (X / 0.1).tanh() * 0.1 * 4),
        ("tl.atomic_max(y_ptr, tl.max(x - 9))", "", X, X.max().reshape(1) - 9),
    ],
)
def test_a_fix_of_what_was_reported(line, fix, x, want, tmp_path) -> None:
    file = tmp_path / "reported.py"
    file.write_text(ONE.format(line))
    kernel, g = runpy.run_path(str(file))["kernel"], 2 if "//" in fix else 0.1
    arguments = x, torch.zeros_like(want), 4, g
    found = check(kernel, *arguments, B=8, expect={"y_ptr": want}).of_kind("wrong-result")[0]
    if fix:
        assert fix in new(found)
    else:
        assert "y_ptr[0] is still what it was" in found.advice


@triton.jit
def pages(t_ptr, x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    page = tl.load(t_ptr + i // 4)
    tl.store(y_ptr + i, tl.load(x_ptr + page * 4 + i % 4, mask=i < n), mask=i < n)


@triton.jit
def picked(t_ptr, x_ptr, y_ptr, n):
    row = tl.program_id(0)
    t = tl.load(t_ptr + row)
    tl.store(y_ptr + row, tl.load(x_ptr + row * n + t))


@triton.jit
def rows_of_a_view(x_ptr, y_ptr, n, B: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, B)
    tl.store(y_ptr + row, tl.max(tl.load(x_ptr + row * n + c, mask=c < n)))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, K, N: tl.constexpr, B: tl.constexpr):
    m, k, n = tl.arange(0, B), tl.arange(0, B), tl.arange(0, N)
    a, b = a_ptr + m[:, None] * K + k[None, :], b_ptr + k[:, None] * N + n[None, :]
    c = tl.zeros((B, N), tl.float32)
    for _s in range(tl.cdiv(K, B)):
        x = tl.load(a, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b, mask=k[:, None] < K, other=0.0)
        c = tl.dot(x, y, c, input_precision="ieee")
        a += B
        b += B * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], c, mask=m[:, None] < M)


def test_a_mask_that_stays_while_pointers_move_moves_too() -> None:
    found = check(product, normal(15, 24), normal(24, 32), zeros(15, 32), 15, 24, N=32, B=16)
    assert ["(k[None, :] + _s * B < K)" in new(each) for each in found] == [True, False]
    assert "(k[:, None] + _s * B < K)" in new(found[1])
    assert "along axis 0" in found[1].advice


def test_an_access_outside_gets_the_mask_of_another_or_other() -> None:
    found = only(pages, indices(2, 0, 1), normal(12), zeros(12), 12, B=16)
    assert "tl.load(t_ptr + i // 4, mask=i < n" in new(found)
    found = only(picked, indices(3, -100, 5), normal(3, 8), zeros(3), 8, grid=(3,))
    assert "mask=t >= 0, other=0)" in new(found)
    assert "other=0" in found.advice
    found = check(rows_of_a_view, normal(8, 48)[:, :40], zeros(8), 40, B=64, grid=(8,))[0]
    assert not found.verified
    assert "(48, 1)" in found.advice


def test_an_autotuned_grid_that_fits_one_config_names_the_parameter() -> None:
    configs = [triton.Config({"B": size}) for size in (4, 8)]
    tuned = triton.autotune(configs, key=["n"])(doubles)
    found = only(tuned, normal(16), zeros(16), 16, grid=(2,), expect=lambda x_ptr: x_ptr * 2)
    assert 'meta["B"]' in found.advice


@triton.jit
def doubles(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)
