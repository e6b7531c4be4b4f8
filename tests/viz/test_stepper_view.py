"""The live stepper: its data against the trace, and an exported page in Chromium."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from playwright.sync_api import Page, expect

import kernellab
from kernellab.tracing.differences import last_writers
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import TracedFault
from kernellab.tracing.values import thumbnail_of
from kernellab.viz.kit.data import answer, as_json, packed
from kernellab.viz.stepper import step_handlers
from kernellab.viz.stepper_data import ElementsData, SmallTensor, StepperView
from kernellab.viz.stepper_steps import lightened, lightened_steps, step_view
from tests.kernels.asynchronous import TILES, launched
from tests.kernels.basic import matmul
from tests.kernels.traced import beyond, counted, filled
from tests.support.trace_events import Events
from tests.viz.browser import OpenPage, box_of


def elements(view: StepperView, found: ElementsData, shape: tuple[int, ...]) -> numpy.ndarray:
    dtype = numpy.dtype("uint8" if found.dtype == "bool" else found.dtype)
    count = int(numpy.prod(shape))
    return numpy.frombuffer(view.numbers, dtype, count, found.at).reshape(shape)


def places(view: StepperView, number: int) -> list[int]:
    found = view.places[number]
    runs = numpy.frombuffer(view.numbers, numpy.int32, 2 * found.runs, found.at).reshape(-1, 2)
    return [place for first, count in runs.tolist() for place in range(first, first + count)]


def test_every_value_and_all_memory_are_there_exactly(trace: Trace) -> None:
    view = trace.show().data
    memory = {one.name: elements(view, one.elements, one.shape).copy() for one in view.arguments}
    for number, step in enumerate(view.steps):
        for name, value in step.changed.items():
            known, shown = trace.at(number)[name], view.values[value]
            if shown.elements is not None:
                numpy.testing.assert_array_equal(elements(view, shown.elements, shown.shape), known)
        for write in step.writes:
            argument = view.arguments[write.argument]
            where = places(view, write.places)
            written = numpy.frombuffer(view.numbers, numpy.float32, len(where), write.at)
            memory[argument.name].reshape(-1)[where] = written
        for name, contents in memory.items():
            numpy.testing.assert_array_equal(contents, trace.memory(name, number))
    (load,) = view.steps[7].accesses
    assert load.places is not None
    assert (load.operation, places(view, load.places)) == ("load", list(range(8, 16)))
    assert json.loads(json.dumps(as_json(view)))["steps"][7]["line"] == 4


def test_a_window_begins_with_what_was_there_before(tmp_path, messages) -> None:
    events = Events(tmp_path)
    events.x = events.x.repeat(100)
    events.run(turns=200)
    trace = events.trace()
    view = step_view(trace, 990, most_steps=20)
    assert (view.first, len(view.steps), view.step_count) == (980, 20, 1003)
    before = {
        name: value.text() for name, value in trace.variables_at(trace[980].frame, 979).items()
    }
    frame = view.frames[view.steps[0].frame]
    assert {name: view.values[number].words for name, number in frame.given.items()} == {
        name: words for name, words in before.items() if name not in ("x_ptr", "z_ptr")
    }
    assert view.notes[0] == messages


def test_a_widget_gets_small_pictures_of_what_is_large(tmp_path: Path) -> None:
    random = numpy.random.default_rng(0)
    events = Events(tmp_path, largest=1 << 20)
    tell = events.recorder
    tell.turn_of((0, 0, 0))
    tell.enter("total", events.file, 1, {})
    for _ in range(40):
        tell.line(2)
        small, large = (random.random(shape, numpy.float32) for shape in ((8,), (128, 128)))
        tell.bound({"small": small, "large": large})
    view = events.trace().show().data
    assert len(packed(view)) > 2_000_000
    sent = lightened(view, 300_000)
    assert len(sent) <= 300_000
    light = lightened_steps(view, 200_000)
    assert "small pictures" in light.notes[-1]
    for old, new in zip(view.values, light.values):
        assert old.elements is not None
        assert new.elements is not None
        if old.shape == (8,):
            numpy.testing.assert_array_equal(
                elements(light, new.elements, (8,)), elements(view, old.elements, (8,))
            )
    last = view.values[-1]
    assert last.elements is not None
    blocks = elements(view, last.elements, (32, 4, 32, 4)).mean(axis=(1, 3))
    picture: Any = light.values[-1].elements
    assert picture.averaged
    numpy.testing.assert_allclose(elements(light, picture, (32, 32)), blocks, rtol=1e-6)


def test_a_tensor_without_dimensions_is_followed_too() -> None:
    total = torch.zeros((), dtype=torch.int32)
    trace = kernellab.trace(counted, (3,), total, programs="all")
    assert int(trace.memory("total_ptr")) == 3
    assert [int(trace.memory("total_ptr", step)) for step in (0, 1)] == [1, 2]
    assert "total_ptr" in trace.show().still_html()
    assert (last_writers(trace, "total_ptr") == len(trace) - 1).all()


@pytest.mark.parametrize("shape", [(100, 70), (70_001,), (3, 50, 90), (64, 64), (1, 5000)])
def test_a_small_picture_follows_what_is_written(shape: tuple[int, ...]) -> None:
    random = numpy.random.default_rng(0)
    contents = random.random(shape, numpy.float32)
    small = SmallTensor(contents)
    picture = small.picture.copy().reshape(-1)
    flat = contents.reshape(-1)
    for count in (1, 7, 500, 3):
        numbers = numpy.unique(numpy.append(random.integers(0, flat.size, count), flat.size - 1))
        written = random.random(numbers.size, numpy.float32)
        written[0] = numpy.nan if count == 7 else written[0]
        cells, means = small.write(numbers, written)
        flat[numbers], picture[cells] = written, means
        expected = thumbnail_of(contents, 64)
        numpy.testing.assert_allclose(picture.reshape(expected.shape), expected, rtol=1e-6)
        assert set(small.cells.of(numbers).tolist()) <= set(cells.tolist())
    # The cell of an element is the one whose mean it changes.
    contents[numpy.isnan(contents)] = 0
    before = thumbnail_of(contents, 64).reshape(-1)
    flat[flat.size // 3] += 100
    (changed,) = numpy.flatnonzero(thumbnail_of(contents, 64).reshape(-1) != before)
    assert small.cells.of(numpy.array([flat.size // 3])).tolist() == [changed]


def pictures_by_step(view: StepperView, name: str) -> Iterator[numpy.ndarray]:
    """What the browser makes of the picture of a tensor, step by step."""
    (number,) = (n for n, one in enumerate(view.arguments) if one.name == name)
    found: Any = view.arguments[number].elements
    shape = (found.rows, found.columns) if found.averaged else view.arguments[number].shape
    shown = elements(view, found, shape).copy()
    for step in view.steps:
        for write in step.writes:
            if write.argument == number:
                where = places(view, write.places)
                shown.reshape(-1)[where] = numpy.frombuffer(
                    view.numbers, shown.dtype, len(where), write.at
                )
        yield shown


@pytest.fixture(scope="module")
def large() -> Trace:
    """Two of four programs that fill a tensor with more elements than are drawn."""
    x, z = torch.rand(600, 500), torch.zeros(600, 500)
    return kernellab.trace(filled, (4,), x, z, x.numel(), BLOCK=4096, programs=[1, 3])


def test_the_picture_of_a_large_tensor_follows_the_steps(large: Trace) -> None:
    view = large.show().data
    assert all("262,144" in one.left_out for one in view.arguments)
    for number, picture in enumerate(pictures_by_step(view, "z_ptr")):
        expected = thumbnail_of(large.memory("z_ptr", number), 64)
        numpy.testing.assert_allclose(picture, expected, rtol=1e-6)
    assert picture.any()
    last = max(n for n, step in enumerate(view.steps) if step.writes)
    (store,) = (one for one in view.steps[last].accesses if one.operation == "store")
    assert store.places is not None
    known = large.memory("z_ptr") * 0
    for numbers, _ in large[last].writes_to(large.arguments["z_ptr"], large.arguments):
        known.reshape(-1)[numbers] = 1
    touched = numpy.flatnonzero(thumbnail_of(known, 64)).tolist()
    assert places(view, store.places) == touched


def asked_for(view: StepperView, kind: str, number: int) -> tuple[bytes, Any]:
    """What a live stepper is sent: bytes, and what says where in them."""
    found: Any = answer(step_handlers(view), {"kind": kind, kind: number})
    (sent,) = found.buffers
    return sent, found.content["elements" if kind == "value" else kind]


def test_what_a_widget_leaves_out_follows_the_steps_and_is_sent_when_asked() -> None:
    x, z = torch.rand(300, 200), torch.zeros(300, 200)
    trace = kernellab.trace(filled, (4,), x, z, x.numel(), BLOCK=4096, programs=[1, 3])
    view = trace.show().data
    light = lightened_steps(view, 100_000)
    assert [one.in_kernel for one in light.arguments] == [True, True]
    for number, picture in enumerate(pictures_by_step(light, "z_ptr")):
        expected = thumbnail_of(trace.memory("z_ptr", number), 64)
        numpy.testing.assert_allclose(picture, expected, rtol=1e-6)
    sent, part = asked_for(view, "tensor", 1)
    memory = numpy.frombuffer(sent, numpy.float32, z.numel(), part["elements"]["at"]).copy()
    for number in range(len(trace)):
        for write in part["steps"].get(str(number), {"writes": ()})["writes"]:
            found = part["places"][write["places"]]
            runs = numpy.frombuffer(sent, numpy.int32, 2 * found["runs"], found["at"]).reshape(
                -1, 2
            )
            where = numpy.concatenate([numpy.arange(first, first + count) for first, count in runs])
            memory[where] = numpy.frombuffer(sent, numpy.float32, where.size, write["at"])
        numpy.testing.assert_array_equal(memory.reshape(300, 200), trace.memory("z_ptr", number))


def test_requests_that_cannot_be_answered_say_why(large, messages) -> None:
    view = large.show().data
    refused: Any = answer(step_handlers(view), {"kind": "tensor", "tensor": 0})
    assert "262,144" in refused.content["problem"]
    for asked in ({"value": 10**6}, {"value": None}, {}):
        refused = answer(step_handlers(view), {"kind": "value", **asked})
        assert refused.content["problem"] == messages


def step_to(page: Page, number: int) -> None:
    page.get_by_label("Go to step").fill(str(number))
    page.get_by_label("Go to step").press("Enter")
    expect(page.get_by_label("Number of the step")).to_have_value(str(number))


def words_of(page: Page, name: str) -> str:
    return page.locator(f'.kl-vars tr[data-name="{name}"] .kl-value-words').inner_text()


@pytest.mark.slow
def test_a_page_steps_both_ways_and_says_exact_values(open_page: OpenPage, trace: Trace) -> None:
    page = open_page(trace.show(7))
    root = page.locator(".kl-root[data-ready]")
    current = page.locator(".kl-source-line[aria-current]")
    expect(current).to_contain_text("x = load(x_ptr + 8 * k)")
    assert words_of(page, "x") == "8 .. 15"
    page.locator('.kl-vars tr[data-name="x"] canvas').press("ArrowRight")
    page.locator('.kl-vars tr[data-name="x"] canvas').press("ArrowRight")
    expect(page.locator(".kl-status")).to_have_text("x[1] = 9")
    root.press("ArrowRight")
    expect(current).to_contain_text("w = v + v")
    expect(page.locator(".kl-where")).to_contain_text("called from total.py, line 5")
    root.press("ArrowLeft")
    root.press("ArrowLeft")
    expect(current).to_contain_text("for k in range(n)")
    assert words_of(page, "x") == "0 .. 7"
    root.press("End")
    z = page.locator('figure[data-name="z_ptr"]')
    final = trace.memory("z_ptr")
    expect(z).to_contain_text(f"0 .. {final.max():g}")
    z.locator("canvas").press("ArrowRight")
    expect(page.locator(".kl-status")).to_have_text(
        f"z_ptr[0] = {final[0]:g} · read never, written once so far"
    )
    root.press("Home")
    expect(z.locator("figcaption")).to_have_text("z_ptr float32[8]0")
    for step in trace:
        expect(current.locator(".kl-stop")).to_have_text(str(step.line))
        root.press("ArrowRight")
    ends = [step.number for step in trace if any(iteration.is_over for iteration in step.turns)]
    step_to(page, ends[-1])
    expect(page.locator(".kl-where")).to_contain_text("for k in range(n): over after 3 iterations")
    for asked, given in (("9999", len(trace) - 1), ("9999", len(trace) - 1), ("-3", 0)):
        page.get_by_label("Go to step").fill(asked)
        page.get_by_label("Go to step").press("Enter")
        expect(page.get_by_label("Go to step")).to_have_value(str(given))


@pytest.mark.slow
def test_searches_breakpoints_and_the_watch_list(open_page: OpenPage, trace: Trace) -> None:
    page = open_page(trace.show(), dark=True)
    root, number = page.locator(".kl-root[data-ready]"), page.get_by_label("Go to step")
    page.get_by_label("Variable", exact=True).select_option("acc")
    changes = [one.number for one in trace if "acc" in one.changed_numbers and one.number]
    for change in changes:
        root.press("n")
        expect(number).to_have_value(str(change))
    root.press("n")
    expect(page.locator(".kl-status")).to_have_text("No later step changes acc.")
    page.get_by_label("Tensor", exact=True).select_option("z_ptr")
    root.press("]")
    expect(number).to_have_value("17")
    page.get_by_label("Breakpoint at line 1", exact=True).click()
    expect(page.locator(".kl-status")).to_contain_text("No step here runs line 1")
    page.get_by_label("Breakpoint at line 4").click()
    root.press("R")
    loads = [one.number for one in trace if one.line == 4]
    expect(number).to_have_value(str(loads[-1]))
    page.locator(".kl-source-line code", has_text="acc = double").click()
    expect(number).to_have_value(str(changes[-1]))
    lines = page.get_by_role("grid", name="Lines")
    lines.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowUp"):  # from line 5 to line 2
        lines.press(key)
    expect(page.locator(".kl-cursor")).to_contain_text("acc = 0")
    expect(number).to_have_value(str(changes[-1]))
    lines.press("Shift+Enter")
    expect(number).to_have_value("0")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        lines.press(key)
    expect(number).to_have_value(str(loads[0]))
    page.get_by_label("Watch a variable").fill("acc[3]")
    page.get_by_label("Watch a variable").press("Enter")
    watched = page.locator('[data-watch="acc[3]"]')
    for step in (changes[0], changes[1], changes[1] + 3):
        step_to(page, step)
        state = trace.at(step)
        scope: Any = state if "acc" in state else state.caller
        expect(watched.locator("span")).to_have_text(f"{scope['acc'][3]:g}")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 400])
def test_a_fault_is_all_in_sight_and_its_program_is_shown(open_page: OpenPage, width: int) -> None:
    """No one chose program 2, which stores outside: the view shows its line and whole message."""
    trace = kernellab.trace(beyond, (4,), torch.zeros(64), torch.zeros(40), BLOCK=16, programs=0)
    page = open_page(trace.show(), width=width, height=1300)
    fault = page.locator(".kl-fault")
    expect(fault).to_contain_text("tl.store(y_ptr + offsets, doubled)")
    expect(fault).to_contain_text("Nothing limits this index")
    heights = fault.evaluate("one => [one.scrollHeight, one.clientHeight]")
    assert heights[0] == heights[1]
    expect(page.locator(".kl-where")).to_contain_text("the fault")
    line = page.locator('.kl-source-line[aria-current="step"]')
    expect(line).to_contain_text("tl.store(y_ptr + offsets, doubled)")
    expect(line).to_be_in_viewport()
    expect(page.locator(".kl-programs")).to_contain_text("(2, 0, 0) of 4")
    page.get_by_label("Watch a variable").fill("nope")
    page.get_by_label("Watch a variable").press("Enter")
    expect(page.locator(".kl-status")).to_have_text(
        "No variable is called nope. There are: BLOCK, offsets, x, doubled."
    )
    expect(page.locator("[data-watch]")).to_have_count(0)


_LIVE = """async (data) => {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const packed = bytes(document.getElementById("kernellab-bundle").textContent);
  const script = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const views = (await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })))).default;
  document.querySelectorAll(".kernellab-view").forEach((one) => one.remove());
  const listeners = new Set();
  const model = {
    get: (name) => (name === "data" ? new DataView(bytes(data).buffer) : undefined), on: (_, one) => listeners.add(one), off: (_, one) => listeners.delete(one),
    send: async (asked) => {
      const { answer, buffers } = await askKernel(asked);
      for (const one of [...listeners]) one(answer, buffers.map((text) => new DataView(bytes(text).buffer)));
    },
  };
  const el = document.body.appendChild(document.createElement("div"));
  await views.render({ model, el }, null);
}"""
"""Draws a widget whose other end is the function `askKernel`."""


@pytest.mark.slow
@pytest.mark.parametrize("has_kernel", [True, False], ids=["live", "the kernel is gone"])
def test_a_widget_asks_its_kernel_for_what_was_left_out(open_page, has_kernel: bool) -> None:
    x, z = torch.rand(300, 200), torch.zeros(300, 200)
    trace = kernellab.trace(filled, (4,), x, z, x.numel(), BLOCK=4096, programs=[1])
    view = trace.show().data
    sent = packed(lightened_steps(view, 12_000))
    kinds: list[str] = []

    def ask(asked: dict[str, int]) -> dict[str, object]:
        kinds.append(str(asked["kind"]))
        found = answer(step_handlers(view), asked)
        if found is None or not has_kernel:
            return {"answer": {**asked, "problem": "it is gone"}, "buffers": []}
        return {
            "answer": {**asked, **found.content},
            "buffers": [base64.b64encode(one).decode() for one in found.buffers],
        }

    page = open_page(trace.show())
    page.wait_for_selector("[data-ready]")
    page.expose_function("askKernel", ask)
    page.evaluate(_LIVE, base64.b64encode(sent).decode())
    status = page.locator(".kl-status")
    step_to(page, 5)
    tile = page.locator('.kl-vars tr[data-name="z"] canvas')
    figure = page.locator('figure[data-name="z_ptr"]')
    if has_kernel:
        page.wait_for_function("document.querySelector('tr[data-name=z] canvas')?.width === 64")
        tile.press("ArrowRight")
        exact = trace.at(5)["z"]
        assert float(status.inner_text().removeprefix("z[0] = ")) == pytest.approx(exact[0])
        figure.locator("canvas").focus()
        expect(figure.locator("canvas")).to_have_attribute("height", "300")
        for step in (5, 9, 13, 5):
            step_to(page, step)
            flat = int(numpy.flatnonzero(trace.memory("z_ptr", 13))[-1])
            known = trace.memory("z_ptr", step).reshape(-1)
            row, column = divmod(flat, 200)
            canvas = figure.locator("canvas")
            box = box_of(canvas)
            # Waits until the picture stands still.
            canvas.hover(
                position={
                    "x": (column + 0.5) * box["width"] / 200,
                    "y": (row + 0.5) * box["height"] / 300,
                }
            )
            expect(status).to_contain_text(f"z_ptr[{row}, {column}] = {known[flat]:.4g}"[:-1])
        assert kinds.count("tensor") == 1
    else:
        expect(page.locator('.kl-vars tr[data-name="z"]')).to_contain_text("not here")
        figure.locator("canvas").press("ArrowRight")
        mean = thumbnail_of(trace.memory("z_ptr", 5), 64)[0, 0]
        expect(status).to_contain_text(f"z_ptr[0:4, 0:3]: {mean:.4g}"[:-1])
        figure.locator("canvas").press("ArrowRight")
        expect(status).to_contain_text("did not send it (it is gone): run the cell again")
        expect(status).to_contain_text('trace.memory("z_ptr", 5) has every element')


@pytest.fixture(scope="module")
def products() -> Trace:
    """Four programs of a matmul, each with four turns of its loop."""
    return kernellab.trace(
        matmul, (2, 2), *(torch.ones(64, 64) for _ in range(3)), 64, 64, 64,
        *(64, 1, 64, 1, 64, 1), BLOCK_M=32, BLOCK_N=32, BLOCK_K=16, programs="all",
    )  # fmt: skip


@pytest.mark.slow
def test_steps_play_and_programs_play_together(open_page: OpenPage, products: Trace) -> None:
    page = open_page(products.show(0))
    root, number = page.locator(".kl-root[data-ready]"), page.get_by_label("Go to step")
    page.get_by_label("Steps a second").select_option("8")
    root.press("Space")
    play = page.get_by_role("button", name="Stop")
    expect(play).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("one => +one.value >= 4", arg=number.element_handle())
    page.get_by_label("Breakpoint at line 41").click()
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".kl-source-line[aria-current]")).to_contain_text("for start in")
    page.get_by_role("button", name="together").click()
    expect(page.locator(".kl-track-name")).to_have_text(
        ["0, 0, 0", "1, 0, 0", "0, 1, 0", "1, 1, 0"]
    )
    steps = [step.number for step in products if step.program == (0, 0, 0)]
    root.press("End")
    page.get_by_label("Go to step").fill(str(steps[-1]))
    page.get_by_label("Go to step").press("Enter")
    c = page.locator('figure[data-name="c_ptr"]')
    expect(c).to_have_class("kl-touched")
    # All four stores at once: every element of C is marked as written.
    assert c.locator("canvas").evaluate(
        """one => one.getContext("2d").getImageData(0, 0, one.width, one.height).data
            .every((value, at) => value === [27, 60, 255, 255][at % 4])"""
    )
    page.get_by_role("button", name="1, 1, 0").click()
    expect(number).to_have_value(str(len(products) - 1))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 700])
def test_bars_show_what_is_in_flight_and_lead_to_its_issue(open_page: OpenPage, width: int) -> None:
    kernel, args, _ = launched("specialized")
    trace = kernellab.trace(kernel, (1,), *args, TILES, target="sm_90", completion="late")
    page = open_page(trace.show(0), width=width)
    number, track = page.get_by_label("Go to step"), page.locator(".kl-track-line")
    rows = page.locator(".kl-track-row")
    expect(rows).to_have_text(
        ["specialized__produce", "specialized__consume", "stages[0]", "stages[1]"]
    )
    expect(page.locator(".kl-flights")).to_have_text("0 operations in flight")
    loads = [flight for flight in trace.asynchronous if flight.buffers == ("stages[1]",)]
    completed = loads[0].completed
    assert completed is not None
    box, row = box_of(track), box_of(rows.nth(3))
    share = (completed - 1) / (len(trace) - 1)  # a step before it completes, of its bar
    x, y = box["x"] + 5 + share * (box["width"] - 10), row["y"] + row["height"] / 2
    page.mouse.move(x, y)
    tip = track.locator("input").get_attribute("title")
    assert tip == f"{loads[0].words}: step {loads[0].issued} to {completed}"
    page.mouse.click(x, y)
    expect(number).to_have_value(str(loads[0].issued))
    expect(page.locator(".kl-where")).to_contain_text("partition specialized__produce")
    flights = page.locator(".kl-flights button")
    expect(flights).to_have_text(
        [f"pending: {trace.asynchronous[0].words}", f"issued: {loads[0].words}"]
    )
    flights.first.click()
    expect(number).to_have_value(str(trace.asynchronous[0].issued))
    page.mouse.click(x, box["y"] + 15)  # beside the bars, the track goes where it is clicked
    expect(number).to_have_value(str(completed - 1))


def test_programs_are_picked_on_the_map(open_page: OpenPage, tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.run(program=(0, 0, 0))
    first = len(events.recorder.steps)
    events.run(program=(1, 0, 0))
    page = open_page(events.trace().show())
    page.locator(".kl-map canvas").click(position={"x": 24, "y": 8})
    expect(page.locator(".kl-programs")).to_contain_text("(1, 0, 0) of 2 × 1 × 1, 2 traced")
    assert abs(int(page.get_by_label("Go to step").input_value()) - first) <= 1
    page.get_by_label("Program", exact=True).select_option("0,0,0")
    expect(page.get_by_label("Go to step")).to_have_value("0")


@pytest.mark.slow
def test_the_first_wrong_element_is_marked_and_its_expected_value_shown(open_page) -> None:
    right = torch.ones(32, 32)
    right[17, 9] = 3
    trace = kernellab.trace(
        matmul, (2, 2), torch.eye(32), torch.ones(32, 32), torch.zeros(32, 32), 32, 32, 32,
        *(32, 1, 32, 1, 32, 1), BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, expect={"c_ptr": right},
    )  # fmt: skip
    page = open_page(trace.show())
    figure = page.locator('figure[data-name="c_ptr"]')
    expect(page.locator(".kl-ring")).to_have_count(1)
    expect(figure.locator(".kl-wrong")).to_have_text("✗ c_ptr[17, 9] is 1, expected 3")
    ring, picture = box_of(figure.locator(".kl-ring")), figure.locator("canvas")
    box = box_of(picture)
    assert abs(ring["x"] + ring["width"] / 2 - box["x"] - box["width"] * 9.5 / 32) < 1.5
    assert abs(ring["y"] + ring["height"] / 2 - box["y"] - box["height"] * 17.5 / 32) < 1.5
    expect(page.locator(".kl-programs")).to_contain_text("(1, 0, 0)")
    page.get_by_title("First (Home)").click()
    expect(figure.locator(".kl-wrong")).to_contain_text("c_ptr[17, 9] is 0, expected 3")


@pytest.mark.slow
def test_long_lines_of_the_source_wrap_and_the_current_one_is_in_sight(open_page: OpenPage) -> None:
    trace = kernellab.trace(
        matmul, (1, 1), *(torch.ones(16, 16) for _ in range(3)), 16, 16, 16,
        *(16, 1, 16, 1, 16, 1), BLOCK_M=16, BLOCK_N=16, BLOCK_K=16,
    )  # fmt: skip
    page = open_page(trace.show(), width=500)
    lines = page.locator(".kl-source-lines")
    for name in ("Last (End)", "First (Home)"):
        page.get_by_title(name).click()
        assert lines.evaluate("one => one.scrollWidth <= one.clientWidth")
        assert page.locator(".kl-source-line[aria-current]").evaluate(
            """one => { const pane = one.parentElement.getBoundingClientRect();
            const box = one.getBoundingClientRect();
            return box.top >= pane.top - 1 && box.bottom <= pane.bottom + 1; }"""
        )


@pytest.mark.slow
def test_a_fault_no_steps_one_element_odd_numbers_and_foreign_text(open_page, tmp_path) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    events = Events(tmp_path)
    Path(events.file).write_text(f"def total(x):\n    y = x  # {evil}\n")
    tell = events.recorder
    tell.turn_of((0, 0, 0))
    tell.enter(evil, events.file, 1, {"x": evil})
    tell.line(2)
    odd = numpy.array([1.5, numpy.nan, numpy.inf, -numpy.inf], numpy.float32)
    tell.bound({evil: odd, "one": numpy.ones((1, 1), numpy.float32), "none": numpy.zeros(0)})
    trace = events.trace(TracedFault("Fault", f"failed: {evil}", None, 0), notices=[evil])
    page = open_page(trace.show())
    assert page.locator("img").count() == 0
    for place in (".kl-failure", ".kl-general", ".kl-values", ".kl-source", ".kl-constants"):
        expect(page.locator(place)).to_contain_text(evil)
    expect(page.locator(".kl-where")).to_contain_text("the fault")
    canvas = page.locator(".kl-vars canvas")
    expect(canvas).to_have_count(2)
    for index, text in enumerate(("1.5", "NaN", "∞", "-∞")):
        canvas.first.press("ArrowRight")
        expect(page.locator(".kl-status")).to_have_text(f"{evil}[{index}] = {text}")
    canvas.nth(1).press("ArrowRight")
    expect(page.locator(".kl-status")).to_have_text("one[0, 0] = 1")
    (tmp_path / "empty").mkdir()
    page = open_page(Events(tmp_path / "empty").trace().show())
    expect(page.locator(".kl-root[data-ready]")).to_contain_text("There are no steps")


@pytest.mark.slow
def test_a_narrow_cell_shows_everything_by_scrolling(open_page: OpenPage, large: Trace) -> None:
    page = open_page(large.show(5), width=400)
    page.wait_for_selector("[data-ready]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    for place in ('tr[data-name="z"]', 'figure[data-name="z_ptr"]', ".kl-legend"):
        page.locator(place).scroll_into_view_if_needed()
        box = box_of(page.locator(place))
        assert (box["x"] >= 0, box["x"] + box["width"] <= 400) == (True, True), place


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(900, 800), (700, 600), (900, 300)])
def test_slots_keep_their_places_and_what_a_step_did_is_in_sight(open_page, width, height) -> None:
    trace = kernellab.trace(
        matmul, (2, 2), *(torch.ones(64, 64) for _ in range(3)), 64, 64, 64,
        *(64, 1, 64, 1, 64, 1), BLOCK_M=32, BLOCK_N=32, BLOCK_K=16,
    )  # fmt: skip
    loads = [one.number for one in trace if any(a.argument == "b_ptr" for a in one.accesses)]
    page = open_page(trace.show(), width=width)
    root = page.locator(".kl-root[data-ready]")
    root.evaluate("(one, height) => { one.style.height = `${height}px`; }", height)
    step_to(page, loads[1])
    expect(page.locator("tr.kl-new")).to_have_attribute("data-name", "b")
    expect(page.locator("figure.kl-touched")).to_have_attribute("data-name", "b_ptr")
    in_sight = """one => {
        const box = one.getBoundingClientRect(), x = box.left + 30, y = box.top + box.height / 2;
        return one.contains(document.elementFromPoint(x, y));
    }"""
    line = page.locator(".kl-source-line[aria-current]")
    root.scroll_into_view_if_needed()
    assert line.evaluate(in_sight)
    if height > 300:
        assert page.locator("figure.kl-touched figcaption").evaluate(in_sight)
        assert page.locator("tr.kl-new").evaluate(in_sight)
    captions = page.locator(".kl-tensors figcaption").all()
    assert all(box_of(caption)["width"] > 90 for caption in captions), "no letter has its own line"
    slots = """all => all.map((one) => [one.dataset.name, one.offsetTop, one.offsetLeft])"""
    places = page.locator(".kl-vars tr, .kl-tensors figure")
    before = places.evaluate_all(slots)
    assert [name for name, *_ in before] == [
        *("rows", "columns", "inner", "a_ptrs", "b_ptrs", "acc", "start", "a", "b", "c_ptrs"),
        *("a_ptr", "b_ptr", "c_ptr"),
    ]
    step_to(page, len(trace) - 1)
    assert places.evaluate_all(slots) == before
    expect(page.locator("figure.kl-touched")).to_have_attribute("data-name", "c_ptr")
    assert line.evaluate(in_sight)


@pytest.mark.slow
def test_the_programs_of_a_large_grid_are_named_in_a_narrow_cell(open_page: OpenPage) -> None:
    trace = kernellab.trace(
        counted, (120, 3, 17), torch.zeros(1, dtype=torch.int32), programs=[(2, 0, 0), (100, 2, 16)]
    )
    page = open_page(trace.show(), width=400)
    words = page.locator(".kl-programs .kl-pane-head > .kl-soft")
    expect(words).to_have_text("(2, 0, 0) of 120 × 3 × 17, 2 traced")
    sizes = "one => [one.scrollWidth - one.clientWidth, one.scrollHeight - one.clientHeight]"
    for place in (words, page.locator(".kl-programs .kl-pane-head")):
        assert max(place.evaluate(sizes)) <= 0, "nothing of it is cut"
