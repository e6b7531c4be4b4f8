"""The lab in odd surroundings, each in a process of its own: it works, or says one clear line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kernellab.common.system import interrupted_afterwards
from tests.support.python_processes import STRICT, python_path

PROGRAM = textwrap.dedent("""
    import torch
    import kernellab
    from tests.kernels.tuned import double

    if __name__ == "__main__":
        x, z = torch.ones(64), torch.zeros(64)
        kernellab.run(double, (1,), x, z, 64, BLOCK=64)
        assert z.tolist() == [2.0] * 64
        assert not kernellab.check(double, (1,), x, z, 64, BLOCK=64).findings
        types = ("*fp32:16", "*fp32:16", "i32")
        made = kernellab.compile(double, *types, BLOCK=64, target="sm_90", skip="ttgir.coalesce")
        assert "sass" in made.stages
        str(kernellab.trace(double, (1,), x, z, 64, BLOCK=64))
        print("done")
""")


def run(
    tmp_path: Path, *flags: str, without: str = "", program: str = PROGRAM, **environment: str
) -> subprocess.CompletedProcess[str]:
    around = {name: value for name, value in os.environ.items() if name != without}
    script = tmp_path / "script.py"
    script.write_text(program)
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, *flags, str(script)],
        env={**around, "PYTHONPATH": python_path(root), **environment},
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip


SWEEP = textwrap.dedent("""
    import sys
    import torch
    import kernellab
    from tests.kernels.tuned import double

    if __name__ == "__main__":
        x, z = torch.ones(64), torch.zeros(64)
        space = {"BLOCK": [32, 64]}
        tuning = kernellab.tune(double, (2,), x, z, 64, space=space, target="sm_90", cache=False)
        assert len(tuning.table) == 2
        print("done")
""")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_sweep_leaves_no_warning_of_processes_and_files(tmp_path: Path) -> None:
    done = run(tmp_path, *STRICT, program=SWEEP)
    assert (done.stdout, done.stderr) == ("done\n", "")


SMALL_MEMORY = textwrap.dedent("""
    import re, resource, sys, torch
    from pathlib import Path
    import kernellab
    from tests.kernels.tuned import double

    x, z = torch.ones(64), torch.zeros(64)
    kernellab.trace(double, (1,), x, z, 64, BLOCK=64).save("trace.kl")
    used = int(re.search(r"VmSize:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
    print(len(kernellab.load("trace.kl")) > 0)
""")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    done = run(tmp_path, program=SMALL_MEMORY)
    assert (done.stdout, done.stderr) == ("True\n", "")


ODD_DEFAULTS = textwrap.dedent("""
    import sys, numpy, torch
    import kernellab
    from tests.kernels.tuned import double

    class OnlyWrites:
        def __init__(self, stream):
            self.write = stream.write

    x, z = torch.ones(64), torch.zeros(64)
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
""")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_defaults_of_torch_and_numpy_and_streams_that_only_write(tmp_path: Path) -> None:
    done = run(tmp_path, program=ODD_DEFAULTS)
    assert (done.stdout, done.stderr) == ("done\n", "")


SMALL_LIMITS = textwrap.dedent("""
    import os, resource, torch
    import kernellab
    from tests.kernels.tuned import double

    x, z = torch.ones(64), torch.zeros(64)
    types = ("*fp32:16", "*fp32:16", "i32")
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
""")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_limits_of_files_are_told_as_such_and_break_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, program=SMALL_LIMITS)
    assert (done.stdout, done.stderr) == ("fault\nfault\n", "")


WHILE_FORKING = textwrap.dedent("""
    import os, signal, threading
    import torch
    import kernellab
    from tests.kernels.tuned import double
    from kernellab.triton_api import diagnostics

    def compiled(warps):
        types = ("*fp32:16", "*fp32:16", "i32")
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
""")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_that_forks_while_a_thread_compiles(tmp_path: Path) -> None:
    # Python 3.12 warns of every fork in a process with threads.
    done = run(tmp_path, "-Wignore::DeprecationWarning", program=WHILE_FORKING)
    assert (done.stdout, done.stderr) == ("0\n", "heard")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("flags", [("-O",), STRICT])
def test_the_lab_works_with_flags_of_pythons(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = run(tmp_path, *flags)
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_lab_works_in_the_locale_c_and_without_a_home(tmp_path: Path) -> None:
    around = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = run(tmp_path, without="HOME", **around)
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.slow
def test_with_tritons_own_interpreter_one_line_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, TRITON_INTERPRET="1")
    (line,) = [one for one in done.stderr.splitlines() if "TRITON_INTERPRET=1 is set" in one]
    assert "unset TRITON_INTERPRET" in line


INTERRUPTED = textwrap.dedent("""
    import gc, itertools, os, random, signal, threading
    import torch
    import kernellab
    from tests.kernels.tuned import double

    x, z = torch.ones(64), torch.zeros(64)
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
""")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_at_any_moment_leaves_nothing_open_and_the_next_call_works(tmp_path: Path) -> None:
    done = run(tmp_path, program=INTERRUPTED)
    assert (done.stdout, done.stderr) == ("40 True\n", "")


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
