"""Try what a fix says to write: put it into the source, and have the front end compile that."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from kernellab.errors import Change, changes_between
from kernellab.triton_api.fixes.refusal import Refusal
from kernellab.triton_api.functions import definition_of
from kernellab.triton_api.variants import with_source

_MOST = 6
"""The most places where a fix is tried."""

_NOT_VARIABLES = frozenset({"tl", "torch", "np", "numpy", "math", "triton", *dir(builtins)})

Attempt = Callable[[Any], object]
"""Compiles a variant of the kernel; raises what the front end raises."""


def tried_change(refusal: Refusal, advice: str, attempt: Attempt) -> tuple[Change, ...] | None:
    """Return the change that an advice asks for, if the front end takes the kernel with it.

    Returns:
        The change; () if the front end refuses all that the advice may mean; None if the advice is
        not an expression to write in place of one of the kernel's.
    """
    source = str(refusal.function.src)
    sources = list(_sources(refusal, advice, source))[:_MOST]
    for changed in sources:
        with suppress(Exception):  # the front end's, of a change that does not help
            attempt(with_source(refusal.function, changed))
            return changes_between(source, changed, definition_of(refusal.function).line)
    return () if sources else None


def _sources(refusal: Refusal, advice: str, source: str) -> Iterator[str]:
    """Yield the source with what the advice says to write in place of an expression with the same
    variables, the refused one first.
    """
    code = _code(advice)
    if code is None or not isinstance(refusal.node, ast.AST):
        return
    wanted = _names(ast.parse(code))
    nodes = [*refusal.nodes(), *refusal.around()]
    is_expression = isinstance(ast.parse(code).body[0], ast.Expr)
    kinds = ast.expr | ast.Assign | ast.AugAssign if is_expression else ast.Assign | ast.If
    for node in nodes:
        if isinstance(node, kinds) and _names(node) == wanted:
            text = ast.get_source_segment(source, node)
            if text and text != code and source.count(text) == 1:
                yield source.replace(text, code)


def _code(advice: str) -> str | None:
    """Return the expression or assignment that an advice says to write."""
    for end in (match.end() for match in re.finditer(r"[.;,](?: |$)|$", advice)):
        match = re.search(r"\bWrite (.+)$", advice[:end].rstrip(" .;,"))
        if match is None:
            continue
        with suppress(SyntaxError, ValueError):
            ast.parse(match[1])
            return match[1]
    return None


def _names(tree: ast.AST) -> frozenset[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(names - _NOT_VARIABLES)
