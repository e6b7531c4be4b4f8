"""JupyterLab's debugger on a cell's kernels, over the protocol that VS Code speaks too."""

import pytest

from tests.debugger.debug_protocol import NotebookDebugger
from tests.support.notebook_session import NotebookSession, StartNotebook

pytestmark = pytest.mark.slow

CELL = """\
%%tilekernel --no-compile
@triton.jit
def half(a):
    b = a / 2
    return b
@triton.jit
def scale(x, y, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    w = half(v) * 4
    tl.store(y + i, w, mask=i < n)
x, y = torch.arange(12.), torch.zeros(12)
scale[(3,)](x, y, 12, B=4)
print(y.tolist())
"""
DOUBLED = str([2.0 * n for n in range(12)])


@pytest.fixture(scope="module")
def session(notebook: StartNotebook) -> NotebookSession:
    setup = "%load_ext kernellab\nimport torch, triton, triton.language as tl"
    return notebook(setup, CELL)  # what is imported under a debugger takes long


@pytest.fixture(scope="module")
def debugger(session: NotebookSession) -> NotebookDebugger:
    return NotebookDebugger(session)


def test_tiledebug_in_a_notebook(session: NotebookSession) -> None:
    printed = session.converse(
        "%tiledebug --break 11 --program 1 scale[(3,)](x, y, 12, B=4)",
        ["p v", "s", "n", "u", "p pid", "q"],
    )
    assert "> scale: program (1, 0, 0) of grid (3, 1, 1)" in printed
    assert "array([4., 5., 6., 7.], dtype=float32)" in printed
    assert "--> 11     w = half(v) * 4" in printed
    assert "----> 4     b = a / 2" in printed
    assert "np.int32(1)" in printed
    assert session.ask("y.sum().item()") == "132.0"


def test_a_breakpoint_in_the_gutter_stops_in_the_first_program(debugger: NotebookDebugger) -> None:
    assert [one["verified"] for one in debugger.run(CELL, {9: "", 11: ""})] == [True, True]
    frame, *_ = debugger.next_stop() or []
    assert (frame["name"], frame["line"]) == ("scale", 9)
    debugger.go_on()
    frame, *outer = debugger.next_stop() or []
    assert (frame["name"], frame["line"]) == ("scale", 11)
    assert "<module>" in [one["name"] for one in outer]
    own = debugger.variables(frame)
    assert set(own) - {"protected variables"} == {"x", "y", "n", "B", "pid", "i", "v"}
    rows = debugger.rows(frame)
    assert (rows["pid"], rows["n"]) == ("int32 = 0", "int32 = 12")
    assert (own["pid"], own["v"]) == ("np.int32(0)", "array([0., 1., 2., 3.], dtype=float32)")
    assert own["B"] == "4"
    assert own["x"].startswith("<x: float32[12]")
    assert debugger.value("float(v.sum())", frame) == "6.0"
    debugger.go_on("stepIn")
    frame, *_ = debugger.next_stop() or []
    assert frame["name"] == "half"
    debugger.go_on("stepOut")
    frame, *_ = debugger.next_stop() or []
    assert frame["name"] == "scale"
    debugger.go_on("next")
    frame, *_ = debugger.next_stop() or []
    assert (frame["name"], frame["line"]) == ("scale", 12)
    assert debugger.variables(frame)["w"] == "array([0., 2., 4., 6.], dtype=float32)"
    debugger.go_on()
    assert debugger.next_stop() is None, "no other program stops"
    assert DOUBLED in debugger.printed


def test_a_condition_chooses_among_all_programs(debugger: NotebookDebugger) -> None:
    debugger.run(CELL, {12: "pid == 2 and w.max() > 20"})
    frame, *_ = debugger.next_stop() or []
    assert debugger.variables(frame)["i"] == "array([ 8,  9, 10, 11], dtype=int32)"
    debugger.go_on()
    assert debugger.next_stop() is None
    assert DOUBLED in debugger.printed


def test_breakpoint_in_a_kernel_stops(debugger: NotebookDebugger) -> None:
    debugger.run(CELL.replace("    b = a / 2\n", "    b = a / 2; breakpoint()\n"), {})
    frame, caller, *_ = debugger.next_stop() or []
    assert (frame["name"], caller["name"]) == ("half", "scale")
    assert debugger.variables(frame)["b"] == "array([0. , 0.5, 1. , 1.5], dtype=float32)"
    debugger.go_on()
    assert debugger.next_stop() is None
    assert DOUBLED in debugger.printed


def test_a_fault_of_another_program_names_the_kernels_line(debugger, session) -> None:
    """The programs that the debugger does not see run as hidden code."""
    faulty = CELL.replace("tl.store(y + i, w, mask=i < n)", "tl.store(y + i + pid * 5, w)")
    outcome = session.run(faulty)
    assert outcome.error == "OutOfBounds"
    assert "y[12]" in outcome.message
    assert outcome.arrows[-1] == "12: tl.store(y + i + pid * 5, w)"
    assert "<frozen" not in outcome.traceback
