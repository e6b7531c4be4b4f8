"""Kernels are judged by tests of pytest, whose failure is the verdict."""

from pathlib import Path

import pytest
import torch

import kernellab
from kernellab.testing import assert_kernel
from tests.judging.libraries import HEAD, LIBRARIES
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


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_kernels_of_a_library(name: str, tmp_path: Path) -> None:
    library = LIBRARIES[name]
    for path, text in library.files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in (file.parent, *file.parent.parents):
            if folder.is_relative_to(tmp_path) and folder != tmp_path:
                (folder / "__init__.py").touch()
        file.write_text(HEAD + text)
    generator = torch.Generator().manual_seed(0)
    case = tuple(torch.randn(size, generator=generator) for size in library.sizes)
    submission = f"{tmp_path / library.submission}"
    assert_kernel(submission, library.reference, [case])
    file = Path(submission.partition("::")[0])
    file.write_text(file.read_text().replace(*library.change))
    verdict = kernellab.judge(submission, library.reference, [case])
    assert verdict.kind == library.kind, str(verdict)
    (result,) = verdict.sarif()["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == str(file)
