"""The figures that matplotlib draws: the front end's colors, and what was asked for."""

import html
import re
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from typing import Any

import matplotlib.image
import numpy
import pytest
from matplotlib import rcParams
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from PIL import Image

from kernellab.compiler.analyses import records
from kernellab.errors import ArgumentError, KernelLabError, LayoutError, SourcePosition
from kernellab.records.layouts import Layout
from kernellab.viz.kit import palette
from kernellab.viz.kit.figure import theme
from tests.support import versions
from tests.support.compiled import of_corpus
from tests.support.layouts import blocked
from tests.support.source_files import ROOT


def test_the_palette_is_the_front_ends() -> None:
    script = (ROOT / "js/src/palette.ts").read_text()
    blind_safe = re.search(r"BLIND_SAFE[^=]*= (\[[^\]]*\])", script)
    anchors = re.search(r"ANCHORS[^=]*= \[(.*?)\n\];", script, re.DOTALL)
    assert blind_safe
    assert anchors
    assert tuple(re.findall(r"#[0-9a-f]{6}", blind_safe[1])) == palette.BLIND_SAFE
    found = re.findall(r"\[(\d+), (\d+), (\d+)\]", anchors[1])
    assert tuple(tuple(map(int, one)) for one in found) == palette.VIRIDIS


def test_figures_are_read_on_the_front_ends_light_and_dark_paper() -> None:
    papers = re.findall(r"--kl-paper: (#\w+)", (ROOT / "js/src/style.css").read_text())
    assert papers[:2] == [palette.LIGHT_PAPER, palette.DARK_PAPER]
    assert papers[2:] == ["#ffffff", "#000000"], "those of high contrast"
    for paper in papers:
        # WCAG asks for 4.5 of small words; 4.5 on both papers at once no ink has.
        assert palette.contrast(palette.INK, paper) > 4.1
        for color in (palette.BEST, palette.OTHER, palette.BASELINE, *palette.LINES):
            assert palette.contrast(color, paper) >= 3


def test_contrast_is_that_of_wcag() -> None:
    assert palette.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert palette.contrast("#777777", "#ffffff") == pytest.approx(
        4.48, abs=0.01
    )  # WCAG's own example
    assert palette.sequential(0) == "#440154"
    assert palette.sequential(1) == "#fde725"
    assert palette.sequential(float("nan")) == "#440154"


@pytest.mark.slow
def test_a_users_own_style_stays_and_changes_nothing_here() -> None:
    memory = of_corpus("matmul", "sm_90").shared_memory()
    expected = memory.plot().png()
    before = rcParams["font.size"], rcParams["axes.facecolor"]
    rcParams["font.size"], rcParams["axes.facecolor"] = 30, "#ff0000"
    try:
        with theme():
            assert rcParams["font.size"] == 9
        assert memory.plot().png() == expected
        assert (rcParams["font.size"], rcParams["axes.facecolor"]) == (30, "#ff0000")
    finally:
        rcParams["font.size"], rcParams["axes.facecolor"] = before


def rectangles(memory: records.SharedMemory) -> list[tuple[float, float, float, float]]:
    """First operation, offset, operations, bytes of each rectangle of the picture."""
    patches = memory.plot().figure.axes[0].patches
    return [
        (*one.get_xy(), one.get_width(), one.get_height())
        for one in patches
        if type(one) is Rectangle and one.get_height() > 1
    ]


def words(memory: records.SharedMemory) -> str:
    return re.sub(r"<[^>]*>", "\n", memory.plot().svg())


def buffer(name: str, offset: int, size: int, first: int, last: int) -> records.SharedBuffer:
    return records.SharedBuffer(
        name, "ttg.local_alloc", offset, size, first, last, SourcePosition("k.py", 7, 3)
    )


def memory_of(*buffers: records.SharedBuffer) -> records.SharedMemory:
    total = max(one.end for one in buffers)
    return records.SharedMemory(
        buffers, total, "llir.allocate_shared_memory_nv", "k", ((0, SourcePosition("k.py", 7, 3)),)
    )


def test_the_picture_has_the_compilers_offsets_and_sizes() -> None:
    compilation = of_corpus("matmul", "sm_90")
    memory = compilation.shared_memory()
    # What Triton's own text says of the same module, read without the analysis.
    allocated = next(one for one in compilation.passes if "allocate_shared_memory" in one.label)
    offsets = [int(one) for one in re.findall(r"allocation\.offset = (\d+)", allocated.text.read())]
    drawn = rectangles(memory)
    assert sorted(offset for _, offset, _, _ in drawn) == sorted(offsets)
    assert [size for *_, size in drawn] == [3 * 128 * 64 * 2, 3 * 64 * 128 * 2, 128 * 128 * 2]
    assert max(offset + size for _, offset, _, size in drawn) == compilation.resources.shared_bytes
    text = words(memory)
    for said in (
        "a, line 36, 48 KiB", "b, line 37, 48 KiB", "convert_layout",
        "98,304 bytes that a launch asks for", "estimated", "loop",
    ):  # fmt: skip
        assert said in text


def test_bytes_in_use_are_counted_once_and_at_the_busiest_operation() -> None:
    memory = memory_of(
        buffer("a", 0, 100, 1, 9), buffer("b", 50, 100, 5, 6), buffer("c", 200, 10, 8, 12)
    )
    taken = {
        at: len(
            {
                byte
                for one in memory.buffers
                if one.first_operation <= at <= one.last_operation
                for byte in range(one.offset, one.end)
            }
        )
        for at in range(14)
    }
    assert {at: memory.bytes_in_use(at) for at in range(14)} == taken
    assert memory.busiest_operation == 5
    assert memory.bytes_in_use(5) == 150
    assert records.SharedMemory((), 0, "").busiest_operation is None


@pytest.mark.slow
def test_loops_and_groups_of_warps_are_where_the_module_has_them() -> None:
    memory = of_corpus("matmul_tma_specialized", "sm_100").shared_memory()
    assert len(memory.warp_groups) >= 3
    assert memory.loops
    inside = [
        group
        for group in memory.warp_groups
        for loop in memory.loops
        if group[0] <= loop[0] and loop[1] <= group[1]
    ]
    assert len(set(inside)) >= 2
    assert "which run at once" in words(memory)
    assert of_corpus("softmax", "sm_90").shared_memory().loops == ()


def test_a_program_without_shared_memory_says_so() -> None:
    memory = of_corpus("vector_add", "sm_90").shared_memory()
    assert "no buffer there; a launch asks for 0 bytes" in words(memory)
    assert repr(memory.plot()) == "<plot of shared memory of vector_add: 0 buffers, 0 bytes>"


@pytest.mark.slow
def test_tensor_memory_has_the_compilers_columns() -> None:
    compilation = of_corpus("attention_forward", "sm_100")
    memory = compilation.tensor_memory()
    allocated = next(one for one in compilation.passes if one.name == "allocate_tensor_memory")
    columns = [
        int(one) for one in re.findall(r"tensor_memory_col_offset = (\d+)", allocated.text.read())
    ]
    drawn = [
        (*one.get_xy(), one.get_height())
        for one in memory.plot().figure.axes[0].patches
        if type(one) is Rectangle and one.get_height() > 1
    ]
    assert sorted(column for _, column, _ in drawn) == sorted(columns)
    assert {height for *_, height in drawn} == {64, 32}
    text = re.sub(r"<[^>]*>", "\n", memory.plot().svg())
    assert re.search(r"accumulator, line \d+, 64 columns", text)
    for said in (
        "the 256 columns (of 512)",
        "in use at once, 160",
    ):
        assert said in text


def test_half_rows_have_a_part_of_the_picture_of_their_own() -> None:
    lower = records.TensorBuffer("a", "ttng.tmem_alloc", 0, 64, 0, 64, 1, 9, None)
    upper = replace(lower, name="b", row=16)
    whole = records.TensorBuffer("c", "ttng.tmem_alloc", 64, 32, 0, 128, 2, 8, None)
    assert not lower.overlaps(upper)
    memory = records.TensorMemory((lower, upper, whole), 128, "llir.allocate_tensor_memory")
    patches = memory.plot().figure.axes[0].patches
    drawn = [
        (one.get_xy()[1], one.get_height())
        for one in patches
        if type(one) is Rectangle and one.get_height() > 1
    ]
    assert drawn == [(0, 64), (128, 64), (64, 32), (192, 32)]
    assert memory.columns_in_use(5) == 96
    assert "rows 16 to 31 of each warp" in memory.plot().svg()


def test_a_target_without_tensor_memory_says_so() -> None:
    memory = of_corpus("matmul", "sm_90").tensor_memory()
    assert "sm_90 has no tensor memory" in memory.plot().svg()
    assert memory.table().empty
    assert memory.busiest_operation is None


def test_names_are_words_whatever_is_in_them() -> None:
    svg = memory_of(buffer("$x_{2}$ <b>&", 0, 64, 1, 1)).plot().svg()
    assert "<b>" not in svg
    assert "$x_{2}$ &lt;b&gt;&amp;" in svg


@pytest.mark.slow
def test_the_gaps_between_the_cells_of_a_layout_are_alike() -> None:
    layout = Layout.nvidia_mma(
        shape=(64, 64), version=3, warps_per_cta=(4, 1), instruction_shape=(16, 64, 16)
    )
    with Image.open(BytesIO(layout.plot().png())) as picture:
        assert picture.mode == "P"
        paint = numpy.asarray(picture.convert("RGBA"))[..., 3]
    across = paint[paint.sum(axis=1).argmax()]  # through a row of cells
    gaps = across[slice(*numpy.flatnonzero(across > 250)[[0, -1]])] < 200
    assert numpy.count_nonzero(gaps[1:] & ~gaps[:-1]) == 31  # T0:{c0,c1} is one box


@pytest.mark.slow
def test_pictures_have_transparent_paper_and_are_the_same_each_time(tmp_path, raised) -> None:
    memory = of_corpus("matmul", "sm_90").shared_memory()
    first, second = memory.plot(), memory.plot()
    assert first.png() == second.png()
    assert first.svg() == second.svg()
    for kind in ("svg", "pdf", "png"):
        files = [
            one.save(tmp_path / f"{number}.{kind}") for number, one in enumerate((first, second))
        ]
        assert files[0].read_bytes() == files[1].read_bytes()
    with pytest.raises(ArgumentError, match=r"picture\.docx"):
        first.save(tmp_path / "picture.docx")
    raised(KernelLabError, first.save, tmp_path / "nowhere/picture.svg")
    pixels = matplotlib.image.imread(BytesIO(first._repr_png_()))
    assert pixels[0, -1, 3] == 0
    assert numpy.unique(pixels[..., 3]).size > 1


def said(picture: Any) -> list[str]:
    return [html.unescape(one) for one in re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg())]


def boxes(picture: Any) -> list[str]:
    return [to_hex(one) for one in picture.figure.axes[0].collections[0].get_facecolor()]


@pytest.mark.slow
def test_a_fragment_is_labeled_as_in_the_ptx_manual() -> None:
    # PTX ISA, accumulators of mma.m16n8k8: row = lane / 4 (and 8 more for c2, c3),
    # column = lane % 4 * 2 + i % 2.
    layout = Layout.nvidia_mma(
        shape=(16, 8), version=2, warps_per_cta=[1, 1], instruction_shape=[16, 8]
    )
    expected = [
        f"T{lane}:{{c{half * 2},c{half * 2 + 1}}}" for half in range(2) for lane in range(32)
    ]
    assert [one for one in said(layout.plot()) if one.startswith("T")] == expected
    assert "colored by lane" in said(layout.plot())


def test_boxes_have_the_colors_of_their_warps_and_banks() -> None:
    rows = blocked((8, 8), (1, 1), (4, 8), (2, 1), (1, 0))
    assert boxes(rows.plot()) == [
        palette.BLIND_SAFE[row // 4] for row in range(8) for _ in range(8)
    ]
    assert boxes(rows.plot(hardware=True)) == [palette.BLIND_SAFE[t // 32] for t in range(64)]
    swizzled = Layout.swizzled_shared(
        shape=(8, 8), vector=2, per_phase=1, max_phase=4, order=[1, 0]
    )
    for bits in (16, 32):
        # The formula of the swizzle: vectors of two, their number XOR the row's phase.
        banks = [
            (row * 8 + (column // 2 ^ row % 4) * 2 + column % 2) * bits // 8 % 128 // 4
            for row in range(8)
            for column in range(8)
        ]
        assert boxes(swizzled.plot(element_bits=bits)) == [
            palette.sequential(one / 31) for one in banks
        ]


def test_the_hardwares_picture_has_every_element_where_it_is(messages) -> None:
    swizzled = Layout.swizzled_shared(
        shape=(4, 8), vector=2, per_phase=1, max_phase=4, order=[1, 0]
    )
    words = [one for one in said(swizzled.plot(hardware=True, element_bits=32)) if "," in one]
    assert words[:32] == [
        f"{row},{(place // 2 ^ row) * 2 + place % 2}" for row in range(4) for place in range(8)
    ]
    replicated = blocked((4, 4), (1, 1), (4, 8), (1, 1), (1, 0))
    assert " ".join(said(replicated.plot(hardware=True))) == messages


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1), (64,), (2, 16, 32), (256, 256), (1024, 1024)])
def test_tiles_of_any_shape_are_drawn(shape: tuple[int, ...]) -> None:
    rank = len(shape)
    layout = blocked(
        shape,
        (1,) * rank,
        (1,) * (rank - 1) + (32,),
        (4,) + (1,) * (rank - 1),
        tuple(reversed(range(rank))),
    )
    for hardware in (False, True):
        assert layout.plot(hardware=hardware).png().startswith(b"\x89PNG")
    if rank == 3:
        assert "slice (1, :, :)" in " ".join(said(layout.plot(at=(1,))))


@pytest.mark.slow
def test_numbers_beside_and_in_a_picture_stand_apart() -> None:
    """Those of neighbors, by what the renderer measures."""
    products = Layout.nvidia_mma(
        shape=(64, 64), version=2, warps_per_cta=[2, 2], instruction_shape=[16, 8]
    )
    swizzled = Layout.swizzled_shared(
        shape=(16, 32), vector=8, per_phase=2, max_phase=4, order=[1, 0]
    )
    for figure in (products.plot(hardware=True).figure, swizzled.plot().figure):
        figure.draw_without_rendering()
        axes = figure.axes[0]
        first_row = [one for one in axes.texts if one.get_position()[1] == 3.5]
        for row in (axes.get_xticklabels(), first_row):
            boxes = [one.get_window_extent() for one in row]
            gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
            assert min(gaps, default=9) > 2, [one.get_text() for one in row]


def test_a_wrong_option_is_refused_in_words(raised) -> None:
    layout = blocked((8, 8), (1, 1), (4, 8), (2, 1), (1, 0))
    raised(LayoutError, layout.plot, by="wrap")
    raised(LayoutError, layout.plot, at=(3,))


@pytest.mark.slow
def test_the_tiles_of_a_kernel_are_drawn() -> None:
    layouts = of_corpus("matmul", "sm_90").layouts()
    for name in ("a", "accumulator"):
        tile = layouts[name][0]
        picture = tile.plot()
        assert f"{name}, line {tile.position.line if tile.position else 0}: " in " ".join(
            said(picture)
        )
    if versions.LAYS_OUT_TENSOR_MEMORY:
        tensor_memory = [
            one
            for one in of_corpus("matmul", "sm_100").layouts()
            if "tensor_memory" in one.encoding and one.layout
        ]
        assert "colored by row" in said(tensor_memory[0].plot())
