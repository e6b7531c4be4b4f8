"""Kernels as standalone text.

A text has a kernel's helpers, the constants and the modules that they name.
"""

from __future__ import annotations

import inspect
import math
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.jit import JITCallable, JITFunction

from kernellab.triton_api.functions import OutsideName, is_of_library, jit_settings, outside_names
from kernellab.triton_api.layouts import parts_of_layout


@dataclass(frozen=True)
class Literal:
    """An expression for a value."""

    text: str
    modules: frozenset[str] = frozenset()
    """The imports that it needs in addition to `triton.language`."""


def literal_of(value: Any) -> Literal | None:
    """An expression for a literal, a type or a layout of Triton, or a sequence; else None."""
    if isinstance(value, tl.constexpr):
        return _call("triton.language.constexpr", {"": value.value})
    if isinstance(value, tl.dtype):
        return Literal(f"triton.language.dtype({value.name!r})")
    if type(value) is float and not math.isfinite(value):
        return Literal(f'float("{value}")')
    if value is None or type(value) in (bool, int, float, str):
        return Literal(repr(value))
    if type(value) in (tuple, list):
        return _sequence(value)
    parts = parts_of_layout(value)
    if parts is None:
        return None
    name, fields = parts
    made = _call(name, fields)
    return made and Literal(made.text, made.modules | {name.rpartition(".")[0]})


def _sequence(values: Any) -> Literal | None:
    items = [literal_of(value) for value in values]
    inside = ", ".join(item.text for item in items if item is not None)
    if None in items:
        return None
    if isinstance(values, list):
        return Literal(f"[{inside}]", _modules(items))
    return Literal(f"({inside},)" if len(items) == 1 else f"({inside})", _modules(items))


def _call(function: str, arguments: Mapping[str, Any]) -> Literal | None:
    given = {name: literal_of(value) for name, value in arguments.items()}
    if None in given.values():
        return None
    words = ", ".join(
        f"{name}={literal.text}" if name else literal.text
        for name, literal in given.items()
        if literal is not None
    )
    return Literal(f"{function}({words})", _modules(given.values()))


def _modules(items: Iterable[Literal | None]) -> frozenset[str]:
    return frozenset().union(*(item.modules for item in items if item is not None))


@dataclass(frozen=True, eq=False)
class PythonFunction:
    """A function of Python that a text can have beside a kernel."""

    fn: Any
    src: str


def python_function(function: Any) -> PythonFunction | None:
    """A function of Python with its source; None of anything that is not defined with `def`."""
    try:
        source = (
            textwrap.dedent(inspect.getsource(function)) if inspect.isfunction(function) else ""
        )
    except OSError:
        return None
    return PythonFunction(function, source) if source.startswith("def ") else None


MAIN = "__main__"
"""The name by which other modules' texts import from the kernel's."""

_FUTURE_ANNOTATIONS = 0x1000000
"""The flag of code under `from __future__ import annotations`."""


@dataclass(frozen=True)
class StandaloneText:
    """The source of a kernel with all that it needs."""

    text: str
    """A module's text: imports, constants, helpers, the kernel last.
    Without decorators but `@triton.jit` and its like."""
    modules: Mapping[str, str]
    """The texts of the other modules that it imports, as far as it needs them, by name."""
    missing: tuple[str, ...]
    """Objects that the kernel or a helper uses and that a text cannot hold: "mylib.table"."""


def standalone_text(kernel: Any, others: Sequence[Any] = (), beside: Any = None) -> StandaloneText:
    """The text of a kernel.

    Args:
        kernel: a JIT function.
        others: functions that it does not name but the text needs: values of its constants.
        beside: another kernel, which the text has too even if it is of another module.
    """
    writer = _Writer(kernel, beside)
    for function in (*others, kernel, *(() if beside is None else (beside,))):
        writer.add(function)
    return StandaloneText(
        writer.home.text(),
        {module.name: module.text() for module in writer.modules if module is not writer.home},
        tuple(sorted(writer.missing)),
    )


@dataclass
class _ModuleText:
    """A module's text under construction; definitions come before their uses."""

    name: str
    known: dict[str, Any] = field(default_factory=dict)
    """Name in the text -> its object."""
    imports: dict[str, None] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    late_imports: dict[str, None] = field(default_factory=dict)
    """After the definitions, so that modules may import from each other."""
    defers_annotations: bool = False

    def text(self) -> str:
        """The whole."""
        future = ["from __future__ import annotations\n"] if self.defers_annotations else []
        head = dict.fromkeys([*future, "import triton", "import triton.language", *self.imports])
        tail = ["\n".join(self.late_imports)] if self.late_imports else []
        return "\n\n\n".join(["\n".join(head), *self.statements, *tail]) + "\n"

    def is_taken(self, name: str, value: Any) -> bool:
        """Whether the name already has another value; if not, it gets this one."""
        return not _is_same(self.known.setdefault(name, value), value)

    def add_constant(self, name: str, value: Any, literal: Literal) -> None:
        """A statement that gives the value the name."""
        for module in sorted(literal.modules):
            self.imports[f"import {module}"] = None
        # Triton reads a plain global only where it is annotated.
        is_plain = not isinstance(value, tl.constexpr | tl.dtype)
        annotation = ": triton.language.constexpr" if is_plain else ""
        self.statements.append(f"{name}{annotation} = {literal.text}")


class _Writer:
    """Writes a kernel's module and those that it reaches, a text for each.

    Attributes:
        home: the text of the kernel's module.
        missing: objects that a text cannot hold.
    """

    def __init__(self, kernel: Any, beside: Any = None) -> None:
        self.missing: set[str] = set()
        self._texts: dict[int, _ModuleText] = {}
        """By the identity of the modules' globals."""
        self.home = self._texts[id(kernel.fn.__globals__)] = _ModuleText(MAIN)
        if beside is not None:
            self._texts[id(beside.fn.__globals__)] = self.home

    @property
    def modules(self) -> list[_ModuleText]:
        """All texts, in the order of their names."""
        return sorted(self._texts.values(), key=lambda text: text.name)

    def add(self, function: Any) -> None:
        """Write a function in its module's text, and its name into the kernel's module."""
        name = function.fn.__name__
        self._add(self.home, OutsideName((name,), function, is_early=False), name)

    def _add(self, module: _ModuleText, wanted: OutsideName, shown: str) -> None:
        """Write the definition of a name in a module; `shown` is the name at its use."""
        name, value = wanted.path[0], wanted.value
        if isinstance(value, ModuleType) and not is_of_library(value):
            self._add_module(module, wanted, shown)
            return
        is_known = name in module.known
        if module.is_taken(name, value):
            self.missing.add(shown)  # One name, two things: of two calls of one function.
        if is_known:
            return
        is_function = isinstance(value, JITCallable) and not is_of_library(value)
        if is_function or isinstance(value, PythonFunction):
            self._add_function(module, name, value, shown, wanted.is_early)
        elif (imported := _import_of(name, value)) is not None:
            module.imports[imported] = None
        elif (literal := literal_of(value)) is not None:
            module.add_constant(name, value, literal)
        else:
            self.missing.add(shown)

    def _add_module(self, module: _ModuleText, wanted: OutsideName, shown: str) -> None:
        """Add a module of the user: what is used of it, in a separate text."""
        (name, *attributes), value = wanted.path, wanted.value
        there = self._text_of(vars(value))
        if (
            not attributes
            or there is None
            or not hasattr(value, attributes[0])
            or module.is_taken(name, value)
        ):
            self.missing.add(shown)
            return
        imports = module.imports if wanted.is_early else module.late_imports
        imports[_import_of_module(there.name, name)] = None
        inside = OutsideName(tuple(attributes), getattr(value, attributes[0]), wanted.is_early)
        self._add(there, inside, shown)

    def _add_function(
        self, module: _ModuleText, name: str, function: Any, shown: str, is_early: bool
    ) -> None:
        """Write the function in its module's text, and its name in this one."""
        own = function.fn.__name__
        is_python = isinstance(function, PythonFunction)
        there = module if is_python else self._text_of(function.fn.__globals__)
        if there is None:
            self.missing.add(shown)
        elif there is not module:
            self._add(there, OutsideName((own,), function, is_early), shown)
            imports = module.imports if is_early else module.late_imports
            imports[f"from {there.name} import {_renamed(own, name)}"] = None
        elif own != name:
            self._add(module, OutsideName((own,), function, is_early), shown)
            module.statements.append(f"{name} = {own}")
        else:
            self._write_function(module, function)

    def _write_function(self, module: _ModuleText, function: Any) -> None:
        for used in outside_names(function):
            shown = _as_far_as_modules(used)
            self._add(
                module, used, ".".join(shown if module is self.home else (module.name, *shown))
            )
        module.defers_annotations |= bool(function.fn.__code__.co_flags & _FUTURE_ANNOTATIONS)
        if isinstance(function, GluonJITFunction):
            module.imports["import triton.experimental.gluon"] = None
        source = textwrap.dedent(function.src).rstrip()
        is_kernel = not isinstance(function, PythonFunction)
        module.statements.append(f"{_decorator(function)}\n{source}" if is_kernel else source)

    def _text_of(self, scope: dict[str, Any]) -> _ModuleText | None:
        """The text of the module with these globals; None if another module has its name."""
        if id(scope) in self._texts:
            return self._texts[id(scope)]
        name = str(scope.get("__name__", ""))
        name = "another_main" if name == MAIN else name
        is_name = all(part.isidentifier() for part in name.split("."))
        if not is_name or any(text.name == name for text in self._texts.values()):
            return None
        self._texts[id(scope)] = _ModuleText(name)
        return self._texts[id(scope)]


def _as_far_as_modules(used: OutsideName) -> tuple[str, ...]:
    """The part of a path through modules: ("mylib", "scale") of mylib.scale.value."""
    value, depth = used.value, 1
    while isinstance(value, ModuleType) and depth < len(used.path):
        value, depth = getattr(value, used.path[depth], None), depth + 1
    return used.path[:depth]


def _is_same(first: Any, second: Any) -> bool:
    plain = type(first) is type(second) and isinstance(first, tl.constexpr | int | float | str)
    return first is second or (plain and repr(first) == repr(second))


def _decorator(function: Any) -> str:
    if not isinstance(function, JITFunction):
        return "@triton.constexpr_function"
    jit = (
        "triton.experimental.gluon.jit" if isinstance(function, GluonJITFunction) else "triton.jit"
    )
    settings = {name: value for name, value in jit_settings(function).items() if value}
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"@{jit}({given})" if given else f"@{jit}"


def _renamed(own: str, name: str) -> str:
    return own if own == name else f"{own} as {name}"


def _import_of_module(module: str, name: str) -> str:
    package, _, last = module.rpartition(".")
    return f"{f'from {package} ' if package else ''}import {_renamed(last, name)}"


def _import_of(name: str, value: Any) -> str | None:
    """The import of something of Triton's, torch's, NumPy's or Python's; None of others."""
    if not is_of_library(value):
        return None
    if isinstance(value, ModuleType):
        return f"import {_renamed(value.__name__, name)}"
    inside = getattr(value, "fn", value)
    own = getattr(inside, "__qualname__", "") or getattr(inside, "__name__", "")
    actual = getattr(sys.modules.get(value.__module__), own, None) if own.isidentifier() else None
    return f"from {value.__module__} import {_renamed(own, name)}" if actual is value else None
