"""A sweep whose process is killed leaves nothing: no memory, no file, no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from kernellab.common import system
from tests.support.python_processes import is_running

SWEEP = textwrap.dedent("""
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
    """Of all threads of a process."""
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
    sweep = subprocess.Popen([sys.executable, "-c", SWEEP], env=environment)
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
