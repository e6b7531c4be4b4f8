"""Write `js/src/data.ts`: the data that views draw, as TypeScript,
from the classes that each view in `kernellab/viz` consists of.

python tools/view_types.py [--check]
"""

from __future__ import annotations

import argparse
import collections.abc
import dataclasses
import importlib
import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "js/src/data.ts"

HEADER = """\
// Made by tools/view_types.py from the data classes of kernellab/viz, which explain the fields; change those classes.
"""

REPLIES = ("Tab", "ArgumentStep", "TensorPart")
"""The classes of what requests are answered with, which no view has as a field."""

_PLAIN = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    bytes: "null",
}


def typescript(annotation: Any) -> str:
    """A Python annotation as TypeScript."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if dataclasses.is_dataclass(annotation):
        assert isinstance(annotation, type)
        return annotation.__name__
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(typescript(one) for one in arguments)
    if origin is collections.abc.Sequence or (origin is tuple and arguments[-1] is ...):
        return f"readonly {_in_brackets(typescript(arguments[0]))}[]"
    if origin is tuple:
        return f"readonly [{', '.join(typescript(one) for one in arguments)}]"
    if origin is collections.abc.Mapping:
        return f"Readonly<Record<{typescript(arguments[0])}, {typescript(arguments[1])}>>"
    raise TypeError(f"view_types knows no TypeScript for {annotation!r}")


def _in_brackets(text: str) -> str:
    return f"({text})" if " " in text else text


def interface(kind: type) -> str:
    """A data class as a TypeScript interface."""
    hints = typing.get_type_hints(kind)
    summary = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    lines = [f"/** {summary} */", f"export interface {kind.__name__} {{"]
    lines += [
        f"  readonly {field.name}: {typescript(hints[field.name])};"
        for field in dataclasses.fields(kind)
    ]
    return "\n".join([*lines, "}"])


def modules() -> list[types.ModuleType]:
    """The modules that define what a view draws, in the order of their files."""
    files = sorted((ROOT / "kernellab/viz").rglob("*.py"))
    names = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in files
        if "(ViewData):" in file.read_text(encoding="utf-8")
    ]
    return [importlib.import_module(name) for name in names]


def add_classes(annotation: Any, drawn: set[type]) -> None:
    """Add the data classes that an annotation consists of, and those of their fields."""
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        if annotation in drawn:
            return
        drawn.add(annotation)
        for hint in typing.get_type_hints(annotation).values():
            add_classes(hint, drawn)
    for argument in typing.get_args(annotation):
        add_classes(argument, drawn)


def page() -> str:
    """The whole file."""
    kinds = [
        kind
        for module in modules()
        for kind in vars(module).values()
        if inspect.isclass(kind) and dataclasses.is_dataclass(kind)
        if kind.__module__ == module.__name__
    ]
    drawn: set[type] = set()
    for kind in kinds:
        if "kind" in typing.get_type_hints(kind) or kind.__name__ in REPLIES:
            add_classes(kind, drawn)
    kinds = [kind for kind in kinds if kind in drawn]
    views = [kind.__name__ for kind in kinds if "kind" in typing.get_type_hints(kind)]
    union = f"/** What a view can draw. */\nexport type ViewData = {' | '.join(views)};"
    return "\n".join([HEADER, "\n\n".join(interface(kind) for kind in kinds), "", union, ""])


def main() -> None:
    """Write the file, or with --check say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where the file is not current"
    )
    if parser.parse_args().check:
        sys.exit(0 if PAGE.read_text() == page() else f"{PAGE} is not current: run {sys.argv[0]}")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
