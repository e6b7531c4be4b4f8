"""The card of a launch's accesses to memory: what each costs, and what they cost together."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.common.formatting import joined_sizes
from kernellab.errors import SourcePosition, source_line
from kernellab.profiling.accesses.records import Accesses, GlobalAccess
from kernellab.profiling.accesses.shared_records import SharedAccess
from kernellab.viz.kit.card import Card, Table, card_of
from kernellab.viz.kit.data import Link

_COLUMNS = (
    "access", "line", "elements at once", "requests", "sectors", "a request", "useful",
    "programs a sector", "",
)  # fmt: skip
_LINE_COLUMNS = ("line", "accesses", "requests", "sectors", "")
_SHARED_COLUMNS = (
    "in shared memory", "line", "instructions", "wavefronts", "each", "bank conflicts", "bytes", "",
)  # fmt: skip


@card_of.register
def accesses_card(accesses: Accesses) -> Card:
    """One row for each access, and the bytes of all together."""
    grid = joined_sizes(accesses.grid)
    total = [
        ("different sectors (L2)", f"{accesses.footprint_bytes:,} bytes"),
        ("read from cold DRAM", f"{accesses.dram_bytes_read:,} bytes"),
        ("written to DRAM", f"{accesses.dram_bytes_written:,} bytes"),
    ]
    in_shared = f", {len(accesses.shared)} to shared memory" if accesses.shared else ""
    rows = [_row(one) for one in accesses]
    tables = [Table("", _COLUMNS, rows, links=_links(accesses.accesses))]
    if by_line := _by_line(accesses):
        tables.append(Table("Lines that became several accesses", _LINE_COLUMNS, by_line))
    if accesses.shared:
        rows = [_shared_row(one) for one in accesses.shared]
        tables.append(Table("", _SHARED_COLUMNS, rows, links=_links(accesses.shared)))
        total += [
            ("wavefronts of shared memory", f"{accesses.shared_wavefronts:,}"),
            ("bank conflicts among them", f"{accesses.bank_conflicts:,}"),
            ("to and from shared memory", f"{accesses.shared_bytes:,} bytes"),
        ]
    waiting = dict.fromkeys(one.position.line for one in accesses if one.waits and one.position)
    places = [one.position for one in (*accesses, *accesses.shared) if one.position]
    assumed = dict.fromkeys(one.assumed for one in accesses.shared if one.assumed)
    return Card(
        title=f"{accesses.kernel}: {len(accesses)} accesses to global memory{in_shared}",
        subtitle=f"{accesses.target}, grid {grid}",
        tables=(*tables, Table("Together", (), total)),
        notes=(
            *(f"{one}. Try: {one.advice}" for one in accesses.findings),
            *(
                (
                    f"Line {line} waits for other programs: how often it runs depends on "
                    "whose turn it is."
                )
                for line in waiting
            ),
            *(f"Assumed, where a number has a ~: {what}." for what in assumed),
            *dict.fromkeys(one.notice for one in places if one.notice),
        ),
    )


def _links(accesses: Sequence[GlobalAccess | SharedAccess]) -> list[Link]:
    """From each access to its line in the explorer."""
    return [
        Link(
            row, "IR", f"What became of line {one.position.line}", "ir", {"line": one.position.line}
        )
        for row, one in enumerate(accesses)
        if one.position
    ]


def _row(one: GlobalAccess) -> tuple[str, ...]:
    place = one.position
    return (
        one.title,
        str(place.line) if place else "",
        str(one.vector_width) if one.encoding else "",
        f"{one.requests:,}",
        f"{one.sectors:,}",
        f"{one.sectors_per_request:.3g}",
        f"{one.efficiency:.0%}",
        f"{one.reuse_between_programs:.3g}",
        _text_of(place),
    )


def _by_line(accesses: Accesses) -> list[tuple[str, ...]]:
    """The totals of each line that became several accesses, as one in a pipelined loop does: its
    copies before the loop, in it and behind it.
    """
    lines: dict[tuple[str, int], list[GlobalAccess]] = {}
    for one in accesses:
        if one.position is not None:
            lines.setdefault((one.position.file, one.position.line), []).append(one)
    return [
        (
            str(line),
            str(len(several)),
            f"{sum(one.requests for one in several):,}",
            f"{sum(one.sectors for one in several):,}",
            _text_of(several[0].position),
        )
        for (_, line), several in lines.items()
        if len(several) > 1
    ]


def _shared_row(one: SharedAccess) -> tuple[str, ...]:
    about = "~" if one.is_model else ""
    worst = f" ({one.ways}-way)" if one.ways > 1 else ""
    return (
        one.described,
        str(one.position.line) if one.position else "",
        f"{one.instructions:,}",
        f"{about}{one.wavefronts:,}",
        f"{one.wavefronts_per_instruction:.3g}",
        f"{one.conflicts:,}{worst}",
        f"{one.bytes:,}",
        _text_of(one.position),
    )


def _text_of(place: SourcePosition | None) -> str:
    """The kernel's line itself."""
    return source_line(place.file, place.line).strip() if place else ""
