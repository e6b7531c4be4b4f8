"""The contents of a kernel: its source, the functions that it calls, the values that it reads;
kernels pickled by their contents, and variants with another source.

Triton looks these up once, when it first compiles a kernel, and keeps a hash of them: a helper
that another cell defines again changes nothing for it. Here they are checked before each launch.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import io
import linecache
import marshal
import pickle
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CellType, FunctionType, ModuleType
from typing import Any

import triton.language as tl
from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.jit import JITCallable, JITFunction, constexpr_function

from kernellab.errors import ArgumentError, KernelLabError
from kernellab.triton_api.functions import (
    definition_of,
    is_of_library,
    jit_settings,
    keep_lines,
    named_outside,
    outside_names,
    scope_of,
)

_MISSING = object()
_KEPT = "_kernellab_made_of"
"""Kept on the kernel itself: whatever else names it would keep it alive, or hash it."""


@dataclass(frozen=True, eq=False)
class MadeOf:
    """The contents of a kernel at some time; a new object whenever they differ.

    Attributes:
        functions: the kernel and every JIT function of the user that it reaches, with the sources
            that Triton compiles.
        names: (scope, name, value) of each function, class and module of the user that these
            name, and of names that stood for nothing.
        cells: of those, the ones that functions capture.
        constants: (its name in the kernel, scope, name, value) of each global, and of attributes of
            the user's modules. Triton checks only the kernel's own globals.
    """

    functions: tuple[tuple[Any, str], ...]
    names: tuple[tuple[Mapping[str, Any], str, Any], ...]
    cells: tuple[tuple[CellType, Any], ...]
    constants: tuple[tuple[str, Mapping[str, Any], str, Any], ...]
    is_compiled: list[bool] = field(default_factory=list)
    """Not empty once it was compiled: until then, constants may still become others."""
    kept: dict[str, Any] = field(default_factory=dict)
    """The objects that are kept for a kernel with these contents, such as its code."""

    @functools.cached_property
    def has_assertions(self) -> bool:
        """Whether a function asserts something of values: `tl.device_assert`, or `assert`."""
        return any(re.search(r"\bassert\b|device_assert", source) for _, source in self.functions)

    def keep_lines(self) -> None:
        """From now on these functions are shown as they are compiled, whatever their files say."""
        for function, _ in self.functions:
            keep_lines(function)

    def changed_constant(self) -> tuple[str, Any, Any] | None:
        """A constant that has changed since the kernel was compiled: name, old value, new value."""
        for shown, scope, name, value in self.constants:
            now = scope.get(name, _MISSING)
            if now is not value and not _is_equal(now, value):
                return shown, value, "gone" if now is _MISSING else now
        return None


def is_made_of_the_same(kernel: Any) -> bool:
    """Return whether a JIT function has the same contents as at the last call of `made_of`."""
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
    """The current contents of a JIT function, the same object as long as they do not change.

    If they changed, Triton's caches of the function are cleared, so that it is compiled again.
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
    """The current contents of a JIT function whose globals are those that it was compiled with:
    Triton compiles their values in, and does not launch a kernel with others. Raises
    KernelLabError: a global has changed.
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
        f"The global {name!r} was {compiled!r} when kernel {kernel.__name__!r} was "
        f"compiled, and is now {now!r}.",
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
    """Let Triton hash the kernel and its functions again: its compiled kernels are out of date."""
    for function, _ in made.functions:
        function.hash = None
    if "device_caches" in vars(kernel):
        kernel.device_caches.clear()


def _is_equal(first: Any, second: Any) -> bool:
    try:
        return type(first) is type(second) and bool(first == second)
    except Exception:  # of a class of the user
        return False


def _content_of_cell(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # Not assigned yet.
        return _MISSING


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
        """Collect what a name leads to: functions, and attributes of modules of the user."""
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
    """Whether a new object of this name changes the contents; Triton checks constants."""
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


def content_of(kernel: Any) -> str:
    """A digest of all that a kernel is made of: sources, places, settings, and the values of
    globals, captured variables and attributes of modules, whoever of its functions names them.
    Equal digests mean equal results.
    """
    described = _Description()
    described.add(kernel)
    return hashlib.sha256(
        "\n".join(described.lines).encode("utf-8", "backslashreplace")
    ).hexdigest()


class _Description:
    """The lines that describe the contents of a kernel."""

    def __init__(self) -> None:
        self.lines: list[str] = []
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
        content = (
            _dumped(value) if _travels(value) else repr(value).encode(errors="backslashreplace")
        )
        return f"pickled {hashlib.sha256(content).hexdigest()}"


# Kernels that travel to other processes: pickled by what they are made of, since a notebook's
# cell can be imported nowhere.
#
# A function of a kernel's goes with its code, the source that Triton compiles (whatever its file
# says by now) and the globals that it names; of a module of the user, which may be another by
# now where it arrives, what is taken of it. Triton's own functions, and libraries, go by name.
# Where it arrives, a kernel has the same source, lines and file, and so the same place in
# Triton's cache.


class KernelPickler(pickle.Pickler):
    """Pickles whatever holds kernels: JIT functions by value, modules by name."""

    def reducer_override(self, value: Any) -> Any:
        """How to rebuild `value`; NotImplemented leaves it to pickle."""
        if isinstance(value, JITCallable) and not is_of_library(value):
            return _taken_apart(value)
        if isinstance(value, JITCallable):
            return _named, (value.__module__, value.fn.__qualname__)
        if isinstance(value, _PartOfModule):
            return _empty_module, (value.name,), value.contents, None, None, _fill
        if isinstance(value, ModuleType):
            return importlib.import_module, (value.__name__,)
        return NotImplemented


def pack(value: Any) -> bytes:
    """`value`, which may hold kernels, as bytes that `unpack` reads in another process of the same
    Python version. Raises ArgumentError: a part of it cannot be pickled.
    """
    try:
        return _dumped(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ArgumentError(
            f"The argument cannot be sent to another process: {error}",
            advice="Define functions and classes in a module that the other process can import.",
        ) from error


def _dumped(value: Any) -> bytes:
    buffer = io.BytesIO()
    KernelPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def unpack(packed: bytes) -> Any:
    """The value that `pack` packed. Raises ArgumentError: it was packed by another Python, or names
    a module that is not installed here.
    """
    try:
        return pickle.loads(packed)
    except (ImportError, AttributeError, ValueError, EOFError) as error:
        raise ArgumentError(
            f"The data that was sent cannot be read: {error}",
            advice=(
                "Every process needs the same Python version, and the modules that the kernel uses."
            ),
        ) from error


def _named(module: str, qualname: str) -> Any:
    value: Any = importlib.import_module(module)
    for name in qualname.split("."):
        value = getattr(value, name)
    return value


def _taken_apart(function: Any) -> tuple[Any, ...]:
    """The constructor of a function, for pickle, then its globals, which may refer to it."""
    code = function.fn.__code__
    file = code.co_filename
    made_of = {
        "code": marshal.dumps(code),
        "python": sys.version_info[:2],
        "module": function.fn.__module__,
        "qualname": function.fn.__qualname__,
        "defaults": function.fn.__defaults__,
        "annotations": dict(function.fn.__annotations__),
        "file": file,
        "lines": tuple(function.raw_src),
        "first_line": function.starting_line_number,
        "source": function.src,
        "sender": _THIS_PROCESS,
        "kind": _kind(function),
        "settings": jit_settings(function),
    }
    scope = _taken_along([(name.path, name.value) for name in outside_names(function)])
    return _put_together, (made_of,), scope, None, None, _give_scope


def _kind(function: Any) -> str:
    if isinstance(function, GluonJITFunction):
        return "gluon"
    return "kernel" if isinstance(function, JITFunction) else "constexpr function"


@dataclass(frozen=True, eq=False)
class _PartOfModule:
    """The part of a user's module that a function uses."""

    name: str
    contents: Mapping[str, Any]


def _taken_along(used: Sequence[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    """The outside names of a function that can be sent: (path, value of its name)."""
    modules: dict[str, Any] = {}
    inside: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
    for (name, *attributes), value in used:
        is_users = isinstance(value, ModuleType) and not is_of_library(value)
        if is_users and attributes and hasattr(value, attributes[0]):
            part = (tuple(attributes), getattr(value, attributes[0]))
            inside.setdefault(name, []).append(part)
            modules[name] = value
        elif _travels(value):
            modules.setdefault(name, value)
    for name, parts in inside.items():
        modules[name] = _PartOfModule(modules[name].__name__, _taken_along(parts))
    return modules


def _travels(value: Any) -> bool:
    """Whether a global can be sent; a kernel cannot use the others."""
    if isinstance(value, JITCallable | ModuleType):
        return True
    try:
        _dumped(value)
    except Exception:  # objects of the user's refuse to be pickled with any error
        return False
    return True


def _put_together(made_of: Mapping[str, Any]) -> Any:
    if made_of["python"] != sys.version_info[:2]:
        ours, theirs = (".".join(map(str, v)) for v in (sys.version_info[:2], made_of["python"]))
        raise ValueError(f"it was made by Python {theirs}, and this is {ours}")
    code = marshal.loads(made_of["code"])
    scope: dict[str, Any] = {"__name__": made_of["module"], "__builtins__": __builtins__}
    cells = tuple(CellType(None) for _ in code.co_freevars)
    function = FunctionType(code, scope, code.co_name, made_of["defaults"], cells)
    function.__module__, function.__qualname__ = made_of["module"], made_of["qualname"]
    function.__annotations__ = made_of["annotations"]
    given = {name: value for name, value in made_of["settings"].items() if value is not None}
    makers: dict[str, Callable[..., Any]] = {"kernel": JITFunction, "gluon": GluonJITFunction}
    place = made_of["file"], made_of["first_line"], made_of["lines"]
    with source_lines_are(*place, sender=made_of["sender"]):
        if made_of["kind"] in makers:
            made = makers[made_of["kind"]](function, **given)
        else:
            made = constexpr_function(function)
    made.raw_src, made.starting_line_number = list(made_of["lines"]), made_of["first_line"]
    made._src = made_of["source"]
    return made


_THIS_PROCESS = uuid.uuid4().hex


@contextmanager
def source_lines_are(
    file: str, first_line: int, lines: Sequence[str], sender: str = _THIS_PROCESS
) -> Iterator[None]:
    """While active, Python reads these lines and no others in the file: which Triton does when
    it makes a function. Afterwards they stay, if the file has other lines or none, except in the
    process that sent them, which may import the file again.
    """
    above, last = ["\n"] * (first_line - 1), first_line - 1 + len(lines)
    # What is named by a process that no one trusts is not even opened.
    there = linecache.getlines(file) if sender != _THIS_PROCESS else []
    known = linecache.cache.get(file)
    _set_lines(file, [*above, *lines])
    try:
        yield
    finally:
        if sender != _THIS_PROCESS and there[first_line - 1 : last] != list(lines):
            before = [*there[: first_line - 1], *above[len(there) :]]
            _set_lines(file, [*before, *lines, *there[last:]])
        elif known is None:
            linecache.cache.pop(file, None)
        else:
            linecache.cache[file] = known


def _set_lines(file: str, lines: list[str]) -> None:
    # With an mtime of None `linecache` never drops the entry.
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)


def _give_scope(function: Any, scope: Mapping[str, Any]) -> None:
    python = function.fn
    for name, cell in zip(python.__code__.co_freevars, python.__closure__ or ()):
        if name in scope:
            cell.cell_contents = scope[name]
    python.__globals__.update(scope)


def _empty_module(name: str) -> ModuleType:
    return ModuleType(name)  # pickle finds this function by its name, and that class by none


def _fill(module: ModuleType, contents: Mapping[str, Any]) -> None:
    vars(module).update(contents)


def with_source(
    function: Any,
    source: str,
    unspecialized: Sequence[str] = (),
    helpers: Mapping[str, Any] | None = None,
) -> Any:
    """Return a JIT function like another one that Triton compiles from another source.

    Only Triton's front end reads the source: Python does not run it. The variant has a file name
    that no file has, so that the lines of the original are shown as before.

    Args:
        function: the JIT function.
        source: its text from `def` on, without indentation, with the same parameters, except that
            some may be annotated as "fp64", or no longer be annotated.
        unspecialized: more parameters for `do_not_specialize`.
        helpers: functions that it calls in place of those of the same global names.
    """
    python, first = function.fn, int(function.starting_line_number)
    file = f"<a variant of {function.__name__}>"
    copy = FunctionType(
        python.__code__.replace(co_filename=file),
        {**python.__globals__, **helpers} if helpers else python.__globals__,
        python.__name__,
        python.__defaults__,
        python.__closure__,
    )
    copy.__module__, copy.__qualname__ = python.__module__, python.__qualname__
    header = source.partition("):")[0]
    types = {**python.__annotations__, **dict(re.findall(r'(\w+): "(fp64)"', header))}
    copy.__annotations__ = {
        name: types[name] for name in re.findall(r"(\w+)\s*:", header) if name in types
    }
    copy.__kwdefaults__ = python.__kwdefaults__
    settings = {name: value for name, value in jit_settings(function).items() if value is not None}
    if unspecialized:
        settings["do_not_specialize"] = [*settings.get("do_not_specialize", ()), *unspecialized]
    lines = source.splitlines(keepends=True)
    kind = GluonJITFunction if isinstance(function, GluonJITFunction) else JITFunction
    with source_lines_are(file, first, lines):
        made = kind(copy, **settings)
    made.raw_src, made.starting_line_number, made._src = lines, first, source
    vars(made)[_VARIANT] = True
    return made


def is_variant(function: Any) -> bool:
    """Return whether `with_source` made a function."""
    return _VARIANT in vars(function)


_VARIANT = "_kernellab_is_variant"
"""Kept on a variant."""
