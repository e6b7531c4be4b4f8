"""Functions of a kernel: their places, the functions they call, and names from outside."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
import triton.language
from triton.language.core import is_builtin
from triton.runtime.jit import JITCallable, JITFunction

from kernellab import errors
from kernellab.errors import SourcePosition
from kernellab.records import FunctionSource

_LIBRARY = os.path.dirname(os.path.abspath(triton.__file__)) + os.sep


_KEPT_SETTINGS = (
    "version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline",
)  # fmt: skip

JIT_SETTINGS = (*_KEPT_SETTINGS, "repr", "launch_metadata")
"""The options that `@triton.jit` accepts."""


def jit_settings(function: Any) -> dict[str, Any]:
    """The options of `@triton.jit` that a kernel keeps."""
    return {name: getattr(function, name, None) for name in _KEPT_SETTINGS}


def definition_of(function: Any) -> SourcePosition:
    """Return the `def` line of a JIT function, whose lines are shown as compiled from now on."""
    keep_lines(function)
    return SourcePosition(str(function.fn.__code__.co_filename), _first_line(function))


def source_now(function: Any) -> str | None:
    """The source, decorators included, of the JIT function that now has this one's name
    where it was defined; None if nothing has.

    A cell that ran again, or a module that was loaded again, puts another function in its place.
    """
    python = function.fn
    if python.__qualname__ != python.__name__:
        return None
    value = python.__globals__.get(python.__name__)
    while value is not None and not hasattr(value, "raw_src"):
        value = getattr(value, "fn", None)  # An autotuner, or heuristics, around it.
    return None if value is None else "".join(value.raw_src)


def compiled_lines(function: Any) -> tuple[str, ...]:
    """The lines that Triton compiles of a JIT function, from `def` on, as they were at import."""
    whole = [line.rstrip("\n") for line in function.raw_src]
    lines = whole[_first_line(function) - int(function.starting_line_number) :]
    source = [line.rstrip("\n") for line in str(function.src).split("\n")]
    # A source that replaced it is in no file.
    same = textwrap.dedent("\n".join(lines)).rstrip() == "\n".join(source).rstrip()
    return tuple(lines if same else source)


_KEPT = "_kernellab_lines"
"""Kept on the function itself: its source, its file, its lines; None for a function that is in no
file, or in one of Triton's, which no one edits."""


def keep_lines(function: Any) -> None:
    """From now on, a function's lines are shown as Triton compiles them, whatever its file has."""
    kept: dict[str, Any] = vars(function)
    known = kept.get(_KEPT)
    if known is None or known[0] is not function.src:
        known = kept[_KEPT] = (function.src, *_lines_in_file(function))
    _, file, lines = known
    if lines is not None:
        errors.keep_compiled(file, lines)


def _lines_in_file(function: Any) -> tuple[str, errors.CompiledLines | None]:
    file = str(function.fn.__code__.co_filename)
    if is_in_library(file) or not os.path.isfile(file):
        return file, None
    name = str(function.fn.__name__)
    return file, errors.CompiledLines(name, _first_line(function), compiled_lines(function))


def function_sources(kernel: Any, others: Iterable[Any] = ()) -> tuple[FunctionSource, ...]:
    """The kernel, the functions of the user that it may call, and `others` with theirs, with the
    lines that Triton compiles; those that are in no file or cell left out.
    """
    functions = {
        id(function): function
        for start in (kernel, *others)
        for function in reachable_functions(start)
    }
    return tuple(
        _function_source(function)
        for function in functions.values()
        if not is_in_library(str(function.fn.__code__.co_filename))
    )


def _function_source(function: Any) -> FunctionSource:
    place, lines = definition_of(function), compiled_lines(function)
    whole = tuple(line.rstrip("\n") for line in function.raw_src)
    if whole[len(whole) - len(lines) :] == lines:
        place, lines = SourcePosition(place.file, int(function.starting_line_number)), whole
    return FunctionSource(place.file, str(function.fn.__name__), place.line, lines)


def edited_functions(kernel: Any) -> list[Any]:
    """The functions that a kernel may call, itself included, whose files were edited since."""
    return [function for function in reachable_functions(kernel) if _is_edited(function)]


def unreadable_functions(kernel: Any) -> list[Any]:
    """Return those whose lines cannot be read any more: the file is gone, or a pipe."""
    return [
        function
        for function in reachable_functions(kernel)
        if not errors.source_lines(definition_of(function).file)
    ]


def _is_edited(function: Any) -> bool:
    place = definition_of(function)
    if is_in_library(place.file):
        return False
    lines = errors.CompiledLines(function.__name__, place.line, compiled_lines(function))
    return errors.is_edited(place.file, lines)


def format_edited(function: Any) -> str:
    """The note about a function whose file was edited, in a sentence or two."""
    return errors.format_edited(definition_of(function).file, function.__name__)


@contextmanager
def shown_as_compiled(functions: Sequence[Any]) -> Iterator[None]:
    """While active, Python shows the lines that Triton compiles of these functions."""
    files = {str(function.fn.__code__.co_filename) for function in functions}
    known = {file: linecache.cache.get(file) for file in files}
    for function in functions:
        place, lines = definition_of(function), [f"{line}\n" for line in compiled_lines(function)]
        there = errors.source_lines(place.file)[:]
        there += ["\n"] * (place.line - 1 - len(there))
        there[place.line - 1 : place.line - 1 + len(lines)] = lines
        # With an mtime of None the file is not read.
        linecache.cache[place.file] = (sum(map(len, there)), None, there, place.file)
    try:
        yield
    finally:
        for file, entry in known.items():
            if entry is None:
                linecache.cache.pop(file, None)
            else:
                linecache.cache[file] = entry


def _first_line(function: Any) -> int:
    # Triton keeps the source from `def` on; what `raw_src` has before that are decorator lines.
    whole = "".join(function.raw_src)
    decorators = whole.rstrip("\n").count("\n") - str(function.src).rstrip("\n").count("\n")
    return int(function.starting_line_number) + decorators


def position_in(function: Any, node: Any) -> SourcePosition:
    """The place of an AST node of a JIT function, whose lines are counted from `def`."""
    definition = definition_of(function)
    line = getattr(node, "lineno", None)
    if line is None:
        return definition
    return SourcePosition(
        definition.file, definition.line + line - 1, indentation(function) + node.col_offset + 1
    )


def indentation(function: Any) -> int:
    """Columns that Triton cut off when it dedented the function's source."""
    first = str(function.raw_src[0])
    return len(first) - len(first.lstrip())


def parameter_position(kernel: Any, name: str) -> SourcePosition:
    """Return the position of a parameter in the kernel's `def`."""
    arguments = kernel.parse().body[0].args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg == name:
            return position_in(kernel, argument)
    return definition_of(kernel)


def is_in_library(file: str) -> bool:
    """Whether a file is Triton's own: `tl.sum` and the like are written in it.

    Triton's cache shares kernels between installations, with the other's paths: a file of its
    language that exists here too counts as Triton's wherever it is.
    """
    if file.startswith(_LIBRARY):
        return True
    _, _, inside = file.replace(os.sep, "/").rpartition("/triton/")
    return "language/" in inside and os.path.isfile(_LIBRARY + inside)


def reachable_functions(kernel: Any) -> list[Any]:
    """The kernel and every JIT function that it may call, directly or not, the kernel first."""
    reachable: dict[int, Any] = {}
    waiting = [kernel]
    while waiting:
        function = waiting.pop(0)
        if id(function) in reachable or getattr(function, "fn", None) is None:
            continue
        reachable[id(function)] = function
        waiting += [value for value in _named_values(function.fn) if isinstance(value, JITCallable)]
    return list(reachable.values())


def only_kernels_call(value: Any) -> bool:
    """Whether a function refuses calls outside a kernel: Triton's own, or under `@triton.jit`."""
    return isinstance(value, JITFunction) or bool(is_builtin(value))


def is_tile_method(name: str) -> bool:
    """Whether tiles have a method of the name in kernels."""
    return callable(getattr(triton.language.tensor, name, None))


def scope_of(function: Any) -> dict[str, Any]:
    """The globals of a Python function, and the variables that it captures."""
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # Not assigned yet.
            continue
    return scope


def _named_values(function: Any) -> Iterator[Any]:
    """The globals, captured variables and attributes of modules that a Python function names."""
    scope = scope_of(function)
    code = function.__code__
    values = [scope[name] for name in (*code.co_names, *code.co_freevars) if name in scope]
    yield from values
    for module in [value for value in values if isinstance(value, ModuleType)]:
        for name in code.co_names:
            yield getattr(module, name, None)


# The outside names that a JIT function uses: the globals and captured variables in its source.

_LIBRARIES = ("triton", "torch", "numpy")
"""They are installed with KernelLab, as Python's modules are, so they are known by name."""
_PYTHONS = Path(os.__file__).parent


@dataclass(frozen=True)
class OutsideName:
    """A name from outside, with the attributes that are used of it: `mylib.ops.scaled`."""

    path: tuple[str, ...]
    value: Any
    """The object that its first part names."""
    is_early: bool
    """Whether it is needed as soon as the function is defined: in a default or in an annotation."""


def outside_names(function: Any) -> Iterator[OutsideName]:
    """The names that a JIT function takes from outside, in order; local names hide globals."""
    scope = scope_of(function.fn)
    for path, is_early in named_outside(function).items():
        if path[0] in scope:
            yield OutsideName(path, scope[path[0]], is_early)


def named_outside(function: Any) -> dict[tuple[str, ...], bool]:
    """As `outside_names`, by path, each with whether it is early; also of undefined names."""
    return dict(_named_in(function.src))


@functools.lru_cache(maxsize=256)
def _named_in(source: str) -> tuple[tuple[tuple[str, ...], bool], ...]:
    """`named_outside` of a source: launches, sweeps and files need it for the same kernel."""
    names = _Names()
    for node in ast.parse(source).body:
        names.visit(node)
    return tuple(sorted(names.from_outside().items()))


def is_of_library(value: Any) -> bool:
    """Whether a module, a function or a class is Triton's, torch's, NumPy's or Python's own."""
    is_module = isinstance(value, ModuleType)
    name = str(value.__name__ if is_module else getattr(value, "__module__", ""))
    if name.partition(".")[0] in _LIBRARIES:
        return True
    if name.partition(".")[0] not in sys.stdlib_module_names or isinstance(value, JITCallable):
        return False
    # A file of the user's may have the name of one of Python's.
    file = getattr(value if is_module else sys.modules.get(name), "__file__", None)
    return file is None or Path(file).is_relative_to(_PYTHONS)


class _Names(ast.NodeVisitor):
    """Collects what a function's source names: where first, and whether it is read or set there."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, ...], tuple[int, int]] = {}
        self._early: set[tuple[str, ...]] = set()
        self._own: dict[str, tuple[int, int]] = {}
        """Parameters and variables, and where they are set first."""

    def from_outside(self) -> dict[tuple[str, ...], bool]:
        """Paths that start outside the function, and whether they are needed early.

        As in Triton, a name is local from the line that first sets it.
        """
        later = {
            path: False
            for path, place in self._read.items()
            if path[0] not in self._own or place < self._own[path[0]]
        }
        return later | dict.fromkeys(self._early, True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        parts = list(ast.iter_child_nodes(node.args))
        arguments = [part for part in parts if isinstance(part, ast.arg)]
        defaults = [part for part in parts if not isinstance(part, ast.arg)]
        annotations = (argument.annotation for argument in arguments)
        for expression in (*defaults, node.returns, *annotations):
            if expression is not None:
                names = _Names()
                names.visit(expression)
                self._early |= names._read.keys()
        for argument in arguments:
            self._own[argument.arg] = (0, 0)
        for statement in node.body:
            self.visit(statement)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes = [node.attr]
        inside = node.value
        while isinstance(inside, ast.Attribute):
            attributes.append(inside.attr)
            inside = inside.value
        if isinstance(inside, ast.Name):
            self._reads((inside.id, *reversed(attributes)), inside)
        else:
            self.visit(inside)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._reads((node.id,), node)
        else:
            place = (node.lineno, node.col_offset)
            self._own[node.id] = min(place, self._own.get(node.id, place))

    def _reads(self, path: tuple[str, ...], node: ast.Name) -> None:
        place = (node.lineno, node.col_offset)
        self._read[path] = min(place, self._read.get(path, place))
