"""Two compilations in the explorer."""

from __future__ import annotations

from typing import Any

from kernellab.compiler.compare import Comparison
from kernellab.viz.comparisons.card import comparison_card
from kernellab.viz.explorer.annotations import annotated, annotations_by_side
from kernellab.viz.explorer.card import annotation_cards
from kernellab.viz.explorer.sides import explore_comparison
from kernellab.viz.explorer.view import Explorer
from kernellab.viz.kit.view import view_of


@view_of.register
def comparison_view(comparison: Comparison, *given: Any) -> Explorer:
    """Return the explorer of two compilations; evidence is shown on each side that it belongs to.

    Raises:
        ArgumentError, ProfileError: as `compilation_view`, where evidence is of neither.
    """
    left, right = comparison.left, comparison.right
    kernels = " and ".join(dict.fromkeys([left.kernel, right.kernel]))
    sides = annotations_by_side(comparison, given)
    return Explorer(
        f"{kernels}: {comparison.names[0]} and {comparison.names[1]}",
        lambda: annotated(explore_comparison(comparison), sides),
        lambda: [
            comparison_card(comparison),
            *annotation_cards(left, sides[0], comparison.names[0]),
            *annotation_cards(right, sides[1], comparison.names[1]),
        ],
    )
