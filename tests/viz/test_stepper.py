"""The still of the stepper: one step as a card, as HTML without a script and as text."""

import re
from pathlib import Path

import numpy
import pytest
import torch

import kernellab
from kernellab.tracing.steps import TracedFault
from kernellab.tracing.values import summarize
from tests.kernels.traced import filled, walking
from tests.support.pages import Page
from tests.support.trace_events import Events


def row(text: str, *cells: str) -> bool:
    """Whether a line of a text has these cells beside each other."""
    return re.search(r"^ *" + " +".join(map(re.escape, cells)) + "$", text, re.M) is not None


def test_html_and_text_say_the_same(trace) -> None:
    view = trace.show(7)
    page, text = Page(view.still_html()), view.text()
    for words in (
        "step 7 (steps 0 to 17)", "total.py, line 4", "iteration 1 of for k in range(n)",
        "x = load(x_ptr + 8 * k)", "float32[8]", "8 .. 15", "n = 3",
        "load of x_ptr: elements 8 to 15 (8 of 8 tile elements)",
    ):  # fmt: skip
        assert words in page.words.replace("\N{NO-BREAK SPACE}", " ")
        assert words in text
    assert not page.all("script")
    assert "->    4 |         x = load(x_ptr + 8 * k)" in text
    assert row(text, "*", "x", "float32[8]", "8 .. 15")
    assert not re.search(r"^ +\* +acc", text, re.M)  # this step does not change it


def test_a_tensor_is_as_it_is_after_the_step(trace) -> None:
    assert row(trace.show(7).text(), "z_ptr", "float32[8]", "0")
    assert row(trace.show(17).text(), "z_ptr", "float32[8]", "0 .. 148")


def test_foreign_text_is_escaped(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    events = Events(tmp_path)
    Path(events.file).write_text(f"def total(x):\n    y = x  # {evil}\n")
    events.recorder.turn_of((0, 0, 0))
    events.recorder.enter(evil, events.file, 1, {"x": evil})
    events.recorder.line(2)
    events.recorder.bound({evil: numpy.arange(4)})
    trace = events.trace(TracedFault("Fault", f"failed: {evil}", None, 0), notices=[evil])
    page = trace.show().still_html()
    assert "<img" not in page
    assert Page(page).words.count(evil) >= 5


def test_the_fault_is_what_is_shown_first(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.run()
    fault = TracedFault("OutOfBounds", "load out of bounds: x_ptr[24]", None, 12)
    view = events.trace(fault).show()
    assert "step 12, the fault (steps 0 to 17)" in view.text()
    for words in (view.text(), Page(view.still_html()).words):
        assert re.search(
            r"stopped by a fault\s+OutOfBounds: load out of bounds: x_ptr\[24\]", words
        )


def test_nothing_to_show(tmp_path: Path) -> None:
    view = Events(tmp_path).trace().show()
    assert "There are no steps" in Page(view.still_html()).words
    assert "There are no steps" in view.text()


def test_tiles_of_one_element_and_of_none(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.recorder.turn_of((0, 0, 0))
    events.recorder.enter("total", events.file, 1, {})
    events.recorder.line(2)
    events.recorder.bound({"one": numpy.ones((1, 1), numpy.float32), "none": numpy.zeros(0)})
    text = events.trace().show().text()
    assert row(text, "*", "one", "float32[1, 1]", "1")
    assert row(text, "*", "none", "float64[0]", "empty")


def test_a_step_of_a_helper_shows_the_helper(trace) -> None:
    text = trace.show(3).text()
    assert "double, total.py, line 9 · called from total.py, line 5" in text
    assert "->    9 |     w = v + v" in text
    assert row(text, "*", "w", "float32[8]", "0 .. 14")
    assert "acc" not in text


def test_a_pointer_that_the_kernel_moves_is_a_variable() -> None:
    trace = kernellab.trace(walking, (2,), torch.rand(64), torch.zeros(64), BLOCK=32, programs=1)
    first, second = (trace.show(number).text() for number in (0, 1))
    assert re.search(r"^ +\* +x_ptr .* x_ptr \+ 32$", first, re.M)
    assert "x_ptr = x_ptr + 32" in second
    assert "z_ptr = " not in second


@pytest.mark.parametrize("shape", [(120, 50), (600, 500)])
def test_tensors_after_steps_that_follow_a_program_that_was_not_traced(shape) -> None:
    x, z = torch.rand(shape), torch.zeros(shape)
    trace = kernellab.trace(filled, (4,), x, z, x.numel(), BLOCK=512, programs=[1, 3])
    begin = next(step.number for step in trace if step.program == (3, 0, 0))
    for number in (0, begin, len(trace) - 1):
        kind = f"float32[{shape[0]}, {shape[1]}]"
        held = summarize(trace.memory("z_ptr", number)).range_text
        assert row(trace.show(number).text(), "z_ptr", kind, held)
