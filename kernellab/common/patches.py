"""Replace attributes of other packages' modules, classes and objects, and the values of context
variables, for a while.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Replacement = tuple[Any, str, Any]
"""A module, class or object, the name of an attribute, and its value for a while."""

_ABSENT = object()


def replaced(owner: Any, **attributes: Any) -> AbstractContextManager[None]:
    """While active, attributes of `owner` that exist have these values."""
    known = [(owner, name, value) for name, value in attributes.items() if hasattr(owner, name)]
    return all_replaced(known)


def watched(owner: Any, **watches: Callable[..., Any]) -> AbstractContextManager[None]:
    """While active, attributes of `owner` that exist are `around` these functions."""
    known = [
        (owner, n, around(getattr(owner, n), w)) for n, w in watches.items() if hasattr(owner, n)
    ]
    return all_replaced(known)


def around(original: Callable[..., Any], watch: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `watch` with the original function before its arguments."""

    @functools.wraps(original)
    def call(*args: Any, **keywords: Any) -> Any:
        return watch(original, *args, **keywords)

    return call


@contextmanager
def all_replaced(replacements: Iterable[Replacement]) -> Iterator[None]:
    """While active, attributes have other values, unless another library replaces them."""
    with ExitStack() as stack:
        for owner, name, value in replacements:
            stack.callback(_put_back, owner, name, vars(owner).get(name, _ABSENT), value)
            setattr(owner, name, value)
        yield


def _put_back(owner: Any, name: str, original: Any, value: Any) -> None:
    if vars(owner).get(name, _ABSENT) is not value:
        return
    if original is _ABSENT:  # it was inherited, or new
        delattr(owner, name)
    else:
        setattr(owner, name, original)


Held = TypeVar("Held")


@contextmanager
def variable_is(variable: ContextVar[Any], value: Held) -> Iterator[Held]:
    """While active, the variable has this value; yields it."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


class WhileAnyThread:
    """A context that is active while any thread is inside."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._inside = 0
        self._active = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._active.enter_context(self._begin())
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._active.close()
