"""The house's rules, held against its files."""

import ast
import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kernellab
from tests.support.source_files import (
    ROOT,
    Import,
    circles,
    imports_of,
    module_name,
    module_named,
    python_files,
    tree_of,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def assert_none(wrong: Iterable[object]) -> None:
    lines = [str(one) for one in wrong]
    assert not lines, "\n".join(lines)


def imports_where(is_mine: Callable[[Path], bool] = lambda _: True) -> Iterator[Import]:
    for file in python_files("kernellab"):
        if is_mine(file):
            yield from imports_of(file)


@pytest.fixture(scope="module", autouse=True)
def _parsed() -> None:
    """Parse the package once for all tests here, which takes seconds."""
    for file in python_files("kernellab"):
        tree_of(file)


@cache
def packages() -> list[str]:
    """The packages of docs/architecture.md, from the bottom up, such as "errors"."""
    page = (ROOT / "docs/architecture.md").read_text()
    names = re.findall(r"^\| `([\w.]+)/?` \|", page, re.MULTILINE)
    return ["kernellab" if name == "__init__.py" else name.removesuffix(".py") for name in names]


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "kernellab"


def test_every_module_has_a_package() -> None:
    known = {*packages(), "__main__"}
    for file in python_files("kernellab"):
        assert package_of(module_name(file)) in known, f"docs/architecture.md does not name {file}"
    for package in packages():
        path = ROOT / "kernellab" / package
        exists = package == "kernellab" or path.is_dir() or path.with_suffix(".py").is_file()
        assert exists, f"docs/architecture.md names {package}, which is not there"


@cache
def declared_upward() -> frozenset[tuple[str, str]]:
    """The imports that may go upward, as docs/architecture.md declares them: file, module."""
    page = (ROOT / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| `(\S+\.py)` \| `(\S+\.py)` \| \S.* \|$", page, re.MULTILINE)
    return frozenset(
        (f"kernellab/{file}", module_name(ROOT / "kernellab" / module)) for file, module in rows
    )


def goes_up(found: Import) -> bool:
    if found.module.split(".")[0] != "kernellab":
        return False
    mine, theirs = package_of(module_name(ROOT / found.file)), package_of(found.module)
    return heights()[theirs] > heights()[mine]


@cache
def heights() -> dict[str, int]:
    return {package: number for number, package in enumerate(packages())} | {"__main__": 99}


def test_imports_go_one_way() -> None:
    """Those by name too. The few that the page declares are there, and run when a function does."""
    upward = [found for found in imports_where() if goes_up(found)]
    assert_none(found for found in upward if (found.file, found.module) not in declared_upward())
    assert {(found.file, found.module) for found in upward} == declared_upward()
    for found in upward:
        imports = [node for node in tree_of(ROOT / found.file).body if isinstance(node, IMPORTS)]
        assert found.line not in {node.lineno for node in imports}, f"{found}, not in a function"


IMPORTS = (ast.Import, ast.ImportFrom)


def packages_entered(module: str, importer: str) -> Iterator[str]:
    """The packages around `module` whose `__init__` runs first, `importer` standing outside."""
    while "." in module:
        module = module.rpartition(".")[0]
        if not f"{importer}.".startswith(f"{module}."):
            yield module


def test_no_files_import_each_other_in_a_circle() -> None:
    """Of imports that run, by name too, and the packages that they enter; declared ones may."""
    files = {module_name(file): file for file in python_files("kernellab")}
    graph = {
        module: frozenset(
            run
            for found in imports_of(file)
            if found.module in files and found.module != module and not found.for_types_only
            if not goes_up(found)
            for run in (found.module, *packages_entered(found.module, module))
        )
        for module, file in files.items()
    }
    assert_none(
        "\n  ".join(
            ["these import each other:"]
            + [
                str(one)
                for file in sorted(circle)
                for one in imports_of(files[file])
                if one.module in circle and not one.for_types_only
            ]
        )
        for circle in circles(graph)
    )


def test_a_circle_and_a_module_in_a_string_are_seen() -> None:
    graph = {name: frozenset(to) for name, to in {"a": "b", "b": "cd", "c": "a", "d": ""}.items()}
    assert circles(graph) == [frozenset("abc")]
    assert module_named("kernellab.viz.kit.widget") == "kernellab.viz.kit.widget"
    assert module_named("kernellab.errors.CompileError") == "kernellab.errors"
    assert module_named("kernellab.common.processes:serve") == "kernellab.common.processes"
    assert module_named("kernellab.trace") is module_named("see kernellab.errors") is None


def test_the_root_is_read_in_one_screen() -> None:
    entries = [
        one.name
        for one in (ROOT / "kernellab").iterdir()
        if one.name != "__pycache__" and not one.name.startswith(".")
    ]
    modules = [one for one in entries if one.endswith(".py")]
    assert len(entries) <= 25, sorted(entries)
    assert len(modules) <= 5, sorted(modules)


def test_every_folder_says_its_job() -> None:
    assert_none(
        folder.relative_to(ROOT)
        for folder in sorted({file.parent for file in python_files("kernellab")})
        if not (folder / "__init__.py").is_file()
        or not ast.get_docstring(tree_of(folder / "__init__.py"))
    )


def test_packages_below_the_screen_know_no_screen() -> None:
    screens = {"IPython", "ipywidgets", "anywidget", "matplotlib"}
    below = packages()[: packages().index("viz")]
    imports = imports_where(lambda file: package_of(module_name(file)) in below)
    assert_none(found for found in imports if found.module.split(".")[0] in screens)


def test_only_the_list_names_a_detector() -> None:
    """`DETECTORS` does, and a detector that asks another for what it saw."""
    folder = "kernellab.checker.detectors"
    imports = imports_where(lambda file: not module_name(file).startswith(folder))
    assert_none(found for found in imports if found.module.startswith(f"{folder}."))


PUBLIC_TRITON = ("triton", "triton.language", "triton.testing")
PUBLIC_IPYTHON = ("IPython", "IPython.display", "IPython.core.magic")


def outside(found: Import, package: str, public: tuple[str, ...]) -> bool:
    return found.module.split(".")[0] == package and found.module not in public


def is_no_home_of_triton(file: Path) -> bool:
    return package_of(module_name(file)) != "triton_api"


def test_only_one_package_touches_triton_privates() -> None:
    assert_none(
        found
        for found in imports_where(is_no_home_of_triton)
        if outside(found, "triton", PUBLIC_TRITON) and found.module != "triton.language.core"
    )


def test_nobody_reaches_triton_privates_through_attributes() -> None:
    reached = re.compile(r"triton\.(runtime|compiler|backends|_C|knobs|tools)\b")
    assert_none(
        f"{file.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for file in filter(is_no_home_of_triton, python_files("kernellab"))
        if reached.search(file.read_text())
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Attribute) and reached.match(ast.unparse(node))
    )


def test_only_ipython_api_touches_ipython_privates() -> None:
    assert_none(
        found
        for found in imports_where(lambda file: file.name != "ipython_api.py")
        if outside(found, "IPython", PUBLIC_IPYTHON) and not found.for_types_only
    )


HOMES_OF_PRIVATE_NAMES = {
    "triton": "kernellab/triton_api/",
    "IPython": "kernellab/magics/ipython_api.py",
    "xdsl": "kernellab/ir/syntax.py",
    "torch": "kernellab/torch_api/",
}
"""Package -> the one place that may use names of it that begin with an underscore. No other
package's are used at all, NumPy's say."""

DOCUMENTED_ALL_THE_SAME = {
    "sys._getframe", "os._exit", "_thread", "_thread.interrupt_main", "_thread.start_new_thread",
}  # fmt: skip


def is_private(name: str) -> bool:
    return any(re.match(r"_(?!_)", part) for part in name.split("."))


def foreign_names(file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of what a file takes from other packages, through attributes too."""
    known = {}
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            for one in node.names:
                known[one.asname or one.name.split(".")[0]] = one.name
                yield node.lineno, one.name
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                known[one.asname or one.name] = f"{node.module}.{one.name}"
                yield node.lineno, f"{node.module}.{one.name}"
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Attribute):
            base, _, rest = ast.unparse(node).partition(".")
            if base in known and re.fullmatch(r"[\w.]+", rest):
                yield node.lineno, f"{known[base]}.{rest}"


@pytest.mark.slow
def test_private_names_of_a_package_are_used_in_one_place() -> None:
    assert_none(
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file in python_files("kernellab")
        for line, name in foreign_names(file)
        if is_private(name) and name not in DOCUMENTED_ALL_THE_SAME
        if (package := name.split(".")[0]) != "kernellab"
        if not str(file.relative_to(ROOT)).startswith(HOMES_OF_PRIVATE_NAMES.get(package, "-"))
    )


def test_no_public_function_shares_a_modules_name() -> None:
    modules = {
        module_name(file).split(".")[1]
        for file in python_files("kernellab")
        if "." in module_name(file)
    }
    public = {
        name
        for name in kernellab.__all__
        if not name.startswith("__") and inspect.isroutine(getattr(kernellab, name))
    }
    assert not modules & public


def test_every_exported_name_is_real_and_documented() -> None:
    for name in kernellab.__all__:
        thing = getattr(kernellab, name)
        assert name in dir(kernellab)
        if name == "__version__":
            continue
        assert inspect.getdoc(thing), f"kernellab.{name} has no docstring"
        if not inspect.isclass(thing):
            continue
        for member, value in vars(thing).items():
            documented = inspect.isroutine(value) or isinstance(value, property)
            if documented and not member.startswith("_"):
                assert inspect.getdoc(value), f"kernellab.{name}.{member} has no docstring"


@pytest.mark.slow
def test_every_module_says_what_it_is_for() -> None:
    assert_none(
        file.relative_to(ROOT)
        for file in python_files("kernellab", "benchmarks", "tools", "tests")
        if file.read_text().strip()
        and not ast.get_docstring(tree_of(file))
        and "tests/kernels" not in str(file)
    )


def test_the_version_is_said_once() -> None:
    assert kernellab.__version__ == PROJECT["version"] == importlib.metadata.version("kernellab")


def declared(*groups: str) -> set[str]:
    """The distributions that pyproject.toml declares: "required", or an extra's name."""
    texts: list[str] = []
    for group in groups:
        texts += PROJECT["dependencies"] if group == "required" else EXTRAS[group]
    return {str(canonicalize_name(Requirement(text).name)) for text in texts} - {"kernellab"}


DISTRIBUTIONS = importlib.metadata.packages_distributions()


def distribution_of(found: Import) -> str | None:
    """The distribution that an import comes from; None for Python's own modules and ours."""
    top = found.module.split(".")[0]
    if top in sys.stdlib_module_names or top in {"kernellab", "benchmarks", "tools", "tests"}:
        return None
    if top == "pynvml":  # not installed without the extra "gpu"
        return "nvidia-ml-py"
    return canonicalize_name(DISTRIBUTIONS[top][0])


def used(*folders: str) -> dict[str, str]:
    """Distribution -> one import that uses it."""
    return {
        name: str(found)
        for file in python_files(*folders)
        for found in imports_of(file)
        if (name := distribution_of(found)) is not None
    }


NEEDS_PLAYWRIGHT = pytest.mark.skipif("playwright" not in DISTRIBUTIONS, reason="needs playwright")
"""The distribution of an import is only known where it is installed."""


@pytest.mark.slow
@NEEDS_PLAYWRIGHT
@pytest.mark.parametrize(
    ("folders", "groups"),
    [
        (("kernellab",), ("required", "cluster", "gpu", "mcp", "proofs", "pytest")),
        (("benchmarks",), ("required",)),
        (("tests", "tools"), ("required", "cluster", "mcp", "proofs", "pytest", "test")),
    ],
)
def test_nothing_is_used_undeclared(folders, groups) -> None:
    allowed = declared(*groups)
    assert_none(where for name, where in used(*folders).items() if name not in allowed)


def test_every_dependency_is_explained() -> None:
    page = (ROOT / "docs/dependencies.md").read_text().partition("## The bundle")[0]
    explained = re.findall(r"^\| `([\w-]+)` \| [^|]+ \|$", page, re.MULTILINE)
    assert {*map(canonicalize_name, explained)} == declared("required", *EXTRAS)


COMMANDS_AND_PLUGINS = {
    "jupyterlab", "notebook", "pytest-timeout", "pytest-xdist", "nbval",
    "sphinx", "myst-nb", "furo", "latex2mathml", "mypy", "ruff",
}  # fmt: skip


@pytest.mark.slow
@NEEDS_PLAYWRIGHT
def test_every_other_dependency_is_imported() -> None:
    imported = used("kernellab", "tests", "benchmarks")
    assert declared("required", *EXTRAS) - imported.keys() == COMMANDS_AND_PLUGINS


def test_constraints_pin_every_dependency_to_a_version_that_is_allowed() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert lines[-1] == max(line for line in lines if line and not line.startswith("#"))
    for text in [*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]:
        requirement = Requirement(text)
        if requirement.name == "kernellab":
            continue
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(pin), f"{requirement} excludes the pin {pin}"


def text_files() -> list[Path]:
    """Every text file that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [
        file
        for file in files
        if file.suffix not in (".png", ".npz", ".gz", ".kernellab", ".klgraph", ".klprofile")
        and file.is_file()
    ]


MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:root|work|opt|Users|mnt)/\w+")
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]))


PICTURE = re.compile(r"base64,[A-Za-z0-9+/=]+")


def test_no_file_names_a_machine_or_is_left_unfinished() -> None:
    assert_none(
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for file in text_files()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        # The letters of a notebook's pictures spell anything sooner or later.
        if not line.lstrip().startswith('"image/png":')
        and (MACHINE_PATH.search(text := PICTURE.sub("", line)) or UNFINISHED.search(text))
    )


def test_links_between_pages_lead_somewhere() -> None:
    code = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
    assert_none(
        f"{page.relative_to(ROOT)} -> {target}"
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", code.sub("", page.read_text()))
        if not (page.parent / target).exists()
    )
