"""Values of parameters as a person names them, for tables, plots and messages."""

from __future__ import annotations

from typing import Any

import triton.language as tl

from kernellab import triton_api


def format_value(value: Any) -> str:
    """A function by its name, a type as Triton writes it, anything else as text."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, triton_api.JITFunction):
        return str(value.fn.__name__)
    return str(value)
