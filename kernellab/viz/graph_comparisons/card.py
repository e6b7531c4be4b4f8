"""The card of a comparison of eager torch with what torch.compile made of a call."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.common.formatting import counted
from kernellab.graphs.comparison import GraphComparison
from kernellab.records.graph_comparisons import Difference
from kernellab.viz.kit.card import Card, Table, card_of

_MOST_ROWS = 12
"""Of differences; the comparison has all."""


@card_of.register
def comparison_card(record: GraphComparison) -> Card:
    """The first difference in words, all of them, and what was compared."""
    how = "generated kernels, interpreted" if record.run == "triton" else "ATen operations"
    return Card(
        title=record.name,
        subtitle=f"eager torch and {how}, for {record.target}, node by node",
        tables=(
            Table(
                "Differences",
                ("node", "level", "line", "eager", "compiled", "wrong", "kernel"),
                [_row(one) for one in record.differences[:_MOST_ROWS]],
            ),
            Table(
                "Compared",
                ("graph", "FX values and gradients", "nodes after passes", "buffers"),
                [
                    (
                        f"{one.direction} {one.number}",
                        str(one.fx),
                        str(one.passes),
                        str(one.buffers),
                    )
                    for one in record.graphs
                ],
                numbers=(1, 2, 3),
            ),
        ),
        notes=tuple(_notes(record)),
    )


def _notes(record: GraphComparison) -> Iterator[str]:
    if record.error:
        yield f"It stopped: {record.error}"
    for one in record.graphs:
        if one.obstacle:
            yield f"The {one.direction} graph {one.number} was not compared whole: {one.obstacle}"
    if record.first is not None:
        yield f"The first of {counted(len(record.differences), 'difference')}: {record.first}"
        if record.launch is not None:
            yield "comparison.trace().show() opens the kernel's launch at the first wrong element."
    elif record.graphs:
        yield "No value differs by more than rounding explains."
    else:
        yield "Nothing was compiled, so that nothing was compared."


def _row(one: Difference) -> tuple[str, ...]:
    name = f"gradient of {one.node}" if one.is_gradient else one.node
    line = "" if one.position is None else str(one.position.line)
    kernel = f"{one.kernel}:{one.line}" if one.line else one.kernel
    share = f"{one.wrong:,} of {one.size:,}"
    return name, one.level, line, f"{one.right:.6g}", f"{one.found:.6g}", share, kernel
