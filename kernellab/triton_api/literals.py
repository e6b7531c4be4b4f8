"""Values as Python text that gives them again; Gluon's layouts by class and fields."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import triton.language as tl

_LAYOUTS = "triton.experimental.gluon.language"


@dataclass(frozen=True)
class Literal:
    """An expression for a value."""

    text: str
    modules: frozenset[str] = frozenset()
    """What it takes imported, in addition to `triton.language`."""


def literal_of(value: Any) -> Literal | None:
    """An expression for a number, a text, a type or a layout of Triton's,
    or a tuple or list of them; None of anything else.
    """
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


# Layouts


def parts_of_layout(value: Any) -> tuple[str, dict[str, Any]] | None:
    """The class of one of Gluon's layouts, by its full name, and its fields;
    None of anything that these do not make again.
    """
    kind = type(value)
    if not kind.__module__.startswith(_LAYOUTS) or not dataclasses.is_dataclass(value):
        return None
    fields = {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init
    }
    try:
        is_same = kind(**fields) == value
    except Exception:
        return None
    return (f"{kind.__module__}.{kind.__qualname__}", fields) if is_same else None


def layout_of_parts(name: str, fields: Mapping[str, Any]) -> Any:
    """The layout that `parts_of_layout` took apart.

    Raises:
        ValueError: this Triton has no such layout, or its fields are others.
    """
    module, _, own = name.rpartition(".")
    try:
        if f"{module}.".startswith(f"{_LAYOUTS}."):
            kind = getattr(importlib.import_module(module), own)
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                return kind(**fields)
    except Exception as error:
        raise ValueError(f"the layout {name} cannot be made here: {error}") from error
    raise ValueError(f"{name!r} is not a layout of this version of Triton")
