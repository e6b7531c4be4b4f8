"""Which elements of a result count as different, for every function that compares results."""

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.interpreter.execution.program import program_code
from kernellab.launch import results
from kernellab.launch.preparation import EntryPoint, prepare_bound
from kernellab.launch.results import (
    Tolerances,
    Within,
    compare,
    elements_off,
    is_equal,
    is_finite,
    is_within,
    rounding_of,
)

INFINITY, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "allowed", "is_off"),
    [
        (1.05, 1.0, 0.1, False), (1.2, 1.0, 0.1, True), (NAN, NAN, 0.1, False),
        (1.0, NAN, 0.1, True), (INFINITY, INFINITY, 0.1, False), (3.0, INFINITY, INFINITY, True),
        (INFINITY, 3.0, INFINITY, True), (-INFINITY, INFINITY, INFINITY, True),
        (-0.0, 0.0, 0.0, False),
    ],
)  # fmt: skip
def test_one_element(actual, expected, allowed, is_off) -> None:
    sides = torch.tensor([actual]), torch.tensor([expected])
    assert elements_off(*sides, torch.tensor([allowed])).tolist() == [is_off]


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16])
def test_nan_is_found_in_all_types(kind) -> None:
    assert [is_finite(torch.tensor([1.0, last]).to(kind)) for last in (2.0, NAN)] == [True, False]


def test_without_a_tolerance_every_bit_counts() -> None:
    floats = torch.tensor([0.0, NAN, 1.0]), torch.tensor([-0.0, NAN, 1.0])
    assert elements_off(*floats, None).tolist() == [True, False, False]
    integers = torch.tensor([2**60, 5]), torch.tensor([2**60 + 1, 5])
    assert elements_off(*integers, None).tolist() == [True, False]


def test_a_difference_names_the_first_element_and_the_farthest_distance() -> None:
    expected = torch.arange(12.0).reshape(3, 4)
    actual = expected.clone()
    actual[1, 2], actual[2, 0] = 6.5, NAN
    (found,) = compare({"z_ptr": actual}, {"z_ptr": expected}, Tolerances(atol=0.25))
    assert (found.element, found.actual, found.expected) == ("z_ptr[1, 2]", 6.5, 6.0)
    assert (found.count, found.size, found.largest, found.allowed) == (2, 12, INFINITY, 0.25)


def test_a_large_tensor_is_compared_in_parts(monkeypatch) -> None:
    monkeypatch.setattr(results, "_PIECE", 100)
    expected = torch.zeros(5, 7, 30)
    actual = expected.clone()
    actual[3, 6, 29] = actual[4, 0, 0] = 1.0
    (found,) = compare({"x": actual}, {"x": expected})
    assert (found.index, found.count) == ((3, 6, 29), 2)
    assert results.size_of(actual) == pytest.approx((2 / 1050) ** 0.5)


def test_a_number_is_not_accepted_for_an_infinity() -> None:
    right, got = torch.tensor([1.0, INFINITY]), torch.tensor([1.0, 3.0])
    (found,) = compare({"x": got}, {"x": right}, Tolerances())
    assert (found.count, found.index) == (1, (1,))
    allowed = Tolerances().elements("x", got, right)
    assert not is_within(got, Within(right, allowed))


def test_integers_must_be_equal_and_the_coarser_dtype_counts() -> None:
    long = torch.tensor([2**60 + 1]), torch.tensor([2**60])
    assert not is_equal(*long, Tolerances())
    assert is_equal(*long, Tolerances(rtol=1e-6))
    rounded = torch.tensor([1.0001]).bfloat16()
    assert is_equal(rounded, torch.tensor([1.02]), Tolerances())
    assert not is_equal(rounded.float(), torch.tensor([1.02]), Tolerances())


@triton.jit
def operations(x_ptr, z_ptr, NAME: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if NAME == "copy":
        z = tl.maximum(x, 0.0)
    elif NAME == "multiply and add":
        z = x * 2.5 + x
    elif NAME == "sum":
        z = x - tl.sum(x)
    elif NAME == "exp":
        z = tl.exp(x)
    elif NAME == "bf16":
        z = x.to(tl.bfloat16).to(tl.float32)
    elif NAME == "loop":
        z = x
        for _ in range(3):
            z = z + x
    else:
        z = tl.load(z_ptr + at) + x
    tl.store(z_ptr + at, z)


UNIT = 2.0**-24


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("copy", 4 * UNIT), ("multiply and add", 4 * 3 * UNIT), ("sum", 4 * (2 + 4 * 32) * UNIT),
        ("exp", 1e-4), ("bf16", 4 * (UNIT + 2.0**-8)), ("loop", 1e-4), ("in place", 1e-4),
    ],
)  # fmt: skip
def test_the_tolerance_follows_from_the_operations_of_a_kernel(name, part) -> None:
    x = torch.ones(1024)
    launch = kernellab.bind(operations, (1,), x, torch.ones(1024), NAME=name, BLOCK=1024)
    prepared = prepare_bound(launch, None, EntryPoint("check"))
    code = program_code(prepared.kernel, prepared.call, prepared.target)
    assert rounding_of(code) == {"z_ptr": pytest.approx(part)}
