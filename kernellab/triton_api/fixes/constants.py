"""Constants that a kernel assigns again, or computes: each fix is tried, because which of them the
front end takes depends on the loop around them.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from kernellab.triton_api.fixes.rules import Attempted, Fix, Refusal, rule


@rule(r"cannot reassign constexpr (\w+) in the loop|(\w+) is already defined\. constexpr cannot")
def _assigned_again(refused: Refusal, match: re.Match[str]) -> Fix:
    name = match[1] or match[2]
    loop = _loop_around(refused)
    reason = f"A constexpr is assigned once, and {name} is assigned twice."
    if loop is not None:
        unrolled = "static_range" in ast.unparse(loop.iter)
        why = "tl.static_range repeats the body of its loop" if unrolled else "The loop repeats it"
        reason = f"{why}, so that {name} is assigned again, and a constexpr is assigned once."
    return Fix(reason, "", attempts=tuple(_attempts(refused, name, loop)))


@rule(r"Loop carried variable (\w+) changed type, .*tensor'> but is now .*constexpr'>")
def _became_a_constant(refused: Refusal, match: re.Match[str]) -> Fix | None:
    """A parameter without annotation whose argument is 1: Triton makes a constant of it."""
    name = match[1]
    if not refused.is_parameter(name) or refused.is_constant(name):
        return None
    return Fix(
        f"{name} is 1 in this launch, so that Triton made it a constant, and the loop assigns a "
        f"number to it. @triton.jit(do_not_specialize=[{name!r}]) keeps it a number.",
        "",
    )


def _loop_around(refused: Refusal) -> ast.For | None:
    return next((node for node in refused.around() if isinstance(node, ast.For)), None)


def _attempts(refused: Refusal, name: str, loop: ast.For | None) -> Iterator[Attempted]:
    statement = refused.statement()
    source = str(refused.function.src)
    if not isinstance(statement, ast.AnnAssign | ast.Assign) or statement.value is None:
        return
    text = ast.get_source_segment(source, statement) or ""
    if loop is not None and not _depends_on(statement.value, loop):
        yield Attempted(f"Move the line {text} above the loop.", _hoisted(source, statement, loop))
    if loop is not None:
        yield Attempted(
            f"Write {ast.unparse(statement.value)} in place of {name} in the loop.",
            _written_out(source, name, statement, loop),
        )
    if isinstance(statement, ast.AnnAssign):
        plain = f"{name} = {ast.get_source_segment(source, statement.value)}"
        yield Attempted(f"Write {plain}, without tl.constexpr.", source.replace(text, plain))
    if loop is None:
        yield Attempted(
            f"Use another name for the second {name}.", _renamed(source, name, statement)
        )


def _depends_on(value: ast.expr, loop: ast.For) -> bool:
    """Return whether an expression uses what a loop assigns."""
    assigned = {
        node.id
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return any(isinstance(node, ast.Name) and node.id in assigned for node in ast.walk(value))


def _hoisted(source: str, statement: ast.stmt, loop: ast.For) -> str:
    lines = source.splitlines(keepends=True)
    first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
    block = lines[first:last]
    inner, outer = statement.col_offset, loop.col_offset
    moved = [line[min(inner - outer, len(line) - len(line.lstrip(" "))) :] for line in block]
    del lines[first:last]
    if len(loop.body) == 1:
        lines.insert(first, " " * inner + "pass\n")
    lines[loop.lineno - 1 : loop.lineno - 1] = moved
    return "".join(lines)


def _written_out(source: str, name: str, statement: ast.stmt, loop: ast.For) -> str:
    value = ast.get_source_segment(source, statement.value) or ""  # type: ignore[attr-defined]
    return _replaced(source, _uses(loop, name, statement), f"({value})", statement)


def _uses(tree: ast.AST, name: str, but: ast.AST | None = None) -> list[ast.Name]:
    skipped = set() if but is None else set(ast.walk(but))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and node not in skipped
    ]


def _replaced(source: str, nodes: list[ast.Name], text: str, without: ast.stmt | None) -> str:
    """Return the source with expressions of one line replaced, and `pass` for a statement."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    for node in sorted(nodes, key=lambda node: (-node.lineno, -node.col_offset)):
        line = lines[node.lineno - 1]
        end = node.end_col_offset or node.col_offset
        lines[node.lineno - 1] = line[: node.col_offset] + text.encode() + line[end:]
    if without is not None:
        first, last = without.lineno - 1, without.end_lineno or without.lineno
        lines[first:last] = [b" " * without.col_offset + b"pass\n"]
    return b"".join(lines).decode()


def _renamed(source: str, name: str, statement: ast.stmt) -> str:
    tree = ast.parse(source)
    nodes = [
        node
        for node in _uses(tree, name)
        if node.lineno > statement.lineno or node.col_offset == statement.col_offset
        if node.lineno >= statement.lineno
    ]
    return _replaced(source, nodes, f"{name}_2", None)


def computed_constant(refused: Refusal, name: str) -> tuple[Attempted, ...]:
    """Return what may make a constant of a variable that the kernel computes: its expression in
    its place, or the annotation.
    """
    source = str(refused.function.src)
    tree = ast.parse(source)
    assigned = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    ]
    if len(assigned) != 1 or refused.statement() is None:
        return ()
    (statement,) = assigned
    value = ast.get_source_segment(source, statement.value) or ""
    text = ast.get_source_segment(source, statement) or ""
    annotated = f"{name}: tl.constexpr = {value}"
    nodes = [
        copy.copy(node) for node in _uses(tree, name, statement) if isinstance(node.ctx, ast.Load)
    ]
    return (
        Attempted(f"Write {annotated}.", source.replace(text, annotated)),
        Attempted(f"Write {value} in place of {name}.", _replaced(source, nodes, value, None)),
    )
