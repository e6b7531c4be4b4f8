"""When Triton's autotuner is another, and when it is its own again."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BEFORE = """
import importlib, pkgutil
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.driver import DriverConfig
from triton.runtime.jit import JITFunction

def methods():
    classes = Autotuner, Heuristics, JITFunction, DriverConfig
    return {(one, name): value for one in classes for name, value in vars(one).items()}

before = methods()

def changed():
    return [name for (_, name), value in methods().items() if before[_, name] is not value]
"""


def printed(script: str) -> str:
    """What a script prints in a process in which nothing else has been imported."""
    command = [sys.executable, "-c", BEFORE + script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_changes_nothing_of_tritons() -> None:
    script = """
import kernellab
import kernellab.launch.autotuners
assert not changed()
for module in pkgutil.walk_packages(kernellab.__path__, "kernellab."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(changed())
"""
    assert printed(script) == "[]"


@pytest.mark.parametrize(
    "asked",
    [
        "kernellab.TileKernel(launched.add.fn)",
        "kernellab.tunings(launched.add)",
        "kernellab.run(launched.add, (1,), *[torch.ones(8)] * 3, 8, BLOCK=8)",
    ],
)
def test_who_asks_for_it_has_it_for_good(asked) -> None:
    script = f"""
import kernellab, torch
from tests.kernels import launched
assert not changed()
{asked}
with kernellab.interpreted():
    pass
print(changed())
"""
    assert printed(script) == "['do_bench', 'run']"
