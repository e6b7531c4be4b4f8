"""What `make`, the image, the dev container and Binder's files name is in this repository."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from kernellab.cli.main import main
from tests.support.python_processes import STRICT
from tests.support.source_files import ROOT
from tools import capabilities, torch_index
from tools.torch_index import CPU_INDEX

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
BINDER = ROOT / "binder"
PAGE = (ROOT / "docs/environments.md").read_text()


def instructions(kind: str) -> list[str]:
    """What stands behind a word of the Dockerfile, at each of its places."""
    return re.findall(rf"^{kind} (.*)$", DOCKERFILE, re.MULTILINE)


def is_supported(python: str) -> bool:
    return f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def commands(text: str) -> list[list[str]]:
    """The uses of `kernellab` in a script, up to what ends each."""
    found = re.findall(r"\bkernellab ((?:doctor|demo|workshop)[\w ]*)", text)
    return [shlex.split(one) for one in found]


def test_the_pythons_are_supported() -> None:
    (image,) = instructions("FROM")
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    pythons = [
        re.fullmatch(r"python:(3\.\d+)-slim", image),
        re.fullmatch(r"\S+/devcontainers/python:(3\.\d+)", container["image"]),
        re.fullmatch(r"python-(3\.\d+)", (BINDER / "runtime.txt").read_text().strip()),
    ]
    assert all(found and is_supported(found[1]) for found in pythons), pythons


def test_what_the_image_copies_is_there_and_let_through() -> None:
    copied = [name for line in instructions("COPY") for name in line.split()[:-1]]
    let_through = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(let_through)
    assert all((ROOT / name).exists() for name in copied)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    wanted = {*wheel["packages"], *wheel["force-include"], PROJECT["readme"], "constraints.txt"}
    assert wanted | {*PROJECT["license-files"]} <= {*copied}


def test_torch_comes_from_the_cpu_index_with_the_pins() -> None:
    (install,) = [line for line in instructions("RUN") if line.startswith("pip install")]
    lines = (BINDER / "requirements.txt").read_text().splitlines()
    wanted = {f"--extra-index-url {CPU_INDEX}", "."}
    assert wanted | {"-c ../constraints.txt"} == {one for one in lines if one[0] != "#"}
    assert all(f" {one} " in f"{install} " for one in (*wanted, "-c constraints.txt"))
    assert (BINDER / "../constraints.txt").exists()
    assert PAGE.count(CPU_INDEX) == 1


def test_no_notebook_runs_as_root_in_the_image() -> None:
    assert instructions("USER")[-1] != "root"
    assert DOCKERFILE.index("\nUSER") < DOCKERFILE.index("\nCMD")


def test_their_commands_exist(capsys) -> None:
    scripts = (DOCKERFILE, (BINDER / "postBuild").read_text(), PAGE)
    used = [one for script in scripts for one in commands(script)]
    assert len(used) >= 4
    for words in used:
        with pytest.raises(SystemExit) as ended:
            main([*words[: 2 if words[0] == "workshop" else 1], "--help"])
        assert ended.value.code == 0, words
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    make, target = container["postCreateCommand"].split()
    assert make == "make"
    assert target in targets
    assert (BINDER / "postBuild").stat().st_mode & 0o111


def test_the_page_names_each_of_them() -> None:
    for name in ("Dockerfile", ".devcontainer/devcontainer.json", "binder/"):
        assert f"`{name}`" in PAGE
        assert (ROOT / name).exists()
    named = re.findall(r"lab/tree/(notebooks/\S+\.ipynb)", PAGE)
    assert named
    assert all((ROOT / name).exists() for name in named)
    assert f"kernellab-{PROJECT['version']}-py3-none-any.whl" in PAGE


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
def test_a_capability_hides_vector_instructions_without_a_warning(capability) -> None:
    code = "from tools.capabilities import vector_instructions; print(vector_instructions())"
    used = subprocess.run(
        [sys.executable, *STRICT, "-c", code],
        env={**os.environ, **capabilities.environment(capability)}, cwd=capabilities.ROOT,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert used.stderr == ""
    if capability == "none":
        assert used.stdout == "torch DEFAULT, NumPy its baseline\n"
    assert "AVX512" not in used.stdout
    assert "X86_V4" not in used.stdout
