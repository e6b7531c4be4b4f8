"""The wheel in an empty environment, as somebody gets it who has neither this checkout
nor the tools of development.

    make wheel-check                       with python3
    make wheel-check PYTHON=python3.13     with another Python

It builds the sdist, and from that the wheel; compares both with this checkout; installs
the wheel into a new environment, with the pins of constraints.txt and no extra; and there, in an
empty folder and home, imports every module, runs `kernellab doctor` and `kernellab demo`, executes
a notebook and exports it as HTML. All of it is in a temporary folder, which goes at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
NOTEBOOK = ROOT / "notebooks" / "01_vector_add.ipynb"

NOT_SHIPPED = (".ci/", ".github/", ".git-blame-ignore-revs")
"""Files that concern the repository alone: no sdist needs them."""

_NOT_IGNORED = ("--cached", "--others", "--exclude-standard")


IMPORT_ALL = """
import importlib, pkgutil, sys
import kernellab
assert "site-packages" in kernellab.__file__, kernellab.__file__
names = [found.name for found in pkgutil.walk_packages(kernellab.__path__, "kernellab.")]
extras = {
    "kernellab.checker.solver": "z3",
    "kernellab.cli.mcp_server": "mcp",
    "kernellab.testing": "pytest",
}
for name in names:
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert error.name is not None and error.name == extras.get(name), name
for name in kernellab.__all__:
    getattr(kernellab, name)
print(len(names), "modules and", len(kernellab.__all__), "public names imported")
"""


def step(title: str, command: Iterable[str | Path], **options: object) -> str:
    """Run one command; its output. Whatever fails ends the check, with all that was printed."""
    start = time.perf_counter()
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )  # type: ignore[call-overload]
    if done.returncode != 0:
        raise SystemExit(
            f"{done.stdout}\n{title}: exit status {done.returncode} of\n  {' '.join(words)}"
        )
    print(f"{title}: {time.perf_counter() - start:.0f} s", flush=True)
    return str(done.stdout)


def new_environment(python: str, folder: Path) -> Path:
    """An environment with the pinned pip and nothing else; its Python."""
    step(f"environment {folder.name}", [python, "-m", "venv", folder])
    made = folder / "bin" / "python"
    step("pip", [*pip_install(made), "--upgrade", "pip"])
    return made


def pip_install(python: Path) -> list[str | Path]:
    """`pip install` with the pins."""
    return [python, "-m", "pip", "install", "--quiet", "-c", CONSTRAINTS]


def build(python: Path, dist: Path) -> tuple[Path, Path]:
    """The sdist of this checkout and the wheel that is built from that sdist."""
    step("hatchling", [*pip_install(python), "hatchling"])
    command = [python, "-m", "hatchling", "build", "-t", "sdist", "-d", dist]
    step("sdist", command, cwd=ROOT)
    (sdist,) = dist.glob("*.tar.gz")
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    step("wheel, from the sdist", [*command, "-w", dist, sdist])
    (wheel,) = dist.glob("*.whl")
    return sdist, wheel


def checkout_files() -> set[str]:
    """The files of this checkout that git does not ignore, but for those that only the
    repository needs; empty where this is no checkout: an unpacked sdist has nothing to be
    compared with.
    """
    listing = subprocess.run(
        ["git", "ls-files", "-z", *_NOT_IGNORED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = {name for name in listing.stdout.split("\0") if name and (ROOT / name).exists()}
    return {name for name in names if not name.startswith(NOT_SHIPPED)}


def compare_contents(sdist: Path, wheel: Path) -> None:
    """End with the names of files that are missing from either, or that have no place there."""
    expected = checkout_files()
    if not expected:
        print("no git here: the files of sdist and wheel are not compared")
        return
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {name for name in expected if name.startswith("kernellab/")}
    course = (name for name in expected if name.startswith("notebooks/"))
    package |= {name.replace("notebooks", "kernellab/workshop/course", 1) for name in course}
    wrong = {
        "not in the sdist": expected - in_sdist,
        "in the sdist, not here": in_sdist - expected - {"PKG-INFO"},
        "not in the wheel": package - in_wheel,
        "in the wheel, not here": in_wheel - package,
    }
    for what, names in wrong.items():
        if names:
            raise SystemExit(f"{what}: {', '.join(sorted(names)[:20])} ({len(names)} files)")
    print(f"{len(in_sdist)} files in the sdist, {len(in_wheel)} in the wheel")


def try_out(binaries: Path, folder: Path) -> None:
    """The package at work, away from this checkout, in a home that has nothing."""
    home = folder / "home"
    work = folder / "work"
    for made in (home, work):
        made.mkdir()
    known = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "CUDA_VISIBLE_DEVICES")
    surroundings = {name: os.environ[name] for name in known if name in os.environ}
    surroundings |= {"HOME": str(home), "PATH": f"{binaries}:{os.environ.get('PATH', '')}"}

    def tried(title: str, *command: str | Path) -> str:
        return step(title, [binaries / command[0], *command[1:]], cwd=work, env=surroundings)

    print(tried("every module", "python", "-c", IMPORT_ALL).strip())
    print(tried("kernellab doctor", "kernellab", "doctor").strip())
    demo = tried("kernellab demo", "kernellab", "demo")
    print(demo.strip())
    require((work / "kernellab-demo.html").stat().st_size > 10_000, "the demo's page is empty")
    executed = work / "executed.ipynb"
    command = ["jupyter", "nbconvert", "--to", "notebook", "--execute", NOTEBOOK]
    tried("a notebook", *command, "--output-dir", work, "--output", executed.name)
    tried("its HTML", "jupyter", "nbconvert", "--to", "html", executed, "--output", "page.html")
    outputs = [
        "".join(output.get("data", {}).get("text/html", ""))
        for cell in json.loads(executed.read_text(encoding="utf-8"))["cells"]
        for output in cell.get("outputs", ())
    ]
    cards = [html for html in outputs if "registers" in html]
    require(bool(cards), "the executed notebook shows no card")
    page = (work / "page.html").read_text(encoding="utf-8")
    require(page.count("registers") >= len(cards), "a card is missing from the exported page")


def require(condition: bool, what: str) -> None:
    """End the check where the condition does not hold."""
    if not condition:
        raise SystemExit(what)


def main() -> None:
    """Build, install, try."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment")
    parser.add_argument("--torch", default="cpu", help="the build of torch: see torch_index.py")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernellab-wheel-") as name:
        folder = Path(name)
        builder = new_environment(chosen.python, folder / "build")
        sdist, wheel = build(builder, folder / "dist")
        compare_contents(sdist, wheel)
        python = new_environment(chosen.python, folder / "empty")
        index = step("which torch", [python, ROOT / "tools" / "torch_index.py", chosen.torch])
        step("the wheel and what it declares", [*pip_install(python), *index.split(), wheel])
        present = step("pip list", [python, "-m", "pip", "list"])
        for extra in ("pytest", "mypy", "distributed", "nvidia-ml-py"):
            require(f"\n{extra} " not in present, f"{extra} is installed: not an empty environment")
        step("pip check", [python, "-m", "pip", "check"])
        try_out(python.parent, folder)
        version = step("Python", [python, "--version"]).strip()
        print(f"{version}: {wheel.name} works in an empty environment")


if __name__ == "__main__":
    main()
