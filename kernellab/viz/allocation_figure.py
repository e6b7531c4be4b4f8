"""Shared and tensor memory over a program's operations, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from kernellab.common.text import counted
from kernellab.compiler.analyses.records import (
    SharedBuffer,
    SharedMemory,
    TensorBuffer,
    TensorMemory,
)
from kernellab.viz.kit.figure import FigurePicture, figure_of, sheet
from kernellab.viz.kit.palette import BLIND_SAFE, INK, VERMILION, ink_on

_WIDTH, _HEIGHT = 8.4, 4.4
"""Inches."""

_LETTER = 0.0098
"""How wide a letter of a label is, as a share of the picture's width."""
_LINE = 0.047
"""How high a line of a label is, as a share of the picture's height."""
_TICK = 0.032
"""How far apart line numbers have to be, as a share of the picture's width."""

_LEAST_WIDTH = 0.006
"""A buffer's least width as a share of the picture's: scratch space lives for one operation."""

_HEADROOM = 1.07
"""How high the picture is, in totals."""

_MOST_LISTED = 12
"""Buffers that are named below the picture, for want of space in it: the largest."""


@figure_of.register(SharedMemory)
@figure_of.register(TensorMemory)
class AllocationPlot(FigurePicture):
    """A program's buffers over operations; sizes are the compiler's, life spans ours."""

    def __init__(self, memory: SharedMemory | TensorMemory) -> None:
        self.memory = memory

    def __repr__(self) -> str:
        return f"<plot of {_chart(self.memory).summary}>"

    def _draw(self) -> Figure:
        return _draw(_chart(self.memory))


@dataclass(frozen=True)
class _Piece:
    """A rectangle: a buffer, or its part in one half of the rows."""

    name: str
    start: int
    size: int
    first: int
    last: int
    words: tuple[str, ...]
    """Its label: name, line, size."""
    is_scratch: bool = False


@dataclass(frozen=True)
class _Chart:
    """A picture of memory, whatever it is measured in."""

    title: str
    subtitle: str
    summary: str
    nothing: str
    """The text that replaces a picture without pieces."""
    pieces: tuple[_Piece, ...]
    total: int
    """The bytes that a launch requests: the dashed line."""
    busiest: int | None
    """The operation of the triangle."""
    upwards: str
    ticks: tuple[tuple[int, str], ...]
    borders: tuple[int, ...]
    """Where one part of the memory ends and another begins."""
    memory: SharedMemory | TensorMemory


def _chart(memory: SharedMemory | TensorMemory) -> _Chart:
    return _shared_chart(memory) if isinstance(memory, SharedMemory) else _tensor_chart(memory)


def _shared_chart(memory: SharedMemory) -> _Chart:
    count, total = counted(len(memory.buffers), "buffer"), memory.total_bytes
    busiest = memory.busiest_operation if len(memory.buffers) > 1 else None
    words = f"{count}; dashed: the {total:,} bytes that a launch asks for"
    if busiest is not None:
        words += _MOST_IN_USE % f"{memory.bytes_in_use(busiest):,}"
    is_hatched = any(buffer.is_scratch for buffer in memory.buffers)
    shown = ["hatched: scratch space of one operation"] if is_hatched else []
    # Ticks at a power of two of bytes.
    step = 2 ** max(0, (total // 4).bit_length() - 1)
    ticks = tuple(
        (at, f"{at:,} B" if step < 1024 else format_bytes(at)) for at in range(0, total + 1, step)
    )
    return _Chart(
        title=f"Shared memory{_of(memory)}",
        subtitle=_with_signs(words, shown, memory),
        summary=f"shared memory{_of(memory)}: {count}, {total:,} bytes",
        nothing=f"The program has no buffer there; a launch asks for {total:,} bytes.",
        pieces=tuple(
            _Piece(
                buffer.name,
                buffer.offset,
                buffer.size_bytes,
                buffer.first_operation,
                buffer.last_operation,
                _format_buffer(buffer, format_bytes(buffer.size_bytes)),
                buffer.is_scratch,
            )
            for buffer in memory.buffers
        ),
        total=total,
        busiest=busiest,
        upwards="offset in shared memory",
        ticks=ticks,
        borders=(),
        memory=memory,
    )


def _tensor_chart(memory: TensorMemory) -> _Chart:
    """Draw columns upward; of buffers with half the rows, the upper half goes above."""
    count, total = counted(len(memory.buffers), "buffer"), memory.total_columns
    busiest = memory.busiest_operation if len(memory.buffers) > 1 else None
    words = f"{count}; dashed: the {total} columns (of 512) that the program asks for"
    if busiest is not None:
        words += _MOST_IN_USE % memory.columns_in_use(busiest)
    halved = any(buffer.rows != 128 for buffer in memory.buffers)
    halves = "above the line: rows 16 to 31 of each warp's 32, below it rows 0 to 15"
    shown = [halves] if halved else []
    step = max(1, total // 4)
    ticks = tuple(
        (half * total + at, str(at))
        for half in range(2 if halved else 1)
        for at in range(0, total if halved and not half else total + 1, step)
    )
    return _Chart(
        title=f"Tensor memory{_of(memory)}",
        subtitle=_with_signs(words, shown, memory),
        summary=f"tensor memory{_of(memory)}: {count}, {total} columns",
        nothing=memory.absence,
        pieces=tuple(
            _Piece(
                buffer.name,
                half * total + buffer.column,
                buffer.columns,
                buffer.first_operation,
                buffer.last_operation,
                _format_buffer(buffer, counted(buffer.columns, "column")),
            )
            for buffer in memory.buffers
            for half in (buffer.halves if halved else (0,))
        ),
        total=2 * total if halved else total,
        busiest=busiest,
        upwards="column of tensor memory",
        ticks=ticks,
        borders=(total,) if halved else (),
        memory=memory,
    )


_MOST_IN_USE = "; triangle: most in use at once, %s (estimated from life spans)"


def _of(memory: SharedMemory | TensorMemory) -> str:
    return f" of {memory.kernel}" if memory.kernel else ""


def _with_signs(words: str, shown: list[str], memory: SharedMemory | TensorMemory) -> str:
    """A subtitle: what is drawn, then what the signs in it mean."""
    groups = ["shaded: groups of warps, which run at once"] if memory.warp_groups else []
    signs = "; ".join([*shown, *groups])
    return f"{words}\n{signs}" if signs else words


def _format_buffer(buffer: SharedBuffer | TensorBuffer, size: str) -> tuple[str, ...]:
    line = [f"line {buffer.position.line}"] if buffer.position else []
    return (buffer.name, *line, size)


# Drawing


def _draw(chart: _Chart) -> Figure:
    if not chart.pieces:
        figure, axes = sheet(chart.title, "", _WIDTH, 1.2)
        axes.set_axis_off()
        axes.text(0, 0.5, chart.nothing, transform=axes.transAxes, va="center")
        return figure
    figure, axes = sheet(chart.title, chart.subtitle, _WIDTH, _HEIGHT)
    axes.set_xlim(*_span(chart))
    axes.set_ylim(0, chart.total * _HEADROOM)
    _draw_regions(axes, chart)
    colors = _colors(chart.pieces)
    by_size = sorted(chart.pieces, key=lambda piece: -piece.size)
    unnamed = [each for each in by_size if not _draw_piece(axes, each, colors[_plain(each.name)])]
    _list_below(figure, unnamed, colors)
    for border in chart.borders:
        axes.axhline(border, color=INK, linewidth=0.8)
    axes.axhline(chart.total, color=VERMILION, linewidth=1, linestyle="--")
    if chart.busiest is not None:
        axes.plot(chart.busiest, 0, "^", color=VERMILION, markersize=6, clip_on=False, zorder=5)
    axes.set_yticks([at for at, _ in chart.ticks], [words for _, words in chart.ticks])
    axes.set_ylabel(chart.upwards)
    _label_lines(axes, chart)
    return figure


def _span(chart: _Chart) -> tuple[float, float]:
    """The operations that are drawn: those of the buffers, and a few around them."""
    first = min(piece.first for piece in chart.pieces)
    last = max(piece.last for piece in chart.pieces)
    around = max(2.0, 0.04 * (last - first))
    return first - around, last + 1 + around


def _plain(name: str) -> str:
    """Return a buffer's name without the number that distinguishes buffers of the same name."""
    return name.partition("#")[0]


def _colors(pieces: Sequence[_Piece]) -> Mapping[str, str]:
    names = list(dict.fromkeys(_plain(piece.name) for piece in pieces))
    # Gray is the axes'.
    return {name: BLIND_SAFE[place % (len(BLIND_SAFE) - 1)] for place, name in enumerate(names)}


_BRACKET = {
    "arrowstyle": "|-|,widthA=0.25,widthB=0.25",
    "color": INK,
    "linewidth": 0.8,
    "shrinkA": 0,
    "shrinkB": 0,
}


def _draw_regions(axes: Axes, chart: _Chart) -> None:
    """Loops as brackets at the top, the parts of a warp-specialized kernel as shades."""
    for start, end in chart.memory.warp_groups:
        axes.axvspan(start, end + 1, color=INK, alpha=0.1, linewidth=0)
    low, high = axes.get_xlim()
    for start, end in chart.memory.loops:
        if end < low or start > high:
            continue
        left, right = max(start, low), min(end + 1, high)
        axes.annotate(
            "",
            (left, 1),
            (right, 1),
            xycoords=("data", "axes fraction"),
            annotation_clip=False,
            arrowprops=_BRACKET,
        )
        if right - left > 0.06 * (high - low):
            middle, place = (left + right) / 2, axes.get_xaxis_transform()
            axes.text(middle, 0.995, "loop", transform=place, ha="center", va="top", fontsize=7)


def _draw_piece(axes: Axes, piece: _Piece, color: str) -> bool:
    """Draw a buffer with its name, line and size in it; return whether they have space there."""
    (first, last), (_, top) = axes.get_xlim(), axes.get_ylim()
    width = max(piece.last + 1 - piece.first, _LEAST_WIDTH * (last - first))
    share, height = width / (last - first), piece.size / top
    axes.add_patch(
        Rectangle(
            (piece.first, piece.start),
            width,
            piece.size,
            facecolor=color,
            # Of a thin one its own color has to remain.
            edgecolor=ink_on(color) if height > _LINE / 2 else color,
            linewidth=0.4,
            hatch="////" if piece.is_scratch else None,
        )
    )
    for words in (", ".join(piece.words), "\n".join(piece.words)):
        lines = words.split("\n")
        if max(map(len, lines)) * _LETTER <= share and len(lines) * _LINE <= height:
            axes.text(
                piece.first + width / 2,
                piece.start + piece.size / 2,
                words,
                ha="center",
                va="center",
                fontsize=8,
                color=ink_on(color),
                bbox={"facecolor": color, "linewidth": 0, "pad": 1.5} if piece.is_scratch else None,
            )
            return True
    return False


def _list_below(figure: Figure, unnamed: Sequence[_Piece], colors: Mapping[str, str]) -> None:
    """Name the buffers that have no space for their names in a list below the picture."""
    if not unnamed:
        return
    listed = unnamed[:_MOST_LISTED]
    marks: list[Patch] = [
        Patch(
            facecolor=(color := colors[_plain(piece.name)]),
            edgecolor=ink_on(color),
            linewidth=0.4,
            hatch="////" if piece.is_scratch else None,
            label=", ".join(piece.words),
        )
        for piece in listed
    ]
    more = len(unnamed) - len(listed)
    if more:
        marks.append(Patch(alpha=0, label=f"and {more} more: .table() has all"))
    longest = max(len(", ".join(piece.words)) for piece in listed)
    columns = max(1, min(3, int(1 / (longest * _LETTER * 0.9 + 0.06))))
    figure.set_figheight(_HEIGHT + 0.18 * (-(-len(marks) // columns)) + 0.1)
    figure.legend(handles=marks, loc="outside lower left", ncols=columns, fontsize=7)


def format_bytes(size: float) -> str:
    """Format a number of bytes: "48 KiB", "512 B", "1.5 KiB"."""
    return f"{size / 1024:.4g} KiB" if size >= 1024 else f"{size:.4g} B"


def _label_lines(axes: Axes, chart: _Chart) -> None:
    """The kernel's lines, where buffers begin and end first, then wherever there is space."""
    low, high = axes.get_xlim()
    ends = [at for piece in chart.pieces for at in (piece.first, piece.last)]
    shown: dict[int, int] = {}
    for at in dict.fromkeys([*sorted(ends), *dict(chart.memory.positions)]):
        line = _line_at(chart, at)
        far = all(abs(at - other) >= _TICK * (high - low) for other in shown)
        if line is not None and low <= at <= high and far:
            shown[at] = line
    places = sorted(shown)
    # A number is said once while the program stays on its line.
    before = [None, *(shown[at] for at in places)]
    labeled = [at for line, at in zip(before, places) if line != shown[at]]
    axes.set_xticks(labeled, [str(shown[at]) for at in labeled], fontsize=7)
    axes.set_xlabel("operations in the order of the program, named by the kernel's lines")


def _line_at(chart: _Chart, operation: int) -> int | None:
    """The kernel's line of an operation: the last one that the text has come to."""
    line = None
    for at, position in chart.memory.positions:
        if at > operation:
            break
        line = position.line
    return line
