"""Functions and what they are called with, on their way to a process other than a copy of this
one: where torch's tracers run, what times on a GPU, and what captures if CUDA is in use here.
"""

from __future__ import annotations

import importlib
import linecache
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import cloudpickle

from kernellab.errors import ArgumentError

MOST_CELLS = 1_000_000
"""Characters of cells that are included, the latest cells first."""


def shipped(function: Any, things: Any, what: str) -> bytes:
    """Return pickled objects. The user's modules are pickled by value, as they are in this process.

    The source of a notebook's cells is included, because it is in no file and torch reads it.

    Args:
        function: the function whose module is pickled by value unless it is installed.
        things: the objects to pickle.
        what: the name of the function in error messages.

    Raises:
        ArgumentError: an object cannot be pickled.
    """
    try:
        with own_modules_by_value(function):
            return bytes(cloudpickle.dumps(_WithCells(things)))
    except Exception as error:  # anything may be raised by what is pickled
        raise ArgumentError(
            f"{what!r} cannot be sent to the process that captures: "
            f"{type(error).__name__}: {error}",
            advice=(
                "It, its arguments and what it refers to have to be picklable: no open files, "
                "locks, or tensors of a GPU."
            ),
        ) from error


def call(function: str, sent: bytes) -> Any:
    """In the other process: call "module:function" with what was shipped."""
    module, _, name = function.partition(":")
    called: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return called(*pickle.loads(sent))


class _WithCells:
    """Objects with the cells that this process knows; unpickling returns the objects."""

    def __init__(self, things: Any) -> None:
        self._things = things

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (_cells(), self._things)


def _cells() -> dict[str, list[str]]:
    """Return file name -> lines for code that IPython compiled from a cell."""
    texts: dict[str, list[str]] = {}
    left = MOST_CELLS
    for file, entry in reversed([*linecache.cache.items()]):
        if len(entry) != 4 or entry[1] is not None or file.startswith("<"):
            continue  # read from a file, or made by a program
        left -= sum(map(len, entry[2]))
        if left >= 0:
            texts[file] = list(entry[2])
    return texts


def _arrived(cells: dict[str, list[str]], things: Any) -> Any:
    for file, lines in cells.items():
        linecache.cache[file] = sum(map(len, lines)), None, lines, file
    return things


@contextmanager
def own_modules_by_value(*functions: Any) -> Iterator[None]:
    """While active, the user's own modules that functions come from are pickled by value: the other
    process may not find them, or find them edited.
    """
    with ExitStack() as stack:
        for function in functions:
            name = getattr(function, "__module__", None) or type(function).__module__
            module = sys.modules.get(name)
            known = cloudpickle.list_registry_pickle_by_value()
            if module is not None and _is_the_users(module) and module.__name__ not in known:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield


def _is_the_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__ == "__main__":
        return False  # by value anyway
    return "site-packages" not in file and not file.startswith(sys.base_prefix)
