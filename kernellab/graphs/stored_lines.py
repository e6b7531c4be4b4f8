"""Lines of generated kernels: which one stores what a launch leaves in an argument."""

from __future__ import annotations

import ast


def parameters_of(source: str, kernel: str) -> tuple[str, ...]:
    """The names of a kernel's parameters."""
    return tuple(one.arg for one in _function(source, kernel).args.args)


def storing_line(source: str, kernel: str, parameter: str) -> tuple[int | None, str]:
    """Number, from 1, and text of the last line that stores to a parameter, where one does."""
    found = [
        node.lineno
        for node in ast.walk(_function(source, kernel))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith(("tl.store", "tl.atomic", "tl.device"))
        and node.args
        and any(isinstance(one, ast.Name) and one.id == parameter for one in ast.walk(node.args[0]))
    ]
    if not found:
        return None, ""
    return max(found), source.splitlines()[max(found) - 1]


def _function(source: str, kernel: str) -> ast.FunctionDef:
    return next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == kernel
    )
