"""Shared memory over the operations of a program, drawn by matplotlib: `compilation.shared_memory().plot()`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from kernellab.findings import SharedBuffer, SharedMemory
from kernellab.viz.figures import FigurePicture, sheet
from kernellab.viz.palette import BLIND_SAFE, INK, VERMILION, ink_on
from kernellab.wording import counted

_WIDTH, _HEIGHT = 8.4, 4.4
"""Inches."""

_LETTER = 0.0098
"""How wide a letter of a label is, as a share of the picture's width."""
_LINE = 0.047
"""How high a line of a label is, as a share of the picture's height."""
_GAP = 0.008
"""Between a buffer and a label beside it, as a share of the picture's width."""
_TICK = 0.032
"""How far apart line numbers have to be, as a share of the picture's width."""

_LEAST_WIDTH = 0.006
"""How wide a buffer is drawn at least, as a share of the picture's width: scratch space lives for one operation."""

_HEADROOM = 1.07
"""How high the picture is, in totals."""

_MOST_BESIDE = 24
"""Of more buffers none is named beside its rectangle: nobody could tell whose name it is."""

_MOST_LISTED = 12
"""Buffers that are named below the picture, for want of room in it: the largest."""


class AllocationPlot(FigurePicture):
    """The buffers of a program's shared memory: bytes upwards, operations to the right.

    Offsets, sizes and the total are the compiler's; life spans and so the bytes in use are worked out here (see `SharedBuffer`).

    Attributes:
        memory: what is drawn.
    """

    def __init__(self, memory: SharedMemory) -> None:
        self.memory = memory

    def __repr__(self) -> str:
        count = counted(len(self.memory.buffers), "buffer")
        return (
            f"<plot of shared memory{_of(self.memory)}: {count}, {self.memory.total_bytes:,} bytes>"
        )

    def _draw(self) -> Figure:
        return _draw(self.memory)


def allocation_plot(memory: SharedMemory) -> AllocationPlot:
    """The picture of a program's shared memory."""
    return AllocationPlot(memory)


def _of(memory: SharedMemory) -> str:
    return f" of {memory.kernel}" if memory.kernel else ""


def _draw(memory: SharedMemory) -> Figure:
    if not memory.buffers:
        return _draw_nothing(memory)
    figure, axes = sheet(f"Shared memory{_of(memory)}", _subtitle(memory), _WIDTH, _HEIGHT)
    axes.set_xlim(*_span(memory))
    axes.set_ylim(0, memory.total_bytes * _HEADROOM)
    _draw_regions(axes, memory)
    colours = _colours(memory.buffers)
    boxes = {one: _draw_buffer(axes, one, colours[_plain(one.name)]) for one in memory.buffers}
    unnamed = list(_name(axes, boxes, colours))
    _list_below(figure, unnamed, colours)
    _draw_levels(axes, memory)
    _label_bytes(axes, memory.total_bytes)
    _label_lines(axes, memory)
    return figure


def _draw_nothing(memory: SharedMemory) -> Figure:
    figure, axes = sheet(f"Shared memory{_of(memory)}", "", _WIDTH, 1.2)
    axes.set_axis_off()
    words = f"The program has no buffer there; a launch asks for {memory.total_bytes:,} bytes."
    axes.text(0, 0.5, words, transform=axes.transAxes, va="center")
    return figure


def _subtitle(memory: SharedMemory) -> str:
    words = f"{counted(len(memory.buffers), 'buffer')}; dashed: the {memory.total_bytes:,} bytes that a launch asks for"
    busiest = memory.busiest_operation
    if busiest is not None and len(memory.buffers) > 1:
        words += f"; triangle: most in use at once, {memory.bytes_in_use(busiest):,} (estimated from life spans)"
    shown = ["hatched: scratch space of one operation"] if any(one.is_scratch for one in memory.buffers) else []  # fmt: skip
    shown += ["shaded: groups of warps, which run at once"] if memory.warp_groups else []
    return f"{words}\n{'; '.join(shown)}" if shown else words


def _span(memory: SharedMemory) -> tuple[float, float]:
    """The operations that are drawn: those of the buffers, and a few around them."""
    first = min(one.first_operation for one in memory.buffers)
    last = max(one.last_operation for one in memory.buffers)
    around = max(2.0, 0.04 * (last - first))
    return first - around, last + 1 + around


def _plain(name: str) -> str:
    """A buffer's name without the number that tells it from others of that name."""
    return name.partition("#")[0]


def _colours(buffers: Sequence[SharedBuffer]) -> Mapping[str, str]:
    names = list(dict.fromkeys(_plain(one.name) for one in buffers))
    # Grey is the axes'.
    return {name: BLIND_SAFE[place % (len(BLIND_SAFE) - 1)] for place, name in enumerate(names)}


def _draw_regions(axes: Axes, memory: SharedMemory) -> None:
    """Loops as brackets at the top, the parts of a warp-specialised kernel as shades."""
    for start, end in memory.warp_groups:
        axes.axvspan(start, end + 1, color=INK, alpha=0.1, linewidth=0)
    low, high = axes.get_xlim()
    for start, end in memory.loops:
        if end < low or start > high:
            continue
        left, right = max(start, low), min(end + 1, high)
        axes.annotate(
            "", (left, 1), (right, 1), xycoords=("data", "axes fraction"), annotation_clip=False,
            arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": INK, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
        if right - left > 0.06 * (high - low):
            axes.text((left + right) / 2, 0.995, "loop", transform=axes.get_xaxis_transform(), ha="center", va="top", fontsize=7)  # fmt: skip


@dataclass(frozen=True)
class _Box:
    """Part of the picture, in shares of its width and height from below left."""

    left: float
    bottom: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def top(self) -> float:
        return self.bottom + self.height

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right
            and self.bottom < other.top and other.bottom < self.top
        )  # fmt: skip

    def holds(self, other: _Box) -> bool:
        return (
            self.left <= other.left and other.right <= self.right
            and self.bottom <= other.bottom and other.top <= self.top
        )  # fmt: skip


_PICTURE = _Box(0, 0, 1.02, 1 / _HEADROOM)
"""Where words may stand: not above the dashed line, where loops are named."""


def _draw_buffer(axes: Axes, buffer: SharedBuffer, colour: str) -> _Box:
    """One rectangle; gives where it is."""
    (first, last), (_, top) = axes.get_xlim(), axes.get_ylim()
    whole = last - first
    width = max(buffer.last_operation + 1 - buffer.first_operation, _LEAST_WIDTH * whole)
    left = (buffer.first_operation - first) / whole
    box = _Box(left, buffer.offset / top, width / whole, buffer.size_bytes / top)
    # Of a thin one its own colour has to remain.
    edge = ink_on(colour) if box.height > _LINE / 2 else colour
    axes.add_patch(
        Rectangle(
            (buffer.first_operation, buffer.offset), width, buffer.size_bytes, facecolor=colour,
            edgecolor=edge, linewidth=0.4, hatch="////" if buffer.is_scratch else None,
        )
    )  # fmt: skip
    return box


def _name(
    axes: Axes, boxes: Mapping[SharedBuffer, _Box], colours: Mapping[str, str]
) -> Iterator[SharedBuffer]:
    """Write each buffer's name, line and size in it or beside it; gives those for which there is no room."""
    taken: list[_Box] = []
    for buffer, box in sorted(boxes.items(), key=lambda pair: -pair[0].size_bytes):
        crowded = len(boxes) > _MOST_BESIDE
        others = [*(other for one, other in boxes.items() if one is not buffer), *taken]
        for words, place in _places(_parts(buffer), box):
            inside = box.holds(place)
            free = inside or (not (crowded or place.meets(box)) and _PICTURE.holds(place))
            if free and not any(place.meets(other) for other in others):
                colour = colours[_plain(buffer.name)]
                axes.text(
                    place.left + place.width / 2, place.bottom + place.height / 2, words, transform=axes.transAxes,
                    ha="center", va="center", fontsize=8, color=ink_on(colour) if inside else INK,
                    bbox={"facecolor": colour, "linewidth": 0, "pad": 1.5} if inside and buffer.is_scratch else None,
                )  # fmt: skip
                taken.append(place)
                break
        else:
            yield buffer


def _parts(buffer: SharedBuffer) -> list[str]:
    line = [f"line {buffer.position.line}"] if buffer.position else []
    return [buffer.name, *line, bytes_words(buffer.size_bytes)]


def _places(parts: Sequence[str], box: _Box) -> Iterator[tuple[str, _Box]]:
    """Where a buffer's words could stand, the best place first: in one line or several, inside, beside, above."""
    forms = [(", ".join(parts), len(", ".join(parts)), 1)]
    forms.append(("\n".join(parts), max(map(len, parts)), len(parts)))
    sized = [(words, letters * _LETTER, lines * _LINE) for words, letters, lines in forms]
    for words, width, height in sized:
        middle = box.left + (box.width - width) / 2, box.bottom + (box.height - height) / 2
        yield words, _Box(*middle, width, height)
    for words, width, height in sized:
        low = max(0.0, box.bottom + (box.height - height) / 2)
        yield words, _Box(box.right + _GAP, low, width, height)
        yield words, _Box(box.left - _GAP - width, low, width, height)
    for words, width, height in sized:
        for left in (box.left + (box.width - width) / 2, box.left, box.right - width):
            yield words, _Box(left, box.top + _GAP, width, height)


def _list_below(figure: Figure, unnamed: Sequence[SharedBuffer], colours: Mapping[str, str]) -> None:  # fmt: skip
    """Name the buffers that have no room for their names in a list below the picture."""
    if not unnamed:
        return
    listed = unnamed[:_MOST_LISTED]
    marks: list[Patch] = [
        Patch(
            facecolor=(colour := colours[_plain(one.name)]), edgecolor=ink_on(colour), linewidth=0.4,
            hatch="////" if one.is_scratch else None, label=", ".join(_parts(one)),
        )
        for one in listed
    ]  # fmt: skip
    if len(unnamed) > len(listed):
        marks.append(Patch(alpha=0, label=f"and {len(unnamed) - len(listed)} more: .table() has all"))  # fmt: skip
    longest = max(len(", ".join(_parts(one))) for one in listed)
    columns = max(1, min(3, int(1 / (longest * _LETTER * 0.9 + 0.06))))
    figure.set_figheight(_HEIGHT + 0.18 * (-(-len(marks) // columns)) + 0.1)
    figure.legend(handles=marks, loc="outside lower left", ncols=columns, fontsize=7)


def _draw_levels(axes: Axes, memory: SharedMemory) -> None:
    """The total that a launch asks for, and where most is in use."""
    axes.axhline(memory.total_bytes, color=VERMILION, linewidth=1, linestyle="--")
    busiest = memory.busiest_operation
    if busiest is not None and len(memory.buffers) > 1:
        axes.plot(busiest, 0, "^", color=VERMILION, markersize=6, clip_on=False, zorder=5)


def bytes_words(size: float) -> str:
    """ "48 KiB", "512 B", "1.5 KiB"."""
    return f"{size / 1024:.4g} KiB" if size >= 1024 else f"{size:.4g} B"


def _label_bytes(axes: Axes, total: int) -> None:
    """Ticks at a power of two of bytes."""
    step = 2 ** max(0, (total // 4).bit_length() - 1)
    ticks = range(0, total + 1, step)
    axes.set_yticks(ticks, [f"{at:,} B" if step < 1024 else bytes_words(at) for at in ticks])
    axes.set_ylabel("offset in shared memory")


def _label_lines(axes: Axes, memory: SharedMemory) -> None:
    """The kernel's lines, where buffers begin and end first, then wherever there is room."""
    low, high = axes.get_xlim()
    ends = [at for one in memory.buffers for at in (one.first_operation, one.last_operation)]
    shown: dict[int, int] = {}
    for at in dict.fromkeys([*sorted(ends), *dict(memory.positions)]):
        line = _line_at(memory, at)
        far = all(abs(at - other) >= _TICK * (high - low) for other in shown)
        if line is not None and low <= at <= high and far:
            shown[at] = line
    places = sorted(shown)
    # A number is said once while the program stays on its line.
    told = [at for before, at in zip([None, *places], places) if before is None or shown[before] != shown[at]]  # fmt: skip
    axes.set_xticks(told, [str(shown[at]) for at in told], fontsize=7)
    axes.set_xlabel("operations in the order of the program, named by the kernel's lines")


def _line_at(memory: SharedMemory, operation: int) -> int | None:
    """The kernel's line of an operation: the last one that the text has come to."""
    line = None
    for at, position in memory.positions:
        if at > operation:
            break
        line = position.line
    return line
