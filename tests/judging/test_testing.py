"""Kernels are judged by tests of pytest, whose failure is the verdict."""

from __future__ import annotations

import pytest

from kernellab.testing import assert_kernel
from tests.judging.softmax_cases import ATTACKS, HONEST, cases, softmax

TESTS = f"""
import pytest, torch

CASES = [(torch.randn(6, 20),)]

@pytest.mark.tile_kernel("{HONEST}::plain", cases=CASES)
def test_right(x):
    return torch.softmax(x, -1)

@pytest.mark.tile_kernel("{ATTACKS}::for_one_size_only", cases=CASES, unseen=("shapes",))
def test_wrong(x):
    return torch.softmax(x, -1)

@pytest.mark.skip
@pytest.mark.tile_kernel("{ATTACKS}::for_one_size_only", cases=CASES)
def test_left_out(x):
    return torch.softmax(x, -1)

@pytest.mark.tile_kernel("nothing.py::f", cases=CASES)
def test_without_a_file(x):
    return x
"""


def test_an_assertion_has_the_text_of_the_verdict() -> None:
    assert assert_kernel(f"{HONEST}::plain", softmax, cases, unseen=()).cases == 1
    with pytest.raises(AssertionError, match="depends on a result that torch computes"):
        assert_kernel(f"{ATTACKS}::by_torch", softmax, cases, unseen=())


def test_marked_tests_are_judged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "kernellab.testing", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    shown = result.stdout.str()
    assert "for_one_size_only: rejected, after the stage 'safe'" in shown
    assert "attacks.py:" in shown
    assert "nothing.py', cannot be read" in shown
    assert "def judge(" not in shown
