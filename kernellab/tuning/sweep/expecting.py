"""What a sweep's configs are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.launch.right_results import Reference, right_results
from kernellab.tuning.pool.arguments import Shipment, ship


def expected_results(
    reference: Reference | None, kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Shipment | None:
    """The right results, ready to be sent; None where there is no reference.

    Raises:
        ArgumentError: the reference gives something else than tensors by the names of tensor
            parameters, of their shape.
    """
    return None if reference is None else ship(right_results(reference, kernel, args, keywords))
