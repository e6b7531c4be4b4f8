"""The lab in odd surroundings, each in a process of its own: it works, or says one clear line."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernellab.common.system import interrupted_afterwards
from tests.support.python_processes import STRICT, python_path
from tests.support.source_files import ROOT

HEAD = """\
import itertools, os, signal, sys, threading, torch
import kernellab
from tests.kernels.tuned import double

x, z = torch.ones(64), torch.zeros(64)
types = ("*fp32:16", "*fp32:16", "i32")
"""

PROGRAM = """\
if __name__ == "__main__":
    kernellab.run(double, (1,), x, z, 64, BLOCK=64)
    assert z.tolist() == [2.0] * 64
    assert not kernellab.check(double, (1,), x, z, 64, BLOCK=64).findings
    made = kernellab.compile(double, *types, BLOCK=64, target="sm_90", skip="ttgir.coalesce")
    assert "sass" in made.stages
    str(kernellab.trace(double, (1,), x, z, 64, BLOCK=64))
    print("done")
"""
"""Most of the lab."""

SWEEP = """\
if __name__ == "__main__":
    space = {"BLOCK": [32, 64]}
    tuning = kernellab.tune(double, (2,), x, z, 64, space=space, target="sm_90", cache=False)
    assert len(tuning.table) == 2
    print("done")
"""
"""It leaves no warning of processes and files."""

SMALL_MEMORY = """\
import re, resource
from pathlib import Path
from typing import Any

kernellab.trace(double, (1,), x, z, 64, BLOCK=64).save("trace.kl")
used = int(re.search(r"VmSize:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
print(len(kernellab.load("trace.kl")) > 0)
"""
"""A small file takes little memory."""

ODD_DEFAULTS = """\
import numpy

class OnlyWrites:
    def __init__(self, stream):
        self.write = stream.write

torch.set_default_device("meta")
torch.set_default_dtype(torch.float64)
numpy.seterr(all="raise")
streams = sys.stdout, sys.stderr
sys.stdout, sys.stderr = map(OnlyWrites, streams)
launch = double, (1,), x, z, 64
kernellab.run(*launch, BLOCK=64)
assert z.tolist() == [2.0] * 64
assert not kernellab.check(*launch, BLOCK=64).findings
str(kernellab.trace(*launch, BLOCK=64))
kernellab.accesses(*launch, BLOCK=64, target="sm_90")
str(kernellab.bisect(*launch, BLOCK=64, target="sm_90"))
sys.stdout, sys.stderr = streams  # which Python flushes at its end
print("done")
"""
"""Defaults of torch and NumPy, and streams that only write."""

SMALL_LIMITS = """\
import resource

stages = iter(range(1, 99))  # another compilation each time

def explored():
    made = kernellab.compile(
        double, *types, BLOCK=64, target="sm_90", num_stages=next(stages)
    )
    assert made.layouts()

def counted():
    kernellab.accesses(double, (1,), x, z, 64, BLOCK=64, num_stages=next(stages))

def tuned():
    space = {"BLOCK": [64]}
    kernellab.tune(double, (1,), x, z, 64, space=space, target="sm_90", cache=False)

def outcome(call, kind, most):
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        call()
    except kernellab.MachineError as error:
        assert error.position is None and "double" not in str(error), str(error)
        return "fault"
    finally:
        resource.setrlimit(kind, (soft, hard))
    return "done"

explored(), counted()
free = os.dup(0)
os.close(free)
for call in (explored, counted):
    found = [outcome(call, resource.RLIMIT_NOFILE, free + more) for more in (0, 1, 2, 3, 5)]
    assert found[0] == "fault", found
    assert sorted(found, reverse=True) == found, found
    assert outcome(call, resource.RLIMIT_NOFILE, free + 100) == "done"
print(outcome(explored, resource.RLIMIT_FSIZE, 4096))
print(outcome(tuned, resource.RLIMIT_FSIZE, 4096))
explored(), tuned()
"""
"""Limits of files are told as such and break nothing."""

WHILE_FORKING = """\
from kernellab.triton_api import diagnostics

def compiled(warps):
    kernellab.compile(double, *types, BLOCK=64, target="sm_90", num_warps=warps)

begun = threading.Event()

def hold():
    with diagnostics.captured_output():
        begun.set()
        threading.Event().wait(0.5)

compiled(1)
thread = threading.Thread(target=hold)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)  # else a child that waits for ever
    os.write(2, b"heard")
    compiled(2)
    os._exit(0)
print(os.waitpid(child, 0)[1])
thread.join()
compiled(4)
"""
"""A process forks while a thread compiles."""

INTERRUPTED = """\
import gc, random

stages = itertools.count(1)  # another compilation each time

def run():
    kernellab.run(double, (1,), x, z, 64, BLOCK=64, num_stages=next(stages) % 20 + 1)
    kernellab.check(double, (1,), x, z, 64, BLOCK=64)
    str(kernellab.trace(double, (1,), x, z, 64, BLOCK=64))

def descriptors():
    gc.collect()
    found = [f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")]
    return sorted(os.readlink(one) for one in found if os.path.exists(one))

for _ in range(3):
    run()
before, moments, stopped = descriptors(), random.Random(7), 0
for _ in range(40):
    timer = threading.Timer(moments.uniform(0, 0.2), os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        while True:
            run()
    except KeyboardInterrupt:
        stopped += 1
    timer.join()
    z.zero_()
    run()
    assert z.tolist() == [2.0] * 64
assert descriptors() == before, (before, descriptors())
print(stopped, threading.active_count() <= 3)
"""
"""Ctrl-C at any moment leaves nothing open, and the next call works."""


def run(
    folder: Path, program: str, flags: tuple[str, ...] = (), without: str = "", **around: str
) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(HEAD + program)
    inherited = {name: value for name, value in os.environ.items() if name != without}
    return subprocess.run(
        [sys.executable, *flags, str(script)],
        env={**inherited, "PYTHONPATH": python_path(ROOT), **around},
        capture_output=True, text=True, check=False, timeout=200, cwd=folder,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("program", "flags", "out", "err"),
    [
        pytest.param(SWEEP, STRICT, "done\n", "", id="sweep"),
        pytest.param(SMALL_MEMORY, (), "True\n", "", id="memory"),
        pytest.param(ODD_DEFAULTS, (), "done\n", "", id="defaults"),
        pytest.param(SMALL_LIMITS, (), "fault\nfault\n", "", id="limits"),
        # Python 3.12 warns of every fork in a process with threads.
        pytest.param(
            WHILE_FORKING, ("-Wignore::DeprecationWarning",), "0\n", "heard", id="forking"
        ),
        pytest.param(INTERRUPTED, (), "40 True\n", "", id="interrupted"),
    ],
)
def test_a_program_works(tmp_path, program, flags, out, err) -> None:
    done = run(tmp_path, program, flags)
    assert (done.stdout, done.stderr) == (out, err)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_lab_works_with_flags_of_pythons_and_in_the_locale_c_without_a_home(tmp_path) -> None:
    around: Any = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for done in (
        run(tmp_path, PROGRAM, ("-O",)),
        run(tmp_path, PROGRAM, STRICT),
        run(tmp_path, PROGRAM, without="HOME", **around),
    ):
        assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_within_an_import_counts_at_its_end() -> None:
    done: list[str] = []

    def interrupted_import() -> None:
        with interrupted_afterwards():
            signal.raise_signal(signal.SIGINT)
            done.append("the rest of the import")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted_import()
        assert done
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
