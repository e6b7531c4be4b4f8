"""The conformance tool: a made-up file of tests in each mode, and what it makes of outcomes."""

import json
from pathlib import Path

import pytest

from benchmarks.conformance import DEVIATIONS, MODES, run_tests, unit_tests_of
from benchmarks.conformance_results import (
    Deviation,
    Outcome,
    counts_by_file,
    gist,
    grouped,
    judge,
    read_deviations,
    read_outcomes,
)

UPSTREAM_LIKE = """
import pytest
import torch
import triton
import triton.language as tl
from triton._internal_testing import is_cuda, is_interpreter

MACHINE = "interpreter" if is_interpreter() else "cuda" if is_cuda() else "nothing"

@triton.jit
def add_kernel(x_ptr, y_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.store(y_ptr + offsets, GENERATE_HERE)

def patch_kernel(template, to_replace):
    if is_interpreter():
        raise NotImplementedError
    kernel = triton.JITFunction(template.fn)
    for key, value in to_replace.items():
        kernel._unsafe_update_src(kernel.src.replace(key, value))
    return kernel

def double(device):
    x = torch.arange(16, device=device)
    y = torch.zeros(16, device=device, dtype=torch.int64)
    kernel = patch_kernel(add_kernel, {"GENERATE_HERE": "2 * tl.load(x_ptr + offsets)"})
    return x, y, kernel[(1,)](x, y, N=16)

@pytest.mark.interpreter
def test_runs(device):
    x, y, _ = double(device)
    assert torch.equal(y, 2 * x)

@pytest.mark.interpreter
@pytest.mark.parametrize("expected", ["interpreter", "cuda"])
def test_machine(expected):
    if expected == "interpreter" and MACHINE == "cuda":
        pytest.skip("only on the interpreter")
    assert MACHINE == expected

@pytest.mark.interpreter
def test_refusal(device):
    kernel = patch_kernel(add_kernel, {"GENERATE_HERE": "no_such_thing"})
    with pytest.raises(triton.CompilationError):
        kernel[(1,)](torch.zeros(16, device=device), torch.zeros(16, device=device), N=16)

def test_cuda(device):
    assert torch.cuda.get_device_capability()[0] == 9
    assert torch.zeros(4, device="cuda").cuda().pin_memory().to(torch.device("cuda:0")).sum() == 0
    _, _, compiled = double(device)
    assert ".target sm_90" in compiled.asm["ptx"]

@pytest.mark.interpreter
@pytest.mark.xfail(reason="never did")
def test_expected_to_fail():
    assert False

@pytest.mark.interpreter
def test_statistics():
    import scipy.stats
    assert scipy.stats.kstest([0.1, 0.9, 0.5], "uniform", args=(0, 1)).statistic < 0.25
    assert scipy.stats.kstest([0.1, 0.1, 0.1], "uniform", args=(0, 1)).statistic == pytest.approx(0.9)
"""

CONFTEST = """
import pytest

def pytest_configure(config):
    config.addinivalue_line("markers", "interpreter: runs on the interpreter")

def pytest_addoption(parser):
    parser.addoption("--device")

@pytest.fixture
def device(request):
    return request.config.getoption("--device")
"""

EXPECTED = {
    "interpreter": {
        "test_runs": "passed",
        "test_machine[interpreter]": "passed",
        "test_machine[cuda]": "failed",
        "test_refusal": "passed",
        "test_expected_to_fail": "skipped",
        "test_statistics": "passed",
    },
    "gpu": {
        "test_runs": "passed",
        "test_machine[interpreter]": "skipped",
        "test_machine[cuda]": "passed",
        "test_refusal": "passed",
        "test_cuda": "passed",
        "test_expected_to_fail": "skipped",
        "test_statistics": "passed",
    },
    "null": {
        "test_runs": "failed",
        "test_machine[interpreter]": "passed",
        "test_machine[cuda]": "failed",
        "test_refusal": "passed",
        "test_expected_to_fail": "skipped",
        "test_statistics": "passed",
    },
}


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_made_up.py").write_text(UPSTREAM_LIKE)
    (tmp_path / "test_broken.py").write_text("import no_such_package")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_modes(upstream: Path, mode: str) -> None:
    files = ["test_made_up.py"] if mode == "null" else ["test_made_up.py", "test_broken.py"]
    options = ["--continue-on-collection-errors"]
    outcomes = run_tests(
        upstream, MODES[mode], upstream / "results", files=files, workers=0,
        pytest_arguments=options,
    )  # fmt: skip
    found = {one.test.partition("::")[2]: one for one in outcomes if "made_up" in one.test}
    assert {name: one.outcome for name, one in found.items()} == EXPECTED[mode]
    assert found["test_expected_to_fail"].reason == "expected to fail: never did"
    if mode == "gpu":
        assert found["test_machine[interpreter]"].reason == "only on the interpreter"
    if mode != "null":
        (broken,) = (one for one in outcomes if one.test == "test_broken.py")
        assert broken.outcome == "failed"
        assert "no_such_package" in broken.reason


@pytest.mark.slow
def test_a_sample_is_a_part(upstream: Path) -> None:
    file = ["test_made_up.py"]
    outcomes = run_tests(
        upstream, MODES["null"], upstream / "results", files=file, sample=2, workers=0
    )
    names = {one.test.partition("::")[2] for one in outcomes}
    assert set() < names < EXPECTED["null"].keys()


@pytest.mark.slow
def test_a_run_that_ends_early_is_an_error(upstream: Path) -> None:
    with pytest.raises(RuntimeError, match="no_such_file"):
        run_tests(
            upstream, MODES["gpu"], upstream / "results", files=["no_such_file.py"], workers=0
        )


def test_outcomes_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    lines = [
        {"test": "a.py::x", "outcome": "passed", "reason": "", "seconds": 0.5},
        {"test": "a.py::y", "outcome": "failed", "reason": "no", "seconds": 1.0},
        {"test": "a.py::x", "outcome": "failed", "reason": "later", "seconds": 0.1},
    ]
    file = tmp_path / "results"
    file.write_text("\n".join(map(json.dumps, lines)) + '\n{"test": "a.py::z", "outc')
    assert read_outcomes(file) == [
        Outcome("a.py::x", "failed", "later", 0.1),
        Outcome("a.py::y", "failed", "no", 1.0),
    ]


def test_failures_are_held_against_the_known_deviations() -> None:
    outcomes = [
        Outcome("a.py::x[1]", "failed", "known"),
        Outcome("a.py::x[2]", "passed"),
        Outcome("a.py::xy", "failed", "new"),
        Outcome("b.py::z", "skipped", "elsewhere"),
    ]
    known = Deviation(("interpreter",), "a.py::x[*]", "because")
    gone = Deviation(("interpreter", "gpu"), "a.py::w", "it was so once")
    other = Deviation(("gpu",), "a.py::xy", "on a GPU only")
    verdict = judge(outcomes, [known, gone, other], "interpreter")
    assert [one.test for one in verdict.deviating] == ["a.py::x[1]"]
    assert [one.test for one in verdict.failed] == ["a.py::xy"]
    assert [one.test for one in verdict.skipped] == ["b.py::z"]
    assert verdict.unneeded == [gone]
    assert verdict.share == pytest.approx(1 / 3)
    assert judge([], [], "gpu").share == 0
    table = counts_by_file(verdict)
    assert table.to_dict("list") == {
        "file": ["a.py", "b.py", "all"],
        "passed": [1, 0, 1],
        "known deviations": [1, 0, 1],
        "failed": [1, 0, 1],
        "skipped": [0, 1, 1],
    }


def test_failures_are_grouped_by_what_their_reasons_share() -> None:
    reasons = ["assert 3 == 4\nmore", "assert 31 == -2e+5", "no 'x'", "no 'y'", "no 'z'", "other"]
    outcomes = [Outcome(f"a.py::{reason}", "failed", reason) for reason in reasons]
    groups = grouped(outcomes)
    assert [(reason, len(group)) for reason, group in groups] == [
        ("no '...'", 3),
        ("assert # == #", 1),
        ("assert # == -#", 1),
        ("other", 1),
    ]
    assert gist("at 0x7f00 of 'it'") == "at # of '...'"


def test_the_list_of_deviations_explains_each() -> None:
    for deviation in read_deviations(DEVIATIONS):
        assert set(deviation.modes) <= {"interpreter", "gpu"}
        assert len(deviation.why) > 40


@pytest.mark.parametrize("text", ['tests = "x"\nwhy = "y"', 'modes = []\ntests = "x"\nwhy = " "'])
def test_a_deviation_without_an_explanation_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "deviations.toml"
    file.write_text(f"[[deviation]]\n{text}\n")
    with pytest.raises(ValueError, match="needs modes, tests, and the reason"):
        read_deviations(file)


def test_a_checkout_is_recognized(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no checkout of Triton"):
        unit_tests_of(tmp_path)
    tests = tmp_path / "python/test/unit"
    (tests / "language").mkdir(parents=True)
    (tests / "language/test_core.py").touch()
    assert unit_tests_of(tmp_path) == tests.resolve()
    (tmp_path / "python/triton").mkdir()
    (tmp_path / "python/triton/__init__.py").write_text("__version__ = '2.0.0'\n")
    with pytest.raises(SystemExit, match="not of version"):
        unit_tests_of(tmp_path)
