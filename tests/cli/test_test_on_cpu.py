"""`kernellab test-on-cpu`: the tests of a small library that insists on a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernellab.cli.user_code import report_text
from tests.support.python_processes import python_path

ROOT = Path(__file__).parents[2]

LIBRARY = """
import torch, triton, triton.language as tl

assert torch.cuda.is_available(), "this library needs a GPU"

@triton.jit
def doubled(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, 2 * x, mask=offsets < n)

@triton.jit
def unmasked(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets), mask=offsets < n)

def call(kernel, x):
    z = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 128),)](x, z, x.numel(), BLOCK=128)
    return z
"""

TESTS = """
import subprocess, sys
import pytest, torch
import needs_gpu

@pytest.mark.parametrize("n", [10, 1000])
def test_doubled(n):
    x = torch.randn(n, device="cuda")
    assert torch.equal(needs_gpu.call(needs_gpu.doubled, x), 2 * x)

def test_unmasked():
    needs_gpu.call(needs_gpu.unmasked, torch.randn(100, device="cuda"))

def test_graph():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        pass

@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus():
    pass

def test_wrong():
    assert False

@pytest.mark.xfail
def test_known():
    assert False

def test_another_process():
    code = "import torch; print(torch.ones(3, device='cuda').device)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert done.stdout == "cuda:0\\n"
"""

EXPECTED = """\
On the CPU, as on sm_80: 3 launches of 2 kernels.
Tests: 3 failed, 3 passed, 1 skipped, 1 xfailed.

Findings:
  needs_gpu.py:15: load out of bounds: x_ptr[100] is outside the tensor, whose storage \
holds elements 0 to 99 (float32, shape (100,))

What KernelLab does not run:
  CUDA graphs are not emulated: each operation runs at once, and nothing is recorded.

Skipped by the tests themselves:
  needs two GPUs

Failed for other reasons:
  tests/test_it.py::test_wrong: assert False
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(folder)])
    return subprocess.run(
        [sys.executable, "-m", "kernellab", "test-on-cpu", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path(path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "pytest-xdist"])
def test_what_ran_and_what_did_not_is_reported(tmp_path: Path, workers: list[str]) -> None:
    (tmp_path / "needs_gpu.py").write_text(LIBRARY)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    pytest_words = ["pytest", "--rootdir=.", "-q", "-p", "no:cacheprovider", *workers, "tests"]
    done = run(tmp_path, "--target", "sm_80", "--json", "events.json", *pytest_words)
    assert done.returncode == 1, done.stderr
    assert done.stdout.replace(f"{tmp_path}/", "").endswith(EXPECTED)
    events = json.loads((tmp_path / "events.json").read_text())
    assert sum(event.get("outcome") == "failed" for event in events) == 3


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "COMMAND is missing. Write it last: kernellab test-on-cpu pytest tests."),
        (["no-such-program"], "'no-such-program' cannot be started: No such file or directory."),
        (["--target", "sm_1", "pytest"], "sm_1"),
        (["--json", "no/such/folder/x.json", "pytest"], "no/such/folder"),
    ],
)
def test_what_cannot_run_is_named(tmp_path: Path, words: list[str], said: str) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_long_lists_are_shortened_and_texts_are_made_visible() -> None:
    events = [
        {"outcome": "skipped", "test": "t", "reason": f"needs \x1b[2J number {number}"}
        for number in range(25)
    ]
    text = report_text(events, "sm_90")
    assert "and 5 more" in text
    assert "\x1b" not in text
    assert "0 launches of 0 kernels" in text
