"""Public functions that take a kernel's arguments and their own options: a keyword that is both is
the kernel's parameter.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, TypeVar

R = TypeVar("R")

NamesOf = Callable[[Any], Sequence[str]]
"""The names of the parameters that a function's first argument (a kernel, a compilation) has."""


def keyword_only(function: Callable[..., Any]) -> list[Parameter]:
    """Return the keyword-only parameters of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]


def parameters_first(
    names_of: NamesOf, options: Sequence[Parameter] | None = None
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function of `(subject, ..., args, keywords, *, OPTIONS)`, which is then called as
    `function(subject, ..., *args, OPTIONS, **keywords)`. `options` are the options of a function
    that takes them as `**options`.

    A keyword is an option where the subject has no parameter of that name, or where that parameter
    is given by position; any other keyword is among `keywords`, whatever its value.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(function)
        leading = list(signature.parameters.values())
        leading = leading[: [parameter.name for parameter in leading].index("args")]
        own_options = keyword_only(function) if options is None else options
        option_names = frozenset(option.name for option in own_options)

        @functools.wraps(function)
        def called(*given: Any, **keywords: Any) -> R:
            __tracebackhide__ = True
            count = len(leading)
            first = list(given[:count])
            for parameter in leading[len(first) :]:
                if parameter.name not in keywords and parameter.default is Parameter.empty:
                    raise TypeError(
                        f"{function.__name__}() is missing its argument {parameter.name!r}"
                    )
                first.append(keywords.pop(parameter.name, parameter.default))
            args = given[count:]
            if option_names.isdisjoint(keywords):
                return function(*first, args, keywords)
            parameters = names_of(first[0])[len(args) :]
            names = [name for name in keywords if name in option_names and name not in parameters]
            own = {name: keywords.pop(name) for name in names}
            return function(*first, args, keywords, **own)

        called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                *leading,
                Parameter("args", Parameter.VAR_POSITIONAL, annotation="Any"),
                *own_options,
                Parameter("keywords", Parameter.VAR_KEYWORD, annotation="Any"),
            ],
            return_annotation=signature.return_annotation,
        )
        return called

    return decorate
