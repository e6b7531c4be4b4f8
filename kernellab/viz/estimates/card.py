"""The cards of an estimate of time, of a roofline, and of counters beside what is predicted."""

from __future__ import annotations

from kernellab.common.text import counted, joined_sizes
from kernellab.profiling.estimates.estimate import Estimate, Roofline
from kernellab.profiling.profiles.nsight import Counters
from kernellab.viz.kit.card import Card, Table, card_of

_SMALL = 0.02
"""Parts that are busy for a smaller share of the time are left out."""


@card_of.register
def estimate_card(estimate: Estimate) -> Card:
    """The time, what bounds it, and a row for each part."""
    rows = [
        (
            part.name,
            f"{part.microseconds:.3g}",
            f"{part.at_least:.3g}" if part.at_least else "",
            part.counted,
        )
        for part in estimate.parts
        if part.microseconds >= _SMALL * estimate.microseconds
    ]
    return Card(
        title=f"{estimate.kernel}: about {estimate.microseconds:.3g} us",
        subtitle=f"{estimate.gpu}, grid {joined_sizes(estimate.grid)}; {estimate.accuracy}",
        tables=(Table("", ("part", "busy, us", "at least, us", "counted"), rows, numbers=(1, 2)),),
        notes=(f"Bound by {estimate.bound}.", *estimate.notes),
    )


@card_of.register
def roofline_card(roofline: Roofline) -> Card:
    """Operations and bytes, with their roofs."""
    operations = [
        (
            operation.name,
            f"{operation.amount:,.0f}",
            f"{operation.peak / 1e6:,.4g} T/s",
            f"{operation.microseconds:.3g}",
        )
        for operation in roofline.operations
    ]
    memory = [
        (
            level.name,
            f"{level.amount:,.0f}",
            f"{level.peak / 1e3:,.0f} GB/s",
            f"{level.microseconds:.3g}",
            f"{roofline.intensity.get(level.name, 0):.3g}",
        )
        for level in roofline.memory
    ]
    pipes = [(name, f"{often:,.0f}") for name, often in roofline.instructions.items() if often]
    return Card(
        title=(f"{roofline.kernel}: {roofline.reached:.0%} of what {roofline.highest.name} allows"),
        subtitle=(
            f"{roofline.gpu}, grid {joined_sizes(roofline.grid)}; {roofline.microseconds:.3g} us "
            f"({roofline.time_from}), {roofline.rate:.3g} TFLOP/s"
        ),
        tables=(
            Table(
                "", ("unit", "operations", "peak", "at least, us"), operations, numbers=(1, 2, 3)
            ),
            Table(
                "",
                ("memory", "bytes", "peak", "at least, us", "operations a byte"),
                memory,
                numbers=(1, 2, 3, 4),
            ),
            Table("Instructions of warps", ("unit", "executed"), pipes, numbers=(1,)),
        ),
        notes=roofline.notes,
    )


@card_of.register
def counters_card(counters: Counters) -> Card:
    """One row a counter: what was counted, and what the lab says with no GPU."""
    rows = [
        (
            counter.name,
            _number(counter.measured),
            _number(counter.predicted),
            "" if counter.ratio is None else f"{counter.ratio:.3g}",
            counter.unit,
        )
        for counter in counters
    ]
    columns = ("counter", "measured", "predicted", "ratio", "unit")
    return Card(
        title=f"{counters.kernel}: {counted(len(counters), 'counter')}",
        subtitle=f"{counters.gpu or 'predicted alone'}, grid {joined_sizes(counters.grid)}",
        tables=(Table("", columns, rows, numbers=(1, 2, 3)),),
        notes=counters.notes,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.4g}"


_WHOLE = 1000
"""From here on parts of one do not matter."""
