"""Arguments of public functions that raise where they are looked at, told by their names: an object
may raise in `__class__`, `__repr__` or `dtype`, say that it is something else, or be a number that
cannot even be written.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, ParamSpec, TypeVar

from kernellab.common.formatting import counted
from kernellab.errors import ArgumentError, KernelLabError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def names_bad_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A public function in which an error that an argument brings along is an ArgumentError with
    the argument's name. What callables raise when they are called goes on as it is.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **keywords: _P.kwargs) -> _R:
        __tracebackhide__ = True
        try:
            return function(*args, **keywords)
        except KernelLabError:
            raise
        except Exception as error:
            fault = _fault(function, args, keywords, error)
            if fault is None:
                raise
            raise fault from error

    return called


def _fault(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], error: Exception
) -> ArgumentError | None:
    for name, value in _named(function, args, keywords):
        what = _what_is_wrong(value, error)
        if what:
            return ArgumentError(f"argument {name!r} is {what}", advice="Give a plain value.")
    return None


def _named(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Arguments by name, those of a kernel by the names that it has for them; and what is in lists
    and the like.
    """
    try:
        given = inspect.signature(function).bind_partial(*args, **keywords)
    except TypeError:
        return
    for name, parameter in given.signature.parameters.items():
        value = given.arguments.get(name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            kernel = given.arguments.get("kernel", given.arguments.get("self"))
            found = dict(_of_a_kernel(kernel, value or ()))
        elif parameter.kind is parameter.VAR_KEYWORD:
            found = value or {}
        else:
            found = {name: value}
        for own_name, one in found.items():
            yield own_name, one
            for inside in _items(one):
                yield own_name, inside


def _of_a_kernel(kernel: Any, args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    try:
        names = list(kernel.arg_names)
    except Exception:  # whatever somebody gave for a kernel
        names = []
    for number, value in enumerate(args):
        yield names[number] if number < len(names) else f"args[{number}]", value


_MOST_ITEMS = 100


def _items(value: Any) -> Sequence[Any]:
    if type(value) is dict:
        return [*list(value)[:_MOST_ITEMS], *list(value.values())[:_MOST_ITEMS]]
    return value[:_MOST_ITEMS] if type(value) in (list, tuple) else ()


def _what_is_wrong(value: Any, error: Exception) -> str:
    """What an argument is, if the error is of its making; else ""."""
    kind = type(value)
    if issubclass(kind, int) and isinstance(error, ValueError | OverflowError):
        bits = int.bit_length(value)
        return f"an integer of {counted(bits, 'bit')}" if bits > _MOST_BITS else ""
    member = _raising_member(kind, error) or _raising_repr(value, error)
    if member:
        return f"a {kind.__qualname__}, whose {member} raises {_words(error)}"
    if isinstance(error, TypeError | AttributeError | ValueError):
        claimed = _claimed_class(value)
        if claimed is not kind:
            said = getattr(claimed, "__name__", "something else")
            return f"a {kind.__qualname__} that says it is a {said}, and is none: {_words(error)}"
        if _is_scalar_array(value) and _NO_ITEMS.search(_words(error)):
            return f"a {kind.__qualname__} of no axes, which holds no items"
    return ""


_NO_ITEMS = re.compile("iteration over a 0-d|unsized object|too many indices")
"""NumPy's and torch's of an array with one element and no axis."""


def _is_scalar_array(value: Any) -> bool:
    try:
        return tuple(value.shape) == ()
    except Exception:  # no array at all
        return False


_MOST_BITS = 1024
"""As many as a float takes; more than any number of a launch."""


def _words(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # a class of the user's
        return type(error).__name__


def _raising_member(kind: type, error: Exception) -> str:
    """The attribute or method of a user's class that the error came out of; "" for none."""
    ran: set[CodeType] = set()
    entry = error.__traceback__
    while entry is not None:
        ran.add(entry.tb_frame.f_code)
        entry = entry.tb_next
    for one in kind.__mro__:
        if one.__module__.partition(".")[0] in _KNOWN:
            continue
        for name, member in vars(one).items():
            if name != "__call__" and _code(member) in ran:
                return name
    return ""


def _raising_repr(value: Any, error: Exception) -> str:
    """The method that gave no text where it had to, which Python says in no frame of the object's;
    "" for none.
    """
    if "returned non-string" not in _words(error):
        return ""
    for name in ("__repr__", "__str__"):
        try:
            if not isinstance(getattr(type(value), name)(value), str):
                return name
        except Exception:  # another argument's error, then
            continue
    return ""


_KNOWN = frozenset({"builtins", "kernellab", "triton", "torch", "numpy"})
"""Packages whose classes do as they should: an error out of them is another argument's."""


def _code(member: Any) -> CodeType | None:
    function = member.fget if isinstance(member, property) else member
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", None)


def _claimed_class(value: Any) -> Any:
    try:
        return value.__class__
    except Exception:  # then it was its class that raised
        return type(value)
