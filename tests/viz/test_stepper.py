"""The static stepper: HTML without a script that can be stepped through, text, a picture,
and the plain data behind them.
"""

import re
from io import BytesIO
from pathlib import Path

import matplotlib.image
import numpy
import pytest
import torch

import kernellab
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import TracedFault
from kernellab.tracing.values import summarize, thumbnail_of
from kernellab.viz.kit.palette import INFINITE, NAN, PALETTE, ZERO, codes_of, colored, png
from kernellab.viz.stepper import stepper_of
from tests.kernels.traced import filled, walking
from tests.support.pages import Page
from tests.support.trace_events import Events


def test_every_step_is_a_radio_button_and_its_neighbors_are_a_click_away(trace: Trace) -> None:
    page = Page(trace.show(7).html())
    buttons = page.all("input")
    assert len(buttons) == len(trace)
    assert len({button["name"] for button in buttons}) == 1
    assert [place for place, button in enumerate(buttons) if "checked" in button] == [7]
    places = {button["id"]: place for place, button in enumerate(buttons)}
    targets = [places[label["for"]] for label in page.all("label") if "for" in label]
    count = len(trace)
    assert targets == [
        1,
        *(n for here in range(1, count - 1) for n in (here - 1, here + 1)),
        count - 2,
    ]
    assert not page.all("script")
    assert "<form" in trace.show().html()  # what keeps one stepper's buttons from another's


def test_a_picture_is_in_the_page_once(trace: Trace) -> None:
    page = trace.show(7).html()
    sheet = page.partition("</style>")[0]
    rules = re.findall(
        r"\.(kl-stepper-\d+-\d+) \{background-image:url\(data:image/png;base64,(\S+)\)\}", sheet
    )
    assert len({content for _, content in rules}) == len(rules)
    names = {name for name, _ in rules}
    drawn = [one for one in Page(page).all("div") if one.get("role") == "img"]
    assert len(drawn) > 2 * len(rules)
    assert all((one["class"] or "").split()[1] in names for one in drawn)
    images = Page(page).all("img")  # the step that is shown first has images of its own
    assert [image["alt"] for image in images] == [
        f"picture of {name}" for name in ("x", "acc", "x_ptr", "z_ptr")
    ]


def test_two_steppers_of_a_page_share_no_button(trace: Trace) -> None:
    first, second = Page(trace.show().html()), Page(trace.show().html())
    names = [{button["id"] for button in page.all("input")} for page in (first, second)]
    assert not names[0] & names[1]


def test_html_text_and_data_say_the_same(trace: Trace) -> None:
    view = trace.show(7)
    page, text = Page(view.html()), view.text()
    for words in (
        "step 7 of 0 to 17",
        "total.py, line 4",
        "iteration 1 of for k in range(n)",
        "x = load(x_ptr + 8 * k)",
        "float32[8]",
        "8 .. 15",
        "n = 3",
        "load of x_ptr: elements 8 to 15 (8 of 8 tile elements)",
    ):
        assert words in page.words
        assert words in text
    assert "->    4 |         x = load(x_ptr + 8 * k)" in text
    assert re.search(r"\*  x    float32\[8\]  8 .. 15", text)
    assert [variable.name for variable in view.states[7].variables if variable.changed] == ["x"]


def test_arguments_show_the_elements_that_a_step_touches(trace: Trace) -> None:
    load, store = (trace.show(n).states[n] for n in (7, 17))
    (x, z), after = load.arguments, store.arguments[1]
    assert x.touched == {"load": tuple(range(8, 16))}
    assert z.touched == {}
    assert after.touched == {"store": tuple(range(7))}
    assert (z.value, after.value) == ("0", "0 .. 148")


def test_a_long_trace_shows_a_window_and_says_what_is_left_out(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.x = events.x.repeat(100)
    events.run(turns=200)
    trace = events.trace()
    view = stepper_of(trace, 500)
    assert [state.number for state in view.states] == list(range(480, 520))
    note = "Showing steps 480 to 519 of 1,003. trace.show(step=N) shows the steps around step N."
    assert note in view.text()
    page = Page(view.html())
    assert note in page.words
    assert len(page.all("input")) == 40
    assert len(view.html()) < 200_000
    for focus, first in ((0, 0), (1002, 963)):
        assert stepper_of(trace, focus).states[0].number == first


def test_foreign_text_is_escaped(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    events = Events(tmp_path)
    Path(events.file).write_text(f"def total(x):\n    y = x  # {evil}\n")
    events.recorder.turn_of((0, 0, 0))
    events.recorder.enter(evil, events.file, 1, {"x": evil})
    events.recorder.line(2)
    events.recorder.bound({evil: numpy.arange(4)})
    trace = events.trace(TracedFault("Fault", f"failed: {evil}", None, 0), notices=[evil])
    page = trace.show().html()
    assert "<img src=x" not in page
    parsed = Page(page)
    assert parsed.words.count(evil) >= 5
    assert all(
        (image["src"] or "").startswith("data:image/png;base64,") for image in parsed.all("img")
    )
    assert trace.show().png()[:4] == b"\x89PNG"


def test_the_fault_is_what_is_shown_first(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.run()
    trace = events.trace(TracedFault("OutOfBounds", "load out of bounds: x_ptr[24]", None, 12))
    view = trace.show()
    assert "step 12 of 0 to 17 (the fault)" in view.text()
    assert (
        "stopped by a fault: OutOfBounds: load out of bounds: x_ptr[24]" in Page(view.html()).words
    )


def test_the_picture_is_a_png_of_the_step(trace: Trace) -> None:
    picture = matplotlib.image.imread(BytesIO(trace.show(7).png()))
    height, width, _ = picture.shape
    assert (width, height > 300) == (1100, True)
    orange = (abs(picture[..., :3] - numpy.array([255, 127, 14]) / 255).max(axis=-1) < 0.25).sum()
    assert orange > 100  # the elements that the step loads


def test_nothing_to_show(tmp_path: Path) -> None:
    view = Events(tmp_path).trace().show()
    assert "There are no steps" in Page(view.html()).words
    assert "there are no steps" in view.text()
    assert view.png()[:4] == b"\x89PNG"


def test_a_tile_of_one_element_has_no_picture(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.recorder.turn_of((0, 0, 0))
    events.recorder.enter("total", events.file, 1, {})
    events.recorder.line(2)
    events.recorder.bound({"one": numpy.ones((1, 1), numpy.float32), "none": numpy.zeros(0)})
    one, none = events.trace().show().states[0].variables
    assert (one.type, one.value, one.picture) == ("float32[1, 1]", "1", None)
    assert (none.type, none.value, none.picture) == ("float64[0]", "empty", None)


def test_a_step_of_a_helper_shows_the_helper(trace: Trace) -> None:
    text = trace.show(3).text()
    assert "double, total.py, line 9 · called from total.py, line 5" in text
    assert "->    9 |     w = v + v" in text
    assert re.search(r"\*  w  float32\[8\]  0 \.\. 14", text)
    assert "acc" not in text


def test_a_pointer_that_the_kernel_moves_is_a_variable() -> None:
    trace = kernellab.trace(walking, (2,), torch.rand(64), torch.zeros(64), BLOCK=32, programs=1)
    first, second = trace.show().states[:2]
    (moved,) = first.variables
    assert (moved.name, moved.value, moved.changed) == ("x_ptr", "x_ptr + 32", True)
    assert ("x_ptr", "x_ptr + 32") in second.constants
    assert "z_ptr" not in [name for name, _ in second.constants]


@pytest.mark.parametrize("shape", [(120, 50), (600, 500)])
def test_tensors_of_a_still_are_what_they_are_after_each_step(shape: tuple[int, int]) -> None:
    """The first step that is shown comes after a program that was not traced; a tensor with more
    elements than a widget draws is followed too."""
    x, z = torch.rand(shape), torch.zeros(shape)
    trace = kernellab.trace(filled, (4,), x, z, x.numel(), BLOCK=512, programs=[1, 3])
    begin = next(step.number for step in trace if step.program == (3, 0, 0))
    for first in (0, begin):
        states = stepper_of(trace, first + 4, most_steps=8).states
        assert [state.number for state in states] == list(range(first, first + 8))
        for state in states:
            known, shown = trace.memory("z_ptr", state.number), state.arguments[1]
            assert shown.value == summarize(known).range_text
            expected = codes_of(thumbnail_of(known, 48)).reshape(-1)
            assert shown.picture is not None
            drawn = numpy.frombuffer(shown.picture.codes, numpy.uint8)
            numpy.testing.assert_allclose(drawn.astype(int), expected.astype(int), atol=1)


# Pictures


def test_codes_scale_and_odd_numbers_stand_out() -> None:
    numbers = numpy.array([[0.0, 5.0, 10.0], [numpy.nan, numpy.inf, -numpy.inf]])
    assert codes_of(numbers - 5).tolist() == [[0, ZERO, 249], [NAN, INFINITE, INFINITE]]
    assert codes_of(numpy.full((2, 2), 7.0)).tolist() == [[124, 124], [124, 124]]


def test_a_png_holds_the_colors() -> None:
    codes = numpy.arange(256, dtype=numpy.uint8).reshape(8, 32)
    picture = matplotlib.image.imread(BytesIO(png(colored(codes))))
    numpy.testing.assert_array_equal(numpy.rint(picture * 255).reshape(-1, 3), PALETTE)
