"""How the arguments of a call become a `Specialization`.

Real values go through Triton's own binder, so that the signature, constants and attributes are
those of a launch on the GPU. Type strings ("*fp16:16", "i32") stand for values that are not there
yet, and may be mixed with values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.compiler.specialization.careful_binding import CarefulBinding
from kernellab.compiler.specialization.known_kernels import BoundCall, known_kernel
from kernellab.records import Target

__all__ = ["BoundCall", "bind"]


def bind(
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: Target,
    *,
    options: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> BoundCall:
    """Bind a call's arguments to the kernel's parameters and specialize it,
    as Triton would for a launch on `target`.

    Args:
        kernel: a Triton or Gluon JIT function.
        args: values or type strings, by position. A value is a torch tensor, a NumPy array (shared,
            not copied), a number, None, a tuple of these, a tensor descriptor, or whatever a
            tl.constexpr parameter takes.
        keywords: values or type strings by parameter name; other names are options of the
            target's backend.
        target: the GPU to specialize for.
        options: backend options, also those whose name is a kernel parameter's.
        constants: parameter name -> value to compile in, whether or not the kernel declares
            it tl.constexpr.

    Raises:
        ArgumentError: arguments that do not fit the kernel; the message names the parameter and
            the kernel's line.
        OptionError: a keyword that no one takes, or an option value that the backend refuses.
    """
    known = known_kernel(kernel, target)
    native = None if options or constants else known.bind_natively(args, keywords)
    if native is None:
        return CarefulBinding(known, args, keywords, options or {}, constants or {}).finish()
    values, types, leftover = native
    if leftover:
        leftover = known.check_options(leftover)
    return known.bound(values, types, leftover)
