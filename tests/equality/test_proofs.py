"""`kernellab.equal` with `proof=True`: expressions in normal form instead of random residues."""

import pytest

import kernellab
from kernellab.equality.records import Equality
from tests.support.equal_expressions import EQUAL, compared
from tests.support.equal_pairs import PAIRS

PROVED = (
    "softmax without its maximum", "softmax online", "softmax persistent and online",
    "softmax of the corpus", "log of a sum of exponentials", "softmax backward", "cross entropy",
    "matmul in groups", "matmul by descriptors", "matmul transposed", "linear, fused",
    "polynomial", "gelu", "swiglu", "multiply-add, fused", "rotary embedding", "transpose",
    "largest of rows", "sums of columns", "softmax by tiles",
)  # fmt: skip


def proof_of(name: str) -> Equality:
    pair = PAIRS[name]
    return kernellab.equal(pair.bound(), pair.second(), inputs="finite", proof=True)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved(name: str) -> None:
    equality = proof_of(name)
    assert equality.proved, equality
    assert "proved at this shape" in str(equality)
    assert equality.expressions is None


WRONG: list[tuple[str, str]] = [
    ("x * y + x", "x * y + y"),
    ("x * (y + 1)", "x * y + 1"),
    ("(x + y) * (x - y)", "x * x + y * y"),
    ("0.1 * x", "0.1001 * x"),
    ("x / 3", "x / 3.5"),
    ("1 / (x * x + 1)", "1 / (x * x + 2)"),
    ("x / (1 + tl.exp(-x))", "x / (1 + tl.exp(x))"),
    ("tl.exp(x) * tl.exp(y)", "tl.exp(x * y)"),
    ("tl.exp2(x + 1)", "tl.exp2(x) * 3"),
    ("tl.log(tl.exp(x) * 2)", "x + 2"),
    ("tl.sqrt(x * x + 1)", "tl.sqrt(x * x + 2)"),
    ("tl.rsqrt(x * x + 1)", "tl.sqrt(x * x + 1)"),
    ("tl.rsqrt(x * x + 1e-5)", "tl.rsqrt(x * x + 2e-5)"),
    ("tl.maximum(x, y)", "tl.minimum(x, y)"),
    ("tl.maximum(2 * x, 0.0)", "2 * tl.maximum(x, 1.0)"),
    ("tl.abs(x)", "x"),
    ("tl.sum(x) * ones", "(tl.sum(x) - tl.max(x, 0)) * ones"),
    ("tl.softmax(x)", "tl.softmax(2 * x)"),
    ("tl.cumsum(x, 0)", "tl.cumsum(x, 0, reverse=True)"),
    ("tl.max(x, 0) * ones", "tl.max(tl.where(place == 63, -1e9, x), 0) * ones"),
    ("tl.sin(x) + x", "tl.cos(x) + x"),
    ("libdevice.tanh(x)", "tl.sigmoid(x)"),
    ("tl.where(place < 63, x, 0.0)", "tl.where(place < 64, x, 0.0)"),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("first", "second"), WRONG)
def test_the_expressions_of_what_differs(first: str, second: str, tmp_path) -> None:
    equality = compared("f32", first, second, tmp_path, proof=True)
    assert equality.verdict == "different"
    assert not equality.proved
    assert equality.expressions is not None
    assert equality.expressions[0] != equality.expressions[1]
    assert "Expressions" in str(equality)


def test_the_text_of_expressions(tmp_path) -> None:
    equality = compared("f32", "0.25 * x * x - 1 / y", "tl.exp2(x) - x / y", tmp_path, proof=True)
    assert equality.expressions == (
        "0.25 * x_ptr[0]**2 - y_ptr[0]**(-1)",
        "exp2(x_ptr[0]) - x_ptr[0] * y_ptr[0]**(-1)",
    )


@pytest.mark.parametrize(
    ("pair", "reason"),
    [pytest.param("matmul by sums", "terms", marks=pytest.mark.slow), ("sum by atomics", "atomic")],
)
def test_what_is_not_proved_says_so(pair: str, reason: str) -> None:
    equality = proof_of(pair)
    assert equality.verdict == "equal"
    assert not equality.proved
    assert any("Not proved" in note and reason in note for note in equality.notes), equality.notes


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("kind", "first", "second"), EQUAL)
def test_a_proof_never_refutes_what_is_equal(kind, first, second, tmp_path) -> None:
    equality = compared(kind, first, second, tmp_path, proof=True)
    assert equality.verdict == "equal"
    assert equality.proved or any("Not proved" in note for note in equality.notes)
