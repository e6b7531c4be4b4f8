"""What values a backend's options may have: of the type that the backend declares, and within what
a GPU has. Triton passes on most of them as they are.
"""

from __future__ import annotations

import functools
import os
import typing
from collections.abc import Callable, Mapping
from typing import Any

from kernellab.common.arguments import is_flag, is_whole
from kernellab.common.text import shown
from kernellab.errors import OptionError, nearest
from kernellab.records import Target
from kernellab.triton_api.targets import backend_for, backend_options


def check_options(options: Mapping[str, Any], target: Target) -> None:
    """Refuse values that mean nothing, then let the backend judge what is left.

    Raises:
        OptionError: a value of another type than the option's, out of its range, or one that the
            backend refuses, in the backend's words.
    """
    kinds = _kinds(target)
    for name, value in options.items():
        if value is None or name not in kinds:
            continue
        wanted = [_KINDS[kind] for kind in kinds[name]]
        if wanted and not any(accepts(value) for accepts, _ in wanted):
            words = " or ".join(what for _, what in wanted)
            raise OptionError(
                f"{name} must be {words}, got {shown(value)}.",
                advice=f"{target} has the default {name}={shown(backend_options(target)[name])}.",
            )
        _check_range(name, value)
    _check_words(options, target)
    try:
        backend_for(target).parse_options(dict(options))
    except Exception as error:
        given = ", ".join(f"{name}={shown(value)}" for name, value in options.items())
        raise OptionError(
            f"{target} does not accept {given}: {error}", advice=_power_of_two(options, str(error))
        ) from error


def _power_of_two(options: Mapping[str, Any], words: str) -> str:
    """The neighbors of a number that should be a power of two; "" of other complaints."""
    for name, value in options.items():
        if is_whole(value) and value > 1 and f"{name} must be a power of 2" in words:
            below = 1 << (int(value).bit_length() - 1)
            return f"Give {name}={below} or {name}={2 * below}."
    return ""


_KINDS: Mapping[type, tuple[Callable[[Any], bool], str]] = {
    int: (is_whole, "an integer"),
    bool: (is_flag, "True or False"),
    str: (lambda value: isinstance(value, str), "a text"),
    tuple: (
        lambda value: (
            isinstance(value, tuple | list | set) and all(isinstance(item, str) for item in value)
        ),
        "a tuple of names",
    ),
    dict: (lambda value: _names_files(value), "a dict from names to paths of files that are there"),
}
"""Type of an option -> whether a value is of it, and what it is called."""


def _names_files(value: Any) -> bool:
    """Of a dict, or of its items, which is what backends make of it."""
    try:
        files = dict(value)
    except (TypeError, ValueError):
        return False
    paths = files.values()
    return all(isinstance(path, str | os.PathLike) and os.path.isfile(path) for path in paths)


_RANGES: Mapping[str, tuple[int, int]] = {
    "num_warps": (1, 64),
    "num_ctas": (1, 16),
    "num_stages": (0, 100),
    "maxnreg": (1, 255),
    "waves_per_eu": (0, 32),
}
"""The least and the most that mean something. Warps are at most 32 on a GPU of warps of 32 lanes,
which is said where a kernel is compiled; a cluster has at most 16 CTAs, a thread 255 registers
(CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"). Each stage is a
copy of a loop's loads before the loop, and a buffer for each: 100 are more than any memory holds.
"""


def _check_range(name: str, value: Any) -> None:
    if name not in _RANGES or not is_whole(value):
        return
    least, most = _RANGES[name]
    if not least <= value <= most:
        raise OptionError(
            f"{name}={shown(value)} is out of range.",
            advice=f"Give a whole number from {least} to {most}.",
        )
    if name == "num_ctas" and value & (value - 1):  # of num_warps the backend says so itself
        raise OptionError(
            f"{name} must be a power of two, got {value}.", advice="Give 1, 2, 4, 8 or 16."
        )


def _check_words(options: Mapping[str, Any], target: Target) -> None:
    """Refuse a precision of products that the target has not."""
    name, known = "default_dot_input_precision", options.get("allowed_dot_input_precisions")
    known = known or backend_options(target).get("allowed_dot_input_precisions", ())
    value = options.get(name)
    if value is not None and known and value not in known:
        raise OptionError(
            f"{name}={shown(value)} is not a precision of {target}.",
            advice=f"{nearest(value, known)} There are {', '.join(known)}.".lstrip(),
        )


@functools.cache
def _kinds(target: Target) -> Mapping[str, tuple[type, ...]]:
    """Option -> the types that a value may have: the declared ones, and that of the default, which
    some options do not share with their declaration.
    """
    defaults = backend_options(target)
    hints = typing.get_type_hints(type(backend_for(target).parse_options({})))
    values = {}
    for name, hint in hints.items():
        said = typing.get_args(hint) if typing.get_origin(hint) is not tuple else (tuple,)
        declared = {typing.get_origin(type_) or type_ for type_ in said or (hint,)}
        own = type(defaults.get(name))
        is_dict = dict in declared
        kinds = declared if is_dict else declared | {own}
        values[name] = tuple(kind for kind in _KINDS if kind in kinds)
    return values
