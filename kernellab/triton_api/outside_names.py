"""What a JIT function takes from outside itself:
the globals and captured variables that its source names.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from triton.runtime.jit import JITCallable

from kernellab.triton_api.functions import scope_of

_LIBRARIES = ("triton", "torch", "numpy")
"""They are wherever KernelLab is, as Python's own modules are, so their contents go by name."""
_PYTHONS = Path(os.__file__).parent


@dataclass(frozen=True)
class OutsideName:
    """A name from outside, with the attributes that are taken of it: `mylib.ops.scaled`."""

    path: tuple[str, ...]
    value: Any
    """What its first part stands for."""
    is_early: bool
    """Whether it is needed as soon as the function is defined: in a default or in an annotation."""


def outside_names(function: Any) -> Iterator[OutsideName]:
    """The names that a JIT function takes from outside, in order;
    names of local variables hide globals.
    """
    scope = scope_of(function.fn)
    for path, is_early in named_outside(function).items():
        if path[0] in scope:
            yield OutsideName(path, scope[path[0]], is_early)


def named_outside(function: Any) -> dict[tuple[str, ...], bool]:
    """The same as paths, in order, each with whether it is needed early;
    what stands for nothing (yet), and Python's built-in functions, among them.
    """
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

        As Triton reads it: a name is the function's own from where it is first set.
        """
        later = {
            path: False
            for path, place in self._read.items()
            if path[0] not in self._own or place < self._own[path[0]]
        }
        return later | dict.fromkeys(self._early, True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        everything = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        everything += [
            argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None
        ]
        early = [*arguments.defaults, *arguments.kw_defaults, node.returns]
        for expression in (*early, *(argument.annotation for argument in everything)):
            if expression is not None:
                names = _Names()
                names.visit(expression)
                self._early |= names._read.keys()
        for argument in everything:
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
