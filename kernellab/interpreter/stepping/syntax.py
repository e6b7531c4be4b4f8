"""Pieces of Python's syntax that code for stepping is made of."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence

from kernellab.interpreter.codegen.code_writer import function_definition
from kernellab.interpreter.codegen.expressions import (
    BUILTINS,
    MODULES,
    Expression,
    variable,
)


def parts_ways(statement: ast.stmt) -> bool:
    """Whether what runs after the statement may come from more than one line."""
    if isinstance(statement, ast.If):
        return not isinstance(statement.body[0], ast.Break)
    return isinstance(statement, ast.For | ast.While | ast.FunctionDef)


def without_positions(statement: ast.stmt) -> ast.stmt:
    """Return a copy: expressions are shared, and each takes the position
    of its first statement. Statements inside are as they are.
    """
    copied = copy.copy(statement)
    for name, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            continue
        fresh = copy.deepcopy(value)
        for node in fresh if isinstance(fresh, list) else [fresh]:
            if isinstance(node, ast.AST):
                _forget_positions(node)
        setattr(copied, name, fresh)
    return copied


def _forget_positions(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        for attribute in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            vars(node).pop(attribute, None)


def function(
    name: str,
    parameters: Iterable[str],
    body: list[ast.stmt],
    line: int,
    keywords: Sequence[str] = (),
) -> ast.FunctionDef:
    """Return a function whose `def` is on a line, like the parts of its body without a line."""
    made = function_definition(name, parameters, body, keywords)
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            vars(node).update(lineno=line, end_lineno=line, col_offset=0, end_col_offset=0)
    return made


# Names
#
# A kernel may call its variables anything: `tiles`, `range`, `_hook`. What generated code refers
# to beside them therefore has names with a dot, which no source can have.

_GENERATED = "_."
_OF_KERNEL = "kernel."


def generated(name: str) -> str:
    """Return a name for generated code that no kernel has."""
    return f"{_GENERATED}{name}"


def read_of_kernel(name: str) -> Expression:
    """Reads a variable of the kernel, until `make_names_unique` under a name that no module has."""
    return variable(f"{_OF_KERNEL}{name}")


def make_names_unique(function: ast.FunctionDef) -> None:
    """Let the kernel's variables have their names, and modules and Python's own
    functions generated ones.
    """
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id.startswith(_OF_KERNEL):
                node.id = node.id.removeprefix(_OF_KERNEL)
            elif node.id in MODULES or node.id in BUILTINS:
                node.id = generated(node.id)
