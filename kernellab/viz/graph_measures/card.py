"""Cards of what was measured of a call under torch.compile."""

from __future__ import annotations

from kernellab.common.formatting import counted
from kernellab.records.graph_measures import Ablation, AblationRow, ModeTime, Speedups
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
        _milliseconds(one.milliseconds),
        "" if one.speedup is None else f"{one.speedup:.2f}",
        f"{one.first_seconds:.1f} s",
        "" if one.distance is None else f"{one.distance:.1e}",
    )


@card_of.register
def ablation_card(record: Ablation) -> Card:
    """One row for each choice of optimisations."""
    times = (
        f"Times on {record.device}; eager torch {_milliseconds(record.eager_milliseconds)} ms."
        if record.device
        else "There are no times: torch sees no GPU on this machine."
    )
    return Card(
        title=record.name,
        subtitle=f"{record.direction}, what fusion and inlining are worth on {record.gpu}",
        tables=(
            Table(
                "Optimisations",
                ("", "kernels", "launches", "torch's calls", "bytes moved", "ms"),
                [_ablation_row(one) for one in record.rows],
                numbers=(1, 2, 3, 4, 5),
            ),
        ),
        notes=(
            f"{times} Bytes are Inductor's own count. Without inlining a node's value is stored, "
            "and not computed again in the loops of its users; without fusion each loop is a "
            "kernel.",
            *(f"{one.optimisations} stopped: {one.error}" for one in record.rows if one.error),
        ),
    )


def _ablation_row(one: AblationRow) -> tuple[str, ...]:
    return (
        one.optimisations,
        str(one.kernels),
        str(one.launches),
        str(one.calls),
        f"{one.moved_bytes:,}",
        _milliseconds(one.milliseconds),
    )


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
