"""Rules for Python that a kernel cannot have."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import replace

from kernellab.triton_api.fixes.rules import (
    TABLES,
    Construct,
    Fix,
    Refusal,
    is_pointer,
    is_tile,
    kind_of,
    rule,
)
from kernellab.triton_api.fixes.types import element_of_tile


@rule(r"unsupported AST node type: (\w+)")
def _statement(_: Refusal, match: re.Match[str]) -> Fix | None:
    statement = TABLES.statement.get(match[1])
    if statement is None:
        return None
    return Fix(f"Triton does not support {statement.name}.", statement.advice)


@rule(r"'constexpr' object has no attribute 'handle'")
def _while_constant(refused: Refusal, _: re.Match[str]) -> Fix | None:
    """`while True:`."""
    if not isinstance(refused.node, ast.While):
        return None
    return Fix(
        "the condition of a while loop must be computed in the kernel, got a constant.",
        "Write the condition that ends the loop: while k < n:, where the loop changes k.",
        replaces=True,
    )


@rule(r"Ternary expression with dynamic condition has inconsistent types")
def _ternary(refused: Refusal, _: re.Match[str]) -> Fix | None:
    node = refused.node
    if not isinstance(node, ast.IfExp):
        conditionals = [node for node in refused.around() if isinstance(node, ast.IfExp)]
        node = conditionals[0] if conditionals else None
    if not isinstance(node, ast.IfExp):
        return None
    parts = [refused.text(part, 32) for part in (node.test, node.body, node.orelse)]
    written = f"tl.where({', '.join(parts)})" if all(parts) else "tl.where(condition, a, b)"
    return Fix(
        "the two values of `a if condition else b` must have one type and shape.",
        f"Write {written}, which chooses for each element.",
    )


@rule(r"Boolean value of Tensor with more than one value is ambiguous")
def _tile_as_condition(refused: Refusal, _: re.Match[str]) -> Fix:
    test = getattr(refused.node, "test", None)
    tiles = [
        f"{node.id} is {kind_of(refused.scope[node.id])}"
        for node in (ast.walk(test) if isinstance(test, ast.AST) else ())
        if isinstance(node, ast.Name) and is_tile(refused.scope.get(node.id))
    ]
    held = f" ({tiles[0]})" if tiles else ""
    return Fix(
        f"an if decides for the whole program, and its condition is a tile{held}.",
        f"Write {_chosen(refused)}, which chooses for each element; or reduce the condition to "
        "one value, by tl.max or tl.sum.",
    )


def _chosen(refused: Refusal) -> str:
    """The `tl.where` that does what an `if` around one assignment was meant to do."""
    node = refused.node
    if not isinstance(node, ast.If) or not (test := refused.text(node.test, 32)):
        return "x = tl.where(condition, a, b)"
    then, otherwise = _assigned(refused, node.body), _assigned(refused, node.orelse)
    if then and not node.orelse:
        return f"{then[0]} = tl.where({test}, {then[1]}, {then[0]})"
    if then and otherwise and then[0] == otherwise[0]:
        return f"{then[0]} = tl.where({test}, {then[1]}, {otherwise[1]})"
    return f"x = tl.where({test}, a, b)"


def _assigned(refused: Refusal, body: list[ast.stmt]) -> tuple[str, str] | None:
    """The variable and the value, as it is written, of a body that assigns once."""
    if len(body) != 1 or not isinstance(body[0], ast.Assign):
        return None
    (target, *more), value = body[0].targets, refused.text(body[0].value, 40)
    return (target.id, value) if isinstance(target, ast.Name) and value and not more else None


@rule(r"simultaneous multiple comparison is not supported")
def _chained(refused: Refusal, _: re.Match[str]) -> Fix:
    comparisons = [n for n in refused.nodes() if isinstance(n, ast.Compare) and len(n.ops) > 1]
    written, reason = "(a < b) & (b < c)", "a kernel compares two values at a time."
    if comparisons:
        sides = [_sides(value) for value in (comparisons[0].left, *comparisons[0].comparators)]
        signs = [_SIGNS.get(type(op), "") for op in comparisons[0].ops]
        joints = [" & " if sign is None else sign for _, sign, _ in sides[1:-1]]
        texts = [(refused.text(left), refused.text(right)) for left, _, right in sides]
        if all(signs) and all(map(all, texts)):
            parts = [f"({a[1]} {s} {b[0]})" for a, s, b in zip(texts, signs, texts[1:])]
            written = "".join(itertools.chain(*zip(parts, (*joints, ""))))
        if precedes := next((sign.strip() for _, sign, _ in sides if sign), ""):
            reason = f"{precedes} takes precedence over comparisons, so this line chains them."
    return Fix(reason, f"Write {written}.")


def _sides(value: ast.expr) -> tuple[ast.expr, str | None, ast.expr]:
    """Return what a chain compares with its left and its right neighbor: for `i < M & j < N`, M
    and j, which & joins.
    """
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitAnd | ast.BitOr):
        return value.left, " & " if isinstance(value.op, ast.BitAnd) else " | ", value.right
    return value, None, value


_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


@rule(r"__setitem__ is not supported in triton")
def _assigned_element(refused: Refusal, _: re.Match[str]) -> Fix:
    statement = refused.statement()
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    target = targets[0]
    name = refused.text(target.value, 24) if isinstance(target, ast.Subscript) else ""
    is_one = isinstance(target, ast.Subscript) and not isinstance(
        target.slice, ast.Slice | ast.Tuple
    )
    index = refused.text(target.slice, 16) if is_one else ""
    value = refused.scope.get(name)
    if value is not None and not is_tile(value):
        return Fix(
            f"{name} is {kind_of(value)}, and [] does not store.",
            f"Write tl.store({name} + {index or 'offset'}, value).",
        )
    name = name if name.isidentifier() else "x"
    written = (
        f"Write {name} = tl.where(offsets == {index or 'k'}, value, {name}), with the offsets of "
    )
    if not is_one:
        written = (
            f"Store the part to memory, or write {name} = tl.where(mask, value, {name}), where "
        )
        written += (
            "value has the shape of the whole, and mask is true for the part: from the offsets of "
        )
    return Fix(
        f"elements of a tile cannot be assigned, and {name} is a tile.", f"{written}its elements."
    )


@rule(r"`_semantic` argument must be provided outside of JIT functions")
def _read_element(refused: Refusal, _: re.Match[str]) -> Fix | None:
    """x_ptr[i], or x[i] of a tile, which Triton takes for a call of a method."""
    element = next((node for node in refused.nodes() if isinstance(node, ast.Subscript)), None)
    name = refused.text(element.value, 24) if element is not None else ""
    value = refused.scope.get(name)
    if element is not None and is_tile(value):
        return replace(element_of_tile(name), replaces=True)
    if element is None or not is_pointer(value):
        return None
    place = f"{name} + {refused.text(element.slice, 16) or 'offsets'}"
    kind = kind_of(value)
    line = refused.text(refused.statement(), 80)
    if match := re.fullmatch(r"(\w+)\[([^=\]]+)\]\s*=\s*[^=].*", line):  # z_ptr[i] = value
        pointer, offset = match.groups()
        stored = f"tl.store({pointer} + {offset}, value)"
        return Fix(
            f"{name} is {kind}; {name}[...] neither loads nor stores.",
            f"Write tl.load({place}) for {refused.text(element)}, and {stored} for the assignment.",
            True,
        )
    # x_ptr[i] += 1, of which Triton makes an assignment
    if match := re.fullmatch(r"[^=]+\]\s*([-+*/%&|^]|//|<<|>>)=\s*(.+)", line):
        sign, by = match.groups()
        advice = f"Write tl.store({place}, tl.load({place}) {sign} {by})"
        if sign == "+":
            advice += f"; where several elements or programs add, tl.atomic_add({place}, {by})"
        return Fix(f"{name} is {kind}; {name}[...] neither loads nor stores.", f"{advice}.", True)
    return Fix(
        f"{name} is {kind}; {name}[...] does not load from it.", f"Write tl.load({place}).", True
    )


@rule(r"^ValueError: '(append|extend|insert|pop|remove|clear|sort)' is not in list")  # Triton 3.6
@rule(r"'tuple' object has no attribute '?(append|extend|insert|pop|remove|clear|sort)\b")
def _grown_list(refused: Refusal, match: re.Match[str]) -> Fix:
    method = next((node for node in refused.nodes() if isinstance(node, ast.Attribute)), None)
    name = refused.text(method.value, 24) if method is not None else ""
    name = name if name.isidentifier() else "values"
    return Fix(
        f"{name} is a tuple in a kernel, and has no {match[1]}: its length is fixed at compile "
        "time.",
        f"Write {name} = {name} + [value], outside of loops or in tl.static_range.",
        replaces=True,
    )


@rule(r"type of return operand \d+ .*doesn't match function result type")
@rule(r"failed to legalize operation 'tt\.return'")
def _returned_value(refused: Refusal, _: re.Match[str]) -> Fix | None:
    tree = ast.walk(refused.function.parse())
    given = next((node.value for node in tree if isinstance(node, ast.Return) and node.value), None)
    if given is None:
        return None
    value = refused.text(given) or "value"
    return Fix(
        f"a kernel cannot return a value, and this one returns {value}.",
        f"Store it in a tensor of the launch: tl.store(out_ptr + offsets, {value}), without the "
        "return.",
        replaces=True,
    )


@rule(r"nested function definitions? (?:is|are) not|^StopIteration\(\)")
def _nested_function(refused: Refusal, _: re.Match[str]) -> Fix | None:
    node = refused.node
    inner = [n for n in ast.walk(refused.function.parse()) if isinstance(n, ast.FunctionDef)][1:]
    if not inner and not isinstance(node, ast.FunctionDef):
        return None
    name = inner[0].name if inner else "it"
    return Fix(
        f"a kernel cannot define a function, {name}, in itself.",
        f"Put {name} at the top of the module with @triton.jit above it.",
        replaces=True,
    )


@rule(
    r"Only `range` and `static_range` iterators"
    r"|^AttributeError: '\w+' object has no attribute 'func'"
)
def _iterator(refused: Refusal, _: re.Match[str]) -> Fix | None:
    loop = refused.statement()
    if not isinstance(loop, ast.For):
        return None
    over = refused.text(loop.iter)
    return Fix(
        f"a for loop iterates over range, tl.range or tl.static_range, not over {over or 'this'}.",
        "Write for k in range(n), and compute the values from k (a tuple may be indexed in "
        "tl.static_range).",
        replaces=True,
    )


@rule(r"AST (?:binary|boolean|comparison|unary) operator '(\w+)' is not")
@rule(r"^AttributeError: '(MatMult|In|NotIn|Pow)' object has no attribute '__name__'")
def _operator(refused: Refusal, match: re.Match[str]) -> Fix:
    # Triton 3.6 to 3.8 fail over the name of the operator.
    operator = TABLES.operator.get(match[1])
    if operator is None:
        operator = Construct(match[1], "Write it by +, -, *, /, //, %, &, | and ^.")
    left = getattr(refused.node, "left", None)
    name = left.id if isinstance(left, ast.Name) else "x"
    advice = re.sub(r"\bx\b", name, operator.advice)
    return Fix(f"Triton does not support the operator {operator.name!r}.", advice, replaces=True)
