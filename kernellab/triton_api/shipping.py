"""Kernels that travel to other processes: pickled by what they are made of,
since a notebook's cell can be imported nowhere.

A function of a kernel's goes with its code, the source that Triton compiles (whatever its file says
by now) and the globals that it names; of a module of the user's, which may be another by now where
it arrives, what is taken of it. Triton's own functions, and libraries, go by name. Where it
arrives, a kernel has the same source, lines and file, and so the same place in Triton's cache.
"""

from __future__ import annotations

import importlib
import io
import linecache
import marshal
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.jit import JITCallable, JITFunction, constexpr_function

from kernellab.errors import ArgumentError
from kernellab.triton_api.functions import jit_settings
from kernellab.triton_api.kernel_contents import content_key
from kernellab.triton_api.outside_names import is_of_library, outside_names


class KernelPickler(pickle.Pickler):
    """Pickles whatever holds kernels: JIT functions by value, modules by name."""

    def reducer_override(self, value: Any) -> Any:
        """How to make `value` again; NotImplemented leaves it to pickle."""
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
    """`value`, which may hold kernels, as bytes that `unpack` reads in another process
    of the same Python version.

    Raises:
        ArgumentError: a part of it cannot be pickled.
    """
    buffer = io.BytesIO()
    try:
        KernelPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ArgumentError(
            f"The argument cannot be sent to another process: {error}",
            advice="Functions and objects of yours must be importable there.",
        ) from error
    return buffer.getvalue()


def unpack(packed: bytes) -> Any:
    """What `pack` packed.

    Raises:
        ArgumentError: it was packed by another Python, or names a module that is
            not installed here.
    """
    try:
        value = pickle.loads(packed)
    except (ImportError, AttributeError, ValueError, EOFError) as error:
        raise ArgumentError(
            f"the data that was sent cannot be read: {error}",
            advice=(
                "Every process needs the same Python version, and the modules that the kernel uses."
            ),
        ) from error
    return value


def _named(module: str, qualname: str) -> Any:
    value: Any = importlib.import_module(module)
    for name in qualname.split("."):
        value = getattr(value, name)
    return value


# Taken apart


def _taken_apart(function: Any) -> tuple[Any, ...]:
    """The function as pickle wants it: what makes it, then its globals,
    which may lead back to it.
    """
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
    """What a function takes of a module of the user's."""

    name: str
    contents: Mapping[str, Any]


def _taken_along(used: Sequence[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    """What a function needs from outside, by name, as far as it can be sent:
    (path from the name on, the name's value).
    """
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
    """Whether a global can be sent: what cannot is of no use to a kernel."""
    if isinstance(value, JITCallable | ModuleType):
        return True
    try:
        KernelPickler(io.BytesIO(), pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception:
        return False
    return True


# Put together


def _put_together(made_of: Mapping[str, Any]) -> Any:
    if made_of["python"] != sys.version_info[:2]:
        ours, theirs = (".".join(map(str, v)) for v in (sys.version_info[:2], made_of["python"]))
        raise ValueError(f"it was made by Python {theirs}, and this is {ours}")
    code = marshal.loads(made_of["code"])
    scope: dict[str, Any] = {"__name__": made_of["module"], "__builtins__": __builtins__}
    cells = tuple(_empty_cell() for _ in code.co_freevars)
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
    there = linecache.getlines(file)
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


def _empty_cell() -> Any:
    value = None
    return (lambda: value).__closure__[0]  # type: ignore[index]


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


def content_of(kernel: Any) -> str:
    """A digest of all that is shipped of a kernel, as far as it can make a difference:
    equal digests, in whichever processes, mean equal results.
    """
    return content_key(kernel, _pickled)


def _pickled(value: Any) -> bytes:
    if not _travels(value):
        return repr(value).encode("utf-8", "backslashreplace")
    buffer = io.BytesIO()
    KernelPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()
