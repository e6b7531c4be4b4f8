"""Kernels written from docs/checking.md alone: faults on their lines, right twins without any."""

import pytest
import torch

from tests.checker.launches import marked_faults
from tests.checker.unseen import memory, numbers, order  # noqa: F401 - they add their twins
from tests.checker.unseen.twins import TWINS


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", TWINS, ids=lambda case: case.name)
def test_the_fault_is_found_on_its_line(case) -> None:
    torch.manual_seed(3)
    faulty = case.made(False)
    expected = marked_faults(faulty.kernel)
    assert expected, f"no line of {case.name} is marked"
    found = faulty.check()
    assert {(one.kind, one.line) for one in found} == expected, f"{found}\n{found.notes}"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", TWINS, ids=lambda case: case.name)
def test_its_twin_is_right_and_has_no_finding(case) -> None:
    torch.manual_seed(3)
    clean = case.made(True)
    names = clean.kernel.arg_names
    right = {names[place]: one for place, one in case.right(clean).items()}
    expected = {"expect": right, "rtol": case.tolerance, "atol": case.tolerance} if right else {}
    found = clean.check(**expected)
    assert not found, str(found)
