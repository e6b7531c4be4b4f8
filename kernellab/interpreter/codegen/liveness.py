"""`del` after the last use: tiles are let go as soon as nothing reads them,
so that a batch stays in the cache.
"""

from __future__ import annotations

import ast


def release_dead(statements: list[ast.stmt], candidates: set[str]) -> list[ast.stmt]:
    """`statements`, with a `del` after the last use of each candidate that they assign, once,
    at their own level.

    A variable whose last use is the last statement is left to the end of the block.
    """
    assigned = _assigned_once(statements) & candidates
    last_use: dict[str, int] = {}
    for position, statement in enumerate(statements):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in assigned:
                last_use[node.id] = position
    last_at: dict[int, list[str]] = {}
    for name, last in last_use.items():
        last_at.setdefault(last, []).append(name)
    result: list[ast.stmt] = []
    for position, statement in enumerate(statements):
        result.append(statement)
        dead = last_at.get(position, ())
        if dead and position + 1 < len(statements):
            deletion = ast.Delete([ast.Name(name, ast.Del()) for name in dead])
            result.append(_positioned_like(deletion, statement))
    return result


def _assigned_once(statements: list[ast.stmt]) -> set[str]:
    """Names that exactly one statement of this level assigns, and none below assigns again."""
    counts: dict[str, int] = {}
    own: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.Assign):
            own.update(
                node.id
                for target in statement.targets
                for node in ast.walk(target)
                if isinstance(node, ast.Name)
            )
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                counts[node.id] = counts.get(node.id, 0) + 1
    return {name for name in own if counts[name] == 1}


def _positioned_like(new: ast.stmt, old: ast.stmt) -> ast.stmt:
    for node in ast.walk(new):
        if isinstance(node, ast.stmt | ast.expr):
            ast.copy_location(node, old)
    return new
