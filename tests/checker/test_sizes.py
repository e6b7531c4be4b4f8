"""`kernellab.check(..., sizes=...)`: proofs for every size, and the smallest launch that fails."""

import itertools
import sys
from fractions import Fraction
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

import kernellab
from kernellab.checker.sizes import Polynomial, is_never_negative

NUMBERS = st.integers(-3, 3)
MONOMIALS = [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "a"), ("b", "c")]
POLYNOMIALS = st.lists(NUMBERS, min_size=len(MONOMIALS), max_size=len(MONOMIALS)).map(
    lambda numbers: Polynomial({m: Fraction(n) for m, n in zip(MONOMIALS, numbers) if n})
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(goal=POLYNOMIALS, facts=st.lists(POLYNOMIALS, max_size=3))
def test_what_is_proved_holds_wherever_the_facts_do(goal, facts) -> None:
    if not is_never_negative(goal, facts):
        return
    for values in itertools.product(range(5), repeat=3):
        at = dict(zip("abc", values))
        if all(fact.at(at) >= 0 for fact in facts):
            assert goal.at(at) >= 0, at


# Kernels, and twins of them with a fault: FAULT is 0 in the kernel that is right


@triton.jit
def flat(x_ptr, z_ptr, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    step: tl.constexpr = BLOCK - 1 if FAULT == 3 else BLOCK
    offsets = tl.program_id(0) * step + tl.arange(0, BLOCK)
    if FAULT == 1:
        x = tl.load(x_ptr + offsets)
    elif FAULT == 2:
        x = tl.load(x_ptr + offsets, mask=offsets <= n)
    else:
        x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, x + tl.program_id(0), mask=offsets < n)


@triton.jit
def wrapped(x_ptr, z_ptr, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets % (n + FAULT))
    tl.store(z_ptr + offsets, x, mask=offsets < n)


@triton.jit
def guarded(x_ptr, z_ptr, m, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    if row < m + FAULT:
        columns = tl.arange(0, BLOCK)
        for start in range(tl.cdiv(n, BLOCK)):
            inside = columns < n - start * BLOCK
            place = row * n + start * BLOCK + columns
            tl.store(z_ptr + place, tl.load(x_ptr + place, mask=inside), mask=inside)


M, N, K = 48, 80, 112
ANY = (1, None)


def cdiv(size: int, block: int) -> int:
    return -(-size // block)


def _over_n(block: int) -> Any:
    return lambda meta: (cdiv(meta["n"], block),)


def found(kernel: Any, fault: int) -> Any:
    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape)

    options: dict[str, Any] = {"BLOCK": 16, "FAULT": fault}
    if kernel is guarded:
        given, grid = (zeros(M, N), zeros(M, N), M, N), lambda meta: (meta["m"] + 3,)
        return kernellab.check(kernel, grid, *given, sizes={"m": ANY, "n": ANY}, **options)
    grid = _over_n(15 if fault == 3 else 16)
    return kernellab.check(kernel, grid, zeros(N), zeros(N), N, sizes={"n": ANY}, **options)


KERNELS = (flat, wrapped, guarded)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_is_right_for_every_size(kernel) -> None:
    findings = found(kernel, 0)
    assert findings.every_size == "proved", findings.notes
    assert not findings.findings
    assert findings.to_dict()["every_size"] == "proved"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("kernel", "fault", "kind"),
    [
        (flat, 1, "out-of-bounds"), (flat, 2, "out-of-bounds"), (flat, 3, "race"),
        (wrapped, 1, "out-of-bounds"), (guarded, 1, "out-of-bounds"),
    ],
)  # fmt: skip
def test_a_fault_is_shown_by_a_small_launch(kernel, fault, kind) -> None:
    findings = found(kernel, fault)
    assert findings.every_size == "refuted", findings.notes
    assert kind in findings.kinds


@triton.jit
def strided(x_ptr, z_ptr, m, n, stride, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n)
    tl.store(z_ptr + row * n + columns, x, mask=columns < n)


@pytest.mark.parametrize(("stride", "decision"), [(N, "proved"), (K, "not decided")])
def test_a_grid_that_is_computed_from_a_size(stride, decision) -> None:
    """For a view the small launches have views too, so that none of them fails."""
    x, z, grid = torch.zeros(M, stride)[:, :N], torch.zeros(M, N), lambda meta: (meta["m"],)
    given, sizes = {"n": N, "stride": stride, "BLOCK": 128}, {"m": ANY}
    findings = kernellab.check(strided, grid, x, z, M, **given, sizes=sizes)
    assert findings.every_size == decision, findings.notes


# What z3 proves where intervals do not


@triton.jit
def grouped(x_ptr, z_ptr, m, n, BLOCK: tl.constexpr):
    pid, wide = tl.program_id(0), tl.cdiv(n, BLOCK)
    first = pid // (4 * wide) * 4
    group = tl.minimum(tl.cdiv(m, BLOCK) - first, 4)
    rows = (first + pid % (4 * wide) % group) * BLOCK + tl.arange(0, BLOCK)
    columns = pid % (4 * wide) // group * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    places = rows[:, None] * n + columns[None, :]
    tl.store(z_ptr + places, tl.load(x_ptr + places, mask=inside), mask=inside)


@triton.jit
def transposed(x_ptr, z_ptr, m, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < m * n)
    tl.store(z_ptr + places % n * m + places // n, x, mask=places < m * n)


@triton.jit
def returning(x_ptr, z_ptr, m, n, BLOCK: tl.constexpr):
    row = tl.num_programs(0) - 1 - tl.program_id(0)
    if row >= m:
        return
    for start in range(0, n, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + tl.where(places < n, places, 0))
        tl.store(z_ptr + row * n + places, x, mask=~(places >= n))


@triton.jit
def strided_while(x_ptr, z_ptr, m, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    while start < m * n:
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.maximum(places - 1, 0), mask=places < m * n)
        tl.store(z_ptr + places, x, mask=places < m * n)
        start += tl.num_programs(0) * BLOCK


@triton.jit
def late(x_ptr, z_ptr, m, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.where(places < 290, places, places + 1), mask=places < n)
    tl.store(z_ptr + places, x, mask=places < n)


def _flat(meta: Any) -> tuple[int]:
    return (cdiv(meta["m"] * meta["n"], 16),)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("kernel", "decision"),
    [
        (returning, "proved"), (grouped, "proved"), (transposed, "proved"),
        (strided_while, "proved"), (late, "refuted"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_z3", [True, False])
def test_what_only_z3_decides(kernel, decision, has_z3, monkeypatch) -> None:
    """The fault of `late` needs more elements than the small launches that are tried have."""
    if has_z3:
        pytest.importorskip("z3", reason="z3 (the extra proofs) is not installed")
    else:
        monkeypatch.setitem(sys.modules, "kernellab.checker.solver", None)
    shape = (N, M) if kernel is transposed else (N,) if kernel is late else (M, N)
    grid = {returning: lambda meta: (meta["m"] + 3,), late: lambda meta: (20,)}.get(kernel, _flat)
    if kernel is grouped:
        grid = lambda meta: (cdiv(meta["m"], 16) * cdiv(meta["n"], 16),)  # noqa: E731
    given = torch.zeros(shape[::-1] if kernel is transposed else shape), torch.zeros(shape), M, N
    sizes = {"n": ANY} if kernel is late else {"m": ANY, "n": ANY}
    findings = kernellab.check(kernel, grid, *given, BLOCK=16, sizes=sizes)
    assert findings.every_size == (decision if has_z3 else "not decided"), findings.notes
    assert has_z3 or any("kernellab[proofs]" in note for note in findings.notes)


@triton.jit
def halved(x_ptr, z_ptr, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """Stores to n // 2 elements of z; with a fault, two programs store to the same."""
    offsets = tl.program_id(0) * (BLOCK - FAULT) + tl.arange(0, BLOCK)
    inside = offsets < n // 2
    tl.store(z_ptr + offsets, tl.load(x_ptr + 2 * offsets, mask=inside), mask=inside)


@pytest.mark.parametrize(
    ("grid", "fault", "decision"), [((3,), 1, "refuted"), (_over_n(16), 0, "not decided")]
)
def test_a_shape_that_does_not_follow_refutes_nothing(grid, fault, decision) -> None:
    """The given launch does, of which other sizes are not known."""
    pytest.importorskip("z3", reason="z3 (the extra proofs) is not installed")
    x, z, sizes = torch.zeros(80), torch.zeros(40), {"n": (1, 200)}
    findings = kernellab.check(halved, grid, x, z, 80, BLOCK=16, FAULT=fault, sizes=sizes)
    assert findings.every_size == decision
    assert any(("(40,)", "n = 80")[fault] in note for note in findings.notes)
