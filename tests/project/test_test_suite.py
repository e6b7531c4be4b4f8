"""The rules of the tests themselves."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.source_files import ROOT, Import, is_module, module_name, python_files

SHARED = {"cases", "corpus", "kernels", "support"}
"""Folders of tests/ that every test may import."""
OTHER_FOLDERS = SHARED | {"benchmarks", "project"}
"""Folders that mirror no package of the package."""

DATA_OF_BENCHMARKS = {
    "diagnosed", "eleven_kernels", "kernels", "memory_cases", "memory_kernels", "small_cases",
    "small_kernels", "tuning_cases",
}  # fmt: skip
"""The modules and folders that hold kernels and what they are launched with."""

NEEDS_SIGINT = ("signal.SIGINT", "interrupt_until(")
"""What a file has whose tests send Ctrl-C themselves; the stop button is Jupyter's business."""


IMPORT = re.compile(
    r"^ *(?:from ((?:tests|benchmarks)[\w.]*) import (\([^)]*\)|.*)"
    r"|import ((?:tests|benchmarks)\S*))",
    re.MULTILINE,
)


def imports_in(file: Path) -> Iterator[Import]:
    """What a file imports from tests/ and benchmarks/; to read it all as Python takes seconds."""
    text = file.read_text()
    for match in IMPORT.finditer(text):
        module, names, alone = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        for name in re.findall(r"(\w+)(?: as \w+)?", names or "") or ["*"]:
            inner = f"{module or alone}.{name}"
            found, taken = (inner, ()) if is_module(inner) else (module or alone, (name,))
            yield Import(str(file.relative_to(ROOT)), line, found, taken, False)


@functools.cache
def suite() -> dict[Path, tuple[Import, ...]]:
    """The files of the tests, and what each imports of tests and benchmarks."""
    return {file: tuple(imports_in(file)) for file in python_files("tests")}


def assert_none(imports: Iterable[Import]) -> None:
    wrong = [str(found) for found in imports]
    assert not wrong, "\n".join(wrong)


def parts(found: Import) -> list[str]:
    return found.module.split(".")


def package_of(file: Path) -> str:
    """The folder of tests/ that a file is in; "" for tests/ itself."""
    place = file.relative_to(ROOT / "tests").parts
    return place[0] if len(place) > 1 else ""


def are_tools(found: Import) -> bool:
    return parts(found)[0] == "benchmarks" and not {*parts(found)[1:]} & DATA_OF_BENCHMARKS


@pytest.mark.slow
def test_folders_mirror_the_package() -> None:
    packages = {
        file.stem if file.is_file() else file.name for file in (ROOT / "kernellab").iterdir()
    }
    assert {package_of(file) for file in suite()} - {""} <= packages | OTHER_FOLDERS


def test_no_module_imports_a_test() -> None:
    """What two files of tests need stands in a module, or is a fixture of a conftest.py."""
    assert_none(
        found
        for file, imports in suite().items()
        for found in imports
        if parts(found)[0] == "tests"
        and any(part.startswith("test_") for part in parts(found))
        and found.module != module_name(file)  # in a process of its own
    )


def test_a_package_imports_no_other_packages_tests() -> None:
    assert_none(
        found
        for file, imports in suite().items()
        for found in imports
        if parts(found)[0] == "tests"
        and len(parts(found)) > 1
        and parts(found)[1] not in {*SHARED, package_of(file)}
    )


def test_of_the_benchmarks_only_data_is_imported() -> None:
    """Kernels and tables of launches; their tools have tests, and the data imports none of them."""
    assert_none(
        found
        for file, imports in suite().items()
        if package_of(file) != "benchmarks"
        for found in filter(are_tools, imports)
    )
    assert_none(
        found
        for name in DATA_OF_BENCHMARKS
        for file in (*ROOT.glob(f"benchmarks/{name}.py"), *ROOT.glob(f"benchmarks/{name}/*.py"))
        for found in filter(are_tools, imports_in(file))
    )


def test_browsers_servers_and_kernels_are_fixtures() -> None:
    """So that the tests that need them have their marker."""
    assert_none(
        found
        for file, imports in suite().items()
        if file.name != "conftest.py"
        for found in imports
        if parts(found)[0] == "tests"
        and {"browser", "jupyterlab", "notebook_session"} & set(found.names)
    )


def test_pages_of_messages_have_sections_of_tests_alone() -> None:
    """A section without its test would be read as a message that exists."""
    pages = sorted((ROOT / "tests/messages").glob("*.txt"))
    assert pages
    for page in pages:
        texts = [file.read_text() for file in suite() if package_of(file) == page.stem]
        defined = {name for text in texts for name in re.findall(r"def (test_\w+)", text)}
        named = set(re.findall(r"^# name: (\w+)", page.read_text(), re.MULTILINE))
        assert named <= defined, f"{page.name} has sections of {sorted(named - defined)}"
        pattern = r"def (test_\w+)\([^)]*\b(?:messages|raised)\b"
        writing = Counter(name for text in texts for name in re.findall(pattern, text))
        twice = [name for name, count in writing.items() if count > 1]
        assert not twice, f"Two tests write the section {twice[0]} of {page.name}"


def test_who_sends_ctrl_c_sets_its_handler() -> None:
    for file in suite():
        text = file.read_text()
        if file.name.startswith("test_") and file != Path(__file__):
            sends = any(word in text for word in NEEDS_SIGINT)
            assert not sends or 'usefixtures("ctrl_c")' in text, f"{file} needs the fixture ctrl_c"
