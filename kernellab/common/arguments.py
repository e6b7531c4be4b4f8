"""The arguments of public functions, and the options of magics and the command line."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import math
import numbers
import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any, TypeVar

from kernellab.common.text import shown
from kernellab.errors import MissingArguments, OptionError, nearest

# Check the arguments of public functions: one function per kind of argument.
#
# Each check raises an OptionError that names the argument, the value and what is accepted, and
# returns the value in its plain form, so that NumPy's scalars and arrays with one element and no
# axes become Python's numbers at the entry point.


def plain_scalar(value: Any) -> Any:
    """Return the number in a NumPy scalar or an array without axes; other values unchanged."""
    if getattr(value, "shape", None) != () or not hasattr(value, "dtype"):
        return value
    try:
        return value.item()
    except (RuntimeError, TypeError):  # a tensor on the meta device, a dtype
        return value


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer (Python, NumPy, an array without axes), not a bool."""
    number = plain_scalar(value)
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)


def is_flag(value: Any) -> bool:
    """Return whether a value is a bool of Python or NumPy, or 0 or 1."""
    value = plain_scalar(value)
    return isinstance(value, bool) or (is_whole(value) and value in (0, 1))


def check_flags(**values: Any) -> None:
    """Raise OptionError unless each value, given by its argument's name, is True or False."""
    for name, value in values.items():
        if not is_flag(value):
            raise OptionError(
                f"{name} must be True or False, got {shown(value)}.", advice=f"Write {name}=True."
            )


def check_whole(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """Return an integer from `least` to `most`, inclusive; raise OptionError for others."""
    if is_whole(value):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    wanted = {0: "a non-negative integer", 1: "a positive integer"}.get(
        least, f"an integer of at least {least:,}"
    )
    if most is not None:
        wanted = f"an integer from {least:,} to {most:,}"
    raise OptionError(
        f"{name} must be {wanted}, got {shown(value)}.",
        advice=f"Write {name}={max(least, 1)}, for example.",
    )


def check_duration(name: str, value: Any, example: float = 30.0, unit: str = "seconds") -> float:
    """Return a number in (0, LONGEST_SECONDS]; raise OptionError, with the unit, for others."""
    number = plain_scalar(value)
    if not is_real(number) or not 0 < number <= LONGEST_SECONDS:
        raise OptionError(
            f"{name} must be a number of {unit} above 0 and at most {LONGEST_SECONDS:,}, got "
            f"{shown(value)}.",
            advice=f"Write {name}={example:g}, for example.",
        )
    return float(number)


LONGEST_SECONDS = 1_000_000
"""Operating systems refuse to wait much longer."""


def check_tolerance(name: str, value: Any) -> float | None:
    """Return a finite number from 0, or None; raise OptionError for any other value."""
    number = plain_scalar(value)
    # torch compares with no integer of more than 64 bits.
    most = math.inf if isinstance(number, float) else 1 << 63
    if number is not None and not (is_real(number) and 0 <= number < most):
        raise OptionError(
            f"{name} must be a finite non-negative number, got {shown(value)}.",
            advice=f"Write {name}=1e-3, for example.",
        )
    return None if number is None else float(number)


def is_real(number: Any) -> bool:
    """Return whether a value is a real number; True and False are not."""
    return isinstance(number, numbers.Real) and not isinstance(number, bool)


def is_one_of(value: object, known: Collection[str]) -> bool:
    """Return whether a value is a string, and one of the known ones."""
    return isinstance(value, str) and value in known


def check_choice(name: str, value: Any, known: Collection[str], word: str | None = None) -> None:
    """Raise OptionError unless a value is known; only its part `word` is compared, if given."""
    if not is_one_of(value if word is None else word, known) or not isinstance(value, str):
        choices = ", ".join(f'"{choice}"' for choice in known)
        raise OptionError(
            f"{name} must be one of {choices}, got {shown(value)}.",
            advice=nearest(value, known) or f'Write {name}="{next(iter(known))}", for example.',
        )


MOST_ITEMS = 100_000
"""The most items that a list given as an argument may have."""


def at_most(items: object, most: int = MOST_ITEMS) -> list[Any] | None:
    """Return the items of an iterable; None if more than `most`, or not iterable."""
    iterator = _iterator(items)
    first = None if iterator is None else list(itertools.islice(iterator, most + 1))
    return None if first is None or len(first) > most else first


def _iterator(value: Any) -> Iterator[Any] | None:
    try:
        iterator: Iterator[Any] = iter(value)
    except TypeError:  # also of an array without axes, which is an Iterable by its class
        return None
    return iterator


def listed(name: str, values: object, most: int = MOST_ITEMS) -> list[Any]:
    """Return the items of an argument, which may be an iterator. Raises OptionError: the argument
    is not iterable, has more than `most` items, or has no end.
    """
    items = at_most(values, most)
    if items is None and _iterator(values) is None:
        raise OptionError(
            f"{name} must be a list, got {shown(values)}.", advice=f"Write {name}=[...]."
        )
    if items is None:
        raise OptionError(
            f"{name} must have at most {most:,} items, got {shown(values)}.",
            advice=f"Pass the items that you need as a list: {name}=[...].",
        )
    return items


def check_mapping(name: str, value: Any, example: str) -> None:
    """Raise OptionError unless a value is a mapping whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise OptionError(
            f"{name} must be a dict with names as keys, got {shown(value)}.",
            advice=f"Write {name}={example}.",
        )


# Public functions that take a kernel's arguments and their own options: a keyword that is both
# is the kernel's parameter.

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

    A keyword is an option if the subject has no parameter of that name, or if that parameter
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


# How the text of an option becomes its value, for the magics and the command line alike.
#
# Each reader raises ValueError with words for the person who typed the text.


def later(place: str) -> Callable[..., Any]:
    """Return "module:name" as a function that is imported when it is called."""
    return lambda *arguments: pkgutil.resolve_name(place)(*arguments)


def names_in(place: str) -> Callable[[], list[str]]:
    """Return what lists the names in a constant of the package, as "module:name", imported then."""
    return lambda: [getattr(item, "name", item) for item in pkgutil.resolve_name(place)]


def read_names(text: str) -> list[str]:
    """ "x_ptr, y_ptr" as ["x_ptr", "y_ptr"]."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_constexpr(text: str) -> tuple[str, Any]:
    """ "BLOCK=1024" as ("BLOCK", 1024).

    The value is a Python literal, a type of Triton's ("tl.float16"), or else the text itself.
    """
    name, equals, value = text.strip().partition("=")
    if not equals or not name.isidentifier():
        raise ValueError("must be NAME=VALUE, such as BLOCK=1024")
    if re.fullmatch(r"tl\.\w+", value):
        return name, _triton_type(value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def read_constexprs(text: str) -> list[tuple[str, Any]]:
    """ "BM=64,BN=32" as [("BM", 64), ("BN", 32)]; commas inside Python values stay."""
    _, _, value = text.partition("=")
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return [read_constexpr(part) for part in _NEXT_CONSTEXPR.split(text)]
    return [read_constexpr(text)]


_NEXT_CONSTEXPR = re.compile(r",\s*(?=[^\W\d]\w*=)")
_CONSTEXPR = re.compile(r"[^\W\d]\w*=")


def spread_constexprs(words: Sequence[str]) -> list[str]:
    """Repeat the option where "--constexpr BM=64 BN=32" gives it several values."""
    spread: list[str] = []
    follows = False
    for number, word in enumerate(words):
        if follows and _CONSTEXPR.match(word):
            spread.append("--constexpr")
        spread.append(word)
        is_value = number > 0 and words[number - 1] == "--constexpr"
        follows = is_value or (follows and _CONSTEXPR.match(word) is not None)
    return spread


def stated_by_options(missing: MissingArguments) -> str:
    """Advice for a line that compiles: the options that say what a kernel was not given."""
    options = []
    if missing.constexprs:
        options.append(f"--constexpr {','.join(f'{name}=VALUE' for name in missing.constexprs)}")
    if missing.others:
        options.append(f'--sig "..., {", ".join(f"{name}=TYPE" for name in missing.others)}"')
    words = f"Pass {' and '.join(options)}"
    return (
        f'{words}; TYPE is a type such as "*fp32:16" or "i32".' if missing.others else f"{words}."
    )


def _triton_type(text: str) -> Any:
    import triton.language as tl

    value = getattr(tl, text.removeprefix("tl."), None)
    if not isinstance(value, tl.dtype):
        raise ValueError("must name a type of triton.language, such as tl.float16")
    return value


def read_warps(text: str) -> int:
    """Read a number of warps, which is a power of two: "4" as 4."""
    number = read_whole_number(text)
    if number & (number - 1):
        raise ValueError("must be a power of two (1, 2, 4, 8, 16 or 32)")
    return number


def read_whole_number(text: str) -> int:
    """ "3" as 3: a whole number from 1."""
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("must be a positive integer")
    return int(text)


def read_tolerance(text: str) -> float:
    """ "2e-3" as 0.002: how far numbers may be apart, from 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError("must be a non-negative number, such as 1e-3")
    return number


def read_program(text: str) -> tuple[int, ...]:
    """ "2,1,0" as (2, 1, 0), "96" as (96,): a program's id."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("must be one to three numbers, such as 96 or 2,1,0")
    return numbers


# The options of a magic or a command: the keyword-only parameters of its function, which its
# docstring explains.

_EXPLAINED = re.compile(r"^  (?:(-\w), )?((?:--)?[a-z][\w-]*) ?(\S*)((?:\n {6}.*)+)$", re.MULTILINE)
"""An option in a docstring: flags or an argument's name, a metavar, and help below."""


def no_values() -> Iterable[str]:
    """An option whose values cannot be listed."""
    return ()


@dataclass(frozen=True)
class Option:
    """One option of a magic or a command, or an argument of a command.

    Attributes:
        read: turns the value's text into the value, or raises with words for the user.
        repeated: whether the option may be given several times; its value is then a list.
        default: its value if it is not given.
        count: how many words an argument is, as argparse's nargs; None is one.
        name: the parameter: "num_warps" for "--num-warps".
        flag: "" for an argument.
        short: "-o"; "" if there is none.
        metavar: the value's name in the help; "" for an option that takes none.
    """

    read: Callable[[str], Any] = str
    values: Callable[[], Iterable[str]] = no_values
    repeated: bool = False
    default: Any = None
    count: str | None = None
    required: bool = False
    name: str = ""
    flag: str = ""
    short: str = ""
    metavar: str = ""
    help: str = ""


option: Any = Option
"""A parameter whose default value is `option(...)` is an option. The docstring lists it with its
metavar and its help. An option that is not given is `default`, [] if it may be repeated, and False
if it takes no value.
"""


def options_of(function: Callable[..., Any], help: str) -> Iterator[Option]:
    """Yield the options that a function's signature declares and `help` explains."""
    explained = {name: rest for short, name, *rest in _EXPLAINED.findall(help)}
    shorts = {name: short for short, name, *_ in _EXPLAINED.findall(help)}
    for parameter in inspect.signature(function).parameters.values():
        is_option = parameter.kind is Parameter.KEYWORD_ONLY
        name = parameter.name.rstrip("_").replace("_", "-")  # "with" and "break" are Python's
        key = f"--{name}" if is_option else name
        if not is_option and key not in explained:  # a magic's line, and `**given`
            continue
        metavar, text = explained[key]
        is_required = parameter.default is Parameter.empty
        made: Option = Option() if is_required else parameter.default
        default = [] if made.repeated else made.default if metavar else False
        yield replace(
            made, default=default, required=is_required, name=parameter.name, short=shorts[key],
            flag=key if is_option else "", metavar=metavar, help=" ".join(text.split()),
        )  # fmt: skip
