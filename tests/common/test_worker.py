"""The worker process: answers, errors, deaths, time-outs, Ctrl-C, and no process left behind."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import kernellab
from kernellab.common import processes as shared_worker
from kernellab.common.processes import Worker
from kernellab.errors import CompileError, WorkerError, WorkerLost
from tests.kernels.tuned import double
from tests.support.python_processes import STRICT, has_ended, is_running, run_python


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.close()


def test_a_call_is_answered_by_another_process_and_the_next_by_the_same(worker):
    assert worker.process_id is None
    first = worker.call("os:getpid")
    assert first != os.getpid()
    assert worker.call("os:getpid") == first == worker.process_id
    assert worker.call("operator:mul", "ab", 3) == "ababab"


def test_large_data_and_prints_do_not_disturb_the_answers(worker):
    text = "x" * 5_000_000
    assert worker.call("operator:add", text, "y") == text + "y"
    assert worker.call("os:system", "echo to stdout; echo to stderr >&2") == 0
    assert worker.call("builtins:print", "hello") is None
    assert worker.call("operator:add", 1, 2) == 3


def test_errors_come_back(worker):
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        worker.call("operator:truediv", 1, 0)
    with pytest.raises(CompileError) as caught:
        worker.call("tests.common.test_worker:refuse")
    assert (caught.value.problem, caught.value.failed_pass) == ("no", "ttgir.coalesce")
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
    assert caught.value.problem.startswith("The compiler ended its process (signal SIGABRT).")
    assert caught.value.died
    assert caught.value.last_words.endswith("Assertion `false' failed.")
    assert worker.call("os:getpid") != before


def test_a_call_that_takes_too_long_is_stopped(worker, raised):
    process = worker.call("os:getpid")
    raised(WorkerError, worker.call, "time:sleep", 60, seconds=0.2)
    assert not is_running(process)
    assert worker.call("operator:add", 1, 2) == 3


def test_environment_variables_of_the_compiler_are_todays(worker, monkeypatch):
    for value in (None, "1", None):
        if value is None:
            monkeypatch.delenv("TRITON_KERNELLAB_TEST", raising=False)
        else:
            monkeypatch.setenv("TRITON_KERNELLAB_TEST", value)
        assert worker.call("os:getenv", "TRITON_KERNELLAB_TEST") == value


@pytest.mark.parametrize("how", ["return", "kill"])
def test_nothing_is_left_behind(how):
    code = """
        import time
        from kernellab.common import processes as worker

        print(worker.call("os:getpid"), flush=True)
        time.sleep(0.5)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker_id = int(process.stdout.readline())
        assert is_running(worker_id)
        if how == "kill":
            process.kill()
        process.wait(timeout=20)
    assert has_ended(worker_id)


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_the_call_and_the_next_one_works():
    done = run_python("""
        import os, signal, threading
        from kernellab.common import processes as worker

        worker.call("os:getpid")
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            worker.call("time:sleep", 60)
        except KeyboardInterrupt:
            print("interrupted", worker.call("operator:add", 1, 2))
    """)
    assert done.stdout == "interrupted 3\n"


def test_modules_beside_a_notebook_do_not_replace_those_of_python(tmp_path):
    for name in ("random", "json", "pickle", "signal", "struct"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the wrong module')\n")
    (tmp_path / "of_the_notebook.py").write_text("def number():\n    return 7\n")
    program = """
        import sys
        from pathlib import Path
        from kernellab.common import processes as worker

        sys.path.insert(0, "")
        sys.path.insert(0, Path("no text"))
        assert worker.call("random:getrandbits", 1) in (0, 1)
        print(worker.call("of_the_notebook:number"))
    """
    done = run_python(program, flags=["-P"], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_a_process_that_the_system_killed_is_said_to_be_killed(worker, messages):
    with pytest.raises(WorkerError) as caught:
        worker.call("os:kill", 0, 9)
    assert caught.value.ending == messages
    assert "SIGKILL" in str(caught.value)
    assert caught.value == messages
    with pytest.raises(WorkerError, match="signal 40"):
        worker.call("tests.common.test_worker:end_by", 40)


def end_by(number):
    os.kill(os.getpid(), number)


def test_a_process_that_ends_before_it_begins_is_lost_and_blames_no_call(
    worker, tmp_path, messages
):
    (tmp_path / "ends_early.py").write_text("import os\nos.write(2, b'no room')\nos._exit(2)\n")
    (tmp_path / "fails_early.py").write_text("raise RuntimeError('cannot start new thread')\n")
    sys.path.append(str(tmp_path))
    try:
        for module, words in (("ends_early", "no room"), ("fails_early", "start new thread")):
            with pytest.raises(WorkerLost, match=words) as caught:
                worker.call(f"{module}:function")
            assert caught.value.advice == messages
            assert not caught.value.died
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_steered_compilation_whose_process_is_killed_blames_no_kernel():
    with pytest.raises(WorkerLost, match="killed from outside"):
        while_killed(lambda: steered_compilation(num_warps=2))


def steered_compilation(**options):
    types = ("*fp32:16", "*fp32:16", "i32")
    return kernellab.compile(
        double, *types, BLOCK=64, target="sm_90", stop_after="ttgir", **options
    )


def while_killed(call):
    """Make a call whose worker is killed as soon as the first pass runs in it."""
    shared = shared_worker._shared
    done = threading.Event()

    def kill():
        while not done.is_set():
            process = shared.process_id
            if (
                process is not None
                and shared._printed is not None
                and b"runs the pass" in os.pread(shared._printed.fileno(), 1 << 20, 0)
            ):
                os.kill(process, signal.SIGSTOP)
                os.kill(process, signal.SIGKILL)
                return

    shared_worker.close()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        call()
    finally:
        done.set()
        killer.join()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_calls_are_answered_where_the_folder_is_gone(tmp_path):
    program = """
        import os, sys
        from kernellab.common import processes as worker

        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        assert worker.call("torch:is_grad_enabled")
    """
    done = run_python(program, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def end_in_half_a_minute():
    """End this process then, whatever it waits for; a handler of Python's would wait too."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(30)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 10 << 20])
def test_a_process_that_stays_suspended_is_lost_and_the_next_call_works(
    worker, monkeypatch, size, raised
):
    monkeypatch.setattr(shared_worker, "_PATIENCE", 0)
    process = worker.call("os:getpid")
    os.kill(process, signal.SIGSTOP)
    caught = raised(WorkerLost, worker.call, "builtins:len", bytes(size), seconds=100)
    assert not caught.died
    assert not is_running(process)
    assert worker.call("operator:add", 1, 2) == 3


@pytest.mark.slow
def test_a_process_that_is_suspended_for_a_while_goes_on(worker):
    process = worker.call("os:getpid")
    os.kill(process, signal.SIGSTOP)
    resumed = threading.Timer(1.5, os.kill, (process, signal.SIGCONT))
    resumed.start()
    assert worker.call("builtins:len", bytes(10 << 20)) == 10 << 20
    resumed.join()
    assert worker.call("os:getpid") == process


@pytest.mark.slow
def test_a_fork_while_a_thread_writes_to_the_process(worker, monkeypatch):
    monkeypatch.setattr(shared_worker, "_PATIENCE", 1000)
    process = worker.call("os:getpid")
    os.kill(process, signal.SIGSTOP)
    thread = threading.Thread(target=worker.call, args=("builtins:len", bytes(10 << 20)))
    thread.start()
    sent = worker._process.stdin.fileno()
    while select.select([], [sent], [], 0)[1]:  # the pipe takes more
        time.sleep(0.01)
    child = os.fork()
    if child == 0:
        end_in_half_a_minute()
        os._exit(0 if worker.call("operator:add", 1, 2) == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.kill(process, signal.SIGCONT)
    thread.join()
    assert worker.call("os:getpid") == process


@pytest.mark.slow
def test_a_fork_does_not_inherit_the_process_nor_a_call_that_goes_on(worker):
    thread = threading.Thread(target=worker.call, args=("time:sleep", 2))
    worker.call("os:getpid")
    thread.start()
    while not worker._lock.locked():
        pass
    child = os.fork()
    if child == 0:
        end_in_half_a_minute()
        answer = worker.call("operator:add", 1, 2)
        worker.close()
        os._exit(0 if answer == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    assert worker.call("operator:add", 2, 2) == 4


def test_a_process_ended_from_another_thread_is_waited_for(worker):
    process = worker.call("os:getpid")
    worker.kill()
    assert not Path(f"/proc/{process}").exists()
    assert worker.process_id is None


def test_a_process_that_cannot_be_started_blames_no_kernel(worker, monkeypatch, raised):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    raised(WorkerError, worker.call, "os:getpid")


def test_a_process_reads_text_as_utf8_and_none_is_left_at_the_end_where_the_locale_is_c():
    code = """
        import os
        from kernellab.common.processes import Worker

        own = Worker("own")  # no one closes it
        print(own.call("locale:getpreferredencoding"))
        if os.fork() == 0:
            del own  # nor does a child complain of what is its parent's
            os._exit(0)
        os.wait()
    """
    around = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_python(code, flags=STRICT, env=around)
    assert (done.stdout.lower(), done.stderr) == ("utf-8\n", "")
