"""Kernels under `triton.autotune` and `triton.heuristics`, and those that Inductor generates:
the JIT function inside, and what is around it adds to a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from kernellab import triton_api
from kernellab.common.text import shown
from kernellab.compiler.specialization.inductor_kernels import InductorKernel, as_triton_kernel
from kernellab.errors import ArgumentError

_MOST_SHOWN = 80
"""Characters of what was given in a kernel's place."""


def unwrap_kernel(
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """The JIT function inside `triton.autotune` and `triton.heuristics`,
    and the keywords with what these two add.

    An autotuner adds its first config; heuristics are computed from the arguments, as in a launch.

    Raises:
        ArgumentError: `kernel` is not a kernel, or a heuristic cannot be computed from
            these arguments.
    """
    added: dict[str, Any] = {}
    current = as_triton_kernel(kernel)
    while isinstance(current, triton_api.Autotuner | triton_api.Heuristics):
        given = {
            **dict(zip(current.arg_names, args, strict=False)),
            **added,
            **constants,
            **keywords,
        }
        if isinstance(current, triton_api.Autotuner):
            added = {**current.configs[0].all_kwargs(), **added}
        else:
            for name, compute in current.values.items():
                if name not in given:
                    added[name] = given[name] = _heuristic(name, compute, given)
        current = current.fn
    if not isinstance(current, triton_api.JITFunction):
        _check_is_no_launch(kernel)
        raise ArgumentError(
            f"{_described(kernel)} is not a Triton kernel.",
            advice="Put @triton.jit (or @gluon.jit) above the function."
            if callable(kernel)
            else "A kernel is a function under @triton.jit (or @gluon.jit).",
        )
    if isinstance(current, InductorKernel):
        positional = current.arg_names[: len(args)]
        added |= current.added({*positional, *added, *keywords})
    taken = {name: value for name, value in added.items() if name not in constants}
    return current, {**taken, **keywords}


def _check_is_no_launch(thing: Any) -> None:
    """Refuse `add[(4,)]`, a kernel with its grid, which only waits for its arguments."""
    if not isinstance(thing, FunctionType) or thing.__closure__ is None:
        return
    # What `kernel[grid]` gives, Triton's and ours, is a function within `__getitem__(self, grid)`.
    held = dict(zip(thing.__code__.co_freevars, thing.__closure__))
    if "__getitem__.<locals>" not in thing.__qualname__ or not {"self", "grid"} <= held.keys():
        return
    kernel, grid = held["self"].cell_contents, held["grid"].cell_contents
    if isinstance(kernel, triton_api.JITFunction):
        name = kernel.__name__
        raise ArgumentError(
            f"{name}[{shown(grid)}] combines the kernel and its grid, which are separate "
            "arguments here.",
            advice=f"Write {name}, {shown(grid)}, ... instead.",
        )


def _described(thing: Any) -> str:
    """What was given in a kernel's place, on one line:
    a tensor would fill the screen with its numbers.
    """
    if isinstance(thing, ModuleType):
        return f"The module {thing.__name__}"
    text = repr(thing)
    if callable(thing) or ("\n" not in text and len(text) <= _MOST_SHOWN):
        return text
    return f"A value of type {type(thing).__name__}"


def _heuristic(name: str, compute: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> Any:
    try:
        return compute(given)
    except Exception as error:
        raise ArgumentError(
            f"The heuristic for {name!r} cannot be computed from these arguments: {error!r}.",
            advice=f"Give values instead of types, or the result: {name}=...",
        ) from error


def parameter_names(kernel: Any) -> Sequence[str]:
    """Return the names of a kernel's parameters, of any kind of kernel; none of another object."""
    names = getattr(as_triton_kernel(kernel), "arg_names", ())
    return names if isinstance(names, list | tuple) else ()
