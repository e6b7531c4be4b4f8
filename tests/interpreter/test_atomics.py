"""Atomics against their definition: a loop that reads, changes and writes one element
after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.interpreter.memory import global_memory

FLOATS = [np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
INTEGERS = [np.dtype(f"i{size}") for size in (1, 2, 4, 8)]
bounded = settings(max_examples=300, derandomize=True)


INTEGER_RULES: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__,
    "and": int.__and__,
    "or": int.__or__,
    "xor": int.__xor__,
    "max": max,
    "min": min,
    "umax": max,
    "umin": min,
    "exchange": lambda _, operand: operand,
}
"""For numbers as large as they like, of those that are compared as unsigned integers too."""


def integer_rule(operation: str, state: int, operand: int, kind: np.dtype) -> int:
    """What is left of the result in the integer type."""
    count = 1 << 8 * kind.itemsize
    if operation.startswith("u"):
        state, operand = state % count, operand % count
    result = INTEGER_RULES[operation](state, operand) % count
    return result - count if result >= count // 2 else result


@st.composite
def places(draw: Any) -> tuple[int, np.ndarray]:
    """How many elements there are, and which an atomic goes to:
    each once, some often, or one almost always.
    """
    size = draw(st.integers(1, 12))
    if draw(st.booleans()):
        targets = draw(st.lists(st.integers(0, size - 1), unique=True))
    else:
        few = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=30))
        crowd = [few[0]] * draw(st.sampled_from([0, 0, 64, 65, 200]))
        targets = few[:5] + crowd + few
    return size, np.array(targets, np.int64)


@pytest.mark.slow
@bounded
@given(places(), st.sampled_from(INTEGERS), st.sampled_from(sorted(INTEGER_RULES)), st.data())
def test_integers(where: tuple[int, np.ndarray], kind: np.dtype, operation: str, data: Any) -> None:
    size, targets = where
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    limits = np.iinfo(kind)
    elements = random.integers(limits.min, limits.max, size, kind, endpoint=True)
    operands = random.integers(limits.min, limits.max, len(targets), kind, endpoint=True)
    state, expected = elements.tolist(), []
    for target, operand in zip(targets.tolist(), operands.tolist()):
        expected.append(state[target])
        state[target] = integer_rule(operation, state[target], operand, kind)
    unasked = elements.copy()
    found = global_memory.update_in_turns(operation, elements, targets, operands)
    assert found.dtype == kind
    assert found.tolist() == expected
    assert elements.tolist() == state
    global_memory.apply_in_turns(operation, unasked, targets, operands)
    assert unasked.tolist() == state


@pytest.mark.slow
@bounded
@given(places(), st.sampled_from(FLOATS), st.sampled_from(["fadd", "exchange"]), st.data())
def test_floats(where: tuple[int, np.ndarray], kind: np.dtype, operation: str, data: Any) -> None:
    """Every sum is rounded: in another order, or with fewer roundings, some bit would differ."""
    size, targets = where
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e30])
    numbers = random.standard_normal(size + len(targets)) * 10.0 ** random.integers(-5, 5)
    some_special = random.random(len(numbers)) < data.draw(st.sampled_from([0.0, 0.05]))
    with np.errstate(all="ignore"):
        numbers = np.where(some_special, random.choice(special, len(numbers)), numbers).astype(kind)
        elements, operands = numbers[:size].copy(), numbers[size:]
        state, expected = list(elements), []
        for target, operand in zip(targets.tolist(), operands):
            expected.append(state[target])
            total = kind.type(state[target] + operand)
            state[target] = operand if operation == "exchange" else total
        unasked = elements.copy()
        found = global_memory.update_in_turns(operation, elements, targets, operands)
        global_memory.apply_in_turns(operation, unasked, targets, operands)
    nan = np.isnan(np.array(state, kind).astype(np.float64))
    assert found.dtype == kind
    for got, want in ((found, np.array(expected, kind)), (elements, np.array(state, kind))):
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
        assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(want)])
    assert unasked[~nan].tobytes() == elements[~nan].tobytes()


@bounded
@given(places(), st.sampled_from([2, 4, 8]), st.data())
def test_compare_and_swap(where: tuple[int, np.ndarray], width: int, data: Any) -> None:
    """Of few values, so that many comparisons hold."""
    size, targets = where
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    values = random.integers(0, np.iinfo(f"u{width}").max, 3, f"u{width}", endpoint=True)
    elements = random.choice(values, size)
    compared, new = random.choice(values, len(targets)), random.choice(values, len(targets))
    state, expected = elements.tolist(), []
    for target, old, replacement in zip(targets.tolist(), compared.tolist(), new.tolist()):
        expected.append(state[target])
        state[target] = replacement if state[target] == old else state[target]
    found = global_memory.swap_in_turns(elements, targets, compared, new)
    assert found.dtype == elements.dtype
    assert found.tolist() == expected
    assert elements.tolist() == state


@pytest.mark.parametrize("addresses", [1, 1000])
def test_a_million_collisions_take_no_loop_over_elements(addresses: int) -> None:
    """A ticket counter, and a histogram with a few crowded bins."""
    random = np.random.default_rng(0)
    targets = np.minimum(random.geometric(0.01, 1_000_000), addresses) - 1
    elements = np.zeros(addresses, np.int64)
    found = global_memory.update_in_turns("add", elements, targets, np.ones(len(targets), np.int64))
    assert elements.tolist() == np.bincount(targets, minlength=addresses).tolist()
    for address in range(0, addresses, 100):
        assert np.array_equal(found[targets == address], np.arange(elements[address]))
