"""Which kernel a sweep tries, and which outcomes it may remember."""

import json
import linecache
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton

import kernellab
from kernellab import triton_api
from kernellab.common import system
from kernellab.common.system import cache_folder
from kernellab.errors import CompileError
from kernellab.triton_api.kernel_contents import content_of
from kernellab.tuning import files
from kernellab.tuning.files import Store
from kernellab.tuning.records import Dropped, Outcome, Reason
from kernellab.tuning.sweep import close_pools
from tests.kernels.tuned import double
from tests.support.python_processes import is_running

MODULE = """
import triton
import triton.language as tl


@triton.jit
def shifted(x):
    return x + 1


@triton.jit
def kernel(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, shifted(tl.load(x_ptr + lanes)))
"""

SWEEP = """
import sys
from pathlib import Path

import torch

import edited
import kernellab

if __name__ == "__main__":
    before = Path(edited.__file__).read_text()
    if len(sys.argv) > 1:
        Path(edited.__file__).write_text(before.replace(sys.argv[1], sys.argv[2]))
    x = torch.arange(16, dtype=torch.int32)
    found = kernellab.tune(
        edited.kernel, (1,), x, torch.zeros_like(x), reference={"z_ptr": x + 1},
        space={"BLOCK": [16]}, workers=1, progress=False,
    )
    Path(edited.__file__).write_text(before)
    outcome = found.trial(0).outcome
    print(outcome.dropped.reason if outcome.dropped else "right")
"""


def swept(folder: Path, *edit: str) -> str:
    """What a process says of the kernel's only config; it edits the file after its import."""
    done = subprocess.run(
        [sys.executable, "sweep.py", *edit],
        cwd=folder,
        env={
            **os.environ,
            "KERNELLAB_CACHE_DIR": str(folder / "cache"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("old", "new"),
    [("x + 1", "x - 1"), ("    return", "    x = x * 2\n    return"), ("\n@triton", "# new\n\n@")],
    ids=["another value", "a line more", "no Python any more"],
)
def test_a_sweep_tries_the_kernel_that_was_imported(tmp_path, old, new) -> None:
    (tmp_path / "edited.py").write_text(MODULE)
    (tmp_path / "sweep.py").write_text(SWEEP)
    assert swept(tmp_path, old, new) == "right"
    assert swept(tmp_path) == "right"  # nor does the next process hear anything else


@pytest.mark.slow
def test_a_file_that_was_wrong_when_it_was_imported_is_another_kernel(tmp_path) -> None:
    (tmp_path / "sweep.py").write_text(SWEEP)
    (tmp_path / "edited.py").write_text(MODULE.replace("x + 1", "x - 1"))
    assert swept(tmp_path) == "wrong result"
    (tmp_path / "edited.py").write_text(MODULE)
    assert swept(tmp_path) == "right"


def cell(scope: dict[str, Any], number: int, text: str) -> None:
    """Run text as a notebook's cell would be."""
    file = f"<cell {number} of {id(scope)}>"
    text = f"import triton\nimport triton.language as tl\n{text}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)  # noqa: S102 - the test's own


HELPER = "@triton.jit\ndef helper(x):\n    return inner(x) * 2\n"
INNER = "@triton.jit\ndef inner(x):\n    return x + {}\n"
KERNEL = """
@triton.jit
def kernel(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, helper(tl.load(x_ptr + lanes)))
"""


@pytest.mark.slow
def test_an_outcome_is_forgotten_with_the_helper_of_another_cell() -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    for number, text in enumerate((INNER.format(1), HELPER, KERNEL)):
        cell(scope, number, text)
    x = torch.arange(16, dtype=torch.int32)

    def said() -> str:
        reference = {"z_ptr": (x + 1) * 2}
        found = kernellab.tune(
            scope["kernel"], (1,), x, torch.zeros_like(x), reference=reference,
            space={"BLOCK": [16]}, workers=1,
        )  # fmt: skip
        dropped = found.trial(0).outcome.dropped
        return "right" if dropped is None else dropped.reason

    assert said() == "right"
    cell(scope, 3, INNER.format(5))
    assert said() == "wrong result"
    cell(scope, 0, INNER.format(1))
    assert said() == "right"


def contents(change: str = "") -> str:
    """The digest of a kernel that names much, after a statement that changes something."""
    settings = ModuleType("settings")
    vars(settings).update(SIZE=triton.language.constexpr(4), deep=ModuleType("settings.deep"))
    settings.deep.RATE = 2
    scope: dict[str, Any] = {"__name__": "__main__", "settings": settings}
    cell(scope, 0, f"FACTOR = tl.constexpr(3)\nKIND = tl.float32\nUNUSED = 1\n{INNER.format(1)}")
    cell(
        scope, 1,
        "@triton.jit\ndef helper(x, by=1):\n"
        "    return (inner(x) * settings.deep.RATE + FACTOR + settings.SIZE).to(KIND)\n" + KERNEL,
    )  # fmt: skip
    cell(scope, 2, change)
    return content_of(scope["kernel"])


@pytest.mark.parametrize(
    "change",
    [
        "FACTOR = tl.constexpr(4)", "FACTOR = tl.constexpr(3.0)", "KIND = tl.float16",
        "settings.SIZE = tl.constexpr(5)", "settings.deep.RATE = True", "del FACTOR",
        INNER.format(2), "helper.noinline = True",
    ],
)  # fmt: skip
def test_the_key_of_an_outcome_has_whatever_the_kernel_names(change) -> None:
    assert contents() == contents() == contents("UNUSED = 2")
    assert contents(change) != contents()


def test_a_damaged_entry_is_a_missing_one(tmp_path) -> None:
    kept = Store(["key"])
    kept.put([1], Outcome(checked="the reference"))
    (file,) = cache_folder("tuning").rglob("*.json")
    whole = file.read_bytes()
    assert kept.get([1]) == Outcome(checked="the reference")
    for damaged in (
        b"",
        b"[]",
        b"5",
        b'{"digest": 1, "outcome": {}}',
        whole[:-10],
        whole.replace(b"the ref", b"The ref"),
        whole.replace(b"checked", b"dropped"),
        b"\xff" * 40,
        b"[" * 100_000,
    ):
        file.write_bytes(damaged)
        assert kept.get([1]) is None, damaged[:40]
    file.unlink()
    file.mkdir()
    assert kept.get([1]) is None
    kept.put([1], Outcome(checked="the reference"))
    file.rmdir()
    os.mkfifo(file)  # no one will ever write there
    assert kept.get([1]) is None


def test_only_lasting_outcomes_are_kept() -> None:
    kept = Store(["key"])
    passing: tuple[Reason, ...] = ("out of memory", "lost", "crash", "time-out")
    for number, reason in enumerate(passing):
        kept.put([number], Outcome(dropped=Dropped(reason, "why")))
    kept.put([9], Outcome(dropped=Dropped("fault", "why"), lasts=False))
    assert not list(cache_folder("tuning").rglob("*.json"))
    kept.put([10], Outcome(dropped=Dropped("compile error", "why")))
    assert json.loads(next(cache_folder("tuning").rglob("*.json")).read_text())["outcome"]


def test_no_home_for_the_store_is_no_reason_to_fail(monkeypatch) -> None:
    def homeless(_: str) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(files, "cache_folder", homeless)
    kept = Store(["key"])
    kept.put([1], Outcome(checked="the reference"))
    assert kept.get([1]) is None


@pytest.mark.slow
def test_the_weather_is_no_property_of_a_config(tmp_path, monkeypatch) -> None:
    """Triton's cache in no folder: the next sweep tries the config again."""
    kinds = ("*fp32:16", "*fp32:16", "i32")

    def said(block: int) -> str:
        close_pools()  # the environment of processes is that of their start
        found = kernellab.tune(double, None, *kinds, space={"BLOCK": [block]}, workers=1)
        dropped = found.trial(0).outcome.dropped
        return "compiled" if dropped is None else dropped.reason

    not_a_folder = tmp_path / "file"
    not_a_folder.touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(not_a_folder))
    assert said(32) == "lost"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    assert said(32) == "compiled"
    close_pools()


def test_what_is_the_machines_fault() -> None:
    def caused(cause: BaseException) -> CompileError:
        error = CompileError("Triton cannot compile")
        error.__cause__ = cause
        return error

    full = OSError(28, "No space left on device")
    assert triton_api.is_machines_fault(full)
    assert triton_api.is_machines_fault(caused(full))
    assert triton_api.is_machines_fault(caused(PermissionError(13, "Permission denied")))
    assert triton_api.is_machines_fault(caused(RuntimeError("Cannot find ptxas")))
    assert triton_api.is_machines_fault(caused(MemoryError()))
    assert not triton_api.is_machines_fault(caused(ValueError("arange's range must be a power")))
    assert not triton_api.is_machines_fault(caused(RuntimeError("PassManager::run failed")))


KILLED = textwrap.dedent("""
    import torch, kernellab
    from tests.kernels.tuned import double
    x = torch.ones(16 << 20)
    configs = [{"BLOCK": 1 << n} for n in range(1, 13)]
    kernellab.tune(double, lambda meta: (x.numel() // meta["BLOCK"],), x, torch.empty_like(x),
                   x.numel(), space=configs, workers=1, cache=False,
                   check=True)
""")
"""64 MiB twice, for half a minute."""


def in_shared_memory() -> set[str]:
    """What of ours lies where files live in memory."""
    return {one.name for one in Path("/dev/shm").glob("kernellab-*")}


def children(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(one) for each in lists for one in each.read_text().split()]


def wait_until(true, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def holds_arguments(process: int) -> bool:
    """Whether a process has the sweep's file mapped."""
    try:
        return "kernellab-tmp-arguments" in Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_killed_sweep_leaves_no_memory_and_no_process(tmp_path, number) -> None:
    before = in_shared_memory()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    sweep = subprocess.Popen([sys.executable, "-c", KILLED], env=environment)
    try:
        found: list[int] = []

        def is_under_way() -> bool:
            assert sweep.poll() is None
            found[:] = children(sweep.pid)
            return any(map(holds_arguments, found))

        wait_until(is_under_way)
        during = in_shared_memory() - before
        sweep.send_signal(number)
        sweep.wait(timeout=30)
        wait_until(lambda: not any(map(is_running, found)), 30)
    finally:
        sweep.kill()
        sweep.wait()
    assert during == set()
    assert in_shared_memory() - before == set()
    assert not [
        one for one in tmp_path.rglob("*") if one.is_file() and one.stat().st_size > 1 << 20
    ]


def test_folders_of_processes_that_were_killed_go_with_the_next_start(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    program = (
        "import os, signal\nfrom kernellab.common.system import temporary_folder\n"
        "with temporary_folder() as folder:\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    (left,) = tmp_path.iterdir()
    others = tmp_path / "kernellab-projects"
    others.mkdir()
    monkeypatch.setattr(system, "_YOUNG", 0.0)
    system.remove_leftovers.cache_clear()
    with system.temporary_folder() as mine:
        assert not left.exists()
        system.remove_leftovers.cache_clear()
        system.remove_leftovers()
        assert Path(mine).exists()
        assert others.exists()
    assert list(tmp_path.iterdir()) == [others]
