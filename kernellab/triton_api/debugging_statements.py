"""`breakpoint()` and `print(x)` in kernels, which Triton's front end refuses, as what it takes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from triton.runtime.jit import JITCallable

from kernellab.common.patches import WhileAnyThread, replaced

_IS_BREAKPOINT = "kernellab_breakpoint"


def rewrite_debugging_statements(tree: ast.Module) -> ast.Module:
    """A kernel's source, in place, as Triton's front end takes it; every statement keeps its line.

    `breakpoint()` becomes `pass`, which generates no code on a GPU; `is_breakpoint` still knows it.
    `print(x)` becomes `print("x", x)`, which is `tl.device_print`: what is printed follows the text
    before it, or its own expression where there is none. Several texts make several prints.
    """
    rewritten: ast.Module = _Rewriter().visit(tree)
    return rewritten


def is_breakpoint(node: ast.AST) -> bool:
    """Whether a statement was a `breakpoint()`."""
    return getattr(node, _IS_BREAKPOINT, False) is True


@contextmanager
def debugging_statements_are_read() -> Iterator[None]:
    """While active, what this thread's front end reads is rewritten,
    whoever the functions belong to.
    """
    token = _is_reading.set(True)
    try:
        with _reader_in_place:
            yield
    finally:
        _is_reading.reset(token)


_is_reading: ContextVar[bool] = ContextVar("kernellab_debugging_statements", default=False)


def _reading(parse: Callable[[Any], ast.Module]) -> Callable[[Any], ast.Module]:
    def read(function: Any) -> ast.Module:
        tree = parse(function)
        return rewrite_debugging_statements(tree) if _is_reading.get() else tree

    return read


_reader_in_place = WhileAnyThread(lambda: replaced(JITCallable, parse=_reading(JITCallable.parse)))


class _Rewriter(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> Any:
        if not (isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)):
            return node
        if node.value.func.id == "breakpoint" and not node.value.args and not node.value.keywords:
            instead = ast.copy_location(ast.Pass(), node)
            setattr(instead, _IS_BREAKPOINT, True)
            return instead
        if node.value.func.id == "print":
            return [_print(node, node.value, text, values) for text, values in _parts(node.value)]
        return node


def _print(statement: ast.Expr, call: ast.Call, text: str, values: list[ast.expr]) -> ast.Expr:
    prefix = ast.copy_location(ast.Constant(text), call)
    printed = ast.copy_location(ast.Call(call.func, [prefix, *values], call.keywords), call)
    return ast.copy_location(ast.Expr(printed), statement)


def _parts(call: ast.Call) -> Iterator[tuple[str, list[ast.expr]]]:
    """What a print says: texts, each with the values that follow it."""
    text: str | None = None
    values: list[ast.expr] = []
    for said in _said(call.args):
        if isinstance(said, str):
            if values:
                yield _label(text, values), values
                text, values = None, []
            text = said if text is None else f"{text} {said}"
        else:
            values.append(said)
    if values or text is not None or not call.args:
        yield _label(text, values), values


def _said(arguments: list[ast.expr]) -> Iterator[str | ast.expr]:
    """Texts and values in their order; an f-string is taken apart."""
    for argument in arguments:
        match argument:
            case ast.Constant(value=str() as text):
                yield text
            case ast.JoinedStr():
                for part in argument.values:
                    if isinstance(part, ast.FormattedValue):
                        yield part.value
                    elif text := str(getattr(part, "value", "")).strip(" ,;=:"):
                        yield text
            case _:
                yield argument


def _label(text: str | None, values: list[ast.expr]) -> str:
    if text is not None:
        return text
    return ", ".join(ast.unparse(value) for value in values)
