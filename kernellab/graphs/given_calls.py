"""A call that is captured, as it was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class GivenCall:
    """A call as it was given: nothing of it is copied.

    Attributes:
        function: the function or the module.
        args, keywords: its arguments.
        request: the options of `kernellab.graph`, and the function's name.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    keywords: Mapping[str, Any]
    request: Mapping[str, Any]
