"""The worker process: answers, errors, deaths, time-outs, Ctrl-C, and no process left behind."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kernellab.common.worker import Worker
from kernellab.errors import CompileError, WorkerError


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.close()


def is_running(process):
    """Whether a process is there, and is no zombie."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_a_call_is_answered_by_another_process_and_the_next_by_the_same(worker):
    assert worker.process_id is None
    first = worker.call("os:getpid")
    assert first != os.getpid()
    assert worker.call("os:getpid") == first == worker.process_id
    assert worker.call("operator:mul", "ab", 3) == "ababab"


def test_large_data_goes_both_ways(worker):
    text = "x" * 5_000_000
    assert worker.call("operator:add", text, "y") == text + "y"


def test_what_the_function_prints_does_not_disturb_the_answers(worker):
    assert worker.call("os:system", "echo to stdout; echo to stderr >&2") == 0
    assert worker.call("builtins:print", "hello") is None
    assert worker.call("operator:add", 1, 2) == 3


def test_errors_come_back(worker):
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        worker.call("operator:truediv", 1, 0)
    with pytest.raises(CompileError) as caught:
        worker.call("tests.common.test_worker:refuse")
    assert caught.value.problem == "no"
    assert caught.value.failed_pass == "ttgir.coalesce"
    assert worker.call("operator:add", 1, 2) == 3


def refuse():
    raise CompileError("no", failed_pass="ttgir.coalesce")


def abort():
    os.write(2, b"Assertion `false' failed.\n")
    os.abort()


def test_a_process_that_aborts_is_an_error_with_its_last_words_and_the_next_call_works(worker):
    before = worker.call("os:getpid")
    with pytest.raises(WorkerError) as caught:
        worker.call("tests.common.test_worker:abort")
    assert "signal SIGABRT" in caught.value.problem
    assert caught.value.last_words.endswith("Assertion `false' failed.")
    assert worker.call("os:getpid") != before


def test_a_call_that_takes_too_long_is_stopped(worker):
    process = worker.call("os:getpid")
    with pytest.raises(WorkerError, match=r"did not answer within 0\.2 seconds"):
        worker.call("time:sleep", 60, seconds=0.2)
    assert not is_running(process)
    assert worker.call("operator:add", 1, 2) == 3


def test_environment_variables_of_the_compiler_are_todays(worker, monkeypatch):
    assert worker.call("os:getenv", "TRITON_KERNELLAB_TEST") is None
    monkeypatch.setenv("TRITON_KERNELLAB_TEST", "1")
    assert worker.call("os:getenv", "TRITON_KERNELLAB_TEST") == "1"
    monkeypatch.delenv("TRITON_KERNELLAB_TEST")
    assert worker.call("os:getenv", "TRITON_KERNELLAB_TEST") is None


def run_python(code, *, end):
    """Run code that prints a process id and then waits; `end` ends the interpreter that runs it."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    worker_id = int(process.stdout.readline())
    assert is_running(worker_id)
    end(process)
    process.wait(timeout=20)
    return worker_id


@pytest.mark.parametrize("how", ["return", "kill"])
def test_nothing_is_left_behind(how):
    code = """
        import sys, time
        from kernellab.common import worker
        print(worker.call("os:getpid"), flush=True)
        sys.stdin.readline() if len(sys.argv) > 1 else time.sleep(0.5)
    """
    worker_id = run_python(code, end=lambda process: process.kill() if how == "kill" else None)
    deadline = time.monotonic() + 10
    while is_running(worker_id) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker_id)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_the_call_and_the_next_one_works():
    code = """
        import os, signal, threading
        from kernellab.common import worker
        worker.call("os:getpid")
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            worker.call("time:sleep", 60)
        except KeyboardInterrupt:
            print("interrupted", worker.call("operator:add", 1, 2))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "interrupted 3\n"


def test_modules_beside_a_notebook_do_not_replace_those_of_python(tmp_path):
    for name in ("random", "json", "pickle", "signal", "struct"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the wrong module')\n")
    (tmp_path / "of_the_notebook.py").write_text("def number():\n    return 7\n")
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from kernellab.common import worker
        sys.path.insert(0, "")
        sys.path.insert(0, Path("no text"))
        assert worker.call("random:getrandbits", 1) in (0, 1)
        print(worker.call("of_the_notebook:number"))
    """)
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_a_process_that_the_system_killed_is_said_to_be_killed(worker):
    with pytest.raises(WorkerError) as caught:
        worker.call("os:kill", 0, 9)
    assert caught.value.ending == "signal SIGKILL, most likely for want of memory"
    assert "was killed from outside (signal SIGKILL" in str(caught.value)
    assert "when memory runs out" in caught.value.advice
    with pytest.raises(WorkerError, match="signal 40"):
        worker.call("tests.common.test_worker:end_by", 40)


def end_by(number):
    os.kill(os.getpid(), number)


def test_a_process_that_cannot_be_started_blames_no_kernel(worker, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerError, match="no process could be started") as caught:
        worker.call("os:getpid")
    assert "not the kernel's" in caught.value.advice
