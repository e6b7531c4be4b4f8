"""A kernel as one text that stands alone: its helpers, the constants and Triton's modules that they name; and the kernel of such a text."""

from __future__ import annotations

import ast
import hashlib
import linecache
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.jit import JITCallable, JITFunction

from kernellab.triton_api.functions import jit_settings, scope_of


@dataclass(frozen=True)
class StandaloneText:
    """The source of a kernel with all that it needs."""

    text: str
    """A module's text: imports, constants, helpers, the kernel last. Without decorators but `@triton.jit`."""
    missing: tuple[str, ...]
    """Names that the kernel or a helper uses, and that no text of Triton's alone can hold."""


def standalone_text(kernel: Any, others: Sequence[Any] = ()) -> StandaloneText:
    """The text of a kernel.

    Args:
        kernel: a JIT function.
        others: JIT functions that it does not name but needs: values of its constants.
    """
    writer = _Writer()
    for function in (*others, kernel):
        writer.add(function.fn.__name__, function)
    return StandaloneText(writer.text(), tuple(sorted(writer.missing)))


class _Writer:
    """Collects statements, what is named before those that name it."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self._imports = ["import triton", "import triton.language"]
        self._statements: list[str] = []
        self._known: dict[str, Any] = {}
        """Name in the text -> what it stands for."""

    def text(self) -> str:
        return "\n\n\n".join(["\n".join(self._imports), *self._statements]) + "\n"

    def add(self, name: str, value: Any) -> None:
        """Write what gives `value` that name."""
        if name in self._known:
            if not _is_same(self._known[name], value):
                self.missing.add(name)  # One name, two things: of two modules.
            return
        self._known[name] = value
        if isinstance(value, JITFunction) and not _is_tritons(value):
            self._add_function(name, value)
            return
        statement = _statement(name, value)
        if statement is None:
            self.missing.add(name)
        else:
            is_import = statement.startswith(("import ", "from "))
            (self._imports if is_import else self._statements).append(statement)

    def _add_function(self, name: str, function: Any) -> None:
        own = function.fn.__name__
        if isinstance(function, GluonJITFunction):
            self.missing.add(name)
            return
        if own != name:
            self.add(own, function)
            self._statements.append(f"{name} = {own}")
            return
        for used, value in _named_globals(function):
            self.add(used, value)
        self._statements.append(f"{_decorator(function)}\n{textwrap.dedent(function.src).rstrip()}")


def _named_globals(function: Any) -> Iterator[tuple[str, Any]]:
    """The globals and captured variables that a function names, in annotations and defaults too."""
    scope = scope_of(function.fn)
    named = {node.id for node in ast.walk(function.parse()) if isinstance(node, ast.Name)}
    for name in sorted(named):
        if name in scope:
            yield name, scope[name]


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, tl.constexpr | int | float | str) and repr(one) == repr(other)  # fmt: skip


def _is_tritons(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == "triton"


def _decorator(function: Any) -> str:
    wishes = {name: value for name, value in jit_settings(function).items() if value}
    given = ", ".join(f"{name}={value!r}" for name, value in wishes.items())
    return f"@triton.jit({given})" if given else "@triton.jit"


def _statement(name: str, value: Any) -> str | None:
    """What gives a name to something that is no function of the user's; None where only the user's modules have it."""
    if isinstance(value, ModuleType):
        is_tritons = value.__name__.partition(".")[0] == "triton"
        return f"import {value.__name__} as {name}" if is_tritons else None
    if isinstance(value, tl.constexpr):
        inside = _literal(value.value)
        return None if inside is None else f"{name} = triton.language.constexpr({inside})"
    if isinstance(value, tl.dtype):
        return f"{name} = triton.language.dtype({value.name!r})"
    literal = _literal(value)
    if literal is not None:  # Triton reads a plain global only where it is annotated.
        return f"{name}: triton.language.constexpr = {literal}"
    qualname = getattr(value, "__qualname__", getattr(getattr(value, "fn", None), "__qualname__", ""))  # fmt: skip
    if _is_tritons(value) and qualname.isidentifier():
        return f"from {value.__module__} import {qualname} as {name}"
    return None


def _literal(value: Any) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tl.dtype):
        return f"triton.language.dtype({value.name!r})"
    return None


def kernel_of_text(text: str, name: str) -> Any:
    """The kernel of that name in the text of `standalone_text`, which is run.

    Raises:
        SyntaxError, NameError, AttributeError, ImportError, KeyError: it is no such text, or of another Triton.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    file = f"<{name}, from a saved sweep, {digest}>"
    # Triton reads a function's source by its file; this one is nowhere else.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": f"kernellab_saved_{digest}"}
    exec(compile(text, file, "exec"), scope)  # noqa: S102
    found = scope[name]
    if not isinstance(found, JITCallable):
        raise KeyError(name)
    return found
