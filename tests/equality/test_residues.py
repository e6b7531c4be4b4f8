"""The laws that residues obey."""

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy
import pytest

from kernellab.equality import residues
from kernellab.equality.residues import P, R


def drawn(*shape: int, seed: int = 0) -> numpy.ndarray:
    return numpy.asarray(residues.drawn(shape, numpy.random.default_rng(seed)))


A, B, C = (drawn(8, 16, seed=seed) for seed in range(3))


def as_integers(pairs: numpy.ndarray) -> list[tuple[int, int]]:
    """Each pair as Python's integers, for the laws by Python's own arithmetic."""
    return [(int(pair.real) % P, int(pair.imag) % R) for pair in numpy.ravel(pairs)]


def test_the_primes() -> None:
    assert 2 * R + 1 == P
    assert all(number % divisor for number in (P, R) for divisor in range(2, math.isqrt(P) + 1))
    assert pow(2, R, P) == 1


def test_arithmetic_is_that_of_the_integers() -> None:
    pairs = list(zip(as_integers(A), as_integers(B)))
    for name, by_hand in (
        ("add", lambda a, b, m: (a + b) % m),
        ("subtract", lambda a, b, m: (a - b) % m),
        ("multiply", lambda a, b, m: a * b % m),
        ("divide", lambda a, b, m: a * pow(b, -1, m) % m),
    ):
        found = as_integers(getattr(residues, name)(A, B))
        wanted = [(by_hand(a, b, P), by_hand(c, d, R)) for (a, c), (b, d) in pairs]
        assert found == wanted, name


def test_products_of_matrices_and_sums() -> None:
    product = residues.matmul(A, B.T)
    by_hand = [
        (sum(a * b for a, b in zip(row, column)) % P)
        for row in A.real.astype(object)
        for column in B.real.astype(object)
    ]
    assert [pair[0] for pair in as_integers(product)] == by_hand
    total = residues.total(residues.multiply(A[:, None], B[None]), -1)
    assert numpy.array_equal(total, product)
    assert numpy.array_equal(residues.running_total(A, 1)[:, -1], residues.total(A, 1))


def test_a_long_product_is_exact() -> None:
    a, b = drawn(1, 40_000, seed=5), drawn(40_000, 1, seed=6)
    terms = zip(a.real.astype(int).ravel().tolist(), b.real.astype(int).ravel().tolist())
    assert as_integers(residues.matmul(a, b))[0][0] == sum(x * y for x, y in terms) % P


def test_exponentials_of_sums_are_products() -> None:
    product = residues.multiply(residues.exp(A), residues.exp(B))
    assert numpy.array_equal(residues.exp(residues.add(A, B)).real, product.real)
    assert numpy.isnan(product.imag).all()
    assert numpy.array_equal(residues.exp(A.T).real, residues.exp(A.T.copy()).real), "Fortran's"


def test_logarithms_and_roots_of_products() -> None:
    total = residues.add(residues.log(A), residues.log(B))
    assert numpy.array_equal(residues.log(residues.multiply(A, B)).imag, total.imag)
    back = residues.exp(residues.log(A))
    assert numpy.array_equal(abs(back.real), abs(A.real))
    roots = residues.multiply(residues.square_root(A), residues.square_root(B))
    assert numpy.array_equal(residues.square_root(residues.multiply(A, B)), roots)
    square = residues.multiply(residues.square_root(A), residues.square_root(A))
    assert numpy.array_equal(abs(square.real), abs(A.real))


def test_roots_and_logarithms_of_squares_only() -> None:
    with residues.of_squares_only():
        root = residues.square_root(A)
        back = residues.multiply(root, root), residues.exp(residues.log(A))
    for known, value in zip((back[0].real, back[0].imag, back[1].real), (A.real, A.imag, A.real)):
        is_known = ~numpy.isnan(known)
        assert 0.3 < is_known.mean() < 0.7
        assert numpy.array_equal(known[is_known], value[is_known])


@pytest.mark.parametrize(
    ("number", "kind", "fraction"),
    [
        (0.1, numpy.float32, Fraction(1, 10)), (0.1, numpy.float64, Fraction(1, 10)),
        (0.1, numpy.float16, Fraction(1, 10)), (0.1, ml_dtypes.bfloat16, Fraction(1, 10)),
        (-2.5, numpy.float32, Fraction(-5, 2)), (3e38, numpy.float32, Fraction(3 * 10**38)),
        (1e300, numpy.float64, Fraction(10**300)), (2.0**-20, numpy.float32, Fraction(1, 2**20)),
        (-(2.0**-7), ml_dtypes.bfloat16, Fraction(-1, 128)), (2.0**40, numpy.float32, 2**40),
    ],
)  # fmt: skip
def test_constants(number: float, kind: type, fraction: Fraction) -> None:
    narrow: Any = numpy.asarray(number).astype(kind)
    assert residues.of_floats(narrow.reshape(1))[0] == residues.of_fraction(fraction)


def test_whole_powers_of_two() -> None:
    three, eight = residues.of_float(3.0), residues.of_float(8.0)
    assert (residues.exp2(three).real, residues.log2(eight).imag) == (eight.real, three.imag)
    natural = residues.multiply(three, residues.of_float(0.6931472))
    assert residues.exp(natural).real == eight.real


@pytest.mark.parametrize("bits", [3, 4, 8, 11])
def test_rounding_gives_numbers_that_it_leaves_alone(bits: int) -> None:
    once, opposite = residues.rounded(A, bits), residues.rounded(residues.negative(A), bits)
    assert (once != A).mean() > 0.7
    assert numpy.array_equal(residues.rounded(once, bits), once)
    assert numpy.array_equal(residues.rounded(once, 11), once), "a wider format has them too"
    assert numpy.array_equal(residues.negative(once), opposite)
    assert residues.rounded(residues.ONE, bits) == residues.ONE


def test_zeros_as_factors() -> None:
    mask = numpy.where(A.real > 0, 0, residues.ONE)
    with residues.zeros_as_factors():
        product, total = residues.multiply(A, mask), residues.matmul(mask, B.T)
        assert numpy.array_equal(product == A, mask != 0)
        assert numpy.array_equal(total, residues.total(residues.multiply(mask[:, None], B), -1))
        assert residues.multiply(0, residues.ZERO) == residues.ZERO


def test_infinity() -> None:
    lowest = residues.of_float(-math.inf)
    assert residues.exp(lowest) == 0
    assert numpy.array_equal(residues.maximum(A, lowest), A)
    assert residues.add(A[0, 0], lowest).real == -math.inf
    assert residues.log(residues.ZERO).real == -math.inf
    assert residues.is_nan(residues.subtract(lowest, lowest))


def test_a_function_without_a_law_is_noted() -> None:
    with residues.uninterpreted_noted() as noted:
        one, other = residues.function("sin", A), residues.function("cos", A)
    assert noted == {"sin", "cos"}
    assert (one != other).any()
    assert numpy.array_equal(one, residues.function("sin", A))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [("__nv_expf", "exp"), ("__nv_fast_sinf", "sin"), ("__ocml_rsqrt_f32", "rsqrt")],
)
def test_names_of_device_functions(symbol: str, name: str) -> None:
    assert residues.plain_name(symbol) == name
