"""The demo: its references are right, its checks can fail, and the command does what it says."""

import dataclasses
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from kernellab.cli import demo
from kernellab.cli.demo.report import run_case
from kernellab.launch.results import Tolerances
from kernellab.launch.tile_kernel import run
from tests.support.pages import Reader

# Random123, the library of Philox's authors, publishes these in its file
# of known answers (philox4x32, 10 rounds).
KNOWN_ANSWERS = [
    ((0x00000000,) * 4, (0x00000000,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter, key, answer) -> None:
    words = [np.full(3, word, np.uint32) for word in counter]
    given = demo.philox4x32((words[0], words[1], words[2], words[3]), key)
    assert [word.tolist() for word in given] == [[word] * 3 for word in answer]


def test_uniform_numbers_fill_the_unit_interval() -> None:
    numbers = demo.uniform(99, np.arange(200_000, dtype=np.int32))
    assert numbers.dtype == np.float32
    assert 0 <= numbers.min() < 1e-4
    assert 1 - 1e-4 < numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    # A bin's count is binomial: n = 200,000, p = 1/20, standard deviation 97.5.
    assert abs(counts - 10_000).max() < 5 * 97.5


@pytest.mark.slow
def test_the_torch_references_agree_with_numpy_in_fp64() -> None:
    """The same formulas once more, from their definitions."""
    cases = {case.name: case for case in demo.all_cases()}
    arguments = cases["softmax"].make_arguments()
    x = arguments["x_ptr"].numpy().astype(np.float64)
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    expected = exponentials / exponentials.sum(axis=1, keepdims=True)
    assert np.allclose(
        cases["softmax"].reference(arguments)["out_ptr"], expected, rtol=2e-6, atol=0
    )

    arguments = cases["layer norm"].make_arguments()
    x, weight, bias = (
        arguments[name].numpy().astype(np.float64) for name in ("x_ptr", "weight_ptr", "bias_ptr")
    )
    centered = x - x.mean(axis=1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + arguments["epsilon"])
    reference = cases["layer norm"].reference(arguments)["out_ptr"].numpy()
    assert np.allclose(reference, normal * weight + bias, rtol=2**-10, atol=1e-5)


def test_a_wrong_element_fails_the_check() -> None:
    case = demo.softmax_case(5, 30)
    arguments = case.make_arguments()
    run(case.kernel, case.grid, **arguments, **case.constants)
    assert all(check.passed for check in demo.check_outputs(case, arguments))
    arguments["out_ptr"][3, 7] *= 1.0001
    (check,) = demo.check_outputs(case, arguments)
    assert not check.passed
    assert check.max_error > 0


def test_one_flipped_element_of_the_mask_fails_the_check() -> None:
    case = demo.dropout_case(5000, 0.5)
    arguments = case.make_arguments()
    run(case.kernel, case.grid, **arguments, **case.constants)
    assert all(check.passed for check in demo.check_outputs(case, arguments))
    dropped = (arguments["out_ptr"] == 0).nonzero()[0]
    arguments["out_ptr"][dropped] = 2 * arguments["x_ptr"][dropped]
    assert not any(check.passed for check in demo.check_outputs(case, arguments))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_a_stray_nan_or_infinity_fails_any_tolerance(wrong: float) -> None:
    expected = torch.ones(4)
    result = torch.tensor([1.0, 1.0, wrong, 1.0])
    check = demo.compare("out", result, expected, Tolerances(atol=1e30))
    assert not check.passed
    assert check.max_error == float("inf")


def test_infinities_that_belong_pass() -> None:
    values = torch.tensor([float("inf"), -float("inf"), 1.0])
    assert demo.compare("out", values, values.clone(), demo.EXACT).passed


def test_a_result_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"out: \(3,\) torch.float32 and \(4,\)"):
        demo.compare("out", torch.ones(3), torch.ones(4), demo.EXACT)


def test_a_failing_case_is_reported_as_failed() -> None:
    case = demo.softmax_case(4, 16)
    wrong = dataclasses.replace(case, reference=lambda arguments: {"out_ptr": arguments["x_ptr"]})
    result = run_case(wrong, repeats=1)
    assert not result.passed
    assert run_case(case, repeats=1).passed


@pytest.mark.slow
def test_demo_command(tmp_path) -> None:
    """The command itself: every case passes, the table is whole, the report stands alone."""
    report = tmp_path / "demo.html"
    finished = subprocess.run(
        [sys.executable, "-m", "kernellab", "demo", "-o", str(report)],
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for case in demo.all_cases():
        assert f"{case.name}, {case.size} ... pass" in finished.stdout
        assert re.search(rf"^ +{case.name} +{case.size} +pass ", finished.stdout, re.MULTILINE)
    kept = re.search(r"kept ([\d.]+)% of the elements", finished.stdout)
    assert kept is not None
    # Binomial, n = 2**20 and p = 1/2: the standard deviation of the rate is 0.049 %.
    assert abs(float(kept[1]) - 50) < 5 * 0.049
    assert "HGMMA.64x64x16.F32.BF16" in finished.stdout

    page = report.read_text()
    assert report.stat().st_size < 3_000_000
    seen = Reader(page)
    views = [attributes for tag, attributes in seen.tags if "data-view" in attributes]
    assert len(views) == 2 * len(demo.small_cases())
    assert sum("tt.func public @matmul" in text for text in seen.preformatted) >= 4
    assert sum("HGMMA" in text for text in seen.preformatted) >= 1
    assert "<svg" in page
    assert "No GPU took part" in page
