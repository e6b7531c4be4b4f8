"""Long work: bars where somebody watches, none for short work, and interrupts that end it soon."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import pytest

from kernellab.common import progress
from kernellab.common.progress import ProgressBar
from kernellab.common.system import write_whole
from kernellab.viz.kit.progress_bar import open_bar
from tests.support.notebook_session import WIDGET
from tests.support.python_processes import run_python
from tests.support.source_files import ROOT

KERNELS = """
import os, time, torch, triton, triton.language as tl, kernellab

@triton.jit
def slow(x_ptr, y_ptr, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + offsets)
    for turn in range(TURNS):
        total += tl.sqrt(total + turn)
    tl.store(y_ptr + offsets, total)

x = torch.ones(2**21)
y = torch.zeros(2**21)
grid = (2**21 // 128,)

def children():
    \"\"\"The processes that this one has started and that are there, ended ones that no one has waited for included.\"\"\"
    mine = [one for one in os.listdir("/proc") if one.isdigit()]
    found = []
    for one in mine:
        try:
            state, parent = open(f"/proc/{one}/stat").read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.append(state)
    return found
"""


CELLS = ("%load_ext kernellab", f"%%tilekernel\n{KERNELS}")


class Clock:
    """Stands in for the module `time`: its seconds pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_steps_are_counted_and_short_work_opens_no_bar(monkeypatch) -> None:
    opened = []
    clock = Clock()
    monkeypatch.setattr("kernellab.common.progress.time", clock)
    monkeypatch.setattr(
        "kernellab.viz.kit.progress_bar.open_bar",
        lambda *given, wanted: opened.append((*given, wanted)),
    )
    monkeypatch.setenv("KERNELLAB_PROGRESS", "1")
    with ProgressBar("quick", 3, "steps") as work:
        for _ in range(3):
            clock.now += 0.16
            work.advance()
    assert work.done == 3
    assert not opened
    with ProgressBar("slow", 2, "steps") as work:
        clock.now += 0.625
        work.advance()
    assert opened == [("slow", 2, 0.625, True)]


class Noted:
    """A bar that writes down what it is told."""

    def __init__(self) -> None:
        self.drawn: list[tuple[int, int | None, str]] = []
        self.closed = 0

    def draw(self, done: int, total: int | None, unit: str, words: str) -> None:
        del unit
        self.drawn.append((done, total, words))

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("known", [True, False])
def test_work_inside_other_work_is_told_in_its_bar(known, monkeypatch) -> None:
    bar = Noted()
    titles: list[str] = []

    def opened(title: str, *rest: object, wanted: bool) -> Noted:
        titles.append(title)
        return bar

    monkeypatch.setattr("kernellab.viz.kit.progress_bar.open_bar", opened)
    monkeypatch.setattr("kernellab.common.progress.SECONDS_UNTIL_SHOWN", 0)
    monkeypatch.setattr("kernellab.common.progress._SECONDS_BETWEEN", 0)
    monkeypatch.setenv("KERNELLAB_PROGRESS", "1")
    outer = ProgressBar("bisect", 4 if known else None, "modules")
    with outer, ProgressBar("matmul", 2048, "programs") as inner:
        inner.advance(1024)
    assert titles == ["bisect"]
    # The timer may have drawn before it, or between the ends of the two.
    assert ((0, 4, "1,024/2,048 programs") if known else (1024, 2048, "")) in bar.drawn
    assert bar.closed == 1


def test_work_goes_on_where_no_thread_can_be_started(monkeypatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError(f"can't start {thread.name}")

    bar = Noted()
    timer = progress._Timer()
    monkeypatch.setattr(progress, "_timer", timer)
    monkeypatch.setattr(progress, "SECONDS_UNTIL_SHOWN", 0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN", 0)
    monkeypatch.setattr("kernellab.viz.kit.progress_bar.open_bar", lambda *_given, wanted: bar)
    monkeypatch.setenv("KERNELLAB_PROGRESS", "1")
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", refuse)
        with ProgressBar("add", 4, "programs") as work:
            work.advance(2)
        assert bar.drawn == [(2, 4, "")]
        assert bar.closed == 1
    with ProgressBar("add", 4, "programs"):
        assert timer._thread is not None, "tried again"


def interrupted_inside() -> None:
    with ProgressBar("check add", 15, "steps", "The arguments are as they were.") as work:
        work.advance(3)
        with ProgressBar("add", 10, "programs", "no one wants to know"):
            raise KeyboardInterrupt


def test_an_interrupt_is_noted_once_by_the_outermost_work(messages) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_inside()
    assert caught.value.__notes__ == messages


PROGRAM = """
from kernellab.common import progress as long_work

class Clock:
    now = 0.0
    def monotonic(self):
        return self.now

long_work.time = clock = Clock()
with long_work.ProgressBar("tune matmul", 10, "configs") as work:
    for number in range(10):
        clock.now += 0.15
        work.words = "2 dropped"
        work.advance()
print("end")
"""


def without_option() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "KERNELLAB_PROGRESS"}


def printed_in_a_terminal() -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    streams: Any = {"stdout": theirs, "stderr": theirs, "stdin": theirs}
    command = [sys.executable, "-c", PROGRAM]
    process = subprocess.Popen(command, cwd=ROOT, env=without_option(), **streams)
    os.close(theirs)
    printed = b""
    try:
        while more := os.read(ours, 65536):
            printed += more
    except OSError:  # the process has ended
        pass
    assert process.wait() == 0
    os.close(ours)
    return printed.decode()


def test_a_terminal_has_a_line_that_is_wiped_at_the_end() -> None:
    lines = printed_in_a_terminal().replace("\r", "\n").splitlines()
    assert any("tune matmul" in line and "7/10" in line and "2 dropped" in line for line in lines)
    assert not any("1/10" in line for line in lines)  # less than half a second
    *_before, wiped, end = [line for line in lines if line]
    assert end == "end"
    assert not wiped.strip()


@pytest.mark.parametrize(("option", "lines"), [(None, False), ("0", False), ("1", True)])
def test_a_pipe_has_a_line_only_where_it_is_asked_for(option, lines) -> None:
    environment = without_option() | ({} if option is None else {"KERNELLAB_PROGRESS": option})
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.stdout == "end\n"
    assert ("configs" in done.stderr) is lines


IN_ONE_PIECE = """
import time
from kernellab.common.progress import ProgressBar

with ProgressBar("compile matmul", 1, "targets") as work:
    until = time.monotonic() + 60
    while not work._is_open and time.monotonic() < until:
        sum(range(1000))
print("end")
"""


@pytest.mark.slow
def test_a_bar_tells_the_time_where_nothing_is_counted() -> None:
    done = run_python(IN_ONE_PIECE, env={"KERNELLAB_PROGRESS": "1"})
    assert done.stdout == "end\n"
    assert "compile matmul: 00:0" in done.stderr
    assert "%" not in done.stderr


def seconds_of(clock: str) -> int:
    minutes, seconds = clock.split(":")
    return 60 * int(minutes) + int(seconds)


def test_what_remains_goes_by_all_the_time_that_has_passed(capsys) -> None:
    bar: Any = open_bar("trace matmul", 4, 18, wanted=True)
    bar.draw(1, 4, "programs", "")
    line = capsys.readouterr().err.split("\r")[-1]
    told = re.search(r"1/4 programs \[(\d+:\d+)<(\d+:\d+)\]", line)
    assert told is not None, line
    passed, remains = map(seconds_of, told.groups())
    assert passed >= 18
    assert 3 * passed <= remains < 3 * (passed + 1)
    bar.draw(1, None, "modules", "")  # no one knows the total any longer
    assert "trace matmul: 1 module [00:" in capsys.readouterr().err
    bar.close()


@pytest.mark.slow
def test_a_notebook_has_a_widget_that_leaves_an_empty_output(lab) -> None:
    def shown_after(seconds: float) -> None:
        lab.run(f"import kernellab.common.progress as told; told.SECONDS_UNTIL_SHOWN = {seconds}")

    try:
        lab.run("%env KERNELLAB_PROGRESS=1")
        shown_after(0)
        done = lab.run("slow[grid](x, y, TURNS=300, BLOCK=128)")
        assert not done.error, done.traceback
        assert [WIDGET in bundle for bundle in done.displays] == [True]
        assert done.updates == [{"text/plain": ""}]
        assert not done.streams
        piece = lab.run(IN_ONE_PIECE)
        assert [WIDGET in bundle for bundle in piece.displays] == [True], piece.traceback
        assert piece.updates == [{"text/plain": ""}]
        shown_after(600)
        assert not lab.run("slow[grid](x, y, TURNS=300, BLOCK=128)").displays
        shown_after(0)
        lab.run("%env KERNELLAB_PROGRESS=0")
        assert not lab.run("slow[grid](x, y, TURNS=300, BLOCK=128)").displays
    finally:
        shown_after(0.5)
        lab.run("%env KERNELLAB_PROGRESS=0")


def test_an_interrupted_file_is_as_it_was(tmp_path, monkeypatch) -> None:
    file = write_whole(tmp_path / "report.html", b"whole")

    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(file, b"another one")
    assert file.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "report.html"
    link.symlink_to(tmp_path / "kept" / "report.html")
    write_whole(link, b"whole")
    assert link.is_symlink()
    assert (tmp_path / "kept" / "report.html").read_bytes() == b"whole"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"whole")
    assert os.read(reader, 100) == b"whole"
    os.close(reader)
    assert pipe.is_fifo()


UNTOUCHED = "The arguments are as they were."
INTERRUPTED = {
    "slow[grid](x, y, TURNS=100_000, BLOCK=128)": (
        "slow was interrupted after 0 of 16,384 programs. What its programs stored until then is in "
        "the arguments."
    ),
    "kernellab.run(slow, grid, x, y, TURNS=4000, BLOCK=128)": (
        "programs. What its programs stored until then is in the arguments."
    ),
    "kernellab.check(slow, grid, x, y, TURNS=4000, BLOCK=128)": "check slow was interrupted after",
    "kernellab.accesses(slow, grid, x, y, TURNS=4000, BLOCK=128)": (
        f"accesses of slow was interrupted. {UNTOUCHED}"
    ),
    "kernellab.bisect(slow, grid, x, y, TURNS=4000, BLOCK=128)": f"modules. {UNTOUCHED}",
    "kernellab.trace(slow, grid, x, y, TURNS=4000, BLOCK=128)": (
        f"trace slow was interrupted. {UNTOUCHED}"
    ),
    "kernellab.graph(lambda x: (time.sleep(60), x + 1), x)": "kernellab.graph",
}
"""A call -> what is said of it."""


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.sampled(len(INTERRUPTED))
@pytest.mark.parametrize(("call", "kept"), INTERRUPTED.items())
def test_an_interrupt_ends_long_work_soon_and_says_what_is_kept(lab, call, kept) -> None:
    if "bisect" in call:  # its compiler's process takes a while to start
        lab.run("kernellab.bisect(slow, (4,), x, y, TURNS=3, BLOCK=128)")
    if "graph" in call:  # torch's compiler takes a while to import
        lab.run("kernellab.graph(lambda x: x + 1, x)")
    lab.run("y.zero_()")
    outcome = lab.run(f"print('go', flush=True)\n{call}", interrupt_after="go", pause=2)
    assert outcome.error == "KeyboardInterrupt", outcome
    assert outcome.seconds < 10  # left alone, each takes more than a minute
    assert kept in outcome.traceback
    assert "Z" not in lab.ask("children()")
    if "as they were" in kept:
        assert lab.ask("float(y.abs().sum())") == "0.0"
    again = lab.run("slow[(4,)](x, y, TURNS=3, BLOCK=128); print(float(y[0]) > 1)")
    assert again.streams["stdout"] == "True\n"
