"""`%tilestep`: the stepper below the cell, options, faults, Ctrl-C, help."""

import re

import pytest

from tests.support.pages import Page

KERNELS = """\
%%tilekernel --no-compile
@triton.jit
def halved(x):
    half = x / 2
    return half

@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = halved(x)  # <b>half</b> & half
    tl.store(y_ptr + offsets, y, mask=offsets < n)

@triton.jit
def spin(x_ptr, y_ptr):
    j = 0
    while j < 1 << 30:
        j += 1
        tl.store(y_ptr, j)
"""


CELLS = (
    "%load_ext kernellab",
    "import numpy as np, torch, triton, triton.language as tl\n"
    "x = torch.arange(64.0); y = torch.zeros(64)",
    KERNELS,
)


@pytest.mark.slow
def test_the_stepper_is_what_the_cell_gives(lab) -> None:
    outcome = lab.run("%tilestep --program 1 scale[(4,)](x, y, 60, BLOCK=16)")
    page = Page(outcome.still["text/html"])
    assert "# <b>half</b> & half" in page.words
    assert "Cell In[3], line 9" in page.words
    text = outcome.still["text/plain"]
    assert text.startswith(
        "scale  6 steps of program (1, 0, 0), grid (4, 1, 1), run on the CPU, emulating "
    )
    assert "->    9 |     offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)" in text
    lab.run("t = %tilestep --program 1 scale[(4,)](x, y, 60, BLOCK=16)")
    later = lab.run("t.show(1)").still["text/plain"]
    assert re.search(r"\*  x +float32\[16\] +16 .. 31", later)
    assert lab.ask("y.any().item()") == "False"


def test_what_is_expected_opens_it_where_the_wrong_element_was_written(lab, messages) -> None:
    outcome = lab.run("%tilestep --expect torch.clone scale[(4,)](x, y, 60, BLOCK=16)")
    assert outcome.still["text/plain"].splitlines()[1] == messages


def test_the_trace_can_be_kept_and_asked(lab) -> None:
    outcome = lab.run("t = %tilestep --program 3 --program 1 scale[(4,)](x, y, 60, BLOCK=16)")
    assert outcome.result is None
    assert lab.ask("t") == "Trace('scale', grid 4x1x1: 12 steps of 2 programs)"
    assert lab.ask("t.facts.programs") == "((1, 0, 0), (3, 0, 0))"
    assert lab.ask("t.at(-1).y[-1], t.find(lambda v: (v.x > 40).any()).number") == (
        "(np.float32(31.5), 7)"
    )
    shown = lab.run("t.show(8)").still["text/plain"]
    assert "step 8 (steps 0 to 11)" in shown
    assert "called from Cell In[3], line 11" in shown
    listed = lab.run("[t]")
    assert listed.result is not None
    assert listed.result["text/plain"] == f"[{lab.ask('t')}]"


def test_options_and_in_place(lab) -> None:
    lab.run(
        "y.zero_()\n"
        "t = %tilestep --all --operations --exact-bytes 16 --in-place scale[(4,)](x, "
        "y, 60, BLOCK=16)"
    )
    assert lab.ask("t.facts.operations, len(t.facts.programs), t.facts.largest_exact") == (
        "(True, 4, 16)"
    )
    assert lab.ask("torch.equal(y[:60], x[:60] / 2), y[60:].any().item()") == "(True, False)"


def test_operations_in_flight_of_a_gluon_kernel(lab) -> None:
    lab.run(
        "from tests.kernels.asynchronous import launched\ncopies, (u, v), _ = launched('copies')"
    )
    lab.run("t = %tilestep --late copies[(1,)](u, v, 5)")
    shown = lab.run("t.show(t.asynchronous[0].issued)").still["text/html"]
    assert "commit group 0" in Page(shown).words
    assert lab.ask("len(t.asynchronous), v.any().item()") == "(5, False)"


def test_a_tile_of_many_elements_is_stored(lab) -> None:
    lab.run("u = torch.arange(65536.0); v = torch.zeros(65536)")
    outcome = lab.run("%tilestep scale[(1,)](u, v, 65000, BLOCK=65536)")
    assert "int32[65536]" in outcome.still["text/plain"]
    lab.run("t = %tilestep scale[(1,)](u, v, 65000, BLOCK=65536)")
    shown = lab.run("t.show(5)").still
    assert "store of y_ptr: elements 0 to 64999" in shown["text/plain"]
    assert "0 .. 32499.5" in Page(shown["text/html"]).words
    assert lab.ask("torch.equal(torch.from_numpy(t.memory('y_ptr'))[:65000], u[:65000] / 2)") == (
        "True"
    )


def test_a_fault_is_shown_and_does_not_fail_the_cell(lab) -> None:
    outcome = lab.run("%tilestep --program 3 scale[(4,)](x, y[:40].clone(), 60, BLOCK=16)")
    assert "stopped by a fault" in outcome.still["text/plain"]
    assert "store out of bounds: y_ptr[40]" in outcome.still["text/plain"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("--program 4 scale[(4,)](x, y, 60, BLOCK=16)", "OptionError"),
        ("--program one scale[(4,)](x, y, 60, BLOCK=16)", "OptionError"),
        ("scale(x, y)", "OptionError"),
        ("", "OptionError"),
        ("--programs 1 scale[(4,)](x)", "OptionError"),
        ("missing[(1,)](x)", "OptionError"),
        ("--late scale[(4,)](x, y, 60, BLOCK=16)", "OptionError"),
    ],
)
def test_a_line_that_is_wrong(lab, line, error, messages) -> None:
    outcome = lab.run(f"%tilestep {line}")
    assert outcome.error == error
    assert outcome.message == messages


@pytest.mark.parametrize("magic", ["tilestep", "tilecheck", "tiledebug"])
def test_names_that_nothing_has(lab, magic, messages) -> None:
    outcome = lab.run(f"%{magic} scal[(4,)](x, y, 60, BLOCK=16)")
    assert outcome.error == "OptionError"
    assert "scal" in outcome.message
    assert outcome.message == messages
    assert "launch_line.py" not in "".join(outcome.traceback)
    outcome = lab.run(f"%{magic} scale[lambda meta: (meta['BLOCK'],)](x, nowhere, 60, BLOCK=16)")
    assert "nowhere" in outcome.message
    assert outcome.message == messages


@pytest.mark.slow
def test_ctrl_c_leaves_tensors_and_the_notebook_as_they_were(lab) -> None:
    lab.run("y.zero_(); print('ready')")
    outcome = lab.run(
        "print('go', flush=True)\nt = %tilestep --in-place spin[(1,)](x, y)", interrupt_after="go"
    )
    assert outcome.error == "KeyboardInterrupt"
    assert outcome.seconds < 5
    assert lab.ask("y.any().item()") == "False"
    again = lab.run("%tilestep scale[(4,)](x, y, 60, BLOCK=16)")
    assert again.status == "ok"


def test_help_explains_the_options(lab) -> None:
    text = lab.help("%tilestep")
    for words in ("Trace a launch", "--program X,Y,Z", "--operations", "--exact-bytes N", "t.diff"):
        assert words in text
