"""Every fault of the corpus is found on its line, and nothing else; a clean twin has no finding."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import kernellab
from kernellab import triton_api
from kernellab.checker.records import Finding, Findings
from tests.checker.launches import Launch, all_pairs
from tests.checker.unseen import memory, numbers, order  # noqa: F401 - they add their twins
from tests.checker.unseen.twins import TWINS

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


def changed(kernel: Any, finding: Finding) -> Any:
    lines = str(kernel.src).splitlines()
    first = triton_api.definition_of(kernel).line
    for change in sorted(finding.changes, key=lambda change: -change.line):
        place = change.line - first
        old, new = change.old.splitlines(), change.new.splitlines()
        replaced = lines[place : place + len(old)]
        assert [line.strip() for line in replaced] == [line.strip() for line in old]
        if len(old) == len(new) == 1 and replaced != old:  # without its indentation
            new = [line.replace(line.strip(), new[0]) for line in replaced]
        lines[place : place + len(old)] = new
    return triton_api.with_source(kernel, "\n".join(lines))


def followed(kernel: Any, check: Callable[[Any], Findings]) -> int:
    """Follow each fix of a check's findings by itself; return how many there were."""
    found = check(kernel)
    fixes = [one for one in found if one.verified and one.changes]
    known = {(one.kind, one.argument) for one in found}
    for one in fixes:
        after = {(other.kind, other.argument) for other in check(changed(kernel, one))}
        assert (one.kind, one.argument) not in after, str(one)
        assert after <= known, str(one)
    return len(fixes)


@pytest.mark.thinned(2)
@pytest.mark.sampled(40)
@pytest.mark.parametrize("case", all_pairs(), ids=lambda case: case.name)
def test_a_fix_of_the_corpus_helps(case) -> None:
    launch: Launch = case.faulty
    followed(
        launch.kernel,
        lambda kernel: kernellab.check(
            kernel, launch.grid, *launch.arguments(), outputs=launch.outputs, **launch.constants
        ),
    )


@pytest.mark.thinned(3)
@pytest.mark.sampled(80)
@pytest.mark.parametrize("case", TWINS, ids=lambda case: case.name)
def test_a_fix_of_an_unseen_kernel_helps(case) -> None:
    torch.manual_seed(3)
    faulty = case.made(False)
    names = faulty.kernel.arg_names
    right = {
        names[place]: one
        for place, one in case.right(faulty).items()
        if one.shape == getattr(faulty.args[place], "shape", None)  # of the right launch, else
    }
    keywords = {"expect": right, "rtol": case.tolerance, "atol": case.tolerance} if right else {}
    followed(faulty.kernel, lambda kernel: replace(faulty, kernel=kernel).check(**keywords))
