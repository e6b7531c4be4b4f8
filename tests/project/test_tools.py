"""What `make` decides: which build of torch it installs, and which processor it emulates."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.python_processes import STRICT
from tools import capabilities, torch_index


def pip_says(monkeypatch, names: list[str], status: int = 0) -> list[list[str]]:
    """Let pip's dry run report these packages; the commands that it is asked are collected."""
    asked: list[list[str]] = []
    report = {"install": [{"metadata": {"name": name}} for name in names]}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, status, stdout=json.dumps(report))

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_where_pip_would_bring_cuda_the_cpu_index_is_added(monkeypatch) -> None:
    asked = pip_says(monkeypatch, ["torch", "nvidia-cublas", "sympy"])
    assert torch_index.arguments("cpu") == f"--extra-index-url {torch_index.CPU_INDEX}"
    assert "--dry-run" in asked[0]
    assert asked[0][asked[0].index("--constraint") + 1].endswith("constraints.txt")


@pytest.mark.parametrize("names", [["torch", "sympy"], []])
def test_where_pip_finds_a_cpu_build_or_has_torch_no_index_is_added(monkeypatch, names) -> None:
    pip_says(monkeypatch, names)
    assert torch_index.arguments("cpu") == ""


def test_a_pip_that_fails_decides_nothing(monkeypatch) -> None:
    pip_says(monkeypatch, [], status=1)
    assert torch_index.arguments("cpu") == ""


def test_cuda_is_pips_own_choice_and_an_address_is_taken_as_it_is(monkeypatch) -> None:
    assert not pip_says(monkeypatch, ["nvidia-cublas"])
    assert torch_index.arguments("cuda") == ""
    assert (
        torch_index.arguments("https://example.org/cu126")
        == "--extra-index-url https://example.org/cu126"
    )


def test_another_word_is_refused() -> None:
    with pytest.raises(SystemExit, match="TORCH is 'gpu': expected cpu, cuda or the address"):
        torch_index.arguments("gpu")


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["avx2", "none"])
def test_a_capability_hides_vector_instructions_without_a_warning(capability: str) -> None:
    code = "from tools.capabilities import vector_instructions; print(vector_instructions())"
    used = subprocess.run(
        [sys.executable, *STRICT, "-c", code],
        env={**os.environ, **capabilities.environment(capability)},
        cwd=capabilities.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert used.stderr == ""
    if capability == "none":
        assert used.stdout == "torch DEFAULT, NumPy its baseline\n"
    assert "AVX512" not in used.stdout
    assert "X86_V4" not in used.stdout
