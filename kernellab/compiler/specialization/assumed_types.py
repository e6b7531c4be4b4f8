"""Types for parameters that no one has said anything about."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kernellab import triton_api
from kernellab.compiler.specialization.inductor_kernels import InductorKernel
from kernellab.compiler.specialization.parameter_roles import Role, parameter_roles
from kernellab.compiler.specialization.type_strings import StatedType, annotated_type
from kernellab.errors import ArgumentError

_ASSUMED: dict[Role, str] = {"pointer": "*fp32:16", "integer": "i32", "float": "fp32"}


def assume(kernel: Any, given: Collection[str] = ()) -> dict[str, StatedType]:
    """Types for the parameters that no one has said anything about,
    to be shown as what they are: an assumption.

    An annotation goes first, and so do the types of a kernel that Inductor generated. Else a
    parameter that the kernel loads from or stores to is "*fp32:16", one that takes part in
    addresses, masks and loops is "i32", and any other is "fp32". A tl.constexpr is never guessed.

    Args:
        kernel: a Triton or Gluon JIT function.
        given: names of the parameters whose value or type is known.

    Returns:
        Parameter name -> its type, with "annotation" or "assumption" as its origin;
        to be given to `bind` by name.

    Raises:
        ArgumentError: a parameter is a tensor descriptor, whose block shape cannot be guessed.
    """
    roles = parameter_roles(kernel)
    types: dict[str, StatedType] = {}
    for parameter in kernel.params:
        if parameter.name in given or parameter.is_constexpr or parameter.has_default:
            continue
        if isinstance(kernel, InductorKernel):
            types[parameter.name] = StatedType(kernel.types[parameter.name], "annotation")
            continue
        if (annotated := annotated_type(parameter)) is not None:
            types[parameter.name] = StatedType(annotated, "annotation")
            continue
        role = roles[parameter.name]
        if role == "descriptor":
            raise ArgumentError(
                f"{parameter.name!r} of {kernel.__name__!r} is used as a tensor descriptor, and "
                "its block shape is not known.",
                advice=(
                    f'State it: {parameter.name}="tensordesc<fp16[128,64]>", with the type and '
                    "shape that you "
                    "use."
                ),
                position=triton_api.parameter_position(kernel, parameter.name),
            )
        types[parameter.name] = StatedType(_ASSUMED[role], "assumption")
    return types
