"""What the views cost in a browser: size, and time until something is painted.
Headless Chromium, medians of five.

The IR explorer of attention forward for sm_90: every pass, LLVM dialect of 10,000 lines.
The layout view of a tile of 256x256. The stepper of a kernel's 10,000 steps, dragged to and fro.

    python -m benchmarks.front_end
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas
import torch

import kernellab
from benchmarks.harness import print_report
from kernellab.records.display import show
from kernellab.records.layouts import Layout
from kernellab.viz.kit.data import SCRIPT
from tests.corpus.loader import compile_entry, entry
from tests.kernels.traced import accumulate
from tests.viz.browser import CHROMIUM, browser, opened

ROUNDS = 5

TURNS = 1500
"""Turns of the kernel's loop: enough for 10,000 steps."""

_PREPARE = """async () => {
  const bytes = (id) => Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes("kernellab-bundle")]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = new Blob([await new Response(stream).text()], { type: "text/javascript" });
  const views = (await import(URL.createObjectURL(script))).default;
  const data = bytes("kernellab-data-0");
  // Painted: the frame after the next one has begun.
  const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
  const timed = async (act) => {
    await painted();
    const started = performance.now();
    await act();
    const worked = performance.now() - started;
    await new Promise((done) => requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0); }));
    return performance.now() - started;
  };
  Object.assign(window, { views, data, timed });
}"""

_FIRST_PAINT = """async () => {
  document.querySelectorAll(".kernellab-view").forEach((one) => one.remove());
  const place = document.createElement("div");
  place.className = "kernellab-view";
  document.body.append(place);
  return timed(() => views.mountPacked(place, data));
}"""

_SWITCH = """async () => {
  const times = [];
  for (const pass of document.querySelectorAll(".kl-pass.kl-changed")) times.push(await timed(() => pass.click()));
  return times;
}"""

_CLICK = """async () => {
  const pane = document.querySelector(".kl-pane .cm-content");
  const times = [];
  for (const line of [...pane.querySelectorAll(".cm-line")].filter((one) => /tl\\.(dot|load|exp2|store|max)/.test(one.textContent))) {
    const box = line.getBoundingClientRect();
    const at = { clientX: box.left + 30, clientY: box.top + box.height / 2, bubbles: true, button: 0, detail: 1, view: window };
    times.push(await timed(() => { line.dispatchEvent(new MouseEvent("mousedown", at)); line.dispatchEvent(new MouseEvent("mouseup", at)); }));
    if (document.querySelectorAll(".kl-lit").length < 2) throw new Error("nothing was lit");
  }
  return times;
}"""


_SCRUB = """async () => {
  const scrubber = document.querySelector(".kl-track input");
  const frame = () => new Promise(requestAnimationFrame);
  const times = [];
  for (let at = 0, before = await frame(); at < 200; at++) {
    scrubber.value = String(Math.round((0.5 + 0.5 * Math.sin(at / 7)) * Number(scrubber.max)));
    scrubber.dispatchEvent(new Event("input"));
    const now = await frame();
    times.push(now - before);
    before = now;
  }
  return times;
}"""


def measured(page: Any) -> dict[str, float]:
    """Milliseconds of one round: the worst of all passes, and of all lines."""
    first = page.evaluate(_FIRST_PAINT)
    page.keyboard.press("1")
    switch = page.evaluate(_SWITCH)
    page.locator(".kl-root").press("3")
    page.wait_for_function("document.querySelectorAll('.kl-pane').length === 3")
    click = page.evaluate(_CLICK)
    page.locator(".kl-root").press("2")
    page.get_by_role("radio", name="Before | after").click()
    diff = page.evaluate(_SWITCH)
    return {
        "first paint": first,
        "pass switch, median": statistics.median(switch),
        "pass switch, slowest": max(switch),
        "click to linked lines, median": statistics.median(click),
        "click to linked lines, slowest": max(click),
        "differences of a pass, median": statistics.median(diff),
        "differences of a pass, slowest": max(diff),
    }


def painted_layouts(started: Any, folder: str) -> list[dict[str, float]]:
    """Milliseconds that the layout view of a 256x256 tile takes to be painted, in every round."""
    large = Layout.blocked(
        shape=(256, 256),
        size_per_thread=[1, 8],
        threads_per_warp=[4, 8],
        warps_per_cta=[4, 1],
        order=[1, 0],
    )
    file = large.show().to_html(Path(folder, "layout.html"))
    with opened(started, file.as_uri()) as page:
        page.wait_for_selector("[data-ready]")
        page.evaluate(_PREPARE)
        return [{"layout view of 256x256": page.evaluate(_FIRST_PAINT)} for _ in range(ROUNDS)]


def scrubbed_steps(started: Any, folder: str) -> list[dict[str, float]]:
    """Milliseconds from frame to frame while the stepper's scrubber moves, in every round."""
    x, y = torch.rand(TURNS, 256), torch.zeros(256)
    steps = kernellab.trace(accumulate, (1,), x, y, 256, TURNS, BLOCK=256)
    assert len(steps) >= 10_000
    file = steps.show().to_html(Path(folder, "steps.html"))
    with opened(started, file.as_uri()) as page:
        page.wait_for_selector("[data-ready]")
        page.evaluate(_PREPARE)
        rounds = [page.evaluate(_SCRUB) for _ in range(ROUNDS)]
    return [
        {
            "stepper, 10,000 steps: a frame, median": statistics.median(one),
            "stepper, 10,000 steps: a frame, slowest": max(one),
        }
        for one in rounds
    ]


def bytes_of_state(widget: Any) -> int:
    """Bytes that a widget's state takes on the wire, a view's data left out."""
    state = {name: value for name, value in widget.get_state().items() if name != "data"}
    return len(json.dumps(state))


GOALS = {
    "stepper, 10,000 steps: a frame, median": 1000 / 30,
    "layout view of 256x256": 200.0,
    "first paint": 400.0,
    "pass switch, median": 80.0,
    "click to linked lines, median": 60.0,
}


def main() -> None:
    """Print the tables; exit status 1 where a goal is missed."""
    if CHROMIUM is None:
        print("Chromium is not installed: nothing to measure in.")
        return
    view = show(compile_entry(entry("attention_forward"), "sm_90"))
    data = view.packed_data()
    with tempfile.TemporaryDirectory() as folder, browser() as started:
        file = view.to_html(Path(folder, "attention.html"))
        page_bytes = file.stat().st_size
        with opened(started, file.as_uri()) as page:
            page.wait_for_selector("[data-ready]")
            page.evaluate(_PREPARE)
            rounds = [measured(page) for _ in range(ROUNDS)]
        further = zip(painted_layouts(started, folder), scrubbed_steps(started, folder))
        rounds = [{**one, **layout, **steps} for one, (layout, steps) in zip(rounds, further)]
    sizes = [
        ("bundle, minified", len(SCRIPT.encode()), 450_000),
        ("bundle, gzipped", len(gzip.compress(SCRIPT.encode())), None),
        ("data of attention forward, gzipped", len(data), 1_000_000),
        ("its page", page_bytes, None),
        ("sent to a notebook for its first view", bytes_of_state(view.widget.bundle), None),
        (
            "sent for every view, besides its data",
            bytes_of_state(view.widget) + bytes_of_state(view.widget.layout),
            None,
        ),
    ]
    missed = [name for name, size, goal in sizes if goal is not None and size > goal]
    size_rows = [
        {"": name, "bytes": f"{size:,}", "goal": "" if goal is None else f"{goal:,}"}
        for name, size, goal in sizes
    ]
    print_report("Sizes of the front end", pd(size_rows), "")
    rows = []
    for name in rounds[0]:
        median = statistics.median(one[name] for one in rounds)
        goal = GOALS.get(name)
        if goal is not None and median > goal:
            missed.append(name)
        rows.append(
            {"": name, "ms": f"{median:.0f}", "goal, ms": "" if goal is None else f"{goal:.0f}"}
        )
    print_report(
        "The IR explorer of attention forward, the layout view and the stepper, in Chromium, "
        f"medians of {ROUNDS}",
        pd(rows),
        "From the data's arrival, or from the click, to the end of the frame that shows it.",
    )
    sys.exit(1 if missed else 0)


def pd(rows: list[dict[str, str]]) -> pandas.DataFrame:
    """The rows as a table."""
    return pandas.DataFrame(rows)


if __name__ == "__main__":
    main()
