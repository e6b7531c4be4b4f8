"""`import kernellab`: light, complete, and kind where it cannot work."""

import subprocess
import sys

import pytest

import kernellab
from tests.support.source_files import ROOT, imports_of


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = (
        "{'torch', 'triton', 'numpy', 'xdsl', 'pandas', 'matplotlib', 'IPython', 'jupyter_client'}"
    )
    finished = python(
        f"import kernellab, kernellab.cli.main, sys; print(sorted({heavy} & set(sys.modules)))"
    )
    assert finished.stdout.strip() == "[]", finished.stderr


def test_loading_the_extension_imports_neither_torch_nor_triton() -> None:
    finished = python(
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance().run_line_magic('load_ext', 'kernellab')\n"
        "print(sorted({'torch', 'triton', 'xdsl'} & set(sys.modules)))\n"
    )
    assert finished.stdout.strip() == "[]", finished.stderr


def test_type_checkers_see_the_names_that_are_there() -> None:
    seen = {
        name: found.module
        for found in imports_of(ROOT / "kernellab/__init__.py")
        if found.for_types_only and found.module.startswith("kernellab.")
        for name in found.names
    }
    assert seen == kernellab._HOMES


@pytest.mark.parametrize("name", ["tilekernel", "Compile"])
def test_an_unknown_name_is_an_attribute_error(name) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(kernellab, name)


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_than_on_linux_the_import_says_what_to_do(platform) -> None:
    finished = python(f"import sys; sys.platform = {platform!r}; import kernellab")
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: KernelLab needs Linux")
    for word in (platform, "WSL", "container", "Colab", "No GPU is needed"):
        assert word in last
