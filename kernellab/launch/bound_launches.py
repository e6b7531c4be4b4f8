"""A launch that is bound, and not carried out: what `check`, `trace` and their likes are about."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from kernellab.common.own_options import keyword_only, parameters_first
from kernellab.compiler.specialization.unwrapping import parameter_names
from kernellab.errors import ArgumentError
from kernellab.interpreter.execution.grid import check_grid
from kernellab.launch.preparation import check_is_grid, innermost
from kernellab.records import BoundLaunch

P = ParamSpec("P")
R = TypeVar("R")


def bind(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> BoundLaunch:
    """Return a launch of a kernel that `check`, `trace`, `debug`, `accesses`, `bisect`, `tune`,
    `profile`, `diagnose` and `run` take in place of the kernel, its grid and its arguments.

        launch = kernellab.bind(add, (4,), x, y, z, n, BLOCK=256)
        kernellab.check(launch)
        kernellab.trace(launch, programs=(3, 0, 0))

    It holds the arguments: what is written to them later counts.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`.

    Raises:
        ArgumentError: the kernel is not a Triton kernel.
        GridError: a grid that no GPU would accept.
    """
    inside = innermost(kernel)
    check_is_grid(grid, "bind", inside)
    if isinstance(grid, type) or (grid is not None and not callable(grid)):
        check_grid(grid, {})
    return BoundLaunch(kernel, grid, args, keywords)


def bound_launch(
    called: str, kernel: Any, grid: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> BoundLaunch:
    """Return the launch that a function was given: bound, or as a kernel, its grid and its
    arguments.

    Args:
        called: the function's name.

    Raises:
        ArgumentError: a bound launch, and also a grid or arguments.
    """
    if not isinstance(kernel, BoundLaunch):
        return BoundLaunch(kernel, grid, args, keywords)
    if grid is not None or args or keywords:
        raise ArgumentError(
            f"{called} was given a bound launch of {kernel.name!r}, and a grid or arguments "
            "beside it.",
            advice=f"Bind them too: kernellab.bind({kernel.name}, grid, ...).",
        )
    return kernel


def takes_launch(function: Callable[Concatenate[BoundLaunch, P], R]) -> Callable[..., R]:
    """Decorate a function of `(launch, *, OPTIONS)`, which is then called as
    `function(kernel, grid, *args, OPTIONS, **keywords)` or as `function(launch, OPTIONS)`.

    A keyword that is also a parameter of the kernel is the parameter, unless that is given by
    position. A launch that has a target, or expected results, has them there too, unless the caller
    gives others.
    """
    inherited = {"target", "expect"} & inspect.signature(function).parameters.keys()

    def with_launch(
        kernel: Any, grid: Any = None, args: Any = (), keywords: Any = None, **own: Any
    ) -> R:
        __tracebackhide__ = True
        launch = bound_launch(function.__name__, kernel, grid, args, keywords)
        for name in inherited:
            if getattr(launch, name) is not None:
                own.setdefault(name, getattr(launch, name))
        return function(launch, **own)  # type: ignore[call-arg]

    with_launch.__name__ = function.__name__
    called = parameters_first(parameter_names, keyword_only(function))(with_launch)
    called.__signature__ = called.__signature__.replace(  # type: ignore[attr-defined]
        return_annotation=inspect.signature(function).return_annotation
    )
    return functools.wraps(function)(called)
