"""A graph as a script that needs torch only, for a bug report (`graph.script(node)`)."""

from __future__ import annotations

import ast

from kernellab.errors import ArgumentError, NotRecorded, suggestion
from kernellab.records.graphs import GraphNode, Level

_SCRIPT = """\
import torch
from torch import device, inf, nan


def function({parameters}):
{body}
    return {result}


def made(shape, dtype):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype, device=place)
    return torch.randint(0, 2, shape, device=place).to(dtype)


place = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
inputs = [
{inputs}
]
results = []
for called in (function, torch.compile(function)):
    torch.manual_seed(0)
    results.append(called(*[tensor.clone() for tensor in inputs]))
eager, compiled = (result.double() for result in results)
print("largest element:", eager.abs().max().item())
print("largest difference:", (compiled - eager).abs().max().item())
"""


def script(level: Level, node: str) -> str:
    """Return a script with the operations that a node is computed from, on random inputs of the
    same shapes and dtypes, which compares the node's value, eager and compiled.

    Args:
        level: an FX graph.
        node: the name of a node in it.

    Raises:
        ArgumentError: no node of that name has a tensor.
        NotRecorded: the text is not a function, a size is a symbol, or the operations call another
            graph.
    """
    nodes = {each.name: each for each in level.nodes}
    tensors = [name for name, each in nodes.items() if each.shape and each.opcode != "output"]
    if node not in tensors:
        raise ArgumentError(
            f"no node {node!r} of the graph has a tensor",
            advice=suggestion(node, tensors, "Nodes with tensors are"),
        )
    try:
        parsed = ast.parse(level.text)
        function = next(each for each in ast.walk(parsed) if isinstance(each, ast.FunctionDef))
    except (SyntaxError, ValueError, RecursionError, MemoryError, StopIteration) as error:
        raise NotRecorded("the text of the graph has no Python function") from error
    body, needed = _computing(function, node)
    if "self" in needed:
        raise NotRecorded(f"the operations of {node!r} call another graph, which has no text")
    given = [each.arg for each in function.args.args if each.arg in needed]
    return _SCRIPT.format(
        parameters=", ".join(given),
        body="\n".join(f"    {ast.unparse(statement)}" for statement in body),
        result=node,
        inputs="\n".join(f"    {_input(name, function, level)}," for name in given),
    )


def _computing(function: ast.FunctionDef, node: str) -> tuple[list[ast.stmt], set[str]]:
    """Return the statements that a value is computed by, and the names in them."""
    needed, body = {node}, list[ast.stmt]()
    for statement in reversed(function.body):
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                is_deletion = isinstance(value, ast.Constant) and value.value is None
            case _:
                continue
        if value is None or is_deletion or not (name in needed or _writes(value, needed)):
            continue
        needed |= {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
        body.append(ast.Assign([ast.Name(name)], value, lineno=0))
    return body[::-1], needed


def _writes(value: ast.expr, needed: set[str]) -> bool:
    """Whether an operation writes to a value that is needed, as `x.add_(1)` does."""
    match value:
        case ast.Call(ast.Attribute(ast.Name(owner), method)):
            return owner in needed and method.endswith("_")
    return False


def _input(name: str, function: ast.FunctionDef, level: Level) -> str:
    """Return the text that makes an input."""
    nodes: dict[str, GraphNode] = {each.name: each for each in level.nodes}
    renamed = {
        statement.value.id: statement.targets[0].id
        for statement in function.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Name)
        and isinstance(statement.targets[0], ast.Name)
    }
    node = nodes.get(name) or nodes.get(renamed.get(name, ""))
    is_known = node is not None and node.shape is not None and node.dtype is not None
    if node is None or not is_known or not all(isinstance(s, int) for s in node.shape or ()):
        raise NotRecorded(f"the sizes of the input {name!r} are symbols, or it is not a tensor")
    return f"made({node.shape}, torch.{node.dtype})"
