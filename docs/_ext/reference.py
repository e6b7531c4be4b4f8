"""The reference, from docstrings: `{public}` for public names of kernellab, `{magic}`, `{command}`,
and `{passes}` for the notes on Triton's passes.

Docstrings are Markdown here as they are in a notebook's help: examples are indented, and what
follows "Args:", "Returns:" and "Raises:" becomes a list.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import io
import os
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from markdown import MarkdownDirective, escaped, fenced
from sphinx.application import Sphinx

SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$", re.MULTILINE)


class Shown(str):
    """An annotation that prints without quotes."""

    __repr__ = str.__str__


def signature(thing: Any) -> str:
    """Return a function's signature on one line."""
    signed = inspect.signature(thing)

    def bare(annotation: Any) -> Any:
        return Shown(annotation) if isinstance(annotation, str) else annotation

    parameters = [
        parameter.replace(annotation=bare(parameter.annotation))
        for parameter in signed.parameters.values()
        if parameter.name != "self"
    ]
    return str(
        signed.replace(parameters=parameters, return_annotation=bare(signed.return_annotation))
    )


def signature_of_member(value: Any) -> str:
    """A method's, without `self` or `cls`."""
    if isinstance(value, classmethod):
        return re.sub(r"^\(cls(, )?", "(", signature(value.__func__))
    return signature(value)


def prose(text: str) -> str:
    """Paragraphs, with the code among them."""
    return "\n".join(
        line if line.startswith("    ") else escaped(line) for line in text.strip("\n").split("\n")
    )


ENTRY = re.compile(r"[*\w][\w*, ]*: ")
BETWEEN_ENTRIES = re.compile(rf"\n(?={ENTRY.pattern})|\n\n(?=\S)")


def entries(text: str) -> Iterator[str]:
    """Yield the text below "Args:" as a list; an entry may hold paragraphs and another list. What
    has no name, such as a remark on all entries, is a paragraph below the list.
    """
    for entry in BETWEEN_ENTRIES.split(textwrap.dedent(text.strip("\n"))):
        name, colon, words = entry.partition(": ")
        head = f"`{name}`: " if colon and ENTRY.match(entry) else ""
        first, *more = re.split(r"\n\n", words if head else entry)
        words_of_first = escaped(" ".join(first.split()))
        yield f"- {head}{words_of_first}" if head else f"\n{words_of_first}\n"
        for paragraph in map(textwrap.dedent, more):
            inner = entries(paragraph) if ENTRY.match(paragraph) else [prose(paragraph)]
            yield "\n" + textwrap.indent("\n".join(inner), "  ") + "\n"


def docstring(thing: Any) -> str:
    """A docstring as Markdown."""
    first, *rest = SECTION.split(inspect.getdoc(thing) or "")
    parts = [prose(first)]
    for title, text in zip(rest[::2], rest[1::2], strict=True):
        inside, *after = re.split(r"\n(?=\S)", text, maxsplit=1)
        listed = title in ("Args", "Raises", "Attributes")
        shown = list(entries(inside)) if listed else [prose(textwrap.dedent(inside.strip("\n")))]
        parts += [f"**{title}**", "\n".join(shown), *map(prose, after)]
    return "\n\n".join(part for part in parts if part)


def fields_of(thing: type) -> Iterator[tuple[str, str, str]]:
    """The public fields of a class in the order of its file: name, type, docstring."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    except (OSError, TypeError, SyntaxError):
        return
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        said = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            said = inspect.cleandoc(str(after.value.value))
        if not node.target.id.startswith("_"):
            yield node.target.id, ast.unparse(node.annotation), said


def block(kind: str, head: str, body: str, ticks: int) -> str:
    """One of Sphinx's descriptions of Python."""
    fence = "`" * ticks
    return f"{fence}{{py:{kind}}} {head}\n\n{body}\n{fence}\n"


def members(thing: type) -> Iterator[str]:
    """The fields, properties and methods of a class of ours."""
    for owner in (base for base in thing.__mro__ if base.__module__.startswith("kernellab")):
        for name, annotation, said in fields_of(owner):
            head = f"{name}\n:type: {annotation}"
            yield name, block("attribute", head, prose(said), 5)
        for name, value in vars(owner).items():
            if name.startswith("_") or not inspect.getdoc(value):
                continue
            if isinstance(value, property | functools.cached_property):
                yield name, block("property", name, docstring(value), 5)
            elif inspect.isroutine(value):
                yield (
                    name,
                    block("method", f"{name}{signature_of_member(value)}", docstring(value), 5),
                )


def described(name: str) -> str:
    """A public name."""
    import kernellab

    thing = getattr(kernellab, name)
    if not inspect.isclass(thing):
        return block("function", f"kernellab.{name}{signature(thing)}", docstring(thing), 7)
    kind = "exception" if issubclass(thing, BaseException) else "class"
    inside = dict(reversed(list(members(thing))))  # a class's own goes before its base's
    body = "\n".join([docstring(thing), "", *reversed(inside.values())])
    made_by_users = kind == "class" and not dataclasses.is_dataclass(thing)
    head = f"kernellab.{name}{signature(thing) if made_by_users else ''}"
    return block(kind, head, body, 7)


class Public(MarkdownDirective):
    """The public names, each on a line."""

    has_content = True

    def markdown(self) -> str:
        return "\n".join(described(name) for name in " ".join(self.content).split())


class Magic(MarkdownDirective):
    """A magic: what it does, its options as a table, examples."""

    required_arguments = 1

    def markdown(self) -> str:
        from kernellab.magics import _all_magics

        magic = next(item for item in _all_magics() if item.magic == self.arguments[0])
        before, _, examples = magic.help.partition("\nExamples:\n")
        before = re.split(r"\nOptions.*:\n", before)[0]
        rows = [
            f"| `{flag} {option.metavar}`".rstrip("` ") + f"` | {escaped(option.help)} |"
            for flag, option in magic.by_flag.items()
        ]
        table = ["| option | |", "|---|---|", *rows] if rows else []
        parts = [prose(before), "\n".join(table)]
        return "\n\n".join([*parts, fenced(textwrap.dedent(examples)) if examples else ""])


class Command(MarkdownDirective):
    """A command's help, as the terminal shows it."""

    required_arguments = 1
    final_argument_whitespace = True

    def markdown(self) -> str:
        from kernellab.cli.main import main

        os.environ["COLUMNS"] = "92"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*self.arguments[0].split()[1:], "--help"])
        return fenced(printed.getvalue())


class Passes(MarkdownDirective):
    """The notes on the passes of one topic."""

    required_arguments = 1
    final_argument_whitespace = True

    def markdown(self) -> str:
        from kernellab.compiler.passes import pass_notes

        notes = [note for note in pass_notes().values() if note.topic == self.arguments[0]]
        return "\n".join(f"**`{note.name}`.** {escaped(note.text)}\n" for note in notes)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("public", Public)
    app.add_directive("magic", Magic)
    app.add_directive("command", Command)
    app.add_directive("passes", Passes)
    return {"parallel_read_safe": True}
