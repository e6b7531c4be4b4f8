"""What the IR explorer does with what no one wishes for: hostile texts, huge ones, nearly nothing."""

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import triton
from playwright.sync_api import Page, expect

import kernellab
from kernellab.compiler.compilations import Compilation
from kernellab.records.display import show
from kernellab.viz.explorer_data import IrSide, IrView, TextData
from kernellab.viz.kit.view import Card, View
from tests.kernels import basic
from tests.support.compiled import compiled
from tests.viz.browser import OpenPage
from tests.viz.explorer_page import pane

pytestmark = pytest.mark.slow

NASTY = "<img/src=x/onerror=window.hit=1></script><script>window.hit=1</script>&quot;"
WORDS = {
    "IrView": ("title",), "IrSide": ("name", "kernel", "target", "facts", "failure", "notice"),
    "TextData": ("content",), "PassData": ("label", "name", "arguments", "op_changes"),
    "SourceMapData": ("files",), "MarginNote": ("words", "origin", "advice"),
    "MetricData": ("name", "unit", "origin"), "LayoutWords": ("words",),
    "PassPairData": ("label",),
}  # fmt: skip
"""Fields that hold texts of users or of compilers."""


@pytest.fixture(scope="module")
def addition() -> Compilation:
    return compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024)


def spoilt(value: Any) -> Any:
    """A value whose texts, keys of tables included, all end in something that HTML would run."""
    if isinstance(value, str):
        return value + NASTY
    if isinstance(value, Mapping):
        return {spoilt(key): number for key, number in value.items()}
    return tuple(map(spoilt, value)) if isinstance(value, Sequence) else value


def all_spoilt(data: Any) -> Any:
    """A view's data with every text of users and compilers spoilt."""
    if isinstance(data, tuple):
        return tuple(map(all_spoilt, data))
    if not dataclasses.is_dataclass(data) or isinstance(data, type):
        return data
    texts = WORDS.get(type(data).__name__, ())
    made: Callable[[str, Any], Any] = lambda name, one: spoilt(one) if name in texts else all_spoilt(one)  # noqa: E731  # fmt: skip
    fields = {one.name: made(one.name, getattr(data, one.name)) for one in dataclasses.fields(data)}
    return dataclasses.replace(data, **fields)


def view_of(data: IrView) -> View:
    """A view of this data."""
    return View(data.title, lambda: data, lambda: [Card(data.title)])


def assert_nothing_ran(page: Page) -> None:
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0


# Hostile texts


@pytest.mark.parametrize("sides", [1, 2])
def test_no_text_is_html(open_page: OpenPage, addition: Compilation, sides: int) -> None:
    shown = addition if sides == 1 else kernellab.compare(addition, compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=512))  # fmt: skip
    data = all_spoilt(show(shown).data)
    first = data.sides[0]
    noted = dataclasses.replace(first.notes[0], line=11, severity="warning")
    data = dataclasses.replace(data, sides=(dataclasses.replace(first, notes=(*first.notes, noted)), *data.sides[1:]))  # fmt: skip
    page = open_page(view_of(data))
    expect(page.locator(".kl-head b")).to_contain_text("<img/src=x")
    assert page.title().count("<img") >= 1
    for key in ("1", "2", "3", "?"):
        page.locator(".kl-root").press(key)
        pane_or_diff = page.locator(".cm-content").first
        pane_or_diff.click(position={"x": 60, "y": 30})
        page.locator(".cm-content .kl-value, .cm-content .kl-type").first.hover()
        page.keyboard.press("i")
    page.locator(".kl-general .kl-note-words").first.scroll_into_view_if_needed()
    for summary in page.locator("summary").all():
        if summary.is_visible():
            summary.click()
    assert_nothing_ran(page)


# Nearly nothing


@triton.jit
def nothing() -> None:
    """A kernel that does nothing."""


def test_an_empty_kernel(open_page: OpenPage) -> None:
    view = show(compiled(nothing))
    page = open_page(view)
    page.locator(".kl-root").press("3")
    expect(pane(page, 0)).to_contain_text("def nothing()")
    expect(pane(page, 2)).to_contain_text("EXIT")
    page.locator(".kl-root").press("2")
    expect(page.locator(".kl-changes")).to_have_text(re.compile("change|renumbered"))


def test_one_stage_and_no_pass(open_page: OpenPage, addition: Compilation) -> None:
    data = show(addition).data
    side: IrSide = data.sides[0]
    bare = dataclasses.replace(
        side, stages=side.stages[:1], passes=(), notes=(), controls=(), metrics=(), layouts=()
    )
    page = open_page(view_of(dataclasses.replace(data, sides=(bare,))))
    expect(page.locator(".kl-pane")).to_have_count(1)
    expect(pane(page, 0)).to_contain_text("def add(")
    for key in ("1", "2", "3", "]", "}", "n", ".", "w", "/"):
        page.locator(".kl-root").press(key)
    expect(pane(page, 0)).to_contain_text("def add(")


# Huge texts


def after_passes(data: IrView, *contents: str) -> IrView:
    """The view with passes that made these texts, one after the other."""
    side = data.sides[0]
    texts = [TextData("mlir", text, 0, text.count("\n") + 1, ()) for text in contents]
    first = side.passes[0]
    passes = tuple(
        dataclasses.replace(
            first, label=f"llir.huge#{n}", stage="llir", effect="changed",
            text=len(side.texts) + n, place=f"llir.huge#{n}",
        )
        for n in range(len(texts))
    )  # fmt: skip
    huge = dataclasses.replace(side, texts=(*side.texts, *texts), passes=passes)
    return dataclasses.replace(data, sides=(huge,))


LEAVE = """async () => {
  const press = (key) => document.querySelector(".kl-root").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  press("2");
  await new Promise(requestAnimationFrame);
  const words = document.querySelector(".kl-changes").textContent;
  press("1");
  return words;
}"""
"""Ask for a comparison, and for something else before it is there; gives what it said."""


def test_fifty_thousand_lines_are_compared_without_freezing(
    open_page: OpenPage, addition: Compilation
) -> None:
    # Nearly every line changes: the worst for whoever draws the marks.
    lines = [
        f"    %{n} = llvm.{'add' if n % 3 else 'mul'} %{n // 2}, %{n // 3} : i32"
        for n in range(50_000)
    ]
    other = [line.replace("i32", "i64") if n % 2 else line for n, line in enumerate(lines)]
    other[700:700] = [f"    %new{n} = llvm.mlir.undef : i32" for n in range(40)]
    data = after_passes(show(addition).data, "\n".join(lines), "\n".join(other))
    page = open_page(view_of(data))
    page.locator(".kl-pass").nth(1).click()
    expect(pane(page, 1)).to_contain_text("50,040 lines")
    scrolled = pane(page, 1).locator(".cm-scroller")
    scrolled.evaluate("one => (one.scrollTop = one.scrollHeight)")
    expect(pane(page, 1)).to_contain_text("%49999 =")
    assert pane(page, 1).locator(".cm-line").count() < 300, "only what is on the screen"
    assert page.evaluate(LEAVE) == "comparing …"
    expect(pane(page, 1)).to_contain_text("50,040 lines")
    expect(page.locator(".kl-diff-box")).to_have_count(0)
    page.evaluate(
        """() => {
          window.frames = [];
          const look = () => { window.frames.push(document.querySelector(".kl-changes")?.textContent ?? ""); requestAnimationFrame(look); };
          requestAnimationFrame(look);
        }"""
    )
    page.locator(".kl-root").press("2")
    started = time.monotonic()
    expect(page.locator(".kl-changes")).to_contain_text("more than 4,000 changes", timeout=60_000)
    took = time.monotonic() - started
    assert page.evaluate("window.frames").count("comparing …") > 2, "frames during the work"
    assert page.locator(".cm-line").count() < 600
    # Against the same browser's own speed, since the machine may be busy.
    unit = (
        page.evaluate(
            "() => { const from = performance.now(); let sum = 0; for (let n = 0; n < 2e8; "
            "n++) sum += n % 7; return [performance.now() - from, sum]; }"
        )[0]
        / 1000
    )
    assert took < 20 * max(unit, 0.1), f"{took:.1f} s, and 200 million additions take {unit:.2f} s"
    page.locator(".kl-root").press("1")
    page.locator(".kl-root").press("2")
    expect(page.locator(".kl-changes")).to_contain_text("more than 4,000", timeout=60_000)


def test_lines_of_a_hundred_thousand_characters(open_page: OpenPage, addition: Compilation) -> None:
    line = f"    %a = llvm.mlir.undef : !llvm.struct<({'f32, ' * 20_000}i1)>"
    data = after_passes(show(addition).data, f"{line}\nend", f"{line.replace('i1', 'i8')}\nend")
    page = open_page(view_of(data))
    page.locator(".kl-pass").nth(1).click()
    expect(pane(page, 1)).to_contain_text("%a = llvm.mlir.undef")
    page.locator(".kl-root").press("w")
    expect(pane(page, 1)).to_contain_text("%a = llvm.mlir.undef")
    assert (
        pane(page, 1).locator(".cm-line").first.evaluate("one => one.textContent.length") < 60_000
    )
    page.locator(".kl-root").press("2")
    expect(page.locator(".kl-changes")).to_have_text("1 change")
    page.locator(".cm-merge-b .cm-line").first.click(position={"x": 60, "y": 6})
    page.keyboard.press("i")
    expect(page.locator(".kl-name b").first).to_have_text("%a")
