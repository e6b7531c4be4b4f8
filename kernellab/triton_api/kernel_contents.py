"""What a kernel is made of: its source, the functions that it calls, the values that it reads.

Triton looks these up once, when it first compiles a kernel, and keeps a hash of them: a helper that
another cell defines again changes nothing for it. Here they are looked at before each launch.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CellType, ModuleType
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITCallable

from kernellab.errors import KernelLabError
from kernellab.triton_api.functions import definition_of, jit_settings, keep_lines, scope_of
from kernellab.triton_api.outside_names import is_of_library, named_outside

_MISSING = object()
_KEPT = "_kernellab_made_of"
"""Kept on the kernel itself: whatever else names it would keep it alive, or hash it."""


@dataclass(frozen=True, eq=False)
class MadeOf:
    """What a kernel was made of at some time; a new object whenever that differs.

    Attributes:
        functions: the kernel and every JIT function of the user's that it reaches, with the sources
            that Triton compiles.
        names: (scope, name, value) of each function, class and module of the user's that these
            name, and of names that stood for nothing.
        cells: of those, the ones that functions capture.
        constants: (its name in the kernel, scope, name, value) of each global, and of what is taken
            of modules of the user's. Triton looks after the kernel's own globals only.
    """

    functions: tuple[tuple[Any, str], ...]
    names: tuple[tuple[Mapping[str, Any], str, Any], ...]
    cells: tuple[tuple[CellType, Any], ...]
    constants: tuple[tuple[str, Mapping[str, Any], str, Any], ...]
    is_compiled: list[bool] = field(default_factory=list)
    """Not empty once it was compiled: until then, constants may still become others."""

    @functools.cached_property
    def has_assertions(self) -> bool:
        """Whether a function asserts something of values: `tl.device_assert`, or `assert`."""
        return any(re.search(r"\bassert\b|device_assert", source) for _, source in self.functions)

    def keep_lines(self) -> None:
        """From now on these functions are shown as they are compiled, whatever their files say."""
        for function, _ in self.functions:
            keep_lines(function)

    def changed_constant(self) -> tuple[str, Any, Any] | None:
        """A global, or a constant of a module, that has changed since the kernel
        was compiled: its name, what it was, what it is.
        """
        for shown, scope, name, value in self.constants:
            now = scope.get(name, _MISSING)
            if now is not value and not _is_equal(now, value):
                return shown, value, "gone" if now is _MISSING else now
        return None


def is_made_of_the_same(kernel: Any) -> bool:
    """Return whether a JIT function is made of the same as at the last call of `made_of`."""
    known: MadeOf | None = kernel.__dict__.get(_KEPT)
    if known is None:
        return False
    for scope, name, value in known.names:
        if scope.get(name, _MISSING) is not value:
            return False
    for function, source in known.functions:
        # Where Triton keeps it; `src` is a function, which costs a launch.
        if function.__dict__.get("_src") is not source and function.src is not source:
            return False
    # Few have any: a launch on a GPU is not to pay for a generator.
    return not known.cells or all(_content_of_cell(cell) is value for cell, value in known.cells)


def made_of(kernel: Any) -> MadeOf:
    """What a JIT function is made of now, the same object as long as that is the same.

    Where it is not, what Triton keeps of the function is forgotten, so that it is compiled anew.
    """
    kept: dict[str, Any] = vars(kernel)
    known: MadeOf | None = kept.get(_KEPT)
    if known is not None:
        if is_made_of_the_same(kernel):
            known.keep_lines()
            return known
        _forget(kernel, known)
    contents: MadeOf = _found(kernel)
    if kernel.hash is None:
        _forget(kernel, contents)  # what helpers were for other kernels counts no more
    contents.keep_lines()
    kept[_KEPT] = contents
    return contents


def check_globals(kernel: Any) -> MadeOf:
    """What a JIT function is made of now, its globals the ones that it was compiled with: Triton
    compiles their values in, and does not launch a kernel with others.

    Raises:
        KernelLabError: one has changed since.
    """
    made = made_of(kernel)
    changed = made.changed_constant()
    if changed is None:
        return made
    if not made.is_compiled:
        _forget(kernel, made)
        del vars(kernel)[_KEPT]
        return made_of(kernel)
    name, compiled, now = changed
    raise KernelLabError(
        f"the global {name!r} was {compiled!r} when kernel {kernel.__name__!r} was "
        f"compiled, and is now {now!r}",
        advice="Define the kernel again, or pass the value as a tl.constexpr argument.",
        position=definition_of(kernel),
    )


def note_compiled(kernel: Any) -> None:
    """From now on, the globals that the function reads must stay what they are."""
    made = made_of(kernel)
    if not made.is_compiled:
        made.is_compiled.append(True)


def functions_within(values: Iterable[Any]) -> Iterator[Any]:
    """The JIT functions among values of constants."""
    for value in values:
        if isinstance(value, JITCallable):
            yield value
        elif isinstance(value, tuple):
            yield from functions_within(value)


def _forget(kernel: Any, made: MadeOf) -> None:
    """Let Triton hash the kernel, and what it calls, anew: its compiled kernels are another's."""
    for function, _ in made.functions:
        function.hash = None
    if "device_caches" in vars(kernel):
        kernel.device_caches.clear()


def _is_equal(first: Any, second: Any) -> bool:
    try:
        return type(first) is type(second) and bool(first == second)
    except Exception:  # of a class of the user's
        return False


def _content_of_cell(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # Not assigned yet.
        return _MISSING


# Looking things up


@dataclass
class _Walk:
    """A walk over what a function reaches."""

    functions: dict[int, Any] = field(default_factory=dict)
    names: list[tuple[Mapping[str, Any], str, Any]] = field(default_factory=list)
    cells: list[tuple[CellType, Any]] = field(default_factory=list)
    constants: list[tuple[str, Mapping[str, Any], str, Any]] = field(default_factory=list)

    def add(self, function: Any) -> None:
        if id(function) in self.functions or getattr(function, "fn", None) is None:
            return
        self.functions[id(function)] = function
        python = function.fn
        cells = dict(zip(python.__code__.co_freevars, python.__closure__ or (), strict=False))
        for path, is_early in named_outside(function).items():
            name = path[0]
            if name in cells:
                value = _content_of_cell(cells[name])
                self.cells.append((cells[name], value))
            else:
                value = python.__globals__.get(name, _MISSING)
                if _is_watched(value):
                    self.names.append((python.__globals__, name, value))
                elif _is_constant(value) and not is_early:  # a default has its value already
                    self.constants.append((name, python.__globals__, name, value))
            self._follow(path, value)

    def _follow(self, path: tuple[str, ...], value: Any) -> None:
        """What is taken of a name: functions, and attributes of modules of the user's."""
        depth = 1
        while isinstance(value, ModuleType) and not is_of_library(value) and depth < len(path):
            scope, name = vars(value), path[depth]
            value = scope.get(name, _MISSING)
            depth += 1
            if _is_watched(value):
                self.names.append((scope, name, value))
            elif _is_constant(value):
                self.constants.append((".".join(path[:depth]), scope, name, value))
        if isinstance(value, JITCallable) and not is_of_library(value):
            self.add(value)
        elif getattr(value, "__triton_aggregate__", False):
            for attribute in value.hash_attrs:
                if isinstance(attribute, JITCallable):
                    self.add(attribute)


def _is_watched(value: Any) -> bool:
    """Whether another object under the same name is another thing:
    Triton itself looks after constants.
    """
    if value is _MISSING:
        return True
    is_object = callable(value) and not isinstance(value, tl.constexpr | tl.dtype)
    return (is_object or isinstance(value, ModuleType)) and not is_of_library(value)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tl.constexpr | tl.dtype):
        return True
    return value is not _MISSING and not isinstance(value, ModuleType) and not is_of_library(value)


def _found(kernel: Any) -> MadeOf:
    walk = _Walk()
    try:
        walk.add(kernel)
    except (SyntaxError, AssertionError, OSError):  # Triton's own words come when it is compiled.
        walk.functions.setdefault(id(kernel), kernel)
    functions = tuple((function, function.src) for function in walk.functions.values())
    return MadeOf(functions, tuple(walk.names), tuple(walk.cells), tuple(walk.constants))


# As text


def content_key(kernel: Any, pickled: Callable[[Any], bytes]) -> str:
    """A digest of all that a kernel is made of: sources, places, settings, and the values of
    globals, captured variables and attributes of modules, whoever of its functions names them.

    Args:
        kernel: a JIT function.
        pickled: bytes of a value that has no literal text.
    """
    described = _Description(pickled)
    described.add(kernel)
    return hashlib.sha256(
        "\n".join(described.lines).encode("utf-8", "backslashreplace")
    ).hexdigest()


class _Description:
    """The lines that say what a kernel is made of."""

    def __init__(self, pickled: Callable[[Any], bytes]) -> None:
        self.lines: list[str] = []
        self._pickled = pickled
        self._numbers: dict[int, int] = {}

    def add(self, function: Any) -> int:
        """Describe a function; gives its number."""
        if id(function) in self._numbers:
            return self._numbers[id(function)]
        number = self._numbers[id(function)] = len(self._numbers)
        python = function.fn
        defaults = [self._text(default) for default in python.__defaults__ or ()]
        place = definition_of(function).line
        own = (type(function).__name__, python.__qualname__, place, jit_settings(function))
        self.lines.append(f"{number} {own!r} {function.src!r} {defaults}")
        scope = scope_of(python)
        for path in named_outside(function):
            words = self._taken(path, scope.get(path[0], _MISSING))
            self.lines.append(f"{number} {'.'.join(path)} = {words}")
        return number

    def _taken(self, path: tuple[str, ...], value: Any) -> str:
        depth = 1
        while isinstance(value, ModuleType) and not is_of_library(value) and depth < len(path):
            value, depth = vars(value).get(path[depth], _MISSING), depth + 1
        return self._text(value)

    def _text(self, value: Any) -> str:
        if value is _MISSING:
            return "nothing"
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, tl.constexpr):
            return f"constexpr {self._text(value.value)}"
        if value is None or isinstance(
            value, bool | int | float | complex | str | bytes | tl.dtype
        ):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, tuple | list):
            return f"{type(value).__qualname__} [{', '.join(map(self._text, value))}]"
        if is_of_library(value) and hasattr(value, "__qualname__"):
            return f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, JITCallable) and getattr(value, "fn", None) is not None:
            if is_of_library(value):
                return f"{value.__module__}.{value.fn.__qualname__}"
            return f"function {self.add(value)}"
        if getattr(value, "__triton_aggregate__", False):
            return f"{value.__qualname__} {[self._text(attr) for attr in value.hash_attrs]}"
        return f"pickled {hashlib.sha256(self._pickled(value)).hexdigest()}"
