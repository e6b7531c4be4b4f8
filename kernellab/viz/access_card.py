"""The card of a launch's accesses to global memory: what each costs, and what they cost together."""

from __future__ import annotations

import linecache

from kernellab.memory_costs.records import Accesses, GlobalAccess
from kernellab.viz.card import Card, Table

_COLUMNS = ("access", "line", "elements at once", "requests", "sectors", "a request", "useful", "programs a sector", "")  # fmt: skip


def accesses_card(accesses: Accesses) -> Card:
    """One row for each access, and the bytes of all together."""
    grid = "x".join(str(size) for size in accesses.grid)
    total = [
        ("different sectors (L2)", f"{accesses.footprint_bytes:,} bytes"),
        ("read from cold DRAM", f"{accesses.dram_bytes_read:,} bytes"),
        ("written to DRAM", f"{accesses.dram_bytes_written:,} bytes"),
    ]
    return Card(
        title=f"{accesses.kernel}: {len(accesses)} accesses to global memory",
        subtitle=f"{accesses.target}, grid {grid}",
        tables=(
            Table("", _COLUMNS, [_row(one) for one in accesses]),
            Table("Together", (), total),
        ),
        notes=tuple(f"{finding}." for finding in accesses.findings),
    )


def _row(one: GlobalAccess) -> tuple[str, ...]:
    place = one.position
    return (
        f"{one.action} of {one.argument}" if one.argument else one.action,
        str(place.line) if place else "",
        str(one.vector_width) if one.encoding else "",
        f"{one.requests:,}",
        f"{one.sectors:,}",
        f"{one.sectors_per_request:.3g}",
        f"{one.efficiency:.0%}",
        f"{one.reuse_between_programs:.3g}",
        linecache.getline(place.file, place.line).strip() if place else "",
    )
