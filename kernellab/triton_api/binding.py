"""From the arguments of a call to what Triton specializes on: its own binder, for any target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triton._C.libtriton import native_specialize_impl
from triton.runtime.jit import (
    create_function_from_signature,
)

from kernellab.records import Target
from kernellab.triton_api.targets import backend_for

Binder = Callable[..., tuple[dict[str, Any], list[Any], dict[str, Any]]]
"""Called like the kernel; gives values by parameter, (type, hint) by parameter,
and the keywords that are not parameters."""


def create_binder(kernel: Any, target: Target) -> Binder:
    """Triton's own binder of a kernel for a target:
    the same specialization that a launch on that GPU would make.
    """
    binder: Binder = create_function_from_signature(
        kernel.signature, kernel.params, backend_for(target)
    )
    return binder


def make_specialization(
    kernel: Any,
    values: Mapping[str, Any],
    types: Sequence[Any],
    target: Target,
) -> tuple[dict[str, Any], dict[Any, Any], dict[Any, Any]]:
    """Signature, constants and attributes, by Triton's own code, from what a binder gave."""
    _, signature, constants, attributes = kernel._pack_args(
        backend_for(target), {}, dict(values), types, {}
    )
    return signature, constants, attributes


def binding_error(value: Any, target: Target) -> Exception | None:
    """None if Triton can pass this value to a kernel, else the exception with which it refuses."""
    try:
        native_specialize_impl(backend_for(target), value, False, True, True)
    except Exception as error:
        return error
    return None
