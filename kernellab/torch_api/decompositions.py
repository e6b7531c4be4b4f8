"""Operations of torch as simpler ones: torch's own decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch._decomp

_decompositions: Any = torch._decomp


def decomposition_of(operation: Any) -> Callable[..., Any] | None:
    """The function that computes an operation by others; None where torch has none."""
    function: Callable[..., Any] | None = _decompositions.decomposition_table.get(operation)
    if function is None and operation._can_decompose():
        return operation.decompose  # type: ignore[no-any-return]
    return function


def changes_an_argument(operation: Any) -> bool:
    """Whether an operation writes to one of its arguments."""
    return bool(operation._schema.is_mutable)
