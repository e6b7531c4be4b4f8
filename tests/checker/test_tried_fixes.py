"""A fix of a finding is shown only if it was tried, and no advice is false."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker import check, fixes, session
from kernellab.checker.kernel_source import Source
from kernellab.checker.records import Finding
from kernellab.checker.rewrites import WRONG, Rewrite
from kernellab.checker.session import OutOfWork, Work
from kernellab.errors import Change, CompileError, changes_between
from kernellab.records import BoundLaunch
from tests.checker.launches import zeros


@pytest.fixture(autouse=True)
def _few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixes, "MOST_TRIES", 40)


@triton.jit
def unmasked(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets), mask=offsets < n)


@triton.jit
def one_too_far(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes + 1))


@triton.jit
def too_many(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets <= n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def wrong_stride(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    mask = (r < rows)[:, None] & (c < columns)[None, :]
    x = tl.load(x_ptr + r[:, None] * rows + c[None, :], mask=mask)
    tl.store(z_ptr + r[:, None] * columns + c[None, :], x, mask=mask)


@triton.jit
def id_added(z_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, offsets * tl.program_id(0))


@triton.jit
def id_unused(z_ptr, BLOCK: tl.constexpr):
    tl.store(z_ptr + tl.arange(0, BLOCK), tl.program_id(0))


@triton.jit
def log_of_softmax(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x_ptr + lanes))
    tl.store(z_ptr + lanes, tl.log(e / tl.sum(e, axis=0)))


@triton.jit
def difference(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes) - tl.load(y_ptr + lanes))


@triton.jit
def indexed(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    z_ptr[lanes] = x_ptr[lanes] + 1


@triton.jit
def unloaded(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(z_ptr + lanes) + x_ptr)


@triton.jit
def unloaded_target(x_ptr, target_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes + target_ptr))


@triton.jit
def power(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(z_ptr + lanes, x**2)


def only(kernel: Any, *arguments: Any, programs: int = 1, kind: str, **keywords: Any) -> Finding:
    found = kernellab.check(kernel, (programs,), *arguments, **keywords)
    (finding,) = found.of_kind(kind)
    return finding


def test_a_mask_that_was_tried_is_shown_with_its_line(messages) -> None:
    finding = only(unmasked, zeros(100), zeros(100), 100, kind="out-of-bounds", BLOCK=128)
    assert finding.verified
    assert finding.advice == messages
    (change,) = finding.changes
    assert change.line == finding.line
    assert "tl.load(x_ptr + offsets, mask=offsets < n)" in change.new
    told = finding.to_dict()
    assert told["verified"]
    assert told["changes"][0]["new"] == change.new
    assert "proposals" not in told


def test_a_mask_with_one_too_many_is_changed_where_it_stands(messages) -> None:
    found = kernellab.check(too_many, (1,), zeros(100), zeros(100), 100, BLOCK=128)
    assert found.kinds == ("out-of-bounds", "out-of-bounds")
    for finding in found:
        assert finding.advice == messages


def test_a_mask_that_hides_another_mistake_is_not_shown() -> None:
    finding = only(one_too_far, zeros(128), zeros(128), kind="out-of-bounds", BLOCK=128)
    assert not finding.verified
    assert not finding.changes
    assert "mask=" not in finding.advice


def test_a_mask_is_not_blamed_for_a_wrong_stride(messages) -> None:
    tensors = zeros(20, 7), zeros(20, 7)
    sizes = {"ROWS": 16, "COLUMNS": 8}
    finding = only(wrong_stride, *tensors, 20, 7, programs=2, kind="out-of-bounds", **sizes)
    assert finding.advice == messages
    assert "only requires" not in finding.advice


def test_offsets_that_depend_on_the_program_are_not_advised_to(messages) -> None:
    z = torch.zeros(64, dtype=torch.int32)
    finding = only(id_added, z, programs=3, kind="race", BLOCK=16)
    assert "program_id" in (finding.advice)
    assert (finding.advice) == messages
    finding = only(id_unused, z, programs=3, kind="race", BLOCK=16)
    assert "program_id" in finding.advice
    assert finding.advice == messages


def test_the_logarithm_of_a_softmax_is_not_clamped(messages) -> None:
    x = torch.tensor([-200.0, 0.0, 1.0, 2.0])
    finding = only(log_of_softmax, x, zeros(4), kind="infinity", BLOCK=4)
    assert "1e-30" not in finding.advice
    assert finding.advice == messages


def test_the_change_that_makes_a_result_right_is_shown() -> None:
    x, y = torch.arange(16.0), torch.arange(16.0) * 3 + 1
    finding = only(
        difference, x, y, zeros(16), kind="wrong-result", BLOCK=16, expect={"z_ptr": x + y}
    )
    assert finding.verified
    (change,) = finding.changes
    assert change.new == "tl.store(z_ptr + lanes, tl.load(x_ptr + lanes) + tl.load(y_ptr + lanes))"
    assert "`tl.load(x_ptr + lanes) - tl.load(y_ptr + lanes)` should be" in finding.advice


def test_the_expected_function_runs_once() -> None:
    calls = []

    def expected(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> dict[str, torch.Tensor]:
        calls.append(1)
        return {"z_ptr": x_ptr + y_ptr}

    x, y = torch.arange(16.0), torch.arange(16.0) * 3 + 1
    finding = only(difference, x, y, zeros(16), kind="wrong-result", BLOCK=16, expect=expected)
    assert finding.verified
    assert len(calls) == 1


def test_a_change_leaves_the_kernel_and_its_arguments_as_they_are() -> None:
    x, y, z = torch.arange(16.0), torch.ones(16), zeros(16)
    kernellab.check(difference, (1,), x, y, z, BLOCK=16, expect={"z_ptr": x + y})
    assert not z.any()
    kernellab.run(difference, (1,), x, y, z, BLOCK=16)
    assert torch.equal(z, x - y)


@pytest.mark.parametrize(
    ("kernel", "said", "unsaid"), [(indexed, "x_ptr", "  "), (unloaded, "x_ptr", "float")]
)
def test_a_pointer_is_not_called_something_else(kernel, said, unsaid, messages) -> None:
    with pytest.raises(CompileError) as caught:
        kernellab.compile(kernel, zeros(16), zeros(16), BLOCK=16, target="sm_90")
    assert said in caught.value.advice
    assert caught.value.advice == messages
    assert unsaid not in caught.value.advice


def test_a_target_that_was_not_loaded_is_not_a_float(messages) -> None:
    with pytest.raises(CompileError) as caught:
        kernellab.compile(unloaded_target, "*fp32", "*i32", "*fp32", BLOCK=16, target="sm_90")
    assert caught.value.advice == messages
    assert "float" not in caught.value.advice


def test_a_fix_of_the_compilers_is_tried_too() -> None:
    with pytest.raises(CompileError) as caught:
        kernellab.compile(power, zeros(16), zeros(16), BLOCK=16, target="sm_90")
    told = caught.value.diagnostic.to_json()
    assert told["verified"]
    assert told["changes"][0]["new"] == "tl.store(z_ptr + lanes, x * x)"


def test_whether_fixes_are_tried_depends_on_the_work_alone(monkeypatch) -> None:
    launch = BoundLaunch(unmasked, (1,), (zeros(100), zeros(100), 100), {"BLOCK": 128})
    first, second = (check.examined(launch, check.CheckOptions()).work for _ in range(2))
    assert first == second > 0
    monkeypatch.setattr(fixes, "MOST_WORK", first)
    assert kernellab.check(launch)[0].verified
    monkeypatch.setattr(fixes, "MOST_WORK", first - 1)
    assert not kernellab.check(launch)[0].verified
    with pytest.raises(OutOfWork):
        check.examined(launch, check.CheckOptions(work=Work(most=first - 1)))


@triton.jit
def squared(x_ptr, CALL: tl.constexpr):
    rows = tl.arange(0, 64)
    place = x_ptr + rows[:, None] * 64 + rows[None, :]
    x = tl.load(place)
    tl.store(place, tl.dot(x, x).to(tl.float16))


def test_matmuls_are_work(monkeypatch) -> None:
    def work(call: int) -> int:
        launch = BoundLaunch(squared, (1,), (torch.zeros(64, 64, dtype=torch.float16), call), {})
        return check.examined(launch, check.CheckOptions()).work

    counted = work(0)
    monkeypatch.setattr(session, "MATMUL", 10**9)
    assert counted - work(1) == 2 * 64**3 // 256


@triton.jit
def half_of_it(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(z_ptr + lanes, tl.where(lanes < n // 2, x, 0.0), mask=lanes < n)


def test_what_triton_warns_of_a_change_is_not_shown(monkeypatch) -> None:
    def changes(source: Source) -> Iterator[Rewrite]:
        yield Rewrite(source.text.replace("lanes < n // 2", "x"), "the condition")

    monkeypatch.setattr(fixes, "_SEARCHED", {"wrong-result": (changes,)})
    x, z = torch.rand(16) + 1, zeros(16)
    with warnings.catch_warnings(record=True) as warned:
        found = kernellab.check(half_of_it, (1,), x, z, 16, BLOCK=16, expect={"z_ptr": x})
    assert found[0].verified
    assert not warned


TEXT = """def kernel(x_ptr, y_ptr, z_ptr, n, eps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    {}
    tl.store(z_ptr + i, x, mask=i < n)
"""


def is_tried(line: str, new: str, grid: tuple[int, ...] | None = None) -> bool:
    """Return whether a line with `new` in it is among the first changes of a wrong result."""
    values = {name: torch.ones(4) for name in ("x_ptr", "y_ptr", "z_ptr")}
    source = Source(TEXT.format(line), {**values, "n": 4, "eps": 0.5, "BLOCK": 4}, grid)
    most = fixes.Tries(200)
    return bool(fixes.search(source, WRONG, list, lambda made, _: new in made.text, most))


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("x = eps * y + x", "x = eps * x + y"),
        ("x = (x + y) * eps", "x = x * eps + y"),
        ("x = x * (y - eps)", "x = y * (x - eps)"),
        ("x = x / (tl.sqrt(y) + eps)", "x = x / (tl.sqrt(y + eps))"),
        ("x = tl.maximum(x, 0.0) + y", "x = tl.maximum(x + y, 0.0)"),
        ("x = tl.where(i < 9, x, 0.0)", 'x = tl.where(i < 9, x, -float("inf"))'),
        ("x = x[None, :] + y[:, None]", "x = x[:, None] + y[None, :]"),
        ("x = tl.where((i < 8) & (y < x), x, y)", "(i <= 8) & (y <= x)"),
        ("tl.store(z_ptr, tl.load(z_ptr) + x)", "tl.atomic_add(z_ptr, x)"),
        ("x = tl.load(x_ptr + tl.num_programs(0) * i)", "tl.load(x_ptr + BLOCK * i)"),
        ("for k in x:\n        y = tl.maximum(y, k)\n        x += k - y", "x *= tl.exp(y - tl.max"),
        ("for k in x:\n        m = tl.max(k)\n        y = m", "m = tl.maximum(y, tl.max(k))"),
        ("x = tl.dot(x, y) + y * eps", "x = tl.dot(x, y) * eps + y"),
        ("y = tl.exp(y)", "x / tl.sum(y, axis=0)"),
        ("for k in x:\n        x_ptr += BLOCK", "x_ptr += BLOCK * n"),
        ("x = tl.where(tl.arange(0, BLOCK) < 8, x, y)", "x = tl.where(i < 8"),
        ("x = x / tl.max(x, axis=0)", "x - tl.max(x, axis=0)"),
        ("x = x * 0.44715", "0.044715"),
        (
            "for k in range(0, n, 2):\n        y = tl.cumsum(x, axis=0)",
            "carry += tl.sum(x, axis=0)",
        ),
        ("for k in range(tl.program_id(0), n, BLOCK):\n        x += k", "n, tl.num_programs(0)"),
    ],
)
def test_a_likely_change_is_tried_early(line, new) -> None:
    assert is_tried(line, new)


def test_programs_are_not_made_to_do_the_same() -> None:
    assert is_tried("x = tl.load(x_ptr + tl.program_id(1))", "x_ptr + tl.program_id(0)")
    assert not is_tried("x = x + 1", "tl.program_id(2)")
    line = "x = tl.load(x_ptr + tl.program_id(0))"
    assert is_tried(line, "x_ptr + tl.program_id(1)", (4, 4))
    assert not is_tried(line, "x_ptr + tl.program_id(1)", (4, 1))
    assert is_tried(line, "tl.load(x_ptr)", (4, 1))


def test_a_last_line_that_is_deleted_is_a_change() -> None:
    assert changes_between("a\nb\nc\n", "a\nb\n", 5) == (Change(7, "c", ""),)


def test_a_line_that_leaves_a_loop_keeps_its_indentation() -> None:
    (change,) = changes_between("for i in x:\n    a\n    b\n", "for i in x:\n    a\nb\n", 1)
    assert change == Change(2, "    a\n    b", "    a\nb")
