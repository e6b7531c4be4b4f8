"""Every fault of the corpus is found on its line, and nothing else; a clean twin has no finding."""

import pytest

from tests.checker.launches import all_pairs

PAIRS = all_pairs()


@pytest.mark.sampled(40)
@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.name)
def test_the_fault_is_found_on_its_line(case) -> None:
    expected = case.faulty.marked()
    assert expected, f"no line of {case.name} is marked"
    found = case.faulty.check()
    assert {(one.kind, one.line) for one in found} == expected, f"{found}\n{found.notes}"
    assert len(found) == len(expected), f"told more than once:\n{found}"
    for one in found:
        assert one.message
        assert one.advice


@pytest.mark.sampled(40)
@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.name)
def test_its_clean_twin_has_no_finding(case) -> None:
    found = case.clean.check()
    assert not found, str(found)
