"""Cards of what was measured of a call under torch.compile."""

from __future__ import annotations

from kernellab.common.formatting import counted
from kernellab.records.graph_measures import ModeTime, Speedups
from kernellab.viz.kit.card import Card, Table, card_of


@card_of.register
def speedups_card(record: Speedups) -> Card:
    """One row a mode."""
    return Card(
        title=record.name,
        subtitle=f"{record.direction} on {record.device}, torch {record.torch_version}",
        tables=(
            Table(
                "Time of a call",
                ("", "ms", "times as fast", "first call", "distance"),
                [_mode_row(one) for one in record.modes],
                numbers=(1, 2, 3, 4),
            ),
        ),
        notes=(
            f"Medians of {counted(record.rounds, 'turn')} each, one after the other. Distance: "
            "from eager's results, relative to their largest.",
            *(f"{one.mode} failed: {one.error}" for one in record.modes if one.error),
        ),
    )


def _mode_row(one: ModeTime) -> tuple[str, ...]:
    return (
        one.mode,
        "" if one.milliseconds is None else f"{one.milliseconds:.3f}",
        "" if one.speedup is None else f"{one.speedup:.2f}",
        f"{one.first_seconds:.1f} s",
        "" if one.distance is None else f"{one.distance:.1e}",
    )
