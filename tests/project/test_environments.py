"""The image, the dev container and Binder's files: they name what this repository has.

Nothing is built here; docs/environments.md says how far each was tried.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib

import pytest

from kernellab.cli.main import main
from tests.support.source_files import ROOT
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
