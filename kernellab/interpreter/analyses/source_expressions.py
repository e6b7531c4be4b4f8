"""The expressions that the kernel's author wrote, by where the compiler says that they are."""

from __future__ import annotations

import ast
from functools import lru_cache

from xdsl.ir import Operation, OpResult, SSAValue

from kernellab import triton_api
from kernellab.errors import SourcePosition, source_lines
from kernellab.ir import arith
from kernellab.ir.locations import locate

_OPERATORS: dict[type[Operation], type[ast.operator | ast.cmpop]] = {
    arith.AddIOp: ast.Add,
    arith.SubIOp: ast.Sub,
    arith.MulIOp: ast.Mult,
    arith.DivSIOp: ast.FloorDiv,
    arith.DivUIOp: ast.FloorDiv,
    arith.RemSIOp: ast.Mod,
    arith.RemUIOp: ast.Mod,
    arith.AndIOp: ast.BitAnd,
    arith.OrIOp: ast.BitOr,
    arith.XOrIOp: ast.BitXor,
}


def expression_of(value: SSAValue) -> str | None:
    """Return the source of an integer operation or a comparison, "k * BK + rk"; None where that is
    not certain.
    """
    if not isinstance(value, OpResult) or not (frames := locate(value.op.location).frames):
        return None
    here = frames[0]
    source = "".join(source_lines(here.file))
    nodes = [
        node
        for node in _operations(source).get((here.line, here.column), ())
        if _is_written_as(node, value.op)
    ]
    rank = _nested(value.op)
    if not 0 <= rank < len(nodes):
        return None
    return " ".join((ast.get_source_segment(source, nodes[rank]) or "").split()) or None


def _is_written_as(node: ast.expr, op: Operation) -> bool:
    if isinstance(node, ast.Compare):
        return isinstance(op, arith.CmpIOp) and len(node.ops) == 1
    return isinstance(node, ast.BinOp) and type(node.op) is _OPERATORS.get(type(op))


def _nested(op: Operation) -> int:
    """Count the operations of the same kind at the same location that an operation's operand is
    computed by. Where locations are those of whole expressions, `a + b + c` has one, `a + b`, in
    its left operand; otherwise `a + (b + c)` has one in its right operand.
    """
    side = 0 if triton_api.LOCATES_WHOLE_EXPRESSIONS else -1
    frames, count, value = locate(op.location).frames, 0, op.operands[side]
    while isinstance(value, OpResult) and value.op.operands:
        if type(value.op) is type(op) and locate(value.op.location).frames == frames:
            count += 1
        value = value.op.operands[side]
    return count


@lru_cache(maxsize=8)
def _operations(source: str) -> dict[tuple[int, int], tuple[ast.expr, ...]]:
    """Return the operations and comparisons of a source by the line and column (from 1) that
    Triton's locations give them, the shorter ones first. A cell's magics are left out.
    """
    tree = _parsed(source)
    if tree is None:
        return {}
    operations: dict[tuple[int, int], list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.Compare):
            start = node if triton_api.LOCATES_WHOLE_EXPRESSIONS else _visited_last(node)
            operations.setdefault((start.lineno, start.col_offset + 1), []).append(node)
    return {place: tuple(sorted(nodes, key=_length)) for place, nodes in operations.items()}


@lru_cache(maxsize=8)
def _parsed(source: str) -> ast.Module | None:
    """Return the parsed source without a cell's magics; None if it is not Python."""
    lines = ("" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n"))
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def names_around(value: SourcePosition) -> frozenset[str]:
    """Return the names that the function around a line uses."""
    tree = _parsed("".join(source_lines(value.file)))
    functions = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.FunctionDef)
        and node.lineno <= value.line <= (node.end_lineno or node.lineno)
    ]
    if not functions:
        return frozenset()
    innermost = max(functions, key=lambda node: node.lineno)
    return frozenset(node.id for node in ast.walk(innermost) if isinstance(node, ast.Name))


def _visited_last(node: ast.expr) -> ast.expr:
    """What is visited last of an expression: itself, where it has no parts."""
    match node:
        case ast.BinOp(right=part):
            return _visited_last(part)
        case ast.Compare(comparators=[*_, part]):
            return _visited_last(part)
        case ast.UnaryOp(operand=part) | ast.Attribute(value=part) | ast.Subscript(slice=part):
            return _visited_last(part)
        case ast.Tuple(elts=[*_, part]):
            return _visited_last(part)
        case ast.Call(args=[*_, part], keywords=[]):
            return _visited_last(part)
        case _:
            return node


def _length(node: ast.expr) -> tuple[int, int]:
    lines = (node.end_lineno or node.lineno) - node.lineno
    return lines, (node.end_col_offset or 0) - (0 if lines else node.col_offset)
