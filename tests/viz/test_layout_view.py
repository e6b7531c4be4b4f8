"""The layout view: its data against the layouts, its pictures in Chromium, and `%tilelayout`."""

import dataclasses
import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

import kernellab
from kernellab.errors import LayoutError
from kernellab.records.layouts import Layout, RegisterLayout
from kernellab.viz import launch_tabs
from kernellab.viz.kit.view import Card, View
from kernellab.viz.launch_tabs import displayed
from kernellab.viz.layouts import LayoutView, element_bits
from tests.support import versions
from tests.support.compiled import of_corpus
from tests.support.layouts import blocked
from tests.viz import layout_fixture

needs_tensor_memory = pytest.mark.skipif(
    not versions.LAYS_OUT_TENSOR_MEMORY, reason="Triton 3.6 does not answer for tensor memory"
)

MMA = {"version": 2, "warps_per_cta": [1, 1], "instruction_shape": [16, 8]}


def mma() -> RegisterLayout:
    return Layout.nvidia_mma(shape=(16, 8), **MMA)  # type: ignore[arg-type]


@needs_tensor_memory
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
    with pytest.raises(LayoutError, match="called 'missing'"):
        layouts.show("missing")


def test_a_conversion_shows_both_sides() -> None:
    (conversion, *_) = [
        one for one in of_corpus("matmul", "sm_90").conversions() if one.means == "shared memory"
    ]
    data = kernellab.show(conversion).data
    assert [tile.encoding for tile in data.tiles] == [conversion.source, conversion.destination]
    assert "through shared memory" in data.conversion
    assert (data.left, data.right) == (0, 1)


def test_other_shapes_are_not_compared(raised) -> None:
    other = Layout.nvidia_mma(shape=(32, 8), **MMA)  # type: ignore[arg-type]
    raised(LayoutError, mma().show, to=other)


def test_the_still_of_two_layouts_says_what_moves() -> None:
    """512 elements on 128 threads: neighbors of a thread become neighbors of lanes."""

    def of(size: int) -> Layout:
        return blocked(512, size, 32, 4, 0)

    view = of(4).show(to=of(1))
    for words in (view.still_html(), repr(view)):
        assert "What moves" in words
        assert "goes to another warp (through shared memory)" in words
    assert "384       goes to another warp" in repr(view)
    assert "What moves" not in repr(of(4).show())


@pytest.mark.slow
def test_tiles_of_one_layout_share_a_card() -> None:
    layouts = of_corpus("attention_forward", "sm_80").layouts()
    tiles = layouts["q"]
    words = repr(layouts.show("q"))
    pairs = {(tile.shape, tile.encoding) for tile in tiles}
    assert len(pairs) < len(tiles)
    assert words.count("Basis vectors") == len(pairs)
    assert all(tile.operation in words for tile in tiles)


def test_a_layout_is_displayed_by_its_view_unless_it_is_too_large(monkeypatch) -> None:
    view = displayed(mma())
    assert view is not None
    assert view.data.kind == "layout"
    monkeypatch.setattr(launch_tabs, "LARGEST", 100)
    assert displayed(mma()) is None


def canvas(page: Page, number: int) -> Locator:
    return page.locator(".kl-grid-box canvas:last-child").nth(number)


def point(page: Page, number: int, x: int, y: int) -> str:
    """What is said of a cell (column x, row y) of a picture: 16 elements are as high as the
    picture may be, and 32 threads get the smallest cells with labels.
    """
    cell = (26, 24)[number]
    canvas(page, number).hover(position={"x": 38 + cell * (x + 0.5), "y": 18 + cell * (y + 0.5)})
    return page.locator(".kl-status").inner_text()


@pytest.mark.slow
def test_hover_leads_from_elements_to_threads_and_back(open_page) -> None:
    layout = mma()
    page = open_page(layout.show())
    for x, y in ((0, 0), (3, 1), (7, 8)):
        (holder,) = layout.holders((y, x))
        words = point(page, 0, x, y)
        assert f"element ({y}, {x})" in words
        assert f"warp {holder.warp}, lane {holder.lane}, register {holder.register}" in words
    words = point(page, 1, 2, 5)
    index = tuple(layout.elements(lane=5, register=2).tolist())
    assert words.endswith(f"element {index}")


def test_what_a_thread_holds_is_outlined_in_white_on_black(open_page) -> None:
    """One of the two has a contrast of at least 4.5 to any color of a cell, in both themes."""
    layout = mma()
    page = open_page(layout.show(), dark=True)
    point(page, 0, 3, 1)
    held = [layout.elements(lane=5, register=one).tolist() for one in range(4)]
    outlined = canvas(page, 0).evaluate(
        """(canvas, cells) => {
            const { width, height } = canvas;
            const dense = width / canvas.clientWidth;
            const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
            const shades = (row, column) => {
                const [x, y] = [38 + 26 * column, 18 + 26 * row + 13];
                const found = new Set();
                for (let by = -4; by <= 4; by++) {
                    const pixel = Math.round(y * dense) * width + Math.round((x + by) * dense);
                    const at = 4 * pixel;
                    if (pixels[at + 3] > 200) found.add(pixels[at] > 127 ? "white" : "black");
                }
                return [...found].sort();
            };
            return cells.map(([row, column]) => shades(row, column));
        }""",
        held,
    )
    assert outlined == [["black", "white"]] * 4


@pytest.mark.slow
@needs_tensor_memory
def test_two_layouts_say_what_moves(open_page) -> None:
    fixture = layout_fixture.layouts()
    source, destination = fixture[0], fixture[1]
    counts = layout_fixture.fixture()["moved"]
    page = open_page(source.show(to=destination), dark=True)
    legend = page.locator(".kl-legend").inner_text()
    found = dict(re.findall(r"(\d+) × (stays|goes to another (?:register|lane|warp))", legend))
    words = {"stays": "stays"} | {
        name: f"goes to another {name}" for name in ("register", "lane", "warp")
    }
    assert {words[n]: count for n, count in counts.items() if count} == {
        word: int(number) for number, word in found.items()
    }


@pytest.mark.slow
@needs_tensor_memory
def test_shared_memory_three_dimensions_and_one_element(open_page) -> None:
    layouts = layout_fixture.layouts()
    page = open_page(layouts[5].show())
    canvas(page, 0).press("ArrowDown")
    canvas(page, 0).press("ArrowDown")
    expect(page.locator(".kl-status")).to_contain_text("offset 20 in elements (byte 40), bank 10")
    page = open_page(layouts[3].show())
    page.get_by_label("Slice").select_option(label="slice [1, :, :]")
    canvas(page, 0).press("ArrowDown")
    expect(page.locator(".kl-status")).to_contain_text("element (1, 0, 0): warp 1")
    one = blocked((1,), [1], [32], [1], [0])
    page = open_page(one.show())
    canvas(page, 0).press("ArrowDown")
    expect(page.locator(".kl-status")).to_contain_text("and 24 more")


BLOCKED = {"threads_per_warp": [4, 8], "warps_per_cta": [4, 1], "order": [1, 0]}

COLORS = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = {};
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) {
    const color = [data[at], data[at + 1], data[at + 2]].join(",");
    found[color] = (found[color] ?? 0) + 1;
  }
  return found;
}"""
"""Opaque colors of a canvas -> pixels."""

WARPS = ["86,180,233", "230,159,0", "0,158,115", "240,228,66"]


def painted(page: Page, number: int) -> dict[str, int]:
    canvas = page.locator(".kl-grid-box canvas:first-child").nth(number)
    return dict(canvas.evaluate(COLORS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "last"),
    [((1024, 1024), "(1023, 1023)"), ((4096, 2), "(4095, 1)"), ((2, 4096), "(1, 4095)")],
)
def test_what_is_larger_than_fits_is_scrolled(open_page, shape: tuple[int, int], last: str) -> None:
    layout = Layout.blocked(shape=shape, size_per_thread=[1, 1], **BLOCKED)
    page = open_page(layout.show(), height=800)
    page.wait_for_selector("[data-ready]")
    assert painted(page, 0)[WARPS[0]] > 100
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for key in ("ArrowDown", "End"):
        canvas(page, 0).press(key)
    page.keyboard.press("PageDown")
    while last not in (words := page.locator(".kl-status").inner_text()):
        page.keyboard.press("PageDown")
        assert page.locator(".kl-status").inner_text() != words
    (holder, *_) = layout.holders(tuple(size - 1 for size in shape))
    assert f"warp {holder.warp}, lane {holder.lane}, register {holder.register}" in words
    box = page.locator(".kl-grid-box").first
    assert box.evaluate("(one) => one.scrollTop + one.scrollLeft") > 0
    # The thread that holds the element is brought into sight in the other picture.
    other = page.locator(".kl-grid-box canvas:last-child").nth(1)
    assert sum(other.evaluate(COLORS).values()) > 0


@pytest.mark.slow
def test_a_replicated_element_has_the_colors_of_all_its_warps(open_page) -> None:
    tile = Layout.blocked(shape=(1, 1), size_per_thread=[1, 1], **BLOCKED)
    page = open_page(tile.show())
    page.wait_for_selector("[data-ready]")
    assert set(WARPS) <= set(painted(page, 0))
    expect(page.locator(".kl-legend")).to_contain_text("each element is held 128 times")
    canvas(page, 0).press("ArrowDown")
    expect(page.locator(".kl-status")).to_contain_text("element (0, 0): warp 0, lane 0")
    expect(page.locator(".kl-status")).to_contain_text("and 120 more")


@pytest.mark.slow
@needs_tensor_memory
def test_a_narrow_cell_another_slice_and_foreign_text(open_page) -> None:
    evil = "<img src=x onerror=alert(1)></script>"
    (tile,) = layout_fixture.layouts()[3].show().data.tiles
    strange = dataclasses.replace(tile, name=evil, encoding=evil, words=evil)
    data = LayoutView("layout", evil, (strange,), 0, None, evil)
    view = View(evil, lambda: data, lambda: [Card(evil, evil)])
    page = open_page(view, width=400)
    page.wait_for_selector("[data-ready]")
    assert page.locator("img").count() == 0
    for place in (".kl-head", ".kl-layout-words"):
        expect(page.locator(place)).to_contain_text(evil)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    widths = page.locator(".kl-panel").evaluate_all("(all) => all.map((one) => one.clientWidth)")
    assert max(widths) > 300
    for _ in range(40):
        canvas(page, 1).press("ArrowDown")
    expect(page.locator(".kl-status")).to_contain_text("in slice [1, :, :]")


def of_both_memories() -> tuple[RegisterLayout, Layout]:
    """The same 64x32 tile in the registers of four warps, and swizzled in shared memory."""
    registers = blocked((64, 32), [1, 4], [8, 4], [4, 1], [1, 0])
    shared = Layout.swizzled_shared(
        shape=(64, 32), vector=8, per_phase=2, max_phase=4, order=[1, 0]
    )
    return registers, shared


@pytest.mark.slow
def test_registers_and_shared_memory_have_their_own_colors(open_page) -> None:
    registers, shared = of_both_memories()
    page = open_page(registers.show(to=shared))
    expect(page.get_by_label("Colors")).to_have_value("warp | bank")
    expect(page.get_by_label("Compared with")).to_have_value("1")
    legend = page.locator(".kl-legend")
    expect(legend).to_contain_text("warp 3")
    expect(legend).to_contain_text("bank 0 to 31")
    # A row of 32 elements of two bytes has 16 banks; each warp has whole rows.
    assert set(WARPS) <= set(painted(page, 0))
    assert len(painted(page, 1)) >= 32
    page.get_by_label("Colors").select_option("row of the tile")
    expect(legend.locator("span")).to_have_text(["row of the tile 0 to 63"])
    page.get_by_label("Compared with").select_option("")
    expect(page.get_by_label("Colors")).to_have_value("warp")


@pytest.mark.slow
def test_the_footer_follows_the_picture(open_page) -> None:
    """Bytes and banks by hand: element 175 is at byte 350 with 2 bytes, at 1,400 with 8;
    128 bytes are 32 banks.
    """
    _, shared = of_both_memories()
    element = next(n for n in range(64 * 32) if shared.holders((n // 32, n % 32))[0].offset == 175)
    page = open_page(shared.show())
    status = page.locator(".kl-status")
    for _ in range(element // 32 + 1):
        canvas(page, 0).press("ArrowDown")
    for _ in range(element % 32):
        canvas(page, 0).press("ArrowRight")
    expect(status).to_contain_text("(byte 350), bank 23")
    page.get_by_label("Bytes of an element").select_option("8")
    expect(status).to_contain_text("(byte 1400), bank 30")


@pytest.mark.slow
def test_another_tile_forgets_what_was_pointed_at(open_page) -> None:
    view = of_corpus("matmul", "sm_90").layouts().show()
    page = open_page(view)
    canvas(page, 0).press("ArrowDown")
    expect(page.locator(".kl-status")).to_contain_text("warp 0")
    other = next(n for n in range(len(view.data.tiles)) if n != view.data.left)
    page.get_by_label("Tile", exact=True).select_option(str(other))
    expect(page.locator(".kl-status")).to_have_text("")


@pytest.mark.slow
def test_threads_side_by_side_are_numbered(open_page) -> None:
    tile = blocked((64,), [2], [32], [1], [0])
    page = open_page(tile.show())
    expect(page.locator(".kl-panel-title").nth(1)).to_have_text(
        "registers of each thread, 16 threads a row: +1 is the one after the row's first"
    )


@pytest.mark.slow
def test_a_view_begins_with_the_colors_that_were_asked_for(open_page, raised) -> None:
    registers, shared = of_both_memories()
    page = open_page(registers.show(by="lane"))
    expect(page.get_by_label("Colors")).to_have_value("lane")
    page = open_page(registers.show(to=shared, by="offset"))
    expect(page.get_by_label("Colors")).to_have_value("warp | offset")
    raised(LayoutError, registers.show, by="laen", match="laen")
