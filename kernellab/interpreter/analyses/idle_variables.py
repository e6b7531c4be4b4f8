"""Variables that change while a program waits, and decide nothing: the number of its tries.

A program that waits is in a circle if what decides comes back to what it was: what a loop's
condition is computed from, and what it reads and writes memory by. What only counts along may go
on. It is looked for in the generated code, whose variables the scheduler compares.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

_WITHOUT_EFFECT = {
    "tiles": {
        "merge", "narrowed", "splat", "unsplat", "expand_dims", "make_range", "select", "full",
    },
    "numpy": {"where", "minimum", "maximum"},
}  # fmt: skip
"""Functions of generated code's modules that compute and cannot fail."""
_METHODS_WITHOUT_EFFECT = {"any", "all", "astype"}
_WITH_EFFECTS = ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr | ast.Lambda | ast.Subscript


@lru_cache(maxsize=64)
def idle_variables(source: str) -> frozenset[str]:
    """The variables of generated code that decide nothing in the loops that wait,
    those which `yield`.

    A loop inside another one is come to again with what it left behind:
    there, variables that are read outside of it decide too.
    """
    tree = ast.parse(source)
    idle: set[str] = set()
    deciding: set[str] = set()
    for loop, inside_another in _spin_loops(tree, None):
        assigned = _assigned(loop)
        decides = _deciding(loop, _read_outside(tree, loop) if inside_another else set())
        idle |= assigned - decides
        deciding |= assigned & decides
    return frozenset(idle - deciding)


def _spin_loops(
    node: ast.AST, loop: ast.For | ast.While | None, inside_another: bool = False
) -> Iterator[tuple[ast.For | ast.While, bool]]:
    """The innermost loop around every `yield` of a program that waits, and whether it is inside
    another one.
    """
    if isinstance(node, ast.Yield) and node.value is None and loop is not None:
        yield loop, inside_another
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.For | ast.While):
            yield from _spin_loops(child, child, loop is not None)
        else:
            yield from _spin_loops(child, loop, inside_another)


def _assigned(loop: ast.AST) -> set[str]:
    names = (node for node in ast.walk(loop) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _read(node: ast.AST) -> set[str]:
    names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _read_outside(node: ast.AST, loop: ast.AST) -> set[str]:
    """What is read anywhere but in a loop."""
    if node is loop:
        return set()
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    return set().union(*(_read_outside(child, loop) for child in ast.iter_child_nodes(node)))


def _deciding(loop: ast.AST, asked_for: set[str]) -> set[str]:
    """The variables from which anything is computed that has an effect,
    says where the loop goes on, or is asked for.
    """
    deciding = set(asked_for)
    handed_on: list[tuple[str, set[str]]] = []
    for statement in _statements(loop):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _only_computes(value):
                handed_on.append((name, _read(value)))
            case ast.Expr(value=value) if _only_emits_event(value):
                pass
            case ast.If(test=test) | ast.While(test=test):
                deciding |= _read(test)
            case _:
                deciding |= _read(statement)
    known = -1
    while len(deciding) != known:
        known = len(deciding)
        for name, read in handed_on:
            if name in deciding:
                deciding |= read
    return deciding


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a loop and of the branches and loops in it, itself first;
    others are not looked into.
    """
    if isinstance(node, ast.stmt):
        yield node
    if isinstance(node, ast.If | ast.While):
        for child in [*node.body, *node.orelse]:
            yield from _statements(child)


def _only_computes(value: ast.expr) -> bool:
    """Whether an expression has no effect, cannot fail, and depends on nothing
    but the variables in it.
    """
    return all(
        _is_harmless(node.func)
        if isinstance(node, ast.Call)
        else not isinstance(node, _WITH_EFFECTS)
        for node in ast.walk(value)
    )


def _is_harmless(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _WITHOUT_EFFECT:
            return name in _WITHOUT_EFFECT[module]
        case ast.Attribute(attr=name):
            return name in _METHODS_WITHOUT_EFFECT
        case _:
            return False


def _only_emits_event(value: ast.expr) -> bool:
    """A statement for those who listen to the values of a run."""
    match value:
        case ast.Yield(value=None | ast.Constant()) | ast.Constant():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="observer"), attr="computed")):
            return True
    return False
