"""The card of a launch's accesses to memory: what each costs, and what they cost together."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.common.text import joined_sizes
from kernellab.errors import SourcePosition, source_line
from kernellab.profiling.accesses.records import Accesses, GlobalAccess, SharedAccess
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
    rows = [_row(access) for access in accesses]
    tables = [Table("", _COLUMNS, rows, links=_links(accesses.accesses), code=(len(_COLUMNS) - 1,))]
    if by_line := _by_line(accesses):
        title = "Lines that became several accesses"
        tables.append(Table(title, _LINE_COLUMNS, by_line, code=(len(_LINE_COLUMNS) - 1,)))
    if accesses.shared:
        rows = [_shared_row(access) for access in accesses.shared]
        code = (len(_SHARED_COLUMNS) - 1,)
        tables.append(Table("", _SHARED_COLUMNS, rows, links=_links(accesses.shared), code=code))
        total += [
            ("wavefronts of shared memory", f"{accesses.shared_wavefronts:,}"),
            ("bank conflicts among them", f"{accesses.bank_conflicts:,}"),
            ("to and from shared memory", f"{accesses.shared_bytes:,} bytes"),
        ]
    waiting = dict.fromkeys(
        access.position.line for access in accesses if access.waits and access.position
    )
    places = [access.position for access in (*accesses, *accesses.shared) if access.position]
    assumed = dict.fromkeys(access.assumed for access in accesses.shared if access.assumed)
    return Card(
        title=f"{accesses.kernel}: {len(accesses)} accesses to global memory{in_shared}",
        subtitle=f"{accesses.target}, grid {grid}",
        tables=(*tables, Table("Together", (), total)),
        notes=(
            *(f"{finding}. Try: {finding.advice}" for finding in accesses.findings),
            *(
                (
                    f"Line {line} waits for other programs: how often it runs depends on "
                    "whose turn it is."
                )
                for line in waiting
            ),
            *(f"Assumed, where a number has a ~: {what}." for what in assumed),
            *dict.fromkeys(place.notice for place in places if place.notice),
            *accesses.notes,
        ),
    )


def _links(accesses: Sequence[GlobalAccess | SharedAccess]) -> list[Link]:
    """From each access to its line in the explorer."""
    return [
        Link(
            row,
            "IR",
            f"What became of line {access.position.line}",
            "ir",
            {"line": access.position.line},
        )
        for row, access in enumerate(accesses)
        if access.position
    ]


def _row(access: GlobalAccess) -> tuple[str, ...]:
    place = access.position
    return (
        access.title,
        str(place.line) if place else "",
        str(access.vector_width) if access.encoding else "",
        f"{access.requests:,}",
        f"{access.sectors:,}",
        f"{access.sectors_per_request:.3g}",
        f"{access.efficiency:.0%}",
        f"{access.reuse_between_programs:.3g}",
        _text_of(place),
    )


def _by_line(accesses: Accesses) -> list[tuple[str, ...]]:
    """The totals of each line that became several accesses, as one in a pipelined loop does: its
    copies before the loop, in it and behind it.
    """
    lines: dict[tuple[str, int], list[GlobalAccess]] = {}
    for access in accesses:
        if access.position is not None:
            lines.setdefault((access.position.file, access.position.line), []).append(access)
    return [
        (
            str(line),
            str(len(several)),
            f"{sum(access.requests for access in several):,}",
            f"{sum(access.sectors for access in several):,}",
            _text_of(several[0].position),
        )
        for (_, line), several in lines.items()
        if len(several) > 1
    ]


def _shared_row(access: SharedAccess) -> tuple[str, ...]:
    about = "~" if access.is_model else ""
    worst = f" ({access.ways}-way)" if access.ways > 1 else ""
    return (
        access.described,
        str(access.position.line) if access.position else "",
        f"{access.instructions:,}",
        f"{about}{access.wavefronts:,}",
        f"{access.wavefronts_per_instruction:.3g}",
        f"{access.conflicts:,}{worst}",
        f"{access.bytes:,}",
        _text_of(access.position),
    )


def _text_of(place: SourcePosition | None) -> str:
    """The kernel's line itself."""
    return source_line(place.file, place.line).strip() if place else ""
