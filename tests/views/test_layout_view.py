"""The layout view: its data against the layouts, its pictures in Chromium, and `%tilelayout`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import kernellab
from kernellab.errors import LayoutError
from kernellab.layouts import Layout, RegisterLayout
from kernellab.viz.layout_view import element_bits
from tests.compiled import of_corpus
from tests.notebook_session import notebook
from tests.views import layout_fixture
from tests.views.browser import browser, needs_browser, opened

MMA = {"version": 2, "warps_per_cta": [1, 1], "instruction_shape": [16, 8]}


def mma() -> RegisterLayout:
    return Layout.nvidia_mma(shape=(16, 8), **MMA)  # type: ignore[arg-type]


def test_the_fixture_of_the_typescript_has_pythons_answers() -> None:
    assert json.loads(layout_fixture.FILE.read_text()) == layout_fixture.fixture()


@pytest.mark.parametrize(
    ("element", "bits"),
    [("f16", 16), ("bf16", 16), ("i1", 8), ("f8E5M2", 8), ("!tt.ptr<f16>", 64), ("f32", 32)],
)
def test_the_size_of_an_element_in_memory(element: str, bits: int) -> None:
    assert element_bits(element) == bits


def test_fragments_have_the_letters_of_the_ptx_manual() -> None:
    (result,) = mma().show().data.tiles
    assert result.fragment == "c"
    for operand, letter in ((0, "a"), (1, "b")):
        layout = Layout.dot_operand(shape=(16, 16), operand=operand, parent=mma(), k_width=2)
        assert layout.show().data.tiles[0].fragment == letter


def test_tiles_of_a_kernel_are_offered_once_each_the_kernels_own_first() -> None:
    layouts = of_corpus("matmul", "sm_90").layouts()
    data = layouts.show().data
    names = [tile.name for tile in data.tiles]
    assert len(names) == len(set(names))
    assert names[data.left].startswith("accumulator, line ")
    assert {tile.memory for tile in data.tiles} == {"registers", "shared memory"}
    named = layouts.show("accumulator").data
    assert all(tile.name.startswith("accumulator") for tile in named.tiles)
    with pytest.raises(LayoutError, match="called 'nobody'"):
        layouts.show("nobody")


def test_a_conversion_shows_both_sides() -> None:
    (conversion, *_) = [
        one for one in of_corpus("matmul", "sm_90").conversions() if one.means == "shared memory"
    ]
    data = kernellab.show(conversion).data
    assert [tile.encoding for tile in data.tiles] == [conversion.source, conversion.destination]
    assert "through shared memory" in data.conversion
    assert (data.left, data.right) == (0, 1)


def test_other_shapes_are_not_compared() -> None:
    other = Layout.nvidia_mma(shape=(32, 8), **MMA)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="32x8 cannot be compared with one of 16x8"):
        mma().show(to=other)


def test_the_still_says_what_the_card_says() -> None:
    view = mma().show()
    assert "Thread and register" in view.still_html()
    assert "each thread holds 4 elements" in repr(view)


def test_tilelayout_in_a_notebook() -> None:
    cell = (
        "%%tilekernel --no-compile\n@triton.jit\ndef total(x_ptr, out_ptr, N: tl.constexpr):\n"
        "    x = tl.load(x_ptr + tl.arange(0, N))\n    tl.store(out_ptr, tl.sum(x))\n"
    )
    with notebook("%load_ext kernellab", "import triton, triton.language as tl", cell) as lab:
        line = "%tilelayout total x --sig '*fp32:16, *fp32:16' --constexpr N=1024"
        outcome = lab.run(line)
        assert "x: 1024 of f32" in outcome.still["text/plain"]
        refused = lab.run("%tilelayout total nobody --sig '*fp32:16, *fp32:16' --constexpr N=1024")
        assert refused.error == "LayoutError"
        assert "nobody" in refused.message


# In a browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def canvas(page: Page, number: int) -> Locator:
    return page.locator(".kl-grid-box canvas:last-child").nth(number)


def point(page: Page, number: int, x: int, y: int) -> str:
    """What is said of a cell (column x, row y) of a picture, whose cells are as large as they get: 38 pixels."""
    canvas(page, number).hover(position={"x": 34 + 38 * x + 19, "y": 18 + 38 * y + 19})
    return page.locator(".kl-status").inner_text()


@needs_browser
def test_hover_leads_from_elements_to_threads_and_back(chromium: Browser, tmp_path: Path) -> None:
    layout = mma()
    page_file = layout.show().to_html(tmp_path / "mma.html")
    with opened(chromium, page_file.as_uri()) as page:
        for x, y in ((0, 0), (3, 1), (7, 8)):
            (holder,) = layout.holders((y, x))
            words = point(page, 0, x, y)
            assert f"element ({y}, {x})" in words
            assert f"warp {holder.warp}, lane {holder.lane}, register {holder.register}" in words
        words = point(page, 1, 2, 5)
        index = tuple(layout.elements(lane=5, register=2).tolist())
        assert words.endswith(f"element {index}")


@needs_browser
def test_keys_go_from_cell_to_cell(chromium: Browser, tmp_path: Path) -> None:
    page_file = mma().show().to_html(tmp_path / "mma.html")
    with opened(chromium, page_file.as_uri()) as page:
        canvas(page, 0).press("ArrowRight")
        canvas(page, 0).press("ArrowRight")
        canvas(page, 0).press("ArrowDown")
        expect(page.locator(".kl-status")).to_contain_text("element (1, 1)")


@needs_browser
def test_two_layouts_say_what_moves(chromium: Browser, tmp_path: Path) -> None:
    fixture = layout_fixture.layouts()
    source, destination = fixture[0], fixture[1]
    counts = layout_fixture.fixture()["moved"]
    page_file = source.show(to=destination).to_html(tmp_path / "two.html")
    with opened(chromium, page_file.as_uri(), dark=True) as page:
        legend = page.locator(".kl-legend").inner_text()
        found = dict(re.findall(r"(\d+) × (stays|goes to another (?:register|lane|warp))", legend))
        words = {"stays": "stays"} | {
            name: f"goes to another {name}" for name in ("register", "lane", "warp")
        }
        assert {words[n]: count for n, count in counts.items() if count} == {
            word: int(number) for number, word in found.items()
        }


@needs_browser
def test_shared_memory_three_dimensions_and_one_element(chromium: Browser, tmp_path: Path) -> None:
    layouts = layout_fixture.layouts()
    padded = layouts[5].show().to_html(tmp_path / "padded.html")
    with opened(chromium, padded.as_uri()) as page:
        canvas(page, 0).press("ArrowDown")
        canvas(page, 0).press("ArrowDown")
        expect(page.locator(".kl-status")).to_contain_text("offset 20, bank 10")
    deep = layouts[3].show().to_html(tmp_path / "deep.html")
    with opened(chromium, deep.as_uri()) as page:
        page.get_by_label("Slice").select_option(label="slice [1, :, :]")
        canvas(page, 0).press("ArrowDown")
        expect(page.locator(".kl-status")).to_contain_text("element (1, 0, 0): warp 1")
    one = Layout.blocked(shape=(1,), size_per_thread=[1], threads_per_warp=[32], warps_per_cta=[1], order=[0])  # fmt: skip
    single = one.show().to_html(tmp_path / "one.html")
    with opened(chromium, single.as_uri()) as page:
        canvas(page, 0).press("ArrowDown")
        expect(page.locator(".kl-status")).to_contain_text("and 24 more")


@needs_browser
def test_a_large_tile_is_painted_at_once(chromium: Browser, tmp_path: Path) -> None:
    large = Layout.blocked(shape=(256, 256), size_per_thread=[1, 8], threads_per_warp=[4, 8], warps_per_cta=[4, 1], order=[1, 0])  # fmt: skip
    page_file = large.show().to_html(tmp_path / "large.html")
    with opened(chromium, page_file.as_uri()) as page:
        expect(page.locator("canvas")).to_have_count(4)
        canvas(page, 0).press("ArrowDown")
        expect(page.locator(".kl-status")).to_contain_text("element (0, 0): warp 0, lane 0")
